//! Locks of CPython up to 3.12, which wait at a semaphore of glibc like its queues. The object that contains the semaphore
//! tells what it is: a waiting thread has the object's address on its stack.

use std::os::unix::fs::FileExt;

use crate::kernel::procfs;

/// The bytes of the stack that are searched: the frames of the interpreter's functions between the call of the lock and
/// the system call.
const STACK: usize = 512;
/// Offsets in an object: its type, and the semaphore of a lock or queue (Modules/_threadmodule.c, Modules/_queuemodule.c).
const TYPE: u64 = 8;
const SEMAPHORE: u64 = 16;
/// The offset of the name in a type (`tp_name` of Include/cpython/object.h).
const NAME: u64 = 24;
/// The names of the types of locks, with the NUL at their end.
const LOCKS: [&[u8]; 2] = [b"_thread.lock\0", b"_thread.RLock\0"];
/// Bytes that suffice for these names.
const LONGEST: usize = 16;

/// Returns whether a thread of a process, which waits at a semaphore, waits for a lock of Python, given its stack
/// pointer. The process may delay the reader for ever (userfaultfd(2)).
pub(super) fn is_lock_of(pid: i32, semaphore: u64, stack: u64) -> bool {
    let Ok(memory) = procfs::open_memory(pid) else { return false };
    is_lock(semaphore, stack, |address, bytes| memory.read_at(bytes, address).unwrap_or(0))
}

/// Does the same with the memory that a function reads; it returns the number of bytes.
fn is_lock(semaphore: u64, stack: u64, read: impl Fn(u64, &mut [u8]) -> usize) -> bool {
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    let mut frames = [0; STACK];
    let len = read(stack, &mut frames);
    let words = frames[..len.min(STACK)].chunks_exact(8).map(word);
    // Objects are aligned.
    words.filter(|address| *address >= 1 << 16 && address % 8 == 0).any(|object| {
        let mut head = [0; 24];
        let is_whole = read(object, &mut head) == head.len();
        if !is_whole || word(&head[SEMAPHORE as usize..]) != semaphore {
            return false;
        }
        let (mut name_at, mut name) = ([0; 8], [0; LONGEST]);
        read(word(&head[TYPE as usize..SEMAPHORE as usize]).wrapping_add(NAME), &mut name_at);
        read(word(&name_at), &mut name);
        LOCKS.iter().any(|lock| name.starts_with(lock))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory with a stack at 0x20000, an object at 0x30000 of a type at 0x40000, and the type's name.
    fn is_lock_named(name: &[u8], semaphore: u64, stack: &[u64]) -> bool {
        let words = |list: &[u64]| list.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let parts = [
            (0x2_0000, words(stack)),
            (0x3_0000, words(&[1, 0x4_0000, 0x5550])),
            (0x4_0000, words(&[1, 0, 0, 0x5_0000])),
            (0x5_0000, name.to_vec()),
        ];
        is_lock(semaphore, 0x2_0000, |address, out| {
            let Some((start, bytes)) =
                parts.iter().find(|(start, bytes)| (*start..*start + bytes.len() as u64).contains(&address))
            else {
                return 0;
            };
            let rest = &bytes[(address - start) as usize..];
            let len = rest.len().min(out.len());
            out[..len].copy_from_slice(&rest[..len]);
            len
        })
    }

    #[test]
    fn the_type_of_the_object_tells_locks_from_queues() {
        let stack = [0, 0x7fff_ffff, 7, u64::MAX - 7, 0x3_0000];
        assert!(is_lock_named(b"_thread.lock\0and more", 0x5550, &stack));
        assert!(is_lock_named(b"_thread.RLock\0", 0x5550, &stack));
        for name in [&b"_queue.SimpleQueue\0"[..], b"_thread.lock_of_mine\0", b""] {
            assert!(!is_lock_named(name, 0x5550, &stack));
        }
        assert!(!is_lock_named(b"_thread.lock\0", 0x6660, &stack), "another semaphore");
        assert!(!is_lock_named(b"_thread.lock\0", 0x5550, &stack[..4]), "no object on the stack");
        assert!(!is_lock(0x5550, 0x2_0000, |_, _| 0), "nothing can be read");
        assert!(!is_lock(0, 0, |_, bytes| bytes.len()), "zeros");
    }
}
