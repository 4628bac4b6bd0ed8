//! What `tend` does for a program of the table of drivers: it reads the state off the screen, and gives mail by typing.

use super::Tend;
use super::feed::{Act, Feed, View};
use super::post::Post;
use crate::config::drivers::MailForm;
use crate::driver::letter;
use crate::driver::table::Eyes;
use crate::store::{Doing, LaunchFile, Sight, TeamStore, notice};
use std::time::{Duration, Instant};

/// Grace of a program that the leader asked to shut down.
const SHUT_DOWN_WITHIN: Duration = Duration::from_secs(10);
/// A shorter grace leaves no time for a line that ends the program.
const LINE_TAKES: Duration = Duration::from_secs(2);
/// Pause between that line and the keys that send it: programs take quick keys for a part of a paste.
const SUBMIT_AFTER: Duration = Duration::from_millis(300);
/// How often a dialog is answered, and how long it must stand before.
const ANSWERS_MAX: u32 = 3;
const DIALOG_STANDS: Duration = Duration::from_millis(400);

/// A program of the table.
pub(super) struct Feeding {
    eyes: Eyes,
    /// Something was being written when it was looked at last.
    was_writing: bool,
    /// Nothing, where the program is given its mail as arguments.
    typed: Option<(Feed, Post)>,
    /// Why its mail is not even read.
    mail_trouble: Option<String>,
    look_at: Option<Instant>,
    printed_at: Instant,
    dialog_since: Option<Instant>,
    answers: u32,
    /// The line that ends it, and the keys that send it.
    end: Option<(String, String)>,
    submit_at: Option<Instant>,
    /// It was typed the line that ends it; without an effect it gets TERM then.
    pub(super) term_at: Option<Instant>,
}

impl Feeding {
    /// For a member whose program stands in the table.
    pub(super) fn of(launch: &LaunchFile, store: &TeamStore) -> Option<Feeding> {
        let entry = launch.entry.as_ref()?;
        let mut mail_trouble = None;
        let mut typed = None;
        if entry.mail == MailForm::Type {
            let preamble = letter::preamble(&launch.agent, &launch.team);
            let dir = store.state().letters(&launch.agent);
            match Post::open(store, &launch.agent) {
                Ok(post) => typed = Some((Feed::new(&launch.agent, preamble, (entry, dir)), post)),
                Err(e) => {
                    mail_trouble = Some(format!("its mail stays unread: its inbox cannot be watched: {e}"));
                }
            }
        }
        let end = entry.end.as_ref().filter(|_| entry.mail == MailForm::Type);
        let end = end.map(|line| (format!("{}{line}", entry.clear), entry.submit.clone()));
        Some(Feeding {
            eyes: Eyes::of(entry),
            typed,
            mail_trouble,
            was_writing: false,
            look_at: None,
            printed_at: Instant::now(),
            dialog_since: None,
            answers: 0,
            end,
            submit_at: None,
            term_at: None,
        })
    }

    pub(super) fn post(&self) -> Option<&Post> {
        self.typed.as_ref().map(|(_, post)| post)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.look_at.into_iter().chain(self.end_due()).min()
    }

    /// When the end goes on, once it has begun.
    pub(super) fn end_due(&self) -> Option<Instant> {
        self.submit_at.into_iter().chain(self.term_at).min()
    }

    /// Begins the end by the program's own line, if it has one and there is time for it. Answers the line.
    fn end_line(&mut self, grace: Duration) -> Option<String> {
        let (line, _) = self.end.as_ref().filter(|_| grace >= LINE_TAKES)?;
        let now = Instant::now();
        (self.submit_at, self.term_at) = (Some(now + SUBMIT_AFTER), Some(now + grace / 2));
        Some(line.clone())
    }

    /// Whether it could be typed to now: it is seen to be idle, nothing is under way, and nobody types.
    fn waits_for_input(&self, screen: &str) -> bool {
        let sight = self.eyes.sight(screen, self.printed_at.elapsed());
        let is_free = self.typed.as_ref().is_none_or(|(feed, _)| feed.is_free(Instant::now()));
        is_free && sight.is_some_and(|s| s.doing == Doing::Idle)
    }

    /// Whether the line that ends it may be sent: nothing asks meanwhile, and nobody has typed.
    fn may_send_end(&self, screen: &str) -> bool {
        let sight = self.eyes.sight(screen, self.printed_at.elapsed());
        let is_free = self.typed.as_ref().is_none_or(|(feed, _)| feed.is_free(Instant::now()));
        is_free && sight.is_none_or(|s| s.doing != Doing::NeedsHuman)
    }

    /// What the screen tells; trouble with the mail counts more, and a dialog that is answered by itself does not count.
    fn sight(&self, screen: &str) -> Option<Sight> {
        let sight = self.eyes.sight(screen, self.printed_at.elapsed())?;
        if sight.doing == Doing::NeedsHuman
            && self.answers < ANSWERS_MAX
            && self.eyes.answer(screen).is_some()
        {
            return None;
        }
        if sight.doing != Doing::Idle {
            return Some(sight);
        }
        if let Some(why) = &self.mail_trouble {
            return Some(Sight::of_a_person(why.clone()));
        }
        let Some((feed, post)) = &self.typed else { return Some(sight) };
        // Idle is only what has told its leader so: whoever sees it idle may end the team.
        if feed.is_in_turn() || post.is_writing() {
            return Some(Sight::new(Doing::Working));
        }
        Some(feed.trouble().map_or(sight, |why| Sight::of_a_person(why.to_owned())))
    }
}

/// What reached a terminal as an answer of another terminal, not from a person.
fn is_report(bytes: &[u8]) -> bool {
    match bytes {
        [0x1b, b'[', b'I' | b'O'] => true,
        [0x1b, b'[', .., last] => matches!(last, b'R' | b'c' | b'n' | b'y' | b'u') && bytes.len() < 64,
        [0x1b, b']' | b'P' | b'_', ..] => true,
        _ => false,
    }
}

impl Tend {
    /// The program was started.
    pub(super) fn begin_to_feed(&mut self) {
        let Some(feeding) = &mut self.feeding else { return };
        let now = Instant::now();
        (feeding.printed_at, feeding.answers, feeding.dialog_since) = (now, 0, None);
        (feeding.submit_at, feeding.term_at) = (None, None);
        feeding.look_at = Some(now);
        if let Some((feed, _)) = &mut feeding.typed {
            feed.begin_anew();
        }
    }

    /// It has printed something.
    pub(super) fn is_to_be_fed(&mut self) {
        let Some(feeding) = &mut self.feeding else { return };
        feeding.printed_at = Instant::now();
        feeding.look_at.get_or_insert(feeding.printed_at + Duration::from_millis(100));
    }

    /// It is seen to do something else: mail may go on.
    pub(super) fn is_to_be_fed_now(&mut self) {
        if let Some(feeding) = &mut self.feeding {
            feeding.look_at = Some(Instant::now());
        }
    }

    /// Somebody typed at its terminal.
    pub(super) fn person_typed(&mut self, bytes: &[u8]) {
        if is_report(bytes) {
            return;
        }
        if let Some((feed, _)) = self.feeding.as_mut().and_then(|feeding| feeding.typed.as_mut()) {
            feed.person_typed(Instant::now());
        }
    }

    /// What a program of the table is doing, and when its silence will say more.
    pub(super) fn sight_of_table(&self) -> Option<(Option<Sight>, Option<Instant>)> {
        let feeding = self.feeding.as_ref()?;
        let sight = feeding.sight(&self.screen.rows());
        let quiet_at = feeding.eyes.quiet().map(|quiet| feeding.printed_at + quiet);
        Some((sight, quiet_at.filter(|at| *at > Instant::now())))
    }

    /// Gives mail, if it is time to.
    pub(super) fn feed(&mut self) {
        let now = Instant::now();
        let Some(mut feeding) = self.feeding.take() else { return };
        if let Some((feed, post)) = &mut feeding.typed
            && let Some(news) = post.news()
        {
            let trouble = match news {
                Ok(unread) => {
                    feed.has_mail(unread);
                    None
                }
                Err(why) => Some(format!("its mail stays unread: {why}")),
            };
            if feeding.mail_trouble != trouble {
                feeding.mail_trouble = trouble;
                self.has_printed();
            }
            feeding.look_at.get_or_insert(now);
        }
        let is_writing = feeding.post().is_some_and(Post::is_writing);
        if std::mem::replace(&mut feeding.was_writing, is_writing) && !is_writing {
            self.has_printed();
        }
        // Before, its screen says nothing about its input; it is fed as soon as it is.
        let is_ready = self.record.sight.as_ref().is_some_and(|s| s.doing != Doing::Starting);
        if feeding.submit_at.is_some_and(|at| now >= at) {
            feeding.submit_at = None;
            let keys = feeding.end.as_ref().filter(|_| feeding.may_send_end(&self.screen.rows()));
            if let Some((_, keys)) = keys {
                self.type_in(keys.as_bytes());
            }
        }
        if feeding.term_at.is_some_and(|at| now >= at) {
            feeding.term_at = None;
            self.terminate();
        }
        if self.child.is_some() && self.ending.is_none() && feeding.look_at.is_some_and(|at| now >= at) {
            feeding.look_at = None;
            let screen = self.screen.rows();
            self.answer_dialog(&mut feeding, &screen);
            if is_ready {
                self.step(&mut feeding, &screen);
            }
        }
        self.feeding = Some(feeding);
    }

    fn answer_dialog(&mut self, feeding: &mut Feeding, screen: &str) {
        let Some(keys) = feeding.eyes.answer(screen) else {
            feeding.dialog_since = None;
            return;
        };
        let now = Instant::now();
        let since = *feeding.dialog_since.get_or_insert(now);
        if now < since + DIALOG_STANDS {
            feeding.look_at = Some(since + DIALOG_STANDS);
        } else if feeding.typed.as_ref().is_some_and(|(feed, _)| !feed.person_is_quiet(now)) {
            // A person is answering it.
            feeding.look_at = Some(now + DIALOG_STANDS);
        } else if feeding.answers < ANSWERS_MAX {
            let keys = keys.as_bytes().to_vec();
            (feeding.answers, feeding.dialog_since) = (feeding.answers + 1, None);
            feeding.look_at = Some(now + DIALOG_STANDS);
            self.type_in(&keys);
        }
    }

    fn step(&mut self, feeding: &mut Feeding, screen: &str) {
        let now = Instant::now();
        let Some((feed, post)) = &mut feeding.typed else { return };
        let sight = feeding.eyes.sight(screen, feeding.printed_at.elapsed());
        let lowest = feeding.eyes.lowest(screen);
        let view = View {
            now,
            doing: sight.map(|s| s.doing),
            screen,
            lowest: &lowest,
            cursor: self.screen.cursor_row(),
            idle_row: feeding.eyes.idle_row(screen),
            shows_paste: feeding.eyes.shows_paste(screen),
            is_bracketed: self.screen.wants_bracketed_paste(),
        };
        let had_trouble = feed.trouble().is_some();
        let acts = feed.step(&view);
        let mut request = None;
        for act in acts {
            match act {
                Act::Keys(keys) => self.type_in(&keys),
                Act::Put(path, text) => match letter::put(&path, &text) {
                    Ok(()) => feed.has_put(),
                    // Nothing is typed that leads nowhere.
                    Err(why) => {
                        feed.could_not_put(&why, now);
                        break;
                    }
                },
                Act::Taken(identity) => {
                    self.set_sight(Sight::new(Doing::Working));
                    post.mark_read(identity);
                }
                Act::TurnEnded(said) => {
                    let failure = feeding.eyes.failure(&said);
                    post.send(notice::idle(&self.launch.agent, said, failure));
                    self.has_printed();
                }
                Act::ShutDown(text) => {
                    post.send(notice::agreement(&self.launch.agent, &text));
                    request = Some(text);
                }
            }
        }
        // What it does is seen anew, with its trouble.
        if had_trouble != feed.trouble().is_some() {
            self.has_printed();
        }
        feeding.look_at = match (feeding.look_at, feed.due(now)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if request.is_some() {
            self.end_by_line(feeding, SHUT_DOWN_WITHIN, "it was asked to shut down");
        }
    }

    /// Ends a program by the line that its row names, where there is one; it gets TERM when half the grace is over.
    fn end_by_line(&mut self, feeding: &mut Feeding, grace: Duration, why: &'static str) {
        match feeding.end_line(grace) {
            Some(line) => {
                self.type_in(line.as_bytes());
                self.end_without_term(grace, why);
            }
            None => self.end(grace, why),
        }
    }

    /// Types the line that ends the program, if it waits for input. Answers whether it did; TERM follows then.
    pub(super) fn is_ended_by_line(&mut self, grace: Duration) -> bool {
        let rows = self.screen.rows();
        let line = self.feeding.as_mut().filter(|f| f.waits_for_input(&rows)).and_then(|f| f.end_line(grace));
        line.as_ref().map(|line| self.type_in(line.as_bytes())).is_some()
    }
}
