//! Tests with a thread that sleeps, which tests of units use as well.

use std::sync::mpsc::channel;

use super::*;
use crate::session::{Origin, Session};
use crate::units::kit::{ThreadChoice, ThreadNames};

impl InitiallyBlocked {
    /// Ends the pause after the last query, or extends it.
    pub(crate) fn set_pause(&mut self, goes_on: bool) {
        self.asked = goes_on.then(|| Instant::now() + 1000 * PAUSE);
    }
}

/// Runs a test in a live session while a thread sleeps in futex(2).
pub(crate) fn with_sleeper(test: impl FnOnce(i32, &mut Context<'_>)) {
    let session = Session::new(Origin::Live);
    let (mut names, own, mut choice) = (ThreadNames::default(), FxHashSet::default(), ThreadChoice::default());
    let (end, ends) = channel::<()>();
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("received");
            // Sleeps until the sender is dropped.
            let _ = ends.recv();
        });
        let tid = told.recv().expect("sent");
        let is_in_futex = |thread: &BlockedThread| thread.call.is_none_or(|(number, _)| number == libc::SYS_futex);
        while !session.blocked().0.iter().any(|thread| thread.tid == tid && is_in_futex(thread)) {
            std::thread::yield_now();
        }
        let mut cx = Context { choice: Some(&mut choice), ..Context::new(&session, &mut names, &own) };
        test(tid, &mut cx);
        drop(end);
    });
}

#[test]
fn a_query_follows_a_loss_at_most_every_three_seconds() {
    with_sleeper(|tid, cx| {
        let mut blocked = InitiallyBlocked::default();
        let finds = |blocked: &InitiallyBlocked| blocked.threads().any(|thread| thread.tid == tid);
        let start = Instant::now();
        blocked.ask_at(start, cx);
        assert!(finds(&blocked));
        blocked.is_told(tid);
        blocked.ask_at(start + 2 * PAUSE, cx);
        assert!(!finds(&blocked), "no records were lost");
        blocked.renew();
        blocked.ask_at(start + PAUSE - Duration::from_nanos(1), cx);
        assert!(!finds(&blocked), "a query was made less than three seconds before");
        blocked.ask_at(start + PAUSE, cx);
        assert!(finds(&blocked));
        blocked.renew();
        assert!(!finds(&blocked), "it may have woken");
        blocked.ask_at(start + PAUSE + PAUSE / 2, cx);
        assert!(!finds(&blocked));
        blocked.is_told(tid);
        blocked.ask_at(start + 2 * PAUSE, cx);
        assert!(!finds(&blocked), "its record shows what it has done since the loss");
        assert!(blocked.told.is_empty());
    });
}
