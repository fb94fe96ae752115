//! The formats of a session's tracepoints, recorded or of this machine.

use std::sync::Arc;

use crate::event::base_name;
use crate::event::format::{Format, Formats, strings};
use crate::event::tracepoint;
use crate::filter::{self, TraceField};
use crate::perfdata::EventDesc;
use crate::session::Origin;
use crate::source::Info;

/// Returns an event's index by name, modifiers optional, and its format; `None` if it or its fields are unknown.
pub fn find(info: &Info, name: &str) -> Option<(u16, Format)> {
    among(&info.events, &info.tracing, info.origin, name)
}

/// Returns the tracepoint among some events; `tracing` is the recording's tracing data, which may have its format.
pub fn among(events: &[EventDesc], tracing: &[u8], origin: Origin, name: &str) -> Option<(u16, Format)> {
    let named = |e: &EventDesc| e.name == name || e.name.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    let index = events.iter().position(named)?;
    let config = events[index].attr.config;
    let recorded = Formats::parse(tracing).by_id.remove(&config);
    let format = recorded.or_else(|| (origin == Origin::Live).then(|| of_this_machine(name)).flatten())?;
    Some((index as u16, format))
}

/// Returns the format of a tracepoint, recorded or of this machine.
pub fn format(info: &Info, name: &str) -> Option<Format> {
    let of_machine = || (info.origin == Origin::Live).then(|| of_this_machine(name)).flatten();
    find(info, name).map(|(_, format)| format).or_else(of_machine)
}

/// Returns the fields of all tracepoints and a profile's labels, for filters. A field that is a text in any of them is a
/// text.
pub fn fields(info: &Info, names: &[&str]) -> Vec<TraceField> {
    let labels = |name: &str| Some(Format { name: name.to_owned(), ..info.labels.as_deref()?.clone() });
    let of = |name: &&str| format(info, base_name(name)).or_else(|| labels(name));
    let formats: Vec<Format> = names.iter().filter_map(of).collect();
    filter::trace_fields(formats.iter())
}

pub(crate) fn first_fields(info: &Info) -> Vec<TraceField> {
    fields(info, &info.events.iter().map(|e| e.name.as_str()).collect::<Vec<_>>())
}

pub(super) fn of_this_machine(name: &str) -> Option<Format> {
    let (system, event) = name.split_once(':')?;
    let root = tracepoint::root().ok()?;
    let text = tracepoint::format(&root, system, event).ok()?;
    let text = crate::event::strings::described(system, &text);
    let mut format = Format::parse(system, &text, cfg!(target_endian = "big"))?;
    if format.names_strings() {
        format.strings = Arc::new(strings(&String::from_utf8_lossy(&tracepoint::printk_formats(&root))));
    }
    Some(format)
}
