//! `percpu-stat`: rates by CPU: switches, faults, interrupts, packets, pages.

use crate::units::kit::figures::counted::Counted;
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "percpu-stat",
    about: "activity of each CPU per second: switches, faults, interrupts, softirqs, packets, pages",
    words: "packets interrupt irq softirq network context-switch vmstat mpstat load cpu",
    help: "The kernel counts the events, without samples. A note names events that this kernel lacks. Idle is the \
           number of times the CPU went idle per second: half of the tracepoint's hits, because it fires on entry and \
           on exit.",
    example: "perfprof-tui percpu-stat -i 1 --syscalls",
    output: "\
$ perfprof-tui percpu-stat --batch -n 1
CPU  switches  migrations  minflt  majflt  irqs  softirqs  hrtimers…
  0  102039.9         0.0     0.0     0.0   0.0      33.5     249.2…
  1     179.4         0.0    38.3     0.0   0.0    8575.4     272.5…
all  102219.3         0.0    38.3     0.0   0.0    8609.0     521.7…",
    options: &["syscalls"],
    sees: Sees::Cpus,
    across: None,
    interval: Some(1.0),
    make: |settings| {
        let n = if settings.has("syscalls") { METRICS.len() } else { METRICS.len() - 1 };
        Ok(Counted::unit(&METRICS[..n], |of, at| vec![grid(of, at), history(of, at)]))
    },
};

/// Event and column; raw_syscalls is last because it slows down every system call.
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

/// The number of occurrences from a count: idle states have an entry and an exit event.
fn times(event: &str, count: u64) -> f64 {
    if event == "power:cpu_idle" { count as f64 / 2.0 } else { count as f64 }
}

fn grid(of: &Counted, at: &Moment<'_>) -> Panel {
    let column = |role: usize| named(of.title(role), Align::Right, 10);
    let rate = |cpu, role: usize| Cell::Number(times(&of.events[role].0.event, of.counts.on(role, cpu)) / at.seconds());
    of.counts.sheet(4).each(of.there(), column, rate).whole("Per second on each CPU")
}

fn history(of: &Counted, at: &Moment<'_>) -> Panel {
    let cpu = at.selected(0).and_then(|row| u32::try_from(row).ok());
    let label = |role: &usize| of.title(*role).to_owned();
    let mut series = match cpu {
        None => of.counts.course.rates(at.start, at.now, Measure::Count, 32, label),
        Some(cpu) => {
            let label = |(role, on): &(usize, u32)| if *on == cpu { label(role) } else { String::new() };
            of.counts.by_cpu.rates(at.start, at.now, Measure::Count, usize::MAX, label)
        }
    };
    series.lines.retain(|line| !line.label.is_empty());
    for line in &mut series.lines {
        if let Some((request, _)) = of.events.iter().find(|(_, title)| *title == line.label) {
            line.values.iter_mut().for_each(|value| *value *= times(&request.event, 1));
        }
    }
    let whose = cpu.map_or("all CPUs".to_owned(), |cpu| format!("CPU {cpu}"));
    Panel::new(format!("History of {whose} per second"), Body::Series(series))
}
