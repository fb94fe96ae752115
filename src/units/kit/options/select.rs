//! The events that a user names for a unit: `EVENT[/FILTER/ATTRIBUTE/…],EVENT…`, as in perf-prof.
//!
//! Commas and slashes inside quotes and parentheses are not separators. The slashes of other PMUs are part of the
//! name: only an event with a colon before its first slash, or one of the kernel's own names, is split.

use std::fmt;
use std::ops::Range;

use globset::Glob;

use crate::event::Rate;
use crate::event::names::perf_names;
use crate::filter::expr;
use crate::lang::Diagnostic;
use crate::lang::lex::Lexicon;
use crate::units::kit::{EventRequest, Settings};

/// The source unit of an event, and the event's role in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceRole {
    pub(crate) source: usize,
    pub(crate) role: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectedEvent {
    pub(crate) event: String,
    pub(crate) filter: Option<String>,
    pub(crate) attributes: Vec<(String, String)>,
    /// Role and request, if a unit is the source of the event.
    pub(crate) source: Option<(SourceRole, EventRequest)>,
    /// Samples per second; `None` takes every hit.
    pub(crate) hz: Option<u64>,
}

/// Attributes, and whether they take a value.
const ATTRIBUTES: &[(&str, bool)] = &[
    ("stack", false),
    ("untraced", false),
    ("alias", true),
    ("key", true),
    ("num", true),
    ("comm", true),
    ("ptr", true),
    ("size", true),
    ("role", true),
    ("top-by", true),
    ("top-add", true),
    ("cpus", true),
    ("max-stack", true),
];

/// Unsupported attributes of perf-prof, with the reason.
const REFUSED: &[(&str, &str)] = &[
    ("exec", "nothing is run for an event; `trace` lists them with all their fields"),
    ("printkey", "keys that the kernel names are shown by name; comm= of top names rows"),
    ("trigger", "figures are printed by -i"),
    ("vm", "guests are measured from within"),
    ("push", "a recording takes events elsewhere: record -o - writes one into a pipe"),
    ("pull", "a recording takes events elsewhere: record -o - writes one into a pipe"),
    ("index", "there are no tables to search"),
];

impl SelectedEvent {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.attributes.retain(|(own, _)| own != name);
        self.attributes.push((name.to_owned(), value));
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.attributes.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn title(&self) -> &str {
        self.get("alias").unwrap_or(&self.event)
    }

    pub(crate) fn want(&self, stack: bool) -> EventRequest {
        if let Some((_, request)) = &self.source {
            return EventRequest { stack: request.stack || stack || self.has("stack"), ..request.clone() };
        }
        if let Some((name, probe)) = probe_of(&self.event) {
            let probed = EventRequest { probe: Some(probe), ..EventRequest::new(name) };
            return probed.with_stack(stack || self.has("stack")).only(self.filter.clone());
        }
        let rate = self.hz.filter(|_| !self.event.contains(':')).map(Rate::Frequency);
        let request = EventRequest::new(&*self.event).with_stack(stack || self.has("stack"));
        EventRequest { rate, ..request }.only(self.filter.clone())
    }

    pub(crate) fn source(&self) -> Option<SourceRole> {
        self.source.as_ref().map(|(at, _)| *at)
    }
}

/// Returns the event's name and the probe that a session creates for it, in perf-prof's notation: `kprobe:FUNCTION`,
/// `uprobe:FUNCTION@"FILE"`, and `kretprobe:`, `uretprobe:` for returns.
fn probe_of(event: &str) -> Option<(String, String)> {
    let (kind, place) = event.split_once(':')?;
    let (kind, returns) = match kind {
        "kretprobe" => ("kprobe", true),
        "uretprobe" => ("uprobe", true),
        other => (other, false),
    };
    let (function, file) = match kind {
        "kprobe" => (place, None),
        "uprobe" => place.split_once('@').map(|(function, file)| (function, Some(unquoted(file))))?,
        _ => return None,
    };
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = function.chars().map(word).chain(if returns { "_ret" } else { "" }.chars()).collect();
    let file = file.map(|file| format!("-x {file} ")).unwrap_or_default();
    let probe = format!("{file}{name}={function}{}", if returns { "%return" } else { "" });
    Some((name, probe))
}

impl fmt::Display for SelectedEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.event)?;
        if self.filter.is_none() && self.attributes.is_empty() {
            return Ok(());
        }
        write!(f, "/{}/", self.filter.as_deref().unwrap_or_default())?;
        for (name, value) in &self.attributes {
            match ATTRIBUTES.iter().any(|(known, has_value)| known == name && *has_value) {
                true if !value.contains('"') => write!(f, "{name}=\"{value}\"/")?,
                true => write!(f, "{name}='{value}'/")?,
                false => write!(f, "{name}/")?,
            }
        }
        Ok(())
    }
}

/// The separators of a list and its parts. All other text belongs to events and filters.
const LEXICON: Lexicon = Lexicon { marks: &[",", "/", "(", ")"], begins: is_word, goes_on: is_word, ..Lexicon::WORDS };

fn is_word(c: char) -> bool {
    !c.is_whitespace() && !",/()\"'".contains(c)
}

pub(crate) fn parse(text: &str) -> Result<Vec<SelectedEvent>, Diagnostic> {
    parse_with(text, &|_| false)
}

/// Parses a list that may contain units.
pub(super) fn parse_with(text: &str, is_unit: &dyn Fn(&str) -> bool) -> Result<Vec<SelectedEvent>, Diagnostic> {
    let mut parts: Vec<Range<usize>> = Vec::new();
    for part in LEXICON.split(text, 0..text.len(), ",")? {
        match parts.last_mut() {
            Some(last) if is_open(&text[last.clone()]) && begins_with_attribute(&text[part.clone()]) => {
                last.end = part.end
            }
            _ => parts.push(part),
        }
    }
    parts.into_iter().map(|part| one(text, part, is_unit)).collect()
}

/// Whether the last `/` of an event's attributes is missing.
fn is_open(event: &str) -> bool {
    event.trim_end().matches('/').count() >= 2 && !event.trim_end().ends_with('/')
}

fn begins_with_attribute(text: &str) -> bool {
    let name = text.split(['=', '/']).next().unwrap_or_default().trim().replace('_', "-");
    ATTRIBUTES.iter().any(|(known, _)| *known == name)
}

/// Parses the lists as typed, with units kept.
pub(crate) fn named(settings: &Settings) -> Result<Vec<Vec<SelectedEvent>>, String> {
    let is_unit = |name: &str| settings.units.iter().any(|spec| spec.name == name);
    settings.all("event").map(|text| parse_with(text, &is_unit).map_err(|fault| format!("-e: {fault}"))).collect()
}

/// The attributes that no unit has to evaluate itself.
const OF_ALL: [&str; 3] = ["stack", "untraced", "alias"];

/// Refuses attributes that a unit would ignore; `taken` are those that it evaluates.
pub(crate) fn check(settings: &Settings, taken: &[&str]) -> Result<(), String> {
    let others = lists(settings.all("alloc").chain(settings.all("free")))?;
    let is_taken = |name: &str| OF_ALL.contains(&name) || taken.contains(&name);
    for one in named(settings)?.iter().chain(&others).flatten() {
        let Some((ignored, _)) = one.attributes.iter().find(|(name, _)| !is_taken(name)) else { continue };
        let known = ATTRIBUTES.iter().filter(|(name, _)| is_taken(name));
        let known: Vec<String> =
            known.map(|(name, takes)| format!("{name}{}", if *takes { "=" } else { "" })).collect();
        return Err(format!("{}: {ignored}= has no effect in this unit; available: {}", one.event, known.join(", ")));
    }
    Ok(())
}

/// Whether an event matches a name with `*` and `?`.
pub(crate) fn is_named(typed: &str, event: &str) -> bool {
    typed == event || Glob::new(typed).is_ok_and(|glob| glob.compile_matcher().is_match(event))
}

/// Returns the filters on a unit's default events, which may be named as in perf-prof. `take` may take other names; the
/// rest are an error.
pub(crate) fn own(
    settings: &Settings,
    own: &[&str],
    mut take: impl FnMut(&SelectedEvent) -> bool,
) -> Result<Vec<Option<String>>, String> {
    let mut filters = vec![None; own.len()];
    for one in lists(settings.all("event"))?.into_iter().flatten().filter(|one| !take(one)) {
        let named = |event: &&str| is_named(&one.event, event);
        if !own.iter().any(named) {
            return Err(format!("{}: its events are {}; multi-trace pairs others", one.event, own.join(", ")));
        }
        let all = own.iter().zip(&mut filters).filter(|(event, _)| named(event));
        all.for_each(|(_, filter)| filter.clone_from(&one.filter));
    }
    Ok(filters)
}

/// Parses all lists of `-e`.
pub(crate) fn lists<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Vec<SelectedEvent>>, String> {
    texts.map(|text| parse(text).map_err(|fault| format!("-e: {fault}"))).collect()
}

pub(crate) const NONE: &str = "name events with -e, e.g. -e sched:sched_wakeup,raw_syscalls:sys_enter";

/// Returns the events of all lists; an error if there are none.
pub(crate) fn flat(settings: &Settings) -> Result<Vec<SelectedEvent>, String> {
    let all: Vec<SelectedEvent> = lists(settings.all("event"))?.into_iter().flatten().collect();
    if all.is_empty() {
        return Err(NONE.to_owned());
    }
    Ok(all)
}

fn one(text: &str, part: Range<usize>, is_unit: &dyn Fn(&str) -> bool) -> Result<SelectedEvent, Diagnostic> {
    let whole = text[part.clone()].trim();
    if whole.is_empty() {
        return Err(Diagnostic::new(text, part.start, 1, "an event is missing here, e.g. sched:sched_switch"));
    }
    if matches!(whole.split(':').next(), Some("uprobe" | "uretprobe")) && !whole.contains('@') {
        return Err(Diagnostic::new(text, part.start, part.len(), "expected uprobe:FUNCTION@\"FILE\""));
    }
    let part_end = part.end;
    let mut parts = LEXICON.split(text, part, "/")?.into_iter();
    let event = parts.next().map_or("", |name| text[name].trim());
    let is_own_name = || perf_names::find(event).is_some();
    let has_parts = event.contains(':') && !event.starts_with("mem:") || is_own_name() || is_unit(event);
    let Some(filter) = parts.next().filter(|_| has_parts).or_else(|| probe_of(event).map(|_| part_end..part_end))
    else {
        return Ok(SelectedEvent { event: whole.to_owned(), ..SelectedEvent::default() });
    };
    let mut filter = Some(unquoted(&text[filter]).to_owned()).filter(|filter| !filter.is_empty());
    let mut attributes = Vec::new();
    let mut typed = Vec::new();
    for part in parts {
        typed.extend(LEXICON.split(text, part, ",")?);
    }
    for part in typed.into_iter().filter(|part| !part.is_empty()) {
        let fault = |message| Diagnostic::new(text, part.start, part.len(), message);
        let typed = &text[part.clone()];
        let (name, value) = typed.split_once('=').map_or((typed, None), |(name, value)| (name, Some(unquoted(value))));
        let name = name.trim().replace('_', "-");
        if let Some((_, why)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
            return Err(fault(format!("{name}: {why}")));
        }
        let Some((known, has_value)) = ATTRIBUTES.iter().find(|(known, _)| *known == name) else {
            let list: Vec<&str> = ATTRIBUTES.iter().map(|(name, _)| *name).collect();
            return Err(fault(format!("unknown attribute {name}; available: {}", list.join(", "))).offer(list));
        };
        if *has_value != value.is_some() {
            return Err(fault(format!("{known} takes {} value", if *has_value { "a" } else { "no" })));
        }
        let value = value.unwrap_or_default();
        match *known {
            // Requests a stack; its depth is a kernel setting.
            "max-stack" => attributes.push(("stack".to_owned(), String::new())),
            "cpus" => {
                let on = format!("cpu in {value}");
                expr::parse(&on).map_err(|_| fault(format!("cpus={value}: expected CPUs, such as 0-3,8")))?;
                filter = Some(filter.map_or(on.clone(), |filter| format!("({filter}) && {on}")));
            }
            _ => attributes.push(((*known).to_owned(), value.to_owned())),
        }
    }
    if probe_of(event).is_some() && !attributes.iter().any(|(name, _)| name == "alias") {
        let shown = event.split('@').next().unwrap_or(event);
        attributes.push(("alias".to_owned(), shown.to_owned()));
    }
    Ok(SelectedEvent { event: event.to_owned(), filter, attributes, ..SelectedEvent::default() })
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').filter(|t| !t.contains('"')).or_else(|| inner('\'').filter(|t| !t.contains('\''))).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;

    #[test]
    fn events_with_filters_and_attributes() {
        let list =
            parse("sched:sched_wakeup/pid>1 && comm~\"a,b*\"/key=pid/stack/,cpu-clock,kmem:kmalloc//size='a/b'/")
                .expect("parses");
        assert_eq!(list[0].filter.as_deref(), Some("pid>1 && comm~\"a,b*\""));
        assert!(list[0].get("key") == Some("pid") && list[0].has("stack") && list[0].want(false).stack);
        assert_eq!((list[1].event.as_str(), list[1].filter.as_ref()), ("cpu-clock", None));
        assert_eq!((list[2].get("size"), list[2].filter.as_ref()), (Some("a/b"), None));
        assert_eq!(parse("cpu/event=0x3c/u").expect("parses")[0].event, "cpu/event=0x3c/u");
        let faults = &parse("page-faults//alias=faults/").expect("parses")[0];
        assert_eq!((faults.event.as_str(), faults.title()), ("page-faults", "faults"), "expressions can name it");
        let of_probe = &parse("uprobe:malloc@\"/lib64/libc.so.6\"//stack/,kretprobe:do_exit").expect("parses");
        let (malloc, exit) = (of_probe[0].want(false), of_probe[1].want(false));
        assert!(malloc.stack && of_probe[0].title() == "uprobe:malloc" && malloc.event == "malloc");
        assert_eq!(malloc.probe.as_deref(), Some("-x /lib64/libc.so.6 malloc=malloc"));
        assert_eq!((&*exit.event, exit.probe.as_deref()), ("do_exit_ret", Some("do_exit_ret=do_exit%return")));
        let of_cpus = &parse("a:b/x>1/cpus=\"0-2\"/max-stack=8/,c:d//cpus=3/").expect("parses");
        assert_eq!(of_cpus[0].filter.as_deref(), Some("(x>1) && cpu in 0-2"));
        assert!(of_cpus[0].has("stack") && of_cpus[1].filter.as_deref() == Some("cpu in 3"));
        let commas = parse("a:b//num=ret,key=comm/,c:d//stack,key='x,y'/,e:f").expect("parses");
        let got: Vec<_> = commas.iter().map(|one| (&*one.event, one.get("num"), one.get("key"))).collect();
        assert_eq!(got, [("a:b", Some("ret"), Some("comm")), ("c:d", None, Some("x,y")), ("e:f", None, None)]);
        let whole = "sched:sched_switch/prev_comm ~ \"a,b\"/key=\"x\"/stack/";
        assert_eq!(parse(whole).expect("parses")[0].to_string(), whole, "as it was typed");
        for (wrong, at, words) in [
            ("", 0, "an event is missing"),
            ("a:b,,c:d", 4, "an event is missing"),
            ("a:b//nope/", 5, "unknown attribute nope"),
            ("a:b//top-bye=1/", 5, "nearest: top-by"),
            ("a:b//key/", 5, "key takes a value"),
            ("a:b//stack=1/", 5, "stack takes no value"),
            ("a:b//exec=printf(1)/", 5, "nothing is run"),
            ("a:b//cpus=0-/", 5, "cpus=0-"),
            ("uprobe:/bin/bash:readline", 0, "uprobe:FUNCTION@"),
            ("a:b/(/", 4, "this ( is not closed"),
            ("a:b/)/", 4, "this ) has no ("),
            ("a:b/comm~\"x/", 9, "not closed"),
        ] {
            let fault = parse(wrong).expect_err(wrong);
            assert!(fault.at == at && fault.line().contains(words), "{wrong}: {fault}");
        }
    }

    #[test]
    fn attributes_without_effect_are_refused() {
        let mut settings = Settings::default();
        settings.set("event", "a:b//key=x/stack/,c:d//num=y/alias=z/");
        assert_eq!(check(&settings, &["key", "num"]), Ok(()));
        let fault = check(&settings, &["key", "top-add"]).expect_err("num= is not evaluated");
        assert!(
            fault.starts_with("c:d: num=") && fault.ends_with("stack, untraced, alias=, key=, top-add="),
            "{fault}"
        );
        settings.set("alloc", "e:f//role=1/");
        assert!(check(&settings, &["key", "num"]).is_err_and(|why| why.starts_with("e:f: role=")));
    }

    #[test]
    fn no_text_panics() {
        const TEXTS: &[&str] = &[
            "sched:sched_wakeup/pid>1 && comm~\"a,b*\"/key=pid/stack/",
            "cpu-clock",
            "kmem:kmalloc//size='a/b'/",
            "cpu/event=0x3c/u",
            "a:b/(x > 1)/,c:d//stack/",
        ];
        damage::reaching(512, 10, damage::texts(TEXTS), |text| parse(&text).is_ok());
    }
}
