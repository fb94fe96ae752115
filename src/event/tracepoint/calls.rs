//! The names of system calls, errors and signals, with a table of calls per architecture and ABI.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Abi {
    /// The kernel's native ABI.
    #[default]
    Native,
    /// The 32-bit ABI of a 64-bit kernel: 32-bit programs, and `int 0x80` in 64-bit ones.
    Compat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) abi: Abi,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CallTables {
    X86_64,
    X86,
    Aarch64,
    Arm,
    /// The tables of the machine for which this program is built.
    #[default]
    Own,
}

/// An additional bit in the numbers of x32 (`__X32_SYSCALL_BIT`).
const X32: i64 = 0x4000_0000;
/// The first of the calls with numbers specific to x32 (arch/x86/entry/syscalls/syscall_64.tbl).
const X32_FIRST: usize = 512;
const X32_CALLS: [&str; 36] = [
    "rt_sigaction",
    "rt_sigreturn",
    "ioctl",
    "readv",
    "writev",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "execve",
    "ptrace",
    "rt_sigpending",
    "rt_sigtimedwait",
    "rt_sigqueueinfo",
    "sigaltstack",
    "timer_create",
    "mq_notify",
    "kexec_load",
    "waitid",
    "set_robust_list",
    "get_robust_list",
    "vmsplice",
    "move_pages",
    "preadv",
    "pwritev",
    "rt_tgsigqueueinfo",
    "recvmmsg",
    "sendmmsg",
    "process_vm_readv",
    "process_vm_writev",
    "setsockopt",
    "getsockopt",
    "io_setup",
    "io_submit",
    "execveat",
    "preadv2",
    "pwritev2",
];

impl CallTables {
    /// Returns the tables for an architecture name of uname. The empty name is this machine's.
    pub(crate) fn of(arch: &str) -> Self {
        match if arch.is_empty() { std::env::consts::ARCH } else { arch } {
            "x86_64" => Self::X86_64,
            "x86" | "i386" | "i486" | "i586" | "i686" => Self::X86,
            "aarch64" => Self::Aarch64,
            arch if arch.starts_with("arm") => Self::Arm,
            _ => Self::Own,
        }
    }

    pub(crate) fn known(self, call: Call) -> Option<&'static str> {
        let at = usize::try_from(call.number).ok()?;
        match (self, call.abi) {
            (Self::X86_64, Abi::Native) if call.number & X32 != 0 => {
                let at = at & !(X32 as usize);
                let own = at.checked_sub(X32_FIRST).and_then(|at| X32_CALLS.get(at));
                own.copied().or_else(|| syscalls::x86_64::Sysno::new(at).map(|call| call.name()))
            }
            (Self::X86_64, Abi::Native) => syscalls::x86_64::Sysno::new(at).map(|call| call.name()),
            (Self::X86_64, Abi::Compat) | (Self::X86, _) => syscalls::x86::Sysno::new(at).map(|call| call.name()),
            (Self::Aarch64, Abi::Native) => syscalls::aarch64::Sysno::new(at).map(|call| call.name()),
            (Self::Aarch64, Abi::Compat) | (Self::Arm, _) => syscalls::arm::Sysno::new(at).map(|call| call.name()),
            (Self::Own, Abi::Native) => syscalls::Sysno::new(at).map(|call| call.name()),
            (Self::Own, Abi::Compat) => None,
        }
    }

    /// Returns the numbers of a call by both ABIs.
    pub(crate) fn numbers(self, name: &str) -> impl Iterator<Item = i64> {
        self.all().filter(move |(_, known)| *known == name).map(|(call, _)| call.number)
    }

    /// Iterates over the calls of both ABIs, with their names.
    pub(crate) fn all(self) -> impl Iterator<Item = (Call, &'static str)> {
        let calls = (0..HIGHEST).flat_map(|number| [Abi::Native, Abi::Compat].map(|abi| Call { number, abi }));
        calls.filter_map(move |call| Some((call, self.known(call)?)))
    }

    /// Returns the name of a call, or its number if it is unknown.
    pub(crate) fn name(self, call: Call) -> String {
        self.known(call).map_or_else(|| format!("call {}", call.number), str::to_owned)
    }

    /// Returns whether a call is of the machine's widest ABI, and the name of its ABI.
    pub(crate) fn abi(self, call: Call) -> (bool, &'static str) {
        match (self, call.abi) {
            (Self::X86_64, Abi::Native) if call.number > 0 && call.number & X32 != 0 => (false, "x32"),
            (Self::X86 | Self::Arm, _) | (_, Abi::Compat) => (false, "32-bit"),
            _ => (true, "64-bit"),
        }
    }

    /// Whether the registers have a call's arguments when it has returned: an exec and a signal's end replace them.
    pub(crate) fn keeps_arguments(self, call: Call, result: i64) -> bool {
        let replaces =
            |name: &str| name == "rt_sigreturn" || name == "sigreturn" || name.starts_with("exec") && result == 0;
        !self.known(call).is_some_and(replaces)
    }

    /// Whether a call creates a thread, in which it returns as well.
    pub(crate) fn makes_thread(self, call: Call) -> bool {
        self.known(call).is_some_and(|name| matches!(name, "fork" | "vfork" | "clone" | "clone3"))
    }
}

/// The highest number of a system call on any architecture, and some room for new ones.
const HIGHEST: i64 = 600;

/// Returns the calls of an architecture's native ABI: their numbers and names. The empty name is this machine's.
pub(crate) fn native_calls(arch: &str) -> impl Iterator<Item = (i64, &'static str)> {
    let tables = CallTables::of(arch);
    (0..HIGHEST).filter_map(move |number| Some((number, tables.known(Call { number, abi: Abi::Native })?)))
}

/// Returns the name of an error number on x86, Arm and most other architectures, or the number if it is unknown.
pub(crate) fn error_name(errno: u32) -> String {
    let known = syscalls::Errno::new(errno as i32).name();
    known.map_or_else(|| errno.to_string(), str::to_owned)
}

/// The signals of most architectures by number, without `SIG` (include/uapi/asm-generic/signal.h).
pub(crate) const SIGNALS: &[&str] = &[
    "0", "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
    "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH",
    "IO", "PWR", "SYS",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn native(number: i64) -> Call {
        Call { number, abi: Abi::Native }
    }

    fn compat(number: i64) -> Call {
        Call { number, abi: Abi::Compat }
    }

    #[test]
    fn numbers_are_of_the_machine_that_made_the_calls() {
        let names = |number| ["x86_64", "aarch64", ""].map(|arch| CallTables::of(arch).name(native(number)));
        assert_eq!(names(0)[..2], ["read", "io_setup"]);
        assert_eq!(names(221)[..2], ["fadvise64", "execve"]);
        assert_eq!(names(221)[2], CallTables::of(std::env::consts::ARCH).name(native(221)));
        assert_eq!(names(-1), ["call -1", "call -1", "call -1"].map(str::to_owned));
    }

    /// Numbers from arch/x86/entry/syscalls/syscall_32.tbl, syscall_64.tbl and arch/arm/tools/syscall.tbl.
    #[test]
    fn numbers_are_of_the_abi_by_which_calls_were_made() {
        let x86 = CallTables::of("x86_64");
        for (number, name32, name64) in [
            (1, "exit", "write"),
            (2, "fork", "open"),
            (11, "execve", "munmap"),
            (102, "socketcall", "getuid"),
            (120, "clone", "getresgid"),
            (168, "poll", "swapoff"),
            (190, "vfork", "fsetxattr"),
            (407, "clock_nanosleep_time64", "call 407"),
            (435, "clone3", "clone3"),
        ] {
            assert_eq!(
                (x86.name(compat(number)), x86.name(native(number))),
                (name32.into(), name64.into()),
                "{number}"
            );
            assert_eq!(CallTables::of("i686").name(native(number)), name32, "{number}");
        }
        let arm = |number| CallTables::of("aarch64").name(compat(number));
        assert_eq!([1, 2, 168, 436].map(arm), ["exit", "fork", "poll", "close_range"]);
        assert_eq!([1, 168].map(|n| CallTables::of("armv7l").name(native(n))), ["exit", "poll"]);
        let x32 = |number| (x86.name(native(X32 | number)), x86.abi(native(X32 | number)).1);
        assert_eq!(
            [0, 512, 520, 545, 547].map(|n| x32(n).0),
            ["read", "rt_sigaction", "execve", "execveat", "pwritev2"]
        );
        assert_eq!((x32(0).1, x86.abi(native(0)).1, x86.abi(compat(0)).1), ("x32", "64-bit", "32-bit"));
        assert!(x86.makes_thread(compat(2)) && x86.makes_thread(compat(435)) && x86.makes_thread(native(57)));
        assert!(!x86.makes_thread(compat(57)) && !x86.makes_thread(native(2)));
    }

    #[test]
    fn errors_have_names_those_within_the_kernel_too() {
        for (errno, name) in [
            (1, "EPERM"),
            (11, "EAGAIN"),
            (35, "EDEADLK"),
            (40, "ELOOP"),
            (95, "EOPNOTSUPP"),
            (115, "EINPROGRESS"),
            (133, "EHWPOISON"),
            (512, "ERESTARTSYS"),
            (516, "ERESTART_RESTARTBLOCK"),
            (0, "0"),
            (41, "41"),
            (4095, "4095"),
        ] {
            assert_eq!(error_name(errno), name);
        }
    }
}
