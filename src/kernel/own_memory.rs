//! The program's own memory: how much of it is private, and how soon what was freed is the machine's again.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};

use super::{procfs, read_file};

// The allocator, which main.rs makes the program's.
use mimalloc as _;

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
