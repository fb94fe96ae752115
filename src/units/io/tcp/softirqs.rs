//! The CPUs whose softirqs do the work of connections.

use crate::panel::table::WORKING_CPU;
use crate::units::kit::prelude::*;

use super::Tcp;
use super::figures::Happening;

/// Events of connections in softirqs of a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SoftirqWork {
    /// The number of events.
    events: u64,
    /// Connections that were established, opened here or accepted.
    established: u64,
    retransmits: u64,
    resets: u64,
    pub(super) drops: u64,
}

impl SoftirqWork {
    pub(super) fn add(&mut self, what: Happening) {
        self.events += 1;
        match what {
            Happening::Accepted | Happening::Connected(_) => self.established += 1,
            Happening::Retransmitted(segments) => self.retransmits += segments,
            Happening::ResetSent | Happening::ResetReceived | Happening::Refused => self.resets += 1,
            _ => {}
        }
    }
}

impl Tcp {
    /// Returns the panel of CPUs; `None` if records do not have the context.
    pub(super) fn softirq_cpus(&self) -> Option<Panel> {
        let list = by_weight(self.softirqs.iter().map(|(cpu, work)| (*cpu, *work)), |work| work.events + work.drops);
        let sheet = Sheet::of(list, |(cpu, _)| cpu.into())
            .right(WORKING_CPU, "CPU", 5, |(cpu, _)| Cell::Id(cpu.into()))
            .right("events", "Events", 9, |(_, work)| Cell::Count(work.events))
            .right("established", "Established", 11, |(_, work)| count(work.established))
            .right("retransmits", "Retrans", 8, |(_, work)| count(work.retransmits))
            .right("resets", "Resets", 8, |(_, work)| count(work.resets))
            .right("drops", "Drops", 8, |(_, work)| count(work.drops));
        (!self.softirqs.is_empty()).then(|| sheet.in_hidden_order().panel("Softirq CPUs"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softirqs_have_a_row_for_each_cpu() {
        let mut tcp = Tcp::default();
        assert!(tcp.softirq_cpus().is_none());
        for (cpu, what) in [
            (3, Happening::Accepted),
            (3, Happening::Retransmitted(2)),
            (1, Happening::ResetReceived),
            (3, Happening::Closed(5)),
        ] {
            tcp.softirqs.entry(cpu).or_default().add(what);
        }
        let panel = tcp.softirq_cpus().expect("a panel");
        let rows = panel.rows().expect("rows");
        // The screen of CPUs takes the number of a CPU from the row's ID.
        assert_eq!((&rows.ids[..], &*rows.table.columns[0].name), (&[3, 1][..], WORKING_CPU));
        let cells = [3, 1, 2, 0, 0].map(|n| if n > 0 { Cell::Count(n) } else { Cell::Empty });
        assert_eq!(rows.table.rows[0][1..], cells);
    }
}
