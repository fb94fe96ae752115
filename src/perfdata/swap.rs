//! Records of the other byte order, turned into ours in place, so that nothing after this knows of
//! it. Which bytes form a number is each record type's layout (perf_event_open(2)).

use rustc_hash::FxHashMap;

use crate::record::Layout;
use crate::record::kinds::{HEADER, misc, types};

/// Swaps the records of one recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Swapper {
    layouts: Vec<Layout>,
    /// The event of each id.
    ids: FxHashMap<u64, usize>,
    /// Whether mappings may be told with the build ids of their files.
    build_ids: bool,
}

/// `PERF_SAMPLE_*` bits in the order of their fields; only those that need care by name.
mod bit {
    pub(crate) const TID: u64 = 1 << 1;
    pub(crate) const READ: u64 = 1 << 4;
    pub(crate) const CALLCHAIN: u64 = 1 << 5;
    pub(crate) const CPU: u64 = 1 << 7;
    pub(crate) const RAW: u64 = 1 << 10;
    pub(crate) const IDENTIFIER: u64 = 1 << 16;
    /// One word each, up to the variable part: identifier, ip, tid, time, addr, id, stream, cpu, period.
    pub(crate) const HEAD: [u64; 9] = [1 << 16, 1, 1 << 1, 1 << 2, 1 << 3, 1 << 6, 1 << 9, 1 << 7, 1 << 8];
    /// The fields of the sample id at the end of other records: tid, time, id, stream, cpu, identifier.
    pub(crate) const TRAILER: [u64; 6] = [1 << 1, 1 << 2, 1 << 6, 1 << 9, 1 << 7, 1 << 16];
}

/// A body whose numbers are swapped from the front.
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

    fn u16s(&mut self, n: usize) -> u64 {
        self.numbers(n, 2)
    }

    fn u32s(&mut self, n: usize) -> u64 {
        self.numbers(n, 4)
    }

    fn u64s(&mut self, n: usize) -> u64 {
        self.numbers(n, 8)
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

    /// Swaps one whole record whose header is in our order already.
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
        match kind {
            types::MMAP => {
                t.u32s(2);
                t.u64s(3);
            }
            types::MMAP2 => {
                t.u32s(2);
                t.u64s(3);
                if self.build_ids && misc_bits & misc::MMAP_BUILD_ID != 0 {
                    t.part(24);
                } else {
                    t.u32s(2);
                    t.u64s(2);
                }
                t.u32s(2);
            }
            types::COMM | types::SWITCH_CPU_WIDE | types::ITRACE_START => {
                t.u32s(2);
            }
            types::FORK | types::EXIT => {
                t.u32s(4);
                t.u64s(1);
            }
            types::READ => {
                t.u32s(2);
                t.u64s(usize::MAX);
            }
            types::LOST | types::LOST_SAMPLES | types::THROTTLE | types::UNTHROTTLE | types::AUX => {
                t.u64s(usize::MAX);
            }
            types::NAMESPACES => {
                t.u32s(2);
                t.u64s(usize::MAX);
            }
            types::KSYMBOL => {
                t.u64s(1);
                t.u32s(1);
                t.u16s(2);
            }
            types::BPF_EVENT => {
                t.u16s(2);
                t.u32s(1);
            }
            types::CGROUP => {
                t.u64s(1);
            }
            types::TEXT_POKE => {
                t.u64s(1);
                t.u16s(2);
            }
            _ => {}
        }
        let mut t = Turn { rest: end };
        for bit in bit::TRAILER.into_iter().filter(|b| layout.sample_type & b != 0) {
            if bit == bit::TID || bit == bit::CPU {
                t.u32s(2)
            } else {
                t.u64s(1)
            };
        }
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
    for bit in bit::HEAD.into_iter().filter(|b| layout.sample_type & b != 0) {
        if bit == bit::TID || bit == bit::CPU {
            t.u32s(2)
        } else {
            t.u64s(1)
        };
    }
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
        let n = t.u32s(1);
        // The traced bytes stay as they are: only their format says what they are.
        t.part(n as usize);
    }
    // Branch stacks, registers and data addresses are words; stack dumps are not read from
    // foreign machines.
    t.u64s(usize::MAX);
}

/// True if this machine and a recording whose magic is `magic` differ in byte order.
pub(crate) fn is_foreign(magic: &[u8]) -> bool {
    magic.iter().rev().eq(super::MAGIC)
}

#[cfg(test)]
mod tests;
