//! Hits of a software event, summed by thread inside the kernel: the BPF program at the event (hit_sums.bpf.c, compiled
//! by the `build` next to it) and its maps.
//!
//! Each hit is either in the sums or recorded as a sample, exactly once. While hits are few, all are recorded.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

use super::bpf::alternating_maps::AlternatingMaps;
use super::bpf::calls::{self, LoadError, MappedValue, ProgramType, half, word};
use super::bpf::object::LoadedObject;

#[cfg(target_arch = "x86_64")]
const OBJECT: &[u8] = include_bytes!("hit_sums.x86_64.o");
#[cfg(not(target_arch = "x86_64"))]
const OBJECT: &[u8] = include_bytes!("hit_sums.aarch64.o");

/// The hits on a CPU between two readings that are all recorded. Of more, chance selects fewer: their stacks are walked,
/// which takes several times as long as a sum.
const BUDGET: u64 = 200;
const SELECTED: u64 = 50;
/// Bytes of a key and of `struct sum` in hit_sums.bpf.c.
const KEY: usize = 4;
const SUM: usize = 16;

/// The words of `struct settings` in hit_sums.bpf.c.
#[derive(Clone, Copy, Debug)]
enum Setting {
    On,
    Active,
    Window,
    Budget,
    Selected,
    Own,
    /// Written by the program.
    Summed,
}

const SETTINGS_BYTES: usize = 8 * (Setting::Summed as usize + 1);

/// The hits of a thread that were only summed, between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HitSum {
    pub(crate) tid: i32,
    pub(crate) pid: i32,
    pub(crate) n: u64,
}

fn sum(key: &[u8], value: &[u8]) -> Option<HitSum> {
    let sum = HitSum { tid: half(key, 0) as i32, pid: half(value, 8) as i32, n: word(value, 0) };
    (sum.n > 0).then_some(sum)
}

/// The program for one event, which is attached like a filter. It is active while the event is enabled.
#[derive(Debug)]
pub(crate) struct HitCounter {
    object: LoadedObject,
    program: OwnedFd,
    settings: MappedValue,
    turns: AlternatingMaps,
}

impl HitCounter {
    /// Loads the program (CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN). The hits of the process `own` are all recorded.
    /// [`LoadError`] has the last line of the verifier's log.
    pub(crate) fn load(own: u32) -> Result<Self, LoadError> {
        let object = LoadedObject::load(OBJECT)?;
        let program = object.program("perf_event", ProgramType::Sample)?;
        let settings = MappedValue::of(object.map("settings")?, SETTINGS_BYTES)?;
        let counter = Self { object, program, settings, turns: AlternatingMaps::new()? };
        // The windows of the program begin at 0, so that this one is not in use yet.
        for (setting, value) in [
            (Setting::Budget, BUDGET),
            (Setting::Selected, SELECTED),
            (Setting::Own, own.into()),
            (Setting::Window, 1),
            (Setting::On, 1),
        ] {
            counter.set(setting, value);
        }
        // A kernel that cannot read maps in batches has no place for sums.
        counter.take()?;
        Ok(counter)
    }

    fn set(&self, setting: Setting, value: u64) {
        self.settings.word(setting as usize).store(value, Ordering::Release);
    }

    fn get(&self, setting: Setting) -> u64 {
        self.settings.word(setting as usize).load(Ordering::Acquire)
    }

    /// Returns the program, which accepts the hits to record.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Sets the program that runs for recorded hits.
    pub(crate) fn go_on_with(&self, program: Option<BorrowedFd<'_>>) -> Result<(), LoadError> {
        let next = self.object.map("next")?;
        match program {
            Some(program) => Ok(calls::put(next, 0, [program.as_raw_fd() as u32, 0, 0, 0])?),
            None => {
                // It fails only if there is none.
                let _ = calls::take(next, 0);
                Ok(())
            }
        }
    }

    /// Sums hits, or records each of them.
    pub(crate) fn sum_up(&self, on: bool) {
        self.set(Setting::On, on.into());
    }

    /// Returns the sums since the previous reading, and begins the next window.
    pub(crate) fn read(&self) -> Result<Vec<HitSum>, LoadError> {
        self.set(Setting::Window, self.get(Setting::Window).wrapping_add(1));
        // Waiting for programs takes milliseconds, and most windows have no sums.
        if self.settings.word(Setting::Summed as usize).swap(0, Ordering::AcqRel) == 0 {
            return Ok(Vec::new());
        }
        self.take()
    }

    fn take(&self) -> Result<Vec<HitSum>, LoadError> {
        let full = self.turns.turn(&self.object, &self.settings, Setting::Active as usize)?;
        let mut sums = Vec::new();
        calls::read_all(full, (KEY, SUM), true, |key, value| sums.extend(sum(key, value)))?;
        sums.sort_unstable();
        Ok(sums)
    }
}

#[cfg(test)]
mod tests;
