//! perf's sort keys, and the one that a beginning means.

/// The keys in the order in which a beginning is looked for among them (perf-report(1), --sort): of tasks and code,
/// figures, branches, accesses to memory.
pub(crate) const KEYS: &[&str] = &[
    "pid",
    "comm",
    "dso",
    "symbol",
    "parent",
    "cpu",
    "socket",
    "srcline",
    "srcfile",
    "local_weight",
    "weight",
    "transaction",
    "trace",
    "symbol_size",
    "dso_size",
    "cgroup",
    "cgroup_id",
    "ipc_null",
    "time",
    "code_page_size",
    "local_ins_lat",
    "ins_lat",
    "local_p_stage_cyc",
    "p_stage_cyc",
    "addr",
    "overhead",
    "overhead_sys",
    "overhead_us",
    "overhead_guest_sys",
    "overhead_guest_us",
    "overhead_children",
    "sample",
    "period",
    "dso_from",
    "dso_to",
    "symbol_from",
    "symbol_to",
    "mispredict",
    "abort",
    "in_tx",
    "cycles",
    "srcline_from",
    "srcline_to",
    "ipc_lbr",
    "addr_from",
    "addr_to",
    "symbol_daddr",
    "dso_daddr",
    "locked",
    "tlb",
    "mem",
    "snoop",
    "dcacheline",
    "symbol_iaddr",
    "phys_daddr",
    "data_page_size",
    "blocked",
];

/// The key that a word is the beginning of, in whichever case: the first one.
pub(crate) fn begun(word: &str) -> Option<&'static str> {
    let typed = word.to_ascii_lowercase();
    KEYS.iter().find(|name| !typed.is_empty() && name.starts_with(&typed)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_the_first_key_that_has_it() {
        for (typed, meant) in [("Comm", "comm"), ("sym", "symbol"), ("tra", "transaction"), ("mis", "mispredict")] {
            assert_eq!(begun(typed), Some(meant), "{typed}");
        }
        assert_eq!((begun(""), begun("overhed")), (None, None));
    }
}
