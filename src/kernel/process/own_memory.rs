//! The program's own memory: how much of it is private, and how soon freed memory goes back to the machine.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mimalloc::MiMalloc;
use rustix::process::{Resource, getrlimit};

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

use crate::kernel::files::read_file;
use crate::kernel::procfs;

/// The program's allocator: mimalloc, which also reports out-of-memory with a remedy.
///
/// Profiles are allocated and freed by the megabyte on one thread, and symbol names on others. glibc's allocator keeps
/// the freed memory in between, and spends a seventh of a busy profile's time on coalescing it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

impl Allocator {
    fn checked(block: *mut u8, size: usize) -> *mut u8 {
        if block.is_null() && !FALLIBLE.get() {
            end_without_memory(size);
        }
        block
    }
}

// SAFETY: each call is passed on to mimalloc unchanged, and its block is returned.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps GlobalAlloc's contract.
        Self::checked(unsafe { MiMalloc.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps GlobalAlloc's contract.
        Self::checked(unsafe { MiMalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps GlobalAlloc's contract.
        Self::checked(unsafe { MiMalloc.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps GlobalAlloc's contract.
        unsafe { MiMalloc.dealloc(block, layout) }
    }
}

thread_local! {
    static FALLIBLE: Cell<bool> = const { Cell::new(false) };
}

/// Runs allocations that may fail without ending the program, like `try_reserve`.
pub(crate) fn fallible<R>(ask: impl FnOnce() -> R) -> R {
    let before = FALLIBLE.replace(true);
    let answer = ask();
    FALLIBLE.set(before);
    answer
}

/// Runs before a panic or the end of memory ends the program.
static LAST: OnceLock<fn()> = OnceLock::new();

/// Registers a function to run when a panic or the end of memory ends the program.
/// Then a command ends with a failure, not a crash.
pub(crate) fn before_the_end(last: fn()) {
    let _ = LAST.set(last);
}

/// Returns the function that was registered.
pub(crate) fn last() -> Option<fn()> {
    LAST.get().copied()
}

/// Ends the program, because the code that allocates cannot continue without memory.
fn end_without_memory(size: usize) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if !ENDING.swap(true, Ordering::SeqCst) {
        // `last` usually finds small free blocks to allocate. If it does not, its failure calls this function again.
        LAST.get().into_iter().for_each(|last| last());
    }
    // Text that does not fit is cut.
    let mut bytes = [0; 256];
    let mut free = &mut bytes[..];
    let limit = getrlimit(Resource::As).current;
    let _ = writeln!(free, "perfprof-tui: out of memory: {} KiB cannot be allocated", size.div_ceil(1024));
    let _ = match limit {
        Some(limit) => writeln!(free, "{INDENT}the address space is limited to {} MiB: raise ulimit -v", limit >> 20),
        None => writeln!(free, "{INDENT}choose a lower --memory, or free memory on the machine"),
    };
    let left = free.len();
    crate::kernel::tty::report(&bytes[..bytes.len() - left]);
    crate::kernel::tty::exit_now(1)
}

const INDENT: &str = "              ";

// SAFETY: both signatures are those of mimalloc.h of the linked version.
unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// mi_option_purge_delay in mimalloc.h.
const PURGE_DELAY: c_int = 15;
/// Milliseconds: memory that a loop frees and allocates again stays, all other is released.
const SOON: c_long = 10;

/// Whether we turned huge pages off; false if they were off at our start.
static TURNED_OFF: AtomicBool = AtomicBool::new(false);

/// Releases freed memory soon, and allocates small pages. By default the allocator keeps freed memory for a second and
/// more. This suits a program that runs next to others; one that only reads a recording is faster without it.
pub(crate) fn stay_small() {
    // SAFETY: the option exists and is read at each use. Its only requirement is that no other thread sets one at the
    // same time.
    unsafe { mi_option_set(PURGE_DELAY, SOON) };
    take_small_pages();
}

/// Disables transparent huge pages from now on: on the first access to a region the kernel would allocate and clear 2
/// MiB. Existing huge pages stay, so this must run first.
pub(crate) fn take_small_pages() {
    if transparent_huge_pages_are_disabled() == Ok(false) && disable_transparent_huge_pages(true).is_ok() {
        TURNED_OFF.store(true, Ordering::Relaxed);
    }
}

/// Restores huge pages for a started program, which would inherit our setting; it is measured as it runs without us.
/// Safe between fork and exec.
pub(super) fn leave_children_as_they_are() {
    if TURNED_OFF.load(Ordering::Relaxed) {
        let _ = disable_transparent_huge_pages(false);
    }
}

/// Releases freed memory at once, of this thread and of those that have ended.
pub(crate) fn give_back() {
    // SAFETY: any thread may call it at any time.
    unsafe { mi_collect(true) };
}

/// Returns the private bytes in use: RssAnon of /proc/self/status, and copies of files that others can change.
pub(crate) fn private() -> Option<usize> {
    let text = procfs::line("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').skip(1).map_while(|word| word.parse::<usize>().ok());
    let (resident, shared) = (pages.next()?, pages.next()?);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() + read_file::held())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_is_private_and_what_is_freed_is_not() {
        let before = private().expect("statm");
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let with = private().expect("statm");
        assert!(with > before + (60 << 20), "{before} {with}");
        drop(block);
        assert!(private().expect("statm") < with - (32 << 20));
    }

    /// A measured program runs as it does without us.
    #[test]
    fn a_program_that_is_started_may_have_huge_pages() {
        stay_small();
        assert_eq!(transparent_huge_pages_are_disabled(), Ok(TURNED_OFF.load(Ordering::Relaxed)));
        let dir = tempfile::tempdir().expect("dir");
        let told = dir.path().join("told");
        let script = format!("grep THP_enabled /proc/self/status > {}", told.display());
        let command = ["sh", "-c", &script].map(std::ffi::OsString::from);
        let held = super::super::spawn::hold(&command, super::super::spawn::Output::Discard).expect("held");
        held.release().expect("started").wait().expect("ended");
        let told = std::fs::read_to_string(told).expect("told");
        // Kernels before 5.0 do not report it.
        assert!(told.is_empty() || told.trim().ends_with('1') == TURNED_OFF.load(Ordering::Relaxed), "{told}");
        give_back();
    }
}
