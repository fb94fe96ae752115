//! The coverage of CPUs: the samples of each, compared with those of a fully busy CPU. "Lost 0" does not prove that
//! samples are complete: a starved profiler gets few samples but loses none.

use crate::panel::{Align, Cell, Column, Table};
use crate::query::Data;

/// Counts the samples of an event on each CPU between its first and its last sample.
pub fn table(data: Data<'_>, event: usize, frequency: u64) -> Table {
    let mut cpus: Vec<u64> = Vec::new();
    let mut span = (u64::MAX, 0u64);
    for (chunk, range) in data.profile.between(0, u64::MAX) {
        for i in range.filter(|i| usize::from(chunk.event[*i]) == event) {
            let cpu = usize::from(chunk.cpu[i]);
            if cpus.len() <= cpu {
                cpus.resize(cpu + 1, 0);
            }
            cpus[cpu] += 1;
            span = (span.0.min(chunk.time[i]), span.1.max(chunk.time[i]));
        }
    }
    let seconds = span.1.saturating_sub(span.0) as f64 / 1e9;
    let expected = (seconds * frequency as f64).round() as u64;
    let column = |name, title, width| Column::new(name, title, Align::Right, width);
    let rows = cpus.iter().enumerate().filter(|(_, samples)| **samples > 0).map(|(cpu, samples)| {
        let share = if expected == 0 { Cell::Empty } else { Cell::Percent(100.0 * *samples as f64 / expected as f64) };
        vec![
            Cell::Id(cpu as i64),
            Cell::Count(*samples),
            if expected == 0 { Cell::Empty } else { Cell::Count(expected) },
            share,
        ]
    });
    Table {
        columns: vec![
            column("cpu", "CPU", 4),
            column("samples", "Samples", 10),
            column("expected", "If busy", 10),
            column("busy_pct", "Sampled", 8),
        ],
        rows: rows.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{NodeId, Profile, Site};
    use crate::session::{Origin, Session};

    #[test]
    fn each_cpu_against_the_rate() {
        let (mut profile, mut session) = (Profile::default(), Session::new(Origin::Recorded));
        let task = session.task(1, 1);
        let site = profile.sites.intern(Site { task, stack: NodeId::ROOT, trace: Default::default() });
        for i in 0..=100u64 {
            profile.push(i * 10_000_000, site, 1, 0, 0);
        }
        profile.push(5, site, 1, 3, 0);
        profile.push(5, site, 1, 3, 1);
        let data = Data::new(&session, &profile);
        let table = table(data, 0, 100);
        assert_eq!(
            table.rows,
            [
                vec![Cell::Id(0), Cell::Count(101), Cell::Count(100), Cell::Percent(101.0)],
                vec![Cell::Id(3), Cell::Count(1), Cell::Count(100), Cell::Percent(1.0)]
            ]
        );
        assert_eq!(super::table(data, 0, 0).rows[0][2], Cell::Empty);
    }
}
