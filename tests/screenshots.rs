//! The README's pictures, drawn by the program from real recordings. `UPDATE_SCREENSHOTS=1 cargo
//! test --test screenshots` makes them anew; without it they are checked to be up to date.

mod common;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use common::data;
use common::harness::Harness;
use perfprof_tui::analysis::frame::Settings;
use perfprof_tui::analysis::registry;
use perfprof_tui::engine::offline;
use perfprof_tui::source::recording;
use perfprof_tui::symbols::resolver::Options as SymbolOptions;
use perfprof_tui::ui::command::Command;
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

const THEME: &str = "dark";
const CELL: (u16, u16) = (8, 17);
const BACK: &str = "#16181d";
const FORE: &str = "#d4d7dd";

fn colour(color: Color, default: &str) -> String {
    if let Color::Rgb(r, g, b) = color {
        return format!("#{r:02x}{g:02x}{b:02x}");
    }
    if let Color::Indexed(n @ 16..=231) = color {
        // The colour cube of xterm.
        let one = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
        let (r, g, b) = (one((n - 16) / 36), one((n - 16) / 6 % 6), one((n - 16) % 6));
        return format!("#{r:02x}{g:02x}{b:02x}");
    }
    let known = match color {
        Color::Black => "#16181d",
        Color::Red => "#f2686a",
        Color::Green => "#7fc77a",
        Color::Yellow => "#e3b95c",
        Color::Blue => "#5b93d8",
        Color::Magenta => "#c792ea",
        Color::Cyan => "#5fc1c9",
        Color::DarkGray => "#7d828c",
        _ => default,
    };
    known.to_owned()
}

/// Foreground and background of a cell.
fn colours(cell: &Cell) -> (String, String) {
    let (fore, back) = (colour(cell.fg, FORE), colour(cell.bg, BACK));
    if cell.modifier.contains(Modifier::REVERSED) { (back, fore) } else { (fore, back) }
}

/// A screen as SVG: one rectangle and one text for each run of equal cells.
fn svg(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) = (area.width * CELL.0 + 16, area.height * CELL.1 + 16);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACK}\"/>\n"
    );
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let style = |x: u16| (colours(&buffer[(x, y)]), buffer[(x, y)].modifier);
            let end = (x..area.width).find(|i| style(*i) != style(x)).unwrap_or(area.width);
            let text: String = (x..end).map(|i| buffer[(i, y)].symbol()).collect();
            let ((fore, back), modifier) = style(x);
            let (left, top) = (8 + x * CELL.0, 8 + y * CELL.1);
            let run = (end - x) * CELL.0;
            if back != BACK {
                let _ = writeln!(
                    out,
                    "<rect x=\"{left}\" y=\"{top}\" width=\"{run}\" height=\"{}\" fill=\"{back}\"/>",
                    CELL.1
                );
            }
            if !text.trim().is_empty() {
                let bold = if modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
                let under = if modifier.contains(Modifier::UNDERLINED) { " text-decoration=\"underline\"" } else { "" };
                let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
                let _ = writeln!(
                    out,
                    "<text x=\"{left}\" y=\"{}\" textLength=\"{run}\" fill=\"{fore}\"{bold}{under} xml:space=\"preserve\">{text}</text>",
                    top + 13
                );
            }
            x = end;
        }
    }
    out.push_str("</svg>\n");
    out
}

fn check(name: &str, harness: &Harness) {
    compare(name, &harness.buffer_of_theme(THEME));
}

fn compare(name: &str, buffer: &Buffer) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("screenshots").join(format!("{name}.svg"));
    let now = svg(buffer);
    if std::env::var_os("UPDATE_SCREENSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().expect("folder")).expect("mkdir");
        std::fs::write(&path, &now).expect("write");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == now, "{} is out of date: UPDATE_SCREENSHOTS=1 cargo test --test screenshots", path.display());
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
    check("children", &incident().keys("xx<home>").keys("/^estimation<ret>").keys("<ret>"));
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
    let waiting = Harness::open("switches.data", "switches.kallsyms", 110, 18).keys("2c<down>");
    compare("off-cpu", &waiting.buffer_of_theme(THEME));
    for (name, keys) in [("flame", "2"), ("leaves", "2r"), ("sandwich", "2:around ^estimation_timer$<ret>")] {
        compare(name, &incident().keys(keys).buffer_of_theme(THEME));
    }
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

/// The run queue's incident: five threads on one CPU, and who had it while the others waited.
#[test]
fn a_unit_of_a_recording() {
    let mut source = recording::open(&[data("units/sched.data")]).expect("opens");
    let spec = registry::find("rundelay").expect("a unit");
    let settings = Settings::parse(&["--than".to_owned(), "10ms".to_owned()], spec.options).expect("options");
    let unit = (spec.make)(&settings).expect("a unit");
    let options = SymbolOptions { live: false, same_kernel: false, kallsyms: None, ..SymbolOptions::live() };
    let mut loaded = offline::load_unit(&mut *source, options, spec, unit).expect("loads");
    let answers = loaded.ingest.core_mut().unit_answers(None);
    let mut harness = Harness::open("fp-sysmix.data", "kallsyms", 120, 40);
    harness.app.info.target = "sched.data".to_owned();
    harness.app.run(Command::TabUnits);
    harness.app.set_units(Arc::new(answers));
    compare("rundelay", &harness.buffer_of_theme(THEME));
}
