//! The cost of a sample on this machine: a short loop of our own, with and without sampling. The kernel does not limit
//! software clocks, so we must.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::event::{CallGraph, Event};
use crate::kernel::sys::{Ioctl, Sys};
use crate::kernel::{monotonic_ns, own_cpu_ns};

use super::attr;
use super::attr::{CommonAttrs, KernelFeatures, Rate};

/// Above this share of a CPU, sampling is refused unless forced.
pub(crate) const REFUSE_PERCENT: f64 = 50.0;
/// Above this share of a CPU, the user is warned.
pub(crate) const WARN_PERCENT: f64 = 10.0;
/// Used when measuring fails or is too noisy: the order of magnitude in small VMs, where a timer interrupt costs most.
const FALLBACK: Duration = Duration::from_micros(8);

const PROBE_HZ: u64 = 10_000;
const WINDOW_NS: u64 = 600_000;
const WINDOWS: usize = 3;

/// Measures the cost of a timer sample. Takes 4 ms of one CPU.
pub(crate) fn per_sample(sys: &dyn Sys) -> Duration {
    measure(sys).unwrap_or(FALLBACK)
}

fn measure(sys: &dyn Sys) -> Option<Duration> {
    let quiet = best_speed();
    let common = CommonAttrs {
        rate: Rate::Frequency(PROBE_HZ),
        chains: CallGraph::None,
        watermark: 1 << 16,
        ..CommonAttrs::default()
    };
    let mut probe = attr::event(
        &Event::cpu_clock(),
        &common,
        KernelFeatures { deferred: false, lost: false, cgroup: false, ksymbol: false },
    );
    probe.set(crate::kernel::attr::Flag::ExcludeKernel, true);
    let fd = sys.open(&probe, 0, -1, None, None).ok()?;
    sys.ioctl(fd.as_fd(), Ioctl::Enable).ok()?;
    let sampled = best_speed();
    drop(fd);
    let lost_share = 1.0 - sampled / quiet;
    let ns = lost_share * 1e9 / PROBE_HZ as f64;
    (ns > 100.0).then(|| Duration::from_nanos(ns.min(100_000.0) as u64))
}

/// Returns the iterations of a loop per nanosecond of our CPU time, in the best of several windows.
fn best_speed() -> f64 {
    let window = || {
        let (start, cpu) = (monotonic_ns(), own_cpu_ns());
        let mut turns = 0u64;
        let mut x = 1u64;
        while monotonic_ns() - start < WINDOW_NS {
            for _ in 0..2_000 {
                x = std::hint::black_box(x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
            }
            turns += 1;
        }
        turns as f64 / (own_cpu_ns() - cpu).max(1) as f64
    };
    (0..WINDOWS).map(|_| window()).fold(0.0, f64::max)
}

/// Returns the highest rate that is not refused, in whole thousands per second if it is above one.
pub(crate) fn highest_rate(per_sample: Duration) -> u64 {
    let hz = (REFUSE_PERCENT / percent(per_sample, 1).max(f64::MIN_POSITIVE)) as u64;
    if hz > 1000 { hz / 1000 * 1000 } else { hz.max(1) }
}

pub(crate) fn percent(per_sample: Duration, hz: u64) -> f64 {
    per_sample.as_secs_f64() * hz as f64 * 100.0
}
