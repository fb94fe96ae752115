//! The program's own memory: how much of it is private, and how soon what was freed is the machine's again.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::{c_int, c_long};
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use mimalloc::MiMalloc;
use rustix::process::{Resource, getrlimit};

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

use super::{procfs, read_file};

/// The program's allocator: mimalloc, but that the end of memory is reported with what to do about it.
///
/// Profiles come and go by the megabyte on one thread, and names on others: glibc's allocator keeps what was freed in
/// between, and spends a seventh of a busy profile's time on joining it.
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

// SAFETY: each call goes to mimalloc's as it came, and its block is handed on.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to what GlobalAlloc asks for.
        Self::checked(unsafe { MiMalloc.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to what GlobalAlloc asks for.
        Self::checked(unsafe { MiMalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps to what GlobalAlloc asks for.
        Self::checked(unsafe { MiMalloc.realloc(block, layout, size) }, size)
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to what GlobalAlloc asks for.
        unsafe { MiMalloc.dealloc(block, layout) }
    }
}

thread_local! {
    /// Whether this thread asks for memory that it can do without.
    static FALLIBLE: Cell<bool> = const { Cell::new(false) };
}

/// Asks for memory that the caller can do without, as `try_reserve` does.
pub(crate) fn fallible<R>(ask: impl FnOnce() -> R) -> R {
    let before = FALLIBLE.replace(true);
    let answer = ask();
    FALLIBLE.set(before);
    answer
}

/// What is to be done before the program ends for want of memory.
static LAST: OnceLock<fn()> = OnceLock::new();

/// Has something done first when there is no more memory.
pub(crate) fn before_the_end(last: fn()) {
    let _ = LAST.set(last);
}

/// Ends the program: what asked for memory cannot go on without it.
fn end_without_memory(size: usize) -> ! {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if !ENDING.swap(true, Ordering::SeqCst) {
        // What that allocates has small blocks left; where it has not, the second call comes here.
        LAST.get().into_iter().for_each(|last| last());
    }
    let mut text = Fixed::default();
    let limit = getrlimit(Resource::As).current;
    let _ = writeln!(text, "perfprof-tui: out of memory: {} KiB cannot be allocated", size.div_ceil(1024));
    let _ = match limit {
        Some(limit) => writeln!(text, "{INDENT}the address space is limited to {} MiB: raise ulimit -v", limit >> 20),
        None => writeln!(text, "{INDENT}choose a lower --memory, or end what holds the machine's memory"),
    };
    super::tty::report(&text.bytes[..text.len]);
    super::tty::exit_now(1)
}

/// Messages' lines after the first are below it.
const INDENT: &str = "              ";

/// A text that takes no memory of the allocator; what does not fit is cut.
#[derive(Debug)]
struct Fixed {
    bytes: [u8; 256],
    len: usize,
}

impl Default for Fixed {
    fn default() -> Self {
        Self { bytes: [0; 256], len: 0 }
    }
}

impl Write for Fixed {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let fits = text.len().min(room.len());
        room[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        Ok(())
    }
}

// SAFETY: both are as mimalloc.h of the linked version has them.
unsafe extern "C" {
    fn mi_option_set(option: c_int, value: c_long);
    fn mi_collect(force: bool);
}

/// mi_option_purge_delay in mimalloc.h.
const PURGE_DELAY: c_int = 15;
/// Milliseconds: what a loop frees and takes again stays, and nothing else.
const SOON: c_long = 10;

/// True if huge pages were turned off by us, and not by who started us.
static TURNED_OFF: AtomicBool = AtomicBool::new(false);

/// Has memory given back soon after it is freed, and taken by small pages: the allocator keeps what was freed for a
/// second and more. For a program that is to stay small beside others; one that reads a recording is done sooner
/// without.
pub(crate) fn stay_small() {
    // SAFETY: the option exists, and is read at each use; that no other thread sets one meanwhile is all it asks for.
    unsafe { mi_option_set(PURGE_DELAY, SOON) };
    take_small_pages();
}

/// Has memory taken by small pages from now on: the kernel makes 2 MiB of the first byte of a region, and clears them.
/// What was made stays so: who is to be small begins with it.
pub(crate) fn take_small_pages() {
    if transparent_huge_pages_are_disabled() == Ok(false) && disable_transparent_huge_pages(true).is_ok() {
        TURNED_OFF.store(true, Ordering::Relaxed);
    }
}

/// Lets a program that is started have huge pages: it inherits what we have, and is measured as it runs without us.
/// Safe between fork and exec.
pub(super) fn leave_children_as_they_are() {
    if TURNED_OFF.load(Ordering::Relaxed) {
        let _ = disable_transparent_huge_pages(false);
    }
}

/// Gives what was freed back at once, of this thread and of those that have ended.
pub(crate) fn give_back() {
    // SAFETY: it may be called by any thread at any time.
    unsafe { mi_collect(true) };
}

/// Private bytes in use: what /proc/self/status calls RssAnon, and copies of files that others can change.
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

    /// What is measured runs as it does without us.
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
        // Kernels before 5.0 do not tell.
        assert!(told.is_empty() || told.trim().ends_with('1') == TURNED_OFF.load(Ordering::Relaxed), "{told}");
        give_back();
    }
}
