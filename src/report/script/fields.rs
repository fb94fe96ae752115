//! The fields printed for samples: perf's names, event types, and defaults.

use strum::{EnumIter, EnumString, IntoEnumIterator, IntoStaticStr};

use crate::kernel::attr::{
    self, SW_BPF_OUTPUT, TYPE_BREAKPOINT, TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_RAW, TYPE_SOFTWARE, TYPE_TRACEPOINT,
    sample,
};
use crate::perfdata::EventDesc;

/// A set of fields, as bits of their number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(u64);

const WEIGHTS: u64 = sample::WEIGHT | sample::WEIGHT_STRUCT;

/// A field with perf's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumIter, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub(crate) enum ScriptField {
    Comm,
    Pid,
    Tid,
    Cpu,
    Time,
    Period,
    Event,
    Trace,
    Ip,
    Sym,
    Symoff,
    Dso,
    Srcline,
    Addr,
    DataSrc,
    Weight,
    InsLat,
    Iregs,
    Uregs,
    Brstack,
    Brstacksym,
    Brstackoff,
    #[strum(serialize = "bpf-output")]
    BpfOutput,
    PhysAddr,
    DataPageSize,
    CodePageSize,
    Misc,
    Tod,
    Flags,
    Callindent,
    Synth,
    Ipc,
    Insn,
    Insnlen,
    Srccode,
}

impl ScriptField {
    fn name(self) -> &'static str {
        self.into()
    }

    /// The required part of a sample, with perf's name.
    fn needs(self) -> Option<(u64, &'static str)> {
        Some(match self {
            Self::Cpu => (sample::CPU, "CPU"),
            Self::Time => (sample::TIME, "TIME"),
            Self::Addr => (sample::ADDR, "ADDR"),
            Self::DataSrc => (sample::DATA_SRC, "DATA_SRC"),
            Self::Weight => (WEIGHTS, "WEIGHT"),
            Self::InsLat => (sample::WEIGHT_STRUCT, "WEIGHT_STRUCT"),
            Self::Iregs => (sample::REGS_INTR, "IREGS"),
            Self::Uregs => (sample::REGS_USER, "UREGS"),
            Self::PhysAddr => (sample::PHYS_ADDR, "PHYS_ADDR"),
            Self::DataPageSize => (sample::DATA_PAGE_SIZE, "DATA_PAGE_SIZE"),
            Self::CodePageSize => (sample::CODE_PAGE_SIZE, "CODE_PAGE_SIZE"),
            _ => return None,
        })
    }
}

/// Fields of perf that are not supported, each with an alternative.
const NOT_HERE: &[(&str, &str)] = &[
    ("brstackinsn", "code between branches is not supported; use brstacksym or insn"),
    ("brstackinsnlen", "code between branches is not supported; use insnlen"),
    ("metric", "use `perfprof-tui stat` for ratios"),
];

/// Fields that are not stored with samples, which require a second pass over the records.
const OF_RECORDS: &str = "addr data_src weight ins_lat iregs uregs brstack brstacksym brstackoff bpf-output phys_addr \
                          data_page_size code_page_size misc";

impl FieldSet {
    /// Returns the set of field names in a blank-separated list.
    fn of(names: &str) -> Self {
        Self(names.split_whitespace().filter_map(Self::one).fold(0, |all, one| all | one.0))
    }

    fn one(name: &str) -> Option<Self> {
        name.parse::<ScriptField>().ok().map(|field| Self(1 << field as u64))
    }

    pub(crate) fn has(self, field: ScriptField) -> bool {
        self.0 >> field as u64 & 1 == 1
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn fields(self) -> impl Iterator<Item = ScriptField> {
        ScriptField::iter().filter(move |field| self.has(*field))
    }
}

/// perf's event types, which `-F` selects by a word before a colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Hardware,
    Software,
    Tracepoint,
    HwCache,
    Raw,
    Breakpoint,
    Synthesized,
    Other,
}

const CLASSES: usize = Class::Other as usize + 1;

impl Class {
    fn named(word: &str) -> Option<Self> {
        Some(match word {
            "hw" => Self::Hardware,
            "sw" => Self::Software,
            "trace" => Self::Tracepoint,
            "raw" => Self::Raw,
            "break" => Self::Breakpoint,
            "synth" => Self::Synthesized,
            _ => return None,
        })
    }

    fn of(event: &EventDesc) -> Self {
        match event.attr.kind {
            TYPE_HARDWARE => Self::Hardware,
            TYPE_SOFTWARE => Self::Software,
            TYPE_TRACEPOINT => Self::Tracepoint,
            TYPE_HW_CACHE => Self::HwCache,
            TYPE_RAW => Self::Raw,
            TYPE_BREAKPOINT => Self::Breakpoint,
            _ => Self::Other,
        }
    }

    fn default(self) -> FieldSet {
        let common = FieldSet::of("comm tid cpu time event");
        let code = FieldSet::of("ip sym symoff dso period");
        match self {
            Self::Tracepoint => common.and(FieldSet::of("trace")),
            Self::Synthesized => common.and(code).and(FieldSet::of("synth")).without(FieldSet::of("period")),
            // PMU events may have data about memory accesses.
            Self::Raw => common
                .and(code)
                .and(FieldSet::of("addr data_src weight phys_addr data_page_size code_page_size ins_lat")),
            _ => common.and(code),
        }
    }

    /// Returns the fields that events of the type never have.
    fn invalid(self) -> FieldSet {
        match self {
            Self::Software => FieldSet::of("trace"),
            Self::Tracepoint | Self::Other | Self::Synthesized => FieldSet::default(),
            _ => FieldSet::of("trace bpf-output"),
        }
    }
}

/// The selection of `-F` for one event type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Choice {
    only: Option<FieldSet>,
    plus: FieldSet,
    minus: FieldSet,
}

/// The printed fields, by event type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    choices: [Choice; CLASSES],
}

impl Fields {
    /// Parses lists of `a,b`, `+a,-b` or `sw:a,b`, in order. An error states what is wrong.
    pub(crate) fn parse(lists: &[String]) -> Result<Self, String> {
        let mut fields = Self::default();
        lists.iter().try_for_each(|list| fields.add(list).map_err(|why| format!("-F {list}: {why}")))?;
        Ok(fields)
    }

    fn add(&mut self, list: &str) -> Result<(), String> {
        let (class, words) = match list.split_once(':') {
            Some((word, rest)) => {
                let class = Class::named(word).ok_or_else(|| {
                    format!("{word} is not an event type; available: hw, sw, trace, raw, break and synth")
                })?;
                (Some(class), rest)
            }
            None => (None, list),
        };
        let (mut only, mut plus, mut minus) = (None::<FieldSet>, FieldSet::default(), FieldSet::default());
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let bare = word.trim_start_matches(['+', '-']);
            let one = FieldSet::one(bare).ok_or_else(|| no_field(bare))?;
            match word.as_bytes().first() {
                Some(b'+') => plus = plus.and(one),
                Some(b'-') => minus = minus.and(one),
                _ => only = Some(only.unwrap_or_default().and(one)),
            }
        }
        let is_change = plus.and(minus) != FieldSet::default();
        if only.is_some() && is_change {
            return Err("+ and - change the default fields, so use them for all fields or none".to_owned());
        }
        let chosen = match class {
            Some(class) => std::slice::from_mut(&mut self.choices[class as usize]),
            None => &mut self.choices,
        };
        for choice in chosen {
            if is_change {
                choice.plus = choice.plus.without(minus).and(plus);
                choice.minus = choice.minus.without(plus).and(minus);
            } else {
                *choice = Choice { only: Some(only.unwrap_or_default()), ..Choice::default() };
            }
        }
        Ok(())
    }

    /// Returns the fields of an event's samples. An error names a requested field that the samples do not have. Like in
    /// perf, only the first event of a type must have the field.
    pub(super) fn of_event(&self, event: &EventDesc, is_first: bool) -> Result<FieldSet, String> {
        let class = Class::of(event);
        let choice = self.choices[class as usize];
        let is_bpf_output = event.attr.kind == TYPE_SOFTWARE && event.attr.config == SW_BPF_OUTPUT;
        let own = if is_bpf_output { FieldSet::of("bpf-output") } else { FieldSet::default() };
        let mut set = choice.only.unwrap_or_else(|| class.default().and(own)).and(choice.plus).without(choice.minus);
        // A recorded call chain is printed for tracepoints, too.
        let of_code = FieldSet::of("ip sym symoff dso");
        if choice.only.is_none() && event.attr.sample_type & sample::CALLCHAIN != 0 {
            set = set.and(of_code.without(choice.minus));
        }
        let asked = choice.only.unwrap_or_default().and(choice.plus);
        set = set.without(class.invalid());
        for field in set.fields() {
            let lacks = |bit: u64| event.attr.sample_type & bit == 0 && !event.is_derived();
            let Some((_, part)) = field.needs().filter(|(bit, _)| lacks(*bit)) else { continue };
            if is_first && asked.has(field) {
                let (event, field) = (&event.name, field.name());
                return Err(format!("samples of {event} have no {part}, so {field} cannot be printed"));
            }
            set = set.without(FieldSet(1 << field as u64));
        }
        if set.has(ScriptField::Srcline) && !set.has(ScriptField::Ip) {
            return Err("srcline requires ip".to_owned());
        }
        Ok(set)
    }

    pub(super) fn are_alike(a: &EventDesc, b: &EventDesc) -> bool {
        Class::of(a) == Class::of(b)
    }

    pub(crate) fn wants_lines(&self) -> bool {
        self.has_any("srcline")
    }

    pub(crate) fn wants_code(&self) -> bool {
        self.has_any("insn insnlen srccode")
    }

    /// Returns whether fields that only records have are selected.
    pub(crate) fn wants_records(&self) -> bool {
        self.has_any(OF_RECORDS)
    }

    fn has_any(&self, names: &str) -> bool {
        let wanted = FieldSet::of(names);
        let has = |choice: &Choice| choice.only.unwrap_or_default().and(choice.plus).0 & wanted.0 != 0;
        self.choices.iter().any(has)
    }
}

/// Returns whether an event has record fields by default.
pub(crate) fn has_records(event: &EventDesc) -> bool {
    let is_output = event.attr.kind == TYPE_SOFTWARE && event.attr.config == SW_BPF_OUTPUT;
    let of_memory = sample::ADDR | sample::DATA_SRC | WEIGHTS | sample::PHYS_ADDR | sample::DATA_PAGE_SIZE;
    is_output || event.attr.kind == attr::TYPE_RAW && event.attr.sample_type & of_memory != 0
}

fn no_field(word: &str) -> String {
    if let Some((_, instead)) = NOT_HERE.iter().find(|(name, _)| *name == word) {
        return format!("{word} is not supported: {instead}");
    }
    let names: Vec<&str> = ScriptField::iter().map(ScriptField::name).collect();
    format!("unknown field {word}; available: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::Attr;

    fn event(kind: u32, sample_type: u64) -> EventDesc {
        EventDesc { name: "e".into(), attr: Attr { kind, sample_type, ..Attr::default() }, ids: Vec::new() }
    }

    fn names(lists: &[&str], event: &EventDesc) -> Result<String, String> {
        let lists: Vec<String> = lists.iter().map(|list| (*list).to_owned()).collect();
        let set = Fields::parse(&lists)?.of_event(event, true)?;
        Ok(set.fields().map(ScriptField::name).collect::<Vec<_>>().join(","))
    }

    const ALL: u64 = sample::IP | sample::TID | sample::TIME | sample::CPU;

    #[test]
    fn fields_are_chosen_as_perf_does() {
        let clock = event(TYPE_SOFTWARE, ALL);
        assert_eq!(names(&[], &clock).as_deref(), Ok("comm,tid,cpu,time,period,event,ip,sym,symoff,dso"));
        assert_eq!(names(&["comm,tid"], &clock).as_deref(), Ok("comm,tid"));
        assert_eq!(names(&["+pid,-time,-dso"], &clock).as_deref(), Ok("comm,pid,tid,cpu,period,event,ip,sym,symoff"));
        assert_eq!(names(&["sw:comm,ip"], &clock).as_deref(), Ok("comm,ip"));
        assert_eq!(names(&["sw:"], &clock).as_deref(), Ok(""));
        assert_eq!(names(&["hw:comm,ip", "trace:tid"], &clock), names(&[], &clock));
        assert_eq!(names(&["comm", "sw:tid"], &clock).as_deref(), Ok("tid"));
        let point = event(TYPE_TRACEPOINT, ALL);
        assert_eq!(names(&[], &point).as_deref(), Ok("comm,tid,cpu,time,event,trace"));
        assert_eq!(names(&["trace"], &point).as_deref(), Ok("trace"));
        assert_eq!(names(&["trace"], &clock).as_deref(), Ok(""));
        let chained = event(TYPE_TRACEPOINT, ALL | sample::CALLCHAIN);
        assert_eq!(names(&[], &chained).as_deref(), Ok("comm,tid,cpu,time,event,trace,ip,sym,symoff,dso"));
    }

    #[test]
    fn what_samples_lack_is_left_out_unless_it_was_asked_for() {
        let short = event(TYPE_SOFTWARE, sample::IP | sample::TID);
        assert_eq!(names(&[], &short).as_deref(), Ok("comm,tid,period,event,ip,sym,symoff,dso"));
        assert!(names(&["comm,cpu"], &short).is_err_and(|why| why.contains("have no CPU, so cpu")));
        assert!(names(&["+addr"], &short).is_err_and(|why| why.contains("have no ADDR")));
        for wrong in ["bogus", "comm,+addr", "bogus:comm", "metric", "tid,srcline"] {
            assert!(names(&[wrong], &short).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_second_look_is_taken_only_for_what_records_have() {
        let parse = |list: &str| Fields::parse(&[list.to_owned()]).expect("fields");
        assert!(parse("comm,addr").wants_records() && parse("+misc").wants_records());
        assert!(!parse("comm,ip,srcline").wants_records() && !parse("-addr").wants_records());
        assert!(parse("+srcline").wants_lines() && !parse("ip").wants_lines());
    }
}
