//! Messages about events that cannot be opened, with remedies. The command line, the screen and `doctor` share them.

use crate::kernel::attr::{Attr, TYPE_BREAKPOINT, TYPE_TRACEPOINT};
use crate::kernel::cpus;
use crate::kernel::limits::{Rights, most_files, raise_files};
use crate::kernel::privilege::{lacks, obtain, setcap};
use crate::kernel::sys::Errno;
use crate::lang::nearest;

/// An event or a ring that could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be {action}: {reason}\n{remedy}")]
pub struct OpenError {
    pub(crate) what: String,
    pub(crate) action: &'static str,
    pub(crate) reason: String,
    pub(crate) remedy: String,
}

impl OpenError {
    pub(crate) fn new(
        what: impl Into<String>,
        action: &'static str,
        reason: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), action, reason: reason.into(), remedy: remedy.into() }
    }

    /// Returns the error for an errno of `perf_event_open` (perf_event_open(2), ERRORS).
    pub(crate) fn open(event: &str, attr: &Attr, errno: Errno, rights: &Rights) -> Self {
        let (reason, remedy) = match errno {
            Errno::ACCESS | Errno::PERM => return Self::rights(event, attr, rights),
            Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV => (
                "this machine cannot count it (no such PMU or event)".to_owned(),
                "Try -e cpu-clock, which works everywhere; `perfprof-tui doctor` shows what this machine can measure."
                    .to_owned(),
            ),
            Errno::INVAL
                if attr.has(crate::kernel::attr::Flag::Freq) && attr.period_or_freq as i64 > rights.max_sample_rate =>
            {
                (
                    format!(
                        "{} Hz is above kernel.perf_event_max_sample_rate = {}",
                        attr.period_or_freq, rights.max_sample_rate
                    ),
                    format!("Use -F max, or sysctl kernel.perf_event_max_sample_rate={}", attr.period_or_freq),
                )
            }
            Errno::INVAL => (
                "the kernel does not accept these settings for it".to_owned(),
                "Remove modifiers and --exclude options one by one to find the one that it rejects.".to_owned(),
            ),
            Errno::OVERFLOW if attr.max_stack > 0 => (
                format!("max-stack={} is above kernel.perf_event_max_stack", attr.max_stack),
                "Choose a lower max-stack, or raise the sysctl.".to_owned(),
            ),
            Errno::MFILE | Errno::NFILE => (
                "too many files are open".to_owned(),
                "Raise the limit with ulimit -n, or choose fewer CPUs (-C) or threads.".to_owned(),
            ),
            Errno::SRCH => ("the process has ended".to_owned(), String::new()),
            Errno::NOSPC if attr.kind == TYPE_BREAKPOINT => (
                "all hardware breakpoints are in use (x86 has 4)".to_owned(),
                "Use fewer mem: events, or end the debugger that uses them.".to_owned(),
            ),
            Errno::BUSY => (
                "another user has this counter exclusively".to_owned(),
                "Look for another profiler or the NMI watchdog (sysctl kernel.nmi_watchdog=0).".to_owned(),
            ),
            Errno::BADF => ("not a cgroup directory".to_owned(), String::new()),
            other => (format!("the kernel says {other}"), String::new()),
        };
        Self::new(format!("event {event}"), "opened", reason, remedy)
    }

    pub(crate) fn precision(event: &str) -> Self {
        Self::new(
            format!("event {event}"),
            "opened",
            "this CPU does not sample it as precisely, or not at all",
            "Remove a p, or use P for the highest level; `perfprof-tui doctor` shows the level.",
        )
    }

    pub(crate) fn branches(event: &str, errno: Errno) -> Self {
        let reason = match errno {
            Errno::OPNOTSUPP => "this CPU does not record branches for it",
            _ => "branches are recorded by hardware counters, which this machine lacks",
        };
        let what = format!("branches before samples of {event}");
        Self::new(
            what,
            "recorded",
            reason,
            "Remove -b, -j and --call-graph lbr; `perfprof-tui doctor` shows what this machine can measure.",
        )
    }

    fn rights(event: &str, attr: &Attr, rights: &Rights) -> Self {
        let (reason, remedy) = refusal(rights);
        let reason = if attr.kind == TYPE_TRACEPOINT && rights.paranoid > -1 && !rights.privileged() {
            format!("{reason}; tracepoints need perf_event_paranoid -1")
        } else {
            reason
        };
        Self::new(format!("event {event}"), "opened", reason, remedy)
    }

    /// Returns the error for an errno of mapping a ring, after smaller ones were tried.
    pub(crate) fn ring(pages: usize, errno: Errno, rights: &Rights) -> Self {
        let kb = pages * rustix::param::page_size() / 1024;
        let (reason, remedy) = match errno {
            Errno::PERM => (
                format!(
                    "locked memory is limited to {} KiB per CPU (perf_event_mlock_kb) and ulimit -l",
                    rights.mlock_kb
                ),
                "sysctl kernel.perf_event_mlock_kb=4096, or ulimit -l unlimited, or a smaller -m",
            ),
            other => (format!("the kernel says {other}"), "Try a smaller -m."),
        };
        Self::new(format!("a ring buffer of {kb} KiB"), "mapped", reason, remedy)
    }

    /// Raises the limit on open files as far as possible; fails if it stays too low.
    pub(crate) fn room_for(need: usize, beside: usize) -> Result<(), Self> {
        let limit = raise_files((need + beside) as u64);
        if (need + beside) as u64 <= limit {
            return Ok(());
        }
        let raise = match need as u64 > most_files() {
            true => format!("sysctl fs.nr_open={need}"),
            false => {
                format!("Raise the hard limit (ulimit -Hn {need} as root; Docker, Podman: --ulimit nofile={need})")
            }
        };
        Err(Self::new(
            "this many events",
            "opened",
            format!("{need} file descriptors are needed and {limit} are allowed"),
            format!("{raise}, or choose fewer CPUs (-C) or threads, or sample system-wide and filter the view."),
        ))
    }

    /// Returns whether the target or the CPU has gone (-1: any; a missing PMU also causes ENODEV).
    pub(crate) fn is_gone(errno: Errno, cpu: i32) -> bool {
        let is_offline = |cpu: u32| cpus::online().is_ok_and(|online| online.binary_search(&cpu).is_err());
        errno == Errno::SRCH || errno == Errno::NODEV && u32::try_from(cpu).is_ok_and(is_offline)
    }
}

/// Returns the names that are most similar to an unknown one as a remedy, or else another remedy.
pub(super) fn nearest_or<'a>(name: &str, all: impl Iterator<Item = &'a str>, otherwise: &str) -> String {
    let near = nearest(name, all).join(", ");
    if near.is_empty() { otherwise.to_owned() } else { format!("Nearest: {near}") }
}

/// Returns reason and remedy when the kernel denies access.
pub fn refusal(rights: &Rights) -> (String, String) {
    if let Some(errno) = rights.blocked {
        return if rights.seccomp == 2 {
            (
                "the container's seccomp profile blocks perf_event_open".into(),
                "Docker, Podman: --cap-add PERFMON, or --security-opt seccomp=unconfined; a pod: securityContext with \
                 seccompProfile: {type: Unconfined}, or privileged: true."
                    .into(),
            )
        } else {
            (
                format!("this kernel does not have perf_event_open ({errno})"),
                "It was built without CONFIG_PERF_EVENTS.".into(),
            )
        };
    }
    if rights.lockdown.contains("[confidentiality]") {
        return (
            "the kernel is locked down (confidentiality)".into(),
            "Lockdown is chosen at boot; see /sys/kernel/security/lockdown.".into(),
        );
    }
    if rights.shut_out {
        return (
            format!("kernel.perf_event_paranoid is {}: only root may use perf events", rights.paranoid),
            "Run as root, or sysctl kernel.perf_event_paranoid=-1 (at this level CAP_PERFMON does not help).".into(),
        );
    }
    (
        format!("kernel.perf_event_paranoid is {} and {}", rights.paranoid, lacks(rights, "CAP_PERFMON")),
        match rights.is_root || rights.is_namespaced {
            true => format!("{}; or sysctl kernel.perf_event_paranoid=-1 on the host.", obtain(rights)),
            false => format!("Run as root, or sysctl kernel.perf_event_paranoid=-1, or {}", setcap()),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tracepoint_needs_more_than_other_events() {
        let of = |kind, name| {
            let attr = Attr { kind, ..Attr::default() };
            OpenError::open(name, &attr, Errno::ACCESS, &Rights::staged(2, 0)).reason
        };
        assert!(of(TYPE_TRACEPOINT, "sched:sched_switch").contains("tracepoints need"));
        assert!(!of(TYPE_BREAKPOINT, "mem:0x1000:w").contains("tracepoints need"));
    }
}
