//! Conversion of records of the other byte order in place, so that no later code handles it. The layout of each record
//! type defines which bytes form a number (perf_event_open(2)).

use rustc_hash::FxHashMap;

use crate::kernel::attr::sample as bit;
use crate::record::Layout;
use crate::record::kinds::{HEADER, misc, types};

#[derive(Clone, Debug, Default)]
pub(crate) struct Swapper {
    layouts: Vec<Layout>,
    /// The event of each id.
    ids: FxHashMap<u64, usize>,
    build_ids: bool,
}

/// Fields of one word each before the variable part, in their order.
const HEAD: [u64; 9] =
    [bit::IDENTIFIER, bit::IP, bit::TID, bit::TIME, bit::ADDR, bit::ID, bit::STREAM_ID, bit::CPU, bit::PERIOD];
/// The fields of the sample id at the end of other records.
const TRAILER: [u64; 6] = [bit::TID, bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER];

struct Turn<'a> {
    rest: &'a mut [u8],
}

impl<'a> Turn<'a> {
    fn part(&mut self, n: usize) -> &'a mut [u8] {
        let rest = std::mem::take(&mut self.rest);
        let n = n.min(rest.len());
        let (head, tail) = rest.split_at_mut(n);
        self.rest = tail;
        head
    }

    /// Swaps `n` numbers of `size` bytes; returns the last one's value.
    fn numbers(&mut self, n: usize, size: usize) -> u64 {
        let part = self.part(n.saturating_mul(size));
        let mut value = 0;
        for number in part.chunks_exact_mut(size) {
            number.reverse();
            value = number.iter().rev().fold(0, |v, b| (v << 8) + u64::from(*b));
        }
        value
    }

    fn u64s(&mut self, n: usize) -> u64 {
        self.numbers(n, 8)
    }

    /// Swaps those of these fields that a layout has.
    fn fields(&mut self, fields: &[u64], layout: &Layout) {
        for field in fields.iter().filter(|field| layout.sample_type & **field != 0) {
            let halves = [bit::TID, bit::CPU].contains(field);
            if halves {
                self.numbers(2, 4)
            } else {
                self.u64s(1)
            };
        }
    }
}

/// Returns the numbers at the start of a record as (count, size in bytes). Text follows them.
fn numbers(kind: u32, with_build_id: bool) -> &'static [(usize, usize)] {
    const ALL: usize = usize::MAX;
    match kind {
        types::MMAP => &[(2, 4), (3, 8)],
        types::MMAP2 if with_build_id => &[(2, 4), (3, 8), (24, 1), (2, 4)],
        types::MMAP2 => &[(2, 4), (3, 8), (2, 4), (2, 8), (2, 4)],
        types::COMM | types::SWITCH_CPU_WIDE | types::ITRACE_START => &[(2, 4)],
        types::FORK | types::EXIT => &[(4, 4), (1, 8)],
        types::READ | types::NAMESPACES => &[(2, 4), (ALL, 8)],
        types::LOST
        | types::LOST_SAMPLES
        | types::THROTTLE
        | types::UNTHROTTLE
        | types::AUX
        | types::CALLCHAIN_DEFERRED => &[(ALL, 8)],
        types::KSYMBOL => &[(1, 8), (1, 4), (2, 2)],
        types::BPF_EVENT => &[(2, 2), (1, 4)],
        types::CGROUP => &[(1, 8)],
        types::TEXT_POKE => &[(1, 8), (2, 2)],
        _ => &[],
    }
}

impl Swapper {
    pub(crate) fn new(events: impl Iterator<Item = (Layout, Vec<u64>)>, build_ids: bool) -> Self {
        let mut swapper = Self { build_ids, ..Self::default() };
        for (i, (layout, ids)) in events.enumerate() {
            swapper.layouts.push(layout);
            swapper.ids.extend(ids.into_iter().map(|id| (id, i)));
        }
        swapper
    }

    /// Swaps the body of a record whose header is already converted.
    pub(crate) fn body(&self, kind: u32, misc_bits: u16, record: &mut [u8]) {
        let Some(body) = record.get_mut(HEADER..) else { return };
        if kind == types::SAMPLE {
            let layout = self.layout_of(body, true);
            return sample(&layout, &mut Turn { rest: body });
        }
        let layout = self.layout_of(body, false);
        let trailer = if kind < types::USER_START { layout.trailer_len().min(body.len()) } else { 0 };
        let (fields, end) = body.split_at_mut(body.len() - trailer);
        let mut t = Turn { rest: fields };
        let with_build_id = self.build_ids && misc_bits & misc::MMAP_BUILD_ID != 0;
        for (n, size) in numbers(kind, with_build_id) {
            t.numbers(*n, *size);
        }
        Turn { rest: end }.fields(&TRAILER, &layout);
    }

    fn layout_of(&self, body: &[u8], is_sample: bool) -> Layout {
        let first = self.layouts.first().copied().unwrap_or_default();
        if first.sample_type & bit::IDENTIFIER == 0 {
            return first;
        }
        let at = if is_sample { Some(0) } else { body.len().checked_sub(8) };
        let id = at.and_then(|at| body.get(at..at + 8)?.try_into().ok()).map(u64::from_be_bytes);
        id.and_then(|id| self.ids.get(&id)).map_or(first, |i| self.layouts[*i])
    }
}

fn sample(layout: &Layout, t: &mut Turn<'_>) {
    t.fields(&HEAD, layout);
    let has = |bit: u64| layout.sample_type & bit != 0;
    if has(bit::READ) {
        let f = layout.read_format;
        let times = (f & 1) + (f >> 1 & 1);
        let member = 1 + (f >> 2 & 1) + (f >> 4 & 1);
        if f & 8 != 0 {
            let n = t.u64s(1);
            t.u64s(n.saturating_mul(member).saturating_add(times).min(1 << 16) as usize);
        } else {
            t.u64s((times + member) as usize);
        }
    }
    if has(bit::CALLCHAIN) {
        let n = t.u64s(1);
        t.u64s(n.min(1 << 16) as usize);
    }
    if has(bit::RAW) {
        let n = t.numbers(1, 4);
        // Raw data is left unchanged, because only its format defines the numbers in it.
        t.part(n as usize);
    }
    // Branch stacks, registers and data addresses are words. Stack dumps of foreign machines are not read.
    t.u64s(usize::MAX);
}

/// Returns whether a recording with this magic has the other byte order.
pub(crate) fn is_foreign(magic: &[u8]) -> bool {
    magic.iter().rev().eq(super::MAGIC)
}

#[cfg(test)]
mod tests;
