//! The CPUs as a table: the values of cells, and descriptions of cells and CPUs. Screen, text, CSV and JSON use it.

use std::sync::Arc;

use crate::lang::counted;
use crate::panel::row_order::arrange_by_key;
use crate::panel::unit::{duration, percent, thousands};
use crate::panel::{Cell, Table};
use crate::query::cpus::context::VECTORS;
use crate::query::cpus::{self, CpuAnswer, CpuSamples};
use crate::query::heat::least_of;
use crate::session::machine::Ticks;

pub use super::columns::{CpuColumn, SHOWN};
use super::sampler::{CpuRow, HostView, IrqLine};
use crate::ingest::derived::softirq_times::{Handler, HandlerTimes};

/// All figures of the CPUs; each source may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuFacts<'a> {
    pub(crate) host: Option<&'a HostView>,
    pub(crate) samples: Option<&'a CpuAnswer>,
    pub(crate) times: Option<&'a HandlerTimes>,
    /// Whether the time of niced tasks counts as user time, because it has no column.
    pub(crate) nice_is_user: bool,
}

impl<'a> CpuFacts<'a> {
    fn row(&self, cpu: u32) -> Option<&'a CpuRow> {
        self.host.and_then(|host| host.row(cpu))
    }

    fn sampled(&self, cpu: u32) -> Option<&'a CpuSamples> {
        self.samples.and_then(|samples| samples.row(cpu))
    }

    pub(crate) fn cpus(&self) -> Vec<u32> {
        let rows = self.host.map_or(&[][..], |host| &host.rows);
        let samples = self.samples.map_or(&[][..], |samples| &samples.rows);
        let timed = self.times.into_iter().flat_map(|times| times.list.keys().map(|(cpu, _)| *cpu));
        let mut cpus: Vec<u32> = rows.iter().map(|r| r.cpu).collect();
        cpus.extend(samples.iter().map(|s| u32::from(s.cpu)));
        cpus.extend(timed);
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// Returns the samples of a fully busy CPU in the window.
    fn expected(&self) -> u64 {
        self.samples.map_or(0, |samples| samples.expected() as u64)
    }

    pub(crate) fn title(&self, column: CpuColumn) -> Arc<str> {
        match column {
            CpuColumn::Line(i) => self.host.and_then(|h| h.lines.get(i)).map_or_else(|| "".into(), line_title),
            CpuColumn::Rate(i) => self.host.and_then(|h| h.vectors.get(i)).map_or_else(|| "".into(), Arc::clone),
            other => other.column().title.into(),
        }
    }

    /// Returns the value for display, sorting and coloring; `None` if unknown.
    pub(crate) fn value(&self, column: CpuColumn, cpu: u32) -> Option<f64> {
        let row = self.row(cpu);
        let online = row.filter(|r| r.online);
        let of = |value: Option<f32>| value.map(f64::from);
        let net = |of: fn(&crate::machine::sampler::NetRates) -> f32| {
            online.and_then(|r| r.net.as_ref()).map(|n| f64::from(of(n)))
        };
        match column {
            CpuColumn::Cpu => Some(f64::from(cpu)),
            CpuColumn::Share(Ticks::USER) if self.nice_is_user && row.is_some() => {
                of(online.map(|r| r.shares[Ticks::USER] + r.shares[Ticks::NICE]))
            }
            CpuColumn::Share(i) => of(online.map(|r| r.shares[i])).or_else(|| self.sampled_share(i, cpu)),
            CpuColumn::Missing => of(online.map(|r| r.missing)),
            CpuColumn::Peak => of(online.map(|r| r.peak).or(self.sampled(cpu).map(|s| s.peak))),
            CpuColumn::Ksoftirqd => of(online.and_then(|r| r.ksoftirqd)),
            CpuColumn::Samples => self.sampled(cpu).map(|s| s.total() as f64),
            CpuColumn::Given => {
                let expected = self.expected();
                let share = |s: &CpuSamples| 100.0 * s.total() as f64 / expected as f64;
                self.sampled(cpu).filter(|_| expected > 0).map(share)
            }
            CpuColumn::Sampled(v) => self.sampled(cpu).map(|s| f64::from(s.percent(s.counts[cpus::of_vector(v)]))),
            CpuColumn::Timed(v) => self.times.map(|times| times.percent(cpu, Handler::Softirq(v as u32))),
            CpuColumn::IrqTimed => self.times.map(|times| times.sum(cpu, true)),
            CpuColumn::Rate(i) => of(online.and_then(|r| r.vectors.get(i).copied())),
            CpuColumn::Line(i) => of(self.host.and_then(|h| h.line_rate(i, cpu))),
            CpuColumn::NetProcessed => net(|n| n.processed),
            CpuColumn::NetDropped => net(|n| n.dropped),
            CpuColumn::NetSqueezed => net(|n| n.squeezed),
            CpuColumn::NetRps => net(|n| n.rps),
            CpuColumn::Mhz => row.and_then(|r| r.mhz).map(f64::from),
            CpuColumn::Cycles => online.and_then(|r| r.work).map(|work| work.cycles),
            CpuColumn::Ipc => online.and_then(|r| r.work?.ipc),
            CpuColumn::Ghz => online.and_then(|r| r.work?.ghz),
            CpuColumn::Throttled => row.and_then(|r| r.throttled).map(|n| n as f64),
            CpuColumn::Node => row.and_then(|r| r.place.node).map(f64::from),
            CpuColumn::Package => row.and_then(|r| r.place.package).map(f64::from),
            CpuColumn::Core => row.and_then(|r| r.place.core).map(f64::from),
            CpuColumn::Siblings | CpuColumn::Marks => None,
        }
    }

    /// Returns the share from samples that corresponds to one of /proc/stat.
    fn sampled_share(&self, share: usize, cpu: u32) -> Option<f64> {
        // With figures from /proc, those of samples have another meaning.
        let samples = self.sampled(cpu).filter(|_| self.host.is_none())?;
        let count = match share {
            Ticks::USER => samples.counts[cpus::USER],
            Ticks::SYSTEM => samples.counts[cpus::KERNEL],
            Ticks::IDLE => samples.counts[cpus::IDLE],
            Ticks::IRQ => samples.counts[cpus::IRQ],
            Ticks::SOFTIRQ => samples.softirqs(),
            _ => return None,
        };
        Some(f64::from(samples.percent(count)))
    }

    pub(crate) fn cell(&self, column: CpuColumn, cpu: u32) -> Cell {
        let row = self.row(cpu);
        match column {
            CpuColumn::Cpu => Cell::Id(i64::from(cpu)),
            CpuColumn::Siblings => text(row.map(|r| r.place.siblings.clone())),
            CpuColumn::Marks => text(row.map(marks)),
            _ => match (self.value(column, cpu), column) {
                (None, _) => Cell::Empty,
                (Some(v), CpuColumn::Samples | CpuColumn::Throttled | CpuColumn::Mhz | CpuColumn::Cycles) => {
                    Cell::Count(v as u64)
                }
                (Some(v), CpuColumn::Node | CpuColumn::Package | CpuColumn::Core) => Cell::Id(v as i64),
                (Some(v), CpuColumn::Ipc | CpuColumn::Ghz) => Cell::Ratio(v),
                (Some(v), _) => Cell::Number(v),
            },
        }
    }

    pub(crate) fn table(&self, columns: &[CpuColumn], cpus: &[u32]) -> Table {
        Table {
            columns: columns.iter().map(|c| c.column()).collect(),
            rows: cpus.iter().map(|cpu| columns.iter().map(|c| self.cell(*c, *cpu)).collect()).collect(),
        }
    }

    pub(crate) fn cell_text(&self, column: CpuColumn, cpu: u32) -> String {
        let title = self.title(column);
        let value = self.value(column, cpu);
        let Some(value) = value else {
            let measuring = matches!(column, CpuColumn::Timed(_) | CpuColumn::IrqTimed);
            let why = if measuring { "its time is known in a second" } else { "not known here" };
            return format!("{title} on CPU {cpu}: {why}");
        };
        match column {
            CpuColumn::Timed(v) => self.time_text(Handler::Softirq(v as u32), &title, cpu),
            CpuColumn::IrqTimed => self.irq_text(cpu),
            CpuColumn::Sampled(v) => self.sample_text(cpus::of_vector(v), VECTORS[v], cpu),
            CpuColumn::Rate(_) => {
                format!("{title} on CPU {cpu}: {value:.1} softirqs per second (/proc/softirqs counts)")
            }
            CpuColumn::Line(i) => {
                let line = self.host.and_then(|h| h.lines.get(i));
                let (label, about) = line.map_or(("", ""), |l| (&*l.label, &*l.about));
                format!("interrupt {label} on CPU {cpu}: {value:.1} per second   {about}")
            }
            CpuColumn::Missing => {
                format!("CPU {cpu}: for {value:.0} % of the time no tick was counted, so shares do not show it")
            }
            CpuColumn::Peak => {
                format!("CPU {cpu}: softirqs and interrupts took {value:.0} % of a tenth of a second at their peak")
            }
            CpuColumn::Cpu => self.place_text(cpu),
            CpuColumn::Given => {
                format!("CPU {cpu}: {value:.0} % of the samples of a fully busy CPU; idle CPUs may produce no samples")
            }
            CpuColumn::Share(_) => {
                let ticks = |host: &HostView| format!("its ticks in {} (/proc/stat)", duration(host.interval));
                let of = self.host.map_or_else(|| "its samples".to_owned(), ticks);
                format!("{} on CPU {cpu}: {value:.1} % of {of}", column.long())
            }
            _ => format!("{} on CPU {cpu}: {}", column.long(), self.cell(column, cpu).text()),
        }
    }

    fn sample_text(&self, slot: usize, name: &str, cpu: u32) -> String {
        let Some(samples) = self.sampled(cpu) else { return format!("{name} on CPU {cpu}: no samples") };
        let count = samples.counts[slot];
        let mut words = format!("{name} on CPU {cpu}: {} of its samples", percent(f64::from(samples.percent(count))));
        if let Some(behind) = self.samples.and_then(|s| s.behind(cpu, slot)) {
            words.push_str(&format!(", top: {} {}", behind.name, percent(f64::from(samples.percent(behind.samples)))));
        }
        words.push_str(&format!("   {} of {}", thousands(count), counted(samples.total(), "sample")));
        words
    }

    fn time_text(&self, what: Handler, name: &str, cpu: u32) -> String {
        let Some((times, time)) = self.times.and_then(|t| Some((t, t.get(cpu, what)?))) else {
            return format!("{name} on CPU {cpu}: it has not run since measuring began");
        };
        let runs = &time.runs;
        let mut words = format!(
            "{name} on CPU {cpu}: {} of {}, {}, avg {}, p99 {}, max {}",
            percent(times.percent(cpu, what)),
            duration(times.elapsed),
            counted(runs.n, "run"),
            duration(runs.mean() as u64),
            duration(runs.quantile(0.99)),
            duration(runs.max)
        );
        if time.delays.n > 0 {
            let (avg, max) = (duration(time.delays.mean() as u64), duration(time.delays.max));
            words.push_str(&format!(", raised to run avg {avg}, max {max}"));
        }
        let slot = match what {
            Handler::Softirq(v) => cpus::of_vector(v as usize),
            Handler::Irq(_) => cpus::IRQ,
        };
        if let Some(behind) = self.samples.and_then(|s| s.behind(cpu, slot)) {
            words.push_str(&format!("   top: {}", behind.name));
        }
        words
    }

    fn irq_text(&self, cpu: u32) -> String {
        let Some(times) = self.times else { return String::new() };
        let mut lines: Vec<_> = times
            .list
            .iter()
            .filter_map(|((c, what), time)| match what {
                Handler::Irq(line) if *c == cpu => Some((time.runs.sum, *line)),
                _ => None,
            })
            .collect();
        arrange_by_key(&mut lines, |(sum, line)| (std::cmp::Reverse(*sum), *line));
        match lines.first() {
            None => format!("no interrupt handler has run on CPU {cpu} since measuring began"),
            Some((_, line)) => {
                let device = times.devices.get(line).map_or_else(|| "?".into(), Arc::clone);
                self.time_text(Handler::Irq(*line), &format!("interrupt {line} ({device})"), cpu)
            }
        }
    }

    /// Returns the length of time that the samples cover, in whole seconds.
    pub(crate) fn sampled_seconds(&self) -> u64 {
        self.samples.map_or(0, |samples| samples.window.saturating_add(500_000_000) / 1_000_000_000)
    }

    /// Returns a description of a CPU's samples: `43.0 % softirq = 43.0 % TIMER (estimation_timer 43.0 %)`.
    pub(crate) fn cpu_text(&self, cpu: u32) -> String {
        let Some(samples) = self.sampled(cpu) else { return format!("CPU {cpu}: no samples") };
        let share = |n: u64| percent(f64::from(samples.percent(n)));
        let mut parts: Vec<(u64, String)> = Vec::new();
        for slot in cpus::SOFTIRQ..cpus::SLOTS {
            let count = samples.counts[slot];
            let name =
                VECTORS.get(slot.wrapping_sub(cpus::SOFTIRQ + 1)).copied().unwrap_or("before or between the vectors");
            let behind = self.samples.and_then(|s| s.behind(cpu, slot));
            let behind = behind.map_or_else(String::new, |b| format!(" ({} {})", b.name, share(b.samples)));
            // Shares that round to zero are left out.
            if samples.percent(count) >= 0.05 {
                parts.push((count, format!("{} {name}{behind}", share(count))));
            }
        }
        arrange_by_key(&mut parts, |(count, _)| std::cmp::Reverse(*count));
        parts.truncate(3);
        let of = parts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(" + ");
        let soft = samples.softirqs();
        // The row has shares of another time, from /proc/stat.
        let time = self.host.map_or_else(String::new, |_| format!(", samples of {} s", self.sampled_seconds()));
        let mut words = format!("CPU {cpu}{time}: {} softirq", share(soft));
        if !of.is_empty() {
            words.push_str(&format!(" = {of}"));
        }
        words.push_str(&format!(", {} irq; {}", share(samples.counts[cpus::IRQ]), counted(samples.total(), "sample")));
        match self.expected() {
            0 => {}
            n => words.push_str(&format!(" of {} at full load", thousands(n))),
        }
        words
    }

    /// Returns the position of a CPU (node, package, core), and its special properties.
    pub(crate) fn place_text(&self, cpu: u32) -> String {
        let Some(row) = self.row(cpu) else { return format!("CPU {cpu}: the recording has no more details") };
        let mut words = vec![format!("CPU {cpu}")];
        let mut add = |what: &str, value: Option<String>| words.extend(value.map(|v| format!("{what} {v}")));
        add("node", row.place.node.map(|n| n.to_string()));
        add("package", row.place.package.map(|n| n.to_string()));
        add("core", row.place.core.map(|n| n.to_string()));
        add("with", Some(row.place.siblings.clone()).filter(|s| s.contains([',', '-'])));
        words.extend(row.mhz.map(|mhz| format!("{mhz} MHz")));
        words.extend(row.throttled.filter(|n| *n > 0).map(|n| format!("throttled {}", counted(n, "time"))));
        words.extend(Some(marks(row)).filter(|m| !m.is_empty()));
        words.join("  ")
    }

    /// Returns the durations of a cell as a histogram: a label and a bar's height from 0 to 7 for each half octave.
    pub(crate) fn histogram(&self, column: CpuColumn, cpu: u32) -> Option<Vec<(String, u8)>> {
        let CpuColumn::Timed(v) = column else { return None };
        let halves = self.times?.get(cpu, Handler::Softirq(v as u32))?.runs.half_octaves();
        let top = halves.iter().map(|(_, n)| *n).max().unwrap_or(0).max(1);
        let level = |n: u64| (u128::from(n) * 7).div_ceil(u128::from(top)) as u8;
        Some(halves.into_iter().map(|(half, n)| (duration(least_of(half)), level(n))).collect())
    }
}

fn text(value: Option<String>) -> Cell {
    value.filter(|v| !v.is_empty()).map_or(Cell::Empty, |v| Cell::Text(v.into()))
}

/// Returns a line's device, if it has one; lines of the CPU itself have a name.
fn line_title(line: &IrqLine) -> Arc<str> {
    match line.label.parse::<u32>() {
        Ok(_) => line.about.split_whitespace().last().map_or_else(|| line.label.clone(), Arc::from),
        Err(_) => line.label.clone(),
    }
}

fn marks(row: &CpuRow) -> String {
    let marks = [(!row.online, "offline"), (row.isolated, "isolated"), (row.nohz_full, "nohz_full")];
    marks.iter().filter(|(on, _)| *on).map(|(_, word)| *word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
