//! Heat maps of time: contents of cells, appearance, and terminal output of a live map.

use std::sync::Arc;

use crate::common;
use crate::common::harness::{Harness, messages};
use crossterm::event::{Event as Input, KeyCode, KeyEvent};
use perfprof_tui::engine::{IntakeOptions, offline};
use perfprof_tui::export::perfdata;
use perfprof_tui::profile::Loss;
use perfprof_tui::query::Answer;
use perfprof_tui::query::answer::ViewAnswer;
use perfprof_tui::query::heat::{Heat, HeatBy, SECOND};
use perfprof_tui::query::time_range::TimeRange;
use perfprof_tui::record::kinds::{split, types};
use perfprof_tui::session::TimeMark;
use perfprof_tui::session::hosts::HostId;
use perfprof_tui::source::{Batch, Progress, recording};
use perfprof_tui::symbols::SymbolOptions;
use perfprof_tui::ui::input::commands::table::parse;
use perfprof_tui::ui::state::start::StartupAction;
use perfprof_tui::ui::state::tab::Tab;
use perfprof_tui::ui::terminal::run::render;
use perfprof_tui::ui::theme::{Depth, Theme};
use perfprof_tui::ui::{Level, Start};
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::{Terminal, TerminalOptions, Viewport};

fn incident(width: u16, height: u16) -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", width, height)
}

fn heat(h: &Harness) -> Arc<Heat> {
    h.app.model.context.answer.view.heat.clone().expect("a map")
}

/// A recording of a program that works from 300 to 380 ms after each full second of the wall clock.
#[test]
fn a_periodic_burst_is_a_stripe_at_its_offset() {
    let h = Harness::open("burst.data", "kallsyms", 120, 60).keys("fcomm == burst<ret>3");
    let map = heat(&h);
    assert_eq!((map.by, map.length), (HeatBy::Offset, SECOND));
    // Columns start at the start of the session; the recording has the offset of its clock to the wall clock.
    let phase = h.app.model.context.answer.wall_start % SECOND;
    assert!(phase > 0);
    let (mut inside, mut outside) = (0, 0);
    for column in 0..map.columns {
        for row in 0..map.rows {
            let at = (map.time(column * map.rows + row) + phase) % SECOND / 1_000_000;
            // With a tolerance of some milliseconds, one row, on either side.
            let burst = (275..=400).contains(&at);
            *(if burst { &mut inside } else { &mut outside }) += map.cell(column, row);
        }
    }
    assert!(inside > 80 && outside == 0, "{inside} and {outside}");
    let full = (0..map.columns).filter(|c| (0..map.rows).any(|r| map.cell(*c, r) > 0)).count();
    assert!((5..=7).contains(&full), "a burst in each of six seconds, not {full}");
}

/// Softirqs that interrupt an idle CPU are work, though the idle loop is on their stack.
#[test]
fn softirqs_that_interrupt_idle_are_seen_while_idle_is_hidden() {
    let h = incident(120, 40).keys("fpid == 0 && context == softirq<ret>3");
    let all = heat(&h).sum(0..usize::MAX);
    assert!(all > 1000, "{all}");
    // A filter on idle functions anywhere in the stack removes nearly all of them.
    let h = h.keys(":filter pid == 0 && context == softirq && !(stack ~ \"*idle*\")<ret>");
    assert!(heat(&h).sum(0..usize::MAX) < all / 100);
}

/// The text of a screen, with a letter for each style of a cell.
fn styled(buffer: &Buffer) -> String {
    let mut styles = Vec::new();
    let (mut text, mut looks) = (String::new(), String::new());
    for y in buffer.area.top()..buffer.area.bottom() {
        let mut row = (String::new(), String::new());
        for x in buffer.area.left()..buffer.area.right() {
            let cell = &buffer[(x, y)];
            row.0.push_str(cell.symbol());
            let look = format!("{:?} on {:?} {:?}", cell.fg, cell.bg, cell.modifier);
            let at = styles.iter().position(|s| *s == look).unwrap_or_else(|| {
                styles.push(look);
                styles.len() - 1
            });
            row.1.push(char::from_u32('A' as u32 + at as u32).unwrap_or('?'));
        }
        text.push_str(&format!("{}\n", row.0.trim_end()));
        looks.push_str(&format!("{}\n", row.1));
    }
    let legend: Vec<String> =
        (0..).zip(&styles).map(|(i, s)| format!("{} {s}", char::from_u32('A' as u32 + i).unwrap_or('?'))).collect();
    format!("{text}\n{looks}\n{}\n", legend.join("\n"))
}

#[test]
fn each_map_in_each_depth_of_colour() {
    let depths = [("none", Depth::NoColor), ("16", Depth::Ansi16), ("256", Depth::Ansi256), ("true", Depth::TrueColor)];
    for (name, depth) in depths {
        let mut h = incident(76, 16);
        h.app.model.context.fine = matches!(depth, Depth::Ansi256 | Depth::TrueColor);
        h.app.resize(76, 16);
        h.settle();
        h = h.keys("/estimation_timer<ret>3");
        for (by, word) in HeatBy::ALL.iter().filter(|(by, _)| *by != HeatBy::Latency) {
            assert_eq!(heat(&h).by, *by);
            insta::assert_snapshot!(format!("map-{word}-{name}"), styled(&h.buffer_in(depth)));
            h = h.keys("<tab>");
        }
        let mut h = Harness::open("switches.data", "switches.kallsyms", 76, 16);
        h.app.model.context.fine = matches!(depth, Depth::Ansi256 | Depth::TrueColor);
        let h = h.keys("}}3:time-rows latency<ret>");
        insta::assert_snapshot!(format!("map-latency-{name}"), styled(&h.buffer_in(depth)));
    }
}

/// The map highlights the function under the cursor, and colours search matches.
#[test]
fn linked_views() {
    let h = incident(120, 40).keys("/estimation_timer<ret>");
    let name = h.app.model.line().expect("a line").sym.to_string();
    let h = h.keys("3");
    let (map, lit) = (heat(&h), h.app.views.time.highlight.clone().expect("lit").1);
    let sum: u64 = map.lit.iter().map(|n| u64::from(*n)).sum();
    assert!(name == lit && sum > 1000 && sum < map.total, "{name} {lit} {sum}");
    let h = h.keys("/no_such_thing<ret>");
    assert_eq!(heat(&h).lit.iter().sum::<u32>(), 0);
    let h = h.keys("/^burn|find_next_bit$<ret>");
    assert!(heat(&h).lit.iter().sum::<u32>() > 1000);
    let h = h.keys("*");
    assert!(heat(&h).lit.is_empty());
    // Also from the flame graph.
    let h = h.keys("2<down><down>3");
    assert!(h.app.views.time.highlight.is_some(), "{}", h.text());
}

/// Two ranges of one recording: the second is compared with the first.
#[test]
fn a_range_as_baseline() {
    let h = incident(120, 40).keys("3<home><right><right>V<right>b<right><right><right>V<right><ret>");
    assert_eq!(h.app.model.frame.tab, Tab::Top);
    let answer = &h.app.model.context.answer;
    let (then, now) = answer.view.sides.expect("sides");
    assert!(then.total.samples > 0 && now.total.samples > 0 && now.total.samples == answer.view.total.samples);
    assert!((then.seconds - 2.0).abs() < 0.01 && (now.seconds - 2.0).abs() < 0.01, "{then:?} {now:?}");
    assert!(answer.view.lines.iter().any(|line| line.diff.is_some()));
    // The command that the view is copied as gives the same view.
    let again = incident(120, 40).keys(":baseline range 2,4<ret>:range 6,8<ret>");
    let (a, b) = again.app.model.context.answer.view.sides.expect("sides");
    assert_eq!((a.total, b.total), (then.total, now.total));
}

/// A live session cannot compare a past range with new samples: b does not start a comparison that stays empty.
#[test]
fn a_range_of_the_past_cannot_be_compared_with_what_comes() {
    let h = incident(120, 30).metered().keys(":range 2,4<ret>b");
    assert_eq!(h.level(), Some(Level::Error));
    assert!(h.app.model.context.answer.view.sides.is_none());
    // New samples can be compared with those up to now, or with all.
    for way in ["b", "zb"] {
        let h = incident(120, 30).metered().keys(way);
        assert_eq!(h.level(), Some(Level::Info), "{way}");
    }
}

/// Rows of durations are available only if samples have durations.
#[test]
fn a_map_has_no_dead_page() {
    let mut h = incident(100, 24).keys("3");
    for _ in 0..8 {
        assert!(heat(&h).rows > 0, "{:?}", heat(&h).by);
        assert_ne!(heat(&h).by, HeatBy::Latency);
        h = h.keys("<tab>");
    }
    let h = incident(100, 24).keys("3:time-rows latency<ret>");
    assert_eq!(h.level(), Some(Level::Error));
}

/// The map fills nearly all lines and cells at any screen size.
#[test]
fn the_map_fills_the_screen() {
    for (width, height) in [(80, 24), (100, 30), (120, 40), (200, 60), (300, 70)] {
        let h = incident(width, height).keys("3");
        let buffer = h.buffer();
        let is_map = |x: u16, y: u16| buffer[(x, y)].symbol() != " ";
        // Header, message and legend are above the map; axis, description and keys below.
        let lines = (4..height - 4).filter(|y| (10..width).any(|x| is_map(x, *y))).count();
        let cells = (10..width).filter(|x| (4..height - 4).any(|y| is_map(*x, y))).count();
        assert!(10 * lines >= 7 * usize::from(height - 8), "{width}x{height}: {lines} lines");
        assert!(10 * cells >= 7 * usize::from(width - 10), "{width}x{height}: {cells} cells");
    }
}

#[test]
fn ranges_have_a_history() {
    let h = incident(100, 24).keys(":range 1,2<ret>:range 20%-40%<ret>:range 3,4<ret>");
    let at = |h: &Harness| h.app.model.selection.range().map(|(from, _)| from / 100_000_000);
    assert_eq!(at(&h), Some(30));
    let h = h.keys("[[");
    assert_eq!(at(&h), Some(10));
    let h = h.keys("[");
    assert_eq!(at(&h), Some(10), "there was a range before the first");
    let h = h.keys("]");
    assert_eq!(at(&h), Some(22));
    let h = h.keys("<bs>");
    assert_eq!(at(&h), Some(10), "Backspace did not undo the last step");
    let h = h.keys("<esc>");
    assert_eq!(at(&h), None, "Esc did not leave the range");
    let h = h.keys("[");
    assert_eq!(at(&h), Some(22), "[ did not return to the last range");
    let h = h.keys(":range off<ret>");
    assert_eq!(h.app.model.selection.range(), None);
}

/// Ranges that cannot be read, and ranges without samples.
const WRONG: [&str; 6] = ["1:2:3:4", "2,1", "x,y", "0%-1%,5%-6%", "100,200", "03:04"];

/// The messages of ranges and marks.
#[test]
fn messages_of_time() {
    let ranges = WRONG.map(|typed| format!(":range {typed}<ret>"));
    let typed: Vec<&str> =
        ranges.iter().map(String::as_str).chain([":range 1,2<ret>[[", "3:time-rows latency<ret>", "'."]).collect();
    let of_recording = messages(|| incident(100, 24), &typed);
    let of_session = messages(|| incident(120, 30).metered(), &[":range 2,4<ret>b", "b", "zb"]);
    insta::assert_snapshot!("messages", of_recording + &of_session);
}

#[test]
fn ranges_that_are_wrong_or_outside() {
    for typed in WRONG {
        let h = incident(100, 24).keys(&format!(":range {typed}<ret>"));
        assert_eq!((h.level(), h.app.model.selection.range()), (Some(Level::Error), None), "{typed}");
    }
    // The same second in each common notation.
    for typed in ["5", "5,6", "5s", "5-6", "5..6", "5s,6s", "-6.278,-5.278", "5,-5.278"] {
        let h = incident(100, 24).keys(&format!(":range {typed}<ret>"));
        let (from, until) = h.app.model.selection.range().expect("a range");
        assert!(from.abs_diff(5 * SECOND) < SECOND / 500 && until.abs_diff(6 * SECOND) < SECOND / 500, "{typed}");
    }
}

/// Actions that the command line requests run in its order, after the first answers.
#[test]
fn actions_at_the_start() {
    let h = incident(100, 24);
    let start = h.app.model.context.answer.start as f64 / 1e9;
    // --time is of the recording's clock, unlike :range.
    let typed = format!("{:.3},{:.3}", start + 2.0, start + 4.0);
    let range = TimeRange::parse(&typed).expect("a range")[0];
    let command = |text: &str| StartupAction::from(parse(text).expect("a command"));
    let actions = vec![
        StartupAction::Range { range, typed },
        command("zoom-cpu 0-3"),
        command("zoom-kernel"),
        command("undo"),
        command("flame"),
    ];
    let h = h.restart(Start { actions, ..Start::default() });
    let here = h.app.model.selection.range().expect("a range");
    assert!(here.0.abs_diff(2 * SECOND) < 2_000_000 && here.1.abs_diff(4 * SECOND) < 2_000_000, "{here:?}");
    assert_eq!((h.filter(), h.app.model.frame.tab), (Some("(cpu in 0-3) && (!idle)"), Tab::Flame));
    let typed = "90000,90001".to_owned();
    let range = TimeRange::parse(&typed).expect("a range")[0];
    let h = h.restart(Start { actions: vec![StartupAction::Range { range, typed }], ..Start::default() });
    assert_eq!((h.level(), h.app.model.selection.range()), (Some(Level::Error), None));
}

#[test]
fn marks_are_set_listed_and_gone_to() {
    let h = incident(100, 24).keys("3<home><right><right><right>'a:mark b deploy<ret>:note it was slow<ret>''");
    insta::assert_snapshot!("marks", h.text());
    let h = h.keys("<esc>1'a");
    assert_eq!((h.app.model.frame.tab, h.app.views.time.cursor.map(|spot| spot.at / SECOND)), (Tab::Time, Some(3)));
    let h = h.keys("'.");
    assert_eq!((h.level(), h.app.model.context.answer.marks.len()), (Some(Level::Error), 3));
    let h = h.keys("''<down>x<esc>");
    assert_eq!(h.app.model.context.answer.marks.len(), 2);
}

#[test]
fn zooming_in_and_out_of_time() {
    let mut h = incident(100, 30).keys("3<home><right><right>");
    let all = heat(&h).sum(0..usize::MAX);
    for _ in 0..4 {
        h = h.keys("+");
    }
    let (map, at) = (heat(&h), h.app.views.time.cursor.expect("moved").at);
    assert_eq!(map.length, 50_000_000);
    assert!((map.column_time(0)..map.column_time(map.columns)).contains(&at));
    assert!(map.sum(0..usize::MAX) < all);
    for _ in 0..40 {
        h = h.keys("-");
    }
    assert_eq!(heat(&h).sum(0..usize::MAX), all, "a column of a year does not have all samples");
}

/// Every profile showed frame pointers, which no text or other tool has named.
#[test]
fn profiles_of_other_tools_do_not_name_a_way_of_unwinding() {
    for file in
        ["imported/go-cpu.pprof", "imported/node.cpuprofile", "corpus/fp-spin.folded", "corpus/overwrite.script.txt"]
    {
        let text = Harness::open(file, "kallsyms", 120, 12).text();
        assert!(text.contains("  lost 0") && !text.contains("-g "), "{text}");
    }
    let recorded = Harness::open("fp-sysmix.data", "kallsyms", 120, 12).text();
    assert!(recorded.contains("-g fp"), "{recorded}");
}

/// Stored sums were counted as samples: a Go profile of 140 samples had 130.
#[test]
fn sums_of_samples_are_not_counted_as_samples() {
    let text = |file: &str| Harness::open(file, "kallsyms", 120, 12).text();
    let go = text("imported/go-cpu.pprof");
    let folded = text("corpus/fp-spin.folded");
    assert!(folded.contains(" stacks  lost 0"), "{folded}");
    // The sum of the sample type `samples` (go tool pprof -sample_index=samples).
    assert!(go.contains(" 49 samples  lost 0"), "{go}"); // words: ok
}

#[test]
fn recordings_without_time_without_samples_or_out_of_order() {
    let told = |file: &str| Harness::open(file, "kallsyms", 90, 12).keys("3").text();
    insta::assert_snapshot!("without-time-or-samples", told("no-time.data") + &told("corpus/empty.data"));
    // Options of perf do not help other tools.
    let heap = ["3", "4"].map(|tab| Harness::open("imported/go-heap.pprof", "kallsyms", 90, 12).keys(tab).text());
    assert!(heap[0].contains("do not say when") && heap[1].contains("lack their CPU"), "{heap:?}"); // words: ok
    assert!(!heap.iter().any(|text| text.contains("perf record")), "{heap:?}"); // words: ok
    let shuffled = Harness::open("corpus/synth-shuffled.data", "kallsyms", 90, 24).keys("i3");
    for _ in HeatBy::ALL.iter().filter(|(by, _)| *by != HeatBy::Latency) {
        let map = heat(&shuffled);
        assert_eq!(map.sum(0..usize::MAX), shuffled.app.model.context.answer.unfiltered.samples);
    }
    // Losses have a separate glyph. On the axis, the times are above it.
    let lost = Harness::open("corpus/synth-throttle.data", "kallsyms", 90, 24).keys("i3").text();
    let is_axis = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.len() >= 2 && words.iter().skip(1).step_by(2).all(|unit| *unit == "s")
    };
    let lines: Vec<&str> = lost.lines().skip(3).filter(|line| line.contains('×') || is_axis(line)).collect();
    insta::assert_snapshot!("map-with-losses", lines.join("\n"));
}

/// A snapshot contains losses and marks; that of a range has only the samples of the range.
#[test]
fn a_snapshot_keeps_losses_and_marks() {
    let load = |path: &std::path::Path| {
        let mut source = recording::open(&[path.to_owned()]).expect("opens");
        offline::load(&mut *source, SymbolOptions { live: false, ..SymbolOptions::live() }, IntakeOptions::default())
            .expect("loads")
    };
    let before = load(&common::data("corpus/synth-throttle.data"));
    let core = before.ingest.core();
    let losses: Vec<Loss> = core.profile.losses.all().copied().collect();
    let sum = |list: &[Loss]| list.iter().map(|loss| loss.samples).sum::<u64>();
    assert!(!losses.is_empty() && sum(&losses) == core.profile.ledger.lost());
    let mut moment = core.moment();
    let (first, last) = core.profile.span().expect("samples");
    moment.marks = vec![TimeMark { at: first + 5, name: "a".into(), note: "deploy".into() }];
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("whole.data");
    perfdata::save(&moment, HostId::default(), &path, &[], None).expect("saved");
    let after = load(&path);
    let again: Vec<Loss> = after.ingest.core().profile.losses.all().copied().collect();
    assert_eq!(sum(&again), sum(&losses));
    assert_eq!(again.iter().map(|l| l.time).collect::<Vec<_>>(), losses.iter().map(|l| l.time).collect::<Vec<_>>());
    assert_eq!(after.ingest.core().marks, moment.marks);
    let (from, until) = (first + (last - first) / 4, last - (last - first) / 4);
    let wanted = moment.chunks.iter().flat_map(|c| &c.time).filter(|t| (from..until).contains(t)).count();
    let part = perfdata::save(&moment, HostId::default(), &path, &[], Some((from, until))).expect("saved");
    assert_eq!((part.samples, load(&path).ingest.core().profile.len()), (wanted, wanted));
    assert!(wanted > 0 && wanted < moment.len());
}

/// Readers derive off-CPU time from switches: it is neither written nor counted as samples.
#[test]
fn a_snapshot_says_how_many_samples_it_has() {
    let mut source = recording::open(&[common::data("switches.data")]).expect("opens");
    let loaded =
        offline::load(&mut *source, SymbolOptions { live: false, ..SymbolOptions::live() }, IntakeOptions::default());
    let moment = loaded.expect("loads").ingest.core().moment();
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("switches.data");
    let written = perfdata::save(&moment, HostId::default(), &path, &[], None).expect("saved");
    assert!(written.samples > 0 && written.samples < moment.len(), "{} of {}", written.samples, moment.len());
    let mut batch = Batch::default();
    let mut saved = recording::open(&[path]).expect("opens");
    let mut samples = 0;
    loop {
        let step = saved.next(&mut batch).expect("reads");
        let mut rest = batch.bytes.as_slice();
        while let Ok(Some((header, _, after))) = split(rest) {
            samples += usize::from(header.kind == types::SAMPLE);
            rest = after;
        }
        batch.clear();
        if matches!(step, Progress::End(_)) {
            break;
        }
    }
    assert_eq!(samples, written.samples);
}

/// A pseudo-random sequence, the same in each run.
struct Random(u32);

impl Random {
    fn next(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % below
    }
}

/// A live map of 120×50 cells, full for a long time: a new second replaces the oldest one, nothing scrolls, and the
/// terminal gets less than a kilobyte; a little more if all cells differ.
#[test]
fn a_live_map_writes_little() {
    let h = incident(130, 32).metered().keys("3");
    let mut app = h.app;
    let theme = Theme::new(Depth::Ansi256);
    let mut random = Random(1);
    // All samples of 500 seconds: two CPUs at 999 Hz with a varying load.
    let mut cells: Vec<u32> = Vec::new();
    for second in 0..500u32 {
        let load = 1 + random.next(3) * (second % 7) / 2;
        cells.extend((0..50).map(|_| load * 5 + random.next(6)));
    }
    let answer = app.model.context.answer.clone();
    // Shows a part of the last second.
    let mut show = |tick: u64| {
        let (second, part) = (tick / 50, (tick % 50) as usize);
        let first = (second + 1).saturating_sub(120);
        let mut shown = cells[first as usize * 50..][..120 * 50].to_vec();
        let last = (second - first) as usize;
        shown[last * 50 + part..].fill(0);
        let until = tick * SECOND / 50;
        let map = Heat { first, until, cells: shown, ..live_map() };
        let view = ViewAnswer { heat: Some(Arc::new(map)), ..answer.view.clone() };
        let answer = Answer { view, elapsed_ns: until, ..(*answer).clone() };
        app.set_answer(Arc::new(answer));
        render(&app, &theme, 130, 32)
    };
    // Once a second, at any part of it.
    let mut sizes = Vec::new();
    for phase in [0, 7, 25, 40] {
        let mut before = show(200 * 50 + phase);
        for second in 201..260 {
            let now = show(second * 50 + phase);
            sizes.push(written(&before, &now));
            before = now;
        }
    }
    sizes.sort_unstable();
    let most = sizes.len() * 95 / 100;
    assert!(sizes[0] > 0 && sizes[most] <= 1000 && sizes[sizes.len() - 1] <= 1300, "{sizes:?}");
}

fn live_map() -> Heat {
    let lost = vec![0; 120];
    Heat { length: SECOND, columns: 120, rows: 50, lost, total: 9999, ..Heat::default() }
}

/// Returns the number of bytes that change a terminal from one buffer to the other.
fn written(before: &Buffer, now: &Buffer) -> usize {
    let viewport = Viewport::Fixed(now.area);
    let out = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    struct Out(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);
    impl std::io::Write for Out {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let backend = CrosstermBackend::new(Out(out.clone()));
    let mut terminal = Terminal::with_options(backend, TerminalOptions { viewport }).expect("terminal");
    for (i, buffer) in [before, now].into_iter().enumerate() {
        if i == 1 {
            out.borrow_mut().clear();
        }
        terminal.draw(|frame| frame.buffer_mut().clone_from(buffer)).expect("drawn");
    }
    out.borrow().len()
}

/// Timestamps near the maximum, as in damaged files, are drawn without a panic.
#[test]
fn the_end_of_the_clock_is_drawn() {
    let h = incident(130, 32).keys("''<esc>3V:range 1,2<ret>");
    let mut app = h.app;
    let answer = app.model.context.answer.clone();
    let marks = vec![TimeMark { at: u64::MAX, name: "a".into(), note: "late".into() }];
    for length in [1_000_000, SECOND, 365 * 86_400 * SECOND] {
        for rows in [1, 50, 1024] {
            app.views.time.length = length;
            let first = (u64::MAX / length + 1).saturating_sub(120);
            let cells = vec![1; 120 * rows];
            let map = Heat { until: u64::MAX, first, length, rows, cells, ..live_map() };
            let whole = Answer {
                view: ViewAnswer { heat: Some(Arc::new(map)), ..answer.view.clone() },
                elapsed_ns: u64::MAX,
                wall_start: u64::MAX,
                marks: marks.clone().into(),
                ..(*answer).clone()
            };
            app.set_answer(Arc::new(whole));
            for tab in [Tab::Time, Tab::Top] {
                app.model.frame.tab = tab;
                render(&app, &Theme::new(Depth::Ansi256), 130, 900);
                render(&app, &Theme::new(Depth::NoColor), 130, 32);
            }
            app.model.frame.tab = Tab::Time;
            for key in ['\u{1b}', 'v', 'V', 'y', '+', '-', 'b', ']', 'E'] {
                app.input(&Input::Key(KeyEvent::from(KeyCode::Char(key))));
            }
            for code in
                [KeyCode::PageUp, KeyCode::PageDown, KeyCode::Right, KeyCode::Down, KeyCode::Enter, KeyCode::Home]
            {
                app.model.frame.tab = Tab::Time;
                app.input(&Input::Key(KeyEvent::from(code)));
                render(&app, &Theme::new(Depth::Ansi256), 130, 32);
            }
        }
    }
}
