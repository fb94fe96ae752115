//! The events that units request: their names, and the kernel events that provide them.

use crate::event::spec::LookupPaths;
use crate::event::{Event, Rate, base_name, parse};
use crate::filter::capture;
use crate::kernel::attr::{Flag, sample};
use crate::source::{SharedEvents, SharedProbe};
use crate::units::kit::EventRequest;

/// Returns an event's first name, without the alternatives.
pub fn shown(event: &str) -> &str {
    event.split('|').next().unwrap_or(event)
}

/// Returns whether an event is the one that a unit requests: by its name without modifiers, a probe by the name of its
/// function. Alternatives are separated by bars.
pub(crate) fn is_named(want: &EventRequest, name: &str) -> bool {
    // A request with modifiers must match exactly.
    let exact = |wanted: &str| base_name(wanted) != wanted && wanted == name;
    if want.event.split('|').any(exact) {
        return true;
    }
    let name = base_name(name);
    let own = |wanted: &str| {
        let part = wanted.strip_prefix('~');
        wanted == name
            || part.is_some_and(|part| name.contains(part))
            || is_pattern(wanted) && matches(wanted, name)
            || want.probe.is_some() && name.split_once(':').is_some_and(|(_, event)| event == wanted)
    };
    want.event.split('|').any(own)
}

pub(super) fn is_pattern(event: &str) -> bool {
    event.contains(['*', '?', '[']) && event.contains(':')
}

fn matches(pattern: &str, name: &str) -> bool {
    let part =
        |pattern: &str, text: &str| globset::Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(text));
    let (Some((systems, events)), Some((system, event))) = (pattern.split_once(':'), name.split_once(':')) else {
        return false;
    };
    part(systems, system) && part(events, event)
}

/// Returns the kernel's events for the units' requests: each event once, with the settings that all of them need. With
/// `machine_wide`, they are measured on the whole machine, regardless of the target.
pub fn shared(wants: &[EventRequest], machine_wide: bool) -> Result<SharedEvents, String> {
    let places = LookupPaths::system();
    let mut out = SharedEvents { machine_wide, ..SharedEvents::default() };
    let mut seen: Vec<&str> = Vec::new();
    for want in wants {
        if seen.contains(&want.event.as_str()) {
            continue;
        }
        seen.push(&want.event);
        let same: Vec<&EventRequest> = wants.iter().filter(|other| other.event == want.event).collect();
        let stack = same.iter().any(|want| want.stack);
        let filters: Option<Vec<&str>> = same.iter().map(|want| want.filter.as_deref()).collect();
        let filter = filters.map(|mut list| {
            list.dedup();
            if list.len() == 1 { list[0].to_owned() } else { format!("({})", list.join(") || (")) }
        });
        if let Some(probe) = &want.probe {
            out.probes.push(SharedProbe { definition: probe.clone(), chains: stack, optional: want.optional });
            continue;
        }
        let mut events = match parse(shown(&want.event), &places) {
            Ok(events) => events,
            Err(_) if want.optional => continue,
            Err(fault) => return Err(fault.line()),
        };
        for event in &mut events {
            prepare(event, want, stack);
            event.machine_wide = machine_wide;
            // A unit without sums, or with other ones, needs each hit.
            let is_same = same.iter().all(|other| other.summed == want.summed);
            event.summed = want.summed.clone().filter(|_| is_same);
            event.is_batched = same.iter().all(|other| other.is_batched);
            // A filter that the kernel cannot evaluate is evaluated when the record arrives; counts have no records.
            let is_counted = same.iter().any(|want| want.counted);
            if event.tracepoint.is_some() && filter.is_some() {
                let set = capture::set(event, filter.as_deref(), &places);
                set.or_else(|fault| if is_counted { Err(fault.line()) } else { Ok(()) })?;
            } else if is_counted && filter.is_some() {
                return Err(format!("{} has no fields to filter its counts by; use -p, -t or -C", event.name));
            }
            if event.tracepoint.is_none() && want.capture.is_some() {
                capture::set(event, want.capture.as_deref(), &places).map_err(|fault| fault.line())?;
            }
        }
        let needed = same.iter().any(|want| !want.optional);
        (if needed { &mut out.events } else { &mut out.optional }).append(&mut events);
    }
    Ok(out)
}

/// Returns the rate of an event whose unit requests none: every hit, except for clocks and events of the PMU, where a
/// hit is a nanosecond or a cycle.
fn default_rate(event: &Event) -> Rate {
    const HZ: u64 = 999;
    if event.is_clock() || event.is_of_pmu() { Rate::Frequency(HZ) } else { Rate::Period(1) }
}

fn prepare(event: &mut Event, want: &EventRequest, stack: bool) {
    event.for_units = true;
    event.no_chains = !stack;
    if want.memory {
        event.attr.sample_type |= sample::ADDR | sample::WEIGHT | sample::DATA_SRC;
    }
    if want.registers != 0 {
        event.attr.sample_type |= sample::REGS_USER;
        event.attr.regs_user |= want.registers;
    }
    event.attr.set(Flag::TextPoke, want.text_poke);
    match want.rate {
        _ if want.counted => event.set_rate(Rate::Period(0)),
        Some(rate) => event.set_rate(rate),
        None if event.attr.period_or_freq == 0 => event.set_rate(default_rate(event)),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample per nanosecond of each CPU stops the machine.
    #[test]
    fn clocks_and_cycles_are_sampled_at_a_rate_and_other_events_at_every_hit() {
        let rate_of = |name: &str, want: EventRequest| {
            let mut event = parse(name, &LookupPaths::system()).expect("an event").remove(0);
            prepare(&mut event, &want, false);
            event.own_rate()
        };
        let asked = |name: &str| rate_of(name, EventRequest::new(name.to_owned()));
        for name in ["cpu-clock", "task-clock:u", "cycles", "instructions:k", "cache-misses", "r1a8"] {
            assert_eq!(asked(name), Some(Rate::Frequency(999)), "{name}");
        }
        for name in ["page-faults", "context-switches", "mem:0x1000:w"] {
            assert_eq!(asked(name), Some(Rate::Period(1)), "{name}");
        }
        assert_eq!(asked("cycles/period=5000/"), Some(Rate::Period(5000)), "the user's own");
        let hertz = EventRequest { rate: Some(Rate::Frequency(50)), ..EventRequest::new("cpu-clock") };
        assert_eq!(rate_of("cpu-clock", hertz), Some(Rate::Frequency(50)));
        assert_eq!(rate_of("cpu-clock", EventRequest::new("cpu-clock").counted()), Some(Rate::Period(0)));
    }
}
