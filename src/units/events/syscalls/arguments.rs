//! System calls with their arguments, like strace writes them. Contents of buffers are never shown.

use std::fmt::Write;

use crate::event::calls::SIGNALS;

use super::flag_names::{
    ACCESS, ACCESS_MODE, ADVICE, ADVICE_FROM_10, CLOCKS, CLONE, FAMILIES, FCNTL, FCNTL_ALONE, FUTEX, FUTEX_FLAGS,
    Flags, IOCTLS, LEVELS, LOOKUP, MAPPING, MESSAGE, OPEN, PROTECTION, SOCKET, SOCKET_OPTIONS, SOCKET_TYPES,
    TCP_OPTIONS, WAIT_OPTIONS,
};

pub(super) type Arguments = [u64; 6];

/// How arguments are written, one character each, by call: `f` a descriptor, `d` the directory of a path, `p` a path,
/// `i` a number, `u` a size, `x` an address, `o` flags of open and `O` those of calls without an access mode, `m` a mode,
/// `s` a signal, `F` a futex operation, `P` protection and `M` flags of a mapping, `D` advice on memory, `A` a family
/// and `S` a type of sockets, `T` flags of a type, `b` flags of a message, `L` a level and `N` an option of sockets,
/// `E` an operation of epoll, `W` the origin of a position, `C` a command of fcntl and `g` its argument, `c` flags of
/// clone, `t` flags of a lookup, `l` a signed position, `r` an access mode, `a` flags of access, `V` options of wait,
/// `@` a socket address, `I` an ioctl, `k` a clock. Other calls have their six words.
const FORMS: &str = "\
read fxu,write fxu,open pom,close f,stat px,fstat fx,lstat px,poll xui,lseek flW,mmap xuPMfx,mprotect xuP,munmap xu,\
brk x,rt_sigaction sxxu,rt_sigprocmask ixxu,ioctl fIx,pread64 fxul,pwrite64 fxul,readv fxu,writev fxu,access pr,\
pipe x,select ixxxx,sched_yield ,mremap xuuix,msync xui,madvise xuD,dup f,dup2 ff,pause ,nanosleep xx,getpid ,\
sendfile ffxu,socket ASi,connect f@u,accept fxx,sendto fxubxu,recvfrom fxubxx,sendmsg fxb,recvmsg fxb,shutdown fi,\
bind f@u,listen fi,getsockname fxx,getpeername fxx,socketpair ASix,setsockopt fLNxu,getsockopt fLNxx,clone cxxxx,\
fork ,vfork ,execve pxx,exit i,wait4 ixVx,kill is,uname x,fcntl fCg,flock fi,fsync f,fdatasync f,truncate pu,\
ftruncate fu,getdents fxu,getcwd xu,chdir p,fchdir f,rename pp,mkdir pm,rmdir p,creat pm,link pp,unlink p,symlink pp,\
readlink pxu,chmod pm,fchmod fm,chown pii,lchown pii,fchown fii,umask m,statfs px,fstatfs fx,prctl ixxxx,futex xFuxxu,\
getdents64 fxu,fadvise64 fuui,exit_group i,epoll_wait fxui,epoll_ctl fEfx,tgkill iis,tkill is,waitid iixVx,\
openat dpom,mkdirat dpm,mknod pmu,mknodat dpmu,fchownat dpiit,newfstatat dpxt,unlinkat dpt,renameat dpdp,linkat dpdpt,\
symlinkat pdp,readlinkat dpxu,fchmodat dpm,fchmodat2 dpmt,faccessat dpr,pselect6 ixxxxx,ppoll xuxxu,splice fxfxui,\
utimensat dpxt,epoll_pwait fxuixu,fallocate fiuu,accept4 fxxT,epoll_create u,epoll_create1 O,dup3 ffO,pipe2 xO,\
preadv fxul,pwritev fxul,recvmmsg fxubx,sendmmsg fxub,getrandom xui,execveat dpxxt,copy_file_range fxfxui,\
statx dptxx,openat2 dpxu,close_range uui,clock_nanosleep kixx,faccessat2 dpra,renameat2 dpdpi,inotify_add_watch fpx,\
setxattr ppxui,getxattr ppxu,memfd_create pi,clone3 xu,epoll_pwait2 fxuxxu,eventfd u,eventfd2 uO,signalfd4 fxuO,\
timerfd_create kO,timerfd_settime fixx,timerfd_gettime fx,inotify_init ,inotify_init1 O,inotify_rm_watch fi,\
gettid ,getppid ,getuid ,geteuid ,getgid ,getegid ,getpgrp ,setsid ,sync ,munlockall ,rt_sigreturn ,getpgid i,getsid i,\
setpgid ii,setuid i,setgid i,setreuid ii,setregid ii,setresuid iii,setresgid iii,getgroups ix,setgroups ix,\
set_tid_address x,set_robust_list xu,get_robust_list ixx,rseq xuix,arch_prctl xx,prlimit64 iixx,getrlimit ix,\
setrlimit ix,getrusage ix,times x,sysinfo x,gettimeofday xx,clock_gettime kx,clock_settime kx,clock_getres kx,\
setitimer ixx,getitimer ix,alarm u,sigaltstack xx,rt_sigsuspend xu,rt_sigpending xu,rt_sigtimedwait xxxu,capget xx,\
capset xx,getpriority ii,setpriority iii,sched_setaffinity iux,sched_getaffinity iux,sched_setscheduler iix,\
sched_getscheduler i,sched_getparam ix,sched_setparam ix,mlock xu,munlock xu,mlockall i,mincore xux,syncfs f,\
chroot p,mount pppxx,umount2 pi,seccomp iix,getcpu xxx,bpf ixu,perf_event_open xiiix,io_uring_setup ux,\
io_uring_enter fuuxxu,pidfd_open iO,membarrier iii,unshare c,setns fi,ptrace iixx,getresuid xxx,getresgid xxx";

/// The arguments of calls with a socket address.
const WITH_ADDRESS: &str = "f@u";

const AT_FDCWD: i32 = -100;

fn kinds(name: &str) -> &'static str {
    let form = FORMS.split(',').find_map(|form| form.split_once(' ').filter(|(call, _)| *call == name));
    form.map_or("xxxxxx", |(_, kinds)| kinds)
}

/// Returns the descriptors among the arguments of a call that are still open when it has returned.
pub(super) fn descriptors(name: &str, arguments: &Arguments) -> Vec<i32> {
    let is_open = |(kind, _): &(char, &u64)| matches!(kind, 'f' | 'd') && name != "close";
    let all = kinds(name).chars().zip(arguments).filter(is_open);
    all.map(|(_, word)| *word as i32).filter(|fd| *fd >= 0).collect()
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
        "fcntl" if FCNTL_ALONE.contains(&command) => 2,
        "futex" => match FUTEX.get((command & 127) as usize) {
            Some(&("UNLOCK_PI" | "TRYLOCK_PI")) => 2,
            Some(&("WAKE" | "FD")) => 3,
            Some(&("WAIT" | "LOCK_PI" | "LOCK_PI2")) => 4,
            Some(&("REQUEUE" | "WAIT_REQUEUE_PI")) => 5,
            _ => all,
        },
        _ => all,
    }
}

/// Writes a call. `paths` are its first two paths, or its socket address first, where they were read; `file` returns
/// what a descriptor refers to.
pub(super) fn written(
    name: &str,
    arguments: &Arguments,
    paths: [Option<&str>; 2],
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
            None => add(&mut out, kind, word, before),
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

/// Adds an argument; `before` is the one before it.
fn add(out: &mut String, kind: char, word: u64, before: i32) -> std::fmt::Result {
    let number = word as i32;
    match kind {
        'i' => write!(out, "{number}"),
        'l' => write!(out, "{}", word as i64),
        'r' if number == 0 => out.write_str("F"),
        'r' => add_flags(out, number, ACCESS_MODE, ""),
        'a' => add_flags(out, number, ACCESS, ""),
        'u' => write!(out, "{word}"),
        'm' => write!(out, "{word:#o}"),
        'o' => {
            *out += ["RDONLY", "WRONLY", "RDWR", "3"][(number & 3) as usize];
            add_flags(out, number & !3, OPEN, "|")
        }
        'O' => add_flags(out, number, OPEN, ""),
        's' => add_name(out, number, SIGNALS),
        'F' => add_name(out, number & 127, FUTEX).and_then(|()| add_flags(out, number & !127, FUTEX_FLAGS, "|")),
        'P' => add_flags(out, number, PROTECTION, ""),
        'M' => add_flags(out, number, MAPPING, ""),
        'D' if number >= 10 => match ADVICE_FROM_10.get((number - 10) as usize) {
            Some(name) => out.write_str(name),
            None => write!(out, "{number}"),
        },
        'D' => add_name(out, number, ADVICE),
        'V' => add_flags(out, number, WAIT_OPTIONS, ""),
        'b' => add_flags(out, number, MESSAGE, ""),
        'L' => match LEVELS.iter().find(|(level, _)| *level == number) {
            Some((_, name)) => out.write_str(name),
            None => write!(out, "{number}"),
        },
        'N' if before == libc::SOL_SOCKET => add_name(out, number, SOCKET_OPTIONS),
        'N' if before == libc::IPPROTO_TCP => add_name(out, number, TCP_OPTIONS),
        'N' => write!(out, "{number}"),
        't' => add_flags(out, number, LOOKUP, ""),
        'c' => add_clone(out, number),
        'A' => add_name(out, number, FAMILIES),
        'S' => add_name(out, number & 15, SOCKET_TYPES).and_then(|()| add_flags(out, number & !15, SOCKET, "|")),
        'T' => add_flags(out, number, SOCKET, ""),
        'E' => add_name(out, number, &["0", "ADD", "DEL", "MOD"]),
        'W' => add_name(out, number, &["SET", "CUR", "END", "DATA", "HOLE"]),
        'C' if number == libc::F_DUPFD_CLOEXEC => write!(out, "DUPFD_CLOEXEC"),
        'C' => add_name(out, number, FCNTL),
        'g' if before == libc::F_SETFL => add_flags(out, number, OPEN, ""),
        'g' if [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC, libc::F_SETFD].contains(&before) => write!(out, "{number}"),
        'k' => add_name(out, number, CLOCKS),
        'I' => match IOCTLS.iter().find(|(own, _)| *own == number.cast_unsigned()) {
            Some((_, name)) => out.write_str(name),
            None => write!(out, "{number:#x}"),
        },
        _ if word == 0 => write!(out, "0"),
        _ => write!(out, "{word:#x}"),
    }
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
    if signal == 0 { Ok(()) } else { add_name(out, signal, SIGNALS) }
}

fn add_name(out: &mut String, number: i32, names: &[&str]) -> std::fmt::Result {
    let name = usize::try_from(number).ok().and_then(|at| names.get(at)).filter(|name| !name.is_empty());
    match name {
        Some(name) => out.write_str(name),
        None => write!(out, "{number}"),
    }
}

/// Adds the names of set bits, each after a separator, and the bits without a name.
fn add_flags(out: &mut String, mut bits: i32, names: &Flags, first: &str) -> std::fmt::Result {
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
        written(name, &all, [path, Some("/second")], |fd| (fd == 7).then(|| "/var/wal".to_owned()))
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
            ("unheard_of", &[1, 2], None, "unheard_of(0x1, 0x2, 0, 0, 0, 0)"),
            ("rename", &[1, 2], Some("a\u{1b}\"b"), r#"rename("a\u{1b}\"b", "/second")"#),
            ("rename", &[1, 2], None, r#"rename(0x1, "/second")"#),
        ] {
            assert_eq!(line(name, arguments, path), expected);
        }
    }

    #[test]
    fn descriptors_are_arguments() {
        let here = AT_FDCWD as u64;
        let found = [("read", [7; 6]), ("openat", [here; 6]), ("sendfile", [3; 6]), ("close", [7; 6])];
        let found = found.map(|(name, arguments)| descriptors(name, &arguments));
        assert_eq!(found, [vec![7], vec![], vec![3, 3], vec![]]);
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
