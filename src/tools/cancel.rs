//! A request to stop that everybody who was handed a copy of it sees.

use std::sync::Arc;
use tokio::sync::watch;

/// Stops a tool that runs. Copies are one.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<watch::Sender<bool>>);

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel(Arc::new(watch::Sender::new(false)))
    }
}

impl Cancel {
    /// Asks to stop.
    pub fn set(&self) {
        self.0.send_replace(true);
    }

    /// Whether it was asked for.
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is asked for.
    pub async fn wanted(&self) {
        // Ends early only if the sender is gone, which we hold.
        let _ = self.0.subscribe().wait_for(|wanted| *wanted).await;
    }
}
