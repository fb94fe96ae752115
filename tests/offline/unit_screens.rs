//! The screens of analysis units: each unit's scenario, the layout at several sizes, all panels, and the keys.

use std::sync::Arc;

use crate::common;
use crate::common::cells::{cells, row};
use crate::common::scenes::scene;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use perfprof_tui::engine::{UnitAnswer, UnitRequest};
use perfprof_tui::machine::sampler::{CpuSampler, SlowReadings};
use perfprof_tui::panel::{Align, Body, Cell, Column, Panel, Rest, Rows, Table};
use perfprof_tui::query::rows::top_table::TopField;
use perfprof_tui::query::{Answer, ColumnKey};
use perfprof_tui::session::machine::{Stat, Topology};
use perfprof_tui::session::{EndReason, Origin};
use perfprof_tui::source::Info;
use perfprof_tui::source::hosts::SourceHost;
use perfprof_tui::ui::input::commands::{general, program};
use perfprof_tui::ui::terminal::run::render;
use perfprof_tui::ui::theme::{Depth, Theme};
use perfprof_tui::ui::{App, Effect, Level, Start};
use perfprof_tui::units::UNITS;

fn app(width: u16, height: u16) -> App {
    let start =
        Start { columns: vec![TopField::SelfTime, TopField::Key(ColumnKey::Sym)], children: false, ..Start::default() };
    let mut info = Info::new(Origin::Recorded);
    info.hosts = SourceHost::named("host").into();
    let mut app = App::new(info, start);
    app.resize(width, height);
    app.set_answer(Arc::new(Answer { ended: Some(EndReason::Complete("read".into())), ..Answer::default() }));
    app
}

fn answer(name: &str) -> UnitAnswer {
    answer_of(name, scene(name))
}

fn answer_of(name: &str, mut stage: common::stage::Stage) -> UnitAnswer {
    let spec = UNITS.iter().find(|spec| spec.name == name).expect("a unit");
    let panels = stage.panels();
    let until = stage.now - common::stage::START;
    UnitAnswer { id: 1, name: spec.name, panels, notes: Vec::new(), lost: 0, may_be_more: false, since: 0, until }
}

/// The screen as text, without trailing spaces.
fn drawn(app: &App) -> String {
    let buffer = render(app, &Theme::new(Depth::NoColor), app.model.frame.size.0, app.model.frame.size.1);
    let line = |y: u16| {
        let text: String = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect();
        text.trim_end().to_owned()
    };
    (0..buffer.area.height).map(|y| line(y) + "\n").collect()
}

fn press(app: &mut App, code: KeyCode) {
    app.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
}

/// The words and columns of each unit, on a screen with room for all of them.
#[test]
fn each_unit() {
    for spec in UNITS {
        let mut app = app(200, 60);
        app.run(&program::UNITS);
        app.set_units(Arc::new(vec![answer(spec.name)]));
        insta::assert_snapshot!(format!("{}-200x60", spec.name), drawn(&app));
    }
}

/// The layout of a unit with many panels and columns: titles are cut, and columns are hidden.
#[test]
fn a_unit_at_each_size() {
    for (width, height) in [(80, 24), (120, 36), (40, 10)] {
        let mut app = app(width, height);
        app.run(&program::UNITS);
        app.set_units(Arc::new(vec![answer("offcpu")]));
        insta::assert_snapshot!(format!("offcpu-{width}x{height}"), drawn(&app));
    }
}

/// Waits for the end of a thread come after the locks, also if they are longer: they hide no column.
#[test]
fn locks_have_their_holder_on_a_narrow_screen() {
    let mut stage = scene("locks");
    let join = ["main", "stop", "pthread_join", "futex_[k]"];
    common::scenes::wait(&mut stage, 41 * common::scenes::MS, 4, 0xc000, 0, &join);
    stage.until(900 * common::scenes::MS);
    let mut app = app(80, 24);
    app.run(&program::UNITS);
    app.set_units(Arc::new(vec![answer_of("locks", stage)]));
    insta::assert_snapshot!("locks-80x24", drawn(&app));
    let heading = drawn(&app);
    assert!(heading.lines().any(|line| line.split_whitespace().any(|word| word == "Holder")), "{heading}");
}

/// The threads with the words of their parts, and a pool that Enter unfolds.
#[test]
fn wall_times_on_a_narrow_screen() {
    let mut app = app(80, 24);
    app.run(&program::UNITS);
    app.set_units(Arc::new(vec![answer("waits")]));
    insta::assert_snapshot!("waits-80x24", drawn(&app));
}

/// Every panel of every unit, at sizes from tiny to huge, with and without colours: no panic, and nothing is drawn
/// outside of its area.
#[test]
fn every_panel_at_every_size() {
    for spec in UNITS {
        let answer = Arc::new(vec![answer(spec.name)]);
        for (width, height) in [(20, 6), (40, 10), (80, 24), (120, 36), (300, 90)] {
            let mut app = app(width, height);
            app.run(&program::UNITS);
            app.set_units(answer.clone());
            for _ in 0..answer[0].panels.len() {
                for code in
                    [KeyCode::Tab, KeyCode::Down, KeyCode::Char('>'), KeyCode::Right, KeyCode::Enter, KeyCode::End]
                {
                    press(&mut app, code);
                }
                for depth in [Depth::NoColor, Depth::Ansi16, Depth::TrueColor] {
                    let _ = render(&app, &Theme::new(depth), width, height);
                }
            }
        }
    }
}

/// As in flame graphs, a frame has its share of the total; a line separates a stack from its waker's.
#[test]
fn frames_have_their_shares_of_all() {
    let mut app = app(80, 24);
    app.run(&program::UNITS);
    app.set_units(Arc::new(vec![answer("offcpu")]));
    (0..3).for_each(|_| press(&mut app, KeyCode::Tab));
    insta::assert_snapshot!("offcpu-woken-80x24", drawn(&app));
    press(&mut app, KeyCode::Tab);
    insta::assert_snapshot!("offcpu-hot-and-cold-80x24", drawn(&app));
}

/// Only the visible unit's panels are sent; going back to a later panel of another unit works before its panels
/// arrive.
#[test]
fn a_unit_is_gone_back_to_before_its_panels_come() {
    let mut app = app(80, 24);
    app.run(&program::UNITS);
    app.set_units(Arc::new(vec![answer("offcpu")]));
    press(&mut app, KeyCode::Tab);
    press(&mut app, KeyCode::Tab);
    let without = UnitAnswer { panels: Vec::new(), ..answer("offcpu") };
    app.set_units(Arc::new(vec![without, UnitAnswer { id: 2, ..answer("forks") }]));
    assert_eq!(shown_unit(&app), "[forks]");
    for code in [KeyCode::Char('}'), KeyCode::Down, KeyCode::Enter, KeyCode::Tab] {
        press(&mut app, code);
        assert_eq!(shown_unit(&app), "[offcpu]");
    }
}

/// The selected unit: its name has brackets in the third line.
fn shown_unit(app: &App) -> String {
    let text = drawn(app);
    let units = text.lines().nth(2).unwrap_or_default().split_whitespace();
    units.filter(|word| word.starts_with('[')).collect::<Vec<_>>().join(" ")
}

fn level(app: &App) -> Option<Level> {
    app.model.frame.status.as_ref().map(|(level, _)| *level)
}

#[test]
fn no_unit_and_one_that_starts() {
    let mut app = app(80, 24);
    press(&mut app, KeyCode::Char('6'));
    insta::assert_snapshot!("none-80x24", drawn(&app));
    press(&mut app, KeyCode::Char('M'));
    let chooser = drawn(&app);
    press(&mut app, KeyCode::Esc);
    press(&mut app, KeyCode::Enter);
    assert_eq!(drawn(&app), chooser);
    for c in "rundelay --than 4ms".chars() {
        press(&mut app, KeyCode::Char(c));
    }
    press(&mut app, KeyCode::Enter);
    let started = app.model.effects.iter().any(|effect| matches!(effect, Effect::Unit(UnitRequest::Start(spec, settings)) if spec.name == "rundelay" && settings.get("than") == Some("4ms")));
    assert!(started, "{:?}", app.model.effects);
    insta::assert_snapshot!("starts-80x24", drawn(&app));
    app.engine_refused("rundelay: no tracepoints".to_owned());
    insta::assert_snapshot!("refused-80x24", drawn(&app));
}

/// A unit whose records would cost more than the limit of a rate is refused before it starts.
#[test]
fn a_unit_whose_records_cost_too_much_is_refused() {
    const SECOND: u64 = 1_000_000_000;
    let start = |switches: u64| {
        let mut info = Info::new(Origin::Live);
        info.hosts = SourceHost::named("host").into();
        let mut app = App::new(info, Start::default());
        app.resize(160, 40);
        app.set_answer(Arc::new(Answer::default()));
        let mut cpus = CpuSampler::new(100, Topology::default());
        for (at, switches) in [(SECOND, 0), (2 * SECOND, switches)] {
            let mut stat = Stat::default();
            let ticks = at / SECOND * 100;
            stat.parse(format!("cpu0 {ticks} 0 0 0\ncpu1 {ticks} 0 0 0\nctxt {switches}\n").as_bytes());
            cpus.tick(at, &stat);
            app.set_host(Some(Arc::new(cpus.cut(at, &SlowReadings::default()))));
        }
        app.run(general::UNIT.with("offcpu"));
        let starts = app.model.effects.iter().any(|effect| matches!(effect, Effect::Unit(UnitRequest::Start(..))));
        (starts, app.model.frame.status.map(|(_, text)| text))
    };
    // 1.4 µs for each of the two records of a switch, on two CPUs.
    let (starts, message) = start(1_000_000);
    assert!(!starts, "{message:?}");
    insta::assert_snapshot!("too-costly", message.unwrap_or_default());
    assert!(start(100_000).0);
}

/// Every table keeps the column of the thread or program, in every unit.
#[test]
fn at_80_columns_every_table_says_who() {
    let mut seen = 0;
    for spec in UNITS {
        let answer = answer(spec.name);
        let mut app = app(80, 24);
        app.run(&program::UNITS);
        app.set_units(Arc::new(vec![answer.clone()]));
        for panel in &answer.panels {
            let columns = panel.rows().map_or(&[][..], |rows| &rows.table.columns);
            if !panel.is_empty() && columns.iter().any(|column| ["comm", "task"].contains(&&*column.name)) {
                let text = drawn(&app);
                let heads = text.lines().nth(4).unwrap_or_default();
                assert!(
                    ["Comm", "comm", "Task", "Who", "thread", "Requester"].iter().any(|title| heads.contains(title)),
                    "{}: {text}",
                    spec.name
                );
                seen += 1;
            }
            press(&mut app, KeyCode::Tab);
        }
    }
    assert!(seen > 20, "{seen} tables");
}

/// Stacks lose their middle: the leaf and the part of the program that it is of are seen; wakers keep their figures.
#[test]
fn at_80_columns_stacks_lose_their_middle() {
    let mut app = app(80, 24);
    app.run(&program::UNITS);
    let mut answer = answer("offcpu");
    let Body::Table(rows) = &mut answer.panels[0].body else { panic!("no table") };
    let stack = "io_schedule < jbd2_wait < fdatasync < XLogFlush < CommitTransaction < Backend < main";
    let wakers = "postgres 45.3 %, pgbench 30.0 %, 20 more";
    let column = |name: &str| rows.table.columns.iter().position(|column| column.name == name).expect("a column");
    let (wakers_at, stack_at) = (column("wakers"), column("stack"));
    rows.table.rows[0][wakers_at] = Cell::Text(wakers.into());
    rows.table.rows[0][stack_at] = Cell::Text(stack.into());
    app.set_units(Arc::new(vec![answer]));
    let text = drawn(&app);
    insta::assert_snapshot!("cut-stack-80x24", text.lines().nth(5).unwrap_or_default());
}

/// Waits of one program that begin and end in the same functions: at 80 columns each row keeps the function by which it
/// differs from the others, with its figures; addresses go first.
#[test]
fn at_80_columns_rows_keep_what_tells_them_apart() {
    let mut app = app(80, 24);
    app.run(&program::UNITS);
    let mut answer = answer("offcpu");
    let Body::Table(rows) = &mut answer.panels[0].body else { panic!("no table") };
    let stack_at = rows.table.columns.iter().position(|column| column.name == "stack").expect("a column");
    let of_backend = "0x326ce0 < standard_ExecutorRun < 0x475d50 < PortalRun < PostgresMain < PostmasterMain < main";
    let lock = "epoll_wait < WaitLatch < ProcSleep < 0x45d8a0 < LockAcquireExtended";
    let stacks = [
        (format!("{lock} < XactLockTableWait < 0x19e8b0 < {of_backend}"), "XactLockTableWait"),
        (format!("{lock} < LockTuple < heap_update < {of_backend}"), "LockTuple"),
        (format!("io_schedule_timeout < fdatasync < 0x1e9f80 < XLogFlush < {of_backend}"), "fdatasync"),
        ("epoll_wait < WaitLatch < WalWriterMain < PostmasterMain < main".to_owned(), "WalWriterMain"),
    ];
    let row = rows.table.rows[0].clone();
    (rows.table.rows, rows.ids, rows.rest) = (Vec::new(), Vec::new(), None);
    for ((stack, _), id) in stacks.iter().zip(1..) {
        let mut cells = row.clone();
        cells[stack_at] = Cell::Text(stack.as_str().into());
        rows.push(id, cells);
    }
    app.set_units(Arc::new(vec![answer]));
    let text = drawn(&app);
    for ((stack, kept), line) in stacks.iter().zip(text.lines().skip(5)) {
        let leaf: String = stack.chars().take(3).collect();
        assert!([*kept, &leaf, "100.0 %"].iter().all(|part| line.contains(part)), "{kept}: {line}");
    }
    let details = text.lines().nth(22).unwrap_or_default();
    assert!(["ProcSleep", "XactLockTableWait"].iter().all(|name| details.contains(name)), "{details}");
}

/// Columns of rates are titled like their counts, with "/s".
#[test]
fn rates_are_titled_per_second_in_every_unit() {
    let mut rates = 0;
    for spec in UNITS {
        for panel in answer(spec.name).panels {
            let columns = panel.rows().map_or(&[][..], |rows| &rows.table.columns);
            for column in columns.iter().filter(|column| column.name == "rate" || column.name.ends_with("_s")) {
                let title = Table { columns: vec![column.clone()], rows: Vec::new() }.to_text();
                assert!(title.trim().len() > 2 && title.trim().ends_with("/s"), "{}: {title}", spec.name);
                rates += 1;
            }
        }
    }
    assert!(rates > 6, "{rates}");
}

/// A unit with few rows shows its other panels instead of empty lines, and a click on one goes to it.
#[test]
fn few_rows_leave_the_screen_to_other_panels() {
    let mut app = app(200, 60);
    app.run(&program::UNITS);
    app.set_units(Arc::new(vec![answer("blktrace")]));
    let text = drawn(&app);
    for panel in ["Requesters", "Devices", "Slowest", "Sizes", "End to end", "Latency by time"] {
        assert!(text.contains(&format!("─ {panel}")), "{panel}: {text}");
    }
    let y = text.lines().position(|line| line.contains("─ Devices")).expect("a title") as u16;
    let click = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 150,
        row: y,
        modifiers: KeyModifiers::NONE,
    };
    app.input(&Event::Mouse(click));
    assert!(drawn(&app).split("  ").any(|title| title.trim() == "[Devices]"), "{}", drawn(&app));
}

/// Long event text is truncated at its end.
#[test]
fn at_80_columns_an_event_says_what_it_begins_with() {
    let mut app = app(80, 24);
    app.run(&program::UNITS);
    let columns = vec![Column::new("event", "Event", Align::Left, 26), Column::new("text", "What", Align::Left, 0)];
    let said = "wakes comm=worker pid=4711 prio=120 on CPU 3, in try_to_wake_up < wake_up_q < futex_wake < main";
    let cells_of_row = [Cell::Text("sched:sched_waking".into()), Cell::Text(said.into())];
    let mut rows = Rows::new(columns);
    rows.push(1, cells_of_row.to_vec());
    let panels = vec![Panel::new("Events in between", Body::Table(rows))];
    app.set_units(Arc::new(vec![UnitAnswer { panels, ..answer("rundelay") }]));
    let text = drawn(&app);
    let shown = row(&text, "sched:sched_waking")[1].trim_end_matches('…');
    assert!(said.starts_with(shown) && shown.len() >= 48, "{text}");
}

/// The task with the most forks is first, and is distinct from other threads of its name.
#[test]
fn forks_are_in_order() {
    let mut app = app(80, 24);
    app.run(&program::UNITS);
    app.set_units(Arc::new(vec![answer("forks")]));
    let text = drawn(&app);
    assert_eq!(sorted(&app), ["Forks▾"]);
    assert_eq!(text.lines().nth(5).map(cells).unwrap_or_default()[..3], ["make", "7", "3"], "{text}");
}

/// The headings with a mark of the order.
fn sorted(app: &App) -> Vec<String> {
    let text = drawn(app);
    let heads = text
        .lines()
        .nth(4)
        .unwrap_or_default()
        .split_whitespace()
        .filter(|word| word.ends_with(['▾', '▴']) && word.chars().count() > 1);
    heads.map(str::to_owned).collect()
}

#[test]
fn keys_move_among_rows_and_panels_and_tell_the_engine() {
    let mut app = app(100, 40);
    press(&mut app, KeyCode::Char('6'));
    app.set_units(Arc::new(vec![answer("rundelay")]));
    app.model.effects.clear();
    press(&mut app, KeyCode::Down);
    let told = app.model.effects.iter().find_map(|effect| match effect {
        Effect::Unit(UnitRequest::Look(Some((id, look)))) => Some((*id, look.selected.clone())),
        _ => None,
    });
    // The second row of the first panel: the cursor rests on the first row.
    assert_eq!(told.map(|(id, selected)| (id, selected[0])), Some((1, Some(10))));
    let cursor =
        |app: &App| drawn(app).lines().find_map(|line| line.strip_prefix('›')?.split(' ').next().map(str::to_owned));
    assert_eq!(cursor(&app).as_deref(), Some("hog"), "{}", drawn(&app));
    assert_eq!(row(&drawn(&app), "2/2"), ["2/2", "hog"]);
    let first = drawn(&app);
    press(&mut app, KeyCode::Tab);
    assert_ne!(drawn(&app), first);
    press(&mut app, KeyCode::BackTab);
    assert_eq!(drawn(&app), first);
    // The default order is marked as well, and the next column is adjacent.
    assert_eq!(sorted(&app), ["Total▾"]);
    press(&mut app, KeyCode::Char('<'));
    press(&mut app, KeyCode::Char('R'));
    assert_eq!(sorted(&app), ["Calls▴"]);
    press(&mut app, KeyCode::Char('x'));
    assert!(app.model.effects.iter().any(|effect| matches!(effect, Effect::Unit(UnitRequest::Stop(1)))));
    press(&mut app, KeyCode::Char('1'));
    assert!(app.model.effects.iter().any(|effect| matches!(effect, Effect::Unit(UnitRequest::Look(None)))));
}

#[test]
fn trees_fold_and_graphs_zoom() {
    let mut app = app(100, 40);
    press(&mut app, KeyCode::Char('6'));
    app.set_units(Arc::new(vec![answer("nested-trace")]));
    assert_eq!(marks(&app), ["▾ softirq 1", "· timer_expire", "· softirq 3"]);
    press(&mut app, KeyCode::Enter);
    assert_eq!(marks(&app), ["▸ softirq 1", "· softirq 3"]);
    app.set_units(Arc::new(vec![UnitAnswer { id: 2, ..answer("kmemleak") }]));
    press(&mut app, KeyCode::Tab);
    press(&mut app, KeyCode::Tab);
    press(&mut app, KeyCode::Down);
    insta::assert_snapshot!("kmemleak-graph-100x40", drawn(&app));
}

/// The rows of a tree, with the marks of their state.
fn marks(app: &App) -> Vec<String> {
    let text = drawn(app);
    let rows = text.lines().filter_map(|line| line.find(['▾', '▸', '·']).map(|at| line[at..].split("  ").next()));
    let rows = rows.flatten().map(|row| row.trim_end().to_owned());
    rows.filter(|row| row.split_whitespace().count() > 1).collect()
}

/// A table stays at its top while the cursor is visible from there; the number of rows above the visible part is
/// shown.
#[test]
fn hotter_rows_of_a_unit_are_in_sight_or_said() {
    let mut app = app(100, 24);
    app.run(&program::UNITS);
    let table = |ids: &[u64]| {
        let columns = vec![Column::new("n", "N", Align::Right, 6), Column::new("name", "Name", Align::Left, 0)];
        let mut rows = Rows::new(columns);
        ids.iter().for_each(|id| rows.push(*id, vec![Cell::Count(100 - id), Cell::Text(format!("row {id}").into())]));
        vec![Panel::new("Rows", Body::Table(rows))]
    };
    let give = |app: &mut App, ids: &[u64]| {
        app.set_units(Arc::new(vec![UnitAnswer { panels: table(ids), ..answer("forks") }]));
    };
    let ids: Vec<u64> = (1..=40).collect();
    // The first line below the headings.
    let above = |app: &App| drawn(app).lines().nth(5).map(|line| cells(line).concat()).unwrap_or_default();
    give(&mut app, &ids);
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Up);
    // Row 1 is selected; three rows are hotter now.
    let moved: Vec<u64> = [2, 3, 4, 1].into_iter().chain(5..=40).collect();
    give(&mut app, &moved);
    assert_eq!(above(&app), "98 row 2");
    // All other rows are.
    let last: Vec<u64> = (2..=40).chain([1]).collect();
    give(&mut app, &last);
    insta::assert_snapshot!("hotter-rows-100x24", drawn(&app));
    press(&mut app, KeyCode::Home);
    assert_eq!(above(&app), "98 row 2");
}

/// The rest of a table is one dim row at its end; Enter expands and collapses it.
#[test]
fn the_rest_of_a_table_is_opened_and_folded() {
    let mut app = app(100, 24);
    app.run(&program::UNITS);
    let row = |id: u64, name: &str| (id, vec![Cell::Count(10 - id), Cell::Text(name.into())]);
    let mut rows =
        Rows::new(vec![Column::new("n", "N", Align::Right, 6), Column::new("stack", "Where", Align::Left, 0)]);
    for (id, cells) in [row(1, "holds"), row(2, "waiting for work: 2 threads"), row(3, "idle one"), row(4, "idle two")]
    {
        rows.push(id, cells);
    }
    let rest = Rest { row: 1, after: 1, is_largest: false };
    let panel = Panel::new("Blocked", Body::Table(Rows { rest: Some(rest), ..rows }));
    app.set_units(Arc::new(vec![UnitAnswer { panels: vec![panel], ..answer("offcpu") }]));
    let closed = drawn(&app);
    assert_eq!(rest_rows(&closed), (Some('▸'), 0));
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Enter);
    assert_eq!(rest_rows(&drawn(&app)), (Some('▾'), 2));
    press(&mut app, KeyCode::Enter);
    assert_eq!(rest_rows(&drawn(&app)), (Some('▸'), 0));
    // On any other row, Enter goes to the next panel.
    press(&mut app, KeyCode::Up);
    press(&mut app, KeyCode::Enter);
    assert_eq!(drawn(&app), closed);
}

/// Enter on a CPU whose softirqs do a unit's work leads to the screen of CPUs.
#[test]
fn a_working_cpu_leads_to_its_screen() {
    let mut app = app(120, 30);
    app.run(&program::UNITS);
    let mut rows = Rows::new(vec![Column::new("softirq_cpu", "CPU", Align::Right, 5)]);
    [3, 1].into_iter().for_each(|cpu| rows.push(cpu, vec![Cell::Id(cpu as i64)]));
    let panel = Panel::new("Softirq CPUs", Body::Table(rows));
    app.set_units(Arc::new(vec![UnitAnswer { panels: vec![panel], ..answer("tcp") }]));
    assert!(drawn(&app).contains("Units]"), "{}", drawn(&app));
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Enter);
    assert!(drawn(&app).contains("CPUs]") && !drawn(&app).contains("Units]"), "{}", drawn(&app));
}

/// The mark of the rest's row, and the number of its rows that are shown.
fn rest_rows(screen: &str) -> (Option<char>, usize) {
    let name = |line: &str| line.split_once("waiting for work: 2 threads")?.0.trim_end().chars().last();
    let idle = |line: &&str| cells(line).concat().ends_with("idle one") || cells(line).concat().ends_with("idle two");
    (screen.lines().find_map(name), screen.lines().filter(idle).count())
}

/// A click on a heading sorts, a click on a tree's marker folds, and undo reverts both.
#[test]
fn headings_and_marks_are_clicked_and_undone() {
    let mut app = app(100, 40);
    press(&mut app, KeyCode::Char('6'));
    app.set_units(Arc::new(vec![answer("rundelay")]));
    let first = drawn(&app);
    let (x, y) = place(&first, "Max");
    click(&mut app, x, y);
    assert_eq!(sorted(&app), ["Max▾"]);
    click(&mut app, x, y);
    assert_eq!(sorted(&app), ["Max▴"]);
    press(&mut app, KeyCode::Char('u'));
    press(&mut app, KeyCode::Char('u'));
    app.model.frame.status = None;
    assert_eq!(drawn(&app), first);
    app.set_units(Arc::new(vec![UnitAnswer { id: 2, ..answer("nested-trace") }]));
    let (x, y) = place(&drawn(&app), "▾ softirq 1");
    click(&mut app, x, y);
    assert_eq!(marks(&app), ["▸ softirq 1", "· softirq 3"]);
    // Filtered rows come back.
    let before = drawn(&app);
    press(&mut app, KeyCode::Char('/'));
    "timer".chars().for_each(|c| press(&mut app, KeyCode::Char(c)));
    press(&mut app, KeyCode::Enter);
    assert_ne!(drawn(&app), before);
    press(&mut app, KeyCode::Backspace);
    app.model.frame.status = None;
    assert_eq!(drawn(&app), before);
}

/// Undo restores an ended unit and reset figures, one step after the other.
#[test]
fn the_end_of_a_unit_and_a_reset_are_undone() {
    let mut app = app(100, 40);
    press(&mut app, KeyCode::Char('6'));
    app.set_units(Arc::new(vec![answer("rundelay")]));
    let mut messages = String::new();
    let mut said = |key: char| {
        app.model.effects.clear();
        press(&mut app, KeyCode::Char(key));
        assert_eq!(level(&app), Some(Level::Info), "{key}: {}", drawn(&app));
        messages += &format!("{key}  {}\n", app.model.frame.status.as_ref().map_or("", |(_, text)| text));
        let requests = app.model.effects.iter().filter_map(|effect| match effect {
            Effect::Unit(UnitRequest::Look(_)) => None,
            Effect::Unit(request) => Some(format!("{request:?}")),
            _ => None,
        });
        requests.collect::<Vec<_>>()
    };
    for (key, request) in [('Z', "Reset"), ('x', "Stop(1)"), ('u', "Resume(1)"), ('u', "UndoReset")] {
        assert_eq!(said(key), [request], "{key}");
    }
    insta::assert_snapshot!("messages-of-undo", messages);
}

/// Finds the position of a text.
fn place(screen: &str, text: &str) -> (u16, u16) {
    let at = |line: &str| line.find(text).map(|at| line[..at].chars().count() as u16);
    screen
        .lines()
        .zip(0..)
        .find_map(|(line, y)| Some((at(line)?, y)))
        .unwrap_or_else(|| panic!("no {text} on\n{screen}"))
}

fn click(app: &mut App, column: u16, row: u16) {
    let kind = MouseEventKind::Down(MouseButton::Left);
    app.input(&Event::Mouse(MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE }));
}

/// A long list shows its position and a scroll bar, the cursor stays on its row and the row on its line, and a
/// sparkline shows its newest part.
#[test]
fn a_long_list_is_scrolled_as_the_table_is() {
    let list = |first: u64, more: usize| {
        let column = |name, width| Column::new(name, name, Align::Left, width);
        let mut rows = Rows::new(vec![column("name", 10), column("course", 8)]);
        for id in first..first + 3481 {
            let course: Vec<f32> = (0..20).map(|i| if i < 16 { 0.0 } else { 7.0 }).collect();
            rows.push(id, vec![Cell::Text(format!("row{id}").into()), Cell::Course(course.into())]);
        }
        rows.more = more;
        UnitAnswer { panels: vec![Panel::new("Rows", Body::Table(rows))], ..answer("rundelay") }
    };
    let mut app = app(80, 24);
    press(&mut app, KeyCode::Char('6'));
    app.set_units(Arc::new(vec![list(0, 9)]));
    // The thumb is at the top, and moves with the rows.
    let first = drawn(&app);
    insta::assert_snapshot!("long-list-80x24", first);
    assert!(first.lines().nth(5).is_some_and(|line| line.ends_with('▐')), "{first}");
    (0..20).for_each(|_| press(&mut app, KeyCode::Down));
    let below = drawn(&app);
    let at = place(&below, "›row20");
    app.set_units(Arc::new(vec![list(3, 0)]));
    let later = drawn(&app);
    assert_eq!((place(&later, "›row20"), row(&later, "18/3,481")), (at, vec!["18/3,481", "row20"]));
    // If its row disappears, the cursor keeps its position.
    app.set_units(Arc::new(vec![list(100, 0)]));
    assert_eq!(row(&drawn(&app), "18/3,481"), ["18/3,481", "row117"]);
    press(&mut app, KeyCode::End);
    let last = drawn(&app);
    assert_eq!(row(&last, "3,481/3,481"), ["3,481/3,481", "row3580"]);
    assert!(last.lines().nth(20).is_some_and(|line| line.ends_with('▐')), "{last}");
    press(&mut app, KeyCode::Home);
    assert_eq!(row(&drawn(&app), "1/3,481"), ["1/3,481", "row100"]);
}

#[test]
fn what_is_wrong_with_a_unit_is_said() {
    let mut app = app(100, 24);
    let mut messages = String::new();
    for text in ["rundely", "top", "rundelay --key x"] {
        app.run(general::UNIT.with(text));
        assert_eq!(level(&app), Some(Level::Error), "{text}");
        messages += &format!("{text}\n    {}\n", app.model.frame.status.as_ref().map_or("", |(_, text)| text));
    }
    insta::assert_snapshot!("messages", messages);
}
