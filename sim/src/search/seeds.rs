//! [`run_seeds`]: many seeds, on several threads.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Runs `count` seeds, numbered from 0, on up to `jobs` threads.
///
/// Every thread makes its own `state` with `start` and passes it to `run`, one seed after the
/// other. `done` is told every result, as it comes, with the number of its seed; it can stop the
/// loop with [`ControlFlow::Break`], and then no further seed is begun. With one job everything
/// runs on the calling thread, in order. A panic in `run` is a result like any other: the message
/// of the panic; the thread goes on with a new state.
pub fn run_seeds<S, R: Send>(
    count: u64,
    jobs: usize,
    start: impl Fn() -> S + Sync,
    run: impl Fn(&mut S, u64) -> R + Sync,
    done: impl FnMut(u64, Result<R, String>) -> ControlFlow<()> + Send,
) {
    let (next, done) = (AtomicU64::new(0), Mutex::new(done));
    let work = || {
        let mut state = None;
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return;
            }
            let result = caught(|| run(state.get_or_insert_with(&start), at));
            if result.is_err() {
                state = None;
            }
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            if done(at, result).is_break() {
                next.store(count, Ordering::Relaxed);
            }
        }
    };
    let threads = threads(jobs, count);
    if threads == 1 {
        return work();
    }
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
}

/// How many threads are worth starting: each should get a seed.
fn threads(jobs: usize, count: u64) -> usize {
    jobs.min(usize::try_from(count).unwrap_or(usize::MAX)).clamp(1, THREADS_MAX)
}

/// The result of a function, or the message with which it panics.
fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload: Box<dyn Any + Send>| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        text.unwrap_or("a panic without a message").to_owned()
    })
}

/// More threads than any machine has cores.
const THREADS_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_seed_is_run_once_and_a_panic_is_a_result() {
        let mut results = BTreeMap::new();
        let run = |_: &mut (), at| match at {
            3 => panic!("at {at}"),
            4 => panic!("plain"),
            _ => at * 2,
        };
        run_seeds(
            6,
            3,
            || (),
            run,
            |at, result| {
                assert_eq!(results.insert(at, result), None, "seed {at} came twice");
                ControlFlow::Continue(())
            },
        );
        let expected =
            [Ok(0), Ok(2), Ok(4), Err("at 3".to_owned()), Err("plain".to_owned()), Ok(10)];
        assert_eq!(results, (0..).zip(expected).collect());
    }

    #[test]
    fn no_seed_is_begun_after_a_break() {
        let mut seen = Vec::new();
        run_seeds(
            100,
            1,
            || (),
            |_, at| at,
            |at, _| {
                seen.push(at);
                if at == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            },
        );
        assert_eq!(seen, [0, 1, 2]);
    }

    #[test]
    fn a_thread_keeps_its_state_until_a_panic() {
        let mut seen = Vec::new();
        let count = |state: &mut u64, at| {
            *state += 1;
            assert!(at != 2, "two");
            *state
        };
        run_seeds(
            5,
            1,
            || 0,
            count,
            |_, result| {
                seen.push(result.unwrap_or(0));
                ControlFlow::Continue(())
            },
        );
        assert_eq!(seen, [1, 2, 0, 1, 2]);
    }

    #[test]
    fn no_more_threads_are_started_than_there_are_seeds() {
        assert_eq!(threads(99_999_999, 3), 3);
        assert_eq!(threads(99_999_999, 1_000_000), THREADS_MAX);
        assert_eq!((threads(0, 5), threads(4, 0)), (1, 1));
    }
}
