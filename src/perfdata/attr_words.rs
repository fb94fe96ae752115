//! An event's configuration as text, with perf's names of the fields (`struct perf_event_attr`).

use crate::kernel::attr::Attr;

/// `PERF_SAMPLE_*` in the order of perf's list, which differs from that of the bits.
const SAMPLES: &[(u32, &str)] = &[
    (0, "IP"),
    (1, "TID"),
    (2, "TIME"),
    (3, "ADDR"),
    (4, "READ"),
    (5, "CALLCHAIN"),
    (6, "ID"),
    (7, "CPU"),
    (8, "PERIOD"),
    (9, "STREAM_ID"),
    (10, "RAW"),
    (11, "BRANCH_STACK"),
    (12, "REGS_USER"),
    (13, "STACK_USER"),
    (16, "IDENTIFIER"),
    (18, "REGS_INTR"),
    (15, "DATA_SRC"),
    (14, "WEIGHT"),
    (19, "PHYS_ADDR"),
    (20, "AUX"),
    (21, "CGROUP"),
    (22, "DATA_PAGE_SIZE"),
    (23, "CODE_PAGE_SIZE"),
    (24, "WEIGHT_STRUCT"),
];

/// `PERF_FORMAT_*`.
const READS: &[(u32, &str)] =
    &[(0, "TOTAL_TIME_ENABLED"), (1, "TOTAL_TIME_RUNNING"), (2, "ID"), (3, "GROUP"), (4, "LOST")];

/// `PERF_SAMPLE_BRANCH_*`.
const BRANCHES: &[(u32, &str)] = &[
    (0, "USER"),
    (1, "KERNEL"),
    (2, "HV"),
    (3, "ANY"),
    (4, "ANY_CALL"),
    (5, "ANY_RETURN"),
    (6, "IND_CALL"),
    (7, "ABORT_TX"),
    (8, "IN_TX"),
    (9, "NO_TX"),
    (10, "COND"),
    (11, "CALL_STACK"),
    (12, "IND_JUMP"),
    (13, "CALL"),
    (14, "NO_FLAGS"),
    (15, "NO_CYCLES"),
    (16, "TYPE_SAVE"),
    (17, "HW_INDEX"),
    (18, "PRIV_SAVE"),
];

/// The flags by bit; `precise_ip` has two.
const FLAGS: &[(u32, &str)] = &[
    (0, "disabled"),
    (1, "inherit"),
    (2, "pinned"),
    (3, "exclusive"),
    (4, "exclude_user"),
    (5, "exclude_kernel"),
    (6, "exclude_hv"),
    (7, "exclude_idle"),
    (8, "mmap"),
    (9, "comm"),
    (10, "freq"),
    (11, "inherit_stat"),
    (12, "enable_on_exec"),
    (13, "task"),
    (14, "watermark"),
    (15, "precise_ip"),
    (17, "mmap_data"),
    (18, "sample_id_all"),
    (19, "exclude_host"),
    (20, "exclude_guest"),
    (21, "exclude_callchain_kernel"),
    (22, "exclude_callchain_user"),
    (23, "mmap2"),
    (24, "comm_exec"),
    (25, "use_clockid"),
    (26, "context_switch"),
    (27, "write_backward"),
    (28, "namespaces"),
    (29, "ksymbol"),
    (30, "bpf_event"),
    (31, "aux_output"),
    (32, "cgroup"),
    (33, "text_poke"),
    (34, "build_id"),
    (35, "inherit_thread"),
    (36, "remove_on_exec"),
    (37, "sigtrap"),
    (38, "defer_callchain"),
    (39, "defer_output"),
];

fn bits(word: u64, names: &[(u32, &str)]) -> String {
    names.iter().filter(|(bit, _)| word >> bit & 1 == 1).map(|(_, name)| *name).collect::<Vec<_>>().join("|")
}

/// Returns the fields that are not zero; `size` is that of the attr in its file.
pub(crate) fn fields(attr: &Attr, size: u32) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let mut put = |name, is_set: bool, value: String| {
        if is_set {
            out.push((name, value));
        }
    };
    let number = |n: u64| n.to_string();
    let hex = |n: u64| format!("{n:#x}");
    put("type", attr.kind != 0, number(attr.kind.into()));
    put("size", size != 0, number(size.into()));
    put("config", attr.config != 0, hex(attr.config));
    put("{ sample_period, sample_freq }", attr.period_or_freq != 0, number(attr.period_or_freq));
    put("sample_type", attr.sample_type != 0, bits(attr.sample_type, SAMPLES));
    put("read_format", attr.read_format != 0, bits(attr.read_format, READS));
    for (bit, name) in FLAGS {
        let value = if *name == "precise_ip" { u64::from(attr.precise()) } else { attr.flags >> bit & 1 };
        put(name, value != 0, number(value));
    }
    put("{ wakeup_events, wakeup_watermark }", attr.wakeup != 0, number(attr.wakeup.into()));
    put("bp_type", attr.bp_type != 0, number(attr.bp_type.into()));
    put("{ bp_addr, config1 }", attr.config1 != 0, hex(attr.config1));
    put("{ bp_len, config2 }", attr.config2 != 0, hex(attr.config2));
    put("branch_sample_type", attr.branch_sample_type != 0, bits(attr.branch_sample_type, BRANCHES));
    put("sample_regs_user", attr.regs_user != 0, hex(attr.regs_user));
    put("sample_stack_user", attr.stack_user != 0, number(attr.stack_user.into()));
    put("clockid", attr.clockid != 0, attr.clockid.to_string());
    put("sample_regs_intr", attr.regs_intr != 0, hex(attr.regs_intr));
    put("aux_watermark", attr.aux_watermark != 0, number(attr.aux_watermark.into()));
    put("sample_max_stack", attr.max_stack != 0, number(attr.max_stack.into()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::Flag;

    #[test]
    fn fields_that_are_set_are_named_in_order() {
        let mut attr = Attr { kind: 1, period_or_freq: 99, sample_type: 1 << 15 | 1 << 16 | 7, ..Attr::default() };
        attr.set(Flag::Freq, true);
        attr.set_precise(3);
        let text: Vec<String> = fields(&attr, 128).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let want = "type=1 size=128 { sample_period, sample_freq }=99 sample_type=IP|TID|TIME|IDENTIFIER|DATA_SRC \
                    freq=1 precise_ip=3";
        assert_eq!(text.join(" "), want);
        assert!(fields(&Attr::default(), 0).is_empty());
    }
}
