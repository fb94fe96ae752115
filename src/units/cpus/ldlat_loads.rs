//! `ldlat-loads`: data sources and latencies of loads: cache levels, functions, cache lines.

use crate::units::kit::memory::Accesses;
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "ldlat-loads",
    about: "loads by source and cost: cache levels, functions, cache lines",
    words: "cache miss numa dram load memory latency",
    help: "Takes precise samples of loads (Intel PEBS load latency) that took at least --latency cycles; shares are \
           of cycles. The unit needs a hardware PMU that samples loads, on bare metal or passed to the guest, or a \
           recording of perf mem record.",
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
