//! The `-e` grammar. An event is `name[:mods]`, `name/terms/mods`, `rHEX`, `pmu/terms/mods`, `mem:ADDR[/LEN][:rwx]` or
//! `system:tracepoint[/terms/]`; groups are `{group}` or `{group}:S`; a list has commas.

use std::ops::Range;
use std::path::Path;

use crate::event::names::perf_names;
use crate::event::names::pmu;
use crate::event::tracepoint;
use crate::kernel::perf_event::attr::{
    Attr, SW_BPF_OUTPUT, TYPE_BREAKPOINT, TYPE_RAW, TYPE_SOFTWARE, TYPE_TRACEPOINT, sample,
};
use crate::lang::Diagnostic;
use crate::lang::lex::{Cursor, Lexicon, Piece, Token};
use crate::lang::quantity::{self, Number};

use pmu::TermError;

use super::{DNS_MESSAGES, Event, MODIFIER_HELP, terms};

/// The directories for name lookups; tests use their own.
#[derive(Clone, Debug)]
pub struct LookupPaths {
    /// The directory of PMUs (`/sys/bus/event_source/devices`).
    pub pmus: std::path::PathBuf,
    /// The tracefs root, or why it cannot be read.
    pub tracefs: Result<std::path::PathBuf, String>,
}

impl LookupPaths {
    /// Returns the running machine's directories.
    pub fn system() -> Self {
        let tracefs = tracepoint::root().map_err(|e| match e.kind() {
            std::io::ErrorKind::PermissionDenied => {
                format!("tracefs is readable by root only: run as root, or {}", tracepoint::LEND)
            }
            _ => "tracefs is not mounted: mount -t tracefs nodev /sys/kernel/tracing".to_owned(),
        });
        Self { pmus: pmu::SYSFS.into(), tracefs }
    }
}

/// The separators of a list; all other characters form names, terms and modifiers.
const LEXICON: Lexicon = Lexicon { marks: &[",", "{", "}", "/"], begins: is_word, goes_on: is_word, ..Lexicon::WORDS };

fn is_word(c: char) -> bool {
    !c.is_whitespace() && !",{}/\"'".contains(c)
}

/// Parses an event list. Names are resolved, so that the result can be opened.
pub fn parse(text: &str, places: &LookupPaths) -> Result<Vec<Event>, Diagnostic> {
    let mut parser = Parser { text, cursor: Cursor::new(text, &LEXICON)?, places, events: Vec::new(), groups: 0 };
    parser.list()?;
    Ok(parser.events)
}

type OwnTerm<'a> = dyn Fn(&str, Option<&str>, &mut Event) -> Result<(), TermError> + 'a;

struct Terms<'a> {
    list: Range<usize>,
    mods_at: usize,
    mods: &'a str,
}

impl Terms<'_> {
    fn end(&self) -> usize {
        self.mods_at + self.mods.len()
    }
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
                event.modify(mods).map_err(|i| Diagnostic::new(self.text, end + 1 + i, 1, MODIFIER_HELP))?;
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
        if is_mem {
            word = self.with_length(at, word);
        }
        if word == DNS_MESSAGES {
            self.events.push(Event { group, ..Event::dns_messages() });
            return Ok(());
        }
        let terms = self.terms(at + word.len())?;
        let (base, rest) = word.split_once(':').unwrap_or((word, ""));
        let mut attr = Attr::default();
        let mut mods = (at + base.len() + 1, rest);
        if let Some((kind, config)) = perf_names::find(base) {
            (attr.kind, attr.config) = (kind, config);
            if terms.is_some() && (kind, config) == (TYPE_SOFTWARE, SW_BPF_OUTPUT) {
                return Err(self.fault(at, word.len(), BPF_OUTPUT));
            }
        } else if is_mem {
            mods = self.breakpoint(at, word, &mut attr)?;
        } else if let Some(config) = raw(base) {
            (attr.kind, attr.config) = (TYPE_RAW, config);
        } else if word.contains(':') {
            return self.tracepoints(at, word, terms, group);
        } else if let Some(terms) = terms {
            return self.pmu_event(at, word, &terms, group);
        } else {
            return Err(self.unknown(at, base));
        }
        let mut event = Event::new(word.to_owned(), attr, group);
        self.modify(&mut event, mods)?;
        if let Some(terms) = terms {
            event.name = self.text[at..terms.end()].to_owned();
            self.apply(&mut event, &terms, &|name, _, _| Err(terms::unknown(base, name)))?;
        }
        self.events.push(event);
        Ok(())
    }

    /// Extends the address of a breakpoint with its length. The length follows a slash like terms do.
    fn with_length(&mut self, at: usize, word: &'a str) -> &'a str {
        let end = at + word.len();
        let rest = self.cursor.peek_at(1).filter(|rest| rest.at == end + 1);
        let Some(Piece { token: Token::Word(rest), .. }) = rest.filter(|_| self.cursor.is_at("/")) else { return word };
        if !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return word;
        }
        self.cursor.skip();
        self.cursor.skip();
        &self.text[at..end + 1 + rest.len()]
    }

    fn terms(&mut self, end: usize) -> Result<Option<Terms<'a>>, Diagnostic> {
        let Some(slash) = self.cursor.peek().filter(|piece| piece.is("/") && piece.at == end) else { return Ok(None) };
        self.cursor.skip();
        let closing = loop {
            match self.cursor.peek() {
                Some(piece) if piece.is("/") => break piece,
                Some(_) => self.cursor.skip(),
                None => return Err(self.cursor.fault_at(slash, "the second / of this event is missing")),
            }
        };
        self.cursor.skip();
        let mods_at = closing.end();
        let mods = self.word_at(mods_at).unwrap_or_default();
        Ok(Some(Terms { list: slash.end()..closing.at, mods_at, mods }))
    }

    /// Applies terms, and the modifiers after them. `own` applies the terms of a specific event type.
    fn apply(&self, event: &mut Event, terms: &Terms<'_>, own: &OwnTerm<'_>) -> Result<(), Diagnostic> {
        for part in LEXICON.split(self.text, terms.list.clone(), ",")? {
            let term = self.text[part.clone()].trim();
            let at = part.start + self.text[part].find(term).unwrap_or(0);
            let (name, value) = term.split_once('=').map_or((term, None), |(name, value)| (name, Some(value)));
            let done = match name {
                "" if value.is_none() => Ok(()),
                _ => terms::set(event, name, value).unwrap_or_else(|| own(name, value, event)),
            };
            done.map_err(|error| {
                let whole = if error.known.is_empty() { term } else { name };
                self.fault(at, whole.len(), error.message).offer(error.known.iter().map(String::as_str))
            })?;
        }
        if let Err(why) = terms::agree(event) {
            return Err(self.fault(terms.list.start, terms.list.len(), why));
        }
        let skip = usize::from(terms.mods.starts_with(':'));
        match &terms.mods[skip..] {
            "" => Ok(()),
            mods => self.modify(event, (terms.mods_at + skip, mods)),
        }
    }

    fn modify(&self, event: &mut Event, (at, mods): (usize, &str)) -> Result<(), Diagnostic> {
        event.modify(mods).map_err(|i| self.fault(at + i, 1, MODIFIER_HELP))
    }

    fn unknown(&self, at: usize, word: &str) -> Diagnostic {
        let known: Vec<String> = perf_names::all().map(|(n, _, _)| n).collect();
        let mut message = format!("unknown event {word}");
        for (system, name) in self.places.tracefs.iter().flat_map(|root| tracepoint::all(root)) {
            if name == word {
                message += &format!("; the tracepoint is {system}:{name}");
            }
        }
        // `perf trace` takes their names.
        if word.parse::<syscalls::Sysno>().is_ok() {
            message +=
                &format!("; for the system call: `perfprof-tui syscalls -e {word}`, or syscalls:sys_enter_{word}");
        }
        self.fault(at, word.len(), message).offer(known.iter().map(String::as_str))
    }

    fn pmu_event(
        &mut self,
        at: usize,
        pmu_name: &str,
        terms: &Terms<'_>,
        group: Option<u32>,
    ) -> Result<(), Diagnostic> {
        let root = &self.places.pmus;
        let kind = pmu::kind(root, pmu_name).ok_or_else(|| {
            let pmus = pmu::all(root);
            let whose = match pmu_name {
                "cpu" | "cpu_core" | "cpu_atom" => ": the counters of an x86 CPU; most virtual machines lack them",
                _ => "",
            };
            self.fault(at, pmu_name.len(), format!("this machine has no PMU {pmu_name}{whose}"))
                .offer(pmus.iter().map(String::as_str))
        })?;
        let name = self.text[at..terms.end()].to_owned();
        let mut event = Event::new(name, Attr { kind, ..Attr::default() }, group);
        self.apply(&mut event, terms, &|name, value, event| {
            let alias = value.is_none().then(|| pmu::alias(root, pmu_name, name)).flatten();
            for (name, value) in alias.unwrap_or_else(|| vec![(name.to_owned(), value.unwrap_or("1").to_owned())]) {
                terms::set(event, &name, Some(&value))
                    .unwrap_or_else(|| pmu::set(root, pmu_name, (&name, &value), &mut event.attr))
                    .map_err(terms::with_names)?;
            }
            Ok(())
        })?;
        self.events.push(event);
        Ok(())
    }

    /// Parses `mem:ADDR[/LEN][:access][:mods]`; returns the position of the modifiers.
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
        let number = number.or_else(|| crate::kernel::kernel_symbols::address(addr));
        attr.config1 = number.ok_or_else(|| {
            let why = "expected an address, such as mem:0x4004a0:x, or a kernel symbol in kallsyms";
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
                self.fault(addr_at + addr.len() + 1, text.len(), "invalid length; expected 1, 2, 4 or 8 bytes")
            })?,
            None if attr.bp_type == 4 => 8,
            None => 4,
        };
        Ok((at + word.len() - mods.len(), mods))
    }

    fn tracepoints(
        &mut self,
        at: usize,
        word: &str,
        terms: Option<Terms<'_>>,
        group: Option<u32>,
    ) -> Result<(), Diagnostic> {
        let mut parts = word.splitn(3, ':');
        let (system, name, mods) =
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let root = self.places.tracefs.as_ref().map_err(|why| {
            self.fault(at, word.len(), format!("tracepoint {system}:{name} cannot be looked up: {why}"))
        })?;
        let matches: Vec<(String, String)> = if [system, name].iter().any(|t| t.contains(['*', '?', '['])) {
            let glob = |t: &str| globset::Glob::new(t).map(|g| g.compile_matcher());
            let (s, n) = (glob(system), glob(name));
            let (Ok(s), Ok(n)) = (s, n) else {
                return Err(self.fault(at, word.len(), "invalid pattern: a bracket is not closed"));
            };
            tracepoint::all(root).into_iter().filter(|(a, b)| s.is_match(a) && n.is_match(b)).collect()
        } else {
            vec![(system.to_owned(), name.to_owned())]
        };
        let before = self.events.len();
        for (system, name) in matches {
            let Ok(id) = tracepoint::id(root, &system, &name) else { continue };
            let attr = Attr { kind: TYPE_TRACEPOINT, config: id, ..Attr::default() };
            let full = if mods.is_empty() { format!("{system}:{name}") } else { format!("{system}:{name}:{mods}") };
            let mut event = Event::new(full, attr, group);
            self.modify(&mut event, (at + word.len() - mods.len(), mods))?;
            event.tracepoint = Some((system, name));
            if let Some(terms) = &terms {
                self.apply(&mut event, terms, &|name, _, _| Err(terms::unknown("a tracepoint", name)))?;
            }
            self.events.push(event);
        }
        if self.events.len() > before {
            return Ok(());
        }
        Err(self.no_tracepoint(root, at, word, system, name))
    }

    fn no_tracepoint(&self, root: &Path, at: usize, word: &str, system: &str, name: &str) -> Diagnostic {
        if perf_names::find(system).is_some() || system.is_empty() {
            return self.unknown(at, word);
        }
        let all: Vec<String> = tracepoint::all(root).into_iter().map(|(s, n)| format!("{s}:{n}")).collect();
        self.fault(at, word.len(), format!("this kernel has no tracepoint {system}:{name}"))
            .offer(all.iter().map(String::as_str))
    }
}

const BPF_OUTPUT: &str = "bpf-output is not supported: only BPF programs that perf itself loads create its samples";

fn raw(word: &str) -> Option<u64> {
    let hex = word.strip_prefix('r')?;
    u64::from_str_radix(hex, 16).ok().filter(|_| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}
