//! Work in parts, shared among threads if there is enough of it.

use std::num::NonZero;
use std::thread;

use crate::kernel::scoped_thread;

/// The limit of threads: other processes have work, too.
const MOST: usize = 4;

/// Returns the number of threads that share large work.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get).min(MOST)
}

/// Runs work on parts in order, each thread with at least `each` units; the first run uses the calling thread.
pub fn shared<P: Sync, R: Send>(parts: &[P], units: usize, each: usize, work: impl Fn(&[P]) -> R + Sync) -> Vec<R> {
    let threads = (units / each).clamp(1, threads());
    let mut runs = parts.chunks(parts.len().div_ceil(threads).max(1));
    let first = runs.next().unwrap_or_default();
    thread::scope(|scope| {
        // Runs for which a thread cannot be started are executed here.
        let work = &work;
        let start = |run| scoped_thread(scope, "query", move || work(run)).map_err(|_| run);
        let others: Vec<_> = runs.map(start).collect();
        let mut done = vec![work(first)];
        done.extend(others.into_iter().filter_map(|other| match other {
            Ok(thread) => thread.join().ok(),
            Err(run) => Some(work(run)),
        }));
        done
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_done_by_as_many_as_are_worth_it() {
        let parts: Vec<u32> = (0..12).collect();
        let most = thread::available_parallelism().map_or(1, NonZero::get).min(4);
        for (units, threads) in [(0, 1), (19, 1), (20, 2), (39, 3), (999, 4)] {
            let runs = shared(&parts, units, 10, <[u32]>::to_vec);
            assert_eq!((runs.len(), runs.concat()), (threads.min(most), parts.clone()), "{units}");
        }
        assert_eq!(shared(&parts[..0], 999, 10, <[u32]>::len), [0]);
    }
}
