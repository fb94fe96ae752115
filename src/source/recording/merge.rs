//! The turns of several inputs: next is the one that is behind in time, of those that have something; and which of them
//! have been quiet for so long that the others need not wait for them.

use std::time::{Duration, Instant};

use crate::source::Info;

use super::input::Input;
use super::reader::wait;

/// After this time a stream that brings nothing is not waited for: a link may be down, a machine idle.
const QUIET: Duration = Duration::from_secs(1);

/// The state of the inputs.
#[derive(Debug)]
pub(crate) struct Turns {
    done: Vec<bool>,
    /// When each of them last brought something.
    last: Vec<Instant>,
}

impl Turns {
    pub(crate) fn new(inputs: usize) -> Self {
        Self { done: vec![false; inputs], last: vec![Instant::now(); inputs] }
    }

    /// Nothing more comes from an input.
    pub(crate) fn end(&mut self, input: usize) {
        self.done[input] = true;
    }

    pub(crate) fn all_done(&self) -> bool {
        self.done.iter().all(|done| *done)
    }

    /// An input brought something.
    pub(crate) fn brought(&mut self, input: usize) {
        self.last[input] = Instant::now();
    }

    /// The next one to be read. Where none has anything it waits for a tenth of a second; `None` after that.
    pub(crate) fn next(&self, info: &Info, inputs: &[Input]) -> Option<usize> {
        let open: Vec<usize> = (0..inputs.len()).filter(|i| !self.done[*i]).collect();
        // One alone waits by itself.
        if let [only] = open.as_slice() {
            return Some(*only);
        }
        let ready: Vec<bool> = if info.flows {
            let readers: Vec<_> = open.iter().map(|i| inputs[*i].waits_for()).collect();
            // What cannot be waited for says so when it is read.
            wait(&readers).unwrap_or_else(|_| vec![true; open.len()])
        } else {
            vec![true; open.len()]
        };
        let ready = open.into_iter().zip(ready).filter(|(_, ready)| *ready);
        ready.map(|(i, _)| i).min_by_key(|i| reached(info, inputs, *i))
    }

    /// Streams that have brought nothing for a while.
    pub(crate) fn quiet(&self, inputs: &[Input]) -> Vec<u16> {
        let is = |i: &usize| !self.done[*i] && inputs[*i].flows() && self.last[*i].elapsed() > QUIET;
        (0..inputs.len()).filter(is).map(|i| i as u16).collect()
    }
}

/// The time to which an input has been read, in a time that those of all machines can be compared by.
fn reached(info: &Info, inputs: &[Input], at: usize) -> u64 {
    let input = &inputs[at];
    match info.hosts.shift(at) {
        Some(shift) => input.newest.saturating_add_signed(shift),
        None => input.newest - input.oldest.min(input.newest),
    }
}
