//! The events that a user names for a unit: `EVENT[/FILTER/ATTRIBUTE/…],EVENT…`, as perf-prof has them.
//!
//! Commas and slashes inside quotes and parentheses divide nothing. Other PMUs' own slashes stay part of the
//! name: only what has a colon before its first slash is taken apart.

use super::Want;

/// An event as it was selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    pub event: String,
    pub filter: Option<String>,
    pub attributes: Vec<(String, String)>,
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

impl Selected {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.attributes.iter().filter(move |(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// As it is shown.
    pub fn title(&self) -> &str {
        self.get("alias").unwrap_or(&self.event)
    }

    /// As the engine is asked for it.
    pub fn want(&self, stack: bool) -> Want {
        Want::new(&*self.event).with_stack(stack || self.has("stack")).only(self.filter.clone())
    }
}

/// Reads a list.
pub fn parse(text: &str) -> Result<Vec<Selected>, String> {
    let list: Result<Vec<Selected>, String> = pieces(text, ',')?.into_iter().map(one).collect();
    let list = list?;
    if list.is_empty() || list.iter().any(|selected| selected.event.is_empty()) {
        return Err(format!("-e {text}: expected an event, e.g. sched:sched_switch"));
    }
    Ok(list)
}

/// All lists of `-e`.
pub fn lists<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Vec<Vec<Selected>>, String> {
    texts.map(parse).collect()
}

/// All events of all lists; an error where none is named.
pub fn flat(settings: &super::Settings) -> Result<Vec<Selected>, String> {
    let all: Vec<Selected> = lists(settings.all("event"))?.into_iter().flatten().collect();
    if all.is_empty() {
        return Err("name events with -e, e.g. -e sched:sched_wakeup,raw_syscalls:sys_enter".to_owned());
    }
    Ok(all)
}

fn one(text: &str) -> Result<Selected, String> {
    let text = text.trim();
    let Some((name, rest)) = text.split_once('/').filter(|(name, _)| name.contains(':') && !name.starts_with("mem:"))
    else {
        return Ok(Selected { event: text.to_owned(), ..Selected::default() });
    };
    let mut parts = pieces(rest, '/')?.into_iter();
    let filter = parts.next().map(|filter| unquoted(filter).to_owned()).filter(|filter| !filter.is_empty());
    let mut attributes = Vec::new();
    for part in parts.filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name, Some(unquoted(value))));
        let name = name.trim().replace('_', "-");
        let known = ATTRIBUTES.iter().find(|(known, _)| *known == name);
        let Some((known, has_value)) = known else {
            let list: Vec<&str> = ATTRIBUTES.iter().map(|(name, _)| *name).collect();
            return Err(format!("-e {text}: there is no attribute {name}; there are {}", list.join(", ")));
        };
        if *has_value != value.is_some() {
            return Err(format!("-e {text}: {known} takes {} value", if *has_value { "a" } else { "no" }));
        }
        attributes.push(((*known).to_owned(), value.unwrap_or_default().to_owned()));
    }
    Ok(Selected { event: name.to_owned(), filter, attributes })
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote: char| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    inner('"').filter(|t| !t.contains('"')).or_else(|| inner('\'').filter(|t| !t.contains('\''))).unwrap_or(text)
}

/// Splits at a character that is not inside quotes or parentheses; after a slash of an event, commas are its own
/// until the event's last slash.
fn pieces(text: &str, at: char) -> Result<Vec<&str>, String> {
    let (mut out, mut start, mut depth, mut quote) = (Vec::new(), 0, 0u32, None);
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(') => depth += 1,
            (None, ')') => depth = depth.checked_sub(1).ok_or_else(|| format!("-e {text}: a ) without its ("))?,
            (None, c) if c == at && depth == 0 => {
                out.push(&text[start..i]);
                start = i + c.len_utf8();
            }
            _ => {}
        }
    }
    if quote.is_some() || depth > 0 {
        return Err(format!("-e {text}: a quote or a parenthesis is not closed"));
    }
    out.push(&text[start..]);
    Ok(out)
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
        for wrong in ["", "a:b//nope/", "a:b//key/", "a:b/(/", "a:b/)/", "a:b//stack=1/"] {
            assert!(parse(wrong).is_err(), "{wrong}");
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
