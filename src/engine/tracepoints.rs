//! The formats of a session's own tracepoints, wherever it comes from.

use crate::event::format::{Format, Formats};
use crate::event::tracepoint;
use crate::perfdata::EventDesc;
use crate::session::Origin;
use crate::source::Info;

/// The index of an event by its name, with or without modifiers, and its format; `None` when it is
/// not recorded or its fields are not known.
pub fn find(info: &Info, name: &str) -> Option<(u16, Format)> {
    among(&info.events, &info.tracing, info.origin, name)
}

/// The same among some events, of which recorded tracing data may tell the formats.
pub fn among(events: &[EventDesc], tracing: &[u8], origin: Origin, name: &str) -> Option<(u16, Format)> {
    let named = |e: &EventDesc| e.name == name || e.name.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'));
    let index = events.iter().position(named)?;
    let config = events[index].attr.config;
    let recorded = Formats::parse(tracing).by_id.remove(&config);
    let format = recorded.or_else(|| (origin == Origin::Live).then(|| of_this_machine(name)).flatten())?;
    Some((index as u16, format))
}

/// The format of a tracepoint, recorded or of this machine.
pub fn format(info: &Info, name: &str) -> Option<Format> {
    let of_machine = || (info.origin == Origin::Live).then(|| of_this_machine(name)).flatten();
    find(info, name).map(|(_, format)| format).or_else(of_machine)
}

fn of_this_machine(name: &str) -> Option<Format> {
    let (system, event) = name.split_once(':')?;
    let text = tracepoint::root().and_then(|root| tracepoint::format(&root, system, event)).ok()?;
    Format::parse(system, &text, cfg!(target_endian = "big"))
}
