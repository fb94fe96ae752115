//! Records of several machines: their clocks made one, and what is followed on each of them by itself.

use crate::perfdata::features::bit;
use crate::session::Session;
use crate::source::{Info, SourceHost};

use super::derived::Derived;

/// Times of every input in those of the first machine.
#[derive(Debug, Default)]
pub(crate) struct Clocks {
    /// By input: which machine it is of.
    host_of: Vec<u16>,
    /// By machine: what is to be added, once it is known.
    shifts: Vec<Option<i64>>,
    /// Where those are laid whose clocks nobody knows: the first time that came.
    first: Option<u64>,
}

impl Clocks {
    pub(crate) fn new(info: &Info) -> Self {
        let shifts = info.hosts.iter().map(|host| host.shift).collect::<Vec<_>>();
        Self { host_of: info.host_of.clone(), shifts, first: None }
    }

    /// A record's time in the clock of all; 0, which stands for before the session, stays what it is.
    pub(crate) fn common(&mut self, input: usize, time: u64) -> u64 {
        let Some(host) = self.host_of.get(input).map(|host| usize::from(*host)).filter(|_| time > 0) else {
            return time;
        };
        let first = *self.first.get_or_insert(time);
        let shift = *self.shifts[host].get_or_insert(first.wrapping_sub(time) as i64);
        time.saturating_add_signed(shift)
    }
}

type Features = Vec<(u8, Vec<u8>)>;

/// The state by thread and by CPU of the machines that are not turned to.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    host_of: Vec<u16>,
    at: u16,
    /// Header features that describe each.
    machines: Vec<Features>,
    aside: Vec<Derived>,
}

impl Hosts {
    /// Has each machine's threads and CPUs followed by themselves, where there are several.
    pub(crate) fn new(info: &Info, derived: &Derived) -> Self {
        if !info.is_of_many() {
            return Self::default();
        }
        let is_clock = |feature: &&(u8, Vec<u8>)| [bit::CLOCKID, bit::CLOCK_DATA].contains(&feature.0);
        let clock: Features = info.machine.iter().filter(is_clock).cloned().collect();
        let of = |host: &SourceHost| host.machine.iter().filter(|f| !is_clock(f)).chain(&clock).cloned().collect();
        let machines = info.hosts.iter().map(of).collect();
        Self { host_of: info.host_of.clone(), at: 0, machines, aside: vec![derived.clone(); info.hosts.len()] }
    }

    /// The machine that is turned to.
    pub(crate) fn at(&self) -> u16 {
        self.at
    }

    /// Header features that describe a machine, as if its times had always been those of the first one; none where
    /// there is but one.
    pub(crate) fn machine(&self, host: usize) -> Option<&Features> {
        self.machines.get(host)
    }

    /// Turns to an input: what comes now is of it.
    pub(crate) fn turn_to(&mut self, input: usize, derived: &mut Derived, session: &mut Session) {
        let Some(host) = self.host_of.get(input).copied().filter(|host| *host != self.at) else { return };
        self.aside[usize::from(self.at)] = std::mem::take(derived);
        *derived = std::mem::take(&mut self.aside[usize::from(host)]);
        self.at = host;
        session.turn_to(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_made_one() {
        let clocks = |shifts: &[Option<i64>]| Clocks { host_of: vec![0, 1, 0], shifts: shifts.to_vec(), first: None };
        let mut known = clocks(&[Some(0), Some(-500)]);
        assert_eq!([(0, 1000), (1, 1500), (2, 7), (1, 0)].map(|(i, t)| known.common(i, t)), [1000, 1000, 7, 0]);
        let mut unknown = clocks(&[None, None]);
        assert_eq!([(1, 0), (1, 90), (0, 5000), (2, 5010)].map(|(i, t)| unknown.common(i, t)), [0, 90, 90, 100]);
    }
}
