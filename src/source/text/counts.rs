//! The counts after folded stacks: whole numbers, fractions, powers of ten; one per stack, or two as written by
//! FlameGraph's difffolded.pl. A line with another form than its file is skipped: flamegraph.pl takes two
//! numbers at the end of any line for two counts, difffolded.pl takes the first for a part of the name.

use std::str::FromStr;

use rustc_hash::FxHashSet;

use crate::kernel::attr::sample;
use crate::perfdata::{EventDesc, EventUnit};

/// The maximum number of significant digits of a count; further ones only affect its magnitude.
const MOST_DIGITS: u32 = 36;
/// The maximum sum of known counts when the decimals are chosen; the rest of the range is for later counts.
const MOST_SUM: f64 = 1e18;

/// A count: digits times a power of ten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    digits: u128,
    power: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) period: u64,
    /// Whether rounding changed the count by more than a millionth, or it exceeds the range of a period.
    pub(crate) is_inexact: bool,
}

impl Count {
    /// Parses `12`, `0.004`, `.5`, `1.5e-3`; returns `None` for other text, such as a negative number.
    pub(crate) fn parse(word: &[u8]) -> Option<Self> {
        let at = word.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(word.len());
        let (number, power) = word.split_at(at);
        let mut count = Self { digits: 0, power: if power.is_empty() { 0 } else { integer(&power[1..])? } };
        let mut taken = 0;
        let mut dot = false;
        let mut any = false;
        for byte in number.strip_prefix(b"+").unwrap_or(number) {
            match byte {
                b'0'..=b'9' if taken < MOST_DIGITS => {
                    count.digits = count.digits * 10 + u128::from(byte - b'0');
                    taken += u32::from(count.digits > 0);
                    count.power = count.power.saturating_sub(i32::from(dot));
                }
                b'0'..=b'9' => count.power = count.power.saturating_add(i32::from(!dot)),
                b'.' if !dot => dot = true,
                _ => return None,
            }
            any |= byte.is_ascii_digit();
        }
        while count.digits > 0 && count.digits.is_multiple_of(10) {
            (count.digits, count.power) = (count.digits / 10, count.power.saturating_add(1));
        }
        any.then_some(count)
    }

    fn decimals(&self) -> u8 {
        if self.digits == 0 { 0 } else { u8::try_from(-self.power.clamp(-255, 0)).unwrap_or(u8::MAX) }
    }

    fn value(&self) -> f64 {
        self.digits as f64 * 10f64.powi(self.power)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits == 0
    }

    /// Returns the count in units of 10^-`decimals`, rounded to the nearest and limited to the range of a period.
    pub(crate) fn period(&self, decimals: u8) -> Period {
        let shift = self.power.saturating_add(decimals.into());
        let by = 10u128.checked_pow(shift.unsigned_abs());
        if self.digits == 0 {
            return Period { period: 0, is_inexact: false };
        }
        if shift >= 0 {
            let exact = by.and_then(|by| self.digits.checked_mul(by)).and_then(|exact| u64::try_from(exact).ok());
            return Period { period: exact.unwrap_or(u64::MAX), is_inexact: exact.is_none() };
        }
        let Some(by) = by else { return Period { period: 0, is_inexact: true } };
        let (whole, rest) = (self.digits / by, self.digits % by);
        let up = rest >= by - rest;
        let lost = if up { by - rest } else { rest };
        let period = u64::try_from(whole + u128::from(up));
        let is_inexact = period.is_err() || lost.saturating_mul(1_000_000) > self.digits;
        Period { period: period.unwrap_or(u64::MAX), is_inexact }
    }
}

pub(super) fn integer<T: FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Returns the last word of a line, and the text before it.
fn last_word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_end();
    let at = line.iter().rposition(|b| matches!(b, b' ' | b'\t'))?;
    let before = line[..at].trim_ascii_end();
    (!before.is_empty()).then_some((before, &line[at + 1..]))
}

pub(crate) fn split(line: &[u8]) -> Option<(&[u8], Count)> {
    let (stack, word) = last_word(line)?;
    Some((stack, Count::parse(word)?))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountForm {
    /// Whether each stack has two counts.
    pub(crate) has_two: bool,
    pub(crate) decimals: u8,
    /// Whether the count of a line with a single number is never a fraction, in a file with one count for each stack.
    pub(crate) is_whole: bool,
}

/// The lines of a file by their last words, to find the form of its counts.
#[derive(Default)]
struct CountTally<'a> {
    /// Lines that end with one number, and with two.
    ones: u64,
    twos: u64,
    /// The stacks before two numbers, each once.
    stacks: FxHashSet<&'a [u8]>,
    is_deep: bool,
    /// The decimals and the sum of counts: of lines with one number, and of the first and the last of two.
    one: (u8, f64),
    first: (u8, f64),
    last: (u8, f64),
}

impl<'a> CountTally<'a> {
    fn add(&mut self, line: &'a [u8]) {
        let add = |to: &mut (u8, f64), count: Count| *to = (to.0.max(count.decimals()), to.1 + count.value());
        let Some((rest, last)) = split(line) else { return };
        match split(rest) {
            Some((stack, first)) => {
                self.twos += 1;
                self.is_deep |= stack.contains(&b';');
                self.stacks.insert(stack);
                add(&mut self.first, first);
                add(&mut self.last, last);
            }
            None => {
                self.ones += 1;
                add(&mut self.one, last);
            }
        }
    }

    /// Returns whether stacks have two counts: nearly all lines end with two numbers, and these do not only distinguish
    /// functions of one name, as in `pool;worker 1 5`.
    fn has_two(&self) -> bool {
        self.is_deep && self.twos >= 3 * self.ones && 2 * self.stacks.len() as u64 > self.twos
    }
}

impl CountForm {
    /// Returns the form of some lines. A function's name may end with a number.
    pub(crate) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut tally = CountTally::default();
        lines.for_each(|line| tally.add(line));
        let has_two = tally.has_two();
        let is_whole = !has_two && tally.ones > 0 && tally.one.0 == 0;
        let counts = match (has_two, is_whole) {
            (true, _) => &[tally.first, tally.last][..],
            (false, true) => &[tally.one],
            (false, false) => &[tally.one, tally.last],
        };
        let sum: f64 = counts.iter().map(|(_, sum)| sum).sum();
        let mut decimals =
            counts.iter().map(|(decimals, _)| *decimals).max().unwrap_or(0).min(EventUnit::MOST_DECIMALS);
        while decimals > 0 && sum * 10f64.powi(decimals.into()) > MOST_SUM {
            decimals -= 1;
        }
        Self { has_two, decimals, is_whole }
    }

    /// Splits a line into its stack and its counts: one if the file has one per stack. `None` if it has another form.
    pub(crate) fn split(self, line: &[u8]) -> Option<(&[u8], Vec<Count>)> {
        let (rest, last) = split(line)?;
        let before = split(rest);
        if self.has_two {
            return before.map(|(stack, first)| (stack, vec![first, last]));
        }
        let is_odd = self.is_whole && before.is_some() && last.decimals() > 0;
        (!is_odd).then(|| (rest, vec![last]))
    }

    pub(crate) fn events(self, has_times: bool) -> Vec<EventDesc> {
        let names: &[&str] = if self.has_two { &["old", "new"] } else { &["samples"] };
        let one = |name: &&str| {
            let event = EventDesc::folded(name, self.decimals);
            // The number of samples in a count is unknown: counts may be microseconds.
            let mut event = if has_times { event } else { event.of_sums(0) };
            event.attr.sample_type = sample::CALLCHAIN | if has_times { sample::TIME } else { 0 };
            event
        };
        names.iter().map(one).collect()
    }

    pub(crate) fn words(self) -> String {
        let mut words = String::from("folded stacks: the counts in the file are the periods here");
        if self.has_two {
            words += "; the first of each line belongs to the event old, the second to new";
        } else {
            words += ", and each line is one sample";
        }
        if self.decimals > 0 {
            words += &format!("; a period of 1 is a count of 10^-{}", self.decimals);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(word: &str) -> Option<f64> {
        Count::parse(word.as_bytes()).map(|count| count.value())
    }

    #[test]
    fn numbers_as_writers_have_them() {
        for (word, want) in [
            ("12", 12.0),
            ("0.004", 0.004),
            (".5", 0.5),
            ("5.", 5.0),
            ("+7", 7.0),
            ("1e3", 1000.0),
            ("1.5E-3", 0.0015),
            ("2e+02", 200.0),
            ("0", 0.0),
            ("000.100", 0.1),
        ] {
            let got = count(word).unwrap_or_else(|| panic!("{word}"));
            assert!((got - want).abs() < 1e-12 * want.max(1.0), "{word}: {got}");
        }
        for word in ["", "-1", ".", "e5", "1e", "1.2.3", "inf", "NaN", "0x10", "1_000", "1,5", "12a", "+"] {
            assert_eq!(count(word), None, "{word:?}");
        }
    }

    #[test]
    fn periods_are_exact_or_say_so() {
        let period = |word: &str, decimals| {
            let Period { period, is_inexact } = Count::parse(word.as_bytes()).expect("a count").period(decimals);
            (period, is_inexact)
        };
        assert_eq!((period("0.004", 3), period("0.0041", 3), period("1.6", 0)), ((4, false), (4, true), (2, true)));
        assert_eq!((period("12", 3), period("1e3", 0), period("0", 9)), ((12_000, false), (1000, false), (0, false)));
        assert_eq!(period("18446744073709551615", 0), (u64::MAX, false));
        assert_eq!((period("18446744073709551616", 0), period("1e300", 0)), ((u64::MAX, true), (u64::MAX, true)));
        assert_eq!((period("1e-300", 12), period("1e2147483647", 12)), ((0, true), (u64::MAX, true)));
        // Digits beyond the precision of any writer do not count as inexact.
        assert_eq!(period("33.333333333333336", 12), (33_333_333_333_333, false));
        let long = "9".repeat(300);
        assert_eq!((period(&long, 0), period(&format!("0.{long}"), 3)), ((u64::MAX, true), (1000, false)));
    }

    fn form(lines: &[&str]) -> (bool, u8) {
        let form = CountForm::of(lines.iter().map(|line| line.as_bytes()));
        (form.has_two, form.decimals)
    }

    #[test]
    fn a_files_lines_say_how_it_counts() {
        assert_eq!(form(&["a;b 1", "a;c 2"]), (false, 0));
        assert_eq!(form(&["a;b 0.4", "a;c 2.5", "a;d 1e-3"]), (false, 3));
        assert_eq!(form(&["a;b 10 12", "a;c 0 3\r", "a;b\t1\t2  "]), (true, 0));
        assert_eq!(form(&["a;b 0.5 12.25"]), (true, 2));
        // Numbers at the end of names are not counts.
        assert_eq!(form(&["main;worker 1 5", "main;idle 7"]), (false, 0));
        assert_eq!(form(&["worker 1 5", "worker 2 7"]), (false, 0));
        assert_eq!(form(&[]), (false, 0));
        // Large counts leave less room for decimals.
        assert_eq!(form(&["a;b 1000000000000000.001"]), (false, 3));
        assert_eq!(form(&["a;b 1000000000000000000.001"]), (false, 0));
        // Names may end with versions.
        assert_eq!(form(&["app;ruby 2.75 5", "app;main 7"]), (false, 0));
    }

    #[test]
    fn a_line_of_another_form_is_no_stack() {
        let read = |lines: &[&'static str]| {
            let form = CountForm::of(lines.iter().map(|line| line.as_bytes()));
            let of = |line: &&'static str| form.split(line.as_bytes()).map(|(_, counts)| counts.len());
            (form.has_two, form.decimals, lines.iter().map(of).collect::<Vec<_>>())
        };
        let odd = ["a;b 3", "a;b 3 1.5", "a;c 4", "d 1"];
        assert_eq!(read(&odd), (false, 0, vec![Some(1), None, Some(1), Some(1)]));
        assert_eq!(read(&["a;b 0.3", "a;b 3 1.5"]), (false, 1, vec![Some(1); 2]), "fractions are usual here");
        assert_eq!(read(&["a;b 3", "a;worker 7 1", "a;c 4"]), (false, 0, vec![Some(1); 3]), "a name with a number");
        let single = ["a;b 3 1", "a;c 4 6", "a;d 7", "d 1 2"];
        assert_eq!(read(&single), (true, 0, vec![Some(2), Some(2), None, Some(2)]));
        let workers = ["pool;worker 1 5", "pool;worker 2 7", "pool;worker 3 9"];
        assert_eq!(read(&workers), (false, 0, vec![Some(1); 3]));
    }

    #[test]
    fn lines_are_split_at_blanks_and_tabs() {
        let one = CountForm::default();
        let stack =
            |line: &'static str| one.split(line.as_bytes()).map(|(stack, _)| std::str::from_utf8(stack).expect("text"));
        assert_eq!(stack("a;b c 12"), Some("a;b c"));
        assert_eq!(stack("a;b\t12 \r"), Some("a;b"));
        assert_eq!([stack("12"), stack("a;b"), stack(" 7"), stack("a -1")], [None; 4]);
        let two = CountForm { has_two: true, ..one };
        assert_eq!(two.split(b"a;b 10 12").map(|(stack, counts)| (stack, counts.len())), Some((&b"a;b"[..], 2)));
        assert_eq!(two.split(b"a;b 10"), None);
    }
}
