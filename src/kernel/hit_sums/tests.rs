//! Tests of the program in this machine's kernel: its sums against the kernel's own count of the event.

use super::*;
use crate::kernel::attr::{Attr, TYPE_SOFTWARE};
use crate::kernel::bpf::calls::or_skipped;
use crate::kernel::sys::{Ioctl, RealSys, Sys};

/// `PERF_COUNT_SW_PAGE_FAULTS_MIN`
const MINOR_FAULTS: u64 = 5;

/// Returns the program at an event of this thread, which samples each of its minor faults.
fn measuring(own: u32) -> Option<(HitCounter, OwnedFd)> {
    let counter = or_skipped(HitCounter::load(own))?;
    let attr = Attr { kind: TYPE_SOFTWARE, config: MINOR_FAULTS, period_or_freq: 1, ..Attr::default() };
    let event = RealSys.open(&attr, 0, -1, None, None).expect("opened");
    RealSys.ioctl(event.as_fd(), Ioctl::SetBpf(counter.fd())).expect("set");
    RealSys.ioctl(event.as_fd(), Ioctl::Enable).expect("enabled");
    Some((counter, event))
}

/// Maps a page, touches it and unmaps it, so many times: huge pages would have fewer faults.
fn touch(pages: usize) {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    let how = ProtFlags::READ | ProtFlags::WRITE;
    for _ in 0..pages {
        // SAFETY: the new mapping is used only here, within its size.
        unsafe {
            let page = mmap_anonymous(std::ptr::null_mut(), 4096, how, MapFlags::PRIVATE).expect("mapped");
            page.cast::<u8>().write_volatile(1);
            munmap(page, 4096).expect("unmapped");
        }
    }
}

fn count(event: &OwnedFd) -> u64 {
    RealSys.counts(event.as_fd(), 0, 0).expect("read").value
}

/// In the first window, a CPU records the budget, and the thread's first hits after that. The thread may move.
#[test]
fn hits_beyond_the_budget_are_summed_by_thread() {
    let Some((counter, event)) = measuring(0) else { return };
    touch(5_000);
    RealSys.ioctl(event.as_fd(), Ioctl::Disable).expect("disabled");
    let all = count(&event);
    let sums = counter.read().expect("read");
    let tid = rustix::thread::gettid().as_raw_nonzero().get();
    let [sum] = sums[..] else { panic!("{sums:?}") };
    assert_eq!((sum.tid, sum.pid), (tid, std::process::id() as i32));
    let recorded = all - sum.n;
    let cpus = crate::kernel::cpus::possible() as u64;
    assert!((BUDGET..=BUDGET * cpus + 16).contains(&recorded), "{recorded} of {all}");
    assert_eq!(counter.read().expect("read"), [], "each hit is read once");
}

#[test]
fn few_hits_and_those_of_the_excluded_process_are_recorded() {
    let Some((counter, event)) = measuring(0) else { return };
    touch(BUDGET as usize / 2);
    assert_eq!(counter.read().expect("read"), []);
    counter.sum_up(false);
    touch(5_000);
    assert_eq!(counter.read().expect("read"), [], "summing was switched off");
    assert!(count(&event) > 5_000);
    let Some((counter, event)) = measuring(std::process::id()) else { return };
    touch(5_000);
    assert_eq!(counter.read().expect("read"), [], "this is the excluded process");
    assert!(count(&event) >= 5_000);
}
