//! x86-64 code without tables whose callers are derived from the instructions.
//! Starting at the beginning of a function, the instructions determine how far the stack pointer is below the return
//! address, and where the caller's frame register was saved. For code that only a computed jump reaches, a state is
//! accepted only if exactly one candidate lets all paths return with a balanced stack.

mod covered;
mod examined;
mod state;
mod trace;

use std::collections::BTreeSet;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use rustc_hash::FxHashSet;

use super::Found;
use crate::kernel::walk::rule::Rule;
use covered::Covered;
pub(super) use examined::examined;
use state::{Effects, State, Step};
use trace::{Claim, Claims, Trace};

/// The limit of analyzed code without tables. More code belongs to a runtime that keeps frame pointers.
const MAX_BYTES: u64 = 2 << 20;
/// The limit of instructions analyzed per byte of such code.
const STEPS_PER_BYTE: u64 = 8;
/// Bytes of other code searched for calls, per byte of such code.
const CALLERS_PER_BYTE: u64 = 16;
/// The limit of states at the computed jumps of a function.
const MAX_STATES: usize = 8;

#[derive(Debug, Default)]
pub(super) struct UncoveredCode<'a> {
    /// Linked address and content of each part.
    pub(super) parts: Vec<(u64, &'a [u8])>,
    pub(super) entry: u64,
}

/// Adds the functions in code that no known function covers. Symbols provide some of the starts.
pub(super) fn add(
    code: &UncoveredCode<'_>,
    symbols: impl FnOnce(&dyn Fn(u64) -> bool) -> Vec<u64>,
    base: u64,
    found: &mut Found,
) {
    let covered: Vec<(u64, u64)> =
        found.functions.iter().map(|f| (base + u64::from(f.start), base + u64::from(f.end))).collect();
    let mut tracer = Tracer::new(code, covered);
    if !(1..=MAX_BYTES).contains(&tracer.bare) {
        return;
    }
    let starts = symbols(&|at| tracer.bare_at(at).is_some());
    tracer.trace_all(code.entry, &starts);
    tracer.rows(|start, end, rules| {
        if let Some((start, end)) = start.checked_sub(base).zip(end.checked_sub(base)) {
            let rules: Vec<(Rule, u64)> = rules.iter().map(|(rule, at)| (*rule, at - base)).collect();
            found.push(start, end, &rules);
        }
    });
}

/// Returns the bytes of code outside of all known functions, or 0 if they are too many to be analyzed.
pub(super) fn bare_bytes(code: &UncoveredCode<'_>, covered: Vec<(u64, u64)>) -> u64 {
    let bare = Tracer::new(code, covered).bare;
    if bare <= MAX_BYTES { bare } else { 0 }
}

#[derive(Clone, Copy, Debug)]
struct Path {
    stretch: u32,
    at: u64,
    state: State,
    /// Whether no call on it may never have returned.
    is_certain: bool,
    /// Whether it begins directly after a call: if that never returns, another function may begin there.
    is_behind_call: bool,
}

#[derive(Default)]
struct Tracer<'a> {
    parts: Vec<(u64, &'a [u8])>,
    covered: Covered,
    /// Bytes of code outside of them, without padding.
    bare: u64,
    /// Known starts of functions, and those not traced yet.
    starts: BTreeSet<u64>,
    fresh: Vec<u64>,
    claimed: Claims,
    /// Addresses that two functions reach in different states.
    disputed: FxHashSet<u64>,
    /// Functions with a path that returns.
    returning: FxHashSet<u64>,
    effects: Effects,
    steps: u64,
}

impl<'a> Tracer<'a> {
    fn new(code: &UncoveredCode<'a>, covered: Vec<(u64, u64)>) -> Self {
        let covered = Covered::new(covered);
        let mut tracer = Self { parts: code.parts.clone(), covered, ..Self::default() };
        tracer.bare = tracer.gaps().iter().map(|(start, end)| end - start).sum();
        tracer.steps = tracer.bare.saturating_mul(STEPS_PER_BYTE);
        tracer
    }

    /// Returns the parts of the code that no table covers.
    fn gaps(&self) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let filling = u64::from(super::FILLING);
        for (start, bytes) in &self.parts {
            let (mut free, end) = (*start, start.saturating_add(bytes.len() as u64));
            let first = self.covered.partition_point(|(_, end)| end <= start);
            for (from, to) in self.covered[first..].iter().take_while(|(from, _)| *from < end) {
                if from.saturating_sub(free) > filling {
                    gaps.push((free, *from));
                }
                free = free.max(*to);
            }
            if end.saturating_sub(free) > filling {
                gaps.push((free, end));
            }
        }
        gaps
    }

    /// Returns the code from an address on, if no table covers it.
    fn bare_at(&self, at: u64) -> Option<&'a [u8]> {
        if self.covered.contains(at) { None } else { self.code_at(at) }
    }

    fn code_at(&self, at: u64) -> Option<&'a [u8]> {
        self.parts.iter().find_map(|(start, bytes)| {
            bytes.get(usize::try_from(at.checked_sub(*start)?).ok()?..).filter(|rest| !rest.is_empty())
        })
    }

    fn trace_all(&mut self, entry: u64, symbols: &[u64]) {
        if self.bare_at(entry).is_some()
            && let Some(trace) = self.trace(entry, State::ROOT)
        {
            self.take(trace);
        }
        symbols.iter().for_each(|at| self.begin(*at));
        let callers: Vec<(u64, u64)> = self.callers().collect();
        callers.into_iter().for_each(|(start, end)| self.calls_of(start, end));
        self.trace_fresh();
        // Searches between known functions for code that only computed jumps or pointers reach.
        for (start, end) in self.gaps() {
            let mut from = start;
            while from < end && self.steps > 0 {
                let next = self.starts.range(from + 1..end).next().copied().unwrap_or(end);
                self.search(from, next);
                self.trace_fresh();
                // Calls in that code may have revealed more functions.
                from = self.starts.range(from + 1..end).next().copied().unwrap_or(end);
            }
        }
    }

    fn begin(&mut self, at: u64) {
        if self.bare_at(at).is_some() && self.starts.insert(at) {
            self.fresh.push(at);
        }
    }

    /// Adds the functions that a function with a table calls.
    fn calls_of(&mut self, start: u64, end: u64) {
        let Some(code) = self.code_at(start) else { return };
        let len = code.len().min(usize::try_from(end.saturating_sub(start)).unwrap_or(usize::MAX));
        let mut decoder = Decoder::with_ip(64, &code[..len], start, DecoderOptions::NONE);
        let mut one = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut one);
            if one.is_call_near() {
                self.begin(one.near_branch_target());
            }
        }
    }

    /// Traces new functions and those that they call: code after a call depends on whether the function returns.
    fn trace_fresh(&mut self) {
        let mut traces: Vec<(u64, Trace)> = Vec::new();
        while let Some(at) = self.fresh.pop() {
            if self.claimed.contains_key(&at) {
                continue;
            }
            if let Some(trace) = self.trace(at, State::ENTRY) {
                trace.calls.iter().for_each(|(_, to)| self.begin(*to));
                traces.push((at, trace));
            }
        }
        let mut left: Vec<&(u64, Trace)> = traces.iter().collect();
        loop {
            let before = left.len();
            left.retain(|(at, trace)| {
                let returns = trace.proven(false, |called| self.returns(called))[Trace::START as usize];
                if returns {
                    self.returning.insert(*at);
                }
                !returns
            });
            if left.len() == before {
                break;
            }
        }
        traces.into_iter().for_each(|(_, trace)| self.take(trace));
    }

    /// Accepts the result of tracing from an address with a known state.
    fn take(&mut self, trace: Trace) {
        let proven = trace.proven(true, |called| self.returns(called));
        for (at, claim) in trace.claims.into_iter().filter(|(_, claim)| proven[claim.stretch as usize]) {
            if self.claimed.insert(at, claim).is_some_and(|other| !other.state.agrees(claim.state)) {
                self.disputed.insert(at);
            }
        }
        trace.calls.iter().filter(|(from, _)| proven[*from as usize]).for_each(|(_, to)| self.begin(*to));
    }

    /// Returns whether a function returns as far as known. `true` for calls through pointers.
    fn returns(&self, called: Option<u64>) -> bool {
        called.is_none_or(|called| self.returning.contains(&called))
    }

    /// Follows the code from an address with a known state, on all paths. `None` if they contradict each other.
    fn trace(&mut self, start: u64, state: State) -> Option<Trace> {
        let mut trace = Trace::new();
        let mut left = vec![Path { stretch: Trace::START, at: start, state, is_certain: true, is_behind_call: false }];
        let mut later = Vec::new();
        while let Some(path) = left.pop().or_else(|| later.pop()) {
            self.follow(start, path, &mut trace, &mut left, &mut later)?;
        }
        Some(trace)
    }

    /// Follows one path until it ends, meets another or passes a call.
    fn follow(
        &mut self,
        start: u64,
        path: Path,
        trace: &mut Trace,
        left: &mut Vec<Path>,
        later: &mut Vec<Path>,
    ) -> Option<()> {
        let Path { mut stretch, mut at, mut state, is_certain, mut is_behind_call } = path;
        loop {
            let Some(code) = self.bare_at(at) else { return Some(()) };
            let known = trace.claims.get(&at).map(|claim| (claim, false));
            if let Some((known, is_old)) = known.or_else(|| self.claimed.get(&at).map(|claim| (claim, true))) {
                if !known.state.agrees(state) {
                    // Code after a call that never returns belongs to something else.
                    return (!is_certain && (is_old || known.is_certain)).then_some(());
                }
                if is_old {
                    trace.prove(stretch);
                } else {
                    let known = known.stretch;
                    trace.joins(stretch, known);
                }
                return Some(());
            }
            if at != start && self.starts.contains(&at) {
                if !is_behind_call && state == State::ENTRY {
                    trace.prove(stretch);
                }
                return Some(());
            }
            self.steps = self.steps.checked_sub(1)?;
            let one = decode(code, at);
            if one.is_invalid() {
                return (!is_certain).then_some(());
            }
            trace.claims.insert(at, Claim { state, len: one.len() as u8, is_certain, stretch });
            is_behind_call = false;
            let called = if one.is_call_near() { Some(one.near_branch_target()) } else { self.pointed(&one) };
            trace.calls.extend(called.map(|called| (stretch, called)));
            let next = one.next_ip();
            let Some(step) = self.effects.of(&one, state) else { return (!is_certain).then_some(()) };
            match step {
                Step::Next(after) => (at, state) = (next, after),
                Step::Call => {
                    let stretch = trace.behind_call(stretch, one.is_call_near().then(|| one.near_branch_target()));
                    later.push(Path { stretch, at: next, state, is_certain: false, is_behind_call: true });
                    return Some(());
                }
                Step::Jump(to) => {
                    self.may_jump(to, start, state)?;
                    at = to;
                }
                Step::Either(to) => {
                    self.may_jump(to, start, state)?;
                    let jumped = trace.after(stretch);
                    left.push(Path { stretch: jumped, at: to, state, is_certain, is_behind_call });
                    (at, stretch) = (next, trace.after(stretch));
                }
                Step::Return => {
                    trace.prove(stretch);
                    return Some(());
                }
                Step::End => return Some(()),
            }
        }
    }

    /// Returns the function whose address an instruction loads, if its code begins like one or is one indirect jump.
    fn pointed(&self, one: &Instruction) -> Option<u64> {
        let is_address = one.mnemonic() == Mnemonic::Lea && one.is_ip_rel_memory_operand();
        let to = one.ip_rel_memory_address();
        let first = self.bare_at(to).filter(|_| is_address).map(|code| decode(code, to))?;
        let makes_room = first.mnemonic() == Mnemonic::Sub && first.op0_register() == Register::RSP;
        let saves = first.mnemonic() == Mnemonic::Push && first.op0_kind() == OpKind::Register;
        let goes_on = first.flow_control() == FlowControl::IndirectBranch;
        (saves || makes_room || goes_on).then_some(to)
    }

    /// Returns `None` if a jump enters another function with a wrong state.
    fn may_jump(&self, to: u64, start: u64, state: State) -> Option<()> {
        (to == start || !self.starts.contains(&to) || state.agrees(State::ENTRY)).then_some(())
    }

    /// Searches for unreachable code from one function to the next.
    fn search(&mut self, start: u64, end: u64) {
        let mut states = vec![State::ENTRY];
        let (mut at, mut is_block) = (start, true);
        while at < end && self.steps > 0 {
            if let Some(claim) = self.claimed.get(&at) {
                let (state, len) = (claim.state, u64::from(claim.len.max(1)));
                self.steps -= 1;
                let one = self.bare_at(at).map(|code| decode(code, at));
                if one.is_some_and(|one| one.flow_control() == FlowControl::IndirectBranch)
                    && states.len() < MAX_STATES
                    && !states.contains(&state)
                {
                    states.push(state);
                }
                (at, is_block) = (at + len, true);
                continue;
            }
            let Some(code) = self.bare_at(at) else { return };
            self.steps -= 1;
            let one = decode(code, at);
            if is_block && !is_filling(&one) {
                if self.guess(at, &states) {
                    continue;
                }
                is_block = false;
            }
            is_block |= matches!(
                one.flow_control(),
                FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
            );
            at += one.len().max(1) as u64;
        }
    }

    /// Tries states for code and accepts the only one that is proven. `false` if there is not exactly one.
    fn guess(&mut self, at: u64, states: &[State]) -> bool {
        let mut only = None;
        for state in states {
            let Some(trace) = self.trace(at, *state) else { continue };
            if !trace.proven(false, |called| self.returns(called))[Trace::START as usize] {
                continue;
            }
            if only.is_some() {
                return false;
            }
            only = Some(trace);
        }
        let Some(trace) = only else { return false };
        self.returning.insert(at);
        self.take(trace);
        true
    }

    /// Calls `each` with each run of instructions and its rules.
    fn rows(&self, mut each: impl FnMut(u64, u64, &[(Rule, u64)])) {
        let known = self.claimed.iter().filter(|(at, _)| !self.disputed.contains(at));
        let mut all: Vec<(u64, Claim)> = known.map(|(at, claim)| (*at, *claim)).collect();
        all.sort_unstable_by_key(|(at, _)| *at);
        for run in all.chunk_by(|(at, claim), (next, _)| at + u64::from(claim.len) == *next) {
            let end = run.last().map_or(0, |(at, claim)| at + u64::from(claim.len));
            let mut rules: Vec<(Rule, u64)> = run.iter().map(|(at, claim)| (claim.state.rule(), *at)).collect();
            rules.dedup_by_key(|(rule, _)| *rule);
            each(run[0].0, end, &rules);
        }
    }
}

fn decode(code: &[u8], at: u64) -> Instruction {
    Decoder::with_ip(64, &code[..code.len().min(16)], at, DecoderOptions::NONE).decode()
}

/// Returns whether an instruction is padding between functions.
fn is_filling(one: &Instruction) -> bool {
    matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) || one.is_invalid()
}

#[cfg(test)]
mod tests;
