//! Screens of real recordings, as text: what is seen at each size, in each state.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::data;
use perfprof_tui::engine::offline::{self, Loaded};
use perfprof_tui::panel::top::Field;
use perfprof_tui::query::answer::EventInfo;
use perfprof_tui::query::{Answer, Fold, Key, Question, Top, lines};
use perfprof_tui::source::Source;
use perfprof_tui::source::file::FileSource;
use perfprof_tui::symbols::resolver::Options;
use perfprof_tui::ui::app::{App, Effect, Start};
use perfprof_tui::ui::run::render;
use perfprof_tui::ui::theme::{Depth, Theme};

/// Engine and interface in one thread: questions are answered at once.
struct Harness {
    loaded: Loaded,
    app: App,
    size: (u16, u16),
    saved: Vec<String>,
}

impl Harness {
    fn open(file: &str, kallsyms: &str, width: u16, height: u16) -> Self {
        let mut source = FileSource::open(&data(file)).expect("open");
        let mut info = source.info().clone();
        let options = Options { live: false, same_kernel: false, kallsyms: Some(data(kallsyms)), ..Options::live() };
        let loaded = offline::load(&mut source, options).expect("load");
        // The same on every machine: the path of the checkout does not belong on a screen.
        info.target = file.to_owned();
        let columns = vec![
            Field::Children,
            Field::SelfTime,
            Field::Samples,
            Field::Key(Key::Comm),
            Field::Key(Key::Pid),
            Field::Key(Key::Dso),
            Field::Key(Key::Sym),
        ];
        let refresh = Duration::from_secs(1);
        let start = Start { columns, children: true, filter: None, limit: 0.0, refresh, exec: Vec::new() };
        let mut harness = Self { loaded, app: App::new(info, start), size: (width, height), saved: Vec::new() };
        harness.app.resize(width, height);
        harness.settle();
        harness
    }

    /// Answers questions until none is left.
    fn settle(&mut self) {
        while !self.app.effects.is_empty() {
            for effect in std::mem::take(&mut self.app.effects) {
                match effect {
                    Effect::Ask(question) => {
                        let answer = self.answer(question);
                        self.app.set_answer(Arc::new(answer));
                    }
                    other => self.saved.push(format!("{other:?}")),
                }
            }
        }
    }

    fn answer(&self, question: Arc<Question>) -> Answer {
        let data = self.loaded.data();
        let core = self.loaded.ingest.core();
        let mut fold = Fold::new(question.event, question.filter.clone(), question.top.keys.contains(&Key::Cpu));
        fold.update(data, u64::MAX);
        let mut all = Fold::new(question.event, None, false);
        all.update(data, u64::MAX);
        let top = Top::build(data, &fold, &question.top);
        let events = self.loaded.event_names.iter().map(|name| EventInfo {
            name: name.clone(),
            total: all.total(),
            lost: 0,
            note: None,
        });
        let span = core.profile.span().unwrap_or_default();
        Answer {
            elapsed_ns: span.1 - span.0,
            events: events.collect(),
            total: fold.total(),
            unfiltered: all.total(),
            lines: lines::lines(data, &top, &question),
            rows: top.rows.len(),
            ledger: core.profile.ledger.clone(),
            rates: core.rates.clone(),
            ended: Some("end of the file".into()),
            notes: self.loaded.notes.clone(),
            frequency: 999,
            question,
            ..Answer::default()
        }
    }

    /// Types keys: single characters, or names in angle brackets.
    fn keys(mut self, keys: &str) -> Self {
        use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
        let mut rest = keys;
        while let Some(c) = rest.chars().next() {
            let (code, used) = match rest.strip_prefix('<').and_then(|r| r.split_once('>')) {
                Some((name, _)) => {
                    let code = match name {
                        "ret" => KeyCode::Enter,
                        "esc" => KeyCode::Esc,
                        "bs" => KeyCode::Backspace,
                        "tab" => KeyCode::Tab,
                        "down" => KeyCode::Down,
                        "home" => KeyCode::Home,
                        other => panic!("no key is called {other}"),
                    };
                    (code, name.len() + 2)
                }
                None => (KeyCode::Char(c), c.len_utf8()),
            };
            rest = &rest[used..];
            self.app.input(&Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
            self.settle();
        }
        self
    }

    fn text(&self) -> String {
        let buffer = render(&self.app, &Theme::new(Depth::Ansi16), self.size.0, self.size.1);
        let mut out = String::new();
        for y in 0..self.size.1 {
            let row: String = (0..self.size.0).map(|x| buffer[(x, y)].symbol()).collect();
            out.push_str(row.trim_end());
            out.push('\n');
        }
        out
    }
}

fn incident(width: u16, height: u16) -> Harness {
    Harness::open("ipvs-cpu32.data", "ipvs-cpu32.kallsyms", width, height)
}

#[test]
fn the_founding_incident_at_each_size() {
    for (width, height) in [(80, 24), (120, 40), (200, 60), (20, 6), (10, 3)] {
        insta::assert_snapshot!(format!("incident-{width}x{height}"), incident(width, height).text());
    }
}

#[test]
fn who_called_the_hot_leaf() {
    insta::assert_snapshot!(incident(100, 24).keys("<ret>").text());
}

#[test]
fn ordered_by_children_with_a_chain_to_the_callees() {
    // Twice x: without children and back, which orders by them.
    insta::assert_snapshot!(incident(100, 24).keys("xx<home>").keys("/^estimation<ret>").keys("<ret>").text());
}

#[test]
fn a_view_filter_is_retroactive_and_taken_back() {
    let narrowed = incident(100, 16).keys("fcomm == burn && kernel<ret>");
    insta::assert_snapshot!(narrowed.text());
    let before = incident(100, 16).text();
    assert_eq!(narrowed.keys("<bs>").text(), before);
}

#[test]
fn a_wrong_filter_is_shown_where_it_is_wrong() {
    insta::assert_snapshot!(incident(100, 12).keys("fcomn == burn").text());
}

#[test]
fn completions_while_a_filter_is_typed() {
    insta::assert_snapshot!(incident(100, 12).keys("fcomm == ").text());
}

#[test]
fn overlays() {
    insta::assert_snapshot!("help", incident(100, 60).keys("?").text());
    insta::assert_snapshot!("losses", incident(100, 24).keys("l").text());
    insta::assert_snapshot!("palette", incident(100, 24).keys(":fil").text());
    insta::assert_snapshot!("columns", incident(100, 24).keys("s").text());
    insta::assert_snapshot!("chord", incident(100, 12).keys("r").text());
}

#[test]
fn nothing_left_says_why() {
    insta::assert_snapshot!(incident(80, 12).keys("fcomm == nobody<ret>").text());
}

#[test]
fn a_hostile_name_stays_on_its_line() {
    let text = Harness::open("comm-hostile.data", "kallsyms", 100, 30).text();
    assert_eq!(text.lines().count(), 30);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
}

#[test]
fn the_cursor_stays_on_its_item_when_the_order_changes() {
    let harness = incident(120, 20).keys("<down><down><down>");
    let item = harness.app.line().expect("line").id;
    let row = harness.app.screen.selected - harness.app.screen.top;
    let moved = harness.keys("<");
    assert_eq!(moved.app.line().expect("line").id, item);
    assert!(moved.app.screen.selected - moved.app.screen.top <= row.max(moved.app.screen.selected));
    let home = moved.keys("<home>");
    assert_eq!(home.app.screen.selected, 0);
}

#[test]
fn commands_become_effects() {
    let harness = incident(80, 24).keys("S").keys(":freq 99<ret>").keys(":cpus 0-2,5<ret>").keys(" ").keys("z");
    assert_eq!(
        harness.saved,
        ["Save(None)", "Control(Frequency(99))", "Control(Cpus([0, 1, 2, 5]))", "Freeze(true)", "Clear"]
    );
    let harness = incident(80, 24).keys(":cpus 9-1<ret>").keys("r+");
    assert_eq!(harness.saved, ["Refresh(500ms)"]);
}

#[test]
fn any_keys_at_any_size_draw_something_and_never_panic() {
    let keys: Vec<char> = "jkeEC%gxLsnNtpcdyuki<>R lz?:/f\u{1b}+r-".chars().collect();
    let mut seed = 7u32;
    let mut harness = Harness::open("fp-sysmix.data", "kallsyms", 80, 24);
    for i in 0..600 {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let key = keys[(seed >> 8) as usize % keys.len()];
        let text = match key {
            '\u{1b}' => "<esc>".to_owned(),
            '<' => "<tab>".to_owned(),
            other => other.to_string(),
        };
        harness = harness.keys(&text);
        if i % 7 == 0 {
            harness.size = (1 + (seed >> 20) as u16 % 150, 1 + (seed >> 9) as u16 % 50);
            harness.app.resize(harness.size.0, harness.size.1);
            harness.settle();
        }
        harness.text();
    }
}
