//! Tests of running units: losses, addresses of data, and counts.

use super::*;
use crate::source::CpuCount;
use crate::units;
use crate::units::kit::Settings;

/// Such a number of losses does not occur, but a damaged recording may contain it.
#[test]
fn more_losses_than_a_number_holds_are_the_most_that_it_holds() {
    let spec = units::find("forks").expect("a unit");
    let unit = units::make(spec, &Settings::default()).expect("needs nothing");
    let mut units = Units::default();
    let id = units.start(unit, 0).expect("starts");
    [(None, u64::MAX), (Some(3), 5)].iter().for_each(|(cpu, records)| units.lose(*cpu, 9, *records));
    let answers = units.answers(&Session::new(crate::session::Origin::Live), &Profile::default(), 0, Some(id));
    assert_eq!(answers.iter().map(|answer| answer.lost).collect::<Vec<_>>(), [u64::MAX]);
}

/// Before Linux 6.0, nothing counts what a full ring lost last.
#[test]
fn unknown_losses_make_the_number_a_lower_limit() {
    let unit = units::make(units::find("forks").expect("a unit"), &Settings::default()).expect("needs nothing");
    let mut units = Units::default();
    let id = units.start(unit, 0).expect("starts");
    let mut found = || {
        let answers = units.answers(&Session::new(Origin::Live), &Profile::default(), 0, Some(id));
        units.lose_unknown();
        let has_note = answers[0].notes.iter().any(|note| note == UNKNOWN_LOSSES);
        (answers[0].lost, answers[0].may_be_more, has_note)
    };
    assert_eq!([(); 2].map(|()| found()), [(0, false, false), (0, true, true)]);
}

/// Figures from some of a unit's events alone would be wrong.
#[test]
fn a_new_unit_has_no_figures_until_its_events_are_open() {
    let make = || units::make(units::find("forks").expect("a unit"), &Settings::default()).expect("needs nothing");
    let session = Session::new(Origin::Live);
    let mut units = Units::default();
    units.measured_since(5, &session);
    let id = units.start(make(), 10).expect("starts");
    units.joined();
    let mut told = |now: u64| {
        units.until(now);
        let answers = units.answers(&session, &Profile::default(), 0, Some(id));
        (answers[0].notes.concat(), answers[0].panels.is_empty())
    };
    assert_eq!(told(20), (OPENING.to_owned(), true));
    // An event that cannot be opened is missing.
    let (note, is_empty) = told(10 + OPENING_NS);
    assert!(note.starts_with("not measured: ") && !is_empty, "{note}");
}

#[test]
fn addresses_of_data_are_due_after_an_interval() {
    let (mut session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
    let mut units = Units::default();
    let due = |time: u64| {
        units.end_at(time);
        let is_due = units.is_pin_due();
        if is_due {
            units.pin_data(&mut session, &mut profile);
        }
        is_due
    };
    let times = [0, 1, PIN_INTERVAL_NS - 1, PIN_INTERVAL_NS, 2 * PIN_INTERVAL_NS - 1, 5 * PIN_INTERVAL_NS, 7];
    assert_eq!(times.map(due), [true, false, false, true, false, true, true]);
}

/// For a short command, the first and the last reading arrive together.
#[test]
fn what_is_counted_between_two_readings_of_a_batch_is_taken_in() {
    let spec = units::find("stat").expect("a unit");
    let mut settings = Settings::default();
    settings.set("event", "page-faults");
    let unit = units::make(spec, &settings).expect("made");
    let mut units = Units::default();
    let id = units.start(unit, 0).expect("starts");
    units.routes = vec![vec![(0, 0)]];
    let one = |cpu: u32, time: u64, value: u64| CpuCount { event: 0, cpu, time, value, running_percent: 100.0 };
    units.count(&[one(0, 100, 5), one(1, 100, 0), one(0, 200, 12), one(1, 200, 3)], &[0]);
    let answers = units.answers(&Session::new(crate::session::Origin::Live), &Profile::default(), 200, Some(id));
    let rows = answers[0].panels[0].rows().expect("rows");
    assert_eq!(rows.table.rows[0][1], crate::panel::Cell::Count(10));
}
