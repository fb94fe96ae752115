//! System calls with their arguments, like strace writes them. Contents of buffers are never shown.

use std::fmt::Write;

use crate::event::calls::SIGNALS;

use super::flag_names::{
    ACCESS, ACCESS_MODE, ADVICE, ALLOCATION, BPF_COMMANDS, CLOCKS, CLONE, DIRECTIONS, FAMILIES, FCNTL, FCNTL_ALONE,
    FCNTL_FROM_1024, FILE_ADVICE, FUTEX, FUTEX_FLAGS, Flags, ID_TYPES, INTERVAL_TIMERS, IP_OPTIONS, IPV6_OPTIONS,
    LEVELS, LOCKS, LOOKUP, MAPPING, MASK_CHANGES, MEMORY_FILE, MESSAGE, NOTIFICATIONS, OPEN, PRIORITY_OF,
    PROCESS_CONTROLS, PROTECTION, RANDOM, REMAPPING, RENAMING, RESOURCES, SEALS, SOCKET, SOCKET_OPTIONS, SOCKET_TYPES,
    SPLICING, STATX, SYNCING, TCP_OPTIONS, WAIT_OPTIONS, ioctl, word,
};

pub(super) type Arguments = [u64; 6];

/// How arguments are written, one character each, by call: `f` a descriptor, `d` the directory of a path, `p` a path,
/// `i` a number, `u` a size, `x` an address, `o` flags of open and `O` those of calls without an access mode, `m` a mode,
/// `s` a signal, `F` a futex operation, `P` protection and `M` flags of a mapping, `D` advice on memory, `A` a family
/// and `S` a type of sockets, `T` flags of a type, `b` flags of a message, `L` a level and `N` an option of sockets,
/// `E` an operation of epoll, `W` the origin of a position, `C` a command of fcntl and `g` its argument, `c` flags of
/// clone, `t` flags of a lookup, `l` a signed position, `r` an access mode, `a` flags of access, `V` options of wait,
/// `@` a socket address, `J` a structure, `I` an ioctl, `k` a clock. See [`words_of`] and [`flags_of`] for others. Other
/// calls have their six words.
const FORMS: &str = "\
read fxu,write fxu,open pom,close f,stat px,fstat fx,lstat px,poll xui,lseek flW,mmap xuPMfx,mprotect xuP,munmap xu,\
brk x,rt_sigaction sxxu,rt_sigprocmask Bxxu,ioctl fIx,pread64 fxul,pwrite64 fxul,readv fxu,writev fxu,access pr,\
pipe x,select ixxxx,sched_yield ,mremap xuuvx,msync xuy,madvise xuD,dup f,dup2 ff,pause ,nanosleep xx,getpid ,\
sendfile ffxu,socket ASi,connect f@u,accept fxx,sendto fxubxu,recvfrom fxubxx,sendmsg fxb,recvmsg fxb,shutdown fh,\
bind f@u,listen fi,getsockname fxx,getpeername fxx,socketpair ASix,setsockopt fLNxu,getsockopt fLNxx,clone cxxxx,\
fork ,vfork ,execve pxx,exit i,wait4 ixVx,kill is,uname x,fcntl fCg,flock fY,fsync f,fdatasync f,truncate pu,\
ftruncate fu,getdents fxu,getcwd xu,chdir p,fchdir f,rename pp,mkdir pm,rmdir p,creat pm,link pp,unlink p,symlink pp,\
readlink pxu,chmod pm,fchmod fm,chown pii,lchown pii,fchown fii,umask m,statfs px,fstatfs fx,prctl Qxxxx,futex xFuxxu,\
getdents64 fxu,fadvise64 fuu7,exit_group i,epoll_wait fxui,epoll_ctl fEfx,tgkill iis,tkill is,waitid jixVx,\
openat dpom,mkdirat dpm,mknod pmu,mknodat dpmu,fchownat dpiit,newfstatat dpxt,unlinkat dpt,renameat dpdp,linkat dpdpt,\
symlinkat pdp,readlinkat dpxu,fchmodat dpm,fchmodat2 dpmt,faccessat dpr,pselect6 ixxxxx,ppoll xuxxu,splice fxfxuw,\
utimensat dpxt,epoll_pwait fxuixu,fallocate f4uu,accept4 fxxT,epoll_create u,epoll_create1 O,dup3 ffO,pipe2 xO,\
preadv fxul,pwritev fxul,recvmmsg fxubx,sendmmsg fxub,getrandom xuq,execveat dpxxt,copy_file_range fxfxui,\
statx dptnx,openat2 dpJu,close_range uui,clock_nanosleep kixx,faccessat2 dpra,renameat2 dpdpR,inotify_add_watch fpG,\
setxattr ppxui,getxattr ppxu,lsetxattr ppxui,lgetxattr ppxu,fsetxattr fpxui,fgetxattr fpxu,listxattr pxu,\
llistxattr pxu,flistxattr fxu,removexattr pp,lremovexattr pp,fremovexattr fp,name_to_handle_at dpxxi,utime px,\
utimes px,futimesat dpx,mq_open pOmx,readahead fuu,sync_file_range fuui,vmsplice fxuw,tee ffuw,preadv2 fxuxxi,\
pwritev2 fxuxxi,memfd_create pe,clone3 Ju,epoll_pwait2 fxuxxu,eventfd u,eventfd2 uO,signalfd4 fxuO,\
timerfd_create kO,timerfd_settime fixx,timerfd_gettime fx,inotify_init ,inotify_init1 O,inotify_rm_watch fi,\
gettid ,getppid ,getuid ,geteuid ,getgid ,getegid ,getpgrp ,setsid ,sync ,munlockall ,rt_sigreturn ,getpgid i,getsid i,\
setpgid ii,setuid i,setgid i,setreuid ii,setregid ii,setresuid iii,setresgid iii,getgroups ix,setgroups ix,\
set_tid_address x,set_robust_list xu,get_robust_list ixx,rseq xuix,arch_prctl xx,prlimit64 izxx,getrlimit zx,\
setrlimit zx,getrusage ix,times x,sysinfo x,gettimeofday xx,clock_gettime kx,clock_settime kx,clock_getres kx,\
setitimer Hxx,getitimer Hx,alarm u,sigaltstack xx,rt_sigsuspend xu,rt_sigpending xu,rt_sigtimedwait xxxu,capget xx,\
capset xx,getpriority Ki,setpriority Kii,sched_setaffinity iux,sched_getaffinity iux,sched_setscheduler iix,\
sched_getscheduler i,sched_getparam ix,sched_setparam ix,mlock xu,munlock xu,mlockall i,mincore xux,syncfs f,\
chroot p,acct p,swapon pi,swapoff p,pivot_root pp,mount pppxx,umount2 pi,seccomp iix,getcpu xxx,bpf 2xu,\
perf_event_open xiiix,io_uring_setup ux,\
io_uring_enter fuuxxu,pidfd_open iO,membarrier iii,unshare c,setns fi,ptrace iixx,getresuid xxx,getresgid xxx";

/// The arguments of calls with a socket address.
const WITH_ADDRESS: &str = "f@u";

const AT_FDCWD: i32 = -100;

/// The commands of fcntl(2) whose argument is a decimal number.
const DECIMAL: [i32; 4] = [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_SETFD, libc::F_SETPIPE_SZ];

fn kinds(name: &str) -> &'static str {
    let form = FORMS.split(',').find_map(|form| form.split_once(' ').filter(|(call, _)| *call == name));
    form.map_or("xxxxxx", |(_, kinds)| kinds)
}

/// Returns the places of the descriptors among the arguments of a call that are still open when it has returned, as bits.
pub(super) fn open_descriptors(name: &str) -> u8 {
    let is_open = |kind: char| matches!(kind, 'f' | 'd') && name != "close";
    let all = kinds(name).chars().enumerate().filter(|(_, kind)| is_open(*kind));
    all.fold(0, |bits, (at, _)| bits | 1 << at)
}

/// Returns the place of the first descriptor among the arguments of a call.
pub(super) fn descriptor_at(name: &str) -> Option<usize> {
    kinds(name).find('f')
}

/// Whether a call names a file by its path.
pub(super) fn names_path(name: &str) -> bool {
    kinds(name).contains('p')
}

/// Whether a call has a descriptor, and no socket address that says more.
pub(super) fn uses_descriptor(name: &str) -> bool {
    descriptor_at(name).is_some() && kinds(name) != WITH_ADDRESS
}

/// Returns the number of arguments that a call reads, at most `all`: the operation of a futex and the command of fcntl
/// leave the others as they are.
fn used(name: &str, arguments: &Arguments, all: usize) -> usize {
    let command = arguments[1] as i32;
    match name {
        "fcntl" if control(command).is_some_and(|name| FCNTL_ALONE.split(' ').any(|alone| alone == name)) => 2,
        "futex" => match word(FUTEX, command & 127) {
            Some("UNLOCK_PI" | "TRYLOCK_PI") => 2,
            Some("WAKE" | "FD") => 3,
            Some("WAIT" | "LOCK_PI" | "LOCK_PI2") => 4,
            Some("REQUEUE" | "WAIT_REQUEUE_PI") => 5,
            _ => all,
        },
        _ => all,
    }
}

/// The texts of a call, where they were read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallTexts<'a> {
    /// The first two paths, or the socket address first.
    pub(super) paths: [Option<&'a str>; 2],
    pub(super) structure: Option<&'a str>,
}

/// Writes a call; `file` returns what a descriptor refers to.
pub(super) fn written(
    name: &str,
    arguments: &Arguments,
    CallTexts { paths, structure }: CallTexts<'_>,
    file: impl Fn(i32) -> Option<String>,
) -> String {
    let kinds = kinds(name);
    // The address says more than the descriptor.
    if let Some(address) = paths[0].filter(|_| kinds == WITH_ADDRESS) {
        return format!("{name}({} → {})", arguments[0] as i32, address.escape_debug());
    }
    let mut out = format!("{name}(");
    let mut paths = paths.into_iter();
    for (i, kind) in kinds.chars().enumerate().take(used(name, arguments, kinds.len())) {
        let word = arguments[i];
        let before = i.checked_sub(1).map_or(0, |at| arguments[at] as i32);
        // The mode of open counts only for new files.
        let is_unused = kind == 'm' && kinds.contains('o') && before & libc::O_CREAT == 0;
        if is_unused || kind == 'd' && word as i32 == AT_FDCWD {
            continue;
        }
        if !out.ends_with('(') {
            out.push_str(", ");
        }
        let path = if kind == 'p' { paths.next().flatten() } else { None };
        // Writing to a string does not fail.
        let _ = match path {
            Some(path) => write!(out, "{path:?}"),
            None if matches!(kind, 'f' | 'd') => add_descriptor(&mut out, word as i32, &file),
            None => match structure.filter(|_| kind == 'J') {
                Some(text) => out.write_str(text),
                None => add(&mut out, kind, word, before),
            },
        };
    }
    out.push(')');
    out
}

fn add_descriptor(out: &mut String, number: i32, file: &impl Fn(i32) -> Option<String>) -> std::fmt::Result {
    match Some(number).filter(|fd| *fd >= 0).and_then(file) {
        Some(what) => write!(out, "{number} → {what}"),
        None => write!(out, "{number}"),
    }
}

/// Returns the name of a command of fcntl(2).
fn control(command: i32) -> Option<&'static str> {
    word(FCNTL, command).or_else(|| word(FCNTL_FROM_1024, command.checked_sub(1024)?))
}

/// Returns the names of a kind of argument that is a number; `before` is the argument before it.
fn words_of(kind: char, before: i32) -> Option<&'static str> {
    Some(match kind {
        'A' => FAMILIES,
        'E' => "- ADD DEL MOD",
        'W' => "SET CUR END DATA HOLE",
        'D' => ADVICE,
        '7' => FILE_ADVICE,
        'k' => CLOCKS,
        'h' => DIRECTIONS,
        'B' => MASK_CHANGES,
        'j' => ID_TYPES,
        'K' => PRIORITY_OF,
        'H' => INTERVAL_TIMERS,
        'z' => RESOURCES,
        'Q' => PROCESS_CONTROLS,
        '2' => BPF_COMMANDS,
        'N' => match before {
            libc::SOL_SOCKET => SOCKET_OPTIONS,
            libc::IPPROTO_TCP => TCP_OPTIONS,
            libc::IPPROTO_IP => IP_OPTIONS,
            libc::IPPROTO_IPV6 => IPV6_OPTIONS,
            _ => "",
        },
        _ => return None,
    })
}

/// Returns the names of the flags of a kind of argument.
fn flags_of(kind: char) -> Option<&'static Flags> {
    Some(match kind {
        'a' => ACCESS,
        'O' => OPEN,
        'P' => PROTECTION,
        'M' => MAPPING,
        'V' => WAIT_OPTIONS,
        'b' => MESSAGE,
        't' => LOOKUP,
        'T' => SOCKET,
        'Y' => LOCKS,
        'v' => REMAPPING,
        'y' => SYNCING,
        'R' => RENAMING,
        'e' => MEMORY_FILE,
        'q' => RANDOM,
        'w' => SPLICING,
        '4' => ALLOCATION,
        'n' => STATX,
        'G' => NOTIFICATIONS,
        _ => return None,
    })
}

/// Adds an argument; `before` is the one before it.
fn add(out: &mut String, kind: char, word: u64, before: i32) -> std::fmt::Result {
    let number = word as i32;
    if let Some(flags) = flags_of(kind) {
        return add_flags(out, number, flags, "");
    }
    if let Some(words) = words_of(kind, before) {
        return add_word(out, number, words);
    }
    match kind {
        'i' => write!(out, "{number}"),
        'l' => write!(out, "{}", word as i64),
        'r' if number == 0 => out.write_str("F"),
        'r' => add_flags(out, number, ACCESS_MODE, ""),
        'u' => write!(out, "{word}"),
        'm' => write!(out, "{word:#o}"),
        'o' => add_open_flags(out, number),
        's' => add_signal(out, number),
        'F' => add_word(out, number & 127, FUTEX).and_then(|()| add_flags(out, number & !127, FUTEX_FLAGS, "|")),
        'L' => add_name(out, number, LEVELS.iter().find(|(level, _)| *level == number).map(|(_, name)| *name)),
        'c' => add_clone(out, number),
        'S' => add_word(out, number & 15, SOCKET_TYPES).and_then(|()| add_flags(out, number & !15, SOCKET, "|")),
        'C' => add_name(out, number, control(number)),
        'g' if before == libc::F_SETFL => add_flags(out, number, OPEN, ""),
        'g' if before == libc::F_ADD_SEALS => add_flags(out, number, SEALS, ""),
        'g' if DECIMAL.contains(&before) => write!(out, "{number}"),
        'I' => match ioctl(number.cast_unsigned()) {
            Some(name) => out.write_str(name),
            None => write!(out, "{number:#x}"),
        },
        _ if word == 0 => write!(out, "0"),
        _ => write!(out, "{word:#x}"),
    }
}

/// Adds the access mode of open and its flags.
pub(super) fn add_open_flags(out: &mut String, number: i32) -> std::fmt::Result {
    *out += ["RDONLY", "WRONLY", "RDWR", "3"][(number & 3) as usize];
    add_flags(out, number & !3, OPEN, "|")
}

/// Adds the flags of clone. Their last byte is the signal at the end of the child.
fn add_clone(out: &mut String, number: i32) -> std::fmt::Result {
    let (flags, signal) = (number & !0xff, number & 0xff);
    if flags != 0 || signal == 0 {
        add_flags(out, flags, CLONE, "")?;
    }
    if flags != 0 && signal != 0 {
        out.push('|');
    }
    if signal == 0 { Ok(()) } else { add_signal(out, signal) }
}

pub(super) fn add_signal(out: &mut String, number: i32) -> std::fmt::Result {
    let name = usize::try_from(number).ok().and_then(|at| SIGNALS.get(at));
    add_name(out, number, name.copied().filter(|name| !name.is_empty()))
}

fn add_word(out: &mut String, number: i32, words: &'static str) -> std::fmt::Result {
    add_name(out, number, word(words, number))
}

fn add_name(out: &mut String, number: i32, name: Option<&str>) -> std::fmt::Result {
    match name {
        Some(name) => out.write_str(name),
        None => write!(out, "{number}"),
    }
}

/// Adds the names of set bits, each after a separator, and the bits without a name.
pub(super) fn add_flags(out: &mut String, mut bits: i32, names: &Flags, first: &str) -> std::fmt::Result {
    let mut separator = first;
    if bits == 0 && first.is_empty() {
        return out.write_str("0");
    }
    for (flag, name) in names.iter().filter(|(flag, _)| *flag != 0) {
        if bits & flag == *flag {
            bits &= !flag;
            write!(out, "{separator}{name}")?;
            separator = "|";
        }
    }
    if bits == 0 { Ok(()) } else { write!(out, "{separator}{bits:#x}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, arguments: &[u64], path: Option<&str>) -> String {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        let texts = CallTexts { paths: [path, Some("/second")], structure: path.map(|_| "{flags=RDWR}") };
        written(name, &all, texts, |fd| (fd == 7).then(|| "/var/wal".to_owned()))
    }

    #[test]
    fn calls_have_their_arguments() {
        let here = AT_FDCWD as u64;
        for (name, arguments, path, expected) in [
            ("openat", &[here, 0x1000, 0][..], Some("/etc/app.conf"), r#"openat("/etc/app.conf", RDONLY)"#),
            ("openat", &[7, 0x1000, 0o102, 0o644], Some("x"), r#"openat(7 → /var/wal, "x", RDWR|CREAT, 0o644)"#),
            ("openat", &[here, 0x1000, 0], None, "openat(0x1000, RDONLY)"),
            ("read", &[7, 0x1000, 8192], None, "read(7 → /var/wal, 0x1000, 8192)"),
            ("futex", &[0x10, 128, 2, 0, 9, 9], None, "futex(0x10, WAIT|PRIVATE, 2, 0)"),
            ("futex", &[0x10, 129, 1, 9], None, "futex(0x10, WAKE|PRIVATE, 1)"),
            ("futex", &[0x10, 137, 2, 0, 0, 7], None, "futex(0x10, WAIT_BITSET|PRIVATE, 2, 0, 0, 7)"),
            ("kill", &[1, 15], None, "kill(1, TERM)"),
            ("kill", &[u64::MAX, 64], None, "kill(-1, 64)"),
            ("socket", &[10, 0o2000001, 6], None, "socket(INET6, STREAM|CLOEXEC, 6)"),
            ("socket", &[99, 9, 0], None, "socket(99, 9, 0)"),
            ("fcntl", &[7, 3, 9], None, "fcntl(7 → /var/wal, GETFL)"),
            ("fcntl", &[7, 4, 0o2000], None, "fcntl(7 → /var/wal, SETFL, APPEND)"),
            ("fcntl", &[7, 1030, 50], None, "fcntl(7 → /var/wal, DUPFD_CLOEXEC, 50)"),
            ("access", &[0, 6], Some("/x"), "access(\"/x\", R|W)"),
            ("wait4", &[u64::MAX, 0, 1, 0], None, "wait4(-1, 0, NOHANG, 0)"),
            ("pipe2", &[0x10, 0o2000000], None, "pipe2(0x10, CLOEXEC)"),
            ("epoll_create1", &[0o2000000], None, "epoll_create1(CLOEXEC)"),
            ("sendto", &[7, 0x10, 3, 0x4040], None, "sendto(7 → /var/wal, 0x10, 3, DONTWAIT|NOSIGNAL, 0, 0)"),
            ("setsockopt", &[7, 6, 1, 0x10, 4], None, "setsockopt(7 → /var/wal, TCP, NODELAY, 0x10, 4)"),
            ("clone", &[0x0120_0011], None, "clone(CHILD_CLEARTID|CHILD_SETTID|CHLD, 0, 0, 0, 0)"),
            ("clone", &[17], None, "clone(CHLD, 0, 0, 0, 0)"),
            ("madvise", &[1, 1, 4], None, "madvise(0x1, 1, DONTNEED)"),
            ("madvise", &[1, 1, 14], None, "madvise(0x1, 1, HUGEPAGE)"),
            ("gettid", &[9, 9, 9], None, "gettid()"),
            ("lseek", &[7, 5, 2], None, "lseek(7 → /var/wal, 5, END)"),
            ("lseek", &[7, 5 << 30, 0], None, "lseek(7 → /var/wal, 5368709120, SET)"),
            ("faccessat2", &[-100i64 as u64, 0, 4, 0x200], Some("/x"), "faccessat2(\"/x\", R, EACCESS)"),
            ("mmap", &[0, 4096, 3, 0x22, u64::MAX, 0], None, "mmap(0, 4096, READ|WRITE, PRIVATE|ANONYMOUS, -1, 0)"),
            ("connect", &[7, 0x1000, 16], Some("10.0.3.7:5432"), "connect(7 → 10.0.3.7:5432)"),
            ("connect", &[7, 0x1000, 16], None, "connect(7 → /var/wal, 0x1000, 16)"),
            ("bind", &[3, 0x1000, 16], Some("unix:/a\u{1b}"), "bind(3 → unix:/a\\u{1b})"),
            ("getpid", &[], None, "getpid()"),
            ("ioctl", &[7, 0x5413, 0x10], None, "ioctl(7 → /var/wal, TIOCGWINSZ, 0x10)"),
            ("ioctl", &[3, 0xc020_660b, 0], None, "ioctl(3, FS_IOC_FIEMAP, 0)"),
            ("ioctl", &[3, 0x9999_0000, 0], None, "ioctl(3, 0x99990000, 0)"),
            ("clock_nanosleep", &[1, 0, 0x10], None, "clock_nanosleep(MONOTONIC, 0, 0x10, 0)"),
            ("shutdown", &[3, 2], None, "shutdown(3, RDWR)"),
            ("renameat2", &[here, 1, 7, 2, 1], None, r#"renameat2(0x1, 7 → /var/wal, "/second", NOREPLACE)"#),
            ("mremap", &[0x1000, 4096, 8192, 1, 0], None, "mremap(0x1000, 4096, 8192, MAYMOVE, 0)"),
            ("msync", &[0x1000, 4096, 4], None, "msync(0x1000, 4096, SYNC)"),
            ("waitid", &[0, 0, 0, 4, 0], None, "waitid(ALL, 0, 0, EXITED, 0)"),
            ("fcntl", &[7, 1033, 6], None, "fcntl(7 → /var/wal, ADD_SEALS, SHRINK|GROW)"),
            ("fcntl", &[7, 37, 0x10], None, "fcntl(7 → /var/wal, OFD_SETLK, 0x10)"),
            ("fcntl", &[7, 1031, 65536], None, "fcntl(7 → /var/wal, SETPIPE_SZ, 65536)"),
            ("fcntl", &[7, 99, 1], None, "fcntl(7 → /var/wal, 99, 0x1)"),
            ("splice", &[3, 0, 7, 0, 10, 2], None, "splice(3, 0, 7 → /var/wal, 0, 10, NONBLOCK)"),
            ("flock", &[7, 6], None, "flock(7 → /var/wal, EX|NB)"),
            ("statx", &[here, 1, 0, 0x17ff, 9], Some("/x"), r#"statx("/x", 0, BASIC_STATS|MNT_ID, 0x9)"#),
            ("inotify_add_watch", &[7, 1, 0x100], Some("/x"), r#"inotify_add_watch(7 → /var/wal, "/x", CREATE)"#),
            ("prctl", &[15, 0x10], None, "prctl(SET_NAME, 0x10, 0, 0, 0)"),
            ("prctl", &[0x5356_4d41, 0], None, "prctl(1398164801, 0, 0, 0, 0)"),
            ("getpriority", &[0, 5], None, "getpriority(PROCESS, 5)"),
            ("prlimit64", &[0, 7, 0, 9], None, "prlimit64(0, NOFILE, 0, 0x9)"),
            ("setsockopt", &[7, 1, 25, 0x10, 4], None, "setsockopt(7 → /var/wal, SOCKET, BINDTODEVICE, 0x10, 4)"),
            ("setsockopt", &[7, 41, 26, 0x10, 4], None, "setsockopt(7 → /var/wal, IPV6, V6ONLY, 0x10, 4)"),
            ("setsockopt", &[7, 250, 26, 0x10, 4], None, "setsockopt(7 → /var/wal, 250, 26, 0x10, 4)"),
            ("socket", &[16, 3, 0], None, "socket(NETLINK, RAW, 0)"),
            ("rt_sigprocmask", &[2, 1, 0, 8], None, "rt_sigprocmask(SETMASK, 0x1, 0, 8)"),
            ("ioctl", &[3, 0x5437, 0], None, "ioctl(3, TIOCVHANGUP, 0)"),
            ("bpf", &[5, 0x10, 144], None, "bpf(PROG_LOAD, 0x10, 144)"),
            ("epoll_ctl", &[3, 0, 7, 0x10], None, "epoll_ctl(3, 0, 7 → /var/wal, 0x10)"),
            ("unheard_of", &[1, 2], None, "unheard_of(0x1, 0x2, 0, 0, 0, 0)"),
            ("rename", &[1, 2], Some("a\u{1b}\"b"), r#"rename("a\u{1b}\"b", "/second")"#),
            ("openat2", &[here, 1, 0x10, 24], Some("/x"), r#"openat2("/x", {flags=RDWR}, 24)"#),
            ("openat2", &[here, 1, 0x10, 24], None, "openat2(0x1, 0x10, 24)"),
            ("clone3", &[0x10, 88], Some(""), "clone3({flags=RDWR}, 88)"),
            ("rename", &[1, 2], None, r#"rename(0x1, "/second")"#),
        ] {
            assert_eq!(line(name, arguments, path), expected);
        }
    }

    #[test]
    fn descriptors_are_arguments() {
        assert_eq!(["read", "openat", "sendfile", "renameat2", "close"].map(open_descriptors), [1, 1, 0b11, 0b101, 0]);
        assert_eq!(["read", "mmap", "openat", "unheard_of"].map(descriptor_at), [Some(0), Some(4), None, None]);
        assert_eq!(["read", "connect", "openat"].map(uses_descriptor), [true, false, false]);
        assert_eq!(["read", "connect", "openat"].map(names_path), [false, false, true]);
    }

    #[test]
    fn any_words_are_written() {
        for form in FORMS.split(',') {
            let (name, kinds) = form.split_once(' ').expect("a form");
            assert!(kinds.len() <= 6 && !name.is_empty());
            for word in [0, 1, u64::MAX, 1 << 63, 0x8000_0000] {
                let text = line(name, &[word; 6], Some("/p"));
                assert!(text.starts_with(name) && text.ends_with(')'), "{text}");
            }
        }
    }
}
