//! Requests to stop, from the user or the system. It does not know what they interrupt.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The help line after a stopped run.
pub(crate) const HELP: &str = "run the same command again to resume";

/// The error of work that was interrupted.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Stopped;

/// How often the user or the system asked us to stop. Static, because signals concern the whole
/// process.
static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// From now on, counts the signals that ask a process to exit, including that of a closed terminal,
/// instead of exiting. The binary calls this once.
pub fn catch_signals() -> std::io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    std::thread::Builder::new().spawn(move || {
        for _ in signals.forever() {
            REQUESTS.fetch_add(1, Ordering::SeqCst);
        }
    })?;
    Ok(())
}

/// Returns whether the user or the system asked us to stop.
pub fn stop_requested() -> bool {
    requests() > 0
}

/// Returns how often the user or the system asked us to stop.
pub(crate) fn requests() -> usize {
    REQUESTS.load(Ordering::SeqCst)
}
