//! `tlbstat`: TLB hit ratios of data reads, data writes and instructions by CPU.

use crate::units::kit::figures::counted::{CountRatio, ratios};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "tlbstat",
    about: "hit ratios of the TLBs by CPU: data reads, data writes, instructions",
    words: "tlb hugepage thp page miss memory",
    help: "Reads hardware counters: the generic cache events dTLB-loads, dTLB-stores and iTLB-loads with their \
           misses. Events that this CPU does not count are omitted. The unit needs a hardware PMU.",
    example: "perfprof-tui tlbstat -i 1",
    output: "",
    options: &[],
    sees: Sees::Cpus,
    across: None,
    interval: Some(1.0),
    make: |_| Ok(ratios(EVENTS, RATIOS)),
};

/// (event, column)
const EVENTS: &[(&str, &str)] = &[
    ("dTLB-loads", "loads"),
    ("dTLB-load-misses", "load misses"),
    ("dTLB-stores", "stores"),
    ("dTLB-store-misses", "store misses"),
    ("iTLB-loads", "fetches"),
    ("iTLB-load-misses", "fetch misses"),
];
const RATIOS: &[CountRatio] = &[
    CountRatio { name: "load_hit_pct", title: "load HIT%", all: 0, misses: 1 },
    CountRatio { name: "store_hit_pct", title: "store HIT%", all: 2, misses: 3 },
    CountRatio { name: "fetch_hit_pct", title: "fetch HIT%", all: 4, misses: 5 },
];
