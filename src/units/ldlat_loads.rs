//! `ldlat-loads`: data sources and latencies of loads: cache levels, functions, cache lines.

use super::kit::memory::Accesses;
use super::kit::{Sees, Spec};

pub(super) const SPEC: Spec = Spec {
    name: "ldlat-loads",
    about: "where loads get their data from and what they cost: cache levels, functions, cache lines",
    words: "cache miss numa dram load memory latency",
    help: "Precise samples of loads (Intel PEBS load latency) with at least --latency cycles; shares are of cycles. It \
           needs a hardware PMU that samples loads: bare metal, or a guest with one. Recordings of perf mem record hold \
           its events.",
    example: "perfprof-tui ldlat-loads -p 1234",
    output: "",
    options: &["latency", "addresses"],
    sees: Sees::Target,
    across: None,
    interval: None,
    make: |settings| {
        let latency = settings.number("latency", 30)?;
        Ok(Box::new(Accesses::of(format!("cpu/mem-loads,ldlat={latency}/P|~mem-loads|~ibs_op|~arm_spe"), settings)))
    },
};
