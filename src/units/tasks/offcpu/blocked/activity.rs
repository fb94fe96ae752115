//! Servers: programs that listen for connections, and receive messages all the time or hardly do anything. In the latter,
//! servers at rest, no request is in progress, so that their background threads delay none, even if they wake each other.

use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::waits::Requests;
use crate::units::kit::Moment;

/// A program at rest runs, or is held up, for less than this fraction of the interval.
const FEW_OF: u64 = 50;
/// A program that receives more messages than these serves requests. One that only serves its figures gets fewer.
const MESSAGES_PER_SECOND: u64 = 5;
/// The limit of programs.
const MOST: usize = 1 << 16;
/// The shortest time between two searches for a program's listening sockets. A process id may be used again.
const PAUSE: Duration = Duration::from_secs(10);
/// The time for searches in a view. Later ones search for the other programs.
const PATIENCE: Duration = Duration::from_millis(50);

/// The time for which programs run, by their first process, and whether they listen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    /// Without samples of a clock, no program is at rest.
    pub(crate) has_clock: bool,
    ran: FxHashMap<i32, u64>,
    listeners: FxHashMap<i32, (bool, Instant)>,
}

impl Activity {
    pub(super) fn ran(&mut self, program: i32, ns: u64) {
        if self.ran.len() < MOST || self.ran.contains_key(&program) {
            let time = self.ran.entry(program).or_default();
            *time = time.saturating_add(ns);
        }
    }

    pub(super) fn reset(&mut self) {
        self.ran.clear();
    }

    /// Adds the servers to the programs that serve requests. `held` has times for which work was held up, by program.
    pub(super) fn add_servers(
        &mut self,
        at: &Moment<'_>,
        requests: &mut Requests<'_>,
        held: impl Iterator<Item = (Option<i32>, u64)>,
    ) {
        let mut held_by_program: FxHashMap<i32, u64> = FxHashMap::default();
        for (program, ns) in held {
            *held_by_program.entry(program.unwrap_or_default()).or_default() += ns;
        }
        let until = Instant::now() + PATIENCE;
        let mut others = requests.others();
        others.sort_by_key(|program| self.listeners.get(program).map(|(_, asked)| *asked));
        for program in others {
            let held = held_by_program.get(&program).copied().unwrap_or_default();
            if self.is_server(at, program, (held, requests.messages(program)), until) {
                requests.add_server(program);
            }
        }
    }

    /// Returns whether a program listens for connections, and receives messages all the time or hardly does anything. It
    /// was held up for `held`, and got this number of messages. After `until`, only earlier searches count.
    fn is_server(&mut self, at: &Moment<'_>, program: i32, (held, messages): (u64, u64), until: Instant) -> bool {
        let interval = at.now.saturating_sub(at.since.max(at.start));
        let active = self.ran.get(&program).copied().unwrap_or_default().saturating_add(held);
        let is_at_rest = self.has_clock && active.saturating_mul(FEW_OF) < interval;
        let is_asked = messages.saturating_mul(1_000_000_000) > interval.saturating_mul(MESSAGES_PER_SECOND);
        (is_at_rest || is_asked) && self.listens(at, program, until)
    }

    fn listens(&mut self, at: &Moment<'_>, pid: i32, until: Instant) -> bool {
        let (known, asked) = self.listeners.get(&pid).map_or((false, None), |(known, asked)| (*known, Some(*asked)));
        if asked.is_some_and(|asked| asked.elapsed() < PAUSE) || Instant::now() >= until {
            return known;
        }
        if self.listeners.len() >= MOST {
            self.listeners.clear();
        }
        let listens = at.session.listens(pid);
        self.listeners.insert(pid, (listens, Instant::now()));
        listens
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::session::{Origin, Session};
    use crate::units::kit::{ThreadNames, ViewState};

    #[test]
    fn a_server_at_rest_listens_and_hardly_does_anything() {
        let _listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = std::process::id() as i32;
        let (profile, names, look) = (Profile::default(), ThreadNames::default(), ViewState::default());
        let later = Instant::now() + Duration::from_secs(600);
        let is_at_rest_by = |until, origin, activity: &mut Activity, program, held| {
            let session = Session::new(origin);
            let (session, profile, names, look) = (&session, &profile, &names, &look);
            let at = Moment { session, profile, names, start: 0, since: 100, now: 1100, look };
            activity.is_server(&at, program, (held, 0), until)
        };
        let is_at_rest =
            |origin, mut activity, program, held| is_at_rest_by(later, origin, &mut activity, program, held);
        let activity = |has_clock, ns| {
            let mut activity = Activity { has_clock, ..Activity::default() };
            activity.ran(own, ns);
            activity
        };
        assert!(is_at_rest(Origin::Live, activity(true, 9), own, 9));
        assert!(!is_at_rest(Origin::Live, activity(true, 20), own, 0), "it runs");
        assert!(!is_at_rest(Origin::Live, activity(true, 9), own, 11), "it is held up");
        assert!(!is_at_rest(Origin::Live, activity(false, 0), own, 0), "nothing shows whether it runs");
        assert!(!is_at_rest(Origin::Recorded, activity(true, 0), own, 0), "nothing shows whether it listens");
        assert!(!is_at_rest(Origin::Live, activity(true, 0), -1, 0), "a process that has ended");
        let (mut one, past) = (activity(true, 0), Instant::now());
        assert!(!is_at_rest_by(past, Origin::Live, &mut one, own, 0), "no time for a search");
        assert!(is_at_rest_by(later, Origin::Live, &mut one, own, 0));
        assert!(is_at_rest_by(past, Origin::Live, &mut one, own, 0), "found before");
    }

    #[test]
    fn a_server_that_runs_receives_messages_all_the_time() {
        let _listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = std::process::id() as i32;
        let (profile, names, look) = (Profile::default(), ThreadNames::default(), ViewState::default());
        let session = Session::new(Origin::Live);
        let (session, profile, names, look) = (&session, &profile, &names, &look);
        let at = Moment { session, profile, names, start: 0, since: 0, now: 2_000_000_000, look };
        let later = Instant::now() + Duration::from_secs(600);
        let mut activity = Activity { has_clock: true, ..Activity::default() };
        activity.ran(own, 1_000_000_000);
        assert_eq!([10, 11].map(|messages| activity.is_server(&at, own, (0, messages), later)), [false, true]);
    }
}
