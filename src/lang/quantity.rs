//! Quantities as typed: `250ms`, `64KiB`, `99Hz`, `12.5%`, `50k`. One table of units, and its parser.

use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dimension {
    /// In nanoseconds.
    Time,
    /// In bytes.
    Size,
    Count,
    /// In Hz.
    Rate,
    /// In percent.
    Share,
}

/// The units and their factors. A single letter is binary in sizes, like in perf's `-m` and `--max-size`, and decimal
/// in counts; with a B, units are those on the screen: kB decimal, KiB binary.
pub(crate) const UNITS: &[(&str, Dimension, u64)] = &[
    ("ns", Dimension::Time, 1),
    ("us", Dimension::Time, 1_000),
    ("µs", Dimension::Time, 1_000),
    ("μs", Dimension::Time, 1_000),
    ("ms", Dimension::Time, 1_000_000),
    ("s", Dimension::Time, SECOND),
    ("m", Dimension::Time, 60 * SECOND),
    ("min", Dimension::Time, 60 * SECOND),
    ("h", Dimension::Time, 3600 * SECOND),
    ("d", Dimension::Time, 86_400 * SECOND),
    ("k", Dimension::Count, 1_000),
    ("K", Dimension::Count, 1_000),
    ("M", Dimension::Count, 1_000_000),
    ("G", Dimension::Count, 1_000_000_000),
    ("T", Dimension::Count, 1_000_000_000_000),
    ("B", Dimension::Size, 1),
    ("kB", Dimension::Size, 1_000),
    ("MB", Dimension::Size, 1_000_000),
    ("GB", Dimension::Size, 1_000_000_000),
    ("TB", Dimension::Size, 1_000_000_000_000),
    ("KiB", Dimension::Size, 1 << 10),
    ("MiB", Dimension::Size, 1 << 20),
    ("GiB", Dimension::Size, 1 << 30),
    ("TiB", Dimension::Size, 1 << 40),
    ("K", Dimension::Size, 1 << 10),
    ("M", Dimension::Size, 1 << 20),
    ("G", Dimension::Size, 1 << 30),
    ("T", Dimension::Size, 1 << 40),
    ("Ki", Dimension::Size, 1 << 10),
    ("Mi", Dimension::Size, 1 << 20),
    ("Gi", Dimension::Size, 1 << 30),
    ("Ti", Dimension::Size, 1 << 40),
    ("Hz", Dimension::Rate, 1),
    ("kHz", Dimension::Rate, 1_000),
    ("MHz", Dimension::Rate, 1_000_000),
    ("%", Dimension::Share, 1),
];

/// Nanoseconds per second, the default unit of times.
pub(crate) const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    #[error("expected {}", .0.example())]
    NoNumber(Dimension),
    #[error("{unit} is not a unit of {}; available: {}", .of.name(), units(*.of))]
    NoUnit { of: Dimension, unit: String },
    #[error("the number is too large")]
    TooLarge,
}

impl Dimension {
    fn example(self) -> &'static str {
        match self {
            Self::Time => "a time, such as 250ms, 2s or 10m",
            Self::Size => "a size, such as 512K or 64MiB",
            Self::Count => "a number, such as 100 or 50k",
            Self::Rate => "a rate, such as 99 or 4kHz",
            Self::Share => "a percentage, such as 0.5 or 10%",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Size => "size",
            Self::Count => "a number",
            Self::Rate => "a rate",
            Self::Share => "a share",
        }
    }

    /// Returns whether quantities accept the units of another dimension. Rates accept those of counts.
    fn takes(self, unit: Self) -> bool {
        self == unit || self == Self::Rate && unit == Self::Count
    }
}

fn units(of: Dimension) -> String {
    let mut names: Vec<&str> = UNITS.iter().filter(|row| of.takes(row.1)).map(|row| row.0).collect();
    names.retain(|name| !matches!(*name, "μs" | "min" | "Ki" | "Mi" | "Gi" | "Ti"));
    names.join(" ")
}

/// Returns the factor of a unit. Units of sizes are case-insensitive, because they do not differ only in case.
fn factor(unit: &str, of: Dimension) -> Option<u64> {
    let is = |name: &str| name == unit || of == Dimension::Size && name.eq_ignore_ascii_case(unit);
    UNITS.iter().find(|row| of.takes(row.1) && is(row.0)).map(|row| row.2)
}

/// A number in an expression, multiplied by its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Int(i128),
    Float(f64),
}

/// An exact decimal number as typed: digits times a power of ten.
#[derive(Clone, Copy)]
struct Decimal {
    digits: i128,
    power: i32,
}

/// Limits of fraction digits and of the power of ten; more digits are ignored.
const MAX_FRACTION: usize = 18;
const MAX_POWER: i32 = 36;

impl Decimal {
    /// Parses `12`, `-1.5`, `1_000`, `0x1f`, `2.5e3`, and returns the rest of the text. `None` if no number begins it.
    fn read(text: &str) -> Option<(Self, &str)> {
        let (unsigned, sign) = match text.strip_prefix('-') {
            Some(rest) => (rest, -1),
            None => (text.strip_prefix('+').unwrap_or(text), 1),
        };
        if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
            let end = hex.find(|c: char| !c.is_ascii_hexdigit() && c != '_').unwrap_or(hex.len());
            let digits = u64::from_str_radix(&hex[..end].replace('_', ""), 16).ok()?;
            return Some((Self { digits: sign * i128::from(digits), power: 0 }, &hex[end..]));
        }
        let run = |text: &str| text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
        let (whole, rest) = unsigned.split_at(run(unsigned));
        let (fraction, rest) = match rest.strip_prefix('.') {
            Some(after) => after.split_at(run(after)),
            None => ("", rest),
        };
        let digit = |text: &str| text.contains(|c: char| c.is_ascii_digit());
        if !digit(whole) && !digit(fraction) || whole.starts_with('_') {
            return None;
        }
        let fraction: String = fraction.chars().filter(char::is_ascii_digit).take(MAX_FRACTION).collect();
        let digits: String = whole.chars().filter(char::is_ascii_digit).chain(fraction.chars()).collect();
        let exponent = rest.strip_prefix(['e', 'E']).and_then(|after| {
            let signed = usize::from(after.starts_with(['-', '+']));
            let end = after[signed..].find(|c: char| !c.is_ascii_digit()).map_or(after.len(), |n| signed + n);
            Some((after[..end].parse::<i32>().ok()?, &after[end..]))
        });
        let (power, rest) = exponent.unwrap_or((0, rest));
        let power = power.checked_sub(fraction.len() as i32)?;
        Some((Self { digits: sign * digits.parse::<i128>().ok()?, power }, rest))
    }

    /// Multiplies by a factor and rounds; also returns whether the result is exact. `None` if it is too large.
    fn times(self, factor: u64) -> Option<(i128, bool)> {
        let digits = self.digits.checked_mul(i128::from(factor))?;
        if digits == 0 || self.power < -MAX_POWER {
            return Some((0, digits == 0));
        }
        let ten = 10i128.pow(self.power.unsigned_abs().min(MAX_POWER as u32));
        if self.power >= 0 {
            return (self.power <= MAX_POWER).then(|| digits.checked_mul(ten))?.map(|n| (n, true));
        }
        let (cut, lost) = (digits / ten, digits % ten);
        let up = if lost.abs() * 2 >= ten { lost.signum() } else { 0 };
        Some((cut + up, lost == 0))
    }

    fn float(self, factor: u64) -> f64 {
        self.digits as f64 * factor as f64 * 10f64.powi(self.power)
    }
}

fn split(text: &str, of: Dimension, bare: u64) -> Result<(Decimal, u64), QuantityError> {
    let (number, unit) = Decimal::read(text.trim()).ok_or(QuantityError::NoNumber(of))?;
    match unit.trim_start() {
        "" => Ok((number, bare)),
        unit => factor(unit, of)
            .map(|factor| (number, factor))
            .ok_or_else(|| QuantityError::NoUnit { of, unit: unit.to_owned() }),
    }
}

/// Parses a quantity that may be fractional or negative. The factor without a unit is `bare`.
fn fraction(text: &str, of: Dimension, bare: u64) -> Result<f64, QuantityError> {
    let (number, factor) = split(text, of, bare)?;
    Some(number.float(factor)).filter(|value| value.is_finite()).ok_or(QuantityError::TooLarge)
}

/// Parses an integer quantity. Times and sizes are rounded to nanoseconds and bytes; fractional counts are rejected.
fn whole(text: &str, of: Dimension, bare: u64) -> Result<u64, QuantityError> {
    let (number, factor) = split(text, of, bare)?;
    if number.digits < 0 {
        return Err(QuantityError::NoNumber(of));
    }
    let (value, exact) = number.times(factor).ok_or(QuantityError::TooLarge)?;
    if !exact && !matches!(of, Dimension::Time | Dimension::Size) {
        return Err(QuantityError::NoNumber(of));
    }
    u64::try_from(value).map_err(|_| QuantityError::TooLarge)
}

/// Parses a time to nanoseconds; the default unit is seconds.
pub(crate) fn time(text: &str) -> Result<u64, QuantityError> {
    whole(text, Dimension::Time, SECOND)
}

/// Parses a time to nanoseconds; `bare` is the default unit in nanoseconds.
pub(crate) fn time_by(text: &str, bare: u64) -> Result<u64, QuantityError> {
    whole(text, Dimension::Time, bare)
}

/// Parses a time; the default unit is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, QuantityError> {
    time(text).map(Duration::from_nanos)
}

/// Parses a time; the default unit is milliseconds, as in perf's `-D` and `-I`.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, QuantityError> {
    whole(text, Dimension::Time, 1_000_000).map(Duration::from_nanos)
}

pub(crate) fn size<N: TryFrom<u64>>(text: &str) -> Result<N, QuantityError> {
    whole(text, Dimension::Size, 1).and_then(|n| N::try_from(n).map_err(|_| QuantityError::TooLarge))
}

pub(crate) fn count<N: TryFrom<u64>>(text: &str) -> Result<N, QuantityError> {
    whole(text, Dimension::Count, 1).and_then(|n| N::try_from(n).map_err(|_| QuantityError::TooLarge))
}

pub(crate) fn hertz(text: &str) -> Result<u64, QuantityError> {
    whole(text, Dimension::Rate, 1)
}

/// Parses a percentage, with or without a percent sign.
pub(crate) fn share(text: &str) -> Result<f64, QuantityError> {
    fraction(text, Dimension::Share, 1)
}

pub(crate) fn number(text: &str) -> Result<f64, QuantityError> {
    fraction(text, Dimension::Count, 1)
}

/// Parses a number whose unit gives the dimension: nanoseconds for times, bytes for sizes, counts for single letters.
pub(crate) fn literal(text: &str) -> Result<Number, QuantityError> {
    let (number, unit) = Decimal::read(text).ok_or(QuantityError::NoNumber(Dimension::Count))?;
    if unit.is_empty() && number.power < 0 {
        return Ok(Number::Float(number.float(1)));
    }
    let is =
        |name: &str, of| name == unit || of == Dimension::Size && unit.len() > 1 && name.eq_ignore_ascii_case(unit);
    let factor = match unit {
        "" => 1,
        unit => {
            UNITS
                .iter()
                .find(|row| is(row.0, row.1))
                .ok_or_else(|| QuantityError::NoUnit { of: Dimension::Count, unit: unit.to_owned() })?
                .2
        }
    };
    let fits = number.digits.unsigned_abs() <= u128::from(u64::MAX);
    number.times(factor).filter(|_| fits).map(|(value, _)| Number::Int(value)).ok_or(QuantityError::TooLarge)
}

/// The units that may follow the number of a [`literal`].
pub(crate) const LITERAL_UNITS: &str = "ns us ms s m h d, k M G, kB MB GB, KiB MiB GiB";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The value of each unit as a time, a size, a count, a rate and in an expression.
    #[test]
    fn each_unit_is_one_thing_everywhere() {
        let mut seen = std::collections::BTreeSet::new();
        for (unit, as_time, as_size, as_count, as_rate, alone) in [
            ("ns", Some(2), None, None, None, Some(2)),
            ("us", Some(2_000), None, None, None, Some(2_000)),
            ("µs", Some(2_000), None, None, None, Some(2_000)),
            ("μs", Some(2_000), None, None, None, Some(2_000)),
            ("ms", Some(2_000_000), None, None, None, Some(2_000_000)),
            ("s", Some(2 * SECOND), None, None, None, Some(2 * SECOND)),
            ("m", Some(120 * SECOND), Some(2 << 20), None, None, Some(120 * SECOND)),
            ("min", Some(120 * SECOND), None, None, None, Some(120 * SECOND)),
            ("h", Some(7200 * SECOND), None, None, None, Some(7200 * SECOND)),
            ("d", Some(172_800 * SECOND), None, None, None, Some(172_800 * SECOND)),
            ("k", None, Some(2 << 10), Some(2_000), Some(2_000), Some(2_000)),
            ("K", None, Some(2 << 10), Some(2_000), Some(2_000), Some(2_000)),
            ("M", None, Some(2 << 20), Some(2_000_000), Some(2_000_000), Some(2_000_000)),
            ("G", None, Some(2 << 30), Some(2_000_000_000), Some(2_000_000_000), Some(2_000_000_000)),
            ("T", None, Some(2 << 40), Some(2_000 * SECOND), Some(2_000 * SECOND), Some(2_000 * SECOND)),
            ("B", None, Some(2), None, None, Some(2)),
            ("kB", None, Some(2_000), None, None, Some(2_000)),
            ("KB", None, Some(2_000), None, None, Some(2_000)),
            ("MB", None, Some(2_000_000), None, None, Some(2_000_000)),
            ("GB", None, Some(2_000_000_000), None, None, Some(2_000_000_000)),
            ("TB", None, Some(2_000 * SECOND), None, None, Some(2_000 * SECOND)),
            ("KiB", None, Some(2 << 10), None, None, Some(2 << 10)),
            ("MiB", None, Some(2 << 20), None, None, Some(2 << 20)),
            ("GiB", None, Some(2 << 30), None, None, Some(2 << 30)),
            ("TiB", None, Some(2 << 40), None, None, Some(2 << 40)),
            ("gib", None, Some(2 << 30), None, None, Some(2 << 30)),
            ("Ki", None, Some(2 << 10), None, None, Some(2 << 10)),
            ("Mi", None, Some(2 << 20), None, None, Some(2 << 20)),
            ("Gi", None, Some(2 << 30), None, None, Some(2 << 30)),
            ("Ti", None, Some(2 << 40), None, None, Some(2 << 40)),
            ("Hz", None, None, None, Some(2), Some(2)),
            ("kHz", None, None, None, Some(2_000), Some(2_000)),
            ("MHz", None, None, None, Some(2_000_000), Some(2_000_000)),
            ("%", None, None, None, None, Some(2)),
            ("x", None, None, None, None, None),
            ("sec", None, None, None, None, None),
            ("", Some(2 * SECOND), Some(2), Some(2), Some(2), Some(2)),
        ] {
            seen.insert(unit);
            for text in [format!("2{unit}"), format!("2.0{unit}"), format!(" 2 {unit} ")] {
                let got = (time(&text).ok(), size::<u64>(&text).ok(), count::<u64>(&text).ok(), hertz(&text).ok());
                assert_eq!(got, (as_time, as_size, as_count, as_rate), "{text}");
            }
            let want = alone.map(|n: u64| Number::Int(n.into()));
            assert_eq!(literal(&format!("2{unit}")).ok(), want, "{unit}");
        }
        let missing: Vec<_> = UNITS.iter().filter(|row| !seen.contains(row.0)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn numbers_as_they_are_typed() {
        for (text, ns) in [
            ("1.5", 1_500_000_000),
            ("+.25s", 250_000_000),
            ("5.", 5_000_000_000),
            ("1e-3", 1_000_000),
            ("2.5E3ms", 2_500_000_000),
            ("1_000us", 1_000_000),
            ("0.0000000016s", 2),
            ("1234567.000000001", 1_234_567_000_000_001),
            ("0x10ns", 16),
            ("-0", 0),
            ("0e99", 0),
        ] {
            assert_eq!(time(text), Ok(ns), "{text}");
        }
        for text in ["", " ", "s", "-1", "x", "inf", "NaN", "_1", ".", "-", "--1", "1 2", "1,5", "0x", "1.2.3", "1e99"]
        {
            assert!(time(text).is_err() && size::<u64>(text).is_err() && count::<u64>(text).is_err(), "{text}");
        }
        assert_eq!(
            (count::<u64>("1.5k"), count::<u64>("1.5"), count::<u64>("0x1F")),
            (Ok(1500), Err(QuantityError::NoNumber(Dimension::Count)), Ok(31))
        );
        assert_eq!(
            (size::<u64>("1.5KiB"), size::<u64>("0.3"), size::<u64>("12.3 MB")),
            (Ok(1536), Ok(0), Ok(12_300_000))
        );
        assert_eq!((share("12.5%"), share(" 7 % "), share("7")), (Ok(12.5), Ok(7.0), Ok(7.0)));
        assert_eq!((number("-2.5k"), number("1e400").is_err()), (Ok(-2500.0), true));
        assert_eq!(
            (count::<u64>("18446744073709551615"), count::<u64>("18446744073709551616")),
            (Ok(u64::MAX), Err(QuantityError::TooLarge))
        );
        assert_eq!(
            (milliseconds("20"), milliseconds("2s")),
            (Ok(Duration::from_millis(20)), Ok(Duration::from_secs(2)))
        );
        assert_eq!((time_by("7", 1), time_by("7us", 1)), (Ok(7), Ok(7000)));
        assert_eq!((literal("1.5"), literal("1.5ms")), (Ok(Number::Float(1.5)), Ok(Number::Int(1_500_000))));
    }

    #[test]
    fn what_is_wrong_says_what_would_do() {
        for (wrong, words) in [
            (time("soon"), "expected a time, such as 250ms, 2s or 10m"),
            (time("2sec"), "sec is not a unit of time; available: ns us µs ms s m h d"),
            (size::<u64>("1Q"), "Q is not a unit of size; available: B kB MB GB TB KiB MiB GiB TiB K M G T"),
            (hertz("9s"), "s is not a unit of a rate; available: k K M G T Hz kHz MHz"),
            (time("1e30"), "the number is too large"),
        ] {
            let text = wrong.expect_err(words).to_string();
            assert!(text.contains(words), "{text}");
        }
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn no_text_panics(text in "[-+0-9._eExXa-fnumshdkKMGTiBHz% µ]{0,24}|\\PC{0,16}") {
            let _ = (time(&text), size::<u64>(&text), count::<u64>(&text), hertz(&text), share(&text), number(&text), literal(&text));
        }

        /// A quantity in the smallest unit equals a fraction of a larger unit.
        #[test]
        fn printing_and_reading_agree(n in 0u64..1 << 53, row in 0..UNITS.len()) {
            let (unit, of, factor) = UNITS[row];
            prop_assume!(of != Dimension::Share);
            let text = format!("{}.{:03}{unit}", n / 1000, n % 1000);
            let want = (u128::from(n) * u128::from(factor) + 500) / 1000;
            let got = whole(&text, of, 1);
            if n % 1000 == 0 || u128::from(n) * u128::from(factor) % 1000 == 0 || matches!(of, Dimension::Time | Dimension::Size) {
                prop_assert_eq!(got.ok(), u64::try_from(want).ok(), "{}", text);
            } else {
                prop_assert!(got.is_err(), "{}", text);
            }
        }
    }
}
