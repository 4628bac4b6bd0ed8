//! Orders of this process's threads. Whoever has the turn carries out all that wait, in one call of tmux where it can:
//! of what a pane costs, a call's own process is the larger part.

use super::super::{Error, Result};
use super::layout::Pane;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tmux_interface::TmuxCommand;

/// How long a picture of a session is good for choosing spots: a spot that has gone meanwhile is refused, and looked for again.
const PICTURE_GOOD_FOR: Duration = Duration::from_secs(2);
/// Most bytes of words in one call: tmux takes 16 KiB, and what goes with the orders needs some.
const CALL_BYTES_MAX: usize = 10_000;

/// What is wanted of tmux.
#[derive(Debug, Clone)]
pub(super) enum Wish {
    /// A pane in which this is executed; for a window of its own, the window's name. Answered with the pane's id.
    Pane { words: Vec<String>, name: String },
    /// Commands about a pane that is there.
    Look { commands: Vec<TmuxCommand<'static>> },
}

impl Wish {
    fn bytes(&self) -> usize {
        match self {
            Wish::Pane { words, name } => words.iter().map(String::len).sum::<usize>() + name.len() + 80,
            Wish::Look { commands } => {
                let words = commands.iter().flat_map(|c| c.args.iter().flatten());
                words.map(|word| word.len() + 10).sum()
            }
        }
    }
}

/// A wish of a thread that waits for its answer.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) wish: Wish,
    /// How often a spot was looked for.
    pub(super) tries: u32,
    answer: mpsc::Sender<Result<String>>,
}

impl Order {
    /// The same, to be tried once more.
    pub(super) fn again(self) -> Order {
        Order { tries: self.tries + 1, ..self }
    }

    /// Gives the waiting thread its answer.
    pub(super) fn answer(self, answer: Result<String>) {
        // It waits as long as its order stands.
        let _ = self.answer.send(answer);
    }
}

/// A session and its panes, as tmux told them.
#[derive(Debug, Clone)]
pub(super) struct Picture {
    seen: Instant,
    pub(super) session: String,
    pub(super) panes: Vec<Pane>,
}

impl Picture {
    pub(super) fn new(session: String, panes: Vec<Pane>) -> Picture {
        Picture { seen: Instant::now(), session, panes }
    }

    pub(super) fn is_good(&self) -> bool {
        self.seen.elapsed() < PICTURE_GOOD_FOR
    }
}

/// The orders that wait, and the turn, which holds what was seen last.
#[derive(Debug, Default)]
pub(super) struct Orders {
    waiting: Mutex<VecDeque<Order>>,
    turn: Mutex<Option<Picture>>,
}

impl Orders {
    /// Has a wish carried out, by `carry_out` in this thread or by another's, and answers what came of it. `carry_out` takes
    /// from the orders that wait and answers at least one.
    pub(super) fn place(&self, wish: Wish, carry_out: impl Fn(&mut Option<Picture>)) -> Result<String> {
        let (answer, answered) = mpsc::channel();
        self.waiting().push_back(Order { wish, tries: 0, answer });
        loop {
            let mut turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            match answered.try_recv() {
                Ok(result) => return result,
                Err(mpsc::TryRecvError::Empty) => carry_out(&mut turn),
                Err(mpsc::TryRecvError::Disconnected) => {
                    let deed = "tmux was not asked".to_owned();
                    return Err(Error::Refused {
                        deed,
                        answer: "the thread that asks it has panicked".to_owned(),
                    });
                }
            }
        }
    }

    /// The first orders, as many as one call takes.
    pub(super) fn take(&self) -> Vec<Order> {
        let mut waiting = self.waiting();
        let mut bytes = 0;
        let mut taken = Vec::new();
        while let Some(order) = waiting.front() {
            bytes += order.wish.bytes();
            if bytes > CALL_BYTES_MAX && !taken.is_empty() {
                break;
            }
            taken.extend(waiting.pop_front());
        }
        taken
    }

    /// Puts orders back, before all that wait.
    pub(super) fn put_back(&self, orders: Vec<Order>) {
        let mut waiting = self.waiting();
        orders.into_iter().rev().for_each(|order| waiting.push_front(order));
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Order>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn wish(name: &str, bytes: usize) -> Wish {
        Wish::Pane { words: vec!["x".repeat(bytes)], name: name.to_owned() }
    }

    fn name(order: &Order) -> String {
        match &order.wish {
            Wish::Pane { name, .. } => name.clone(),
            Wish::Look { .. } => String::new(),
        }
    }

    #[test]
    fn one_call_serves_all_that_wait_and_each_gets_its_own_answer() {
        let (orders, calls) = (Orders::default(), AtomicUsize::new(0));
        let all_wait = || orders.waiting().len() == 20;
        let carry_out = |_: &mut Option<Picture>| {
            // The first call begins when all have ordered.
            while calls.load(Ordering::SeqCst) == 0 && !all_wait() {
                std::thread::yield_now();
            }
            calls.fetch_add(1, Ordering::SeqCst);
            let (now, later): (Vec<_>, Vec<_>) =
                orders.take().into_iter().partition(|o| name(o) != "late" || o.tries > 0);
            orders.put_back(later.into_iter().map(Order::again).collect());
            now.into_iter().for_each(|order| {
                let answer = name(&order);
                order.answer(Ok(answer));
            });
        };
        std::thread::scope(|scope| {
            for i in 0..20 {
                let name = if i == 7 { "late".to_owned() } else { format!("m{i}") };
                let (orders, carry_out) = (&orders, &carry_out);
                scope.spawn(move || assert_eq!(orders.place(wish(&name, 10), carry_out).unwrap(), name));
            }
        });
        assert_eq!(calls.load(Ordering::SeqCst), 2, "one call, and one for the one that was put back");
    }

    #[test]
    fn a_call_takes_what_tmux_can_be_told_at_once_and_one_order_whatever_its_size() {
        let orders = Orders::default();
        let (answer, _answered) = mpsc::channel();
        for bytes in [4000, 4000, 4000, 20_000, 1] {
            let order = Order { wish: wish("m", bytes), tries: 0, answer: answer.clone() };
            orders.put_back(vec![order]);
        }
        let sizes = std::iter::from_fn(|| Some(orders.take().len()).filter(|n| *n > 0));
        assert_eq!(sizes.collect::<Vec<_>>(), [1, 1, 2, 1]);
    }
}
