//! The fixed event names: hardware, software and cache.
//! They are those of `perf list` (`enum perf_hw_id`, `enum perf_sw_ids`, `enum perf_hw_cache_id`).

use crate::kernel::perf_event::attr::{TYPE_HARDWARE, TYPE_HW_CACHE, TYPE_SOFTWARE};

/// (name, type, config, description as in perf_event_open(2)). The first name of a config is printed and described.
const FIXED: &[(&str, u32, u64, &str)] = &[
    ("cycles", TYPE_HARDWARE, 0, "CPU cycles, which slow down with the clock"),
    ("cpu-cycles", TYPE_HARDWARE, 0, ""),
    ("instructions", TYPE_HARDWARE, 1, "retired instructions"),
    ("cache-references", TYPE_HARDWARE, 2, "accesses to the last-level cache, on most CPUs"),
    ("cache-misses", TYPE_HARDWARE, 3, "accesses that missed the last-level cache"),
    ("branches", TYPE_HARDWARE, 4, "retired branch instructions"),
    ("branch-instructions", TYPE_HARDWARE, 4, ""),
    ("branch-misses", TYPE_HARDWARE, 5, "mispredicted branches"),
    ("bus-cycles", TYPE_HARDWARE, 6, "cycles of the bus"),
    ("stalled-cycles-frontend", TYPE_HARDWARE, 7, "cycles in which no instruction could be issued"),
    ("idle-cycles-frontend", TYPE_HARDWARE, 7, ""),
    ("stalled-cycles-backend", TYPE_HARDWARE, 8, "cycles in which no instruction could be retired"),
    ("idle-cycles-backend", TYPE_HARDWARE, 8, ""),
    ("ref-cycles", TYPE_HARDWARE, 9, "cycles at the nominal clock"),
    ("cpu-clock", TYPE_SOFTWARE, 0, "a timer of each CPU, for all tasks"),
    ("task-clock", TYPE_SOFTWARE, 1, "a timer of each task, while it runs"),
    ("page-faults", TYPE_SOFTWARE, 2, "accesses to pages that were not mapped"),
    ("faults", TYPE_SOFTWARE, 2, ""),
    ("context-switches", TYPE_SOFTWARE, 3, "changes from one task to another"),
    ("cs", TYPE_SOFTWARE, 3, ""),
    ("cpu-migrations", TYPE_SOFTWARE, 4, "migrations of tasks to another CPU"),
    ("migrations", TYPE_SOFTWARE, 4, ""),
    ("minor-faults", TYPE_SOFTWARE, 5, "page faults without a disk"),
    ("major-faults", TYPE_SOFTWARE, 6, "page faults that waited for a disk"),
    ("alignment-faults", TYPE_SOFTWARE, 7, "unaligned accesses handled by the kernel"),
    ("emulation-faults", TYPE_SOFTWARE, 8, "instructions handled by the kernel"),
    ("dummy", TYPE_SOFTWARE, 9, "nothing; carries side-band records"),
    ("duration_time", TYPE_SOFTWARE, 9, ""),
    ("user_time", TYPE_SOFTWARE, 9, ""),
    ("system_time", TYPE_SOFTWARE, 9, ""),
    ("bpf-output", TYPE_SOFTWARE, 10, "output of BPF programs"),
    ("cgroup-switches", TYPE_SOFTWARE, 11, "changes from one cgroup to another"),
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

pub(crate) fn find(name: &str) -> Option<(u32, u64)> {
    all().find_map(|(n, kind, config)| (n == name).then_some((kind, config)))
}

pub(crate) fn name_of(kind: u32, config: u64) -> Option<String> {
    all().find_map(|(n, k, c)| (k == kind && c == config).then_some(n))
}

/// Returns the description of a fixed event. Empty for alias names and cache events.
pub(crate) fn about(name: &str) -> &'static str {
    FIXED.iter().find(|(known, ..)| *known == name).map_or("", |(.., about)| about)
}

pub(crate) fn all() -> impl Iterator<Item = (String, u32, u64)> {
    let fixed = FIXED.iter().map(|(n, kind, config, _)| ((*n).to_owned(), *kind, *config));
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
