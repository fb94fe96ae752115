//! The stacks of waits, which the program writes once in a while; sums of waits refer to them by their ids.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::kernel_symbols;
use crate::kernel::walk::MIXED;
use crate::kernel::walk::waits::WaitRecord;
use crate::record::sample::{CONTEXT_KERNEL, CONTEXT_USER, NO_CODE, u64s};

use super::super::output::RecordOutput;
use super::{FLAGS_AT, FRAMES_AT, WalkEnd, WalkJoiner, end_of, split};

/// The maximum number of stacks.
const MOST: usize = 1 << 14;
/// The readings without a use after which a stack is dropped: the program writes one again after 30 to 60.
const UNUSED: u64 = 150;

/// A call chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WaitStack {
    /// As a sample has it: words of 8 bytes with markers.
    pub(crate) chain: Arc<[u8]>,
    /// The innermost function.
    pub(crate) ip: u64,
    pub(crate) in_kernel: bool,
}

impl WaitStack {
    /// Returns the chain of the kernel's frames from the switch on, and of user code's frames.
    fn new(kernel: &[u8], user: &[u8], is_cut: bool, switch: &Range<u64>) -> Option<Self> {
        let frames: Vec<u64> = u64s(kernel).collect();
        // The frames before are those of the program.
        let first = frames.iter().position(|ip| switch.contains(ip)).unwrap_or(0);
        let kernel = &frames[first..];
        let mut chain: Vec<u64> = Vec::with_capacity(frames.len() + user.len() / 8 + 3);
        if !kernel.is_empty() {
            chain.push(CONTEXT_KERNEL);
            chain.extend(kernel);
        }
        if !user.is_empty() {
            chain.push(CONTEXT_USER);
            chain.extend(u64s(user));
            chain.extend(is_cut.then_some(NO_CODE));
        }
        let ip = *chain.get(1)?;
        let chain: Vec<u8> = chain.into_iter().flat_map(u64::to_le_bytes).collect();
        Some(Self { chain: chain.into(), ip, in_kernel: !kernel.is_empty() })
    }
}

#[derive(Debug, Default)]
pub(crate) struct WaitStacks {
    known: FxHashMap<u64, (WaitStack, u64)>,
    /// The function of the kernel that switches tasks; empty if its address is hidden.
    switch: Range<u64>,
    readings: u64,
    /// Threads that measured threads have started.
    started: FxHashSet<i32>,
}

impl WaitStacks {
    /// Prepares for a program that begins; `switch` is [`Self::switch_function`].
    pub(crate) fn begin(&mut self, switch: Range<u64>) {
        self.known.clear();
        self.switch = switch;
    }

    /// Returns the function of the kernel that switches tasks; it reads most of the
    /// kernel's symbols, for which the kernel alone takes 25 ms.
    pub(crate) fn switch_function() -> Range<u64> {
        kernel_symbols::function("__schedule").unwrap_or_default()
    }

    /// Learns that a measured thread has started another one.
    pub(super) fn learn_started(&mut self, tid: i32) {
        if self.started.len() >= MOST {
            self.started.clear();
        }
        self.started.insert(tid);
    }

    /// Returns whether a measured thread has started this one, which may have ended.
    pub(crate) fn has_started(&self, tid: i32) -> bool {
        self.started.contains(&tid)
    }

    fn add(&mut self, id: u64, stack: WaitStack) {
        if self.known.len() >= MOST && !self.known.contains_key(&id) {
            let mut uses: Vec<u64> = self.known.values().map(|(_, used)| *used).collect();
            let (_, median, _) = uses.select_nth_unstable(MOST / 2);
            let oldest = *median;
            self.known.retain(|_, (_, used)| *used > oldest);
        }
        self.known.insert(id, (stack, self.readings));
    }

    /// Returns a stack, which is kept for longer because of it.
    pub(crate) fn get(&mut self, id: u64) -> Option<&WaitStack> {
        let (stack, used) = self.known.get_mut(&id)?;
        *used = self.readings;
        Some(stack)
    }

    /// Ends a reading of sums.
    pub(crate) fn next_reading(&mut self) {
        self.readings += 1;
        let since = self.readings.saturating_sub(UNUSED);
        if self.readings.is_multiple_of(UNUSED) {
            self.known.retain(|_, (_, used)| *used > since);
        }
    }
}

impl WalkJoiner {
    /// Keeps the stack of a wait.
    pub(super) fn take_wait(&mut self, record: &[u8], out: &mut RecordOutput<'_, '_>) {
        let Some(WaitRecord { id, walk, kernel }) = WaitRecord::of(record, FRAMES_AT) else { return };
        self.look(walk);
        let mut plain = std::mem::take(&mut self.plain);
        let walk = self.interpreted.read(walk, out, &mut plain);
        let stack = split(walk).and_then(|(words, _)| {
            // The sampled address, if the interpreter's frames are replaced.
            let is_mixed = walk[FLAGS_AT] & MIXED != 0;
            let frames = if is_mixed { words.get(8..)? } else { words };
            let end = end_of(walk, frames.len() / 8);
            let is_cut = end.is_some_and(|end| end.is_broken() || end == WalkEnd::Full);
            WaitStack::new(kernel, frames, is_cut, &self.waits.switch)
        });
        self.plain = plain;
        stack.into_iter().for_each(|stack| self.waits.add(id, stack));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kinds::tests::bytes;

    fn stack(ip: u64) -> WaitStack {
        WaitStack::new(&[], &bytes(&[ip]), false, &(0..0)).expect("not empty")
    }

    #[test]
    fn a_chain_begins_at_the_switch() {
        let (program, switch, wait) = (0xffff_0010, 0xffff_0110, 0xffff_0210);
        let kernel = bytes(&[program, switch, wait]);
        let whole = WaitStack::new(&kernel, &bytes(&[0x10, 0x20]), true, &(0xffff_0100..0xffff_0200)).expect("some");
        let words = [CONTEXT_KERNEL, switch, wait, CONTEXT_USER, 0x10, 0x20, NO_CODE];
        assert_eq!((whole.ip, whole.in_kernel, &*whole.chain), (switch, true, &*bytes(&words)));
        // Without the kernel's symbols, all frames stay.
        let all = WaitStack::new(&kernel, &[], false, &(0..0)).expect("some");
        assert_eq!((all.ip, all.chain.len()), (program, 32));
        assert_eq!((stack(7).ip, stack(7).in_kernel), (7, false));
        assert_eq!(WaitStack::new(&[], &[], true, &(0..0)), None);
    }

    #[test]
    fn stacks_are_kept_while_they_are_used_and_their_number_is_limited() {
        let mut stacks = WaitStacks::default();
        stacks.add(1, stack(1));
        stacks.add(2, stack(2));
        for _ in 0..2 * UNUSED {
            assert!(stacks.get(1).is_some());
            stacks.next_reading();
        }
        assert_eq!((stacks.get(1).is_some(), stacks.get(2).is_some()), (true, false));
        for id in 0..2 * MOST as u64 {
            stacks.readings += 1;
            stacks.add(id, stack(id + 1));
        }
        assert!(stacks.known.len() <= MOST && stacks.get(2 * MOST as u64 - 1).is_some());
    }
}
