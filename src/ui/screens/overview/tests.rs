//! The overview in its states, and the ways to where findings are examined.

use std::sync::Arc;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

use crate::engine::{Clock, Request};
use crate::machine::deadlocks::Deadlock;
use crate::machine::processes::ProcessUse;
use crate::machine::resources::{MemoryUse, NetworkCounts, NetworkUse, Resources};
use crate::machine::sampler::{CpuRow, HostView};
use crate::machine::triage::{Look, MachineFinding};
use crate::query::Answer;
use crate::query::rows::busiest::ProcessSamples;
use crate::session::Origin;
use crate::session::machine::Ticks;
use crate::session::machine::quota::ThrottledGroup;
use crate::source::Info;
use crate::source::live::Target;
use crate::ui::draw::layout::places;
use crate::ui::screens::overview::state::OverviewState;
use crate::ui::state::{Level, Tab, ZoomTarget};
use crate::ui::terminal::run::render;
use crate::ui::theme::{Depth, Theme};
use crate::ui::{App, Effect, OutsideRequest, ProgramCall, Start};

const SECOND: u64 = 1_000_000_000;

fn second(fault: impl Fn(&mut Resources)) -> Resources {
    let memory = MemoryUse { total_kb: 4_000_000, available_kb: 3_000_000, ..MemoryUse::default() };
    let mut one = Resources {
        length: SECOND,
        cpus: 2,
        busy_ns: SECOND / 10,
        memory,
        networks: vec![NetworkUse::default()],
        processes_ns: SECOND,
        ..Resources::default()
    };
    fault(&mut one);
    one
}

/// A live session whose last ten seconds have a fault, after ten without it.
fn session(size: (u16, u16), fault: impl Fn(&mut Resources)) -> App {
    let mut app = App::new(Info { origin: Origin::Live, ..Info::default() }, Start::default());
    let list = (0..10).map(|_| second(|_| {})).chain((0..10).map(|_| second(&fault)));
    let history = (1..).zip(list).map(|(at, one)| Resources { at: at * SECOND, ..one }).collect();
    app.resize(size.0, size.1);
    app.set_answer(Arc::new(Answer { elapsed_ns: 20 * SECOND, ..Answer::default() }));
    app.set_host(Some(Arc::new(HostView { history, interval: SECOND, ..HostView::default() })));
    press(&mut app, KeyCode::Char('0'));
    app
}

fn press(app: &mut App, code: KeyCode) {
    app.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
}

/// Returns the lines of the screen between the tabs and the footer.
fn screen(app: &App, (width, height): (u16, u16)) -> String {
    let buffer = render(app, &Theme::new(Depth::Ansi16), width, height);
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (2..height - 2).map(line).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

fn throttled(one: &mut Resources) {
    one.throttled = vec![ThrottledGroup {
        name: "cart-7d9".into(),
        path: "/cart-7d9".into(),
        percent: 41.0,
        ms: 380.0,
        file: "cpu.max",
        of_target: None,
    }];
}

fn refused(one: &mut Resources) {
    one.networks[0].counts = NetworkCounts { opened: 2000, failed: 600, ..NetworkCounts::default() };
    one.processes = vec![ProcessUse { pid: 42, comm: "gzip".into(), cpu_ns: SECOND, ..ProcessUse::default() }];
    one.busy_ns = SECOND;
}

#[test]
fn a_healthy_machine_says_so_in_one_line() {
    insta::assert_snapshot!(screen(&session((140, 24), |_| {}), (140, 24)), @r"
    Overview, last 10 s
     Nothing stands out: CPU 5 % of 2 busy, 0.0 waiting for a CPU, no disk in use, memory 75 % available, no failed connections.
    ");
}

/// A low terminal marks that lines are left out.
#[test]
fn lines_without_room_are_marked() {
    assert!(screen(&session((30, 6), |_| {}), (30, 6)).ends_with('…'));
    assert!(!screen(&session((30, 20), |_| {}), (30, 20)).contains('…'));
}

#[test]
fn one_fault_on_a_small_terminal() {
    insta::assert_snapshot!(screen(&session((80, 24), throttled), (80, 24)), @r"
    Overview, last 10 s: 1 bad, 0 worth a look
    ›● cpu      cart-7d9 throttled 41 % of periods
                since 00:10, 380 ms/s, cpu.max is below its demand          1 top

     CPU 5 % of 2 busy · 0.0 waiting for a CPU · no disk in use
     memory 75 % available · no failed connections
    ");
}

#[test]
fn a_busy_machine_has_room_for_its_load() {
    let mut app = session((80, 24), throttled);
    let mut shares = [0.0; Ticks::N];
    shares[Ticks::USER] = 100.0;
    let rows = vec![CpuRow { online: true, shares, ..CpuRow::default() }];
    app.set_host(Some(Arc::new(HostView { rows, interval: SECOND, ..HostView::default() })));
    let buffer = render(&app, &Theme::new(Depth::Ansi16), 80, 24);
    let tabs: String = (0..80).map(|x| buffer[(x, 1)].symbol()).collect();
    assert!(tabs.contains("[0 Overview]") && tabs.trim_end().ends_with("CPU busy 100 %"), "{tabs}");
}

#[test]
fn the_finding_under_the_cursor_is_whole_on_a_narrow_terminal() {
    let screen = screen(&session((60, 24), throttled), (60, 24));
    // The last line of the screen above the footer's two.
    assert!(screen.lines().last().is_some_and(|line| line.starts_with(" cpu: cart-7d9 throttled 41 %")), "{screen}");
}

/// The first line has 33 cells for it.
#[test]
fn a_long_culprit_goes_to_the_second_line() {
    let storm = |name: &'static str| {
        move |one: &mut Resources| {
            let script = Some(name.into());
            one.forks = 700;
            one.processes = vec![ProcessUse {
                pid: 12345,
                comm: "sh".into(),
                script,
                children_ns: SECOND,
                ..ProcessUse::default()
            }];
        }
    };
    let line_of = |name: &'static str| {
        let screen = screen(&session((80, 24), storm(name)), (80, 24));
        let whole = format!("by {name} 12345, ");
        screen.lines().position(|line| line.contains(&whole)).unwrap_or_else(|| panic!("{screen}"))
    };
    let lines = ["deploy.sh", "deploy-of-the-release-candidate.sh"].map(line_of);
    assert_eq!(lines[1], lines[0] + 1);
}

#[test]
fn several_faults_on_a_wide_terminal() {
    insta::assert_snapshot!(screen(&session((200, 60), refused), (200, 60)), @r"
    Overview, last 10 s: 1 bad, 2 worth a look
    ›● network  30 % of connects fail                                                                                  since 00:10, 600 of 2.0 k a second                                   M tcp
     ○ cpu      1.00 of 2 CPUs busy               gzip 1.00                                                            since 00:10                                                          1 top
     ○ changed  +1.00 CPUs                        +gzip 1.00 CPUs                                                      since 00:10, against the 10 s before                                 b compare

     CPU 50 % of 2 busy · 0.0 waiting for a CPU · no disk in use · memory 75 % available · 6,000 failed connections
    ");
}

/// Long figures have more cells where there is room.
#[test]
fn a_long_figure_is_whole_on_a_wide_terminal() {
    let busy = |one: &mut Resources| {
        one.processes = vec![ProcessUse {
            pid: 42,
            comm: "redis-server".into(),
            threads: 1,
            resident: 1 << 20,
            slices: 10,
            cpu_ns: SECOND,
            kernel_ns: SECOND,
            ..ProcessUse::default()
        }];
    };
    let lines = |size: (u16, u16)| {
        let screen = screen(&session(size, busy), size);
        let figure = "100 % of the time of redis-server is in the kernel  ";
        (screen.lines().filter(|line| line.contains(figure)).count(), screen)
    };
    let (wide, screen) = lines((200, 60));
    assert_eq!(wide, 1, "{screen}");
    let places = |word: &str| screen.lines().filter_map(|line| line.find(word)).collect::<Vec<_>>();
    let culprits = places("redis-server 42 1.00 CPUs");
    assert_eq!(culprits.len(), 1, "{screen}");
    assert!(places("  1 top").iter().all(|at| *at > culprits[0]), "{screen}");
    assert_eq!(lines((140, 60)).0, 0, "a third of the line");
}

/// Enter zooms to the process, ⌫ returns to the overview without the zoom.
#[test]
fn enter_examines_a_finding_and_backspace_returns() {
    let mut app = session((80, 24), refused);
    let second = app.views.overview.findings[1].clone();
    press(&mut app, KeyCode::Down);
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.model.frame.tab, Tab::Top, "{second:?}");
    let filter = match &app.model.selection.zooms[..] {
        [zoom] => zoom.filter().map(|filter| filter.text().to_owned()),
        _ => None,
    };
    assert_eq!(filter.as_deref(), Some("pid == 42"));
    press(&mut app, KeyCode::Backspace);
    assert_eq!((app.model.frame.tab, app.model.selection.zooms.len()), (Tab::Overview, 0));
}

#[test]
fn enter_starts_a_unit_and_backspace_returns() {
    let mut app = session((80, 24), refused);
    press(&mut app, KeyCode::Enter);
    assert_eq!(app.model.frame.tab, Tab::Units);
    assert!(app.model.effects.iter().any(|effect| matches!(effect, Effect::Unit(_))));
    press(&mut app, KeyCode::Backspace);
    assert_eq!(app.model.frame.tab, Tab::Overview);
}

/// A deadlock is a message on every screen until it is dismissed; its key starts `locks` for the process. The overview
/// has a row for it, and no message that repeats it.
#[test]
fn a_deadlock_is_a_message_on_every_screen() {
    let deadlock =
        Deadlock { pid: 42, comm: "bank".into(), threads: vec![(43, "poster".into()), (44, "auditor".into())] };
    let mut app = session((80, 24), |one| one.deadlocks = vec![deadlock.clone()]);
    let text = |app: &App| app.model.banner().map(|banner| banner.text);
    for (key, lines) in [('1', 1), ('4', 1), ('0', 0)] {
        press(&mut app, KeyCode::Char(key));
        assert_eq!(text(&app).as_deref(), Some("deadlock in bank 42: poster-43 ⇄ auditor-44"), "{key}");
        assert_eq!(places(&app.model, app.model.area()).finding.height, lines, "{key}");
    }
    assert!(screen(&app, (80, 24)).contains("deadlock: poster-43 ⇄ auditor-44"));
    // A selection of processes may leave the row out.
    app.model.set_filter("pid == 7".to_owned());
    assert_eq!(places(&app.model, app.model.area()).finding.height, 1);
    app.model.selection.filter = None;
    app.go_to_banner();
    assert_eq!(app.model.frame.tab, Tab::Units);
    assert!(app.model.effects.iter().any(|effect| matches!(effect, Effect::Unit(_))));
    app.model.dismiss();
    assert_eq!(text(&app), None);
}

/// On an overloaded machine the program itself waits for a CPU.
#[test]
fn a_late_view_has_a_message() {
    let mut app = session((80, 24), |_| ());
    let mut text = |age: u64| {
        let clock = Clock { now: 100_000_000_000, seen: (100 - age) * 1_000_000_000 };
        app.model.context.behind.tick(Some(clock));
        app.model.banner().map(|banner| banner.text)
    };
    assert_eq!(text(9), None);
    assert_eq!(text(10).as_deref(), Some("the view is late: too little CPU time for this program; -r 1 helps"));
    app.go_to_banner();
    let said = "started with -r 1, this program runs before all ordinary threads, for at most a fifth of each second";
    assert_eq!(app.model.frame.status, Some((Level::Info, said.to_owned())));
    // With -r, the remedy is another one; units do not have the option.
    assert!(!ProgramCall { is_of_unit: true, ..ProgramCall::default() }.may_become_realtime());
    app.model.context.invocation.is_realtime = true;
    let text = app.model.banner().map(|banner| banner.text);
    assert_eq!(text.as_deref(), Some("the view is late: too little CPU time for this program"));
    app.go_to_banner();
    let said = "this program has too much to do: measure at a lower rate, or fewer events";
    assert_eq!(app.model.frame.status, Some((Level::Info, said.to_owned())));
    app.model.dismiss();
    assert_eq!(app.model.banner(), None);
}

/// `alt-s` saves the snapshot and a page about it.
#[test]
fn a_page_is_saved_next_to_the_recording() {
    let mut app = session((80, 24), |_| {});
    app.input(&Event::Key(KeyEvent::new(KeyCode::Char('s'), KeyModifiers::ALT)));
    let saves = |effect: &Effect| matches!(effect, Effect::Outside(OutsideRequest::SaveWithDigest(None, None)));
    assert!(app.model.effects.iter().any(saves), "{:?}", app.model.effects);
}

/// During a comparison with earlier samples, a snapshot holds the current side, which it shows when it is opened.
#[test]
fn a_snapshot_leaves_the_baseline_out() {
    let mut app = session((80, 24), |_| {});
    let saved = |app: &App| {
        app.model.effects.iter().rev().find_map(|effect| match effect {
            Effect::Outside(OutsideRequest::Save(_, range)) => Some(*range),
            _ => None,
        })
    };
    app.model.save(None, false);
    assert_eq!(saved(&app), Some(None));
    app.model.set_baseline(None);
    app.set_answer(Arc::new(Answer { elapsed_ns: 25 * SECOND, ..Answer::default() }));
    app.model.save(None, false);
    assert_eq!(saved(&app), Some(Some((20 * SECOND, u64::MAX))));
    app.model.go_to_range((19 * SECOND, 23 * SECOND));
    app.model.save(None, false);
    assert_eq!(saved(&app), Some(Some((20 * SECOND, 23 * SECOND))));
    let before = app.model.effects.len();
    app.model.go_to_range((SECOND, 5 * SECOND));
    app.model.save(None, false);
    assert!(
        app.model.effects[before..].iter().all(|effect| !matches!(effect, Effect::Outside(OutsideRequest::Save(..))))
    );
    assert!(matches!(&app.model.frame.status, Some((Level::Error, text)) if text.contains("before the baseline")));
}

/// The map's range is answered from the kept figures: the first ten seconds were calm.
#[test]
fn a_past_range_has_its_own_findings() {
    let mut app = session((80, 24), throttled);
    assert_eq!(app.views.overview.findings.len(), 1);
    app.model.go_to_range((SECOND, 9 * SECOND));
    app.show_overview();
    assert_eq!(app.views.overview.findings, []);
    assert!(matches!(app.model.selection.zooms[0].to, ZoomTarget::Range(_)));
    app.model.go_to_range((100 * SECOND, 110 * SECOND));
    app.show_overview();
    assert!(app.views.overview.lacks.is_some());
}

/// With a filter only the processes with samples that pass it count; the question asks for them.
#[test]
fn a_filter_narrows_the_findings() {
    let mut app = session((80, 24), refused);
    app.model.set_filter("pid == 42".to_owned());
    app.ask(false);
    let asked = app.model.effects.iter().rev().find_map(|effect| match effect {
        Effect::Engine(Request::Ask(question)) => Some(question.processes),
        _ => None,
    });
    assert_eq!(asked, Some(true));
    let mut answer = Answer { elapsed_ns: 20 * SECOND, ..Answer::default() };
    answer.view.processes = vec![ProcessSamples { pid: 42, ..ProcessSamples::default() }];
    app.set_answer(Arc::new(answer));
    let causes: Vec<&str> = app.views.overview.findings.iter().map(|found| found.cause.word()).collect();
    assert_eq!(causes, ["busy", "changed"]);
    assert!(app.model.effects.iter().any(|effect| matches!(effect, Effect::Follow(pids) if *pids == [42])));
}

/// A process that sleeps leads to its waits, also before it has any sample.
#[test]
fn a_sleeping_target_leads_to_its_waits() {
    let sleeper = ProcessUse { pid: 42, comm: "client".into(), threads: 1, ..ProcessUse::default() };
    let mut app = session((80, 24), |one| one.processes = vec![sleeper.clone()]);
    app.model.context.info.whom = Target::Processes(vec![42]);
    app.set_answer(Arc::new(Answer { elapsed_ns: 20 * SECOND, target: "pid 42".to_owned(), ..Answer::default() }));
    let found = app.views.overview.findings.first().map(|found| found.look.clone());
    assert_eq!(found, Some(Look::Unit("waits -p 42".to_owned())));
    let text = screen(&app, (80, 24));
    assert!(text.contains("waits 100 % of the time  client 42") && !text.contains("of 2 busy"), "{text}");
}

#[test]
fn each_cpu_with_a_finding_can_be_selected() {
    let of = |cpu| MachineFinding::staged("softirq 40 %", Look::Cpus(Some(cpu)));
    let mut state = OverviewState { findings: vec![of(3), of(32)], ..OverviewState::default() };
    state.step(1, 10);
    assert_eq!(state.under_cursor().map(|found| found.look.clone()), Some(Look::Cpus(Some(32))));
    // Lines above are shown again when the list has become shorter.
    state.list.top = 5;
    assert_eq!(state.first(10), 0);
}
