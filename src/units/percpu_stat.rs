//! `percpu-stat`: what each CPU is busy with, as a grid of rates: switches, faults, interrupts, packets, pages.

use crate::panel::{Align, Body, Cell, Measure, Panel};

use super::kit::columns::named;
use super::kit::counts::Counts;
use super::kit::{Context, CountedEvents, EventRequest, Moment, Sample, Settings, Spec, Unit};

pub(super) const SPEC: Spec = Spec {
    name: "percpu-stat",
    about: "what each CPU is busy with: switches, faults, interrupts, softirqs, packets, pages, a second",
    help: "Counted by the kernel, without samples. An event that this kernel does not have is said and left out. Idle \
           is how often the CPU went idle (the tracepoint fires on both ways, so it is halved).",
    example: "perfprof-tui percpu-stat -i 1 --syscalls",
    output: "\
$ perfprof-tui percpu-stat --batch -n 1
CPU  switches  migrations  minflt  majflt  irqs  softirqs  hrtimers…
  0  102039.9         0.0     0.0     0.0   0.0      33.5     249.2…
  1     179.4         0.0    38.3     0.0   0.0    8575.4     272.5…
all  102219.3         0.0    38.3     0.0   0.0    8609.0     521.7…",
    options: &["syscalls"],
    whole: true,
    interval: Some(1.0),
    make: |settings| Ok(Box::new(PercpuStat::new(settings))),
};

/// (event, column); raw_syscalls comes last, since it costs every system call.
const METRICS: &[(&str, &str)] = &[
    ("context-switches", "switches"),
    ("cpu-migrations", "migrations"),
    ("minor-faults", "minflt"),
    ("major-faults", "majflt"),
    ("irq:irq_handler_entry", "irqs"),
    ("irq:softirq_entry", "softirqs"),
    ("timer:hrtimer_expire_entry", "hrtimers"),
    ("workqueue:workqueue_execute_start", "works"),
    ("kvm:kvm_exit", "vmexits"),
    ("net:netif_receive_skb", "recv"),
    ("net:net_dev_xmit", "xmit"),
    ("net:napi_gro_receive_entry", "gro"),
    ("kmem:mm_page_alloc", "pages"),
    ("compaction:mm_compaction_migratepages", "compact"),
    ("vmscan:mm_vmscan_direct_reclaim_begin", "reclaim"),
    ("migrate:mm_migrate_pages", "migrate"),
    ("filemap:mm_filemap_add_to_page_cache", "pgcache"),
    ("writeback:wbc_writepage", "writeback"),
    ("power:cpu_idle", "idle"),
    ("raw_syscalls:sys_enter", "syscalls"),
];
const STEP_NS: u64 = 1_000_000_000;

#[derive(Debug)]
struct PercpuStat {
    metrics: &'static [(&'static str, &'static str)],
    there: Vec<bool>,
    counts: Counts,
}

impl PercpuStat {
    fn new(settings: &Settings) -> Self {
        let n = if settings.has("syscalls") { METRICS.len() } else { METRICS.len() - 1 };
        Self { metrics: &METRICS[..n], there: vec![false; n], counts: Counts::new(STEP_NS) }
    }

    /// The number of times, of what the kernel counted.
    fn times(&self, role: usize, count: u64) -> f64 {
        let halved = self.metrics[role].0 == "power:cpu_idle";
        if halved { count as f64 / 2.0 } else { count as f64 }
    }

    fn grid(&self, at: &Moment<'_>) -> Panel {
        let shown = (0..self.metrics.len()).filter(|role| self.there[*role]);
        let rate = |cpu, role| Cell::Number(self.times(role, self.counts.on(role, cpu)) / at.seconds());
        self.counts
            .sheet(4)
            .each(shown, |role| named(self.metrics[role].1, Align::Right, 10), rate)
            .whole("A second on each CPU")
    }

    fn history(&self, at: &Moment<'_>) -> Panel {
        let cpu = at.selected(0).and_then(|row| u32::try_from(row).ok());
        let mut series = match cpu {
            None => {
                let label = |role: &usize| self.metrics[*role].1.to_owned();
                self.counts.course.rates(at.start, at.now, Measure::Count, 32, label)
            }
            Some(cpu) => {
                let label =
                    |key: &(usize, u32)| if key.1 == cpu { self.metrics[key.0].1.to_owned() } else { String::new() };
                self.counts.by_cpu.rates(at.start, at.now, Measure::Count, usize::MAX, label)
            }
        };
        series.lines.retain(|line| !line.label.is_empty());
        for line in &mut series.lines {
            if let Some(role) = self.metrics.iter().position(|(_, title)| *title == line.label) {
                line.values.iter_mut().for_each(|value| *value *= self.times(role, 1));
            }
        }
        let of = cpu.map_or("all CPUs".to_owned(), |cpu| format!("CPU {cpu}"));
        Panel::new(format!("History of {of}, a second"), Body::Series(series))
    }
}

impl Unit for PercpuStat {
    fn event_requests(&self) -> Vec<EventRequest> {
        self.metrics.iter().map(|(event, _)| EventRequest::new(*event).counted().optional()).collect()
    }

    fn bind(&mut self, event: &super::kit::Event<'_>) -> Result<(), String> {
        self.there[event.role] = true;
        Ok(())
    }

    fn record(&mut self, hit: &Sample<'_>, _cx: &mut Context<'_>) {
        self.counts.hit(hit, hit.period.max(1));
    }

    fn count(&mut self, counted: &CountedEvents) {
        self.counts.read(counted);
    }

    fn loss_text(&self) -> &'static str {
        "counts of a recording are too low by them; live counters lose nothing"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        vec![self.grid(at), self.history(at)]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.reset();
    }
}
