//! `llcstat`: hit ratio of the last-level cache by CPU.

use crate::units::kit::figures::counted::{CountRatio, ratios};
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "llcstat",
    about: "hit ratio of the last-level cache by CPU",
    words: "cache llc l3 miss memory",
    help: "Reads hardware counters: the generic cache-references and cache-misses, and AMD's L3 PMU (amd_l3: all \
           coherent accesses, and misses) where available. The two counts of a ratio cover the same time. Multiplexed \
           counters are scaled, and a note reports it. The unit needs a hardware PMU.",
    example: "perfprof-tui llcstat -i 1",
    output: "",
    options: &[],
    sees: Sees::Cpus,
    across: None,
    interval: Some(1.0),
    make: |_| Ok(ratios(EVENTS, RATIOS)),
};

/// Event and column. AMD's events are from its Processor Programming References (L3LookupState).
const EVENTS: &[(&str, &str)] = &[
    ("cache-references", "refs"),
    ("cache-misses", "misses"),
    ("amd_l3/event=0x04,umask=0xff/", "L3 refs"),
    ("amd_l3/event=0x04,umask=0x01/", "L3 misses"),
];
const RATIOS: &[CountRatio] = &[
    CountRatio { name: "hit_pct", title: "HIT%", all: 0, misses: 1 },
    CountRatio { name: "l3_hit_pct", title: "L3 HIT%", all: 2, misses: 3 },
];
