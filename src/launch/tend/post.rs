//! A member's mail for the loop of its `tend`, which never waits: one thread watches the inbox, one writes, since a lock
//! may have to be waited for.

use crate::protocol::{AgentName, Entry};
use crate::store::TeamStore;
use crate::sys::outlet::set_nonblocking;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for the inbox to change, and so for the watching thread to end.
const WATCH_AT_MOST: Duration = Duration::from_secs(1);
/// How often a write is tried before it is given up.
const WRITES_MAX: u32 = 5;
/// Longest wait for what is still to be written when `tend` ends.
const WRITTEN_WITHIN: Duration = Duration::from_secs(5);

/// Something to be written.
enum Job {
    MarkRead(String),
    Send(Box<Entry>),
}

/// What lies unread, or why that is not known.
pub(super) type News = Result<Vec<Entry>, String>;

/// Both threads.
pub(super) struct Post {
    store: TeamStore,
    agent: AgentName,
    is_over: Arc<AtomicBool>,
    news: Receiver<News>,
    wake: PipeReader,
    jobs: Option<Sender<Job>>,
    waiting: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Post {
    /// Begins to watch an inbox.
    pub(super) fn open(store: &TeamStore, agent: &AgentName) -> io::Result<Post> {
        let (wake, waker) = io::pipe()?;
        let mut written = waker.try_clone()?;
        set_nonblocking(&wake)?;
        let (news_in, news) = channel();
        let (jobs, jobs_out) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let watcher = {
            let (store, agent, is_over) = (store.clone(), agent.clone(), Arc::clone(&is_over));
            std::thread::Builder::new().name("inbox".to_owned()).spawn(move || {
                watch(&store, &agent, (&is_over, &news_in, waker));
            })?
        };
        let waiting = Arc::new(AtomicUsize::new(0));
        let clerk = {
            let (store, agent, waiting) = (store.clone(), agent.clone(), Arc::clone(&waiting));
            std::thread::Builder::new().name("clerk".to_owned()).spawn(move || {
                for job in &jobs_out {
                    write(&store, &agent, &job);
                    waiting.fetch_sub(1, Ordering::SeqCst);
                    // Nobody reads it once `tend` ends.
                    let _ = written.write_all(b"w");
                }
            })?
        };
        let (store, agent) = (store.clone(), agent.clone());
        Ok(Post {
            store,
            agent,
            is_over,
            news,
            wake,
            jobs: Some(jobs),
            waiting,
            threads: vec![watcher, clerk],
        })
    }

    /// What lies unread, if that has changed; or why the inbox cannot be read.
    pub(super) fn news(&mut self) -> Option<News> {
        // The bytes only wake; the channel has what there is to know.
        while self.wake.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
        self.news.try_iter().last()
    }

    /// Marks a message as read, soon.
    pub(super) fn mark_read(&self, identity: String) {
        self.give(Job::MarkRead(identity));
    }

    /// Sends a message to the leader, soon.
    pub(super) fn send(&self, entry: Entry) {
        self.give(Job::Send(Box::new(entry)));
    }

    /// Whether something is still to be written.
    pub(super) fn is_writing(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            // The thread ends only after this end is closed.
            let _ = jobs.send(job);
        }
    }
}

impl AsFd for Post {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        self.jobs = None;
        self.store.poke(&self.agent);
        let give_up_at = Instant::now() + WRITTEN_WITHIN;
        // A thread that still waits for a lock must not be cut off in the middle of its write.
        while self.threads.iter().any(|thread| !thread.is_finished()) && Instant::now() < give_up_at {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn watch(
    store: &TeamStore,
    agent: &AgentName,
    (is_over, news, mut waker): (&AtomicBool, &Sender<News>, PipeWriter),
) {
    let mut mail = store.watch_mail(agent);
    while !is_over.load(Ordering::SeqCst) {
        if mail.has_changed() {
            let unread = match store.mailbox(agent).unread() {
                Ok(unread) => Ok(unread.entries),
                Err(e) => {
                    // It is read again, though its file stays the same.
                    mail.forget();
                    Err(format!("its inbox cannot be read: {e}"))
                }
            };
            if news.send(unread).is_err() || waker.write_all(b"m").is_err() {
                return;
            }
        }
        mail.wait(WATCH_AT_MOST);
    }
}

/// What cannot be written is logged: the message comes again with the next `tend`, or the leader looks by itself.
fn write(store: &TeamStore, agent: &AgentName, job: &Job) {
    for _ in 0..WRITES_MAX {
        let done = match job {
            Job::MarkRead(identity) => store.mailbox(agent).mark_read(std::slice::from_ref(identity)),
            Job::Send(entry) => store.mailbox(&AgentName::lead()).append(entry),
        };
        match done {
            Ok(()) | Err(crate::store::Error::NoTeam(_)) => return,
            Err(e) => tracing::warn!(member = %agent, error = %e, "mail not written"),
        }
    }
}
