//! Conditions for noteworthy moments: `softirq% > 30 on any cpu for 2s`, `runqueue > 2*cpus`, `psi.cpu > 20`,
//! `lost > 0`, `sched:sched_switch > 50k`, joined by `&&`.

use std::collections::BTreeMap;
use std::fmt;

use crate::lang::lex::{Cursor, Lexicon, Piece, Token};
use crate::lang::{Diagnostic, quantity};
use crate::machine::sampler::{CpuRow, HostView};
use crate::machine::triage::{self, Area, MachineFinding, Severity, TriageInput};
use crate::session::machine::Ticks;

/// A share of a CPU's time in the last interval, in percent.
type Share = fn(&CpuRow) -> f32;

const SHARES: &[(&str, Share)] = &[
    ("busy%", |row| row.busy()),
    ("user%", |row| row.shares[Ticks::USER] + row.shares[Ticks::NICE]),
    ("system%", |row| row.shares[Ticks::SYSTEM]),
    ("irq%", |row| row.shares[Ticks::IRQ]),
    ("softirq%", |row| row.shares[Ticks::SOFTIRQ]),
    ("iowait%", |row| row.shares[Ticks::IOWAIT]),
    ("steal%", |row| row.shares[Ticks::STEAL]),
    ("idle%", |row| row.shares[Ticks::IDLE]),
    ("missing%", |row| row.missing),
];

/// A figure of the whole machine or the session; `None` if unknown.
type Figure = fn(&TriggerInput<'_>) -> Option<f64>;

const WHOLES: &[(&str, Figure)] = &[
    // Runnable tasks, including running ones, and tasks that wait for a disk.
    ("runqueue", |facts| facts.host.map(|host| host.running as f64)),
    ("blocked", |facts| facts.host.map(|host| host.blocked as f64)),
    // Packets that network devices dropped per second.
    ("drops", |facts| facts.host.map(|host| f64::from(host.drops.0 + host.drops.1))),
    // Samples lost since the last check, and samples per second.
    ("lost", |facts| Some(facts.lost as f64)),
    ("samples", |facts| Some(facts.samples)),
];

const PRESSURES: &[&str] = &["cpu", "io", "irq", "memory"];

#[derive(Clone, Debug, PartialEq)]
enum Metric {
    /// An index into [`SHARES`].
    Share(usize),
    /// Softirqs of a vector per second, on a CPU.
    Vector(String),
    /// An index into [`WHOLES`].
    Whole(usize),
    /// Percent of the last ten seconds in which some task waited for the resource.
    Pressure(String),
    /// The number of bad findings of an area, or of all.
    Findings(Option<Area>),
    /// Hits of an event per second.
    Event(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Any,
    All,
    One(u32),
}

/// A comparison: whether greater figures satisfy it, and whether the value itself does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Op {
    above: bool,
    or_equal: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Condition {
    metric: Metric,
    name: String,
    op: Op,
    value: f64,
    /// Whether the value is multiplied by the number of CPUs.
    each_cpu: bool,
    on: On,
    /// The time that it must hold, in nanoseconds.
    lasts: u64,
}

/// The figures that a trigger evaluates, about once a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TriggerInput<'a> {
    /// Nanoseconds of CLOCK_MONOTONIC.
    pub(crate) now: u64,
    pub(crate) host: Option<&'a HostView>,
    /// Samples lost since the last check.
    pub(crate) lost: u64,
    /// Samples per second.
    pub(crate) samples: f64,
    /// Hits per second by event.
    pub(crate) events: &'a [(String, f64)],
}

/// A trigger, and since when its conditions hold.
#[derive(Clone, Debug)]
pub struct Trigger {
    text: String,
    conditions: Vec<Condition>,
    /// For each condition, the CPUs (or [`EVERYWHERE`]) on which it holds, and since when.
    since: Vec<BTreeMap<u32, u64>>,
}

/// The whole machine in the place of a CPU.
const EVERYWHERE: u32 = u32::MAX;

/// Conditions are joined by `&&`; all other tokens are words.
const LEXICON: Lexicon = Lexicon {
    marks: &["&&", ">=", "<=", ">", "<"],
    begins: is_word,
    goes_on: is_word,
    hints: &[
        ('&', "conditions are joined by &&"),
        ('=', COMPARED),
        ('!', COMPARED),
        ('|', "repeat --trigger for an alternative"),
    ],
    ..Lexicon::WORDS
};
const COMPARED: &str = "expected one of > >= < <=";

fn is_word(c: char) -> bool {
    !c.is_whitespace() && !"&=!<>|\"'".contains(c)
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Trigger {
    /// Parses a condition of `--trigger`.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        let mut cursor = Cursor::new(text, &LEXICON)?;
        let mut conditions = vec![condition(&mut cursor)?];
        while cursor.eat("&&") {
            conditions.push(condition(&mut cursor)?);
        }
        match cursor.peek() {
            Some(piece) => Err(cursor.fault_at(piece, "unexpected text; expected on, for or &&")),
            None => {
                Ok(Self { text: text.trim().to_owned(), since: vec![BTreeMap::new(); conditions.len()], conditions })
            }
        }
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &str> {
        self.conditions.iter().filter_map(|condition| match &condition.metric {
            Metric::Event(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// Applies new figures; returns a description while all conditions hold.
    pub(crate) fn look(&mut self, facts: TriggerInput<'_>) -> Option<String> {
        let mut words = Vec::new();
        for (condition, since) in self.conditions.iter().zip(&mut self.since) {
            let holding = condition.holding(facts);
            since.retain(|cpu, _| holding.iter().any(|(known, _)| known == cpu));
            for (cpu, _) in &holding {
                since.entry(*cpu).or_insert(facts.now);
            }
            let long = |cpu: &u32| since.get(cpu).is_some_and(|then| facts.now - then >= condition.lasts);
            let worst = holding.iter().filter(|(cpu, _)| long(cpu)).max_by(|a, b| condition.compare(a.1, b.1));
            words.extend(worst.map(|(cpu, value)| condition.describe(*cpu, *value, facts)));
        }
        (words.len() == self.conditions.len()).then(|| words.join(" && "))
    }
}

impl Condition {
    fn holding(&self, facts: TriggerInput<'_>) -> Vec<(u32, f64)> {
        let rows: &[CpuRow] = facts.host.map_or(&[], |host| &host.rows);
        let online = rows.iter().filter(|row| row.online).count();
        let limit = self.value * if self.each_cpu { online.max(1) as f64 } else { 1.0 };
        let Op { above, or_equal } = self.op;
        let holds = |value: f64| (if above { value > limit } else { value < limit }) || or_equal && value == limit;
        let by_cpu = |figure: &dyn Fn(&CpuRow) -> Option<f64>| -> Vec<(u32, f64)> {
            let wanted = |row: &&CpuRow| row.online && !matches!(self.on, On::One(cpu) if cpu != row.cpu);
            let all: Vec<(u32, f64)> =
                rows.iter().filter(wanted).filter_map(|row| Some((row.cpu, figure(row)?))).collect();
            let held: Vec<(u32, f64)> = all.iter().copied().filter(|(_, value)| holds(*value)).collect();
            match self.on {
                On::All if held.len() == all.len() && !all.is_empty() => {
                    vec![(EVERYWHERE, all.iter().map(|(_, value)| value).sum::<f64>() / all.len() as f64)]
                }
                On::All => Vec::new(),
                _ => held,
            }
        };
        let whole =
            |value: Option<f64>| value.filter(|value| holds(*value)).map(|v| (EVERYWHERE, v)).into_iter().collect();
        match &self.metric {
            Metric::Share(which) => by_cpu(&|row| Some(f64::from(SHARES[*which].1(row)))),
            Metric::Vector(name) => {
                let at = facts.host.and_then(|host| host.vectors.iter().position(|vector| **vector == **name));
                by_cpu(&|row| row.vectors.get(at?).map(|rate| f64::from(*rate)))
            }
            Metric::Whole(which) => whole(WHOLES[*which].1(&facts)),
            Metric::Pressure(name) => {
                let found = facts.host.and_then(|host| host.pressure.iter().find(|(known, _)| known == name));
                whole(found.map(|(_, pressure)| f64::from(pressure.some)))
            }
            Metric::Findings(area) => whole(facts.host.map(|host| bad(host, *area).len() as f64)),
            Metric::Event(name) => {
                let found = facts.events.iter().find(|(known, _)| crate::event::base_name(known) == name);
                whole(found.map(|(_, rate)| *rate))
            }
        }
    }

    fn compare(&self, a: f64, b: f64) -> std::cmp::Ordering {
        if self.op.above { a.total_cmp(&b) } else { b.total_cmp(&a) }
    }

    fn describe(&self, cpu: u32, value: f64, facts: TriggerInput<'_>) -> String {
        let place = match (cpu, self.on) {
            (EVERYWHERE, On::All) => " on all CPUs".to_owned(),
            (EVERYWHERE, _) => String::new(),
            (cpu, _) => format!(" on CPU {cpu}"),
        };
        let digits = if value.fract() == 0.0 { 0 } else { 1 };
        let lasts = if self.lasts > 0 { format!(" for {} s", self.lasts as f64 / 1e9) } else { String::new() };
        let worst = match (&self.metric, facts.host) {
            (Metric::Findings(area), Some(host)) => {
                bad(host, *area).first().map(|found| format!(" ({})", found.text()))
            }
            _ => None,
        };
        format!("{} {value:.digits$}{place}{lasts}{}", self.name, worst.unwrap_or_default())
    }
}

/// Returns the bad findings of an area in the present, the worst first.
fn bad(host: &HostView, area: Option<Area>) -> Vec<MachineFinding> {
    let range = triage::present(&host.history);
    let mut list = triage::findings(&TriageInput::new(&host.history, range));
    list.retain(|found| found.severity == Severity::Bad && area.is_none_or(|area| found.cause.area() == area));
    list
}

/// Parses `NAME OP VALUE[*cpus] [on any cpu|on all cpus|on cpu N] [for TIME]`.
fn condition(cursor: &mut Cursor<'_>) -> Result<Condition, Diagnostic> {
    let (place, name) = word(cursor, "a figure, such as softirq%")?;
    let metric = metric(place, name, cursor)?;
    let sign = [">=", "<=", ">", "<"].into_iter().find(|sign| cursor.eat(sign));
    let sign = sign.ok_or_else(|| cursor.fault("a comparison is missing: NAME > VALUE"))?;
    let op = Op { above: sign.starts_with('>'), or_equal: sign.ends_with('=') };
    let (place, typed) = word(cursor, "a value")?;
    let (value, each_cpu) = value(typed).map_err(|why| cursor.fault_at(place, why))?;
    let mut condition = Condition { metric, name: name.to_owned(), op, value, each_cpu, on: On::Any, lasts: 0 };
    while let Some(piece) = cursor.peek() {
        match piece.token {
            Token::Word("on") if !matches!(condition.metric, Metric::Share(_) | Metric::Vector(_)) => {
                return Err(cursor.fault(format!("{name} is a figure of the whole machine; remove `on`")));
            }
            Token::Word("on") => {
                cursor.skip();
                condition.on = on(cursor)?;
            }
            Token::Word("for") => {
                cursor.skip();
                let (place, lasts) = word(cursor, "a time, as 2s, 500ms or 1m,")?;
                condition.lasts = quantity::time(lasts).map_err(|why| cursor.fault_at(place, why.to_string()))?;
            }
            _ => break,
        }
    }
    Ok(condition)
}

fn word<'t>(cursor: &mut Cursor<'t>, what: &str) -> Result<(Piece<'t>, &'t str), Diagnostic> {
    let piece = cursor.next(what)?;
    match piece.token {
        Token::Word(word) => Ok((piece, word)),
        _ => Err(cursor.fault_at(piece, format!("expected {what} here"))),
    }
}

/// Parses the CPUs that follow `on`.
fn on(cursor: &mut Cursor<'_>) -> Result<On, Diagnostic> {
    const EXPECTED: &str = "any cpu, all cpus or cpu N";
    let (place, first) = word(cursor, EXPECTED)?;
    let (next, second) = word(cursor, if first == "cpu" { "the number of a CPU" } else { EXPECTED })?;
    match (first, second) {
        ("any", "cpu") => Ok(On::Any),
        ("all", "cpus") => Ok(On::All),
        ("cpu", number) => {
            let number =
                quantity::count(number).map_err(|_| cursor.fault_at(next, format!("{number} is not a CPU number")))?;
            Ok(On::One(number))
        }
        _ => Err(cursor.fault_at(place, format!("expected {EXPECTED} here"))),
    }
}

fn metric(place: Piece<'_>, name: &str, cursor: &Cursor<'_>) -> Result<Metric, Diagnostic> {
    if let Some(at) = SHARES.iter().position(|row| row.0 == name) {
        return Ok(Metric::Share(at));
    }
    if let Some(at) = WHOLES.iter().position(|row| row.0 == name) {
        return Ok(Metric::Whole(at));
    }
    if let Some(resource) = name.strip_prefix("psi.").filter(|name| PRESSURES.contains(name)) {
        return Ok(Metric::Pressure(resource.to_owned()));
    }
    if let Some(area) = name.strip_prefix("findings") {
        // Changes and sleep are never bad.
        let mut areas = Area::ALL.into_iter().filter(|area| !matches!(area, Area::Changed | Area::Waits));
        let found = areas.find(|known| area.strip_prefix('.') == Some(known.word()));
        if area.is_empty() || found.is_some() {
            return Ok(Metric::Findings(found));
        }
    }
    if let Some(vector) = name.strip_prefix("softirq.").filter(|name| !name.is_empty()) {
        return Ok(Metric::Vector(vector.to_owned()));
    }
    if name.split_once(':').is_some_and(|(system, event)| !system.is_empty() && !event.is_empty()) {
        return Ok(Metric::Event(name.to_owned()));
    }
    let known: Vec<&str> = SHARES.iter().map(|row| row.0).chain(WHOLES.iter().map(|row| row.0)).collect();
    let why = format!(
        "unknown condition {name}; available: {}, psi.cpu|io|irq|memory, findings or findings.AREA, softirq.VECTOR or an event SYSTEM:NAME",
        known.join(", ")
    );
    Err(cursor.fault_at(place, why).offer(known))
}

fn value(word: &str) -> Result<(f64, bool), String> {
    let (number, each_cpu) = word.strip_suffix("*cpus").map_or((word, word == "cpus"), |number| (number, true));
    let value = match number {
        "cpus" => Ok(1.0),
        share if share.ends_with('%') => quantity::share(share),
        number => quantity::number(number),
    };
    value.map(|value| (value, each_cpu)).map_err(|_| format!("{word} is not a number"))
}

#[cfg(test)]
mod tests;
