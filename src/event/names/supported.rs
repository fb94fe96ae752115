//! The capabilities of this machine's PMU, found by test. An event is opened for this process, never started, and
//! closed. A permission error does not reveal anything about the PMU.

use std::os::fd::{AsFd, OwnedFd};

use crate::kernel::perf_event::attr::{Attr, Flag, TYPE_HARDWARE, TYPE_HW_CACHE, branch, sample};
use crate::kernel::perf_event::sys::{Errno, Sys};

use super::perf_names;

/// Exceeds the number of counters of any PMU.
const MOST_COUNTERS: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Supported {
    /// Names of available hardware events, and of unavailable ones.
    pub(crate) events: (Vec<String>, Vec<String>),
    /// The same for cache events.
    pub(crate) caches: (Vec<String>, Vec<String>),
    /// Whether `cycles` can also be sampled, which requires a PMU interrupt.
    pub(crate) samples: bool,
    /// The highest `:p` level that the kernel accepts for `cycles`.
    pub(crate) precise: u8,
    /// Whether samples of `cycles` can contain branch records.
    pub(crate) branches: bool,
    pub(crate) counters: usize,
}

impl Supported {
    /// Tests everything; `None` if this user may not open events.
    pub(crate) fn ask(sys: &dyn Sys) -> Option<Self> {
        if matches!(open(sys, &cycles()), Err(Errno::ACCESS | Errno::PERM | Errno::NOSYS)) {
            return None;
        }
        let mut answer = Self::default();
        for (kind, list) in [(TYPE_HARDWARE, &mut answer.events), (TYPE_HW_CACHE, &mut answer.caches)] {
            for (name, of, config) in perf_names::all() {
                if of == kind && perf_names::name_of(kind, config).as_ref() == Some(&name) {
                    let part = if is_lacking(sys, kind, config) { &mut list.1 } else { &mut list.0 };
                    part.push(name);
                }
            }
        }
        let sampled = Attr { period_or_freq: 1_000_000, sample_type: sample::IP, ..cycles() };
        answer.samples = open(sys, &sampled).is_ok();
        let takes = |level: &u8| {
            let mut attr = sampled.clone();
            attr.set_precise(*level);
            open(sys, &attr).is_ok()
        };
        answer.precise = (1..=3).rev().find(takes).unwrap_or(0);
        let sample_type = sampled.sample_type | sample::BRANCH_STACK;
        let with_branches = Attr { sample_type, branch_sample_type: branch::USER | branch::ANY, ..sampled };
        answer.branches = open(sys, &with_branches).is_ok();
        answer.counters = counters(sys);
        Some(answer)
    }
}

pub(crate) fn is_lacking(sys: &dyn Sys, kind: u32, config: u64) -> bool {
    // The kernel reports senseless combinations, such as stores into an instruction cache, as invalid.
    let says_so = |errno| matches!(errno, Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL);
    open(sys, &attr(kind, config)).is_err_and(says_so)
}

fn attr(kind: u32, config: u64) -> Attr {
    let mut attr = Attr { kind, config, ..Attr::default() };
    for flag in [Flag::Disabled, Flag::ExcludeKernel, Flag::ExcludeHv] {
        attr.set(flag, true);
    }
    attr
}

fn cycles() -> Attr {
    attr(TYPE_HARDWARE, 0)
}

fn open(sys: &dyn Sys, attr: &Attr) -> Result<OwnedFd, Errno> {
    sys.open(attr, 0, -1, None, None)
}

/// Returns the number of counters. A group counts as a whole, so the kernel rejects the first member without a counter.
fn counters(sys: &dyn Sys) -> usize {
    // The kernel skips events that can never start.
    let mut first = cycles();
    first.set(Flag::EnableOnExec, true);
    let Ok(leader) = open(sys, &first) else { return 0 };
    let mut attr = cycles();
    attr.set(Flag::Disabled, false);
    let next = || sys.open(&attr, 0, -1, Some(leader.as_fd()), None).ok();
    let others: Vec<OwnedFd> = std::iter::repeat_with(next).take(MOST_COUNTERS).map_while(|fd| fd).collect();
    others.len() + 1
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::kernel::fake::FakeSys;

    #[test]
    fn the_kernel_is_asked_for_each_event() {
        // Two events, levels up to 2, no branches; a leader and three more at the same time.
        let cycles = AtomicUsize::new(0);
        let sys = FakeSys::new(move |attr, _, _| match (attr.kind, attr.config) {
            _ if attr.precise() > 2 || attr.branch_sample_type != 0 => Err(Errno::OPNOTSUPP),
            (TYPE_HARDWARE, 0) if !attr.has(Flag::Disabled) && cycles.fetch_add(1, Ordering::Relaxed) >= 3 => {
                Err(Errno::INVAL)
            }
            (TYPE_HARDWARE, 0..=1) | (TYPE_HW_CACHE, 0) => Ok(()),
            (TYPE_HW_CACHE, _) => Err(Errno::INVAL),
            _ => Err(Errno::NOENT),
        });
        let answer = Supported::ask(&sys).expect("rights");
        assert_eq!(answer.events.0, ["cycles", "instructions"]);
        assert!(answer.events.1.len() == 8 && answer.events.1[0] == "cache-references");
        assert_eq!((answer.caches.0, answer.caches.1.len()), (vec!["L1-dcache-loads".to_owned()], 41));
        assert_eq!((answer.samples, answer.precise, answer.branches, answer.counters), (true, 2, false, 4));
    }

    #[test]
    fn rights_tell_nothing_of_the_pmu() {
        let sys = FakeSys::new(|_, _, _| Err(Errno::ACCESS));
        assert!(!is_lacking(&sys, TYPE_HARDWARE, 3));
        assert_eq!(Supported::ask(&sys), None);
    }
}
