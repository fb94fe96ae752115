//! Facts about a session other than its samples: its wall-clock time, its records by type, and their faults.

use std::collections::BTreeMap;

use crate::kernel::{monotonic_ns, wall_ns};
use crate::lang::counted;
use crate::profile::Ledger;
use crate::record::kinds::types;
use crate::session::Origin;
use crate::source::Info;
use crate::source::hosts::Hosts;

/// Facts of a session.
#[derive(Debug)]
pub struct SessionSummary {
    origin: Origin,
    pub(crate) hosts: Hosts,
    kinds: BTreeMap<u32, u64>,
}

impl SessionSummary {
    pub(crate) fn new(info: &Info) -> Self {
        Self { origin: info.origin, hosts: info.hosts.clone(), kinds: BTreeMap::new() }
    }

    pub(crate) fn count(&mut self, kind: u32) {
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// Returns the records by the name of their type, in the order of the types; unknown types are merged.
    pub(crate) fn kinds_by_name(&self) -> Vec<(&'static str, u64)> {
        let mut out: Vec<(&'static str, u64)> = Vec::new();
        for (kind, n) in &self.kinds {
            let name = types::name(*kind).unwrap_or("UNKNOWN");
            match out.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => *all += n,
                None => out.push((name, *n)),
            }
        }
        out
    }

    /// Returns the wall-clock time of the session's `start` in nanoseconds since 1970; 0 for a recording that does not
    /// relate its clock to the wall clock.
    pub fn wall_start(&self, start: u64) -> u64 {
        if self.origin == Origin::Live {
            return wall_ns().saturating_add(start).saturating_sub(monotonic_ns());
        }
        let Some((wall, clock)) = self.hosts.first().clock() else { return 0 };
        wall.wrapping_add(start).wrapping_sub(clock)
    }

    pub(crate) fn complaints(&self, ledger: &Ledger) -> Vec<String> {
        let mut out = Vec::new();
        let malformed = ledger.malformed;
        if malformed > 0 {
            out.push(format!("skipped {} that could not be decoded", counted(malformed, "record")));
        }
        if ledger.unjoined > 0 {
            out.push(format!(
                "{} without callers in user code: the kernel deferred them, and they are not in the recording",
                counted(ledger.unjoined, "sample")
            ));
        }
        if ledger.scale > 0 {
            out.push(format!(
                "periods are divided by 2^{}, because their sum is more than 2^64; shares are exact",
                ledger.scale
            ));
        }
        let sum =
            |which: &dyn Fn(u32) -> bool| self.kinds.iter().filter(|(k, _)| which(**k)).map(|(_, n)| *n).sum::<u64>();
        let unknown = sum(&|kind| types::name(kind).is_none());
        if unknown > 0 {
            out.push(format!("skipped {} of unknown types", counted(unknown, "record")));
        }
        let aux = sum(&|kind| kind == types::AUX);
        if aux > 0 {
            out.push(format!(
                "skipped {} (hardware traces): decoding them is not supported",
                counted(aux, "AUX record")
            ));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::SessionSummary;
    use crate::perfdata::features::bit;
    use crate::session::Origin;
    use crate::source::Info;
    use crate::source::hosts::SourceHost;

    /// The wall clock showed 5 s when the clock showed 2 s: so it showed 6 s at 3 s, and 4 s at 1 s.
    #[test]
    fn a_recording_begins_as_much_later_as_its_clock_went_on() {
        let second = 1_000_000_000u64;
        let data =
            [&1u32.to_le_bytes()[..], &1u32.to_le_bytes(), &(5 * second).to_le_bytes(), &(2 * second).to_le_bytes()];
        let begun = |start: u64, machine: Vec<(u8, Vec<u8>)>| {
            let hosts = SourceHost { machine, ..SourceHost::default() }.into();
            let info = Info { start, hosts, ..Info::new(Origin::Recorded) };
            SessionSummary::new(&info).wall_start(start)
        };
        assert_eq!(begun(3 * second, vec![(bit::CLOCK_DATA, data.concat())]), 6 * second);
        assert_eq!(begun(second, vec![(bit::HOSTNAME, vec![9; 24]), (bit::CLOCK_DATA, data.concat())]), 4 * second);
        assert_eq!(begun(second, vec![(bit::CLOCK_DATA, data[..3].concat())]), 0);
        assert_eq!(begun(second, vec![]), 0);
    }

    #[test]
    fn a_live_session_began_when_its_first_sample_says_whatever_that_is() {
        let begun = |start| SessionSummary::new(&Info { start, ..Info::new(Origin::Live) }).wall_start(start);
        let now = crate::kernel::monotonic_ns();
        assert!(begun(now) > 1_700_000_000_000_000_000 && begun(u64::MAX) > begun(now) && begun(1) < begun(now));
    }
}
