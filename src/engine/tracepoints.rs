//! The formats of a session's own tracepoints, wherever it comes from.

use crate::event::format::{Format, Formats};
use crate::event::tracepoint;
use crate::session::Origin;
use crate::source::Info;

/// The index of an event by its name, with or without modifiers, and its format; `None` when it is
/// not recorded or its fields are not known.
pub fn find(info: &Info, name: &str) -> Option<(u16, Format)> {
    let named = |e: &crate::perfdata::EventDesc| {
        e.name == name || e.name.strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))
    };
    let index = info.events.iter().position(named)?;
    let config = info.events[index].attr.config;
    let recorded = Formats::parse(&info.tracing).by_id.remove(&config);
    let format = recorded.or_else(|| (info.origin == Origin::Live).then(|| of_this_machine(name)).flatten())?;
    Some((index as u16, format))
}

fn of_this_machine(name: &str) -> Option<Format> {
    let (system, event) = name.split_once(':')?;
    let text = tracepoint::root().and_then(|root| tracepoint::format(&root, system, event)).ok()?;
    Format::parse(system, &text, cfg!(target_endian = "big"))
}
