//! Figures that are shown below findings, and without any: what a healthy machine uses, and what selected processes move.

use std::sync::Arc;

use crate::lang::counted;
use crate::machine::processes::ProcessUse;
use crate::machine::processes::traffic::PeerUse;
use crate::panel::row_order::arrange_by_key;
use crate::panel::text::clean;
use crate::panel::unit::bytes;

use super::TriageInput;
use super::totals::{NAMED, ProcessTotal, Totals};

/// The normal figures of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NormalFigures {
    /// Those of the machine or of the selected processes, in short parts.
    pub calm: Vec<String>,
    /// Traffic of the files and connections of the selected processes, a line each.
    pub traffic: Vec<String>,
}

impl NormalFigures {
    pub(crate) fn of(input: &TriageInput<'_>) -> Self {
        let totals = input.totals(input.range);
        let traffic = if input.is_narrowed { totals.traffic() } else { Vec::new() };
        Self { calm: totals.calm(), traffic }
    }
}

impl Totals<'_> {
    /// Describes the resources in short parts.
    fn calm(&self) -> Vec<String> {
        if self.seconds <= 0.0 {
            return Vec::new();
        }
        if self.is_narrowed {
            return self.calm_of_processes();
        }
        let mut parts = vec![format!("CPU {:.0} % of {} busy", 100.0 * self.busy / self.cpus.max(1.0), self.cpus)];
        parts.push(format!("{:.1} waiting for a CPU", self.waiting));
        let busiest = self.disks.values().map(|disk| (disk.busy_ms, &disk.name)).max();
        let busiest = busiest.map(|(ms, name)| format!("{name} {:.0} % busy", ms as f64 / 10.0 / self.seconds));
        parts.push(busiest.unwrap_or_else(|| "no disk in use".to_owned()));
        if self.memory.total_kb > 0 {
            let share = 100.0 * self.memory.available_kb as f64 / self.memory.total_kb as f64;
            parts.push(format!("memory {share:.0} % available"));
        }
        let failed: u64 = self.networks.values().map(|(_, counts)| counts.failed).sum();
        parts.push(match failed {
            0 => "no failed connections".to_owned(),
            n => counted(n, "failed connection"),
        });
        parts
    }

    /// Describes the selected processes in short parts; empty without figures of them.
    fn calm_of_processes(&self) -> Vec<String> {
        if self.processes.is_empty() || self.process_seconds <= 0.0 {
            return Vec::new();
        }
        let sum = |of: fn(&ProcessUse) -> u64| self.processes.iter().fold(0, |sum, one| sum + of(&one.used));
        let [used, waiting] = [sum(|one| one.cpu_ns), sum(|one| one.delay_ns)].map(|ns| self.per_second(ns) / 1e9);
        // Processes that started or ended count for their part of the time.
        let part = |one: &ProcessTotal| one.seen_ns as f64 / 1e9 / self.process_seconds;
        let threads: f64 = self.processes.iter().map(|one| f64::from(one.used.threads) * part(one)).sum();
        let mut parts = vec![
            format!("{used:.2} CPUs used"),
            format!("{waiting:.2} waiting for a CPU"),
            format!("{:.2} threads asleep", (threads - used - waiting).max(0.0)),
        ];
        let (resident, io) = (sum(|one| one.resident), self.per_second(sum(|one| one.io)) as u64);
        parts.extend((resident > 0).then(|| format!("{} resident", bytes(resident))));
        parts.extend((io > 0).then(|| format!("{}/s of disks", bytes(io))));
        parts
    }

    /// Describes what the selected processes read and write: a line about files, one about peers.
    fn traffic(&self) -> Vec<String> {
        let rate = |moved: u64| format!("{}/s", bytes((moved as f64 / self.traffic_seconds.max(1e-3)) as u64));
        let mut files: Vec<(&Arc<str>, u64)> = self.files.iter().map(|(path, bytes)| (path, *bytes)).collect();
        arrange_by_key(&mut files, |(path, bytes)| (std::cmp::Reverse(*bytes), (*path).clone()));
        let file = |(path, bytes): &(&Arc<str>, u64)| format!("{} {}", short_path(path), rate(*bytes));
        let mut peers: Vec<(&Arc<str>, &PeerUse)> = self.peers.iter().collect();
        arrange_by_key(&mut peers, |(name, one)| (std::cmp::Reverse((one.bytes, one.connections)), (*name).clone()));
        let peer = |(name, one): &(&Arc<str>, &PeerUse)| {
            let many = if one.connections > 1 { format!(" ×{}", one.connections) } else { String::new() };
            let resent = match one.resent {
                0 => String::new(),
                n => format!(" ({} sent again)", counted(n, "segment")),
            };
            format!("{name}{many} {}{resent}", rate(one.bytes))
        };
        let files: Vec<String> = files.iter().take(NAMED).map(file).collect();
        let peers: Vec<String> = peers.iter().take(NAMED).map(peer).collect();
        let line = |name: &str, list: Vec<String>| (!list.is_empty()).then(|| format!("{name}: {}", list.join(", ")));
        [line("files", files), line("peers", peers)].into_iter().flatten().collect()
    }
}

/// Returns a path, or the last part of a long one.
fn short_path(path: &str) -> String {
    const LONGEST: usize = 40;
    let text = clean(path);
    match text.rsplit_once('/') {
        Some((_, name)) if text.chars().count() > LONGEST => format!("…/{name}"),
        _ => text.to_string(),
    }
}
