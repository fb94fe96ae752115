//! `cpus`: the figures of the CPU screen without a screen, one table an interval.

use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::analysis::cpu_table::{CpuColumn, CpuFacts, SHOWN};
use crate::analysis::cpus::HostView;
use crate::analysis::findings::{self, Facts};
use crate::analysis::softirq::Times;
use crate::engine::host::HostReader;
use crate::engine::softirqs::Tracer;
use crate::kernel::host::Roots;
use crate::kernel::wall_ns;
use crate::session::machine::Ticks;

use super::Usage;
use super::args::{Cpus, Format};
use super::output::{complain, print, print_json_line};
use super::setup::{cpu_list, points};

/// `perfprof-tui cpus`.
pub fn run(args: Cpus) -> anyhow::Result<u8> {
    let interval =
        Duration::try_from_secs_f64(args.interval).ok().filter(|d| (0.1..86_400.0).contains(&d.as_secs_f64()));
    let interval = interval.ok_or_else(|| Usage(format!("-i {}: expected seconds, 0.1 or more", args.interval)))?;
    points(args.threshold)?;
    let chosen = args.cpus.as_deref().map(cpu_list).transpose()?;
    let stop = stop_signals()?;
    let mut reader = HostReader::new(Roots::default());
    let first = reader.cut();
    if first.rows.is_empty() {
        anyhow::bail!("{}", first.notes.first().map_or("no CPU is known", String::as_str));
    }
    if let Some(missing) = chosen.iter().flatten().find(|cpu| first.row(**cpu).is_none()) {
        return Err(Usage(format!("-C {missing}: there is no such CPU")).into());
    }
    let tracer = args.softirq_time.then(|| Tracer::start(chosen.clone())).transpose();
    let tracer = tracer.map_err(|why| anyhow::anyhow!("the time in softirqs cannot be measured: {why}"))?;
    let mut said = Vec::new();
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) {
        if !wait(&mut reader, interval, &stop) {
            break;
        }
        let view = reader.cut();
        for note in &view.notes {
            if !said.contains(note) {
                complain(note);
                said.push(note.clone());
            }
        }
        let times = tracer.as_ref().and_then(Tracer::times);
        show(&args, &view, times.as_deref(), chosen.as_deref(), printed == 0)?;
        printed += 1;
    }
    Ok(0)
}

fn stop_signals() -> anyhow::Result<std::sync::Arc<std::sync::atomic::AtomicBool>> {
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Reads ticks until an interval is over; `false` when we are to end.
fn wait(reader: &mut HostReader, interval: Duration, stop: &std::sync::atomic::AtomicBool) -> bool {
    let end = std::time::Instant::now() + interval;
    loop {
        let left = end.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(reader.pause()));
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            return false;
        }
        if left > reader.pause() {
            reader.tick();
        }
    }
}

fn columns(view: &HostView, timed: bool) -> Vec<CpuColumn> {
    use CpuColumn::{Cpu, IrqTimed, Ksoftirqd, Missing, Peak, Rate, Share, Timed};
    let order = [
        Ticks::USER,
        Ticks::NICE,
        Ticks::SYSTEM,
        Ticks::IOWAIT,
        Ticks::IRQ,
        Ticks::SOFTIRQ,
        Ticks::STEAL,
        Ticks::GUEST,
        Ticks::GUEST_NICE,
        Ticks::IDLE,
    ];
    let mut out = vec![Cpu];
    out.extend(order.map(Share));
    out.extend([Missing, Peak, Ksoftirqd]);
    if timed {
        out.push(IrqTimed);
        out.extend(SHOWN.map(Timed));
    } else {
        out.extend(SHOWN.into_iter().filter(|v| *v < view.vectors.len()).map(Rate));
    }
    out
}

fn show(
    args: &Cpus,
    view: &HostView,
    times: Option<&Times>,
    chosen: Option<&[u32]>,
    first: bool,
) -> anyhow::Result<()> {
    let facts = CpuFacts { host: Some(view), times, ..CpuFacts::default() };
    let wanted = |cpu: &u32| chosen.is_none_or(|list| list.contains(cpu));
    let cpus: Vec<u32> = view.rows.iter().filter(|r| r.online).map(|r| r.cpu).filter(wanted).collect();
    let table = facts.table(&columns(view, args.softirq_time), &cpus);
    let found =
        findings::findings(Facts { host: Some(view), samples: None, own: 0.0, points: args.threshold, before: &[] });
    let seconds = wall_ns() as f64 / 1e9;
    match args.format {
        Format::Text => {
            let mut out = format!("{seconds:.3}  {:.2} s\n{}", view.interval as f64 / 1e9, table.to_text());
            found.iter().for_each(|f| out.push_str(&format!("! {}: {}\n", f.text, f.advice)));
            out.push('\n');
            print(&out)?;
        }
        Format::Csv => {
            let csv = table.to_csv();
            let mut lines = csv.split_inclusive("\r\n");
            let head = lines.next().unwrap_or_default();
            let mut out = if first { format!("time,{head}") } else { String::new() };
            lines.for_each(|line| out.push_str(&format!("{seconds:.3},{line}")));
            print(&out)?;
        }
        Format::Json => {
            let found: Vec<_> = found
                .iter()
                .map(|f| serde_json::json!({ "cpu": f.cpu, "percent": f.share, "text": f.text, "advice": f.advice }))
                .collect();
            let line = serde_json::json!({
                "time": seconds,
                "interval": view.interval as f64 / 1e9,
                "cpus": table.to_json(),
                "findings": found,
            });
            print_json_line(&line)?;
        }
    }
    Ok(())
}
