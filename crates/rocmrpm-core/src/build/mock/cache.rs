//! Coordinates mock's cache of the build root, which all components of a chroot share: one build
//! fills it while the others wait. Without this, every mock that finds no cache installs the whole
//! root and overwrites the cache of the others. The cache itself is mock's.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::process::stop_requested;

/// How often a waiting build checks for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Clone, Copy, PartialEq, Eq)]
enum CacheState {
    Unknown,
    Filling,
    Filled,
}

/// The state of the cache during this run.
pub(super) struct RootCache {
    state: Mutex<CacheState>,
    changed: Condvar,
}

/// Held by the build that fills the cache. If it is dropped without success, another build takes
/// over.
pub(super) struct Filling<'c>(&'c RootCache);

impl RootCache {
    /// Returns a cache in an unknown state.
    pub fn unknown() -> Self {
        Self { state: Mutex::new(CacheState::Unknown), changed: Condvar::new() }
    }

    /// Returns the task of filling the cache if no build has it; waits while another build fills
    /// it. `None` once the cache is filled.
    pub fn fill_or_wait(&self) -> Option<Filling<'_>> {
        let mut state = self.lock();
        loop {
            match *state {
                CacheState::Filled => return None,
                CacheState::Unknown => {
                    *state = CacheState::Filling;
                    return Some(Filling(self));
                }
                CacheState::Filling if stop_requested() => return None,
                CacheState::Filling => {
                    let waited = self.changed.wait_timeout(state, POLL_INTERVAL);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Filling<'_> {
    /// Marks the cache as filled.
    pub fn done(&self) {
        *self.0.lock() = CacheState::Filled;
        self.0.changed.notify_all();
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if *state == CacheState::Filling {
            *state = CacheState::Unknown;
        }
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_build_fills_while_others_wait() {
        let cache = RootCache::unknown();
        let first = cache.fill_or_wait().unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| cache.fill_or_wait().is_none());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!second.is_finished(), "the second build did not wait");
            first.done();
            assert!(second.join().unwrap());
        });
        drop(first);
        assert!(cache.fill_or_wait().is_none(), "the cache is no longer filled");
    }

    #[test]
    fn next_build_fills_after_a_failure() {
        let cache = RootCache::unknown();
        drop(cache.fill_or_wait());
        assert!(cache.fill_or_wait().is_some());
    }
}
