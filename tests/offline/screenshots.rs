//! The pictures of the README and the manual, drawn by the program from real recordings. `UPDATE_SCREENSHOTS=1 cargo
//! test --test offline screenshots` draws them again; without it the test checks that they are up to date.

use std::path::Path;
use std::sync::Arc;

use crate::common::data;
use crate::common::harness::Harness;
use crate::common::picture;
use perfprof_tui::engine::offline;
use perfprof_tui::source::recording;
use perfprof_tui::symbols::SymbolOptions;
use perfprof_tui::ui::input::commands::program;
use perfprof_tui::units;
use perfprof_tui::units::kit::Settings;
use ratatui::buffer::Buffer;

const THEME: &str = "dark";

fn check(name: &str, harness: &Harness) {
    compare(name, &harness.buffer_of_theme(THEME));
}

fn compare(name: &str, buffer: &Buffer) {
    let path = |end: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("screenshots").join(format!("{name}.{end}"));
    let (picture, text) = (picture::png(buffer), picture::text(buffer));
    if std::env::var_os("UPDATE_SCREENSHOTS").is_some() {
        std::fs::create_dir_all(path("png").parent().expect("folder")).expect("mkdir");
        std::fs::write(path("png"), &picture).expect("write");
        std::fs::write(path("txt"), &text).expect("write");
    }
    let kept = std::fs::read(path("png")).ok().and_then(|bytes| picture::pixels(&bytes));
    let same = kept == picture::pixels(&picture) && std::fs::read_to_string(path("txt")).ok() == Some(text);
    assert!(
        same,
        "{} is out of date: UPDATE_SCREENSHOTS=1 cargo test --test offline screenshots",
        path("png").display()
    );
}

fn incident() -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 110, 22)
}

#[test]
fn the_hot_leaf_and_its_callers() {
    check("callers", &incident().keys("<ret>"));
}

#[test]
fn a_filter_as_it_is_typed() {
    check("filter", &incident().keys("fcomm == burn && stack ~ \"*timer*\" && "));
}

#[test]
fn children_and_their_callees() {
    check("children", &incident().keys("XX<home>").keys("/^estimation<ret>").keys("<ret>"));
}

#[test]
fn the_cpus_and_what_stands_out() {
    let harness = Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 110, 26).host("ipvs-busy").keys("!");
    compare("cpus", &harness.buffer_of_theme(THEME));
}

#[test]
fn the_flame_graph_both_ways_and_around_a_function() {
    let versus = Harness::open("fp-sysmix.data", "kallsyms", 110, 22).against("multi3.data", "kallsyms");
    compare("versus", &versus.keys("2").buffer_of_theme(THEME));
    let waiting = Harness::open("switches.data", "switches.kallsyms", 110, 18).keys("2ew<down>");
    compare("off-cpu", &waiting.buffer_of_theme(THEME));
    for (name, keys) in [("flame", "2"), ("leaves", "2r"), ("sandwich", "2:around ^estimation_timer$<ret>")] {
        compare(name, &incident().keys(keys).buffer_of_theme(THEME));
    }
}

/// Functions of a Python program that was started without options, recorded by `record --interp only`.
#[test]
fn a_python_program() {
    check("python", &Harness::open("languages/python.data", "kallsyms", 110, 22).keys("2"));
}

#[test]
fn when_samples_came() {
    let harness = Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", 110, 26);
    let burst = harness.keys("/estimation_timer<ret>3<home><right><right>'av<right><right>");
    compare("time", &burst.buffer_of_theme(THEME));
    let tasks = burst.keys("<esc>v:range 2,4<ret>:time-rows function<ret>/softirq<ret>");
    compare("time-functions", &tasks.buffer_of_theme(THEME));
}

#[test]
fn events_that_are_measured_and_those_that_could_be() {
    let harness = || Harness::open("switches.data", "switches.kallsyms", 110, 24).metered();
    compare("events", &harness().keys("5<down>").buffer_of_theme(THEME));
    compare(
        "capture",
        &harness().keys("5<down>F").keys(" && tid in 100-200 && context == task").buffer_of_theme(THEME),
    );
}

/// The run queue incident: five threads on one CPU, and which of them ran while the others waited.
#[test]
fn a_unit_of_a_recording() {
    let mut source = recording::open(&[data("units/sched.data")]).expect("opens");
    let spec = units::find("rundelay").expect("a unit");
    let settings = Settings::parse(&["--than".to_owned(), "10ms".to_owned()], spec).expect("options");
    let unit = units::make(spec, &settings).expect("a unit");
    let options = SymbolOptions { live: false, same_kernel: false, kallsyms: None, ..SymbolOptions::live() };
    let mut loaded = offline::load_unit(&mut *source, options, unit).expect("loads");
    let answers = loaded.ingest.core_mut().unit_answers(None);
    let mut harness = Harness::open("fp-sysmix.data", "kallsyms", 120, 40);
    harness.app.model.context.info.target = "sched.data".to_owned();
    harness.app.run(&program::UNITS);
    harness.app.set_units(Arc::new(answers));
    compare("rundelay", &harness.buffer_of_theme(THEME));
}
