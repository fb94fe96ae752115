//! perf's sort keys, and the key that a prefix selects.

/// The keys in the order of prefix lookups (perf-report(1), --sort).
pub(crate) const KEYS: &str = "\
    pid tgid comm comm_nodigit dso symbol parent cpu socket srcline srcfile local_weight weight transaction trace symbol_size dso_size \
    cgroup cgroup_id ipc_null time code_page_size local_ins_lat ins_lat local_p_stage_cyc p_stage_cyc addr parallelism overhead latency \
    overhead_sys overhead_us overhead_guest_sys overhead_guest_us overhead_children sample period dso_from dso_to \
    symbol_from symbol_to mispredict abort in_tx cycles srcline_from srcline_to ipc_lbr addr_from addr_to \
    symbol_daddr dso_daddr locked tlb mem snoop dcacheline symbol_iaddr phys_daddr data_page_size blocked";

/// Returns the first key that begins with a word, case-insensitively.
pub(crate) fn begun(word: &str) -> Option<&'static str> {
    let typed = word.to_ascii_lowercase();
    KEYS.split(' ').find(|name| !typed.is_empty() && name.starts_with(&typed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_is_the_first_key_that_has_it() {
        for (typed, meant) in
            [("Comm", "comm"), ("sym", "symbol"), ("tra", "transaction"), ("mis", "mispredict"), ("tg", "tgid")]
        {
            assert_eq!(begun(typed), Some(meant), "{typed}");
        }
        assert_eq!((begun(""), begun("overhed")), (None, None));
    }
}
