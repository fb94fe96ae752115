//! Sort keys and events selected by options.

use crate::engine::offline::Offline;
use crate::kernel::attr::sample;
use crate::perfdata::{EventDesc, LATENCY};
use crate::query::ColumnKey;

use crate::cli::args::SelectionArgs;
use crate::cli::output::complain;
use crate::cli::usage;

pub(crate) fn keys_of(text: &str) -> anyhow::Result<Vec<ColumnKey>> {
    ColumnKey::parse_list(text).map_err(|why| usage(format!("--sort {text}: {why}")))
}

pub(crate) fn is_dummy(event: &EventDesc) -> bool {
    event.is_derived() || event.is_dummy()
}

/// Returns all events except side-band dummies and derived ones, or all events if there are no others.
pub(crate) fn events(loaded: &Offline) -> Vec<usize> {
    let core = loaded.ingest.core();
    let all: Vec<usize> = (0..core.events.len()).collect();
    let real: Vec<usize> = all.iter().copied().filter(|i| !is_dummy(&core.events[*i])).collect();
    if real.is_empty() { all } else { real }
}

/// Returns the event to use when a command takes only one of several: the first in the recording's order that has
/// samples and call chains, else the first with samples.
pub(crate) fn main_event(loaded: &Offline, events: &[usize]) -> Option<usize> {
    let core = loaded.ingest.core();
    let mut sampled = vec![false; core.events.len()];
    for (chunk, range) in core.profile.between(0, u64::MAX) {
        chunk.event[range].iter().for_each(|event| sampled[usize::from(*event)] = true);
    }
    let has_chains = |event: &usize| core.events[*event].attr.sample_type & sample::CALLCHAIN != 0;
    let mut with_samples = events.iter().copied().filter(|event| sampled[*event]);
    let first = with_samples.clone().find(has_chains);
    first.or_else(|| with_samples.next()).or(events.first().copied())
}

pub(crate) fn note_main_event(what: &str, loaded: &Offline, event: usize, events: &[usize]) {
    let rest: Vec<&str> = events.iter().filter(|i| **i != event).map(|i| loaded.event_names[*i].as_str()).collect();
    if !rest.is_empty() {
        let name = &loaded.event_names[event];
        complain(&format!("{what} is {name}; choose another with --event: {}", rest.join(", ")));
    }
}

/// Refuses recordings without the latency profile.
pub(crate) fn check_latency(loaded: &Offline) -> anyhow::Result<()> {
    if loaded.event_names.iter().any(|name| name == LATENCY) {
        return Ok(());
    }
    Err(usage("the recording has no context switches of the clock's threads; use record --latency"))
}

pub(crate) fn chosen_events(loaded: &Offline, which: &SelectionArgs) -> anyhow::Result<Vec<usize>> {
    let all = events(loaded);
    let Some(want) = &which.event else { return Ok(all) };
    // Full names have precedence over names without modifiers, and these over prefixes.
    let is_wanted: [fn(&str, &str) -> bool; 3] = [
        |name, want| name == want,
        |name, want| name.split(':').next() == Some(want),
        |name, want| name.starts_with(want),
    ];
    // Derived events are selected only by name.
    let core = loaded.ingest.core();
    let derived: Vec<usize> = (0..core.events.len()).filter(|event| core.events[*event].is_derived()).collect();
    let among = |list: &[usize]| {
        let by = |is: &fn(&str, &str) -> bool| {
            list.iter().copied().filter(|i| is(&loaded.event_names[*i], want)).collect::<Vec<_>>()
        };
        is_wanted.iter().map(by).find(|chosen| !chosen.is_empty())
    };
    let chosen = among(&all).or_else(|| among(&derived)).unwrap_or_default();
    if chosen.is_empty() && !all.is_empty() {
        let names: Vec<&str> = all.iter().chain(&derived).map(|i| loaded.event_names[*i].as_str()).collect();
        return Err(usage(format!("--event {want}: no such event; the recording has {}", names.join(", "))));
    }
    Ok(chosen)
}
