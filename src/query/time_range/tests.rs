//! Tests of time ranges as they are typed, in any time zone.

use super::*;
use proptest::prelude::*;

fn utc(second: i64) -> Option<DateTime> {
    date_of(second)
}

/// An hour and a half east of UTC.
fn east(second: i64) -> Option<DateTime> {
    date_of(second + 5400)
}

fn resolve(text: &str, on: &RangeClock) -> Result<Vec<(u64, u64)>, RangeError> {
    TimeRange::parse(text)?.iter().map(|range| range.resolve(on)).collect()
}

#[test]
fn as_perf_spells_them() {
    let on = RangeClock { first: 2_000, last: 12_000, wall: None, local: utc };
    let range = |text| resolve(text, &on);
    assert_eq!(range("10%-20%"), Ok(vec![(3_000, 4_000)]));
    assert_eq!(range("10%/2,0%-1%"), Ok(vec![(3_000, 4_000), (2_000, 2_100)]));
    assert_eq!(range("0.000003,"), Ok(vec![(3_000, 12_000)]));
    assert_eq!(range("0.000015,"), Ok(vec![(15_000, 12_000)]), "an empty range after the end");
    assert_eq!(range("5%-5%"), Ok(vec![(2_500, 2_500)]));
    assert_eq!(range("60%/9"), Ok(vec![(12_000, 12_000)]), "an empty range after the end");
    for bad in ["x", "5%", "10%/0", "nan,1", "1,inf", "1,2,3", "", "--5", "14:03:61", "1:2:3:4", "25:00", "- 5"] {
        assert_eq!(range(bad), Err(RangeError::NoRange), "{bad}");
    }
    for bad in ["50%-20%", "10%-20%,3%-2%", "2,1", "-20s,-30s", "2026-11-26,2026-11-25"] {
        assert_eq!(TimeRange::parse(bad), Err(RangeError::Reversed), "independent of the recording: {bad}");
    }
    assert_eq!(range("14:03"), Err(RangeError::NoTimeOfDay));
}

/// A session from 11:32:00 to 11:34:10 UTC of 26 November 2026.
fn session(local: fn(i64) -> Option<DateTime>) -> RangeClock {
    let start = 1_795_692_720 * SECOND;
    RangeClock { first: 0, last: 130 * SECOND, wall: Some(start as i64), local }
}

#[test]
fn as_people_write_them() {
    let seconds = |text: &str| {
        let ranges =
            resolve(text, &session(utc)).map(|list| list.iter().map(|(a, b)| (a / SECOND, b / SECOND)).collect());
        ranges.map(|list: Vec<(u64, u64)>| list[0])
    };
    for (text, range) in [
        ("-30s,-20s", (100, 110)),
        ("-30,-20", (100, 110)),
        ("-30s", (100, 130)),
        ("-1m", (70, 130)),
        ("-30s..-20s", (100, 110)),
        ("-30s - -20s", (100, 110)),
        ("−30,−20", (100, 110)),
        ("-30s,now", (100, 130)),
        ("start,5", (0, 5)),
        ("5", (5, 6)),
        ("5s", (5, 6)),
        ("1m", (60, 120)),
        ("5,10", (5, 10)),
        ("5-10", (5, 10)),
        ("5s..10s", (5, 10)),
        ("5 to 10", (5, 10)),
        (",10", (0, 10)),
        ("11:33,11:34", (60, 120)),
        ("11:33-11:34", (60, 120)),
        ("11:33–11:34", (60, 120)),
        ("11:33", (60, 120)),
        ("11:33:05", (65, 66)),
        ("11:33:05 UTC", (65, 66)),
        ("11:33:05.000,11:33:10", (65, 70)),
        ("11:33,11:50", (60, 1080)),
        ("11:33,", (60, 130)),
        ("2026-11-26T11:33:00Z,2026-11-26T11:34:00Z", (60, 120)),
        ("2026-11-26 11:33,11:34", (60, 120)),
        ("2026-11-26T12:33+01:00", (60, 120)),
        ("2026-11-26T06:33:00-0500", (60, 61)),
        ("2026-11-26", (0, 44_880)),
        // There is nothing before the session's start.
        ("11:31", (0, 0)),
        ("11:35", (0, 0)),
    ] {
        assert_eq!(seconds(text), Ok(range), "{text}");
    }
    assert_eq!(resolve("11:30,11:31", &session(utc)), Ok(vec![(1, 0)]), "an empty range, not the first sample");
    for bad in ["11:34,11:33", "11:34-11:33"] {
        assert_eq!(seconds(bad), Err(RangeError::Reversed), "{bad}");
    }
    assert_eq!(resolve("1.5", &session(utc)), Ok(vec![(1_500_000_000, 1_600_000_000)]));
    assert_eq!(resolve("250ms", &session(utc)), Ok(vec![(250_000_000, 251_000_000)]));
    assert_eq!(resolve("11:33:05.25", &session(utc)), Ok(vec![(65_250_000_000, 65_260_000_000)]));
}

#[test]
fn the_time_of_day_is_that_of_the_zone() {
    let one = |text| resolve(text, &session(east)).map(|list| (list[0].0 / SECOND, list[0].1 / SECOND));
    assert_eq!(one("13:03"), Ok((60, 120)));
    assert_eq!(one("11:33 UTC"), Ok((60, 120)));
    assert_eq!(one("2026-11-26T13:03,13:04"), Ok((60, 120)));
    assert_eq!(time_of_day_in(1_795_692_720 * SECOND + 5_000_000, east), "13:02:00.005 +01:30");
    assert_eq!(time_of_day_in(1_795_692_720 * SECOND, utc), "11:32:00.000 UTC");
}

#[test]
fn a_session_over_midnight_has_two_days() {
    // From 23:50 to 00:20.
    let start = (1_795_737_600 - 600) * SECOND;
    let on = RangeClock { first: 0, last: 1800 * SECOND, wall: Some(start as i64), local: utc };
    let one = |text| resolve(text, &on).map(|list| (list[0].0 / SECOND, list[0].1 / SECOND));
    assert_eq!(one("23:55,00:10"), Ok((300, 1200)));
    assert_eq!(one("23:55"), Ok((300, 360)));
    assert_eq!(one("00:05,00:10"), Ok((900, 1200)));
    assert_eq!(one("00:10,00:30"), Ok((1200, 2400)), "an end may be in the future");
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn nothing_panics(text in "[-0-9:.,TZ+% msto]{0,24}", first: u64, last: u64, wall: Option<i64>) {
        let on = RangeClock { first, last, wall, local: crate::kernel::local_time };
        let _ = resolve(&text, &on);
    }
}
