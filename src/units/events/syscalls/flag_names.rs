//! Names of flags and numbers in the arguments of system calls, from the kernel's headers.

pub(super) type Flags = [(i32, &'static str)];

pub(super) const OPEN: &Flags = &[
    (libc::O_CREAT, "CREAT"),
    (libc::O_EXCL, "EXCL"),
    (libc::O_NOCTTY, "NOCTTY"),
    (libc::O_TRUNC, "TRUNC"),
    (libc::O_APPEND, "APPEND"),
    (libc::O_NONBLOCK, "NONBLOCK"),
    (libc::O_TMPFILE, "TMPFILE"),
    (libc::O_DIRECTORY, "DIRECTORY"),
    (libc::O_NOFOLLOW, "NOFOLLOW"),
    (libc::O_CLOEXEC, "CLOEXEC"),
    (libc::O_SYNC, "SYNC"),
    (libc::O_DSYNC, "DSYNC"),
    (libc::O_DIRECT, "DIRECT"),
    (libc::O_NOATIME, "NOATIME"),
    (libc::O_PATH, "PATH"),
];
pub(super) const PROTECTION: &Flags =
    &[(libc::PROT_READ, "READ"), (libc::PROT_WRITE, "WRITE"), (libc::PROT_EXEC, "EXEC")];
/// The last ones are those of asm-generic/mman.h.
pub(super) const MAPPING: &Flags = &[
    (libc::MAP_SHARED_VALIDATE, "SHARED_VALIDATE"),
    (libc::MAP_SHARED, "SHARED"),
    (libc::MAP_PRIVATE, "PRIVATE"),
    (libc::MAP_FIXED, "FIXED"),
    (libc::MAP_ANONYMOUS, "ANONYMOUS"),
    (libc::MAP_NORESERVE, "NORESERVE"),
    (libc::MAP_POPULATE, "POPULATE"),
    (libc::MAP_STACK, "STACK"),
    (0x100, "GROWSDOWN"),
    (0x800, "DENYWRITE"),
    (0x1000, "EXECUTABLE"),
    (0x2000, "LOCKED"),
    (0x1_0000, "NONBLOCK"),
    (0x10_0000, "FIXED_NOREPLACE"),
    (libc::MAP_HUGETLB, "HUGETLB"),
];
pub(super) const LOOKUP: &Flags = &[
    (libc::AT_SYMLINK_NOFOLLOW, "SYMLINK_NOFOLLOW"),
    (libc::AT_REMOVEDIR, "REMOVEDIR"),
    (libc::AT_SYMLINK_FOLLOW, "SYMLINK_FOLLOW"),
    (libc::AT_NO_AUTOMOUNT, "NO_AUTOMOUNT"),
    (libc::AT_EMPTY_PATH, "EMPTY_PATH"),
];
pub(super) const ACCESS: &Flags = &[
    (libc::AT_EACCESS, "EACCESS"),
    (libc::AT_SYMLINK_NOFOLLOW, "SYMLINK_NOFOLLOW"),
    (libc::AT_EMPTY_PATH, "EMPTY_PATH"),
];
pub(super) const CLONE: &Flags = &[
    (libc::CLONE_VM, "VM"),
    (libc::CLONE_FS, "FS"),
    (libc::CLONE_FILES, "FILES"),
    (libc::CLONE_SIGHAND, "SIGHAND"),
    (libc::CLONE_VFORK, "VFORK"),
    (libc::CLONE_PTRACE, "PTRACE"),
    (libc::CLONE_PARENT, "PARENT"),
    (libc::CLONE_THREAD, "THREAD"),
    (libc::CLONE_SYSVSEM, "SYSVSEM"),
    (libc::CLONE_SETTLS, "SETTLS"),
    (libc::CLONE_PARENT_SETTID, "PARENT_SETTID"),
    (libc::CLONE_CHILD_CLEARTID, "CHILD_CLEARTID"),
    (libc::CLONE_CHILD_SETTID, "CHILD_SETTID"),
    (libc::CLONE_NEWCGROUP, "NEWCGROUP"),
    (libc::CLONE_NEWNS, "NEWNS"),
    (libc::CLONE_NEWUTS, "NEWUTS"),
    (libc::CLONE_NEWIPC, "NEWIPC"),
    (libc::CLONE_NEWUSER, "NEWUSER"),
    (libc::CLONE_NEWPID, "NEWPID"),
    (libc::CLONE_NEWNET, "NEWNET"),
];
pub(super) const SOCKET: &Flags = &[(libc::SOCK_CLOEXEC, "CLOEXEC"), (libc::SOCK_NONBLOCK, "NONBLOCK")];
/// `R_OK`, `W_OK` and `X_OK`; none of them is `F_OK`.
pub(super) const ACCESS_MODE: &Flags = &[(4, "R"), (2, "W"), (1, "X")];
pub(super) const WAIT_OPTIONS: &Flags = &[
    (libc::WNOHANG, "NOHANG"),
    (libc::WUNTRACED, "UNTRACED"),
    (libc::WEXITED, "EXITED"),
    (libc::WCONTINUED, "CONTINUED"),
    (libc::WNOWAIT, "NOWAIT"),
];
pub(super) const MESSAGE: &Flags = &[
    (libc::MSG_OOB, "OOB"),
    (libc::MSG_PEEK, "PEEK"),
    (libc::MSG_DONTROUTE, "DONTROUTE"),
    (libc::MSG_TRUNC, "TRUNC"),
    (libc::MSG_DONTWAIT, "DONTWAIT"),
    (libc::MSG_EOR, "EOR"),
    (libc::MSG_WAITALL, "WAITALL"),
    (libc::MSG_NOSIGNAL, "NOSIGNAL"),
    (libc::MSG_MORE, "MORE"),
    (0x1_0000, "WAITFORONE"),
    (0x4000_0000, "CMSG_CLOEXEC"),
];
pub(super) const FUTEX_FLAGS: &Flags = &[(128, "PRIVATE"), (256, "CLOCK_REALTIME")];

pub(super) const SOCKET_TYPES: &[&str] = &["", "STREAM", "DGRAM", "RAW", "RDM", "SEQPACKET"];
pub(super) const FAMILIES: &[&str] = &["UNSPEC", "UNIX", "INET", "", "", "", "", "", "", "", "INET6"];
pub(super) const FUTEX: &[&str] = &[
    "WAIT",
    "WAKE",
    "FD",
    "REQUEUE",
    "CMP_REQUEUE",
    "WAKE_OP",
    "LOCK_PI",
    "UNLOCK_PI",
    "TRYLOCK_PI",
    "WAIT_BITSET",
    "WAKE_BITSET",
    "WAIT_REQUEUE_PI",
    "CMP_REQUEUE_PI",
    "LOCK_PI2",
];
pub(super) const FCNTL: &[&str] =
    &["DUPFD", "GETFD", "SETFD", "GETFL", "SETFL", "GETLK", "SETLK", "SETLKW", "SETOWN", "GETOWN", "SETSIG", "GETSIG"];
/// The commands of fcntl without an argument: `GETFD`, `GETFL`, `GETOWN` and `GETSIG`.
pub(super) const FCNTL_ALONE: [i32; 4] = [libc::F_GETFD, libc::F_GETFL, libc::F_GETOWN, 11];
/// The first values of madvise(2) (asm-generic/mman-common.h).
pub(super) const ADVICE: &[&str] =
    &["NORMAL", "RANDOM", "SEQUENTIAL", "WILLNEED", "DONTNEED", "", "", "", "FREE", "REMOVE"];
pub(super) const ADVICE_FROM_10: &[&str] =
    &["DONTFORK", "DOFORK", "MERGEABLE", "UNMERGEABLE", "HUGEPAGE", "NOHUGEPAGE", "DONTDUMP", "DODUMP"];
/// Options of `SOL_SOCKET` (asm-generic/socket.h) and of TCP (linux/tcp.h).
pub(super) const SOCKET_OPTIONS: &[&str] = &[
    "",
    "DEBUG",
    "REUSEADDR",
    "TYPE",
    "ERROR",
    "DONTROUTE",
    "BROADCAST",
    "SNDBUF",
    "RCVBUF",
    "KEEPALIVE",
    "OOBINLINE",
    "NO_CHECK",
    "PRIORITY",
    "LINGER",
    "BSDCOMPAT",
    "REUSEPORT",
    "PASSCRED",
    "PEERCRED",
    "RCVLOWAT",
    "SNDLOWAT",
    "RCVTIMEO",
    "SNDTIMEO",
];
pub(super) const TCP_OPTIONS: &[&str] = &[
    "",
    "NODELAY",
    "MAXSEG",
    "CORK",
    "KEEPIDLE",
    "KEEPINTVL",
    "KEEPCNT",
    "SYNCNT",
    "LINGER2",
    "DEFER_ACCEPT",
    "WINDOW_CLAMP",
    "INFO",
    "QUICKACK",
    "CONGESTION",
    "MD5SIG",
    "",
    "",
    "",
    "USER_TIMEOUT",
];
pub(super) const LEVELS: [(i32, &str); 4] =
    [(libc::SOL_SOCKET, "SOCKET"), (libc::IPPROTO_IP, "IP"), (libc::IPPROTO_TCP, "TCP"), (libc::IPPROTO_IPV6, "IPV6")];
pub(super) const CLOCKS: &[&str] = &[
    "REALTIME",
    "MONOTONIC",
    "PROCESS_CPUTIME_ID",
    "THREAD_CPUTIME_ID",
    "MONOTONIC_RAW",
    "REALTIME_COARSE",
    "MONOTONIC_COARSE",
    "BOOTTIME",
    "REALTIME_ALARM",
    "BOOTTIME_ALARM",
    "",
    "TAI",
];
/// Numbers of ioctl(2) on x86 and Arm (asm-generic/ioctls.h, linux/fs.h, linux/sockios.h, linux/perf_event.h).
pub(super) const IOCTLS: &[(u32, &str)] = &[
    (0x5401, "TCGETS"),
    (0x5402, "TCSETS"),
    (0x5403, "TCSETSW"),
    (0x5404, "TCSETSF"),
    (0x540b, "TCFLSH"),
    (0x540e, "TIOCSCTTY"),
    (0x540f, "TIOCGPGRP"),
    (0x5410, "TIOCSPGRP"),
    (0x5413, "TIOCGWINSZ"),
    (0x5414, "TIOCSWINSZ"),
    (0x541b, "FIONREAD"),
    (0x5421, "FIONBIO"),
    (0x5422, "TIOCNOTTY"),
    (0x5450, "FIONCLEX"),
    (0x5451, "FIOCLEX"),
    (0x5452, "FIOASYNC"),
    (0x1260, "BLKGETSIZE"),
    (0x8008_1272, "BLKGETSIZE64"),
    (0x1277, "BLKDISCARD"),
    (0x4004_9409, "FICLONE"),
    (0x4020_940d, "FICLONERANGE"),
    (0xc020_660b, "FS_IOC_FIEMAP"),
    (0x8008_6601, "FS_IOC_GETFLAGS"),
    (0x8912, "SIOCGIFCONF"),
    (0x8913, "SIOCGIFFLAGS"),
    (0x8915, "SIOCGIFADDR"),
    (0x8927, "SIOCGIFHWADDR"),
    (0x8933, "SIOCGIFINDEX"),
    (0x2400, "PERF_EVENT_IOC_ENABLE"),
    (0x2401, "PERF_EVENT_IOC_DISABLE"),
    (0xae80, "KVM_RUN"),
];
