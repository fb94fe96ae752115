//! Numbers with units, of stable width.

pub use crate::lang::thousands;

/// Scales a value to the first unit, each 1000 times the previous one, in which it has up to three digits, or the last.
fn scaled<'a>(mut value: f64, units: &[&'a str]) -> (f64, &'a str) {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    (value, units[unit])
}

/// Formats `12.3 M`: a large number in few cells.
pub fn short(value: f64) -> String {
    match scaled(value, &["", " k", " M", " G", " T", " P"]) {
        (value, "") => format!("{value:.0}"),
        (value, unit) => format!("{value:.1}{unit}"),
    }
}

/// Formats `43.0 %` with one decimal. Positive values that round to zero are `<0.1 %`.
pub fn percent(value: f64) -> String {
    match value {
        v if v > 0.0 && v < 0.05 => "<0.1 %".to_owned(),
        // The sum of no shares is -0.0.
        v if v.abs() < 0.05 => "0.0 %".to_owned(),
        v => format!("{v:.1} %"),
    }
}

/// Formats an amount of CPU time per time, `0.91 CPU`, with two decimals. Positive values that round to zero are
/// `<0.01 CPU`.
pub fn cpus(busy: f64) -> String {
    if busy > 0.0 && busy < 0.005 { "<0.01 CPU".to_owned() } else { format!("{busy:.2} CPU") }
}

/// Formats nanoseconds to three digits: `850 ns`, `12.3 µs`, `4.56 s`.
pub fn duration(ns: u64) -> String {
    match scaled(ns as f64, &["ns", "µs", "ms", "s"]) {
        (_, "ns") => format!("{ns} ns"),
        (v, unit) if v < 9.995 => format!("{v:.2} {unit}"),
        (v, unit) if v < 99.95 => format!("{v:.1} {unit}"),
        (v, unit) => format!("{v:.0} {unit}"),
    }
}

/// Formats a point in time in seconds: `12.345678`.
pub fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

/// Formats `00:42` or `1:02:03`.
pub fn clock(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if h > 0 { format!("{h}:{m:02}:{s:02}") } else { format!("{m:02}:{s:02}") }
}

/// Formats decimal `12.3 MB`.
pub fn bytes(n: u64) -> String {
    match scaled(n as f64, &["B", "kB", "MB", "GB", "TB"]) {
        (_, "B") => format!("{n} B"),
        (value, unit) => format!("{value:.1} {unit}"),
    }
}

/// Formats a number with all its digits in the largest of some units, each 1000 times the previous one: `1.05 kB`.
pub(crate) fn exact(value: u64, units: &[&str]) -> String {
    let (mut power, mut at) = (1u64, 0);
    while value / power >= 1000 && at + 1 < units.len() {
        (power, at) = (power * 1000, at + 1);
    }
    let fraction = format!("{:0digits$}", value % power, digits = 3 * at);
    match fraction.trim_end_matches('0') {
        "" => format!("{}{}", thousands(value / power), units[at]),
        fraction => format!("{}.{fraction}{}", thousands(value / power), units[at]),
    }
}

/// Formats a power of two in the largest of some units, each 1024 times the previous one: `4 KiB`.
pub(crate) fn binary(value: u64, units: &[&str]) -> String {
    // The largest number stands for the bound after it.
    let mut value = if value == u64::MAX { 1 << 64 } else { u128::from(value) };
    let mut at = 0;
    while value >= 1024 && value % 1024 == 0 && at + 1 < units.len() {
        (value, at) = (value / 1024, at + 1);
    }
    format!("{value}{}", units[at])
}

/// Whether three digits, as [`duration`] writes them, are the whole number.
pub(crate) fn has_three_digits(value: u64) -> bool {
    let digits = value.checked_ilog10().map_or(1, |log| log + 1);
    value.is_multiple_of(10u64.pow(digits.saturating_sub(3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unit() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(
            (percent(0.0), percent(0.01), percent(43.04), percent(100.0)),
            ("0.0 %".into(), "<0.1 %".into(), "43.0 %".into(), "100.0 %".into())
        );
        assert_eq!([0.0, 0.004, 0.005, 1.5].map(cpus), ["0.00 CPU", "<0.01 CPU", "0.01 CPU", "1.50 CPU"]);
        assert_eq!((percent(-0.0), percent(-0.1)), ("0.0 %".into(), "-0.1 %".into()));
        assert_eq!((clock(42_900_000_000), clock(3_723_000_000_000)), ("00:42".into(), "1:02:03".into()));
        let durations = [850, 12_340, 999_600, 4_560_000_000, 75_000_000_000].map(duration);
        assert_eq!(durations, ["850 ns", "12.3 µs", "1.00 ms", "4.56 s", "75.0 s"]);
        assert_eq!((short(999.0), short(133_200_000.0)), ("999".into(), "133.2 M".into()));
        assert_eq!((bytes(12), bytes(1_360_000)), ("12 B".into(), "1.4 MB".into()));
    }
}
