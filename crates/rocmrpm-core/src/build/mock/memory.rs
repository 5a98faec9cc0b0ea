//! Build roots in memory: how much of the machine's memory they may use, and which build gets a
//! share of it. mock itself mounts them (its plugin `tmpfs`).

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The memory that all build roots may use together. It is subtracted from what compile jobs share,
/// so that both fit at the same time.
pub(super) struct Pool {
    whole: u64,
    free: Mutex<u64>,
}

/// The part of the pool that one build root uses; returned to the pool on drop.
pub(super) struct Lease<'p> {
    pool: &'p Pool,
    bytes: u64,
}

impl Pool {
    /// Returns the pool of a machine with this much memory available. Its size is the sum of
    /// `spaces`, what the build roots need, but at most half of the memory.
    pub fn new(memory: u64, spaces: impl Iterator<Item = u64>) -> Self {
        let fitting = spaces.filter(|space| *space <= memory / 2);
        let whole = fitting.fold(0, u64::saturating_add).min(memory / 2);
        Self { whole, free: Mutex::new(whole) }
    }

    /// Returns the size of the pool, in bytes.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Reserves memory for a build root; `None` if not enough is free.
    pub fn lease(&self, bytes: u64) -> Option<Lease<'_>> {
        let mut free = self.free();
        *free = free.checked_sub(bytes)?;
        Some(Lease { pool: self, bytes })
    }

    fn free(&self) -> MutexGuard<'_, u64> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease<'_> {
    /// Returns the arguments that make mock keep the build root in memory. The size is a limit;
    /// memory is allocated only as needed: tmpfs(5).
    pub fn options(&self) -> Vec<String> {
        vec![
            "--enable-plugin=tmpfs".to_owned(),
            // The pool has already checked that there is enough.
            "--plugin-option=tmpfs:required_ram_mb=0".to_owned(),
            format!("--plugin-option=tmpfs:max_fs_size={}m", self.bytes.div_ceil(1 << 20)),
        ]
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        *self.pool.free() += self.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_at_most_half_of_the_memory_and_returns_it() {
        let pool = Pool::new(100, [30, 30, 60].into_iter());
        assert_eq!(pool.whole(), 50, "60 exceeds half of the memory, and so does 30 + 30");
        let first = pool.lease(30).unwrap();
        assert!(pool.lease(30).is_none());
        drop(first);
        assert!(pool.lease(30).is_some());
        assert_eq!(Pool::new(100, [10].into_iter()).whole(), 10);
        assert!(Pool::new(100, std::iter::empty()).lease(1).is_none());
    }

    #[test]
    fn passes_the_size_to_mock() {
        let pool = Pool::new(u64::MAX, [6_000_000_000].into_iter());
        let options = pool.lease(6_000_000_000).unwrap().options();
        assert_eq!(options.last().unwrap(), "--plugin-option=tmpfs:max_fs_size=5723m");
    }
}
