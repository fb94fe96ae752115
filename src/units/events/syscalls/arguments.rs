//! System calls with their arguments, like strace writes them. Contents of buffers are never shown.

use std::fmt::Write;

use crate::event::calls::SIGNALS;

pub(super) type Arguments = [u64; 6];

/// How arguments are written, one character each, by call: `f` a descriptor, `d` the directory of a path, `p` a path,
/// `i` a number, `u` a size, `x` an address, `o` flags of open, `m` a mode, `s` a signal, `F` a futex operation,
/// `P` protection and `M` flags of a mapping, `A` a family and `S` a type of sockets, `E` an operation of epoll,
/// `W` the origin of a position, `C` a command of fcntl, `c` flags of clone, `t` flags of a lookup, `l` a signed
/// position, `a` flags of access, `@` a socket address, `I` an ioctl, `k` a clock. Other calls have their six words.
const FORMS: &str = "\
read fxu,write fxu,open pom,close f,stat px,fstat fx,lstat px,poll xui,lseek flW,mmap xuPMfx,mprotect xuP,munmap xu,\
brk x,rt_sigaction sxxu,rt_sigprocmask ixxu,ioctl fIx,pread64 fxul,pwrite64 fxul,readv fxu,writev fxu,access pi,\
pipe x,select ixxxx,sched_yield ,mremap xuuix,msync xui,madvise xui,dup f,dup2 ff,pause ,nanosleep xx,getpid ,\
sendfile ffxu,socket ASi,connect f@u,accept fxx,sendto fxuixu,recvfrom fxuixx,sendmsg fxi,recvmsg fxi,shutdown fi,\
bind f@u,listen fi,getsockname fxx,getpeername fxx,socketpair ASix,setsockopt fiixu,getsockopt fiixx,clone cxxxx,\
fork ,vfork ,execve pxx,exit i,wait4 ixix,kill is,uname x,fcntl fCx,flock fi,fsync f,fdatasync f,truncate pu,\
ftruncate fu,getdents fxu,getcwd xu,chdir p,fchdir f,rename pp,mkdir pm,rmdir p,creat pm,link pp,unlink p,symlink pp,\
readlink pxu,chmod pm,fchmod fm,chown pii,umask m,statfs px,fstatfs fx,prctl ixxxx,futex xFuxxu,getdents64 fxu,\
fadvise64 fuui,exit_group i,epoll_wait fxui,epoll_ctl fEfx,tgkill iis,waitid iixix,openat dpom,mkdirat dpm,\
fchownat dpiit,newfstatat dpxt,unlinkat dpt,renameat dpdp,linkat dpdpt,symlinkat pdp,readlinkat dpxu,fchmodat dpm,\
faccessat dpi,pselect6 ixxxxx,ppoll xuxxu,splice fxfxui,utimensat dpxt,epoll_pwait fxuixu,fallocate fiuu,accept4 fxxi,\
epoll_create1 i,dup3 ffo,pipe2 xo,preadv fxul,pwritev fxul,recvmmsg fxuix,sendmmsg fxui,getrandom xui,execveat dpxxt,\
copy_file_range fxfxui,statx dptxx,openat2 dpxu,close_range uui,clock_nanosleep kixx,faccessat2 dpia,renameat2 dpdpi,\
inotify_add_watch fpx,setxattr ppxui,getxattr ppxu,memfd_create pi,clone3 xu,epoll_pwait2 fxuxxu";

/// The arguments of calls with a socket address.
const WITH_ADDRESS: &str = "f@u";

const AT_FDCWD: i32 = -100;

type Flags = [(i32, &'static str)];

const OPEN: &Flags = &[
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
const PROTECTION: &Flags = &[(libc::PROT_READ, "READ"), (libc::PROT_WRITE, "WRITE"), (libc::PROT_EXEC, "EXEC")];
const MAPPING: &Flags = &[
    (libc::MAP_SHARED_VALIDATE, "SHARED_VALIDATE"),
    (libc::MAP_SHARED, "SHARED"),
    (libc::MAP_PRIVATE, "PRIVATE"),
    (libc::MAP_FIXED, "FIXED"),
    (libc::MAP_ANONYMOUS, "ANONYMOUS"),
    (libc::MAP_NORESERVE, "NORESERVE"),
    (libc::MAP_POPULATE, "POPULATE"),
    (libc::MAP_STACK, "STACK"),
    (libc::MAP_HUGETLB, "HUGETLB"),
];
const LOOKUP: &Flags = &[
    (libc::AT_SYMLINK_NOFOLLOW, "SYMLINK_NOFOLLOW"),
    (libc::AT_REMOVEDIR, "REMOVEDIR"),
    (libc::AT_SYMLINK_FOLLOW, "SYMLINK_FOLLOW"),
    (libc::AT_NO_AUTOMOUNT, "NO_AUTOMOUNT"),
    (libc::AT_EMPTY_PATH, "EMPTY_PATH"),
];
const ACCESS: &Flags = &[
    (libc::AT_EACCESS, "EACCESS"),
    (libc::AT_SYMLINK_NOFOLLOW, "SYMLINK_NOFOLLOW"),
    (libc::AT_EMPTY_PATH, "EMPTY_PATH"),
];
const CLONE: &Flags = &[
    (libc::CLONE_VM, "VM"),
    (libc::CLONE_FS, "FS"),
    (libc::CLONE_FILES, "FILES"),
    (libc::CLONE_SIGHAND, "SIGHAND"),
    (libc::CLONE_VFORK, "VFORK"),
    (libc::CLONE_THREAD, "THREAD"),
    (libc::CLONE_NEWNS, "NEWNS"),
    (libc::CLONE_NEWUTS, "NEWUTS"),
    (libc::CLONE_NEWIPC, "NEWIPC"),
    (libc::CLONE_NEWUSER, "NEWUSER"),
    (libc::CLONE_NEWPID, "NEWPID"),
    (libc::CLONE_NEWNET, "NEWNET"),
];
const SOCKET: &Flags = &[(libc::SOCK_CLOEXEC, "CLOEXEC"), (libc::SOCK_NONBLOCK, "NONBLOCK")];
const FUTEX_FLAGS: &Flags = &[(128, "PRIVATE"), (256, "CLOCK_REALTIME")];

const SOCKET_TYPES: &[&str] = &["", "STREAM", "DGRAM", "RAW", "RDM", "SEQPACKET"];
const FAMILIES: &[&str] = &["UNSPEC", "UNIX", "INET", "", "", "", "", "", "", "", "INET6"];
const FUTEX: &[&str] = &[
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
const FCNTL: &[&str] =
    &["DUPFD", "GETFD", "SETFD", "GETFL", "SETFL", "GETLK", "SETLK", "SETLKW", "SETOWN", "GETOWN", "SETSIG", "GETSIG"];
const CLOCKS: &[&str] = &[
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
const IOCTLS: &[(u32, &str)] = &[
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

/// Whether a call has a descriptor, and no socket address that says more.
pub(super) fn uses_descriptor(name: &str) -> bool {
    descriptor_at(name).is_some() && kinds(name) != WITH_ADDRESS
}

/// Writes a call. `path` is its first path or its socket address, if that was read; `file` returns what a descriptor
/// refers to.
pub(super) fn written(
    name: &str,
    arguments: &Arguments,
    mut path: Option<&str>,
    file: impl Fn(i32) -> Option<String>,
) -> String {
    let kinds = kinds(name);
    // The address says more than the descriptor.
    if let Some(address) = path.filter(|_| kinds == WITH_ADDRESS) {
        return format!("{name}({} → {})", arguments[0] as i32, address.escape_debug());
    }
    let mut out = format!("{name}(");
    for (i, (kind, word)) in kinds.chars().zip(arguments).enumerate() {
        // The mode of open counts only for new files.
        let is_unused = kind == 'm' && kinds.contains('o') && arguments[i - 1] as i32 & libc::O_CREAT == 0;
        if is_unused || kind == 'd' && *word as i32 == AT_FDCWD {
            continue;
        }
        if !out.ends_with('(') {
            out.push_str(", ");
        }
        add(&mut out, kind, *word, &mut path, &file);
    }
    out.push(')');
    out
}

fn add(out: &mut String, kind: char, word: u64, path: &mut Option<&str>, file: &impl Fn(i32) -> Option<String>) {
    let number = word as i32;
    // Writing to a string does not fail.
    let _ = match kind {
        'f' | 'd' => match Some(number).filter(|fd| *fd >= 0).and_then(file) {
            Some(what) => write!(out, "{number} → {what}"),
            None => write!(out, "{number}"),
        },
        'p' if path.is_some() => write!(out, "{:?}", path.take().unwrap_or_default()),
        'i' => write!(out, "{number}"),
        'l' => write!(out, "{}", word as i64),
        'a' => add_flags(out, number, ACCESS, ""),
        'u' => write!(out, "{word}"),
        'm' => write!(out, "{word:#o}"),
        'o' => {
            *out += ["RDONLY", "WRONLY", "RDWR", "3"][(number & 3) as usize];
            add_flags(out, number & !3, OPEN, "|")
        }
        's' => add_name(out, number, SIGNALS),
        'F' => add_name(out, number & 127, FUTEX).and_then(|()| add_flags(out, number & !127, FUTEX_FLAGS, "|")),
        'P' => add_flags(out, number, PROTECTION, ""),
        'M' => add_flags(out, number, MAPPING, ""),
        't' => add_flags(out, number, LOOKUP, ""),
        'c' => add_flags(out, number & !0xff, CLONE, ""),
        'A' => add_name(out, number, FAMILIES),
        'S' => add_name(out, number & 15, SOCKET_TYPES).and_then(|()| add_flags(out, number & !15, SOCKET, "|")),
        'E' => add_name(out, number, &["0", "ADD", "DEL", "MOD"]),
        'W' => add_name(out, number, &["SET", "CUR", "END", "DATA", "HOLE"]),
        'C' if number == libc::F_DUPFD_CLOEXEC => write!(out, "DUPFD_CLOEXEC"),
        'C' => add_name(out, number, FCNTL),
        'k' => add_name(out, number, CLOCKS),
        'I' => match IOCTLS.iter().find(|(own, _)| *own == number.cast_unsigned()) {
            Some((_, name)) => out.write_str(name),
            None => write!(out, "{number:#x}"),
        },
        _ if word == 0 => write!(out, "0"),
        _ => write!(out, "{word:#x}"),
    };
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
        written(name, &all, path, |fd| (fd == 7).then(|| "/var/wal".to_owned()))
    }

    #[test]
    fn calls_have_their_arguments() {
        let here = AT_FDCWD as u64;
        for (name, arguments, path, expected) in [
            ("openat", &[here, 0x1000, 0][..], Some("/etc/app.conf"), r#"openat("/etc/app.conf", RDONLY)"#),
            ("openat", &[7, 0x1000, 0o102, 0o644], Some("x"), r#"openat(7 → /var/wal, "x", RDWR|CREAT, 0o644)"#),
            ("openat", &[here, 0x1000, 0], None, "openat(0x1000, RDONLY)"),
            ("read", &[7, 0x1000, 8192], None, "read(7 → /var/wal, 0x1000, 8192)"),
            ("futex", &[0x10, 128, 2], None, "futex(0x10, WAIT|PRIVATE, 2, 0, 0, 0)"),
            ("kill", &[1, 15], None, "kill(1, TERM)"),
            ("kill", &[u64::MAX, 64], None, "kill(-1, 64)"),
            ("socket", &[10, 0o2000001, 6], None, "socket(INET6, STREAM|CLOEXEC, 6)"),
            ("socket", &[99, 9, 0], None, "socket(99, 9, 0)"),
            ("fcntl", &[7, 3], None, "fcntl(7 → /var/wal, GETFL, 0)"),
            ("lseek", &[7, 5, 2], None, "lseek(7 → /var/wal, 5, END)"),
            ("lseek", &[7, 5 << 30, 0], None, "lseek(7 → /var/wal, 5368709120, SET)"),
            ("faccessat2", &[-100i64 as u64, 0, 4, 0x200], Some("/x"), "faccessat2(\"/x\", 4, EACCESS)"),
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
            ("rename", &[1, 2], Some("a\u{1b}\"b"), r#"rename("a\u{1b}\"b", 0x2)"#),
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
