//! A test stage for an analysis unit: synthetic records with known results in, panels out.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use perfprof_tui::event::format::Format;
use perfprof_tui::panel::{self, Panel, Rows};
use perfprof_tui::profile::{Frame, NodeId, Profile, RetainedStack};
use perfprof_tui::record::Record;
use perfprof_tui::session::{DsoKind, MapId, Origin, Session};
use perfprof_tui::source::live::Target;
use perfprof_tui::units::kit::{
    Context, FilteredUnit, LostEvents, Moment, Points, Settings, Spec, ThreadNames, UnitEvent, UnitSample, ViewState,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// A value of a field.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    N(i64),
    T(&'a str),
}

/// A unit and the state that it needs to run.
pub struct Stage {
    pub unit: FilteredUnit,
    pub session: Session,
    pub profile: Profile,
    pub names: ThreadNames,
    /// Threads of this program.
    pub own: FxHashSet<i32>,
    formats: Vec<Option<Arc<Format>>>,
    pub look: ViewState,
    /// The `common_flags` of the next hits.
    pub flags: u8,
    pub now: u64,
    pub since: u64,
    pub points: Points,
    /// A stack with the same symbols at other addresses; every second hit uses the twin.
    twins: FxHashMap<RetainedStack, RetainedStack>,
    hits: u64,
}

/// Start of the session, in nanoseconds of its clock.
pub const START: u64 = 1_000_000_000;

thread_local! {
    /// Options that all units on this thread get in addition to their own.
    static MORE: Cell<&'static [&'static str]> = const { Cell::new(&[]) };
    /// The target of all units on this thread.
    static TARGET: RefCell<Target> = const { RefCell::new(Target::System) };
}

/// Runs scenarios with a target.
pub fn with_target<T>(target: Target, tell: impl FnOnce() -> T) -> T {
    TARGET.set(target);
    let told = tell();
    TARGET.take();
    told
}

/// Runs scenarios with additional unit options.
pub fn with_options<T>(words: &'static [&'static str], tell: impl FnOnce() -> T) -> T {
    MORE.set(words);
    let told = tell();
    MORE.set(&[]);
    told
}

/// Parses options as typed after a unit's name.
pub fn settings(spec: &Spec, words: &[&str]) -> Settings {
    let words: Vec<String> = words.iter().chain(MORE.get()).map(|word| (*word).to_owned()).collect();
    let settings = Settings::parse(&words, spec).unwrap_or_else(|why| panic!("{}: {why}", spec.name));
    settings.within(&TARGET.with_borrow(Target::clone), false)
}

impl Stage {
    pub fn new(spec: &'static Spec, words: &[&str]) -> Self {
        Self::with(spec, settings(spec, words))
    }

    pub fn with(spec: &'static Spec, settings: Settings) -> Self {
        let unit = perfprof_tui::units::make(spec, &settings).unwrap_or_else(|why| panic!("{}: {why}", spec.name));
        let formats = vec![None; unit.event_requests().len()];
        Self {
            unit,
            session: Session::new(Origin::Recorded),
            profile: Profile::default(),
            names: ThreadNames::default(),
            own: FxHashSet::default(),
            formats,
            look: ViewState { rows: 100, ..ViewState::default() },
            flags: 0,
            now: START,
            since: START,
            points: Points::default(),
            twins: FxHashMap::default(),
            hits: 0,
        }
    }

    /// Binds an event to a role, with fields as `kind name` each, e.g. `int pid` or `char comm[16]`.
    pub fn event(&mut self, role: usize, name: &str, fields: &[&str], print: &str) -> &mut Self {
        let (system, event) = name.split_once(':').unwrap_or(("", name));
        let mut text = format!("name: {event}\nID: {}\nformat:\n", role + 100);
        text.push_str("\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n");
        text.push_str("\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n");
        let mut at = 8;
        for field in fields {
            let size = size_of(field);
            let signed = u8::from(!field.starts_with("unsigned"));
            text.push_str(&format!("\tfield:{field};\toffset:{at};\tsize:{size};\tsigned:{signed};\n"));
            at += size;
        }
        text.push_str(&format!("\nprint fmt: {print}\n"));
        let format = Arc::new(Format::parse(system, &text, false).expect("format"));
        self.formats[role] = Some(format.clone());
        let event = UnitEvent { role, number: role as u16, name, format: Some(&format), arch: "" };
        self.unit.bind(&event).unwrap_or_else(|why| panic!("{why}"));
        self
    }

    /// Binds a second event to a role, under another name and number.
    pub fn second(&mut self, role: usize, name: &str, number: u16) -> &mut Self {
        let event = UnitEvent { role, number, name, format: self.formats[role].as_ref(), arch: "" };
        self.unit.bind(&event).unwrap_or_else(|why| panic!("{why}"));
        self
    }

    /// Binds an event without fields.
    pub fn plain(&mut self, role: usize, name: &str) -> &mut Self {
        self.unit
            .bind(&UnitEvent { role, number: role as u16, name, format: None, arch: "" })
            .unwrap_or_else(|why| panic!("{why}"));
        self
    }

    /// A template of a hit: on CPU 0, of thread 1, at a time after the start.
    pub fn hit(&self, role: usize, after: u64) -> UnitSample<'static> {
        UnitSample {
            role,
            event: role as u16,
            time: START + after,
            cpu: 0,
            pid: 1,
            tid: 1,
            period: 1,
            ..UnitSample::default()
        }
    }

    /// Passes the unit a hit with values of its fields.
    pub fn give(&mut self, hit: UnitSample<'_>, values: &[Value<'_>]) {
        if hit.role >= self.formats.len() {
            // The unit does not use the event.
            return;
        }
        let mut raw = vec![0, 0, self.flags, 0, 0, 0, 0, 0];
        if let Some(format) = &self.formats[hit.role] {
            for (field, value) in format.fields.iter().filter(|f| !f.name.starts_with("common_")).zip(values) {
                let mut bytes = match value {
                    Value::N(n) => n.to_le_bytes().to_vec(),
                    Value::T(text) => text.as_bytes().to_vec(),
                };
                bytes.resize(field.size, 0);
                raw.extend(bytes);
            }
        }
        self.give_raw(hit, &raw);
    }

    /// Passes the unit a hit with raw data.
    pub fn give_raw(&mut self, hit: UnitSample<'_>, raw: &[u8]) {
        self.now = self.now.max(hit.time);
        self.hits += 1;
        let twin = self.twins.get(&hit.stack).copied().filter(|_| self.hits.is_multiple_of(2));
        let hit = UnitSample { stack: twin.unwrap_or(hit.stack), ..hit };
        let common = Context::new(&self.session, &mut self.names, &self.own);
        let mut cx = Context { points: Some(&mut self.points), task: Some((hit.pid, hit.tid)), ..common };
        self.unit.record(&UnitSample { raw, ..hit }, &mut cx);
    }

    /// Passes the unit a side-band record.
    pub fn side(&mut self, record: &Record<'_>, after: u64) {
        let mut cx = Context::new(&self.session, &mut self.names, &self.own);
        self.unit.on_sideband(record, START + after, &mut cx);
    }

    /// Passes a record about threads to the session and the unit, like a source.
    pub fn thread(&mut self, record: &Record<'_>, after: u64) {
        self.side(record, after);
        self.session.apply(record, START + after);
    }

    /// Passes the unit a context switch record: a thread starts to run on a CPU.
    pub fn come(&mut self, after: u64, cpu: u32, tid: i32) {
        self.now = self.now.max(START + after);
        let mut cx = Context::new(&self.session, &mut self.names, &self.own);
        self.unit.on_switch_in(cpu, tid, START + after, &mut cx);
    }

    pub fn lose(&mut self, cpu: Option<u32>, from: u64, until: u64, records: u64) {
        self.unit.lost(&LostEvents { cpu, from: START + from, until: START + until, records });
    }

    pub fn call(&mut self, tid: i32, comm: &str) {
        self.names.learn(tid, comm.as_bytes());
    }

    /// A stack of functions, root first.
    ///
    /// Kernel functions end in `_[k]`, and `[broken]` marks the end of an incomplete stack.
    pub fn stack(&mut self, functions: &[&str]) -> RetainedStack {
        let stack = self.stack_at(functions, 0);
        let twin = self.stack_at(functions, 1 << 63);
        self.twins.insert(stack, twin);
        stack
    }

    fn stack_at(&mut self, functions: &[&str], base: u64) -> RetainedStack {
        let app = self.session.dsos.named("/usr/bin/app", DsoKind::File);
        let kernel = self.session.dsos.named("[kernel.kallsyms]", DsoKind::Kernel);
        let cut = self.session.dsos.named("[broken]", DsoKind::Cut);
        let mut node = NodeId::ROOT;
        for function in functions {
            let number = function.bytes().fold(7u64, |n, b| n.wrapping_mul(31).wrapping_add(u64::from(b)));
            let frame = self.profile.frames.intern(Frame { map: MapId::UNKNOWN, caller: false, ip: base ^ number });
            let (name, dso) = match function.strip_suffix("_[k]") {
                Some(name) => (name, &kernel),
                None => (*function, if *function == "[broken]" { &cut } else { &app }),
            };
            self.profile.frames.set_named(frame, dso, name.into());
            node = self.profile.trie.child(node, frame);
        }
        self.profile.pins.hold(node)
    }

    /// Advances the clock.
    pub fn until(&mut self, after: u64) -> &mut Self {
        self.now = self.now.max(START + after);
        self
    }

    /// Settles the unit, so that its panels can be made.
    pub fn settle(&mut self) {
        self.unit.settle(&mut Context::new(&self.session, &mut self.names, &self.own));
    }

    pub fn panels(&mut self) -> Vec<Panel> {
        let at = Moment {
            session: &self.session,
            profile: &self.profile,
            names: &self.names,
            start: START,
            since: self.since,
            now: self.now,
            look: &self.look,
        };
        self.unit.panels(&at)
    }

    pub fn reset(&mut self) {
        self.since = self.now;
        self.unit.reset(self.now);
    }

    /// Returns all panels as text.
    pub fn text(&mut self) -> String {
        self.panels().iter().map(|panel| format!("{}\n", panel.to_text())).collect()
    }
}

fn size_of(field: &str) -> usize {
    if let Some((_, rest)) = field.split_once('[') {
        return rest.trim_end_matches(']').parse().expect("a length");
    }
    match field.trim_start_matches("unsigned ").split(' ').next() {
        Some("char") => 1,
        Some("short") => 2,
        Some("long" | "u64" | "sector_t") => 8,
        _ => 4,
    }
}

/// Returns the rows of a panel.
pub fn rows(panel: &Panel) -> &Rows {
    panel.rows().unwrap_or_else(|| panic!("{} has no rows", panel.title))
}

/// Returns a cell by row number and column name.
pub fn cell<'a>(panel: &'a Panel, row: usize, column: &str) -> &'a panel::Cell {
    let rows = rows(panel);
    let at = rows.table.columns.iter().position(|c| c.name == column);
    let at = at.unwrap_or_else(|| panic!("{} has no column {column}: {:?}", panel.title, rows.table.columns));
    &rows.table.rows[row][at]
}

/// Returns the number in a cell.
pub fn number(panel: &Panel, row: usize, column: &str) -> f64 {
    cell(panel, row, column).raw().parse().unwrap_or(0.0)
}
