//! The fixed event names: hardware, software and cache (`perf list`, `enum perf_hw_id`,
//! `enum perf_sw_ids`, `enum perf_hw_cache_id`).

use crate::kernel::attr::{TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_SOFTWARE};

/// (name, type, config); the first name of a config is the one that we print.
const FIXED: &[(&str, u32, u64)] = &[
    ("cycles", TYPE_HARDWARE, 0),
    ("cpu-cycles", TYPE_HARDWARE, 0),
    ("instructions", TYPE_HARDWARE, 1),
    ("cache-references", TYPE_HARDWARE, 2),
    ("cache-misses", TYPE_HARDWARE, 3),
    ("branches", TYPE_HARDWARE, 4),
    ("branch-instructions", TYPE_HARDWARE, 4),
    ("branch-misses", TYPE_HARDWARE, 5),
    ("bus-cycles", TYPE_HARDWARE, 6),
    ("stalled-cycles-frontend", TYPE_HARDWARE, 7),
    ("idle-cycles-frontend", TYPE_HARDWARE, 7),
    ("stalled-cycles-backend", TYPE_HARDWARE, 8),
    ("idle-cycles-backend", TYPE_HARDWARE, 8),
    ("ref-cycles", TYPE_HARDWARE, 9),
    ("cpu-clock", TYPE_SOFTWARE, 0),
    ("task-clock", TYPE_SOFTWARE, 1),
    ("page-faults", TYPE_SOFTWARE, 2),
    ("faults", TYPE_SOFTWARE, 2),
    ("context-switches", TYPE_SOFTWARE, 3),
    ("cs", TYPE_SOFTWARE, 3),
    ("cpu-migrations", TYPE_SOFTWARE, 4),
    ("migrations", TYPE_SOFTWARE, 4),
    ("minor-faults", TYPE_SOFTWARE, 5),
    ("major-faults", TYPE_SOFTWARE, 6),
    ("alignment-faults", TYPE_SOFTWARE, 7),
    ("emulation-faults", TYPE_SOFTWARE, 8),
    ("dummy", TYPE_SOFTWARE, 9),
    ("duration_time", TYPE_SOFTWARE, 9),
    ("user_time", TYPE_SOFTWARE, 9),
    ("system_time", TYPE_SOFTWARE, 9),
    ("bpf-output", TYPE_SOFTWARE, 10),
    ("cgroup-switches", TYPE_SOFTWARE, 11),
];

const CACHES: &[&str] = &["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
/// (suffix, operation, result)
const CACHE_OPS: &[(&str, u64, u64)] = &[
    ("loads", 0, 0),
    ("load-misses", 0, 1),
    ("stores", 1, 0),
    ("store-misses", 1, 1),
    ("prefetches", 2, 0),
    ("prefetch-misses", 2, 1),
];

/// Type and config of a fixed name.
pub(crate) fn find(name: &str) -> Option<(u32, u64)> {
    all().find_map(|(n, kind, config)| (n == name).then_some((kind, config)))
}

/// The name of a fixed event.
pub(crate) fn name_of(kind: u32, config: u64) -> Option<String> {
    all().find_map(|(n, k, c)| (k == kind && c == config).then_some(n))
}

/// All fixed names with type and config.
pub(crate) fn all() -> impl Iterator<Item = (String, u32, u64)> {
    let fixed = FIXED.iter().map(|(n, kind, config)| ((*n).to_owned(), *kind, *config));
    let caches = CACHES.iter().zip(0u64..).flat_map(|(cache, number)| {
        CACHE_OPS.iter().map(move |(suffix, op, result)| {
            (format!("{cache}-{suffix}"), TYPE_HW_CACHE, number | op << 8 | result << 16)
        })
    });
    fixed.chain(caches)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_both_ways() {
        assert_eq!(find("cpu-cycles"), Some((TYPE_HARDWARE, 0)));
        assert_eq!(name_of(TYPE_HARDWARE, 0).as_deref(), Some("cycles"));
        assert_eq!(find("dTLB-load-misses"), Some((TYPE_HW_CACHE, 0x1_0003)));
        assert_eq!(find("nope"), None);
    }
}
