//! Copies of the user stacks of sleeping threads, from their memory. Events show a stack when a thread falls asleep; those
//! of threads that already sleep are past.

use std::io;

use crossbeam_channel::{Receiver, bounded};
use rustc_hash::{FxHashMap, FxHashSet};

use super::registers::{UserPlace, frame_pointers};
use super::{BlockedThread, call, system_call};
use crate::kernel::{kernel_symbols, procfs};

/// The size of a copy. Stacks of sleeping threads are seldom longer, and the copy may bring swapped pages back.
pub(crate) const COPIED: usize = 32 << 10;
/// The number of copies that wait for their receiver.
const WAITING: usize = 64;
/// The start of the names of the kernel's functions that implement system calls of 64-bit programs.
const CALLS: &str = "__x64_sys_";

/// A thread, and the name of its system call.
pub(crate) struct NamedCall {
    pub(crate) thread: BlockedThread,
    pub(crate) name: String,
}

/// The state of a sleeping thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SleepingStack {
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    /// Addresses in the kernel's functions, innermost first: the one in which the thread sleeps, and its system call.
    pub(crate) kernel: Vec<u64>,
    /// The instruction after its system call.
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    /// The frame pointer, where BPF shows it.
    pub(crate) bp: Option<u64>,
    /// The stack from the stack pointer on, no more than [`COPIED`] bytes.
    pub(crate) bytes: Vec<u8>,
}

/// Copies the stacks of threads that still are in the same system calls, on another thread: a process may delay the
/// reader of its memory for ever.
pub(crate) fn copy(threads: Vec<NamedCall>) -> io::Result<Receiver<SleepingStack>> {
    let (copied, copies) = bounded(WAITING);
    crate::kernel::thread("sleeping stacks", move || {
        let (functions, registers) = (addresses(&threads), frame_pointers().unwrap_or_default());
        let of = |name: &str| functions.get(name).copied();
        let mut slow = FxHashSet::default();
        for NamedCall { thread, name } in &threads {
            let kernel = [thread.place.as_str(), &format!("{CALLS}{name}")].into_iter().filter_map(of).collect();
            if slow.contains(&thread.pid) {
                continue;
            }
            let copy = copy_of(thread, kernel, &registers);
            if copy.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
                slow.insert(thread.pid);
            }
            // The unit may have ended.
            if copy.is_ok_and(|copy| copied.send(copy).is_err()) {
                return;
            }
        }
    })?;
    Ok(copies)
}

/// Returns addresses in the functions of the kernel in which the threads are, by name. Empty if addresses are hidden.
fn addresses(threads: &[NamedCall]) -> FxHashMap<String, u64> {
    let names = threads.iter().flat_map(|one| [one.thread.place.clone(), format!("{CALLS}{}", one.name)]);
    let names: FxHashSet<Vec<u8>> = names.map(String::into_bytes).collect();
    // Words of a chain are return addresses: after a call.
    kernel_symbols::addresses(|name| names.contains(name))
        .into_iter()
        .map(|(name, at)| (name, at.saturating_add(1)))
        .collect()
}

fn copy_of(
    thread: &BlockedThread,
    kernel: Vec<u64>,
    registers: &FxHashMap<UserPlace, u64>,
) -> io::Result<SleepingStack> {
    let BlockedThread { pid, tid, .. } = *thread;
    let line = || system_call(pid, tid).filter(|line| thread.call.is_some() && call(line) == thread.call);
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let before = line().ok_or_else(gone)?;
    let [sp, ip] = last_words(&before).ok_or_else(gone)?;
    let bytes = procfs::stack_in_time(pid, sp, COPIED)?;
    if line().as_ref() != Some(&before) {
        return Err(gone());
    }
    let bp = registers.get(&UserPlace { tid, ip, sp }).copied();
    Ok(SleepingStack { pid, tid, kernel, ip, sp, bp, bytes })
}

/// Returns the stack pointer and the program counter from a line of /proc/PID/syscall.
fn last_words(line: &str) -> Option<[u64; 2]> {
    let mut words = line.split_ascii_whitespace().rev();
    let mut word = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (ip, sp) = (word()?, word()?);
    Some([sp, ip])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stack_of_a_sleeping_thread_is_copied() {
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::Builder::new().name("asleep".to_owned());
        let thread = sleeper.spawn(move || receive.recv()).expect("a thread");
        let own = std::process::id() as i32;
        let find = || {
            let one = procfs::threads(own).into_iter().filter_map(|tid| super::super::one(own, tid));
            one.into_iter().find(|thread| thread.comm == b"asleep" && thread.call.is_some())
        };
        let found = std::iter::repeat_with(find).flatten().next().expect("asleep");
        let name = "futex".to_owned();
        // It went on after it was seen: another call.
        let moved = BlockedThread { call: found.call.map(|(number, _)| (number, [1, 1])), ..found.clone() };
        let asked = [moved, found.clone()].map(|thread| NamedCall { thread, name: name.clone() });
        let copies: Vec<SleepingStack> = copy(asked.into()).expect("a thread").iter().collect();
        drop(send);
        assert!(thread.join().is_ok_and(|received| received.is_err()));
        let [copy] = &copies[..] else { panic!("{} copies", copies.len()) };
        assert_eq!((copy.pid, copy.tid), (own, found.tid));
        assert!(copy.ip != 0 && copy.bytes.len() >= 1 << 10, "{copy:x?}");
        // The loader's or the program's code returns to this program's code.
        let code = procfs::exec_maps(own).into_iter().map(|map| map.start..map.end).collect::<Vec<_>>();
        let words = copy.bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes));
        assert!(words.filter(|word| code.iter().any(|map| map.contains(word))).count() > 3);
    }

    #[test]
    fn stack_pointer_and_program_counter_are_last() {
        assert_eq!(last_words("202 0x7f00 0x89 0x0 0x0 0x0 0xffffffff 0x7ffc 0x7f11"), Some([0x7ffc, 0x7f11]));
        assert_eq!([last_words("running"), last_words(""), last_words("-1 0x1 x")], [None; 3]);
    }
}
