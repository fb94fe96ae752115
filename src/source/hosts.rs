//! The machines of a source: the machine of each input, and the conversion of their clocks to a common one.

use std::ops::Deref;
use std::sync::Arc;

use crate::perfdata::build_ids;
use crate::perfdata::features::bit;
use crate::record::in_place::u64_at;
use crate::record::kinds::BuildId;
use crate::session::hosts::{HostId, PerHost};

/// A machine with records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceHost {
    /// The name given by the user, or the host name.
    pub name: Arc<str>,
    pub(crate) kernel: String,
    pub(crate) kernel_id: Option<BuildId>,
    /// Nanoseconds to add to its timestamps to convert them to the first machine's clock. `None` for all machines if
    /// clocks cannot be related: then each one's records are aligned to start with the first ones.
    pub(crate) shift: Option<i64>,
    /// Header features of a recording that describe it, as (bit, bytes); empty when live.
    pub machine: Vec<(u8, Vec<u8>)>,
}

impl SourceHost {
    /// Returns a machine with only a name.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Returns the wall clock in nanoseconds since 1970 and the recording's clock at the same moment, if the
    /// recording's header has them (CLOCK_DATA in perf.data-file-format.txt).
    pub(crate) fn clock(&self) -> Option<(u64, u64)> {
        let (_, data) = self.machine.iter().find(|(bit, _)| *bit == bit::CLOCK_DATA)?;
        Some((u64_at(data, 8)?, u64_at(data, 16)?))
    }

    /// Returns whether its kernel is the running one: by build id, or if unknown, by release and machine name.
    pub(crate) fn has_own_kernel(&self) -> bool {
        let uname = rustix::system::uname();
        match self.kernel_id {
            Some(id) => build_ids::of_kernel() == Some(id),
            None => {
                uname.nodename().to_string_lossy() == *self.name && uname.release().to_string_lossy() == *self.kernel
            }
        }
    }
}

/// All machines of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts {
    list: PerHost<SourceHost>,
    /// The machine of each input; empty if there is only one machine.
    of_input: Vec<HostId>,
    /// The first timestamp, to which machines with unrelated clocks are aligned.
    first_time: Option<u64>,
}

impl From<SourceHost> for Hosts {
    fn from(one: SourceHost) -> Self {
        Self { list: PerHost::one(one), ..Self::default() }
    }
}

impl Deref for Hosts {
    type Target = PerHost<SourceHost>;

    fn deref(&self) -> &PerHost<SourceHost> {
        &self.list
    }
}

impl Hosts {
    pub(crate) fn new(list: PerHost<SourceHost>, of_input: Vec<HostId>) -> Self {
        Self { list, of_input, first_time: None }
    }

    pub(crate) fn several(&self) -> impl Iterator<Item = &SourceHost> {
        self.iter().map(|(_, host)| host).filter(|_| self.are_many())
    }

    pub(crate) fn of_input(&self, input: usize) -> HostId {
        self.of_input.get(input).copied().unwrap_or_default()
    }

    pub(crate) fn shift(&self, input: usize) -> Option<i64> {
        self[self.of_input(input)].shift
    }

    /// Converts a record's timestamp to the clock of the first machine; 0, which means before the session, stays 0.
    pub(crate) fn common_time(&mut self, input: usize, time: u64) -> u64 {
        if time == 0 || !self.are_many() {
            return time;
        }
        let first = *self.first_time.get_or_insert(time);
        let host = self.of_input(input);
        let shift = *self.list[host].shift.get_or_insert(first.wrapping_sub(time) as i64);
        time.saturating_add_signed(shift)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_made_one() {
        let clocks = |shifts: [Option<i64>; 2]| {
            let [first, second] = shifts.map(|shift| SourceHost { shift, ..SourceHost::default() });
            let mut list = PerHost::one(first);
            let second = list.push(second);
            Hosts::new(list, vec![HostId::default(), second, HostId::default()])
        };
        let mut known = clocks([Some(0), Some(-500)]);
        assert_eq!([(0, 1000), (1, 1500), (2, 7), (1, 0)].map(|(i, t)| known.common_time(i, t)), [1000, 1000, 7, 0]);
        let mut unknown = clocks([None, None]);
        assert_eq!([(1, 0), (1, 90), (0, 5000), (2, 5010)].map(|(i, t)| unknown.common_time(i, t)), [0, 90, 90, 100]);
    }
}
