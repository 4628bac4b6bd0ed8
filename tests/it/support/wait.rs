//! Waiting for a condition, never for a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a condition may take on a loaded machine.
pub const LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until `is_so`, at most [`LIMIT`].
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    until_some(what, || is_so().then_some(()));
}

/// Waits until there is something, at most [`LIMIT`], and answers it.
pub fn until_some<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    within(LIMIT, || format!("waited {} s in vain until {what}", LIMIT.as_secs()), &mut find)
}

/// Waits until there is something, at most `limit`; then it panics with the complaint. The one loop that looks again.
pub fn within<T>(limit: Duration, complaint: impl Fn() -> String, mut find: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(start.elapsed() < limit, "{}", complaint());
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Checks something again and again as long as something else is so.
pub fn throughout(mut is_so: impl FnMut() -> bool, mut check: impl FnMut()) {
    within(
        LIMIT,
        || format!("it is still so after {} s", LIMIT.as_secs()),
        || {
            let goes_on = is_so();
            check();
            (!goes_on).then_some(())
        },
    );
}

/// Sets a flag when it is dropped, so that threads that wait for it end with a test that fails.
pub struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
