//! The code reachable from one address, and which parts of it have a proven state.

use rustc_hash::FxHashMap;

use super::state::State;

#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    pub(super) state: State,
    pub(super) len: u8,
    /// Whether no call before it may never have returned.
    pub(super) is_certain: bool,
    pub(super) stretch: u32,
}

pub(super) type Claims = FxHashMap<u64, Claim>;

/// The result of tracing code from one address. Stretches, the first at the start, have no branch or call inside them.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) claims: Claims,
    /// Calls: the stretch that contains the call, and the called function.
    pub(super) calls: Vec<(u32, u64)>,
    /// Edges between stretches, except after calls, which may never return.
    ways: Vec<(u32, u32)>,
    /// Edges after calls, with the called function if it is known.
    returns: Vec<(u32, u32, Option<u64>)>,
    /// Stretches whose path returns with a balanced stack, or reaches a known state.
    proofs: Vec<u32>,
    stretches: u32,
}

impl Trace {
    pub(super) const START: u32 = 0;

    pub(super) fn new() -> Self {
        let (calls, ways, returns, proofs) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { claims: Claims::default(), calls, ways, returns, proofs, stretches: 1 }
    }

    fn stretch(&mut self) -> u32 {
        self.stretches += 1;
        self.stretches - 1
    }

    /// Adds a stretch after another one.
    pub(super) fn after(&mut self, from: u32) -> u32 {
        let to = self.stretch();
        self.ways.push((from, to));
        to
    }

    /// Adds a stretch after the call that ends another one.
    pub(super) fn behind_call(&mut self, from: u32, called: Option<u64>) -> u32 {
        let to = self.stretch();
        self.returns.push((from, to, called));
        to
    }

    /// Adds an edge to a stretch that exists.
    pub(super) fn joins(&mut self, from: u32, to: u32) {
        self.ways.push((from, to));
    }

    pub(super) fn prove(&mut self, stretch: u32) {
        self.proofs.push(stretch);
    }

    /// Returns which stretches have a state that follows from a proof, or from the start if `knows_start`. Past calls that
    /// may never return, a stretch must be reachable forwards and backwards.
    pub(super) fn proven(&self, knows_start: bool, does_return: impl Fn(Option<u64>) -> bool) -> Vec<bool> {
        let all = |(from, to, _): &(u32, u32, Option<u64>)| (*from, *to);
        let turned = |(from, to): &(u32, u32)| (*to, *from);
        let mut known = self.proofs.clone();
        known.extend(knows_start.then_some(Self::START));
        let behind = self.returns.iter().filter(|(.., called)| does_return(*called)).map(all);
        let mut ways: Vec<(u32, u32)> = self.ways.iter().copied().chain(behind).collect();
        ways.extend(ways.iter().map(turned).collect::<Vec<_>>());
        let mut sure = self.reached(&known, &ways);
        let ways: Vec<(u32, u32)> = self.ways.iter().copied().chain(self.returns.iter().map(all)).collect();
        let from: Vec<u32> = (0..self.stretches).filter(|stretch| sure[*stretch as usize]).collect();
        let ahead = self.reached(&from, &ways);
        let behind = self.reached(&from, &ways.iter().map(turned).collect::<Vec<_>>());
        sure.iter_mut().zip(ahead.iter().zip(behind)).for_each(|(sure, (ahead, behind))| *sure |= *ahead && behind);
        sure
    }

    fn reached(&self, from: &[u32], ways: &[(u32, u32)]) -> Vec<bool> {
        // Edges grouped by their source: `begins` has the index of the first one of each stretch.
        let mut begins = vec![0_usize; self.stretches as usize + 1];
        ways.iter().for_each(|(from, _)| begins[*from as usize + 1] += 1);
        for i in 1..begins.len() {
            begins[i] += begins[i - 1];
        }
        let (mut ends, mut free) = (vec![0_u32; ways.len()], begins.clone());
        for (from, to) in ways {
            ends[free[*from as usize]] = *to;
            free[*from as usize] += 1;
        }
        let (mut all, mut left) = (vec![false; self.stretches as usize], from.to_vec());
        while let Some(stretch) = left.pop().map(|stretch| stretch as usize) {
            if !std::mem::replace(&mut all[stretch], true) {
                left.extend(&ends[begins[stretch]..begins[stretch + 1]]);
            }
        }
        all
    }
}
