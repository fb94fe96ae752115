//! The doctor's checks of what this machine and this user can measure. Each item has an exact remedy.

mod hardware;
mod languages;

use std::path::Path;

use crate::event::{pmu, tracepoint};
use crate::kernel::limits::{self, CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN, Rights};
use crate::kernel::privilege::{self, PROGRAM, setcap};
use crate::kernel::procfs;
use crate::kernel::sys::RealSys;
use crate::source::live::error::refusal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckState {
    Good,
    /// Works, with limitations.
    Limited,
    Bad,
}

impl CheckState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Limited => "limited",
            Self::Bad => "missing",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    pub(crate) name: &'static str,
    pub(crate) state: CheckState,
    pub(crate) found: String,
    pub(crate) remedy: String,
}

fn check(state: CheckState, found: impl Into<String>, remedy: impl Into<String>) -> Check {
    Check { name: "", state, found: found.into(), remedy: remedy.into() }
}

fn good(found: impl Into<String>) -> Check {
    check(CheckState::Good, found, "")
}

fn limited(found: impl Into<String>, remedy: impl Into<String>) -> Check {
    check(CheckState::Limited, found, remedy)
}

fn bad(found: impl Into<String>, remedy: impl Into<String>) -> Check {
    check(CheckState::Bad, found, remedy)
}

impl Check {
    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

pub(crate) fn examine() -> Vec<Check> {
    let rights = Rights::read();
    let mut items = rights_items(&rights);
    items.push(capabilities(&rights, privilege::given_up()).named("capabilities"));
    items.extend(devices(Path::new(pmu::SYSFS)));
    items.extend([
        tracefs(tracepoint::root().map(|_| ())).named("tracepoints"),
        processes(procfs::is_mounted(), procfs::sees_all_processes()).named("processes"),
        kernel_names(&rights).named("kernel names"),
        bpf(&rights).named("BPF"),
        languages::languages().named("languages"),
        memory(&rights).named("ring buffers"),
        files().named("file descriptors"),
        debug_files(Path::new("/usr/lib/debug/.build-id").is_dir()).named("debug files"),
    ]);
    items
}

/// Returns the items that depend only on the user's rights: perf_event_paranoid, capabilities and seccomp.
pub(crate) fn rights_items(rights: &Rights) -> Vec<Check> {
    let (reason, remedy) = refusal(rights);
    if rights.blocked.is_some() || rights.shut_out {
        return vec![bad(reason, remedy).named("perf_event_open")];
    }
    let level = format!("kernel.perf_event_paranoid is {}", rights.paranoid);
    let by_right = if rights.has(CAP_SYS_ADMIN) { "root" } else { "CAP_PERFMON" };
    let whole = match rights.system_wide() {
        true if rights.privileged() => good(format!("all CPUs and processes, as {by_right}")),
        true => good(level.clone()),
        false => bad(reason.clone(), remedy.clone()),
    };
    let kernel = match rights.kernel() {
        true => good("kernel functions can be sampled"),
        false => limited(format!("{reason}: own processes, user code only"), remedy.clone()),
    };
    let fields = match rights.privileged() || rights.paranoid < 0 {
        true => good("readable"),
        false => bad(level, remedy),
    };
    let rate = format!("up to {} Hz (kernel.perf_event_max_sample_rate)", rights.max_sample_rate);
    vec![
        good("the system call is reachable").named("perf_event_open"),
        whole.named("whole machine"),
        kernel.named("kernel code"),
        fields.named("tracepoint fields"),
        good(rate).named("sampling rate"),
    ]
}

/// Returns the items of PMUs and probes in a sysfs tree.
fn devices(root: &Path) -> Vec<Check> {
    if !root.is_dir() {
        let found = format!("{} does not exist, so PMUs and probes are unknown", root.display());
        return vec![bad(found, "mount -t sysfs sysfs /sys").named("PMUs and probes")];
    }
    let mut items = hardware::checks(root, &RealSys);
    items.push(probes(root).named("dynamic probes"));
    items
}

fn probes(root: &Path) -> Check {
    let has = |name: &str| root.join(name).is_dir();
    match (has("kprobe"), has("uprobe")) {
        (true, true) => good("kprobes and uprobes"),
        (false, true) => limited(
            "uprobes only: this kernel has no kprobes (CONFIG_KPROBES)",
            "Use tracepoints and uprobes, or a kernel with CONFIG_KPROBES.",
        ),
        (true, false) => limited("kprobes only: this kernel has no uprobes (CONFIG_UPROBES)", ""),
        (false, false) => bad("this kernel has neither kprobes nor uprobes", ""),
    }
}

fn tracefs(root: std::io::Result<()>) -> Check {
    match root {
        Ok(()) => good("tracefs is readable"),
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            bad("tracefs is readable by root only", format!("Run as root, or {}", tracepoint::LEND))
        }
        Err(_) => bad("tracefs is not mounted", "mount -t tracefs nodev /sys/kernel/tracing"),
    }
}

/// Checks the PID namespace.
/// In a container with its own namespace, samples have the host's PIDs, which cannot be resolved to processes.
fn processes(mounted: bool, all: bool) -> Check {
    match all {
        _ if !mounted => {
            let (found, remedy) = procfs::NOT_MOUNTED.split_once("; ").unwrap_or((procfs::NOT_MOUNTED, ""));
            bad(found, remedy)
        }
        true => good("all processes of the machine are visible"),
        false => limited(
            "in a PID namespace: other processes of the machine and their containers have no names",
            "Docker, Podman: --pid host; a pod: hostPID: true; kubectl debug node/NODE --profile=sysadmin",
        ),
    }
}

fn kernel_names(rights: &Rights) -> Check {
    match rights.kernel_names() {
        true => good("/proc/kallsyms shows addresses"),
        false => {
            let (why, remedy) = privilege::names_hidden(rights);
            bad(format!("{why}: kernel functions have no names"), remedy)
        }
    }
}

/// Checks the capabilities of the user and of the program file; `lent` are excess ones of the file that were dropped.
fn capabilities(rights: &Rights, lent: Option<u64>) -> Check {
    let caps = rights.caps;
    let words = |has: bool| {
        let list = privilege::WANTED.iter().filter(|one| (caps >> one.number & 1 == 1) == has);
        list.map(|one| format!("{} ({})", one.name, one.gives)).collect::<Vec<_>>().join(", ")
    };
    let (has, lacks) = (words(true), words(false));
    match lent {
        Some(1..) => limited(
            "excess capabilities of the program file were dropped: any user could read any file with them",
            format!("chmod u-s,g-s {PROGRAM}; {}", setcap()),
        ),
        _ if lacks.is_empty() => good(has),
        _ if has.is_empty() => limited(format!("none of {lacks}"), privilege::obtain(rights)),
        _ => limited(format!("{has}; not {lacks}"), privilege::obtain(rights)),
    }
}

fn bpf(rights: &Rights) -> Check {
    match rights.has(CAP_SYS_ADMIN) || rights.has(CAP_BPF) && rights.has(CAP_PERFMON) {
        true => good("programs can be loaded"),
        false => limited("CAP_BPF or CAP_PERFMON is missing", privilege::obtain(rights)),
    }
}

fn memory(rights: &Rights) -> Check {
    let (need, lock) = (516, limits::memlock());
    let enough = rights.mlock_kb >= need || lock == u64::MAX || rights.privileged();
    let found = format!(
        "{} KiB per CPU (perf_event_mlock_kb){}",
        rights.mlock_kb,
        if lock == u64::MAX { ", no ulimit".to_owned() } else { format!(", ulimit -l {} KiB", lock / 1024) }
    );
    if enough { good(found) } else { limited(found, format!("sysctl kernel.perf_event_mlock_kb={need}")) }
}

fn files() -> Check {
    let soft = limits::raise_files(0);
    let cpus = crate::kernel::cpus::online().map_or(1, |c| c.len()) as u64;
    let events = soft.saturating_sub(32) / (2 * cpus);
    let found = format!("{soft}: enough to follow {events} threads on {cpus} CPUs");
    if events >= 64 { good(found) } else { limited(found, "ulimit -n 65536") }
}

fn debug_files(there: bool) -> Check {
    match there {
        true => good("/usr/lib/debug/.build-id is there"),
        false => limited(
            "none installed: stripped programs show addresses, or exported functions only",
            "Install the -dbgsym or -debuginfo packages of what you profile.",
        ),
    }
}

/// Formats the findings as text.
pub fn text(items: &[Check]) -> String {
    let mut out = String::new();
    for i in items {
        out.push_str(&format!("{:8} {:18} {}\n", i.state.word(), i.name, i.found));
        if !i.remedy.is_empty() {
            out.push_str(&format!("{:8} {:18} -> {}\n", "", "", i.remedy));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_remedy() {
        let shut_out = Rights { shut_out: true, ..Rights::staged(4, 1 << CAP_PERFMON) };
        for rights in [Rights::staged(2, 0), Rights::staged(4, 0), shut_out.clone(), Rights::staged(1, 0)] {
            for i in rights_items(&rights) {
                assert_eq!(i.state == CheckState::Good, i.remedy.is_empty(), "{i:?}");
            }
        }
        let seccomp = Rights { blocked: Some(crate::kernel::sys::Errno::PERM), seccomp: 2, ..Rights::staged(2, 0) };
        assert!(text(&rights_items(&seccomp)).contains("--cap-add PERFMON"));
        let refused = text(&rights_items(&shut_out));
        assert!(refused.contains("only root") && refused.lines().count() == 2, "only one item: {refused}");
        let level = text(&rights_items(&Rights::staged(4, 0)));
        assert!(!level.contains("only root") && level.contains("own processes, user code only"), "{level}");
        assert!(rights_items(&Rights::staged(2, 1 << CAP_PERFMON)).iter().all(|i| i.state == CheckState::Good));
    }

    #[test]
    fn capabilities_are_told_with_what_they_give() {
        let all = privilege::WANTED.iter().fold(0, |set, one| set | 1 << one.number);
        let with = |caps| Rights::staged(2, caps);
        assert_eq!(capabilities(&with(u64::MAX), None).state, CheckState::Good);
        assert_eq!(capabilities(&with(all), Some(0)).state, CheckState::Good);
        for one in privilege::WANTED {
            let without = capabilities(&with(all & !(1 << one.number)), None);
            assert!(
                without.state == CheckState::Limited && without.remedy.contains("cap_perfmon,cap_bpf,cap_syslog=ep")
            );
            assert!(without.found.contains(&format!("not {} ({})", one.name, one.gives)), "{}", without.found);
        }
        let cap_dac_read_search = 1 << 2;
        let too_much = capabilities(&with(all), Some(cap_dac_read_search));
        assert!(too_much.state == CheckState::Limited && too_much.found.contains("any user could read any file"));
    }

    #[test]
    fn missing_parts_are_named() {
        for (kptr_restrict, paranoid, caps) in [(0, 2, 0), (1, 1, 0), (2, -1, u64::MAX)] {
            let names = kernel_names(&Rights { kptr_restrict, ..Rights::staged(paranoid, caps) });
            let cause = if kptr_restrict == 0 { "perf_event_paranoid is 2" } else { "kptr_restrict is" };
            assert!(names.state == CheckState::Bad && names.found.contains(cause), "{names:?}");
            // The remedy does not contain a setting that is already active.
            let asked = format!("kptr_restrict={kptr_restrict}");
            assert!(!names.remedy.contains(&asked), "{names:?}");
        }
        assert_eq!(
            tracefs(Err(std::io::ErrorKind::NotFound.into())).remedy,
            "mount -t tracefs nodev /sys/kernel/tracing"
        );
        let kernel = tempfile::tempdir().expect("dir");
        assert_eq!(probes(kernel.path()).found, "this kernel has neither kprobes nor uprobes");
        let unknown = devices(Path::new("/nowhere"));
        assert!(unknown.len() == 1 && unknown[0].found.starts_with("/nowhere does not exist"), "{unknown:?}");
    }
}
