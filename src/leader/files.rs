//! File events of the leader's inbox: mail of programs that do not poke us, a real Claude Code among them, wakes it at once.

use super::Event;
use crate::protocol::AgentName;
use crate::store::TeamStore;
use crate::sys::watch::DirWatch;
use tokio::sync::mpsc::UnboundedSender;

/// Sends [`Event::Woken`] after each change of the leader's inbox, by a thread that ends with the process, or with the first change
/// after the loop has ended. Where no events are to be had, the leader's poll is what is left.
pub(super) fn wake_on_changes(store: &TeamStore, events: &UnboundedSender<Event>) {
    let watch = DirWatch::new(&[&store.layout().inboxes(store.name())]);
    if watch.is_deaf() {
        tracing::info!("no file events to be had: mail of other programs is polled for");
        return;
    }
    let events = events.clone();
    let inbox = store.layout().inbox(store.name(), &AgentName::lead());
    let name = inbox.file_name().unwrap_or_default().to_owned();
    let wake = move || {
        while watch.wait_for_change(&name) {
            if events.send(Event::Woken).is_err() {
                return;
            }
        }
    };
    if let Err(e) = std::thread::Builder::new().name("files".to_owned()).stack_size(64 * 1024).spawn(wake) {
        tracing::warn!(error = %e, "no thread for file events: mail of other programs is polled for");
    }
}
