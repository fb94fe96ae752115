//! The selection shared by all screens: event, filter, zooms, time ranges, baseline, and order of rows.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashSet;

use crate::event::base_name;
use crate::filter::{Filter, KnownFields, TraceField, all_of};
use crate::perfdata::OFF_CPU_TIME;
use crate::query::diff::NormalizeBy;
use crate::query::rows::partner::PairKind;
use crate::query::rows::top_table::TopField;
use crate::query::{Age, Baseline, ChainMode, ColumnKey, Direction, Order, Question, TopSpec, WallTime};
use crate::session::Origin;
use crate::source::Info;
use crate::symbols::NameForm;
use crate::ui::state::range::{Ranges, clause};
use crate::ui::state::{SessionContext, Start, Tab};
use crate::units::kit::waits::idle_filter::idle_sleep;

/// A reversible step into the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zoom {
    /// The label in the breadcrumb.
    pub(crate) label: String,
    pub(crate) to: ZoomTarget,
}

/// The samples that a zoom shows. Its kind determines the zooms that it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ZoomTarget {
    Clause(Arc<Filter>),
    /// Those of one CPU.
    Cpu(Arc<Filter>),
    /// A range of time.
    Range((u64, u64)),
}

impl Zoom {
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        match self.to {
            ZoomTarget::Range(range) => Some(range),
            ZoomTarget::Clause(_) | ZoomTarget::Cpu(_) => None,
        }
    }

    /// Returns its filter, unless it is a range of time.
    pub(crate) fn filter(&self) -> Option<&Filter> {
        match &self.to {
            ZoomTarget::Clause(filter) | ZoomTarget::Cpu(filter) => Some(filter),
            ZoomTarget::Range(_) => None,
        }
    }

    fn text(&self) -> String {
        match &self.to {
            ZoomTarget::Clause(filter) | ZoomTarget::Cpu(filter) => filter.text().to_owned(),
            ZoomTarget::Range(range) => clause(*range),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparedWith {
    /// The label in the header.
    pub(crate) label: String,
    pub(crate) of: BaselineSource,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BaselineSource {
    Past(u64),
    View(Option<Arc<Filter>>),
    Range((u64, u64)),
    File(PathBuf),
}

impl BaselineSource {
    fn is_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// The subject of a message, so that a dismissed message does not return.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BannerSubject {
    /// A CPU, if any, and its anomaly.
    Anomaly(Option<u32>, String),
    /// The process and the threads of a deadlock.
    Deadlock(i32, Vec<i32>),
    /// The path of an unsymbolized DSO.
    Unnamed(String),
    /// Stacks that exceed the copied size.
    Cut,
    /// The age of the view.
    Late,
}

/// The windows that `:window` cycles through.
pub(crate) const WINDOWS: [Age; 3] = [Age::Last(30_000_000_000), Age::All, Age::Half(10_000_000_000)];

/// The default age of samples: the latest ones for a running source, otherwise all.
fn usual_age(info: &Info) -> Age {
    if info.origin == Origin::Live || info.flows { WINDOWS[0] } else { Age::All }
}

/// Figures of pairs of events with their columns and orders. The first one that is shown is asked.
pub(crate) const PAIRS: [(PairKind, TopField, Order); 2] =
    [(PairKind::Latency, TopField::Latency, Order::Latency), (PairKind::Ipc, TopField::Ipc, Order::Ipc)];

/// Grouping, order and expanded rows of the table.
#[derive(Debug)]
pub(crate) struct RowChoice {
    pub(crate) columns: Vec<TopField>,
    /// Columns of pairs of events that were added automatically. Once the user removes one, it is not added again.
    pub(crate) offered: Vec<TopField>,
    /// Whether the user selected the sort keys.
    pub(crate) sorted: bool,
    pub(crate) order: Order,
    pub(crate) reversed: bool,
    pub(crate) children: bool,
    pub(crate) direction: Direction,
    pub(crate) chain_mode: ChainMode,
    pub(crate) limit: f64,
    /// Ids of rows whose expansion differs from the default.
    pub(crate) toggled: HashSet<u64>,
    pub(crate) expand_all: bool,
}

impl RowChoice {
    /// Sorts rows. Call chains then lead to the origin of the figure: callers for self time, callees for children.
    pub(crate) fn set_order(&mut self, order: Order) {
        if (self.order == Order::Children) != (order == Order::Children) {
            let inclusive = order == Order::Children;
            self.direction = if inclusive { Direction::Callees } else { Direction::Callers };
        }
        self.order = order;
    }

    /// Sorts by a column; again, it reverses the order.
    pub(crate) fn order_by(&mut self, field: TopField) {
        let order = match field {
            TopField::Children => Order::Children,
            TopField::SelfTime | TopField::Period => Order::SelfTime,
            TopField::Samples => Order::Samples,
            TopField::Delta | TopField::Old | TopField::Mode(_) => Order::Delta,
            TopField::Ipc => Order::Ipc,
            TopField::Latency => Order::Latency,
            TopField::Key(key) => Order::By(key),
        };
        self.reversed = self.order == order && !self.reversed;
        self.set_order(order);
    }

    /// Sorts by the next (1) or previous (-1) column.
    pub(crate) fn move_order(&mut self, step: isize) {
        let at = self.columns.iter().position(|f| *f == self.order_field()).unwrap_or(0) as isize;
        self.order_by(self.columns[(at + step).rem_euclid(self.columns.len() as isize) as usize]);
        self.reversed = false;
    }

    /// Returns the columns that rows are grouped by.
    pub(crate) fn keys(&self) -> impl Iterator<Item = ColumnKey> + '_ {
        self.columns.iter().filter_map(|field| if let TopField::Key(key) = field { Some(*key) } else { None })
    }

    pub(crate) fn order_field(&self) -> TopField {
        match self.order {
            Order::Children => TopField::Children,
            Order::SelfTime => TopField::SelfTime,
            Order::Samples => TopField::Samples,
            Order::Delta => TopField::Delta,
            Order::Ipc => TopField::Ipc,
            Order::Latency => TopField::Latency,
            Order::By(key) => TopField::Key(key),
        }
    }

    /// Adds the column of a pair of events after the shares if the event has it, unless the user has removed it.
    pub(crate) fn offer(&mut self, column: TopField, order: Order, is_told: bool) {
        let (is_shown, was_offered) = (self.columns.contains(&column), self.offered.contains(&column));
        if is_told && !is_shown && !was_offered {
            let last = self.columns.iter().rposition(|field| matches!(field, TopField::SelfTime | TopField::Children));
            self.columns.insert(last.map_or(0, |at| at + 1), column);
            self.offered.push(column);
        }
        if !is_told && is_shown {
            self.columns.retain(|field| *field != column);
            if self.order == order {
                (self.order, self.reversed) = (Order::SelfTime, false);
            }
        }
        self.offered.retain(|field| is_told || *field != column);
    }
}

/// The selection.
#[derive(Debug)]
pub struct Selection {
    pub(crate) event: usize,
    pub(crate) filter: Option<Arc<Filter>>,
    pub zooms: Vec<Zoom>,
    pub(crate) ranges: Ranges,
    pub hide_idle: bool,
    pub(crate) age: Age,
    pub(crate) age_chosen: bool,
    pub(crate) baseline: Option<ComparedWith>,
    pub(crate) per: NormalizeBy,
    /// Whether percentages are of the machine's CPU time rather than of what is shown.
    pub(crate) of_machine: bool,
    /// The order of rows before the comparison.
    pub(crate) order_before: Option<(Order, bool)>,
    /// Whether time off the CPUs counts together with the event's time on them.
    pub(crate) off_cpu: bool,
    pub(crate) rows: RowChoice,
    /// The format of symbols, and whether inlined functions are frames.
    pub(crate) form: NameForm,
    pub(crate) inlined: bool,
    pub(crate) frozen: bool,
    pub(crate) refresh: Duration,
    /// Percentage points that a CPU must exceed the others by to be a finding.
    pub(crate) points: f64,
    pub(crate) dismissed: HashSet<BannerSubject>,
}

impl Selection {
    pub(crate) fn new(info: &Info, start: &Start, fields: &[TraceField]) -> Self {
        // Fields of tracepoints that are added later are not known yet.
        let parse = |text: &str| {
            let known = Filter::parse_with(text, KnownFields::These(fields));
            known.or_else(|_| Filter::parse_with(text, KnownFields::Any)).ok()
        };
        let children = start.children && info.chains;
        let mut columns = start.columns.clone();
        if !children {
            columns.retain(|f| *f != TopField::Children);
        }
        Self {
            event: 0,
            filter: start.filter.as_deref().and_then(parse).map(Arc::new),
            zooms: Vec::new(),
            ranges: Ranges::default(),
            hide_idle: true,
            age: usual_age(info),
            age_chosen: false,
            baseline: None,
            per: NormalizeBy::Total,
            of_machine: false,
            order_before: None,
            off_cpu: false,
            rows: RowChoice {
                columns,
                offered: Vec::new(),
                sorted: start.sorted,
                order: Order::SelfTime,
                reversed: false,
                children,
                direction: Direction::Callers,
                chain_mode: ChainMode::Graph,
                limit: start.limit,
                toggled: HashSet::new(),
                expand_all: false,
            },
            form: start.form,
            inlined: start.inlined,
            frozen: false,
            refresh: start.refresh,
            points: start.points,
            dismissed: HashSet::new(),
        }
    }

    /// Returns the question shared by all screens, to which a view adds its own part. `asked` is the previous one.
    pub(crate) fn question(&self, context: &SessionContext, tab: Tab, asked: &Question) -> Question {
        Question {
            generation: asked.generation,
            event: self.event,
            wall: self.wall_time(context, tab),
            filter: self.asked_filter(context),
            range: self.range(),
            baseline: self.baseline_asked(context, tab),
            // A time range already determines the samples.
            age: if self.range().is_some() { Age::All } else { self.age },
            top: TopSpec {
                keys: self.rows.keys().collect(),
                children: self.rows.children,
                order: self.rows.order,
                reversed: self.rows.reversed,
                origins: self.takes_origins(context),
            },
            direction: self.rows.direction,
            chain_mode: self.rows.chain_mode,
            of_machine: self.of_machine,
            limit_percent: self.rows.limit,
            toggled: self.rows.toggled.clone(),
            expand_all: self.rows.expand_all,
            ..Question::default()
        }
    }

    /// Whether rows use the first caller outside of the code of tracepoints and of the scheduler.
    pub(crate) fn takes_origins(&self, context: &SessionContext) -> bool {
        let name = context.answer.events.get(self.event).map(|event| base_name(&event.name));
        let is_traced = name.is_some_and(|name| name.contains(':'));
        !self.rows.sorted && context.info.chains && (is_traced || self.shows_sleep(context))
    }

    /// Returns the selected time range, in nanoseconds from the session's start.
    pub fn range(&self) -> Option<(u64, u64)> {
        self.zooms.iter().rev().find_map(Zoom::range)
    }

    /// Whether the view is filtered by more than the exclusion of idle CPUs.
    pub(crate) fn is_narrowed(&self) -> bool {
        self.filter.is_some() || !self.zooms.is_empty()
    }

    /// Returns the time off the CPUs that counts, too. The flame graph has it as the other part of a comparison.
    fn wall_time(&self, context: &SessionContext, tab: Tab) -> Option<WallTime> {
        let sample_ns = context.sample_ns(self.event);
        let off_cpu = if tab == Tab::Flame { sample_ns.map(|_| self.event) } else { context.off_cpu_event() };
        let off_cpu = off_cpu.filter(|_| self.off_cpu)?;
        Some(WallTime { off_cpu, sample_ns })
    }

    /// Whether the time off the CPUs is shown that a live session keeps.
    pub(crate) fn shows_sleep(&self, context: &SessionContext) -> bool {
        let event = if self.off_cpu { context.off_cpu_event() } else { Some(self.event) };
        event.and_then(|event| context.answer.events.get(event)).is_some_and(|event| event.name == OFF_CPU_TIME)
    }

    /// Combines all filters except the time range: zooms, a filter, what is idle, and one more clause.
    fn narrowed(
        &self,
        context: &SessionContext,
        filter: Option<&Arc<Filter>>,
        clause: Option<String>,
    ) -> Option<Arc<Filter>> {
        let sleep = self.shows_sleep(context).then(|| format!("!(event == {OFF_CPU_TIME} && ({}))", idle_sleep()));
        let idle = [Some("!idle".to_owned()), sleep].into_iter().flatten().filter(|_| self.hide_idle);
        let own: Vec<Filter> = idle.chain(clause).filter_map(|text| Filter::parse(&text).ok()).collect();
        let zooms = self.zooms.iter().filter_map(Zoom::filter);
        Filter::all(zooms.chain(filter.map(|filter| &**filter)).chain(&own)).map(Arc::new)
    }

    /// Returns the zooms and the filter as one text.
    pub(crate) fn filter_text(&self) -> Option<String> {
        self.text_of(|_| true)
    }

    /// Returns the zooms and the filter that another run can use; the times of a live session mean nothing there.
    pub(crate) fn repeatable_filter(&self, context: &SessionContext) -> Option<String> {
        let is_live = context.info.origin == Origin::Live;
        self.text_of(|zoom| !is_live || zoom.range().is_none())
    }

    fn text_of(&self, has: impl Fn(&Zoom) -> bool) -> Option<String> {
        let zooms = self.zooms.iter().filter(|zoom| has(zoom)).map(Zoom::text);
        all_of(zooms.chain(self.filter.as_ref().map(|filter| filter.text().to_owned())).collect())
    }

    fn asked_filter(&self, context: &SessionContext) -> Option<Arc<Filter>> {
        let clause = match self.baseline.as_ref().map(|mark| &mark.of) {
            Some(BaselineSource::Past(ns)) => Some(format!("time >= {ns}ns")),
            _ => None,
        };
        self.narrowed(context, self.filter.as_ref(), clause)
    }

    fn baseline_asked(&self, context: &SessionContext, tab: Tab) -> Option<Baseline> {
        if self.off_cpu && tab == Tab::Flame {
            let event = context.off_cpu_event();
            let (filter, range, per) = (self.asked_filter(context), self.range(), NormalizeBy::Nothing);
            return Some(Baseline { event, filter, other: false, per, split: None, range });
        }
        let mark = self.baseline.as_ref()?;
        let own = self.filter.as_ref();
        let narrowed = |filter: Option<&Arc<Filter>>, clause| self.narrowed(context, filter, clause);
        let (filter, split, range) = match &mark.of {
            BaselineSource::Past(ns) => (narrowed(own, Some(format!("time < {ns}ns"))), Some(*ns), self.range()),
            BaselineSource::View(filter) => (narrowed(filter.as_ref(), None), None, self.range()),
            BaselineSource::Range(range) => (narrowed(own, None), None, Some(*range)),
            BaselineSource::File(_) => (narrowed(own, None), None, None),
        };
        Some(Baseline { event: None, filter, other: mark.of.is_file(), per: self.per, split, range })
    }

    /// Returns the commands that reproduce the comparison. The past of a live session is not reproducible.
    pub(crate) fn baseline_command(&self, context: &SessionContext) -> Vec<String> {
        let Some(mark) = &self.baseline else { return Vec::new() };
        let of = match &mark.of {
            BaselineSource::Past(_) => return Vec::new(),
            BaselineSource::Range(_) if context.info.origin == Origin::Live => return Vec::new(),
            BaselineSource::View(None) => "time >= 0".to_owned(),
            BaselineSource::View(Some(filter)) => filter.text().to_owned(),
            BaselineSource::Range((from, until)) => format!("range {},{}", *from as f64 / 1e9, *until as f64 / 1e9),
            BaselineSource::File(path) if context.invocation.baseline.as_ref() == Some(path) => String::new(),
            BaselineSource::File(path) => path.display().to_string(),
        };
        let mut commands = Vec::new();
        if !of.is_empty() {
            commands.push(format!("baseline {of}"));
        }
        if self.per != NormalizeBy::Total {
            commands.push(format!("per {}", self.per.word()));
        }
        commands
    }

    /// Returns the visible columns, without those that cannot be compared between runs.
    pub(crate) fn fields(&self) -> Vec<TopField> {
        let other = self.baseline.as_ref().is_some_and(|mark| mark.of.is_file());
        let says = |f: &&TopField| !other || !matches!(f, TopField::Key(key) if key.entry().of_this_run);
        self.rows.columns.iter().filter(says).copied().collect()
    }

    /// Returns the end of the baseline, if the comparison is with the earlier samples of this session.
    pub(crate) fn compared_past(&self) -> Option<u64> {
        match self.baseline.as_ref()?.of {
            BaselineSource::Past(ns) => Some(ns),
            BaselineSource::Range(_) | BaselineSource::View(_) | BaselineSource::File(_) => None,
        }
    }

    /// Returns the time range of the baseline, if it is one.
    pub(crate) fn baseline_range(&self) -> Option<(u64, u64)> {
        match self.baseline.as_ref()?.of {
            BaselineSource::Range(range) => Some(range),
            BaselineSource::Past(ns) => Some((0, ns)),
            BaselineSource::View(_) | BaselineSource::File(_) => None,
        }
    }
}

pub(crate) fn describe_age(age: Age) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    match age {
        Age::All => "since start".into(),
        Age::Last(ns) => format!("last {} s", seconds(ns)),
        Age::Half(ns) => format!("decaying, half in {} s", seconds(ns)),
    }
}
