//! perf's event of off-CPU times (`perf record --off-cpu`). Since 6.16 a BPF program writes a sample's values as raw
//! data: the thread, its off-CPU time, its call chain, its cgroup (`off_cpu_dump` in
//! tools/perf/util/bpf_skel/off_cpu.bpf.c). At the end, perf writes what accumulated below the threshold in the same
//! way, without a timestamp.

use super::Sample;
use super::in_place::u64_at;
use super::sample::{CONTEXT_MAX, u64s};

/// The first value that is not a timestamp: perf numbers accumulated samples from here on (`OFF_CPU_TIMESTAMP`).
pub(crate) const NO_TIME: u64 = !0 << 32;

/// Returns a sample with the values of its raw data; `None` if the data is truncated.
pub(crate) fn unpack(sample: Sample<'_>) -> Option<Sample<'_>> {
    const CHAIN: usize = 24;
    let word = |at: usize| u64_at(sample.raw, at);
    let task = word(0)?;
    let (period, length) = (word(8)?, usize::try_from(word(16)?).ok()?);
    let end = length.checked_mul(8)?.checked_add(CHAIN)?;
    let (chain, cgroup) = (sample.raw.get(CHAIN..end)?, word(end)?);
    let ip = u64s(chain).find(|word| *word < CONTEXT_MAX).unwrap_or_default();
    let (pid, tid) = (task as u32 as i32, (task >> 32) as i32);
    Some(Sample { pid, tid, period, chain, ip, cgroup, raw: &[], ..sample })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kinds::tests::bytes;
    use crate::record::sample::CONTEXT_USER;

    #[test]
    fn raw_data_is_the_sample() {
        let raw = bytes(&[201 << 32 | 200, 500, 3, CONTEXT_USER, 0x200, 0x300, 7]);
        let sample = Sample { raw: &raw, time: 9, period: 1, ..Sample::default() };
        let got = unpack(sample).expect("whole");
        assert_eq!((got.pid, got.tid, got.period, got.ip, got.cgroup, got.time), (200, 201, 500, 0x200, 7, 9));
        assert_eq!(got.chain().collect::<Vec<_>>(), [CONTEXT_USER, 0x200, 0x300]);
        // Padding after it is ignored.
        let padded = [&raw[..], &[0; 4]].concat();
        assert!(unpack(Sample { raw: &padded, ..sample }).is_some());
        let empty = bytes(&[0, 5, 0, 0]);
        assert_eq!(unpack(Sample { raw: &empty, ..sample }).map(|got| (got.ip, got.chain.len())), Some((0, 0)));
        for cut in 0..raw.len() {
            assert_eq!(unpack(Sample { raw: &raw[..cut], ..sample }), None, "{cut}");
        }
        for length in [5, u64::MAX, u64::MAX / 8, 1 << 61] {
            let wild = bytes(&[0, 5, length, 1, 2]);
            assert_eq!(unpack(Sample { raw: &wild, ..sample }), None, "{length}");
        }
    }
}
