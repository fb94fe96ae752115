//! The events that a user names for a unit: `EVENT[/FILTER/ATTRIBUTE/…],EVENT…`, as perf-prof has them.
//!
//! Commas and slashes inside quotes and parentheses divide nothing. Other PMUs' own slashes stay part of the
//! name: only what has a colon before its first slash, or is one of the kernel's own names, is taken apart.

use std::ops::Range;

use super::EventRequest;
use super::joint::{SourceRole, Sources};
use crate::event::{Rate, names};
use crate::lang::Diagnostic;
use crate::lang::lex::Lexicon;

/// An event as it was selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SelectedEvent {
    pub(crate) event: String,
    pub(crate) filter: Option<String>,
    pub(crate) attributes: Vec<(String, String)>,
    /// How it is asked for, and for whom, where a unit stands among the events.
    pub(crate) source: Option<(SourceRole, EventRequest)>,
    /// How often a second it is sampled, where every hit is not wanted.
    pub(crate) hz: Option<u64>,
}

/// Attributes, and whether they have a value.
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
];

impl SelectedEvent {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.attributes.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The text as it is shown.
    pub(crate) fn title(&self) -> &str {
        self.get("alias").unwrap_or(&self.event)
    }

    /// As the engine is asked for it.
    pub(crate) fn want(&self, stack: bool) -> EventRequest {
        if let Some((_, request)) = &self.source {
            return EventRequest { stack: request.stack || stack || self.has("stack"), ..request.clone() };
        }
        let rate = self.hz.filter(|_| !self.event.contains(':')).map(Rate::Frequency);
        let request = EventRequest::new(&*self.event).with_stack(stack || self.has("stack"));
        EventRequest { rate, ..request }.only(self.filter.clone())
    }

    /// Whose event it is, where a unit stands among the events.
    pub(crate) fn source(&self) -> Option<SourceRole> {
        self.source.as_ref().map(|(at, _)| *at)
    }
}

/// The separators of a list and its parts; all else is the event's and the filter's.
const LEXICON: Lexicon =
    Lexicon { marks: &[",", "/", "(", ")"], begins: is_word, goes_on: is_word, numbers: false, hints: &[] };

fn is_word(c: char) -> bool {
    !c.is_whitespace() && !",/()\"'".contains(c)
}

/// Reads a list.
pub(crate) fn parse(text: &str) -> Result<Vec<SelectedEvent>, Diagnostic> {
    parse_with(text, &|_| false)
}

/// Reads a list in which units may stand.
fn parse_with(text: &str, is_unit: &dyn Fn(&str) -> bool) -> Result<Vec<SelectedEvent>, Diagnostic> {
    LEXICON.split(text, 0..text.len(), ",")?.into_iter().map(|part| one(text, part, is_unit)).collect()
}

/// The lists of `-e` with the units among them, each as its own events; those stand first, so that what a unit finds by
/// an event is told before the event itself.
pub(crate) fn joint(settings: &super::Settings) -> Result<(Vec<Vec<SelectedEvent>>, Sources), String> {
    let mut sources = Sources::default();
    let unit = |name: &str| settings.units.iter().find(|spec| spec.name == name);
    let hz = settings.get("frequency").map(|_| settings.hertz("frequency", 0)).transpose()?;
    let mut lists = Vec::new();
    for text in settings.all("event") {
        let parsed = parse_with(text, &|name| unit(name).is_some()).map_err(|fault| format!("-e: {fault}"))?;
        let (mut list, mut plain) = (Vec::new(), Vec::new());
        for one in parsed {
            match unit(&one.event) {
                None => plain.push(SelectedEvent { hz, ..one }),
                Some(spec) => {
                    let events = sources.add(spec, one.filter.as_deref().unwrap_or_default(), settings)?;
                    list.extend(events.into_iter().map(|of| SelectedEvent { source: Some(of), ..one.clone() }));
                }
            }
        }
        list.append(&mut plain);
        lists.push(list);
    }
    Ok((lists, sources))
}

/// All lists of `-e`.
pub(crate) fn lists<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Vec<SelectedEvent>>, String> {
    texts.map(|text| parse(text).map_err(|fault| format!("-e: {fault}"))).collect()
}

/// What is wrong where no event is named.
pub(crate) const NONE: &str = "name events with -e, e.g. -e sched:sched_wakeup,raw_syscalls:sys_enter";

/// All events of all lists; an error where none is named.
pub(crate) fn flat(settings: &super::Settings) -> Result<Vec<SelectedEvent>, String> {
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
    let mut parts = LEXICON.split(text, part, "/")?.into_iter();
    let event = parts.next().map_or("", |name| text[name].trim());
    let is_own_name = || names::find(event).is_some();
    let has_parts = event.contains(':') && !event.starts_with("mem:") || is_own_name() || is_unit(event);
    let Some(filter) = parts.next().filter(|_| has_parts) else {
        return Ok(SelectedEvent { event: whole.to_owned(), ..SelectedEvent::default() });
    };
    let filter = Some(unquoted(&text[filter]).to_owned()).filter(|filter| !filter.is_empty());
    let mut attributes = Vec::new();
    for part in parts.filter(|part| !part.is_empty()) {
        let fault = |message| Diagnostic::new(text, part.start, part.len(), message);
        let typed = &text[part.clone()];
        let (name, value) = typed.split_once('=').map_or((typed, None), |(name, value)| (name, Some(unquoted(value))));
        let name = name.trim().replace('_', "-");
        let Some((known, has_value)) = ATTRIBUTES.iter().find(|(known, _)| *known == name) else {
            let list: Vec<&str> = ATTRIBUTES.iter().map(|(name, _)| *name).collect();
            return Err(fault(format!("there is no attribute {name}; there are {}", list.join(", "))).offer(list));
        };
        if *has_value != value.is_some() {
            return Err(fault(format!("{known} takes {} value", if *has_value { "a" } else { "no" })));
        }
        attributes.push(((*known).to_owned(), value.unwrap_or_default().to_owned()));
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
        for (wrong, at, words) in [
            ("", 0, "an event is missing"),
            ("a:b,,c:d", 4, "an event is missing"),
            ("a:b//nope/", 5, "no attribute nope"),
            ("a:b//top-bye=1/", 5, "nearest: top-by"),
            ("a:b//key/", 5, "key takes a value"),
            ("a:b//stack=1/", 5, "stack takes no value"),
            ("a:b/(/", 4, "this ( is not closed"),
            ("a:b/)/", 4, "this ) has no ("),
            ("a:b/comm~\"x/", 9, "not closed"),
        ] {
            let fault = parse(wrong).expect_err(wrong);
            assert!(fault.at == at && fault.line().contains(words), "{wrong}: {fault}");
        }
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
