//! The text of tracepoints: all formats of this kernel, and the output of perf script for a mixed load.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::process::{Command, Stdio};

use crate::common::{allowed, installed, program, run, skipped};
use perfprof_tui::event::format::Format;
use perfprof_tui::event::tracepoint;

/// Formats that need kernel code: functions, statements and macros that the record alone cannot evaluate.
const NEED_CODE: &[&str] = &[
    "dma:dma_map_sg",
    "jbd2:jbd2_checkpoint_stats",
    "jbd2:jbd2_run_stats",
    "kvmmmu:kvm_mmu_get_page",
    "kvmmmu:kvm_mmu_prepare_zap_page",
    "kvmmmu:kvm_mmu_sync_page",
    "kvmmmu:kvm_mmu_unsync_page",
    "ras:mc_event",
];

/// Kernel releases whose tracepoints were all reviewed.
const LOOKED_AT: &[&str] = &["6.1.", "6.18."];

/// Whether the tracepoints of the running kernel were reviewed.
fn is_looked_at() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    LOOKED_AT.iter().any(|known| release.starts_with(known))
}

/// The number of tracepoints that may be missing from the lists here; another kernel may add some.
fn may_be_new(all: usize) -> usize {
    if is_looked_at() { 0 } else { all.div_ceil(33) }
}

#[test]
fn every_format_of_this_kernel_is_understood() {
    let Ok(root) = tracepoint::root() else { return skipped("tracefs is not readable") };
    let mut seen = 0;
    let mut left: Vec<String> = Vec::new();
    for (system, event) in tracepoint::all(&root) {
        // An event may disappear while the list is read.
        let Ok(text) = tracepoint::format(&root, &system, &event) else { continue };
        let format = Format::parse(&system, &text, false).expect("an id");
        seen += 1;
        if !format.printer.is_understood() {
            left.push(format!("{system}:{event}: {}", format.print));
        }
    }
    left.retain(|line| !NEED_CODE.iter().any(|name| line.starts_with(&format!("{name}:"))));
    assert!(
        left.len() <= may_be_new(seen),
        "{} of {seen} formats are not understood:\n{}",
        left.len(),
        left.join("\n")
    );
    assert!(seen > 100, "{seen}");
}

/// Texts that differ from those of perf 6.1, and why.
///
/// Ours is the kernel's text, as far as the record allows.
const DIFFER: &[(&str, &str)] = &[
    ("dma:dma_map_sg", "perf cannot parse it"),
    ("ipi:ipi_send_cpumask", "perf has no __get_cpumask"),
    ("jbd2:jbd2_checkpoint_stats", "perf has no jiffies_to_msecs"),
    ("jbd2:jbd2_run_stats", "perf has no jiffies_to_msecs"),
    ("kmem:mm_page_alloc", "perf takes vmemmap_base for 0 and a page for a byte, so the page is the frame's number"),
    ("kmem:mm_page_alloc_extfrag", "the same"),
    ("kmem:mm_page_alloc_zone_locked", "the same"),
    ("kmem:mm_page_free", "the same"),
    ("kmem:mm_page_free_batched", "the same"),
    ("kmem:mm_page_pcpu_drain", "the same"),
    ("timer:timer_start", "perf reads `a & (b | c)` as `(a & b) | c`, so the flags D|P|I are always set"),
    ("writeback:sb_clear_inode_writeback", "perf gives a state of 0 the first name whose value is unknown"),
    ("writeback:sb_mark_inode_writeback", "perf gives a state of 0 the first name whose value is unknown"),
    ("writeback:writeback_dirty_inode", "perf gives a state of 0 the first name whose value is unknown"),
    ("writeback:writeback_dirty_inode_enqueue", "perf gives a state of 0 the first name whose value is unknown"),
    ("writeback:writeback_dirty_inode_start", "perf gives a state of 0 the first name whose value is unknown"),
    ("writeback:writeback_lazytime", "perf gives a state of 0 the first name whose value is unknown"),
    ("writeback:writeback_lazytime_iput", "perf gives a state of 0 the first name whose value is unknown"),
    ("writeback:writeback_mark_inode_dirty", "perf gives a state of 0 the first name whose value is unknown"),
    ("writeback:writeback_single_inode", "perf takes jiffies for 0, so the age is wrong"),
    ("writeback:writeback_single_inode_start", "perf takes jiffies for 0, so the age is wrong"),
];

/// Subsystems that a load of files, sockets, processes and timers reaches, split into parts so that each recording has
/// enough descriptors and ring buffers.
const PARTS: &[&[&str]] = &[
    &["alarmtimer", "block", "csd", "exceptions", "ext4", "filelock", "filemap", "icmp", "ipi", "irq", "jbd2"],
    &["maple_tree", "migrate", "mmap", "mmap_lock", "napi", "net", "notifier", "oom", "page_pool", "percpu", "power"],
    &["kmem", "printk", "qdisc", "raw_syscalls", "rcu", "sched", "signal", "skb", "sock", "task", "tcp", "timer"],
    &["tlb", "udp", "vmalloc", "vmscan", "wbt", "workqueue", "writeback", "x86_fpu", "fib", "fib6", "cgroup", "neigh"],
];

/// A second of files, pipes, sockets, signals and processes.
const LOAD: &str = r#"
cd "$1" || exit 1
for i in 1 2; do
  dd if=/dev/zero of=f bs=64k count=16 conv=fsync 2>/dev/null
  cat f > g; mv g h; rm h; ln -s f s; mkdir d; rmdir d; rm s
  timeout 0.05 nice -n 5 sh -c 'while :; do :; done'
  (echo hi | cat | tr a b) >/dev/null
  (exec 3<>/dev/tcp/127.0.0.1/1) 2>/dev/null
  (exec 3<>/dev/tcp/::1/1) 2>/dev/null
  echo x 2>/dev/null >/dev/udp/127.0.0.1/1
  flock f true
  sleep 0.02
done
sync -f f
"#;

/// `tid cpu time event: text` of each sample.
fn lines(mut command: Command) -> Vec<String> {
    let command = command.args(["--ns", "-F", "tid,cpu,time,event,trace"]).stderr(Stdio::null());
    String::from_utf8_lossy(&run(command).stdout).lines().map(|line| line.trim().to_owned()).collect()
}

/// The tracepoint name in such a line.
fn event_of(line: &str) -> &str {
    line.split(": ").nth(1).unwrap_or_default().trim().trim_end_matches(':')
}

#[test]
fn texts_are_those_of_perf_script() {
    needs!(allowed());
    let Ok(root) = tracepoint::root() else { return skipped("tracefs is not readable") };
    needs!(installed("perf"));
    let systems: BTreeSet<String> = tracepoint::all(&root).into_iter().map(|(system, _)| system).collect();
    let mut agree: BTreeMap<String, usize> = BTreeMap::new();
    let mut differ: BTreeMap<String, (String, String)> = BTreeMap::new();
    for part in PARTS {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("perf.data");
        let mut record = Command::new("perf");
        record.args(["record", "-q", "-B", "-N", "-m", "512", "-o"]).arg(&file);
        for system in part.iter().filter(|system| systems.contains(**system)) {
            record.args(["-e", &format!("{system}:*")]);
        }
        record.args(["--", "timeout", "20", "bash", "-c", LOAD, "load"]).arg(dir.path());
        run(record.stdout(File::create("/dev/null").expect("null")).stderr(Stdio::null()));
        let mut perf = Command::new("perf");
        perf.arg("--buildid-dir").arg(dir.path()).args(["script", "-i"]).arg(&file);
        let mut ours = program();
        ours.arg("script").arg(&file);
        let (perf, ours) = (lines(perf), lines(ours));
        assert_eq!(perf.len(), ours.len(), "{part:?}");
        for (theirs, own) in perf.iter().zip(&ours) {
            if theirs == own {
                *agree.entry(event_of(own).to_owned()).or_default() += 1;
            } else {
                differ.entry(event_of(theirs).to_owned()).or_insert_with(|| (theirs.clone(), own.clone()));
            }
        }
    }
    differ.retain(|event, _| !DIFFER.iter().any(|(known, _)| known == event));
    let shown: Vec<String> = differ.values().map(|(theirs, own)| format!("perf: {theirs}\nours: {own}")).collect();
    let few = shown.len() <= may_be_new(agree.len());
    assert!(few, "{} of {} tracepoints differ:\n{}", shown.len(), agree.len(), shown.join("\n"));
    // The kernel decides which tracepoints exist.
    let least = if is_looked_at() { 80 } else { 40 };
    assert!(agree.len() >= least, "too few tracepoints were hit: {:?}", agree.keys());
}
