//! Fault points for tests: a process that was armed with `STEP` kills itself at that step, with `stop@STEP` it stops
//! there once. Several are set apart by commas.
//! Builds without debug assertions have none of this.

/// Arms this process, once.
pub fn arm(step: &str) {
    #[cfg(debug_assertions)]
    armed::arm(step);
    #[cfg(not(debug_assertions))]
    let _ = step;
}

/// Is nothing, unless this step was armed.
pub fn point(step: &str) {
    #[cfg(debug_assertions)]
    armed::at(step);
    #[cfg(not(debug_assertions))]
    let _ = step;
}

#[cfg(debug_assertions)]
mod armed {
    use nix::sys::signal::{Signal, raise};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};

    static STEP: OnceLock<String> = OnceLock::new();
    static STOPPED: AtomicBool = AtomicBool::new(false);

    pub(super) fn arm(step: &str) {
        STEP.get_or_init(|| step.to_owned());
    }

    pub(super) fn at(step: &str) {
        let armed = STEP.get().map_or("", String::as_str);
        if armed.split(',').any(|one| one == step) {
            let _ = raise(Signal::SIGKILL);
        } else if armed.split(',').any(|one| one.strip_prefix("stop@") == Some(step))
            && !STOPPED.swap(true, Ordering::SeqCst)
        {
            let _ = raise(Signal::SIGSTOP);
        }
    }
}
