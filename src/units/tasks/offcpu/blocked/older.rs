//! The stacks of threads that were asleep before the first record.

use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::waits::Places;
use crate::profile::RetainedStack;
use crate::session::{NamedCall, Session, SleepingStack};

/// The number of threads whose stacks are copied.
const MOST: usize = 512;
/// The number of copies that are kept until their tables are built.
const MOST_KEPT: usize = 32;
/// The time that unwinding takes at once: records wait meanwhile.
const PATIENCE: Duration = Duration::from_millis(4);

/// Copies of stacks, until they are unwound.
#[derive(Clone, Debug, Default)]
pub(super) struct OlderStacks {
    copies: Option<Receiver<SleepingStack>>,
    kept: Vec<SleepingStack>,
}

impl OlderStacks {
    /// Starts to copy the stacks of threads, except for those without a call or with a 32-bit program.
    pub(super) fn begin(&mut self, threads: Vec<NamedCall>, session: &Session) {
        let can_unwind = |one: &NamedCall| one.thread.call.is_some() && !one.thread.is_32_bit;
        let threads = threads.into_iter().filter(can_unwind).take(MOST).collect();
        // Those of an earlier reading may be of other waits of the same threads.
        self.kept.clear();
        self.copies = session.sleeping_stacks(threads);
    }

    /// Keeps stacks that can be unwound by now, for a limited time.
    pub(super) fn pin(&mut self, places: &mut Places, pin: &mut dyn FnMut(&SleepingStack) -> Option<RetainedStack>) {
        let until = Instant::now() + PATIENCE;
        let mut kept = std::mem::take(&mut self.kept).into_iter();
        let copies = self.copies.as_ref();
        while self.kept.len() < MOST_KEPT
            && Instant::now() < until
            && let Some(copy) = kept.next().or_else(|| copies?.try_recv().ok())
        {
            match pin(&copy) {
                Some(stack) => places.set_stack(copy.tid, stack),
                None => self.kept.push(copy),
            }
        }
        self.kept.extend(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{BlockedThread, Origin};

    fn sleeping(tid: i32) -> SleepingStack {
        SleepingStack { pid: 1, tid, kernel: Vec::new(), ip: 0, sp: 0, bp: None, bytes: Vec::new() }
    }

    /// Until its tables are built, a stack is kept, and others are not held up by it.
    #[test]
    fn a_stack_is_unwound_once_its_tables_are_built() {
        let mut places = Places::default();
        let thread = |tid| BlockedThread {
            pid: 1,
            tid,
            comm: Vec::new(),
            state: 'S',
            is_of_kernel: false,
            cpu: 0,
            place: String::new(),
            call: None,
            is_32_bit: false,
        };
        let spots = [1, 2].map(|tid| places.told(&thread(tid), false));
        let (copied, copies) = crossbeam_channel::unbounded();
        [1, 2].into_iter().for_each(|tid| copied.send(sleeping(tid)).expect("received"));
        let mut older = OlderStacks { copies: Some(copies), kept: Vec::new() };
        let mut pin = |older: &mut OlderStacks, is_built: bool| {
            older.pin(&mut places, &mut |copy| (copy.tid == 2 || is_built).then_some(RetainedStack(copy.tid as u32)));
            spots.map(|spot| places.stack(spot))
        };
        // On a busy machine, the time for one round may be over at once.
        while pin(&mut older, false) != [None, Some(RetainedStack(2))] {}
        while pin(&mut older, true) != [1, 2].map(|tid| Some(RetainedStack(tid))) {}
        assert!(older.kept.is_empty());
    }

    /// After a loss of records, the threads are read again, and may be elsewhere.
    #[test]
    fn stacks_of_an_earlier_reading_are_dropped() {
        let mut older = OlderStacks { copies: None, kept: vec![sleeping(1)] };
        older.begin(Vec::new(), &Session::new(Origin::Live));
        older.pin(&mut Places::default(), &mut |_| panic!("an earlier stack"));
    }
}
