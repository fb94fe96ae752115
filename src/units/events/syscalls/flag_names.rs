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

// Names of the numbers from 0 on; `-` is a number without a name.

pub(super) const SOCKET_TYPES: &str = "- STREAM DGRAM RAW RDM SEQPACKET DCCP - - - PACKET";
pub(super) const FAMILIES: &str = "\
    UNSPEC UNIX INET AX25 IPX APPLETALK NETROM BRIDGE ATMPVC X25 INET6 ROSE DECNET NETBEUI SECURITY KEY NETLINK \
    PACKET ASH ECONET ATMSVC RDS SNA IRDA PPPOX WANPIPE LLC IB MPLS CAN TIPC BLUETOOTH IUCV RXRPC ISDN PHONET \
    IEEE802154 CAIF ALG NFC VSOCK KCM QIPCRTR SMC XDP MCTP";
pub(super) const FUTEX: &str = "\
    WAIT WAKE FD REQUEUE CMP_REQUEUE WAKE_OP LOCK_PI UNLOCK_PI TRYLOCK_PI WAIT_BITSET WAKE_BITSET WAIT_REQUEUE_PI \
    CMP_REQUEUE_PI LOCK_PI2";
/// Commands of fcntl(2) (asm-generic/fcntl.h), then those from 1024 on (linux/fcntl.h).
pub(super) const FCNTL: &str = "\
    DUPFD GETFD SETFD GETFL SETFL GETLK SETLK SETLKW SETOWN GETOWN SETSIG GETSIG - - - SETOWN_EX GETOWN_EX \
    GETOWNER_UIDS - - - - - - - - - - - - - - - - - - OFD_GETLK OFD_SETLK OFD_SETLKW";
pub(super) const FCNTL_FROM_1024: &str = "\
    SETLEASE GETLEASE NOTIFY DUPFD_QUERY CREATED_QUERY CANCELLK DUPFD_CLOEXEC SETPIPE_SZ GETPIPE_SZ ADD_SEALS \
    GET_SEALS GET_RW_HINT SET_RW_HINT GET_FILE_RW_HINT SET_FILE_RW_HINT";
/// The commands of fcntl without an argument.
pub(super) const FCNTL_ALONE: &str = "GETFD GETFL GETOWN GETSIG GETLEASE GETPIPE_SZ GET_SEALS CREATED_QUERY";
/// The values of madvise(2) (asm-generic/mman-common.h).
pub(super) const ADVICE: &str = "\
    NORMAL RANDOM SEQUENTIAL WILLNEED DONTNEED - - - FREE REMOVE DONTFORK DOFORK MERGEABLE UNMERGEABLE HUGEPAGE \
    NOHUGEPAGE DONTDUMP DODUMP WIPEONFORK KEEPONFORK COLD PAGEOUT POPULATE_READ POPULATE_WRITE DONTNEED_LOCKED \
    COLLAPSE";
pub(super) const FILE_ADVICE: &str = "NORMAL RANDOM SEQUENTIAL WILLNEED DONTNEED NOREUSE";
/// Options of `SOL_SOCKET` (asm-generic/socket.h), of TCP (linux/tcp.h), of IP (linux/in.h) and IPv6 (linux/in6.h).
pub(super) const SOCKET_OPTIONS: &str = "\
    - DEBUG REUSEADDR TYPE ERROR DONTROUTE BROADCAST SNDBUF RCVBUF KEEPALIVE OOBINLINE NO_CHECK PRIORITY LINGER \
    BSDCOMPAT REUSEPORT PASSCRED PEERCRED RCVLOWAT SNDLOWAT RCVTIMEO SNDTIMEO - - - BINDTODEVICE ATTACH_FILTER \
    DETACH_FILTER PEERNAME TIMESTAMP ACCEPTCONN PEERSEC SNDBUFFORCE RCVBUFFORCE PASSSEC TIMESTAMPNS MARK \
    TIMESTAMPING PROTOCOL DOMAIN RXQ_OVFL WIFI_STATUS PEEK_OFF NOFCS LOCK_FILTER SELECT_ERR_QUEUE BUSY_POLL \
    MAX_PACING_RATE BPF_EXTENSIONS INCOMING_CPU ATTACH_BPF ATTACH_REUSEPORT_CBPF ATTACH_REUSEPORT_EBPF CNX_ADVICE - \
    MEMINFO INCOMING_NAPI_ID COOKIE - PEERGROUPS ZEROCOPY TXTIME BINDTOIFINDEX TIMESTAMP_NEW TIMESTAMPNS_NEW \
    TIMESTAMPING_NEW RCVTIMEO_NEW SNDTIMEO_NEW";
pub(super) const TCP_OPTIONS: &str = "\
    - NODELAY MAXSEG CORK KEEPIDLE KEEPINTVL KEEPCNT SYNCNT LINGER2 DEFER_ACCEPT WINDOW_CLAMP INFO QUICKACK \
    CONGESTION MD5SIG - THIN_LINEAR_TIMEOUTS THIN_DUPACK USER_TIMEOUT REPAIR REPAIR_QUEUE QUEUE_SEQ REPAIR_OPTIONS \
    FASTOPEN TIMESTAMP NOTSENT_LOWAT CC_INFO SAVE_SYN SAVED_SYN REPAIR_WINDOW FASTOPEN_CONNECT ULP MD5SIG_EXT \
    FASTOPEN_KEY FASTOPEN_NO_COOKIE ZEROCOPY_RECEIVE INQ";
pub(super) const IP_OPTIONS: &str = "\
    - TOS TTL HDRINCL OPTIONS ROUTER_ALERT RECVOPTS RETOPTS PKTINFO PKTOPTIONS MTU_DISCOVER RECVERR RECVTTL RECVTOS \
    MTU FREEBIND IPSEC_POLICY XFRM_POLICY PASSSEC TRANSPARENT RECVORIGDSTADDR MINTTL NODEFRAG CHECKSUM \
    BIND_ADDRESS_NO_PORT RECVFRAGSIZE RECVERR_RFC4884 - - - - - MULTICAST_IF MULTICAST_TTL MULTICAST_LOOP \
    ADD_MEMBERSHIP DROP_MEMBERSHIP";
pub(super) const IPV6_OPTIONS: &str = "\
    - ADDRFORM - - - - - CHECKSUM - NEXTHOP - - - - - - UNICAST_HOPS MULTICAST_IF MULTICAST_HOPS MULTICAST_LOOP \
    ADD_MEMBERSHIP DROP_MEMBERSHIP ROUTER_ALERT MTU_DISCOVER MTU RECVERR V6ONLY";
pub(super) const LEVELS: [(i32, &str); 6] = [
    (libc::SOL_SOCKET, "SOCKET"),
    (libc::IPPROTO_IP, "IP"),
    (libc::IPPROTO_TCP, "TCP"),
    (libc::IPPROTO_UDP, "UDP"),
    (libc::IPPROTO_IPV6, "IPV6"),
    (270, "NETLINK"),
];
pub(super) const CLOCKS: &str = "\
    REALTIME MONOTONIC PROCESS_CPUTIME_ID THREAD_CPUTIME_ID MONOTONIC_RAW REALTIME_COARSE MONOTONIC_COARSE BOOTTIME \
    REALTIME_ALARM BOOTTIME_ALARM - TAI";
pub(super) const DIRECTIONS: &str = "RD WR RDWR";
pub(super) const MASK_CHANGES: &str = "BLOCK UNBLOCK SETMASK";
pub(super) const ID_TYPES: &str = "ALL PID PGID PIDFD";
pub(super) const PRIORITY_OF: &str = "PROCESS PGRP USER";
pub(super) const INTERVAL_TIMERS: &str = "REAL VIRTUAL PROF";
/// Resources of prlimit(2) (asm-generic/resource.h).
pub(super) const RESOURCES: &str = "\
    CPU FSIZE DATA STACK CORE RSS NPROC NOFILE MEMLOCK AS LOCKS SIGPENDING MSGQUEUE NICE RTPRIO RTTIME";
/// Options of prctl(2) (linux/prctl.h).
pub(super) const PROCESS_CONTROLS: &str = "\
    - SET_PDEATHSIG GET_PDEATHSIG GET_DUMPABLE SET_DUMPABLE GET_UNALIGN SET_UNALIGN GET_KEEPCAPS SET_KEEPCAPS \
    GET_FPEMU SET_FPEMU GET_FPEXC SET_FPEXC GET_TIMING SET_TIMING SET_NAME GET_NAME - - GET_ENDIAN SET_ENDIAN \
    GET_SECCOMP SET_SECCOMP CAPBSET_READ CAPBSET_DROP GET_TSC SET_TSC GET_SECUREBITS SET_SECUREBITS SET_TIMERSLACK \
    GET_TIMERSLACK TASK_PERF_EVENTS_DISABLE TASK_PERF_EVENTS_ENABLE MCE_KILL MCE_KILL_GET SET_MM SET_CHILD_SUBREAPER \
    GET_CHILD_SUBREAPER SET_NO_NEW_PRIVS GET_NO_NEW_PRIVS GET_TID_ADDRESS SET_THP_DISABLE GET_THP_DISABLE - - - - \
    CAP_AMBIENT";
/// Commands of bpf(2) (linux/bpf.h).
pub(super) const BPF_COMMANDS: &str = "\
    MAP_CREATE MAP_LOOKUP_ELEM MAP_UPDATE_ELEM MAP_DELETE_ELEM MAP_GET_NEXT_KEY PROG_LOAD OBJ_PIN OBJ_GET \
    PROG_ATTACH PROG_DETACH PROG_TEST_RUN PROG_GET_NEXT_ID MAP_GET_NEXT_ID PROG_GET_FD_BY_ID MAP_GET_FD_BY_ID \
    OBJ_GET_INFO_BY_FD PROG_QUERY RAW_TRACEPOINT_OPEN BTF_LOAD BTF_GET_FD_BY_ID TASK_FD_QUERY \
    MAP_LOOKUP_AND_DELETE_ELEM MAP_FREEZE BTF_GET_NEXT_ID MAP_LOOKUP_BATCH MAP_LOOKUP_AND_DELETE_BATCH \
    MAP_UPDATE_BATCH MAP_DELETE_BATCH LINK_CREATE LINK_UPDATE LINK_GET_FD_BY_ID LINK_GET_NEXT_ID ENABLE_STATS \
    ITER_CREATE LINK_DETACH PROG_BIND_MAP";
pub(super) const LOCKS: &Flags = &[(1, "SH"), (2, "EX"), (4, "NB"), (8, "UN")];
pub(super) const REMAPPING: &Flags = &[(1, "MAYMOVE"), (2, "FIXED"), (4, "DONTUNMAP")];
pub(super) const SYNCING: &Flags = &[(1, "ASYNC"), (2, "INVALIDATE"), (4, "SYNC")];
pub(super) const RENAMING: &Flags = &[(1, "NOREPLACE"), (2, "EXCHANGE"), (4, "WHITEOUT")];
pub(super) const MEMORY_FILE: &Flags =
    &[(1, "CLOEXEC"), (2, "ALLOW_SEALING"), (4, "HUGETLB"), (8, "NOEXEC_SEAL"), (16, "EXEC")];
pub(super) const SEALS: &Flags =
    &[(1, "SEAL"), (2, "SHRINK"), (4, "GROW"), (8, "WRITE"), (16, "FUTURE_WRITE"), (32, "EXEC")];
pub(super) const RANDOM: &Flags = &[(1, "NONBLOCK"), (2, "RANDOM"), (4, "INSECURE")];
pub(super) const SPLICING: &Flags = &[(1, "MOVE"), (2, "NONBLOCK"), (4, "MORE"), (8, "GIFT")];
pub(super) const ALLOCATION: &Flags = &[
    (1, "KEEP_SIZE"),
    (2, "PUNCH_HOLE"),
    (8, "COLLAPSE_RANGE"),
    (16, "ZERO_RANGE"),
    (32, "INSERT_RANGE"),
    (64, "UNSHARE_RANGE"),
];
/// The fields that statx(2) returns (linux/stat.h).
pub(super) const STATX: &Flags = &[
    (0xfff, "ALL"),
    (0x7ff, "BASIC_STATS"),
    (0x1, "TYPE"),
    (0x2, "MODE"),
    (0x4, "NLINK"),
    (0x8, "UID"),
    (0x10, "GID"),
    (0x20, "ATIME"),
    (0x40, "MTIME"),
    (0x80, "CTIME"),
    (0x100, "INO"),
    (0x200, "SIZE"),
    (0x400, "BLOCKS"),
    (0x800, "BTIME"),
    (0x1000, "MNT_ID"),
];
/// Events of inotify(7) (linux/inotify.h).
pub(super) const NOTIFICATIONS: &Flags = &[
    (0xfff, "ALL_EVENTS"),
    (0x1, "ACCESS"),
    (0x2, "MODIFY"),
    (0x4, "ATTRIB"),
    (0x8, "CLOSE_WRITE"),
    (0x10, "CLOSE_NOWRITE"),
    (0x20, "OPEN"),
    (0x40, "MOVED_FROM"),
    (0x80, "MOVED_TO"),
    (0x100, "CREATE"),
    (0x200, "DELETE"),
    (0x400, "DELETE_SELF"),
    (0x800, "MOVE_SELF"),
    (0x100_0000, "ONLYDIR"),
    (0x200_0000, "DONT_FOLLOW"),
    (0x400_0000, "EXCL_UNLINK"),
    (0x1000_0000, "MASK_CREATE"),
    (0x2000_0000, "MASK_ADD"),
    (i32::MIN, "ONESHOT"),
];

/// Numbers of ioctl(2) on x86 and Arm, from the kernel's headers: a hexadecimal number and a name in each line.
const IOCTLS: &str = include_str!("ioctls.txt");

/// Returns the name of a number of ioctl(2).
pub(super) fn ioctl(number: u32) -> Option<&'static str> {
    let rows = IOCTLS.lines().filter_map(|row| row.split_once(' '));
    rows.filter(|(of, _)| u32::from_str_radix(of, 16) == Ok(number)).map(|(_, name)| name).next()
}

/// Returns the name of a number.
pub(super) fn word(words: &'static str, number: i32) -> Option<&'static str> {
    words.split(' ').nth(usize::try_from(number).ok()?).filter(|name| !["-", ""].contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_names() {
        assert_eq!([0, 10, -1, 99].map(|n| word(FAMILIES, n)), [Some("UNSPEC"), Some("INET6"), None, None]);
        assert_eq!(word("", 0), None);
        assert_eq!(
            [(ADVICE, 25), (SOCKET_OPTIONS, 60), (FCNTL, 37), (FCNTL, 12), (CLOCKS, 11), (RESOURCES, 16)]
                .map(|(words, n)| word(words, n)),
            [Some("COLLAPSE"), Some("ZEROCOPY"), Some("OFD_SETLK"), None, Some("TAI"), None]
        );
        assert_eq!(
            [(TCP_OPTIONS, 18), (IP_OPTIONS, 35), (IPV6_OPTIONS, 26), (FAMILIES, 40), (FUTEX, 13)]
                .map(|(words, n)| word(words, n)),
            [Some("USER_TIMEOUT"), Some("ADD_MEMBERSHIP"), Some("V6ONLY"), Some("VSOCK"), Some("LOCK_PI2")]
        );
        assert_eq!(
            [(PROCESS_CONTROLS, 15), (PROCESS_CONTROLS, 38), (BPF_COMMANDS, 17), (FCNTL_FROM_1024, 9)]
                .map(|(words, n)| word(words, n)),
            [Some("SET_NAME"), Some("SET_NO_NEW_PRIVS"), Some("RAW_TRACEPOINT_OPEN"), Some("ADD_SEALS")]
        );
    }

    /// The rows are from the kernel's headers.
    #[test]
    fn numbers_of_ioctl_have_one_name() {
        let numbers: Vec<u32> =
            IOCTLS.lines().filter_map(|row| u32::from_str_radix(row.split_once(' ')?.0, 16).ok()).collect();
        assert_eq!(numbers.len(), IOCTLS.lines().count());
        assert!(numbers.is_sorted_by(|a, b| a < b));
        let found = [0x5413, 0x8008_1272, 0xc020_660b, 0xae80, 0x541b, 0x5437, 7].map(ioctl);
        let expected = ["TIOCGWINSZ", "BLKGETSIZE64", "FS_IOC_FIEMAP", "KVM_RUN", "FIONREAD", "TIOCVHANGUP"].map(Some);
        assert_eq!((&found[..6], found[6]), (&expected[..], None));
    }
}
