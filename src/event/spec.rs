//! The `-e` grammar: `name[:mods]`, `rHEX`, `pmu/terms/mods`, `mem:ADDR[/LEN][:rwx]`,
//! `system:tracepoint`, `{group}`, `{group}:S`, several with commas.

use std::path::Path;

use crate::kernel::attr::{
    Attr, Flag, SW_BPF_OUTPUT, SW_CPU_CLOCK, SW_TASK_CLOCK, TYPE_BREAKPOINT, TYPE_RAW, TYPE_SOFTWARE, TYPE_TRACEPOINT,
    sample,
};
use crate::kernel::bpf::Program;

use crate::lang::Diagnostic;
use crate::lang::lex::{Cursor, Lexicon, Piece, Token};
use crate::lang::quantity::{self, Number};

use super::{names, pmu, tracepoint};

/// The rate of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Samples a second on each CPU.
    Frequency(u64),
    /// One sample each so many occurrences (nanoseconds for clocks); none at all for 0.
    Period(u64),
}

impl Rate {
    /// As an attr has it.
    pub(crate) fn of(attr: &Attr) -> Self {
        if attr.has(Flag::Freq) { Self::Frequency(attr.period_or_freq) } else { Self::Period(attr.period_or_freq) }
    }

    /// In Hz; 0 for a fixed period.
    pub(crate) fn hz(self) -> u64 {
        match self {
            Self::Frequency(hz) => hz,
            Self::Period(_) => 0,
        }
    }
}

/// One event to open, before rates and targets are applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// As typed, without spaces.
    pub name: String,
    pub(crate) attr: Attr,
    /// Events of one number were braced together; `None` for those alone.
    pub(crate) group: Option<u32>,
    /// Whether it takes no samples of its own: those of the first of its group tell what it counted (`:S`).
    pub(crate) is_led: bool,
    /// (system, name) of a tracepoint.
    pub(crate) tracepoint: Option<(String, String)>,
    /// What of it is kept.
    pub(crate) filter: Option<Capture>,
    /// Whether its samples have no call chain though the session's have.
    pub(crate) no_chains: bool,
    /// Whether it is only counted, never sampled.
    pub(crate) no_samples: bool,
    /// The CPUs that it is restricted to; `None` for all that are sampled.
    pub(crate) cpus: Option<Vec<u32>>,
    /// Whether analysis units alone want it: its samples are not kept.
    pub(crate) for_units: bool,
}

impl Event {
    fn new(name: String, attr: Attr, group: Option<u32>) -> Self {
        Self {
            name,
            attr,
            group,
            is_led: false,
            tracepoint: None,
            filter: None,
            no_chains: false,
            no_samples: false,
            cpus: None,
            for_units: false,
        }
    }

    /// Whether it may be sampled less precisely than it asks for: `P` is the most that there is, a number of `p` that
    /// or nothing.
    pub(crate) fn takes_less_precision(&self) -> bool {
        let mods = self.name.rsplit([':', '/']).next().unwrap_or_default();
        !mods.bytes().all(|b| MODIFIERS.contains(&b)) || !mods.contains('p')
    }

    /// The fallback when a machine has no hardware counters.
    pub fn cpu_clock() -> Self {
        let attr = Attr {
            kind: crate::kernel::attr::TYPE_SOFTWARE,
            config: crate::kernel::attr::SW_CPU_CLOCK,
            ..Attr::default()
        };
        Self::new("cpu-clock".into(), attr, None)
    }

    /// An event that never happens, for sessions whose events come later (PERF_COUNT_SW_DUMMY).
    pub(crate) fn dummy() -> Self {
        let attr = Attr { kind: TYPE_SOFTWARE, config: crate::kernel::attr::SW_DUMMY, ..Attr::default() };
        Self { no_samples: true, ..Self::new("dummy".into(), attr, None) }
    }

    /// The default event of perf and of us.
    pub(crate) fn cycles() -> Self {
        let attr = Attr { kind: crate::kernel::attr::TYPE_HARDWARE, ..Attr::default() };
        Self::new("cycles".into(), attr, None)
    }
}

/// A filter that cuts at the source, each part of it where the kernel can decide it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// As it is shown.
    pub(crate) text: String,
    /// In the kernel's language for tracepoints.
    pub trace: Option<String>,
    pub(crate) exclude_user: bool,
    pub(crate) exclude_kernel: bool,
    /// The event is opened on these CPUs only.
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) program: Option<Program>,
    /// Each clause and where it runs.
    pub(crate) clauses: Vec<(String, &'static str)>,
    /// What to know of it.
    pub(crate) note: Option<String>,
}

impl Event {
    /// True if it is a timer.
    pub(crate) fn is_clock(&self) -> bool {
        self.attr.kind == TYPE_SOFTWARE && matches!(self.attr.config, SW_CPU_CLOCK | SW_TASK_CLOCK)
    }

    /// True if its samples have what it, or all of its group, counted so far.
    pub(crate) fn is_read(&self) -> bool {
        self.attr.sample_type & sample::READ != 0
    }

    /// True if it is wanted on a CPU.
    pub(crate) fn wants(&self, cpu: u32) -> bool {
        let has = |list: &Option<Vec<u32>>| list.as_ref().is_none_or(|cpus| cpus.contains(&cpu));
        has(&self.cpus) && self.filter.as_ref().is_none_or(|filter| has(&filter.cpus))
    }

    /// Sets perf's modifier letters in place of those that it has.
    pub(crate) fn set_modifiers(&mut self, letters: &str) -> Result<(), Diagnostic> {
        let mut attr = self.attr.clone();
        for flag in MODIFIED {
            attr.set(flag, false);
        }
        modifiers(&mut attr, letters).map_err(|at| Diagnostic::new(letters, at, 1, MODIFIER_HELP))?;
        if attr.sample_type != self.attr.sample_type {
            let at = letters.find('S').unwrap_or(0);
            return Err(Diagnostic::new(letters, at, 1, "S is of a group from its beginning: -e '{a,b}:S'"));
        }
        // A PMU's event ends in a slash: its letters follow without a colon.
        let (stem, colon) = match self.name.rfind('/') {
            Some(slash) => (&self.name[..=slash], ""),
            None => (super::plain(&self.name), ":"),
        };
        self.name = if letters.is_empty() { stem.to_owned() } else { format!("{stem}{colon}{letters}") };
        self.attr = attr;
        Ok(())
    }

    /// Samples it at a rate of its own.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        let (value, by_time) = match rate {
            Rate::Frequency(hz) => (hz, true),
            Rate::Period(period) => (period, false),
        };
        self.no_samples = value == 0;
        self.attr.period_or_freq = value;
        self.attr.set(Flag::Freq, by_time);
    }

    /// The modifier letters that it has.
    pub(crate) fn modifiers(name: &str) -> &str {
        match name.rfind('/') {
            Some(slash) => name[slash + 1..].trim_start_matches(':'),
            None => name.strip_prefix(super::plain(name)).unwrap_or_default().trim_start_matches(':'),
        }
    }
}

/// The flags that modifier letters decide.
const MODIFIED: [Flag; 8] = [
    Flag::ExcludeUser,
    Flag::ExcludeKernel,
    Flag::ExcludeHv,
    Flag::ExcludeHost,
    Flag::ExcludeGuest,
    Flag::ExcludeIdle,
    Flag::Pinned,
    Flag::Exclusive,
];

/// Places on the machine where names are looked up; tests give their own.
#[derive(Clone, Debug)]
pub struct LookupPaths {
    /// The directory with one directory for each PMU (`/sys/bus/event_source/devices`).
    pub pmus: std::path::PathBuf,
    /// The tracefs root, or why it cannot be read.
    pub tracefs: Result<std::path::PathBuf, String>,
}

impl LookupPaths {
    /// The running machine's places.
    pub fn system() -> Self {
        let tracefs = tracepoint::root().map_err(|e| match e.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "tracefs is readable by root only: run as root, or mount it with gid=".to_owned()
            }
            _ => "tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing".to_owned(),
        });
        Self { pmus: pmu::SYSFS.into(), tracefs }
    }
}

/// The separators of a list; all else makes names, terms and modifiers.
const LEXICON: Lexicon =
    Lexicon { marks: &[",", "{", "}", "/"], begins: is_word, goes_on: is_word, numbers: false, hints: &[] };

fn is_word(c: char) -> bool {
    !c.is_whitespace() && !",{}/\"'".contains(c)
}

/// Parses an event list. Names are looked up, so the result can be opened.
pub fn parse(text: &str, places: &LookupPaths) -> Result<Vec<Event>, Diagnostic> {
    let mut parser = Parser { text, cursor: Cursor::new(text, &LEXICON)?, places, events: Vec::new(), groups: 0 };
    parser.list()?;
    Ok(parser.events)
}

struct Parser<'a> {
    text: &'a str,
    cursor: Cursor<'a>,
    places: &'a LookupPaths,
    events: Vec<Event>,
    groups: u32,
}

impl<'a> Parser<'a> {
    fn fault(&self, at: usize, len: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.text, at, len, message)
    }

    fn list(&mut self) -> Result<(), Diagnostic> {
        loop {
            match self.cursor.peek().filter(|piece| piece.is("{")) {
                Some(open) => self.group(open)?,
                None => self.event(None)?,
            }
            if self.cursor.peek().is_none() {
                return Ok(());
            }
            if !self.cursor.eat(",") {
                return Err(self.cursor.fault("expected a comma between events"));
            }
        }
    }

    fn group(&mut self, open: Piece<'a>) -> Result<(), Diagnostic> {
        let first = self.events.len();
        self.cursor.skip();
        self.groups += 1;
        loop {
            self.event(Some(self.groups))?;
            if self.cursor.is_at("}") {
                break;
            }
            if !self.cursor.eat(",") {
                return Err(self.cursor.fault_at(open, "this group is not closed by }"));
            }
        }
        let end = self.cursor.next("}")?.end();
        if let Some(mods) = self.word_at(end).and_then(|word| word.strip_prefix(':')) {
            for event in &mut self.events[first..] {
                modifiers(&mut event.attr, mods)
                    .map_err(|i| Diagnostic::new(self.text, end + 1 + i, 1, MODIFIER_HELP))?;
            }
        }
        let members = &mut self.events[first..];
        if members.iter().any(Event::is_read) {
            for (i, event) in members.iter_mut().enumerate() {
                event.attr.sample_type |= sample::READ;
                event.is_led = i > 0;
            }
        }
        Ok(())
    }

    /// The word that begins where another token ended, stepped over.
    fn word_at(&mut self, end: usize) -> Option<&'a str> {
        let piece = self.cursor.peek().filter(|piece| piece.at == end)?;
        let Token::Word(word) = piece.token else { return None };
        self.cursor.skip();
        Some(word)
    }

    fn event(&mut self, group: Option<u32>) -> Result<(), Diagnostic> {
        let at = self.cursor.peek().map_or(self.text.len(), |piece| piece.at);
        let Some(mut word) = self.word_at(at) else {
            return Err(self.cursor.fault("an event name is missing here"));
        };
        let is_mem = word.starts_with("mem:");
        let slash = self.cursor.peek().filter(|piece| piece.is("/") && piece.at == at + word.len());
        if let Some(slash) = slash {
            self.cursor.skip();
            if !is_mem {
                return self.pmu_event(at, word, slash, group);
            }
            let rest = self.word_at(slash.end()).unwrap_or_default();
            word = &self.text[at..slash.end() + rest.len()];
        }
        let (base, rest) = word.split_once(':').unwrap_or((word, ""));
        let mut attr = Attr::default();
        let mut mods = (at + base.len() + 1, rest);
        if let Some((kind, config)) = names::find(base) {
            (attr.kind, attr.config) = (kind, config);
        } else if is_mem {
            mods = self.breakpoint(at, word, &mut attr)?;
        } else if let Some(config) = raw(base) {
            (attr.kind, attr.config) = (TYPE_RAW, config);
        } else if word.contains(':') {
            return self.tracepoints(at, word, group);
        } else {
            return Err(self.unknown(at, base));
        }
        modifiers(&mut attr, mods.1).map_err(|i| self.fault(mods.0 + i, 1, MODIFIER_HELP))?;
        self.events.push(Event::new(word.to_owned(), attr, group));
        Ok(())
    }

    fn unknown(&self, at: usize, word: &str) -> Diagnostic {
        let known: Vec<String> = names::all().map(|(n, _, _)| n).collect();
        self.fault(at, word.len(), format!("no event is called {word}")).offer(known.iter().map(String::as_str))
    }

    fn pmu_event(&mut self, at: usize, pmu_name: &str, slash: Piece<'a>, group: Option<u32>) -> Result<(), Diagnostic> {
        let end = loop {
            match self.cursor.peek() {
                Some(piece) if piece.is("/") => break piece,
                Some(_) => self.cursor.skip(),
                None => return Err(self.cursor.fault_at(slash, "the second / of this event is missing")),
            }
        };
        self.cursor.skip();
        let (terms_at, terms) = (slash.end(), &self.text[slash.end()..end.at]);
        let pmus = pmu::all(&self.places.pmus);
        let kind = pmu::kind(&self.places.pmus, pmu_name).ok_or_else(|| match names::find(pmu_name) {
            Some(known) => self.fault(at, pmu_name.len(), without_terms(pmu_name, known)),
            None => self
                .fault(at, pmu_name.len(), format!("this machine has no PMU called {pmu_name}"))
                .offer(pmus.iter().map(String::as_str)),
        })?;
        let mut attr = Attr { kind, ..Attr::default() };
        pmu::apply(&self.places.pmus, pmu_name, terms, &mut attr).map_err(|e| {
            let offset = terms.find(&e.name).unwrap_or(0);
            self.fault(terms_at + offset, e.name.len(), e.message).offer(e.known.iter().map(String::as_str))
        })?;
        let mods = self.word_at(end.end()).unwrap_or_default();
        let skip = usize::from(mods.starts_with(':'));
        modifiers(&mut attr, &mods[skip..]).map_err(|i| self.fault(end.end() + skip + i, 1, MODIFIER_HELP))?;
        self.events.push(Event::new(self.text[at..end.end() + mods.len()].to_owned(), attr, group));
        Ok(())
    }

    /// `mem:ADDR[/LEN][:access][:mods]`; returns where the modifiers stand.
    fn breakpoint<'w>(&self, at: usize, word: &'w str, attr: &mut Attr) -> Result<(usize, &'w str), Diagnostic> {
        let mut parts = word["mem:".len()..].splitn(3, ':');
        let place = parts.next().unwrap_or_default();
        let (addr, len) = place.split_once('/').map_or((place, None), |(a, l)| (a, Some(l)));
        let number = match quantity::literal(addr) {
            Ok(Number::Int(number)) => u64::try_from(number).ok(),
            _ => None,
        };
        let addr_at = at + "mem:".len();
        attr.kind = TYPE_BREAKPOINT;
        let number = number.or_else(|| crate::kernel::procfs::kernel_symbol(addr));
        attr.config1 = number.ok_or_else(|| {
            let why = "expected an address, such as mem:0x4004a0:x, or a symbol of the kernel that kallsyms tells";
            self.fault(addr_at, addr.len(), why)
        })?;
        let second = parts.next();
        let is_access = |t: &str| !t.is_empty() && t.chars().all(|c| "rwx".contains(c));
        let (access, mods) = match second {
            Some(text) if is_access(text) => (text, parts.next().unwrap_or_default()),
            Some(text) => ("rw", text),
            None => ("rw", ""),
        };
        attr.bp_type = access.chars().fold(0, |bits, c| {
            bits | match c {
                'r' => 1,
                'w' => 2,
                _ => 4,
            }
        });
        attr.config2 = match len {
            Some(text) => quantity::count(text).ok().filter(|n| [1, 2, 4, 8].contains(n)).ok_or_else(|| {
                self.fault(addr_at + addr.len() + 1, text.len(), "a breakpoint is 1, 2, 4 or 8 bytes long")
            })?,
            None if attr.bp_type == 4 => 8,
            None => 4,
        };
        Ok((at + word.len() - mods.len(), mods))
    }

    fn tracepoints(&mut self, at: usize, word: &str, group: Option<u32>) -> Result<(), Diagnostic> {
        let mut parts = word.splitn(3, ':');
        let (system, name, mods) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let root = self.places.tracefs.as_ref().map_err(|why| {
            self.fault(at, word.len(), format!("tracepoint {system}:{name} cannot be looked up: {why}"))
        })?;
        let matches: Vec<(String, String)> = if [system, name].iter().any(|t| t.contains(['*', '?', '['])) {
            let glob = |t: &str| globset::Glob::new(t).map(|g| g.compile_matcher());
            let (s, n) = (glob(system), glob(name));
            let (Ok(s), Ok(n)) = (s, n) else { return Err(self.fault(at, word.len(), "this pattern is not closed")) };
            tracepoint::all(root).into_iter().filter(|(a, b)| s.is_match(a) && n.is_match(b)).collect()
        } else {
            vec![(system.to_owned(), name.to_owned())]
        };
        let before = self.events.len();
        for (system, name) in matches {
            let Ok(id) = tracepoint::id(root, &system, &name) else { continue };
            let mut attr = Attr { kind: TYPE_TRACEPOINT, config: id, ..Attr::default() };
            modifiers(&mut attr, mods).map_err(|i| self.fault(at + word.len() - mods.len() + i, 1, MODIFIER_HELP))?;
            let full = if mods.is_empty() { format!("{system}:{name}") } else { format!("{system}:{name}:{mods}") };
            let event = Event::new(full, attr, group);
            self.events.push(Event { tracepoint: Some((system, name)), ..event });
        }
        if self.events.len() > before {
            return Ok(());
        }
        Err(self.no_tracepoint(root, at, word, system, name))
    }

    fn no_tracepoint(&self, root: &Path, at: usize, word: &str, system: &str, name: &str) -> Diagnostic {
        if names::find(system).is_some() || system.is_empty() {
            return self.unknown(at, word);
        }
        let all: Vec<String> = tracepoint::all(root).into_iter().map(|(s, n)| format!("{s}:{n}")).collect();
        self.fault(at, word.len(), format!("this kernel has no tracepoint {system}:{name}"))
            .offer(all.iter().map(String::as_str))
    }
}

const MODIFIER_HELP: &str = "modifiers are u k h (user, kernel, hypervisor), G H (guest, host), I (no idle), p P (precise), D (pinned), e (exclusive), S (the first of a group samples for all)";

/// Why an event that is no PMU's has no terms between slashes.
fn without_terms(name: &str, known: (u32, u64)) -> String {
    match known {
        (TYPE_SOFTWARE, SW_BPF_OUTPUT) => {
            "samples of bpf-output come from BPF programs that perf itself loads, and none are loaded here".to_owned()
        }
        _ => format!("{name} is no PMU, and takes no terms: -F and -c set its rate, --call-graph its call chains"),
    }
}

/// `rHEX`, a raw event of the CPU's PMU.
fn raw(word: &str) -> Option<u64> {
    let hex = word.strip_prefix('r')?;
    u64::from_str_radix(hex, 16).ok().filter(|_| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// perf's modifier letters.
pub(crate) const MODIFIERS: &[u8] = b"ukhGHpPIDeS";

/// Applies perf's modifier letters; the error is the index of the letter at fault.
fn modifiers(attr: &mut Attr, mods: &str) -> Result<(), usize> {
    let picks = |c: char| mods.contains(c);
    let spaces = ['u', 'k', 'h'];
    if spaces.iter().any(|c| picks(*c)) {
        attr.set(Flag::ExcludeUser, !picks('u'));
        attr.set(Flag::ExcludeKernel, !picks('k'));
        attr.set(Flag::ExcludeHv, !picks('h'));
    }
    if picks('G') != picks('H') {
        attr.set(Flag::ExcludeHost, picks('G'));
        attr.set(Flag::ExcludeGuest, picks('H'));
    }
    let precise = mods.matches('p').count();
    attr.set_precise(if picks('P') { 3 } else { precise.min(3) as u8 });
    attr.set(Flag::ExcludeIdle, picks('I'));
    attr.set(Flag::Pinned, picks('D'));
    attr.set(Flag::Exclusive, picks('e'));
    attr.sample_type = attr.sample_type & !sample::READ | if picks('S') { sample::READ } else { 0 };
    match mods.bytes().position(|b| !MODIFIERS.contains(&b)) {
        Some(at) => Err(at),
        None if precise > 3 => Err(mods.rfind('p').unwrap_or(0)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
