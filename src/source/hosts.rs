//! The machines that a source's records are of: which input is of which, and their clocks made one.

use std::ops::Deref;
use std::sync::Arc;

use crate::perfdata::build_ids;
use crate::perfdata::features::bit;
use crate::record::in_place::u64_at;
use crate::record::kinds::BuildId;
use crate::session::hosts::{HostId, PerHost};

/// A machine whose records come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceHost {
    /// As the user named it, or as it calls itself.
    pub name: Arc<str>,
    pub(crate) kernel: String,
    pub(crate) kernel_id: Option<BuildId>,
    /// The nanoseconds to be added to its times to get those of the first machine. `None`, of all of them,
    /// where clocks cannot be compared: each one's records are then laid where the first ones began.
    pub(crate) shift: Option<i64>,
    /// Header features of a recording that describe it, as (bit, bytes); none when live.
    pub machine: Vec<(u8, Vec<u8>)>,
}

impl SourceHost {
    /// A machine of which no more is known than its name.
    pub fn named(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The wall clock in nanoseconds since 1970 and the recording's clock at the same moment, where a recording's head
    /// has them (CLOCK_DATA in perf.data-file-format.txt).
    pub(crate) fn clock(&self) -> Option<(u64, u64)> {
        let (_, data) = self.machine.iter().find(|(bit, _)| *bit == bit::CLOCK_DATA)?;
        Some((u64_at(data, 8)?, u64_at(data, 16)?))
    }

    /// True if its kernel is the one that runs here: by its build id, or where that is not known by its release and
    /// the machine's name.
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
    /// By input which it is of; empty where all are of one.
    of_input: Vec<HostId>,
    /// The first time that came: there those are laid whose clocks nobody knows.
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

    /// Each where there are several, to be told apart.
    pub(crate) fn several(&self) -> impl Iterator<Item = &SourceHost> {
        self.iter().map(|(_, host)| host).filter(|_| self.are_many())
    }

    /// The machine of an input.
    pub(crate) fn of_input(&self, input: usize) -> HostId {
        self.of_input.get(input).copied().unwrap_or_default()
    }

    /// The nanoseconds to be added to an input's times, where they are known.
    pub(crate) fn shift(&self, input: usize) -> Option<i64> {
        self[self.of_input(input)].shift
    }

    /// A record's time in the clock of the first machine; 0, which stands for before the session, stays what it is.
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
