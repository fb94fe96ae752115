//! An event's configuration as text, with perf's names of the fields (`struct perf_event_attr`).

use crate::kernel::attr::Attr;

/// Names of bits from the lowest on; a number is the bit of the next name.
type BitNames = &'static str;

/// `PERF_SAMPLE_*` in the order of perf's list, which differs from that of the bits.
const SAMPLES: BitNames = "IP TID TIME ADDR READ CALLCHAIN ID CPU PERIOD STREAM_ID RAW BRANCH_STACK REGS_USER \
                           STACK_USER 16 IDENTIFIER 18 REGS_INTR 15 DATA_SRC 14 WEIGHT 19 PHYS_ADDR AUX CGROUP \
                           DATA_PAGE_SIZE CODE_PAGE_SIZE WEIGHT_STRUCT";

const READS: BitNames = "TOTAL_TIME_ENABLED TOTAL_TIME_RUNNING ID GROUP LOST";

const BRANCHES: BitNames = "USER KERNEL HV ANY ANY_CALL ANY_RETURN IND_CALL ABORT_TX IN_TX NO_TX COND CALL_STACK \
                            IND_JUMP CALL NO_FLAGS NO_CYCLES TYPE_SAVE HW_INDEX PRIV_SAVE";

const FLAGS: BitNames = "disabled inherit pinned exclusive exclude_user exclude_kernel exclude_hv exclude_idle mmap \
                         comm freq inherit_stat enable_on_exec task watermark precise_ip 17 mmap_data sample_id_all \
                         exclude_host exclude_guest exclude_callchain_kernel exclude_callchain_user mmap2 comm_exec \
                         use_clockid context_switch write_backward namespaces ksymbol bpf_event aux_output cgroup \
                         text_poke build_id inherit_thread remove_on_exec sigtrap defer_callchain defer_output";

fn by_bit(names: BitNames) -> impl Iterator<Item = (u32, &'static str)> {
    let mut next = 0;
    names.split_whitespace().filter_map(move |word| match word.parse() {
        Ok(bit) => {
            next = bit;
            None
        }
        Err(_) => {
            next += 1;
            Some((next - 1, word))
        }
    })
}

fn bits(word: u64, names: BitNames) -> String {
    let set = by_bit(names).filter(|(bit, _)| word >> bit & 1 == 1);
    set.map(|(_, name)| name).collect::<Vec<_>>().join("|")
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
    for (bit, name) in by_bit(FLAGS) {
        let value = if name == "precise_ip" { u64::from(attr.precise()) } else { attr.flags >> bit & 1 };
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
