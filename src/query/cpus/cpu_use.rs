//! The CPU time behind the samples that are shown: how many CPUs they use, and in which mode.

use crate::panel::unit::cpus;

/// The distinguished modes of a CPU, in the order of [`CpuUse::modes`].
const MODES: [&str; 4] = ["user", "kernel", "softirq", "irq"];
/// A mode below this percentage is left out, except for user and kernel.
const LEAST: f64 = 0.5;

/// The CPU time of the samples that pass the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUse {
    /// CPUs that they keep busy on average.
    pub cpus: f64,
    /// CPUs that are sampled; 0 if unknown.
    pub sampled: usize,
    /// Percent of the time in user code, in the kernel, in softirqs and in interrupts.
    pub modes: [f64; 4],
    /// Whether percentages are of the machine rather than of what is shown.
    pub of_machine: bool,
}

impl CpuUse {
    /// Computes the use from `busy_ns` of CPU time within `window_ns`; `None` without a window.
    pub(crate) fn new(by_mode: [u64; 4], busy_ns: f64, window_ns: u64, sampled: usize) -> Option<Self> {
        if window_ns == 0 {
            return None;
        }
        let all = by_mode.iter().sum::<u64>().max(1) as f64;
        let modes = by_mode.map(|weight| 100.0 * weight as f64 / all);
        Some(Self { cpus: busy_ns / window_ns as f64, sampled, modes, of_machine: false })
    }

    /// Returns the factor from a share of what is shown to a share of the machine.
    fn machine_factor(&self) -> Option<f64> {
        (self.sampled > 0).then(|| self.cpus / self.sampled as f64)
    }

    /// Converts a share of what is shown, in percent, to the displayed one.
    pub fn displayed(&self, percent: f64) -> f64 {
        self.machine_factor().filter(|_| self.of_machine).map_or(percent, |factor| percent * factor)
    }

    /// Returns the percentage for the heat colour: of one CPU if less than one is busy, else of what is shown.
    pub(crate) fn heat(&self, displayed: f64) -> f64 {
        let shown = match self.machine_factor().filter(|factor| self.of_machine && *factor > 0.0) {
            Some(factor) => displayed / factor,
            None => displayed,
        };
        shown * self.cpus.min(1.0)
    }

    /// Describes the use in a long and a brief text.
    pub(crate) fn words(&self) -> [String; 2] {
        let of = match self.of_machine && self.sampled > 0 {
            true => format!(" of {}", self.sampled),
            false => String::new(),
        };
        let brief = format!("{}{of}", cpus(self.cpus));
        let modes = MODES.iter().zip(self.modes).enumerate();
        let modes = modes.filter(|(at, (_, share))| *at < 2 || *share >= LEAST);
        let modes: Vec<String> = modes.map(|(_, (mode, share))| format!("{mode} {share:.0} %")).collect();
        let long = if self.cpus > 0.0 { format!("{brief}: {}", modes.join(" ")) } else { brief.clone() };
        [long, brief]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn time_and_modes_are_told_in_words() {
        let used = CpuUse::new([62, 33, 5, 0], 9.1e9, 10 * SECOND, 2).expect("a window");
        assert_eq!(used.words(), ["0.91 CPU: user 62 % kernel 33 % softirq 5 %", "0.91 CPU"]);
        let of_machine = CpuUse { of_machine: true, ..used };
        assert_eq!(of_machine.words()[1], "0.91 CPU of 2");
        let idle = CpuUse::new([0; 4], 0.0, SECOND, 2).expect("a window");
        assert_eq!(idle.words(), ["0.00 CPU", "0.00 CPU"]);
        let little = CpuUse::new([1, 0, 0, 0], 1e6, SECOND, 0).expect("a window");
        assert_eq!(little.words()[0], "<0.01 CPU: user 100 % kernel 0 %");
        assert_eq!(CpuUse::new([1, 0, 0, 0], 1e6, 0, 2), None);
    }

    /// 45 % of a machine that is 1 % busy is not hot; 45 % of a busy one is.
    #[test]
    fn heat_goes_by_cpu_time() {
        let of = |cpus, of_machine| CpuUse { cpus, sampled: 2, modes: [100.0, 0.0, 0.0, 0.0], of_machine };
        assert_eq!(of(0.02, false).heat(45.0), 0.9);
        assert_eq!(of(1.5, false).heat(45.0), 45.0);
        assert_eq!((of(0.5, true).displayed(40.0), of(0.5, false).displayed(40.0)), (10.0, 40.0));
        assert_eq!(of(0.5, true).heat(10.0), of(0.5, false).heat(40.0));
        let unknown = CpuUse { sampled: 0, ..of(0.5, true) };
        assert_eq!((unknown.displayed(40.0), unknown.heat(40.0)), (40.0, 20.0));
    }
}
