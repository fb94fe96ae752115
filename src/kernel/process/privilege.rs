//! Limits the program's rights beyond its caller's to sampling. A file with capabilities, or a setuid one, lends its
//! rights to every user. Rights that open other users' files are given up before any file is opened, and paths from the
//! environment are then not trusted.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use rustix::process::{getegid, geteuid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities, set_thread_res_gid,
    set_thread_res_uid,
};

use super::limits::{CAP_BPF, CAP_PERFMON, CAP_SYSLOG, Rights};
use crate::kernel::procfs;

/// A capability that sampling needs and that does not open other users' files (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its bit in capability sets (linux/capability.h).
    pub number: u32,
    /// Its spelling in setcap(8): `cap_perfmon`.
    pub name: &'static str,
    /// The features that it enables.
    pub gives: &'static str,
}

/// The capabilities that the program's file should have. With `cap_dac_read_search` or `cap_sys_ptrace` in addition, as
/// is often advised for profilers, any user could read any file through it.
pub const WANTED: [Capability; 3] = [
    Capability { number: CAP_PERFMON, name: "cap_perfmon", gives: "samples of the whole machine and of its kernel" },
    Capability { number: CAP_BPF, name: "cap_bpf", gives: "capture filters on sampling events" },
    Capability { number: CAP_SYSLOG, name: "cap_syslog", gives: "names of kernel functions" },
];

pub(crate) const PROGRAM: &str = "$(command -v perfprof-tui)";

/// Returns the command that gives them to the program's file.
pub fn setcap() -> String {
    format!("setcap {}=ep {PROGRAM}", WANTED.map(|one| one.name).join(","))
}

/// Returns advice on how this user gets them. Root lacks them only in a container.
pub(crate) fn obtain(rights: &Rights) -> String {
    let names = WANTED.map(|one| one.name.trim_start_matches("cap_").to_uppercase());
    match rights.is_root {
        _ if rights.is_namespaced => "Run as root of the machine, outside this user namespace".to_owned(),
        true => format!(
            "Docker, Podman: --cap-add {}; a pod: securityContext.capabilities.add: [{}]",
            names.join(" --cap-add "),
            names.join(", ")
        ),
        false => format!("Run as root, or {}", setcap()),
    }
}

/// Returns the clause that says which capability is missing; it may be one that does not count in a user namespace.
pub(crate) fn lacks(rights: &Rights, capability: &str) -> String {
    match rights.is_namespaced {
        true => format!("{capability} does not count in a user namespace (rootless container, bubblewrap)"),
        false => format!("this user has no {capability}"),
    }
}

/// Returns why /proc/kallsyms shows no addresses, and the remedy (`kallsyms_show_value` in kernel/ksyms_common.c).
pub(crate) fn names_hidden(rights: &Rights) -> (String, String) {
    let restrict = rights.kptr_restrict;
    let or = |sysctl: &str| match rights.is_root || rights.is_namespaced {
        true => format!("{}; or {sysctl} on the host", obtain(rights)),
        false => format!("Run as root, or {sysctl}, or {}", setcap()),
    };
    match restrict {
        _ if !procfs::is_mounted() => {
            ("/proc, which has kernel addresses, is not mounted".to_owned(), "mount -t proc proc /proc".to_owned())
        }
        _ if rights.kernel_names() => (
            "kernel addresses are hidden here, although this user's rights suffice on the machine itself".to_owned(),
            "Run as root outside of the container.".to_owned(),
        ),
        2.. => (
            format!("kernel.kptr_restrict is {restrict}, which hides kernel addresses from root, too"),
            "sysctl kernel.kptr_restrict=1, and run as root".to_owned(),
        ),
        1 => (
            format!("kernel.kptr_restrict is {restrict} and {}", lacks(rights, "CAP_SYSLOG")),
            or("sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"),
        ),
        _ => (
            format!(
                "kernel.perf_event_paranoid is {}, which hides kernel addresses without CAP_SYSLOG",
                rights.paranoid
            ),
            or("sysctl kernel.perf_event_paranoid=1"),
        ),
    }
}

/// The capabilities beyond [`WANTED`] that the file lent to this process and that were given up; `None` if the process
/// has only its caller's rights.
static SHED: OnceLock<Option<u64>> = OnceLock::new();

pub(crate) fn given_up() -> Option<u64> {
    SHED.get().copied().flatten()
}

/// Gives up rights of the program's file that sampling does not need. Must be called before a second thread starts,
/// because capabilities are per thread.
pub(crate) fn shed() -> io::Result<()> {
    // SAFETY: reads a number that the kernel stored at the start of the process.
    let secure = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    // A file cannot lend anything to root.
    let over = if secure && !getuid().is_root() { Some(drop_rights()?) } else { None };
    let _ = SHED.set(over);
    Ok(())
}

fn drop_rights() -> io::Result<u64> {
    let (uid, gid) = (getuid(), getgid());
    let before = capabilities(None)?;
    let wanted = WANTED.iter().fold(0, |set, one| set | 1 << one.number);
    let kept = before.permitted & CapabilitySet::from_bits_retain(wanted);
    // Changing the user from root drops all capabilities unless this is set first.
    set_keep_capabilities(true)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    set_keep_capabilities(false)?;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)?;
    if (geteuid(), getegid()) != (uid, gid) || capabilities(None)?.permitted != kept {
        return Err(io::Error::other("the rights of the program's file cannot be dropped"));
    }
    Ok((before.permitted - kept).bits())
}

pub(crate) fn variable(name: &str) -> Option<OsString> {
    let value = || std::env::var_os(name).filter(|value| !value.is_empty());
    believed(name, given_up().is_some(), value, || home_of(&passwd(), getuid().as_raw()))
}

pub(crate) fn directory(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Returns a variable. With rights that are not the caller's, only HOME is known, from the user database.
fn believed(
    name: &str,
    lent: bool,
    value: impl FnOnce() -> Option<OsString>,
    home: impl FnOnce() -> Option<String>,
) -> Option<OsString> {
    match name {
        _ if !lent => value(),
        "HOME" => home().map(OsString::from),
        _ => None,
    }
}

fn passwd() -> String {
    std::fs::read_to_string("/etc/passwd").unwrap_or_default()
}

fn home_of(passwd: &str, uid: u32) -> Option<String> {
    passwd.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(uid)).then(|| fields.get(5).map(|home| (*home).to_owned()))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lent_rights_leave_the_environment_no_say() {
        let home = || home_of("root:x:0:0:root:/root:/bin/sh\nbad\nann:x:7:7:Ann:/home/ann:/bin/sh\n", 7);
        let says = |name: &str, lent| believed(name, lent, || Some("/planted".into()), home);
        for name in ["HOME", "DEBUGINFOD_URLS", "DEBUGINFOD_CACHE_PATH", "XDG_CONFIG_HOME", "PERFPROF_SSH", "SUDO_UID"]
        {
            assert_eq!(says(name, false).as_deref(), Some("/planted".as_ref()), "{name}");
            assert_eq!(says(name, true), (name == "HOME").then(|| "/home/ann".into()), "{name}");
        }
    }

    #[test]
    fn nothing_that_opens_files_is_recommended() {
        let container = obtain(&Rights { is_root: true, ..Rights::staged(2, 0) });
        assert!(container.contains("--cap-add PERFMON --cap-add BPF --cap-add SYSLOG;"), "{container}");
        assert!(
            container.ends_with("add: [PERFMON, BPF, SYSLOG]") && obtain(&Rights::staged(2, 0)).ends_with(&setcap())
        );
        assert!(setcap().starts_with("setcap cap_perfmon,cap_bpf,cap_syslog=ep "));
        let numbers: Vec<u32> = WANTED.iter().map(|one| one.number).collect();
        // CAP_DAC_OVERRIDE to CAP_FOWNER, CAP_SETGID, CAP_SETUID, CAP_SYS_PTRACE, CAP_SYS_ADMIN.
        assert!([1, 2, 3, 6, 7, 19, 21].iter().all(|other| !numbers.contains(other)), "{numbers:?}");
    }
}
