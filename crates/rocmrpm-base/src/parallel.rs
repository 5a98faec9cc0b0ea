//! Processes many items at once, on threads of this process. Callers choose the work and the number
//! of threads: all cores for computation, a few threads for waiting.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use crate::process::{ProcessError, check_stop};

/// Applies `work` to every item, on up to `threads` threads, and returns the results in the items'
/// order. After a request to stop it starts no further items and returns an error, which is the
/// only possible one.
pub fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Result<Vec<R>, ProcessError> {
    let done = try_map(items, threads, |item| Ok(work(item)))?;
    // Items that were running during a request to stop may have ended early.
    check_stop()?;
    Ok(done)
}

/// Like [`map`], for work that can fail: after a failure it starts no further items, and returns
/// the error of the first failed item in the items' order.
pub fn try_map<T: Sync, R: Send, E: From<ProcessError> + Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let results: Vec<Mutex<Option<Result<R, E>>>> =
        items.iter().map(|_| Mutex::new(None)).collect();
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let worker = || {
        // Items start in order, so all items before a failed one have started too.
        while failed.load(Ordering::Relaxed) == usize::MAX {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((item, place)) = items.get(at).zip(results.get(at)) else { return };
            let result = check_stop().map_err(E::from).and_then(|()| work(item));
            if result.is_err() {
                failed.fetch_min(at, Ordering::Relaxed);
            }
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    match threads.min(items.len()) {
        0 | 1 => worker(),
        threads => std::thread::scope(|scope| {
            helpers(scope, threads - 1, worker);
            worker();
        }),
    }
    let results =
        results.into_iter().map(|place| place.into_inner().unwrap_or_else(PoisonError::into_inner));
    results.map_while(|result| result).collect()
}

/// Runs two functions at the same time, or one after the other if the system cannot start another
/// thread.
pub fn both<A: Send, B>(first: impl Fn() -> A + Sync, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let started = builder().spawn_scoped(scope, &first);
        let second = second();
        let first = match started.map(ScopedJoinHandle::join) {
            Ok(Ok(first)) => first,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => first(),
        };
        (first, second)
    })
}

/// Starts up to `count` threads that help this one with the same work. The system may start fewer
/// or none; the caller does the remaining work.
pub fn helpers<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    work: impl Fn() -> R + Clone + Send + 'scope,
) -> Vec<ScopedJoinHandle<'scope, R>> {
    (0..count).map_while(|_| builder().spawn_scoped(scope, work.clone()).ok()).collect()
}

/// Returns a thread builder. Its methods return an error if the system cannot start a thread.
pub fn builder() -> Builder {
    #[cfg(test)]
    if tests::NO_THREADS.get() {
        return Builder::new().stack_size(usize::MAX / 2);
    }
    Builder::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        pub(super) static NO_THREADS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }

    /// Runs `work` while this thread cannot start other threads.
    fn without_threads<R>(work: impl FnOnce() -> R) -> R {
        NO_THREADS.set(true);
        let result = work();
        NO_THREADS.set(false);
        result
    }

    #[test]
    fn works_without_other_threads() {
        let here = std::thread::current().id();
        let ids = without_threads(|| map(&[1, 2, 3], 8, |_| std::thread::current().id()).unwrap());
        assert_eq!(ids, [here; 3]);
    }

    #[test]
    fn does_both_with_and_without_another_thread() {
        let here = std::thread::current().id();
        let ids = || both(|| std::thread::current().id(), || std::thread::current().id());
        let (other, this) = ids();
        assert_eq!((other == here, this), (false, here));
        assert_eq!(without_threads(ids), (here, here));
    }

    #[derive(Debug, PartialEq)]
    struct Failed(usize);

    impl From<ProcessError> for Failed {
        fn from(_: ProcessError) -> Self {
            unreachable!("no test requests a stop")
        }
    }

    #[test]
    fn keeps_order_and_returns_the_first_error() {
        let items: Vec<usize> = (0..1000).collect();
        for threads in [0, 1, 2, 8, 2000] {
            let doubled = map(&items, threads, |at| at * 2).unwrap();
            assert_eq!(doubled, (0..2000).step_by(2).collect::<Vec<_>>());
            let found: Result<Vec<()>, _> = try_map(&items, threads, |at| match at % 500 {
                499 => Err(Failed(*at)),
                _ => Ok(()),
            });
            assert_eq!(found, Err(Failed(499)));
        }
        assert_eq!(map(&[0; 0], 4, |_| ()).unwrap(), []);
    }

    #[test]
    fn returns_a_slow_failure_before_a_fast_one() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let receiver = Mutex::new(receiver);
        let found: Result<Vec<()>, _> = try_map(&[0, 1], 2, |at| {
            match at {
                0 => receiver.lock().unwrap().recv().unwrap(),
                _ => sender.send(()).unwrap(),
            }
            Err(Failed(*at))
        });
        assert_eq!(found, Err(Failed(0)));
    }
}
