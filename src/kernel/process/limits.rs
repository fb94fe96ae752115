//! The limits of this user and this machine: capabilities, sysctls, descriptor and memory limits.

use std::path::Path;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::kernel::perf_event::sys::{self, Errno};
use crate::kernel::procfs;

pub(crate) const CAP_SYS_ADMIN: u32 = 21;
pub(crate) const CAP_SYSLOG: u32 = 34;
pub(crate) const CAP_PERFMON: u32 = 38;
pub(crate) const CAP_BPF: u32 = 39;

/// The rights and settings that decide what may be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// The sysctl `kernel.perf_event_paranoid`; 2, the kernel's default, where it cannot be read.
    pub paranoid: i64,
    pub(crate) kptr_restrict: i64,
    pub(crate) max_sample_rate: i64,
    pub(crate) mlock_kb: i64,
    /// Effective capabilities that count on the machine: one bit each, by their numbers (capabilities(7)). Always 0 in
    /// a nested user namespace, because the kernel checks all that sampling needs against the first one.
    pub caps: u64,
    /// Whether this user is root; in a container, root may still lack capabilities.
    pub is_root: bool,
    /// Whether the process is in a nested user namespace: rootless containers, unprivileged LXD, bubblewrap.
    pub is_namespaced: bool,
    pub(crate) seccomp: u64,
    /// The errno of the null probe when the system call is blocked.
    pub blocked: Option<Errno>,
    /// Whether this user may not even sample the user code of its own processes. Kernels of Debian and Ubuntu forbid it
    /// at higher levels of paranoid; other kernels have no level above 2.
    pub(crate) shut_out: bool,
    /// The line of `/sys/kernel/security/lockdown`, with the active mode in brackets; empty if the file does not exist.
    pub lockdown: String,
}

#[cfg(test)]
impl Rights {
    pub(crate) fn staged(paranoid: i64, caps: u64) -> Self {
        Self {
            paranoid,
            kptr_restrict: 1,
            max_sample_rate: 100_000,
            mlock_kb: 516,
            caps,
            is_root: false,
            is_namespaced: false,
            seccomp: 0,
            blocked: None,
            shut_out: false,
            lockdown: String::new(),
        }
    }
}

impl Rights {
    /// Reads them from the running system.
    pub fn read() -> Self {
        let is_namespaced = !in_first_user_namespace();
        Self {
            paranoid: procfs::sysctl("kernel/perf_event_paranoid").unwrap_or(2),
            kptr_restrict: procfs::sysctl("kernel/kptr_restrict").unwrap_or(1),
            max_sample_rate: procfs::sysctl("kernel/perf_event_max_sample_rate").unwrap_or(100_000),
            mlock_kb: procfs::sysctl("kernel/perf_event_mlock_kb").unwrap_or(516),
            caps: counting_caps(procfs::effective_caps(), is_namespaced),
            is_root: rustix::process::geteuid().is_root(),
            is_namespaced,
            seccomp: procfs::seccomp_mode(),
            blocked: sys::probe().err(),
            shut_out: matches!(sys::own_code(), Err(Errno::ACCESS | Errno::PERM)),
            lockdown: procfs::line("/sys/kernel/security/lockdown").unwrap_or_default(),
        }
    }

    /// Returns the data pages of a ring that each CPU can have within the kernel's grant of unaccounted locked memory
    /// (perf_mmap in kernel/events/core.c; one more page is for control).
    pub(crate) fn ring_share(&self) -> usize {
        let pages = usize::try_from(self.mlock_kb).unwrap_or(0) * 1024 / rustix::param::page_size();
        let data = pages.saturating_sub(1).max(1);
        1 << data.ilog2()
    }

    pub(crate) fn has(&self, cap: u32) -> bool {
        self.caps >> cap & 1 == 1
    }

    /// Returns whether CAP_PERFMON or CAP_SYS_ADMIN lifts the limits of perf_event_paranoid.
    pub(crate) fn privileged(&self) -> bool {
        !self.shut_out && (self.has(CAP_SYS_ADMIN) || self.has(CAP_PERFMON))
    }

    /// Returns whether whole CPUs can be sampled, not only own processes.
    pub fn system_wide(&self) -> bool {
        self.privileged() || self.paranoid <= 0
    }

    /// Returns whether kernel code can be sampled.
    pub fn kernel(&self) -> bool {
        self.privileged() || self.paranoid <= 1
    }

    pub(crate) fn kernel_names(&self) -> bool {
        match self.kptr_restrict {
            _ if !procfs::is_mounted() => false,
            0 => self.paranoid <= 1 || self.has(CAP_SYSLOG),
            1 => self.has(CAP_SYSLOG),
            _ => false,
        }
    }
}

/// The inode of the first user namespace (`USER_NS_INIT_INO` in linux/nsfs.h).
const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Returns whether our capabilities count on the machine. Without /proc, tries to open an event on a whole CPU.
fn in_first_user_namespace() -> bool {
    match rustix::fs::stat("/proc/self/ns/user") {
        Ok(stat) => stat.st_ino == FIRST_USER_NAMESPACE,
        // A kernel without user namespaces has no such file.
        Err(_) if Path::new("/proc/self/ns").is_dir() => true,
        Err(_) => sys::whole_cpu().is_ok(),
    }
}

fn counting_caps(effective: u64, is_namespaced: bool) -> u64 {
    if is_namespaced { 0 } else { effective }
}

/// Returns the machine's memory in bytes.
pub(crate) fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

/// Returns the lowest memory limit of this process's cgroups in bytes (cgroups(7)); `None` without a limit.
pub(crate) fn memory_limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_of(&groups, Path::new("/sys/fs/cgroup"))
}

fn limit_of(groups: &str, root: &Path) -> Option<u64> {
    let one = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let (tree, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            list if list.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        // Ancestors limit it, too. In a container the path may not exist; the root is then the container's own.
        let read = |path: &Path| {
            let text = std::fs::read_to_string(tree.join(path.strip_prefix("/").ok()?).join(file)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        Path::new(path).ancestors().filter_map(read).min()
    };
    groups.lines().filter_map(one).min().filter(|limit| *limit < NO_LIMIT)
}

/// The value from which on there is no limit: the kernel writes the largest number of whole pages.
const NO_LIMIT: u64 = 1 << 60;

/// The limit of open files at our start, which started commands get back.
static FIRST_FILES: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit of open files to the hard one. Raises both if more are needed and this user may do so
/// (CAP_SYS_RESOURCE). Returns the resulting soft limit.
pub(crate) fn raise_files(need: u64) -> u64 {
    let first = *FIRST_FILES.get_or_init(|| getrlimit(Resource::Nofile));
    let maximum = getrlimit(Resource::Nofile).maximum.or(first.maximum);
    if maximum.is_some_and(|maximum| need > maximum) {
        let more = Some(need.min(most_files()));
        // Without the capability, the hard limit applies.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: more, maximum: more });
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

pub(crate) fn most_files() -> u64 {
    procfs::sysctl("fs/nr_open").and_then(|most| u64::try_from(most).ok()).unwrap_or(1 << 20)
}

/// Restores our original limit of open files in a started command. Safe between fork and exec.
pub(super) fn leave_children_their_files() {
    if let Some(first) = FIRST_FILES.get() {
        let _ = setrlimit(Resource::Nofile, *first);
    }
}

/// Bytes of stack that the command line's thread may need.
const STACK: u64 = 4 << 20;

/// Runs work on a stack of the usual size if the limit of this thread's stack is smaller (ulimit -s).
pub(crate) fn with_usual_stack<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    if getrlimit(Resource::Stack).current.is_none_or(|limit| limit >= STACK) {
        return work();
    }
    let mut work = Some(work);
    let mut result = None;
    std::thread::scope(|scope| {
        let (work, result) = (&mut work, &mut result);
        let run = move || *result = work.take().map(|work| work());
        // If the thread cannot be started, the small stack may suffice.
        let _ = std::thread::Builder::new().name("main".to_owned()).stack_size(STACK as usize).spawn_scoped(scope, run);
    });
    match (result, work) {
        (Some(result), _) => result,
        (None, Some(work)) => work(),
        // The thread panicked, which ends the program.
        (None, None) => crate::kernel::tty::exit_now(1),
    }
}

/// Returns the locked-memory limit in bytes.
pub(crate) fn memlock() -> u64 {
    getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rights(paranoid: i64, caps: &[u32]) -> Rights {
        Rights::staged(paranoid, caps.iter().fold(0, |set, cap| set | 1 << cap))
    }

    #[test]
    fn the_tightest_cgroup_limits_memory() {
        let dir = tempfile::tempdir().expect("dir");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let limit = |groups: &str| limit_of(groups, dir.path());
        write("a/memory.max", "268435456\n");
        write("a/b/memory.max", "max\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!((limit("0::/a/b\n"), limit("0::/\n")), (Some(268_435_456), None));
        assert_eq!((limit("4:cpu:/a\n3:memory:/gone\n"), limit("")), (None, None));
        write("memory/x/memory.limit_in_bytes", "1000\n");
        assert_eq!(limit("4:hugetlb,memory:/x\n0::/a\n"), Some(1000));
    }

    #[test]
    fn capabilities_of_a_user_namespace_do_not_count() {
        let root =
            |is_namespaced| Rights { is_namespaced, ..Rights::staged(2, counting_caps(u64::MAX, is_namespaced)) };
        assert!(root(false).privileged() && root(false).kernel_names());
        let inside = root(true);
        assert!(!inside.privileged() && !inside.kernel() && !inside.system_wide() && !inside.kernel_names());
        // The process that runs the tests is in the namespace of its own file.
        let own = std::fs::read_link("/proc/self/ns/user").expect("a namespace");
        assert_eq!(in_first_user_namespace(), own.to_string_lossy() == "user:[4026531837]");
        let status = std::fs::read_to_string("/proc/self/status").expect("status");
        assert!(status.contains(&format!("CapEff:\t{:016x}\n", procfs::effective_caps())), "{status}");
    }

    #[test]
    fn paranoid_levels_and_capabilities() {
        assert!(!rights(2, &[]).kernel() && !rights(2, &[]).system_wide());
        assert!(rights(1, &[]).kernel() && !rights(1, &[]).system_wide());
        assert!(rights(0, &[]).system_wide());
        assert!(rights(2, &[CAP_PERFMON]).system_wide());
        assert!(rights(4, &[CAP_PERFMON]).system_wide(), "the kernel knows no level above 2");
        let debian = Rights { shut_out: true, ..rights(3, &[CAP_PERFMON]) };
        assert!(!debian.system_wide() && !debian.kernel(), "Debian's level 3 wants CAP_SYS_ADMIN");
        assert!(rights(3, &[CAP_SYS_ADMIN]).system_wide());
        assert!(!rights(0, &[]).kernel_names() && rights(0, &[CAP_SYSLOG]).kernel_names());
    }
}
