//! Figures of the mail (`scripts/bench mail`): writers into one inbox beside peers, big inboxes, wake-ups. Not a test: it
//! prints a table, and every figure stands beside a peer's or a floor's of the same run.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, clippy::print_stderr)]
#![allow(
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use throng::protocol::{AgentName, Entry, Layout, TeamName, timestamp};
use throng::store::{Store, TeamStore};

/// Writers, and messages of each.
const ROUNDS: [(usize, usize); 3] = [(8, 25), (16, 50), (32, 100)];
const BUDGET: Duration = Duration::from_secs(60);

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["writer", root, number, messages] => writer(Path::new(root), number, messages.parse().unwrap()),
        ["lines", root, team] => lines(&team_at(Path::new(root), team)),
        [] | ["all"] => {
            let bench = Bench::new();
            bench.writers();
            bench.big_inbox();
            bench.wake(1);
            bench.wake(200);
        }
        ["writers"] => Bench::new().writers(),
        ["big"] => Bench::new().big_inbox(),
        ["wake"] => [1, 200].into_iter().for_each(|n| Bench::new().wake(n)),
        _ => eprintln!("usage: mail [all | writers | big | wake]"),
    }
}

fn store(root: &Path) -> TeamStore {
    team_at(root, "bench")
}

fn team_at(root: &Path, team: &str) -> TeamStore {
    let layout = Layout {
        config_dir: root.join("claude"),
        state_dir: root.join("state"),
        runtime_dir: root.join("run/throng"),
    };
    Store::new(layout, BUDGET).team(&TeamName::new(team).unwrap())
}

/// A long-lived writer of `scripts/chaos`: sends each line, an object of `to`, `from` and `text`, and says what became of it.
fn lines(store: &TeamStore) {
    for line in std::io::stdin().lock().lines() {
        let letter: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let part = |key: &str| letter[key].as_str().unwrap();
        let id = uuid::Uuid::new_v4().to_string();
        let entry = Entry::new(part("from"), part("text"), &timestamp::format(SystemTime::now()), &id);
        match store.mailbox(&AgentName::new(part("to")).unwrap()).append(&entry) {
            Ok(()) => println!("ok"),
            Err(e) => println!("failed {e}"),
        }
    }
}

/// A long-lived writer of ours: waits for a line, sends, prints one latency in microseconds a message, then its errors.
fn writer(root: &Path, number: &str, messages: usize) {
    let store = store(root);
    let bob = AgentName::new("bob").unwrap();
    let mut out = String::new();
    let mut errors = 0;
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
    for i in 0..messages {
        let start = Instant::now();
        let id = uuid::Uuid::new_v4().to_string();
        let text = text_of(number, i);
        let entry = Entry::new("team-lead", &text, &timestamp::format(SystemTime::now()), &id);
        match store.mailbox(&bob).append(&entry) {
            Ok(()) => out.push_str(&format!("{}\n", start.elapsed().as_micros())),
            Err(_) => errors += 1,
        }
    }
    println!("{out}errors {errors}");
}

fn text_of(writer: &str, i: usize) -> String {
    format!(
        "message {i} of writer {writer}: the build is green and the tests of the parser pass; what is next?"
    )
}

/// What a round of writers came to.
#[derive(Default)]
struct Figures {
    landed: usize,
    errors: usize,
    seconds: f64,
    latencies_ms: Vec<f64>,
}

impl Figures {
    fn at(&self, part: f64) -> f64 {
        let mut sorted = self.latencies_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let index = ((sorted.len() as f64 * part).ceil() as usize).saturating_sub(1);
        sorted.get(index).copied().unwrap_or(f64::NAN)
    }

    fn rate(&self) -> f64 {
        self.landed as f64 / self.seconds
    }
}

struct Bench {
    root: PathBuf,
    throng: PathBuf,
    peers: Option<PathBuf>,
}

impl Bench {
    fn new() -> Bench {
        let root = std::env::temp_dir().join(format!("throng-bench.{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let throng =
            PathBuf::from(std::env::var_os("THRONG_BENCH_PROGRAM").expect("run it by scripts/bench"));
        Bench { root, throng, peers: std::env::var_os("THRONG_BENCH_PEERS").map(PathBuf::from) }
    }

    /// A fresh team with this bob's inbox.
    fn team(&self, inbox: &[u8]) -> TeamStore {
        for dir in ["claude", "state", "run"] {
            let _ = fs::remove_dir_all(self.root.join(dir));
        }
        let team = self.root.join("claude/teams/bench");
        fs::create_dir_all(team.join("inboxes")).unwrap();
        let rows =
            r#"[{"agentId":"team-lead@bench","name":"team-lead"},{"agentId":"bob@bench","name":"bob"}]"#;
        let config = format!(
            r#"{{"name":"bench","createdAt":1,"leadAgentId":"team-lead@bench","leadSessionId":"x","members":{rows}}}"#
        );
        fs::write(team.join("config.json"), config).unwrap();
        fs::write(self.inbox(), inbox).unwrap();
        let store = store(&self.root);
        store.create_state().unwrap();
        store
    }

    fn inbox(&self) -> PathBuf {
        self.root.join("claude/teams/bench/inboxes/bob.json")
    }

    fn call(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.throng);
        command.args(args).args(["--team", "bench"]);
        command.env("CLAUDE_CONFIG_DIR", self.root.join("claude"));
        command.env("THRONG_STATE_DIR", self.root.join("state"));
        command.env("XDG_RUNTIME_DIR", self.root.join("run"));
        command.stdin(Stdio::null());
        command
    }

    fn writers(&self) {
        println!(
            "\nWriters into one inbox (P2). Ratios: rate against the node writer on proper-lockfile, same round."
        );
        println!("| writers | who | landed | errors | seconds | messages/s | p50 ms | p99 ms | ratio |");
        println!("|---|---|---|---|---|---|---|---|---|");
        for (writers, messages) in ROUNDS {
            let me = std::env::current_exe().unwrap();
            let peer = |script: &str, number: usize| {
                let mut node = Command::new("node");
                node.arg(self.peers.as_ref().unwrap().join(script));
                node.arg(&self.root).arg(number.to_string()).arg(messages.to_string());
                node
            };
            let node =
                self.peers.as_ref().map(|_| self.round(writers, messages, &|n| peer("lockfile.mjs", n)));
            let controller =
                self.peers.as_ref().filter(|p| p.join("node_modules/claude-code-controller").exists());
            let controller =
                controller.map(|_| self.round(writers, messages, &|n| peer("controller.mjs", n)));
            let ours = self.round(writers, messages, &|number| {
                let mut writer = Command::new(&me);
                writer.arg("writer").arg(&self.root).arg(number.to_string()).arg(messages.to_string());
                writer
            });
            let sends = self.sends(writers, messages);
            let base = node.as_ref().map(Figures::rate);
            let line = |who: &str, f: &Figures| {
                let ratio = base.map_or("-".to_owned(), |base| format!("{:.1}", f.rate() / base));
                println!(
                    "| {writers}x{messages} | {who} | {} of {} | {} | {:.2} | {:.0} | {:.1} | {:.1} | {ratio} |",
                    f.landed,
                    writers * messages,
                    f.errors,
                    f.seconds,
                    f.rate(),
                    f.at(0.5),
                    f.at(0.99)
                );
            };
            line("throng, long-lived writers", &ours);
            line("throng send, a process a message", &sends);
            node.iter().for_each(|f| line("node, proper-lockfile, no fsync", f));
            controller.iter().for_each(|f| line("npm claude-code-controller", f));
        }
    }

    /// Starts the writers, lets them go at once, and counts what landed.
    fn round(&self, writers: usize, messages: usize, make: &dyn Fn(usize) -> Command) -> Figures {
        self.team(b"[]");
        let mut children: Vec<(Child, BufReader<std::process::ChildStdout>)> = (0..writers)
            .map(|n| {
                let mut child = make(n).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
                let mut out = BufReader::new(child.stdout.take().unwrap());
                out.read_line(&mut String::new()).unwrap();
                (child, out)
            })
            .collect();
        let start = Instant::now();
        for (child, _) in &mut children {
            child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        }
        let mut figures = Figures::default();
        for (mut child, mut out) in children {
            let mut text = String::new();
            out.read_to_string(&mut text).unwrap();
            child.wait().unwrap();
            for line in text.lines() {
                match line.strip_prefix("errors ") {
                    Some(errors) => figures.errors += errors.parse::<usize>().unwrap(),
                    None => figures.latencies_ms.push(line.parse::<f64>().unwrap() / 1000.0),
                }
            }
        }
        figures.seconds = start.elapsed().as_secs_f64();
        figures.landed = self.landed(writers, messages);
        figures
    }

    /// How many distinct messages of the round are in the file.
    fn landed(&self, writers: usize, messages: usize) -> usize {
        let text = fs::read_to_string(self.inbox()).unwrap();
        let entries: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap_or_default();
        let mut texts: Vec<&str> = entries.iter().filter_map(|e| e["text"].as_str()).collect();
        assert!(texts.len() <= writers * messages, "doubled: {} of {}", texts.len(), writers * messages);
        texts.sort_unstable();
        texts.dedup();
        texts.len()
    }

    /// `throng send`, one process a message, as many at a time as there are writers.
    fn sends(&self, writers: usize, messages: usize) -> Figures {
        self.team(b"[]");
        let start = Instant::now();
        let parts: Vec<Figures> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..writers)
                .map(|n| {
                    scope.spawn(move || {
                        let mut part = Figures::default();
                        for i in 0..messages {
                            let start = Instant::now();
                            let mut send = self.call(&["send", "bob", &text_of(&n.to_string(), i)]);
                            let status = send.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
                            // 3: nobody reads it; it is kept.
                            match status.code() {
                                Some(0 | 3) => part.latencies_ms.push(start.elapsed().as_secs_f64() * 1e3),
                                _ => part.errors += 1,
                            }
                        }
                        part
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        Figures {
            landed: self.landed(writers, messages),
            errors: parts.iter().map(|p| p.errors).sum(),
            seconds: start.elapsed().as_secs_f64(),
            latencies_ms: parts.into_iter().flat_map(|p| p.latencies_ms).collect(),
        }
    }

    /// One message more, and its delivery, where 5,000 delivered entries (10 MB) lie already.
    fn big_inbox(&self) {
        let entry = |i: usize| {
            let id = format!("00000000-0000-4000-8000-{i:012}");
            let mut entry = Entry::new("alpha", &"word ".repeat(370), "2030-01-02T03:04:05.678Z", &id);
            entry.read = true;
            serde_json::to_string_pretty(&entry).unwrap().replace('\n', "\n  ")
        };
        let entries: Vec<String> = (0..5000).map(entry).collect();
        let big = format!("[\n  {}\n]", entries.join(",\n  "));
        println!("\nInbox with 5,000 read entries, {:.1} MB (P6), median of 9.", big.len() as f64 / 1e6);
        println!("| what | ms |\n|---|---|");
        let median = |what: &str, mut run: Box<dyn FnMut() -> f64 + '_>| {
            let mut times: Vec<f64> = (0..9).map(|_| run()).collect();
            times.sort_by(f64::total_cmp);
            println!("| {what} | {:.1} |", times[4]);
        };
        let ms = |work: &mut dyn FnMut()| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        };
        median(
            "floor: write and fsync 10 MB",
            Box::new(|| {
                ms(&mut || {
                    let mut file = fs::File::create(self.root.join("floor")).unwrap();
                    file.write_all(big.as_bytes()).unwrap();
                    file.sync_data().unwrap();
                })
            }),
        );
        median(
            "throng send (process)",
            Box::new(|| {
                self.team(big.as_bytes());
                ms(&mut || {
                    self.call(&["send", "bob", "x"]).stderr(Stdio::null()).status().unwrap();
                })
            }),
        );
        median(
            "throng inbox take (process)",
            Box::new(|| {
                self.team(big.as_bytes());
                self.call(&["send", "bob", "x"]).stderr(Stdio::null()).status().unwrap();
                ms(&mut || {
                    let taken = self.call(&["inbox", "take", "--as", "bob"]).output().unwrap();
                    assert_eq!(taken.stdout, b"x\n");
                })
            }),
        );
    }

    /// From the rename of an inbox until `inbox take --wait` has printed the message, with this many that wait.
    fn wake(&self, waiting: usize) {
        let store = self.team(b"[]");
        let names: Vec<String> = (0..waiting).map(|i| format!("w{i}")).collect();
        let mut waiters: Vec<(Child, BufReader<std::process::ChildStdout>)> = names
            .iter()
            .map(|name| {
                fs::write(self.inbox().with_file_name(format!("{name}.json")), "[]").unwrap();
                let mut take = self.call(&["inbox", "follow", name]);
                let mut child = take.stdout(Stdio::piped()).spawn().unwrap();
                let out = BufReader::new(child.stdout.take().unwrap());
                (child, out)
            })
            .collect();
        std::thread::sleep(Duration::from_secs(2));
        let before: Vec<f64> = waiters.iter().map(|(child, _)| cpu_s(child.id())).collect();
        let idle = Duration::from_secs(10);
        std::thread::sleep(idle);
        let used: f64 =
            waiters.iter().zip(&before).map(|((child, _), before)| cpu_s(child.id()) - before).sum();
        for (how, is_foreign) in [("throng's writer", false), ("a foreign writer (rename, no poke)", true)] {
            let mut figures = Figures::default();
            for turn in 0..200 {
                let k = turn * 7919 % waiting;
                let name = AgentName::new(&names[k]).unwrap();
                let entry = Entry::new(
                    "team-lead",
                    "go",
                    &timestamp::format(SystemTime::now()),
                    &uuid::Uuid::new_v4().to_string(),
                );
                // The time of the rename is the file's own change time.
                let path = store.mailbox(&name).path().to_owned();
                if is_foreign {
                    let bytes = fs::read(&path).unwrap();
                    let new = throng::protocol::inbox::with_entries(
                        &bytes,
                        &[throng::protocol::inbox::rendered(&entry)],
                    );
                    fs::write(path.with_extension("new"), new.unwrap()).unwrap();
                }
                let start = Instant::now();
                match is_foreign {
                    true => fs::rename(path.with_extension("new"), &path).unwrap(),
                    false => store.mailbox(&name).append(&entry).unwrap(),
                }
                let sent = start.elapsed();
                let mut line = String::new();
                waiters[k].1.read_line(&mut line).unwrap();
                let took = if is_foreign { start.elapsed() } else { start.elapsed().saturating_sub(sent) };
                figures.latencies_ms.push(took.as_secs_f64() * 1e3);
            }
            println!(
                "| {waiting} waiting, {how} | p50 {:.2} ms | p99 {:.2} ms |",
                figures.at(0.5),
                figures.at(0.99)
            );
        }
        println!(
            "| {waiting} waiting, idle for {} s | {:.3} % of a core each |",
            idle.as_secs(),
            used / waiting as f64 / idle.as_secs_f64() * 100.0
        );
        for (child, _) in &mut waiters {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Processor time of a process so far, in seconds.
fn cpu_s(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat[stat.rfind(')').map_or(0, |i| i + 2)..].split(' ').collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
