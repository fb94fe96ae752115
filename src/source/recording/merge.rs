//! The order of reading several inputs: next is the one with the earliest time among those with data. Inputs that have
//! been quiet for long are not waited for.

use std::time::{Duration, Instant};

use crate::source::Info;

use super::input::Input;
use super::reader::wait;

/// The time after which a stream without data is not waited for: a link may be down, a machine idle.
const QUIET: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct MergeTurns {
    done: Vec<bool>,
    /// When each input last had data.
    last: Vec<Instant>,
}

impl MergeTurns {
    pub(crate) fn new(inputs: usize) -> Self {
        Self { done: vec![false; inputs], last: vec![Instant::now(); inputs] }
    }

    pub(crate) fn end(&mut self, input: usize) {
        self.done[input] = true;
    }

    pub(crate) fn all_done(&self) -> bool {
        self.done.iter().all(|done| *done)
    }

    pub(crate) fn brought(&mut self, input: usize) {
        self.last[input] = Instant::now();
    }

    /// Returns the next input to read. If none has data, waits for a tenth of a second, then returns `None`.
    pub(crate) fn next(&self, info: &Info, inputs: &[Input]) -> Option<usize> {
        let open: Vec<usize> = (0..inputs.len()).filter(|i| !self.done[*i]).collect();
        // A single input waits in its own read.
        if let [only] = open.as_slice() {
            return Some(*only);
        }
        let ready: Vec<bool> = if info.flows {
            let readers: Vec<_> = open.iter().map(|i| inputs[*i].waits_for()).collect();
            // Reading reports the error of an input that cannot be polled.
            wait(&readers).unwrap_or_else(|_| vec![true; open.len()])
        } else {
            vec![true; open.len()]
        };
        let ready = open.into_iter().zip(ready).filter(|(_, ready)| *ready);
        ready.map(|(i, _)| i).min_by_key(|i| reached(info, inputs, *i))
    }

    pub(crate) fn quiet(&self, inputs: &[Input]) -> Vec<u16> {
        let is = |i: &usize| !self.done[*i] && inputs[*i].flows() && self.last[*i].elapsed() > QUIET;
        (0..inputs.len()).filter(is).map(|i| i as u16).collect()
    }
}

/// Returns the time up to which an input was read, converted to a clock common to all machines.
fn reached(info: &Info, inputs: &[Input], at: usize) -> u64 {
    let input = &inputs[at];
    match info.hosts.shift(at) {
        Some(shift) => input.newest.saturating_add_signed(shift),
        None => input.newest - input.oldest.min(input.newest),
    }
}
