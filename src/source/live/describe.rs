//! The description of the running machine as a source: its events, CPUs and target.

use std::ops::Range;

use crate::kernel::attr::{Flag, sample};
use crate::kernel::{cpus, procfs, walk};
use crate::perfdata::EventDesc;
use crate::session::Origin;
use crate::source::Info;
use crate::source::hosts::SourceHost;

use super::Target;
use super::attach::Attachment;
use super::attr;

/// Returns an event for the profile: the whole chain, from the kernel or our program; its frame limit if not default.
pub(super) fn desc(a: &Attachment, i: usize) -> EventDesc {
    let own = a.fresh_ids.iter().filter(|fresh| usize::from(fresh.event) == i);
    let mut attr = a.attr(i);
    if attr::walks(&a.slots[i].event, &a.common) {
        attr.set(Flag::ExcludeCallchainUser, false);
        attr.max_stack = attr.max_stack.max(walk::CHAIN_LIMIT_BY_TABLES as u16);
    } else if attr.max_stack == 0 && attr.sample_type & sample::CALLCHAIN != 0 {
        let raised = procfs::sysctl("kernel/perf_event_max_stack").filter(|frames| *frames > walk::CHAIN_LIMIT as i64);
        attr.max_stack = raised.map_or(0, |frames| u16::try_from(frames).unwrap_or(u16::MAX));
    }
    EventDesc { name: a.slots[i].name(&a.common), attr, ids: own.map(|fresh| fresh.id).collect() }
}

/// Returns the ranges of events with the same group; single events are left out.
fn groups(of_events: impl Iterator<Item = Option<u32>>) -> Vec<Range<usize>> {
    let of_events: Vec<Option<u32>> = of_events.collect();
    let mut at = 0;
    let ranges = of_events.chunk_by(|a, b| a.is_some() && a == b).map(|same| {
        at += same.len();
        at - same.len()..at
    });
    ranges.filter(|range| range.len() > 1).collect()
}

pub(super) fn info(a: &Attachment, target: &Target, chosen: &Option<Vec<u32>>, inherit: bool, start: u64) -> Info {
    let mut events: Vec<_> = (0..a.slots.len()).map(|i| desc(a, i)).collect();
    // The descriptions lack the owner of the rings, which writes the switches: an event that samples time stands for it.
    if let Some(clock) = events.iter_mut().find(|event| event.is_clock()).filter(|_| a.common.extras.switches) {
        clock.attr.set(Flag::ContextSwitch, true);
    }
    let uname = rustix::system::uname();
    Info {
        hosts: SourceHost {
            name: uname.nodename().to_string_lossy().into(),
            kernel: uname.release().to_string_lossy().into_owned(),
            ..SourceHost::default()
        }
        .into(),
        events,
        groups: groups(a.slots.iter().map(|slot| slot.event.group)),
        states: a.states(),
        chains: a.slots.iter().any(|slot| slot.event.chains.unwrap_or(a.common.chains).is_on()),
        start,
        n_cpus: a.rings.len(),
        cpus: chosen.as_deref().map(cpus::format_list).unwrap_or_default(),
        target: target.label(),
        whom: target.clone(),
        alone: !inherit,
        ..Info::new(Origin::Live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_events_next_to_each_other() {
        let of = |list: &[Option<u32>]| groups(list.iter().copied());
        assert_eq!(of(&[None, Some(1), Some(1), None, Some(2), Some(3), Some(3), Some(3)]), [1..3, 5..8]);
        assert!(of(&[]).is_empty() && of(&[None, None]).is_empty());
    }
}
