//! Blocked threads: state, kernel function, system call (proc_pid_stat(5), proc_pid_wchan(5), proc_pid_syscall(5)).

use super::procfs;

pub(crate) mod registers;
pub(crate) mod stacks;

/// A thread that is neither running nor runnable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedThread {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) comm: Vec<u8>,
    /// The state letter, as `ps` prints it: `S`, `D`, `I`…
    pub(crate) state: char,
    pub(crate) is_of_kernel: bool,
    /// The CPU that it last ran on.
    pub(crate) cpu: u32,
    /// The kernel function that it sleeps in; empty where this user may not see it.
    pub(crate) place: String,
    /// The system call that it is in, with its first two arguments, where the kernel shows them.
    pub(crate) call: Option<(i64, [u64; 2])>,
    /// Whether it runs a 32-bit program, as far as its system call reveals that.
    pub(crate) is_32_bit: bool,
}

/// `PF_KTHREAD` of include/linux/sched.h.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Returns the blocked threads of all processes, looking at no more than `most` threads.
pub(crate) fn threads(most: usize) -> Vec<BlockedThread> {
    let all =
        procfs::processes().into_iter().flat_map(|pid| procfs::threads(pid).into_iter().map(move |tid| (pid, tid)));
    all.take(most).filter_map(|(pid, tid)| one(pid, tid)).collect()
}

fn one(pid: i32, tid: i32) -> Option<BlockedThread> {
    let read = |file: &str| procfs::read_short(&format!("/proc/{pid}/task/{tid}/{file}"));
    let (comm, state, flags, cpu) = stat(&read("stat").ok()?)?;
    if !matches!(state, 'S' | 'D' | 'I' | 'T' | 't' | 'P') {
        return None;
    }
    let words =
        |file: &str| read(file).map(|text| String::from_utf8_lossy(&text).trim().to_owned()).unwrap_or_default();
    let is_of_kernel = flags & KERNEL_THREAD != 0;
    let place = Some(words("wchan")).filter(|place| place != "0").unwrap_or_default();
    let line = if is_of_kernel { String::new() } else { words("syscall") };
    let (call, is_32_bit) = (call(&line), is_32_bit(&line));
    Some(BlockedThread { pid, tid, comm, state, is_of_kernel, cpu, place, call, is_32_bit })
}

/// Operations of futex(2) without their flags (include/uapi/linux/futex.h): `FUTEX_WAIT` and `FUTEX_WAIT_BITSET`.
const WAITS: [i64; 2] = [0, 9];
/// Operations that keep the owner in the futex: `FUTEX_LOCK_PI` and `FUTEX_LOCK_PI2`.
const LOCKS: [i64; 2] = [6, 13];
/// `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
const PRIVATE: i64 = 128;
const REAL_TIME: i64 = 256;
/// The bits of a futex that contain its owner (`FUTEX_TID_MASK`).
const OWNER_BITS: i64 = 0x3fff_ffff;
/// glibc's mutexes have their owner so many bytes after the futex.
const OWNER_AT: u64 = 8;

/// A contended mutex for which a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MutexWait {
    /// The address of its futex.
    pub(crate) address: u64,
    has_owner: bool,
    /// Whether it may be a condition variable of Rust's standard library, which waits with the number of its
    /// notifications. glibc's mutexes use `FUTEX_WAIT`.
    pub(crate) may_be_condition: bool,
}

impl MutexWait {
    fn parse(line: &str) -> Option<Self> {
        let (_, [address, operation]) = call(line).filter(|(number, _)| *number == libc::SYS_futex)?;
        let operation = operation as i64 & !PRIVATE;
        let has_owner = LOCKS.contains(&operation);
        let is_contended = WAITS.contains(&operation) && line.split_ascii_whitespace().nth(3) == Some("0x2");
        let may_be_condition = operation == WAITS[1];
        (has_owner || is_contended).then_some(Self { address, has_owner, may_be_condition })
    }

    /// Returns the thread that holds it, by its number in its PID namespace, according to the process's memory. The
    /// process may write anything there, and may delay the reader for ever (userfaultfd(2)).
    pub(crate) fn owner(&self, pid: i32) -> Option<i32> {
        let word = |offset| procfs::peek(pid, self.address.checked_add(offset)?, 4);
        let owner =
            if self.has_owner { word(0)? } else { glibc_owner([word(0)?, word(OWNER_AT)?, word(12)?, word(16)?])? };
        i32::try_from(owner as i64 & OWNER_BITS).ok().filter(|tid| *tid > 0)
    }
}

/// Returns the owner from the words of a contended mutex of glibc: `__lock`, `__owner`, `__nusers` and `__kind` of
/// `struct __pthread_mutex_s` (sysdeps/x86/nptl/bits/struct_mutex.h). Other mutexes that wait with the value 2, as
/// those of Rust's standard library, have other data there.
fn glibc_owner([lock, owner, users, kind]: [u64; 4]) -> Option<u64> {
    /// Types, and the flags of robust, inheriting, protecting, shared and elided mutexes.
    const KINDS: u64 = 0x3ff;
    (lock == 2 && (1..1 << 22).contains(&users) && kind & !KINDS == 0).then_some(owner)
}

/// A wait that may be for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockWait {
    /// A contended mutex.
    Mutex(MutexWait),
    /// A semaphore of glibc, or one of its condition variables, and the thread's stack pointer. Interpreters make locks
    /// of them.
    Semaphore {
        /// The address of its futex.
        address: u64,
        /// The stack pointer.
        stack: u64,
    },
}

impl LockWait {
    fn parse(line: &str) -> Option<Self> {
        let of_semaphore = || {
            let (_, [address, operation]) = call(line).filter(|(number, _)| *number == libc::SYS_futex)?;
            let mut words = line.split_ascii_whitespace().skip(3);
            let is_taken = operation as i64 & !(PRIVATE | REAL_TIME) == WAITS[1] && words.next()? == "0x0";
            // The value is followed by three arguments.
            let stack = u64::from_str_radix(words.nth(3)?.strip_prefix("0x")?, 16).ok()?;
            is_taken.then_some(Self::Semaphore { address, stack })
        };
        MutexWait::parse(line).map(Self::Mutex).or_else(of_semaphore)
    }

    /// Returns the address of the futex.
    pub(crate) fn address(&self) -> u64 {
        match self {
            Self::Mutex(mutex) => mutex.address,
            Self::Semaphore { address, .. } => *address,
        }
    }
}

/// Returns the wait of a thread that may be for a lock.
pub(crate) fn lock_wait(pid: i32, tid: i32) -> Option<LockWait> {
    LockWait::parse(&system_call(pid, tid)?)
}

/// Calls that wait for connections, or for any of several events.
const WORK: &[i64] = &[
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
];

/// Returns whether a thread waits for connections or events.
pub(crate) fn waits_for_work(pid: i32, tid: i32) -> bool {
    let number = system_call(pid, tid).and_then(|line| Some(call(&line)?.0));
    number.is_some_and(|number| WORK.contains(&number))
}

fn system_call(pid: i32, tid: i32) -> Option<String> {
    String::from_utf8(procfs::read_short(&format!("/proc/{pid}/task/{tid}/syscall")).ok()?).ok()
}

/// Returns the mutex for which a thread sleeps: glibc and Rust's standard library mark a contended one by the value 2.
/// Condition variables and semaphores, on which idle threads wait, use other values or operations, except for those of
/// [`MutexWait::may_be_condition`].
pub(crate) fn mutex_wait(pid: i32, tid: i32) -> Option<MutexWait> {
    MutexWait::parse(&system_call(pid, tid)?)
}

/// Parses name (any bytes, also parentheses), state, flags and last CPU from a line of /proc/PID/stat.
fn stat(line: &[u8]) -> Option<(Vec<u8>, char, u64, u32)> {
    let (from, until) = (line.iter().position(|b| *b == b'(')?, line.iter().rposition(|b| *b == b')')?);
    let comm = line.get(from + 1..until)?.to_vec();
    let rest = String::from_utf8_lossy(line.get(until + 1..)?);
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let flags = fields.nth(5)?.parse().ok()?;
    // Fields 9 and 39 of the line; the state is field 3.
    Some((comm, state, flags, fields.nth(29)?.parse().ok()?))
}

/// Parses the number and the first arguments of a system call; `None` for a thread in user code or on a CPU.
fn call(line: &str) -> Option<(i64, [u64; 2])> {
    let mut words = line.split_ascii_whitespace();
    let number = words.next()?.parse().ok().filter(|number| *number >= 0)?;
    let mut argument = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    Some((number, [argument()?, argument()?]))
}

/// Returns whether stack pointer and program counter, the last words, lie below 4 GiB. A 64-bit stack does not.
fn is_32_bit(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace().skip(7);
    let mut is_low = || {
        let word = words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        word.is_some_and(|word| word < 1 << 32)
    };
    is_low() && is_low()
}

#[cfg(test)]
impl MutexWait {
    /// Creates a wait for a mutex of glibc, or for one that may be a condition variable.
    pub(crate) fn staged(address: u64, may_be_condition: bool) -> Self {
        Self { address, has_owner: false, may_be_condition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc() {
        let line =
            b"2 (k (odd) name) I 0 0 0 0 -1 2129984 0 0 0 0 1 2 0 0 20 0 1 0 21 0 0 18446744073709551615 0 0 0 0 0 0 \
            0 2147483647 0 1 0 0 17 3 0 0 0 0 0";
        assert_eq!(stat(line), Some((b"k (odd) name".to_vec(), 'I', 2_129_984, 3)));
        assert_eq!(call("202 0x7f00 0x89 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f11"), Some((202, [0x7f00, 0x89])));
        assert!(is_32_bit("168 0x0 0x0 0x5 0x0 0x0 0x0 0xffd0 0xf7f0"));
        for line in ["7 0x0 0x0 0x5 0x0 0x0 0x0 0x7ffc00000000 0x401000", "running", "168 0x0", ""] {
            assert!(!is_32_bit(line), "{line}");
        }
        for wrong in ["running", "-1 0x7ffc 0x7f11", "", "202 0x7f00", "202 7 8"] {
            assert_eq!(call(wrong), None, "{wrong}");
        }
        for wrong in [&b""[..], b"1 (x", b"1 )x(", b"1 (x) S", b"1 (x) S 1 2 3 4 5 flags", b"1 (x) S 1 2 3 4 5 6"] {
            assert_eq!(stat(wrong), None);
        }
    }

    #[test]
    fn only_glibcs_mutexes_have_an_owner() {
        assert_eq!(glibc_owner([2, 4711, 1, 0]), Some(4711));
        assert_eq!(glibc_owner([2, 4711, 2, 0x101]), Some(4711));
        // Rust's Mutex<Vec<u8>>: the capacity follows.
        assert_eq!(glibc_owner([2, 16, 0, 0x1000]), None);
        assert_eq!([glibc_owner([1, 7, 1, 0]), glibc_owner([2, 7, 1, 0x4000_0000])], [None; 2]);
    }

    #[test]
    fn a_wait_for_a_mutex_has_its_value() {
        let wait = |operation: &str, value: &str| {
            let line = format!("{} 0x7f00 {operation} {value} 0x0 0x0 0x0 0x7ffc 0x7f11", libc::SYS_futex);
            MutexWait::parse(&line).map(|wait| (wait.address, wait.has_owner, wait.may_be_condition))
        };
        for operation in ["0x80", "0x0"] {
            assert_eq!(wait(operation, "0x2"), Some((0x7f00, false, false)));
        }
        assert_eq!(wait("0x89", "0x2"), Some((0x7f00, false, true)));
        assert_eq!([wait("0x86", "0x0"), wait("0xd", "0x1")], [Some((0x7f00, true, false)); 2]);
        assert_eq!([wait("0x80", "0x0"), wait("0x81", "0x2"), wait("0x189", "0x2")], [None; 3]);
        assert_eq!(MutexWait::parse("running"), None);
        assert_eq!(MutexWait::parse("7 0x0 0x80 0x2 0x0 0x0 0x0 0x1 0x2"), None);
    }

    /// The line of a thread that waits for a lock of CPython 3.11.
    #[test]
    fn a_semaphore_may_be_a_lock() {
        let wait = |operation: &str, value: &str| {
            let rest = "0x0 0x0 0xffffffff 0x7fb8df22a950 0x7fb8df8a3f16";
            LockWait::parse(&format!("{} 0x563a9b3d0340 {operation} {value} {rest}", libc::SYS_futex))
        };
        let semaphore = Some(LockWait::Semaphore { address: 0x563a_9b3d_0340, stack: 0x7fb8_df22_a950 });
        assert_eq!([wait("0x189", "0x0"), wait("0x89", "0x0"), wait("0x9", "0x0")], [semaphore; 3]);
        assert_eq!([wait("0x189", "0x3"), wait("0x80", "0x0")], [None; 2]);
        let mutex = LockWait::Mutex(MutexWait::staged(0x563a_9b3d_0340, false));
        assert_eq!(wait("0x80", "0x2"), Some(mutex));
        assert_eq!(LockWait::parse("202 0x7f00 0x189 0x0"), None);
    }

    #[test]
    fn a_thread_that_accepts_connections_waits_for_work() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let thread = std::thread::spawn(move || listener.accept().is_ok());
        let own = std::process::id() as i32;
        while !procfs::threads(own).into_iter().any(|tid| waits_for_work(own, tid)) {
            std::thread::yield_now();
        }
        assert!(!waits_for_work(own, rustix::thread::gettid().as_raw_nonzero().get()), "it runs");
        drop(std::net::TcpStream::connect(at));
        assert!(thread.join().is_ok_and(|accepted| accepted));
    }

    #[test]
    fn who_sleeps_is_found() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::Builder::new().name("sleeper (zz)".to_owned());
        let thread = sleeper.spawn(move || receive.recv()).expect("a thread");
        let own = std::process::id() as i32;
        let asleep =
            || procfs::threads(own).into_iter().filter_map(|tid| one(own, tid)).find(|t| t.comm == b"sleeper (zz)");
        let mut found = asleep();
        while found.is_none() {
            std::thread::yield_now();
            found = asleep();
        }
        let found = found.expect("a thread");
        assert!(found.state == 'S' && !found.is_of_kernel, "{found:?}");
        drop(send);
        assert!(thread.join().is_ok_and(|received| received.is_err()));
    }
}
