//! The user's and the system's requests to stop. What they end is known elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};

/// What to do after a run that was stopped.
pub(crate) const HELP: &str = "run the same command again to resume";

/// The error of work that a request to stop ended.
#[derive(Debug, thiserror::Error)]
#[error("stopped on request")]
pub(crate) struct Stopped;

/// How often the user or the system asked us to stop. Signals belong to the
/// process, so this does too.
static REQUESTS: AtomicUsize = AtomicUsize::new(0);

/// Counts the signals that ask a process to end, a closed terminal's among them, from
/// now on instead of dying from them. Called once, by the binary.
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
