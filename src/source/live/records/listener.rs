//! Changes of the kernel's code: the event that listens to them, and its records. For each listening event on the
//! machine, the kernel increases the size in the header of such a record by the event's sample ids
//! (`perf_event_ksymbol_output`, `perf_event_bpf_output`, `perf_event_text_poke_output`), newest event first. So older
//! listeners get records that claim more bytes than were written, and perf rejects their files. Our event listens
//! without sample ids, which adds nothing. This module cuts its own records, which others' events enlarge, to the
//! written bytes, and adds the sample id that all records of a recording have.

use crate::record::in_place::u64_at;
use crate::record::kinds::{HEADER, types};
use crate::record::{Layout, SampleId};

/// Bytes of a BPF program's record: type, flags, id and tag.
const BPF_EVENT: usize = HEADER + 16;
/// The offset of a symbol's name: after address, length, type and flags.
const NAME_AT: usize = HEADER + 16;
/// The offset of the two lengths of changed code: after the address.
const LENGTHS_AT: usize = HEADER + 8;
/// Bytes of a record of losses, which the next writer adds with its own sample id, or without one.
const LOST: usize = HEADER + 16;

/// Returns a record of `own` bytes with a sample id behind them.
pub(super) fn completed(record: &[u8], own: usize, layout: &Layout, id: &SampleId) -> Option<Vec<u8>> {
    let (body, trailer) = (record.get(HEADER..own)?, layout.encode_trailer(id));
    let size = u16::try_from(own + trailer.len()).ok()?;
    Some([&record[..6], &size.to_le_bytes(), body, &trailer].concat())
}

/// Returns the written bytes of a record without a sample id; `None` for others.
pub(super) fn written(kind: u32, record: &[u8]) -> Option<usize> {
    match kind {
        types::BPF_EVENT => Some(BPF_EVENT),
        types::KSYMBOL => {
            let name = memchr::memchr(0, record.get(NAME_AT..)?)?;
            Some(NAME_AT + (name + 1).next_multiple_of(8))
        }
        types::TEXT_POKE => {
            let lengths = u64_at(record, LENGTHS_AT)? as u32;
            let [old, new] = [lengths & 0xffff, lengths >> 16].map(|length| length as usize);
            Some(LENGTHS_AT + (4 + old + new).next_multiple_of(8))
        }
        types::LOST => (record.len() == LOST).then_some(LOST),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::pipeline::RecordPipeline;
    use super::super::pipeline::tests::OWNER;
    use super::*;
    use crate::kernel::attr::{Attr, Flag, sample};
    use crate::perfdata::layout;
    use crate::record::kinds::WholeRecords;

    const FIRST: SampleId = SampleId { pid: -1, tid: -1, time: 100, id: OWNER, cpu: 3 };
    const NOW: u64 = 900;

    fn usual() -> Layout {
        let fields = sample::IDENTIFIER | sample::IP | sample::TID | sample::TIME | sample::CPU | sample::PERIOD;
        let mut attr = Attr { sample_type: fields, ..Attr::default() };
        attr.set(Flag::SampleIdAll, true);
        layout(&attr)
    }

    fn record(kind: u32, parts: &[&[u8]]) -> Vec<u8> {
        crate::record::kinds::tests::record(kind, 0, &parts.concat())
    }

    /// A record's kind, and its written bytes after the header.
    type Own = (u32, Vec<u8>);

    fn symbol() -> Own {
        (types::KSYMBOL, [&[1; 16][..], b"bpf_abcd\0\0\0\0\0\0\0\0"].concat())
    }

    fn program() -> Own {
        (types::BPF_EVENT, vec![2; 16])
    }

    fn patched() -> Own {
        (types::TEXT_POKE, [&[3; 8][..], &[5, 0, 2, 0], &[4; 7], &[0; 5]].concat())
    }

    fn losses() -> Own {
        (types::LOST, vec![5; 16])
    }

    fn ended(own: &Own, time: u64) -> Vec<u8> {
        record(own.0, &[&own.1, &usual().encode_trailer(&SampleId { time, ..FIRST })])
    }

    fn comm(time: u64) -> Vec<u8> {
        let id = SampleId { pid: 8, tid: 9, time, id: 5, cpu: FIRST.cpu };
        record(types::COMM, &[b"12345678other\0\0\0", &usual().encode_trailer(&id)])
    }

    fn sampled(time: u64) -> Vec<u8> {
        record(types::SAMPLE, &[&[6; 24], &time.to_le_bytes(), &[6; 16]])
    }

    fn completed(bytes: &[u8]) -> Vec<u8> {
        let layout = usual();
        RecordPipeline { layout, since: FIRST.time, now: NOW, ..RecordPipeline::default() }.passed(FIRST.cpu, bytes)
    }

    #[test]
    fn records_without_a_sample_id_get_one_in_place_of_what_nobody_wrote() {
        for behind in [0, 32, 64] {
            let claimed = |own: Own| record(own.0, &[&own.1, &vec![9; behind]]);
            let bytes = [comm(150), claimed(symbol()), claimed(program()), sampled(160), claimed(patched()), comm(170)];
            let want = [
                comm(150),
                ended(&symbol(), 150),
                ended(&program(), 150),
                sampled(160),
                ended(&patched(), 160),
                comm(170),
            ];
            assert_eq!(completed(&bytes.concat()), want.concat(), "{behind}");
        }
        let whole = record(losses().0, &[&losses().1, &[7; 32]]);
        let lost = [record(losses().0, &[&losses().1]), whole.clone()].concat();
        assert_eq!(completed(&lost), [ended(&losses(), FIRST.time), whole].concat());
        let none = [comm(1), sampled(2)].concat();
        assert_eq!(completed(&none), none);
    }

    #[test]
    fn times_are_those_before_and_within_what_is_known() {
        let own = || record(program().0, &[&program().1]);
        let bytes = [own(), sampled(50), own(), sampled(NOW + 1), own(), comm(NOW), own(), comm(400), own()];
        let out = completed(&bytes.concat());
        let programs = WholeRecords { rest: &out }.filter(|(header, _)| header.kind == types::BPF_EVENT);
        let ends = programs.map(|(_, record)| usual().trailer(&record[HEADER..]));
        let times: Vec<u64> = ends.flatten().map(|id| id.time).collect();
        assert_eq!(times, [FIRST.time, FIRST.time, FIRST.time, NOW, NOW]);
    }

    #[test]
    fn damaged_records_do_no_harm() {
        let all = [symbol(), program(), patched(), losses()].map(|own| record(own.0, &[&own.1]));
        let whole = all.concat();
        for odd in crate::damage::each_byte(&whole) {
            completed(&odd);
        }
        // Its name is not terminated, or it is longer than a record can be.
        for odd in [record(types::KSYMBOL, &[&[1; 40]]), record(types::TEXT_POKE, &[&[0xff; 1 << 15]])] {
            assert_eq!(completed(&odd), odd);
        }
    }
}
