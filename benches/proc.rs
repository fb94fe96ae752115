//! The cost of monitoring a machine with 512 CPUs: `cargo bench --bench proc`.
//!
//! /proc and /sys of such a machine, with 400 interrupt lines, are written to a directory and read like the live screen
//! does: /proc/stat ten times per second, everything once. For comparison, the files are also read without parsing. The
//! memory growth of a thousand seconds is printed, too.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use perfprof_tui::kernel::host::Roots;
use perfprof_tui::kernel::procfs::own_rss;
use perfprof_tui::machine::host::HostWatch;
use perfprof_tui::query::cpus::context::VECTORS;

const CPUS: u64 = 512;
const LINES: u64 = 400;

fn main() {
    let dir = tempfile::tempdir().expect("dir");
    let root = dir.path();
    for folder in ["proc/net", "proc/pressure", "sys/devices/system/cpu"] {
        std::fs::create_dir_all(root.join(folder)).expect("mkdir");
    }
    write(root, 1);
    let roots = Roots { proc: root.join("proc"), sys: root.join("sys") };
    let mut reader = HostWatch::new(roots);
    reader.cut();
    write(root, 2);
    let bare = median(|| {
        for name in ["stat", "softirqs", "interrupts", "net/softnet_stat"] {
            std::hint::black_box(std::fs::read(root.join("proc").join(name)).expect("readable"));
        }
    });
    let tick = median(|| reader.tick());
    let cut = median(|| drop(std::hint::black_box(reader.cut())));
    let mut matrix = perfprof_tui::session::machine::Matrix::default();
    let text = std::fs::read(root.join("proc/interrupts")).expect("readable");
    let interrupts = median(|| matrix.parse(&text));
    println!("{CPUS} CPUs, {LINES} interrupt lines");
    println!("reading the files only:             {bare:>8.1?}");
    println!("/proc/stat, ten times a second:     {tick:>8.1?}");
    println!("everything, once a second:          {cut:>8.1?}");
    println!("of it parsing {} kB of interrupts: {interrupts:>9.1?}", text.len() / 1000);
    let second = tick * 10 + cut;
    println!("a second of both, of one CPU:       {:>7.2} %", second.as_secs_f64() * 100.0);
    let mut before = 0;
    for round in 0..1300 {
        if round == 300 {
            // Histories are full by now.
            before = own_rss();
        }
        if round % 100 == 0 {
            write(root, 3 + round);
        }
        reader.tick();
        drop(reader.cut());
    }
    println!("memory after a thousand more:       {:>+7} kB", (own_rss() as i64 - before as i64) / 1024);
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Writes the files after some rounds, with increased counters.
fn write(root: &Path, round: u64) {
    let file = |name: &str, text: String| std::fs::write(root.join(name), text).expect("written");
    let mut stat = String::from("cpu  1 2 3 4 5 6 7 8 9 0\n");
    for cpu in 0..CPUS {
        let t = round * 1_000_000 + cpu;
        let _ = writeln!(stat, "cpu{cpu} {t} {} {} {} 17 0 {} 0 0 0", t / 7, t / 3, t * 9, t / 50);
    }
    let _ = writeln!(stat, "intr {}", "0 ".repeat(LINES as usize));
    stat.push_str("ctxt 1\nprocs_running 3\nprocs_blocked 0\n");
    file("proc/stat", stat);
    let head: String = (0..CPUS).map(|cpu| format!("      CPU{cpu}")).collect();
    let counts = |row: u64| (0..CPUS).map(|cpu| format!(" {:>10}", round * row * 31 + cpu)).collect::<String>();
    let mut softirqs = format!("{head}\n");
    for (row, name) in (1..).zip(VECTORS) {
        let _ = writeln!(softirqs, "{name:>12}:{}", counts(row));
    }
    file("proc/softirqs", softirqs);
    let mut interrupts = format!("{head}\n");
    for line in 0..LINES {
        let _ = writeln!(interrupts, "{line:>4}:{}  IR-PCI-MSI {line}-edge      nvme0q{line}", counts(line + 1));
    }
    file("proc/interrupts", interrupts);
    let softnet: String =
        (0..CPUS).map(|cpu| format!("{:08x} 0 {round:08x} 0 0 0 0 0 0 0 0 0 {cpu:08x}\n", round * 99 + cpu)).collect();
    file("proc/net/softnet_stat", softnet);
    file("proc/net/dev", "head\n eth0: 1 2 3 4 5 6 7 8 9 10 11 12\n".to_owned());
    for name in ["cpu", "io"] {
        file(&format!("proc/pressure/{name}"), "some avg10=1.00 avg60=0.00 avg300=0.00 total=0\n".to_owned());
    }
    file("sys/devices/system/cpu/online", format!("0-{}\n", CPUS - 1));
    file("sys/devices/system/cpu/present", format!("0-{}\n", CPUS - 1));
}
