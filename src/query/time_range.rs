//! Parser of time ranges. It is the only parser of points in time, as opposed to durations.
//!
//! A range is `FROM,UNTIL` with an optional FROM or UNTIL, `FROM-UNTIL`, `FROM..UNTIL`, or a single moment, which
//! covers the unit of its last digit: `14:03` is that minute, `5` the second that begins at 5 s. A moment is
//! * a number of seconds on the caller's clock, or with a unit: `5`, `1.5`, `250ms`, `2min`;
//! * a time before the end: `-30s`, `-2m`; alone it extends to the end;
//! * a wall-clock time of day: `14:03`, `14:03:22.5`;
//! * a date, or a date with a time of day, with or without an offset from UTC: `2026-11-26T14:03:22Z`;
//! * `start`, `end` or `now`.
//!
//! Shares of the total have the syntax of perf's `--time` (perf-report(1)): `10%-20%`, `10%/2`, several with commas.

use jiff::civil::{DateTime, Time};
use jiff::tz::TimeZone;

use crate::lang::quantity::{self, SECOND};

const DAY: i64 = 86_400;
/// An end without a date may be this many seconds after the newest sample.
const AHEAD: i64 = DAY / 2;
/// The largest offset of a zone from UTC, in seconds.
const MAX_OFFSET: i64 = 14 * 3600;

/// The reason why a text is not a time range.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RangeError {
    /// A text with another syntax.
    #[error("expected FROM,UNTIL as 5,10 (seconds), -30s,-20s (before the end), 14:03,14:05 or 10%-20%")]
    NoRange,
    /// An end before its beginning.
    #[error("the range ends before it begins")]
    Reversed,
    /// A time of day that cannot be converted to the samples' clock.
    #[error("the recording does not contain the time of day; use seconds from its start, or -30s,-20s")]
    NoTimeOfDay,
    /// A time outside of the representable range.
    #[error("the time is out of range")]
    TooFar,
}

/// The clock that moments are resolved on.
#[derive(Clone, Copy, Debug)]
pub struct RangeClock {
    /// The time of the first sample, in nanoseconds.
    pub first: u64,
    /// The time of the last sample, or now.
    pub last: u64,
    /// Nanoseconds since 1970 at the clock's zero, if known.
    pub wall: Option<i64>,
    /// Converts seconds since 1970 to the local time of day.
    pub local: fn(i64) -> Option<DateTime>,
}

impl RangeClock {
    /// Creates a timeline in this process's time zone. `wall` is nanoseconds since 1970 at the clock's time `at`, or 0.
    pub fn new((first, last): (u64, u64), wall: u64, at: u64) -> Self {
        let zero = i128::from(wall) - i128::from(at);
        let wall = i64::try_from(zero).ok().filter(|_| wall > 0);
        Self { first, last, wall, local: crate::kernel::local_time }
    }

    /// Returns the last sample's wall-clock second since 1970.
    fn last_second(&self) -> Result<i64, RangeError> {
        let wall = self.wall.ok_or(RangeError::NoTimeOfDay)?;
        i64::try_from((i128::from(wall) + i128::from(self.last)).div_euclid(i128::from(SECOND)))
            .map_err(|_| RangeError::TooFar)
    }

    /// Returns the second since 1970 of a local date and time.
    fn second(&self, date: DateTime, offset: Option<i64>) -> Result<i64, RangeError> {
        let as_utc = |date: DateTime| TimeZone::UTC.to_timestamp(date).map(|time| time.as_second()).ok();
        let typed = as_utc(date).ok_or(RangeError::TooFar)?;
        if let Some(offset) = offset {
            return typed.checked_sub(offset).ok_or(RangeError::TooFar);
        }
        // The zone's offset may differ between the guess and the actual time.
        let mut guess = typed;
        for _ in 0..2 {
            let shown = (self.local)(guess).and_then(as_utc).ok_or(RangeError::TooFar)?;
            guess = typed.checked_add(guess - shown).ok_or(RangeError::TooFar)?;
        }
        Ok(guess)
    }

    /// Converts a second since 1970 and its nanoseconds to the clock.
    fn on_clock(&self, second: i64, ns: i32) -> Result<i128, RangeError> {
        let wall = self.wall.ok_or(RangeError::NoTimeOfDay)?;
        Ok(i128::from(second) * i128::from(SECOND) + i128::from(ns) - i128::from(wall))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    First,
    Last,
    /// Nanoseconds on the clock.
    At(u64),
    /// Nanoseconds before the last sample.
    BeforeEnd(u64),
    /// A time of day, whose day is determined later. With its zone's offset in seconds, if typed.
    Daily(Time, Option<i64>),
    Dated(DateTime, Option<i64>),
    /// Percent of the time from the first to the last sample.
    Share(f64),
}

/// A time range as typed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeRange {
    /// `None` if the beginning is omitted.
    from: Option<Moment>,
    until: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Open,
    At(Moment),
    /// Nanoseconds after the beginning.
    After(u64),
}

impl TimeRange {
    /// Parses ranges; only shares may be a list.
    pub fn parse(text: &str) -> Result<Vec<Self>, RangeError> {
        let text = text.trim();
        if text.contains('%') {
            return text.split(',').map(|part| share(part.trim())).collect();
        }
        Ok(vec![Self::parse_one(text)?])
    }

    fn parse_one(text: &str) -> Result<Self, RangeError> {
        if let Some((from, until)) = text.split_once(',') {
            return Self::between(from.trim(), until.trim());
        }
        if let Some((moment, step)) = moment(text) {
            let until = if step == 0 { End::Open } else { End::After(step) };
            return Ok(Self { from: Some(moment), until });
        }
        // Dates and numbers contain dashes, so every dash may separate two moments.
        let joints = ["..", "–", " to ", "-"].into_iter().flat_map(|joint| text.match_indices(joint));
        let mut typed = joints.filter_map(|(at, joint)| {
            let (from, until) = (text[..at].trim(), text[at + joint.len()..].trim());
            (!from.is_empty() && !until.is_empty()).then(|| Self::between(from, until))
        });
        typed.find(|range| *range != Err(RangeError::NoRange)).unwrap_or(Err(RangeError::NoRange))
    }

    fn between(from: &str, until: &str) -> Result<Self, RangeError> {
        let end = |text: &str| match text {
            "" => Ok(None),
            text => moment(text).map(|(moment, _)| Some(moment)).ok_or(RangeError::NoRange),
        };
        let (from, until) = (end(from)?, end(until)?);
        if from.zip(until).is_some_and(|(from, until)| until.is_before(from)) {
            return Err(RangeError::Reversed);
        }
        Ok(Self { from, until: until.map_or(End::Open, End::At) })
    }

    /// Returns the range on a clock, in nanoseconds; an end before its beginning if no time is in the range. A
    /// beginning before the clock's zero becomes 0.
    pub fn resolve(&self, on: &RangeClock) -> Result<(u64, u64), RangeError> {
        let from = self.from.map(|from| from.resolve(on, None)).transpose()?;
        let until = match self.until {
            End::Open => None,
            End::At(moment) => Some(moment.resolve(on, from)?),
            End::After(ns) => from.map(|from| from.saturating_add(i128::from(ns))),
        };
        if from.zip(until).is_some_and(|(from, until)| until < from) {
            return Err(RangeError::Reversed);
        }
        if until.is_some_and(|until| until < 0) {
            return Ok((1, 0));
        }
        let clock = |ns: i128| u64::try_from(ns.max(0)).map_err(|_| RangeError::TooFar);
        // An omitted end is the recording's end, which may be before the typed beginning.
        Ok((from.map_or(Ok(on.first), clock)?, until.map_or(Ok(on.last), clock)?))
    }
}

impl Moment {
    /// Returns whether it is earlier than another on any clock.
    fn is_before(self, other: Self) -> bool {
        match (self, other) {
            (Self::At(this), Self::At(other)) => this < other,
            (Self::BeforeEnd(this), Self::BeforeEnd(other)) => this > other,
            (Self::Share(this), Self::Share(other)) => this < other,
            (Self::Dated(this, zone), Self::Dated(other, of)) => zone == of && this < other,
            _ => false,
        }
    }

    /// Returns the time on a clock. A time of day is the last one in the past; as an end, the first one after `from`.
    fn resolve(self, on: &RangeClock, from: Option<i128>) -> Result<i128, RangeError> {
        match self {
            Self::First => Ok(i128::from(on.first)),
            Self::Last => Ok(i128::from(on.last)),
            Self::At(ns) => Ok(i128::from(ns)),
            Self::BeforeEnd(ns) => Ok(i128::from(on.last) - i128::from(ns)),
            Self::Share(percent) => {
                let part = (on.last.saturating_sub(on.first) as f64 * percent / 100.0) as u64;
                Ok(i128::from(on.first.saturating_add(part)))
            }
            Self::Dated(date, offset) => on.on_clock(on.second(date, offset)?, date.subsec_nanosecond()),
            Self::Daily(time, offset) => {
                let last = on.last_second()?;
                // If a zone is typed, the day is in that zone.
                let today = match offset {
                    Some(offset) => date_of(last.checked_add(offset).ok_or(RangeError::TooFar)?),
                    None => (on.local)(last),
                };
                let today = on.second(today.ok_or(RangeError::TooFar)?.date().to_datetime(time), offset)?;
                let at = |second: i64| on.on_clock(second, time.subsec_nanosecond());
                match from {
                    None if today > last => at(today - DAY),
                    None => at(today),
                    Some(from) => {
                        let days = [today - DAY, today, today + DAY].into_iter().filter(|day| *day <= last + AHEAD);
                        let mut times = days.map(at);
                        times.find(|time| time.is_ok_and(|time| time >= from)).unwrap_or(Err(RangeError::Reversed))
                    }
                }
            }
        }
    }
}

/// Returns the UTC date and time of a second since 1970.
fn date_of(second: i64) -> Option<DateTime> {
    jiff::Timestamp::from_second(second).ok().map(|time| TimeZone::UTC.to_datetime(time))
}

/// Parses a moment; also returns the nanoseconds of its last digit's unit. 0 if it extends to the end.
fn moment(text: &str) -> Option<(Moment, u64)> {
    match text {
        "start" => return Some((Moment::First, 0)),
        "end" | "now" => return Some((Moment::Last, 0)),
        _ => {}
    }
    if let Some(back) = text.strip_prefix(['-', '−']) {
        let is_number = back.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        return quantity::time(back).ok().filter(|_| is_number).map(|ns| (Moment::BeforeEnd(ns), 0));
    }
    if let Ok(ns) = quantity::time(text) {
        return Some((Moment::At(ns), last_digit(text)));
    }
    on_the_wall(text)
}

/// Returns the nanoseconds of the last digit's unit in a number of seconds.
fn last_digit(text: &str) -> u64 {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let Some(last) = number.rfind(|c: char| c.is_ascii_digit()) else { return SECOND };
    let digit = |(at, c): (usize, char)| match c {
        '.' => '.',
        _ if at == last => '1',
        _ => '0',
    };
    let one: String = number.char_indices().map(digit).collect();
    quantity::time(&format!("{one}{unit}")).ok().filter(|ns| *ns > 0).unwrap_or(1)
}

/// Parses a time of day, a date or both, with or without an offset from UTC.
fn on_the_wall(text: &str) -> Option<(Moment, u64)> {
    if let Ok(date) = text.parse::<jiff::civil::Date>()
        && text.len() == "2026-11-26".len()
    {
        return Some((Moment::Dated(date.to_datetime(Time::midnight()), None), DAY as u64 * SECOND));
    }
    let (date, rest) = match text.split_once(['T', 't', ' ']) {
        Some((date, rest)) if date.contains('-') => (Some(date.parse::<jiff::civil::Date>().ok()?), rest.trim_start()),
        _ => (None, text),
    };
    let (digits, offset) = zone(rest, date.is_some())?;
    let colons = digits.matches(':').count();
    if !(1..=2).contains(&colons) || !digits.chars().all(|c| c.is_ascii_digit() || ":.".contains(c)) {
        return None;
    }
    // The hour may have one digit.
    let padded = if digits.find(':') == Some(1) { format!("0{digits}") } else { digits.to_owned() };
    let time: Time = padded.parse().ok()?;
    let step = match padded.split_once('.') {
        _ if colons == 1 => 60 * SECOND,
        Some((_, fraction)) => SECOND / 10u64.pow(fraction.len().min(9) as u32),
        None => SECOND,
    };
    Some((date.map_or(Moment::Daily(time, offset), |date| Moment::Dated(date.to_datetime(time), offset)), step))
}

/// Splits `Z`, `UTC`, `+01:00` or `-0500` off a time of day. Without a date, a dash separates two times.
fn zone(text: &str, has_date: bool) -> Option<(&str, Option<i64>)> {
    for name in ["UTC", "Z", "z"] {
        if let Some(time) = text.strip_suffix(name) {
            return Some((time.trim_end(), Some(0)));
        }
    }
    let Some(at) = text.find(['+', '-']) else { return Some((text, None)) };
    let (time, offset) = (text[..at].trim_end(), &text[at + 1..]);
    let is_west = text[at..].starts_with('-');
    if is_west && !has_date {
        return None;
    }
    let digits: String = offset.chars().filter(|c| *c != ':').collect();
    let is_offset = matches!(digits.len(), 2 | 4) && digits.chars().all(|c| c.is_ascii_digit());
    let number = |digits: &str| digits.parse::<i64>().unwrap_or(0);
    let seconds = is_offset.then(|| number(&digits[..2]) * 3600 + number(&digits[2..]) * 60)?;
    (seconds <= MAX_OFFSET).then_some((time, Some(if is_west { -seconds } else { seconds })))
}

fn share(part: &str) -> Result<TimeRange, RangeError> {
    let percent = |p: &str| quantity::share(p).ok().filter(|share| p.contains('%') && (0.0..=100.0).contains(share));
    let typed = if let Some((share, n)) = part.split_once('/') {
        let n = quantity::count::<u32>(n).ok().filter(|n| *n > 0).map(f64::from);
        percent(share).zip(n).map(|(share, n)| ((share * (n - 1.0)).min(100.0), (share * n).min(100.0)))
    } else {
        part.split_once('-').and_then(|(from, to)| percent(from).zip(percent(to)))
    };
    let (from, until) = typed.ok_or(RangeError::NoRange)?;
    if until < from {
        return Err(RangeError::Reversed);
    }
    Ok(TimeRange { from: Some(Moment::Share(from)), until: End::At(Moment::Share(until)) })
}

/// Formats nanoseconds since 1970 as local time of day with the zone's offset, like `15:03:22.345 +01:00`.
pub fn time_of_day(wall: u64) -> String {
    time_of_day_in(wall, crate::kernel::local_time)
}

fn time_of_day_in(wall: u64, local: fn(i64) -> Option<DateTime>) -> String {
    let (second, ms) = ((wall / SECOND) as i64, wall / 1_000_000 % 1000);
    let Some((utc, here)) = date_of(second).zip(local(second).or(date_of(second))) else { return String::new() };
    let seconds = |date: DateTime| TimeZone::UTC.to_timestamp(date).map_or(0, |time| time.as_second());
    let offset = (seconds(here) - seconds(utc)) / 60;
    let zone = match offset {
        0 => "UTC".to_owned(),
        east if east > 0 => format!("+{:02}:{:02}", east / 60, east % 60),
        west => format!("-{:02}:{:02}", -west / 60, -west % 60),
    };
    format!("{:02}:{:02}:{:02}.{ms:03} {zone}", here.hour(), here.minute(), here.second())
}

#[cfg(test)]
mod tests;
