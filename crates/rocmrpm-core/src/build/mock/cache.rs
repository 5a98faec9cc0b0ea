//! Coordinates mock's cache of the build root, which all components of a chroot share: one build
//! fills it while the others wait. Without this, every mock that finds no cache installs the whole
//! root and overwrites the cache of the others. The cache itself is mock's.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::process::stop_requested;

/// How often a waiting build checks for an interrupt.
const LOOK: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    Filling,
    There,
}

/// The state of the cache during this run.
pub(super) struct RootCache {
    state: Mutex<State>,
    changed: Condvar,
}

/// Held by the build that fills the cache. If it is dropped without success, another build takes
/// over.
pub(super) struct Filling<'c>(&'c RootCache);

impl RootCache {
    /// Returns a cache in an unknown state.
    pub fn unknown() -> Self {
        Self { state: Mutex::new(State::Unknown), changed: Condvar::new() }
    }

    /// Returns the task of filling the cache if no build has it; waits while another build fills
    /// it. `None` once the cache is filled.
    pub fn fill_or_wait(&self) -> Option<Filling<'_>> {
        let mut state = self.lock();
        loop {
            match *state {
                State::There => return None,
                State::Unknown => {
                    *state = State::Filling;
                    return Some(Filling(self));
                }
                State::Filling if stop_requested() => return None,
                State::Filling => {
                    let waited = self.changed.wait_timeout(state, LOOK);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filling<'_> {
    /// Marks the cache as filled.
    pub fn done(&self) {
        *self.0.lock() = State::There;
        self.0.changed.notify_all();
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if *state == State::Filling {
            *state = State::Unknown;
        }
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_fills_and_the_others_wait_for_it() {
        let cache = RootCache::unknown();
        let first = cache.fill_or_wait().unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| cache.fill_or_wait().is_none());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished(), "it waits");
            first.done();
            assert!(second.join().unwrap());
        });
        drop(first);
        assert!(cache.fill_or_wait().is_none(), "it stays there");
    }

    #[test]
    fn where_the_first_fails_the_next_fills() {
        let cache = RootCache::unknown();
        drop(cache.fill_or_wait());
        assert!(cache.fill_or_wait().is_some());
    }
}
