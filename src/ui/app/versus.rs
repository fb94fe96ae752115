//! What the view is compared with, how old samples may be, and what leaves the screen as text.

use crate::ingest::offcpu::NAME as OFF_CPU;
use crate::panel::top::{Field, shown};
use crate::panel::unit::clock;
use crate::query::diff::Per;
use crate::query::{Age, Baseline, Order, range};
use crate::session::Origin;
use crate::source::Info;
use crate::ui::prompt::Ask;
use crate::ui::view::flame::draw as drawn;

use crate::ui::app::App;
use crate::ui::app::Effect;
use crate::ui::app::Tab;
use crate::ui::app::range::{clause, label};

/// What the view is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// For the line that says what is shown.
    pub label: String,
    of: Of,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// What came before this time, in nanoseconds from the start.
    Past(u64),
    /// What passed this filter.
    View(Option<String>),
    /// What came in this range of time.
    Range((u64, u64)),
    /// Another recording.
    File,
}

/// What `:window` cycles through.
const WINDOWS: [Age; 3] = [Age::Last(30_000_000_000), Age::All, Age::Half(10_000_000_000)];

/// The samples that count before somebody chooses: of what goes on the last ones, of what is over all.
pub(in crate::ui) fn usual_age(info: &Info) -> Age {
    if info.origin == Origin::Live || info.flows { WINDOWS[0] } else { Age::All }
}

impl App {
    /// Marks now, a filter or a file as the baseline, or takes the baseline away.
    pub(in crate::ui) fn set_baseline(&mut self, text: Option<String>) {
        let Some(text) = text else { return self.mark_now() };
        if text == "off" {
            return self.drop_baseline();
        }
        if let Some(range) = text.strip_prefix("range ").map(|r| range::parse(r, 0, self.answer.elapsed_ns)) {
            return match range.as_deref() {
                Ok(&[range]) => self.compare_range(range),
                Err(wrong @ range::Wrong::Reversed) => self.error(format!("{text}: {wrong}")),
                _ => self.error(format!("{text}: expected range FROM,UNTIL in seconds from the start")),
            };
        }
        match self.parse(&text) {
            Ok(_) => self.compare(Mark { label: text.clone(), of: Of::View(Some(text)) }),
            Err(_) => {
                self.effects.push(Effect::Baseline(text.clone().into()));
                self.say(format!("reading {text}…"));
            }
        }
    }

    fn mark_now(&mut self) {
        if self.info.origin == Origin::Live && self.answer.ended.is_none() {
            let at = self.answer.elapsed_ns;
            self.compare(Mark { label: format!("before {}", clock(at)), of: Of::Past(at) });
            return self.say("marked: from now on against what was before; b marks again, B ends it");
        }
        let label = self.filter.clone().unwrap_or_else(|| "all samples".into());
        self.compare(Mark { label, of: Of::View(self.filter.clone()) });
        self.say("marked: change the filter (f) and see the difference to this; B ends it");
    }

    /// Compares with a range of time.
    pub(in crate::ui) fn compare_range(&mut self, range: (u64, u64)) {
        self.compare(Mark { label: label(range), of: Of::Range(range) });
    }

    /// A file was read to be compared with.
    pub fn baseline_read(&mut self, label: String) {
        self.status = None;
        self.step(|app| app.compare(Mark { label, of: Of::File }));
        self.ask(false);
    }

    fn compare(&mut self, mark: Mark) {
        if self.baseline.is_none() {
            self.columns.splice(0..0, [Field::Delta, Field::Old]);
            self.order_before = Some((self.order, self.reversed));
        }
        self.set_order(Order::Delta);
        self.reversed = false;
        self.baseline = Some(mark);
        self.screen.home();
    }

    pub(in crate::ui) fn drop_baseline(&mut self) {
        if self.baseline.take().is_none() {
            return self.say("nothing is compared: b marks now, :baseline FILE reads a recording");
        }
        self.columns.retain(|f| !matches!(f, Field::Delta | Field::Old));
        let (order, reversed) = self.order_before.take().unwrap_or((Order::SelfTime, false));
        if self.order == Order::Delta {
            self.set_order(order);
            self.reversed = reversed;
        }
        self.screen.home();
    }

    pub(in crate::ui) fn set_per(&mut self, text: Option<String>) {
        let next = match self.per {
            Per::Total => Per::Second,
            Per::Second => Per::Nothing,
            Per::Nothing => Per::Total,
        };
        let named = |text: &str| [Per::Total, Per::Second, Per::Nothing].into_iter().find(|per| per.word() == text);
        self.per = match text.as_deref().map(str::trim) {
            None => next,
            Some(text) => match named(text) {
                Some(per) => per,
                None => return self.error(format!("{text}: expected total, second or nothing")),
            },
        };
        self.say(format!("differences are of {}", self.per.words()));
    }

    pub(in crate::ui) fn set_window(&mut self, text: Option<String>) {
        let Some(text) = text else {
            let at = WINDOWS.iter().position(|a| std::mem::discriminant(a) == std::mem::discriminant(&self.age));
            (self.age, self.age_chosen) = (WINDOWS[(at.unwrap_or(0) + 1) % WINDOWS.len()], true);
            return self.say(age_words(self.age));
        };
        match parse_age(&text) {
            Some(age) => {
                (self.age, self.age_chosen) = (age, true);
                self.say(age_words(age));
            }
            None => self.error(format!("{text}: expected all, last SECONDS or half SECONDS")),
        }
    }

    /// Shows time off the CPUs in the flame graph, beside the time on them.
    pub(in crate::ui) fn toggle_off_cpu(&mut self) {
        let clock = |name: &str| ["cpu-clock", "task-clock"].iter().any(|c| name.starts_with(c));
        let clock = self.answer.events.iter().position(|e| clock(&e.name));
        let Some(off) = self.answer.events.iter().find(|e| e.name == OFF_CPU) else {
            return self.say("no switches are recorded: -e cpu-clock,sched:sched_switch");
        };
        let note = off.note.clone();
        let Some(clock) = clock else {
            return self.say("time on the CPUs needs cpu-clock beside the switches: -e cpu-clock,sched:sched_switch");
        };
        self.off_cpu = !self.off_cpu;
        if self.off_cpu {
            self.event = clock;
            self.say(note.unwrap_or_else(|| "time on the CPUs, and off them where hatched".to_owned()));
        }
    }

    /// All that narrows the view but the range of time: zooms, a filter, idle CPUs, and one clause more.
    fn narrowed(&self, filter: Option<&String>, clause: Option<String>) -> Option<String> {
        let zooms = self.zooms.iter().filter(|z| z.range.is_none()).map(|z| z.expression.clone());
        let idle = self.hide_idle.then(|| "!idle".to_owned());
        joined(zooms.chain(filter.cloned()).chain(idle).chain(clause))
    }

    /// Zooms, a filter and other clauses as one filter.
    pub(in crate::ui) fn joined(
        &self,
        filter: Option<&String>,
        clauses: impl Iterator<Item = String>,
    ) -> Option<String> {
        joined(self.zooms.iter().map(|z| z.expression.clone()).chain(filter.cloned()).chain(clauses))
    }

    /// Everything that narrows the view, as one filter.
    pub fn whole_filter(&self) -> Option<String> {
        joined(self.asked_filter().into_iter().chain(self.range().map(clause)))
    }

    /// The filter of the question, which has the range of time apart.
    pub(in crate::ui) fn asked_filter(&self) -> Option<String> {
        let clause = match self.baseline.as_ref().map(|mark| &mark.of) {
            Some(Of::Past(ns)) => Some(format!("time >= {ns}ns")),
            _ => None,
        };
        self.narrowed(self.filter.as_ref(), clause)
    }

    /// The baseline as part of a question.
    pub(in crate::ui) fn baseline_asked(&self) -> Option<Baseline> {
        if self.off_cpu && self.tab == Tab::Flame {
            let filter = self.asked_filter().and_then(|t| self.parse(&t).ok()).map(std::sync::Arc::new);
            let event = self.answer.events.iter().position(|e| e.name == OFF_CPU);
            return Some(Baseline { event, filter, other: false, per: Per::Nothing, split: None, range: self.range() });
        }
        let mark = self.baseline.as_ref()?;
        let (text, split) = match &mark.of {
            Of::Range(_) => (self.narrowed(self.filter.as_ref(), None), None),
            Of::Past(ns) => (self.narrowed(self.filter.as_ref(), Some(format!("time < {ns}ns"))), Some(*ns)),
            Of::View(filter) => (self.narrowed(filter.as_ref(), None), None),
            Of::File => (self.narrowed(self.filter.as_ref(), None), None),
        };
        let filter = text.and_then(|t| self.parse(&t).ok()).map(std::sync::Arc::new);
        let range = match mark.of {
            Of::Range(range) => Some(range),
            Of::File => None,
            _ => self.range(),
        };
        Some(Baseline { event: None, filter, other: mark.of == Of::File, per: self.per, split, range })
    }

    /// The commands that compare as this view does. The past of a live session cannot be had again.
    fn baseline_command(&self) -> Vec<String> {
        let Some(mark) = &self.baseline else { return Vec::new() };
        let of = match &mark.of {
            Of::Past(_) => return Vec::new(),
            Of::View(None) => "time >= 0".to_owned(),
            Of::View(Some(filter)) => filter.clone(),
            Of::Range((from, until)) => format!("range {},{}", *from as f64 / 1e9, *until as f64 / 1e9),
            Of::File if self.invocation.contains(&mark.label) => String::new(),
            Of::File => mark.label.clone(),
        };
        let mut commands = Vec::new();
        if !of.is_empty() {
            commands.push(format!("baseline {of}"));
        }
        if self.per != Per::Total {
            commands.push(format!("per {}", self.per.word()));
        }
        commands
    }

    /// The columns that say something: another run has other processes.
    pub fn fields(&self) -> Vec<Field> {
        let other = self.baseline.as_ref().is_some_and(|mark| mark.of == Of::File);
        let says = |f: &&Field| !other || !matches!(f, Field::Key(key) if key.entry().of_this_run);
        self.columns.iter().filter(says).copied().collect()
    }

    /// The range of time that is compared with, when it is one.
    pub fn baseline_range(&self) -> Option<(u64, u64)> {
        match self.baseline.as_ref()?.of {
            Of::Range(range) => Some(range),
            Of::Past(ns) => Some((0, ns)),
            Of::View(_) | Of::File => None,
        }
    }

    /// Which samples count by their age, in words.
    pub fn age_shown(&self) -> Option<String> {
        let shown = self.range().is_none() && (self.age_chosen || self.age != Age::All);
        (shown && self.info.has_times()).then(|| age_words(self.age))
    }

    /// The present view as text.
    fn text(&self) -> Option<String> {
        match self.tab {
            Tab::Top => Some(shown(&self.answer.lines, &self.fields()).to_text()),
            Tab::Flame => self.answer.flame.as_ref().map(|flame| drawn::text(self, flame)),
            Tab::Time => self.answer.heat.as_ref().map(|heat| crate::ui::view::time::draw::text(heat)),
            Tab::Cpus => Some(crate::ui::view::cpus::draw::text(self)),
            Tab::Events => Some(crate::ui::view::events::draw::text(self)),
            Tab::Units => Some(crate::ui::view::units::draw::text(self)),
        }
    }

    pub(in crate::ui) fn copy(&mut self) {
        let Some(text) = self.text() else { return };
        self.effects.push(Effect::Copy(text));
        self.say("the view is on the clipboard, as text");
    }

    pub(in crate::ui) fn write(&mut self, path: Option<String>) {
        let Some(path) = path else { return self.ask_for(Ask::Write, String::new()) };
        if let Some(text) = self.text() {
            self.effects.push(Effect::Write(path.into(), text));
        }
    }

    /// The command line that shows this view again, on the clipboard and on the screen.
    pub(in crate::ui) fn copy_command(&mut self) {
        let mut words: Vec<String> = self.invocation.clone();
        // Idle CPUs are hidden by default, so they need no clause.
        if let Some(filter) = self.joined(self.filter.as_ref(), std::iter::empty()) {
            words.extend(["--where".to_owned(), filter]);
        }
        let mut commands = Vec::new();
        if !self.hide_idle {
            commands.push("idle".to_owned());
        }
        let capture = self.answer.events.get(self.event).and_then(|e| e.filter.as_ref());
        if let Some(filter) = capture.filter(|_| !self.invocation.iter().any(|w| w.starts_with("--filter"))) {
            commands.push(format!("capture {filter}"));
        }
        if self.age_chosen {
            commands.push(format!("window {}", age_argument(self.age)));
        }
        commands.extend(self.baseline_command());
        if self.tab == Tab::Time {
            commands.extend([format!("time-rows {}", self.time.by.word())]);
        }
        if self.tab == Tab::Flame {
            commands.push("flame".to_owned());
            commands.extend(self.flame.words());
            commands.extend(self.off_cpu.then(|| "off-cpu".to_owned()));
        }
        let started = self.answer.events.iter().filter(|e| e.meter.is_some()).skip(self.info.events.len());
        commands.extend(started.map(|e| format!("event {}", e.name)));
        match self.tab {
            Tab::Time => commands.insert(0, "time".to_owned()),
            Tab::Cpus => commands.push("cpu-screen".to_owned()),
            Tab::Events => commands.push("events".to_owned()),
            Tab::Units => commands.push("units".to_owned()),
            Tab::Top | Tab::Flame => {}
        }
        commands.extend(self.units.added.iter().map(|unit| format!("unit {unit}")));
        commands.into_iter().for_each(|command| words.extend(["--exec".to_owned(), command]));
        let text = words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ");
        self.effects.push(Effect::Copy(text.clone()));
        self.say(text);
    }
}

fn joined(parts: impl Iterator<Item = String>) -> Option<String> {
    let mut parts: Vec<String> = parts.collect();
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(parts.iter().map(|p| format!("({p})")).collect::<Vec<_>>().join(" && ")),
    }
}

fn age_argument(age: Age) -> String {
    match age {
        Age::All => "all".into(),
        Age::Last(ns) => format!("last {}", ns as f64 / 1e9),
        Age::Half(ns) => format!("half {}", ns as f64 / 1e9),
    }
}

/// A word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn age_words(age: Age) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    match age {
        Age::All => "since start".into(),
        Age::Last(ns) => format!("last {} s", seconds(ns)),
        Age::Half(ns) => format!("decaying, half in {} s", seconds(ns)),
    }
}

fn parse_age(text: &str) -> Option<Age> {
    let mut words = text.split_whitespace();
    let word = words.next()?;
    let ns = words.next().map(|n| n.trim_end_matches('s').parse::<f64>().ok().filter(|s| (0.001..1e6).contains(s)));
    match (word, ns, words.next()) {
        ("all", None, None) => Some(Age::All),
        ("last", Some(Some(s)), None) => Some(Age::Last((s * 1e9) as u64)),
        ("half", Some(Some(s)), None) => Some(Age::Half((s * 1e9) as u64)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_words_of_a_shell() {
        assert_eq!(parse_age("last 5"), Some(Age::Last(5_000_000_000)));
        assert_eq!(parse_age("half 0.5s"), Some(Age::Half(500_000_000)));
        assert_eq!(parse_age("all"), Some(Age::All));
        for bad in ["", "last", "last x", "half -1", "last 1 2", "all 3"] {
            assert_eq!(parse_age(bad), None, "{bad}");
        }
        assert_eq!(quoted("a.data"), "a.data");
        assert_eq!(quoted("comm == \"it's\""), "'comm == \"it'\\''s\"'");
    }
}
