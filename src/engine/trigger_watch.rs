//! The thread that checks triggers and saves the samples around the moment, with a minimum pause and a maximum number.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use crossbeam_channel::{Sender, bounded};

use crate::kernel::monotonic_ns;
use crate::machine::sampler::HostView;
use crate::machine::trigger::{Trigger, TriggerInput};
use crate::query::Answer;
use crate::session::TimeMark;

use super::published::Published;
use super::{Notice, Request, Snapshot};

/// The interval of checking conditions; the machine's figures cover a second.
const LOOK: Duration = Duration::from_millis(250);

/// Saves a snapshot's samples of a range of the session's clock; returns a message about the result or the error.
pub(crate) type Saver = Arc<dyn Fn(&Snapshot, (u64, u64), &str) -> Result<String, String> + Send + Sync>;

/// The active triggers, and the settings of saving.
#[derive(Clone)]
pub struct TriggerConfig {
    pub(crate) triggers: Vec<Trigger>,
    /// The time before and after the trigger to save, in nanoseconds.
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// Nanoseconds after a trigger in which no other one fires.
    pub(crate) pause: u64,
    pub(crate) save: Saver,
}

impl std::fmt::Debug for TriggerConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watched").field("triggers", &self.triggers).finish_non_exhaustive()
    }
}

/// The thread's links to the session.
pub struct TriggerLinks {
    pub host: Arc<ArcSwap<HostView>>,
    pub requests: Sender<Request>,
    pub notices: Sender<Notice>,
    pub shared: Arc<Published>,
}

/// Starts the thread.
pub fn spawn(watched: TriggerConfig, links: TriggerLinks) -> std::io::Result<JoinHandle<()>> {
    crate::kernel::thread("triggers", move || Watch::new(watched, links).run())
}

struct Watch {
    watched: TriggerConfig,
    links: TriggerLinks,
    /// The numbers of lost and received samples at the last check, and its time.
    last: (u64, u64, u64),
    host_at: u64,
    rest_until: u64,
    /// The trigger that fired, and when to save its samples.
    pending: Option<(String, u64, u64)>,
}

impl Watch {
    fn new(watched: TriggerConfig, links: TriggerLinks) -> Self {
        Self { watched, links, last: (0, 0, monotonic_ns()), host_at: 0, rest_until: 0, pending: None }
    }

    fn run(mut self) {
        while !self.links.shared.stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(LOOK);
            let now = monotonic_ns();
            if let Some((what, at, _)) = self.pending.take_if(|(.., due)| now >= *due) {
                self.save(&what, at, now);
            }
            self.look(now);
        }
        // If the session ends before the time after the trigger is over, existing samples are saved.
        if let Some((what, at, _)) = self.pending.take() {
            self.save(&what, at, monotonic_ns());
        }
    }

    fn look(&mut self, now: u64) {
        let host = self.links.host.load_full();
        if host.at == self.host_at {
            return;
        }
        self.host_at = host.at;
        let answer = self.links.shared.answer.load_full();
        let (lost, received) = (answer.ledger.lost(), answer.ledger.received);
        let (lost_then, received_then, then) = std::mem::replace(&mut self.last, (lost, received, now));
        let seconds = now.saturating_sub(then) as f64 / 1e9;
        let rate = |event: &crate::query::EventInfo| Some((event.name.clone(), event.meter.as_ref()?.rate));
        let events: Vec<(String, f64)> = answer.events.iter().filter_map(rate).collect();
        let facts = TriggerInput {
            now,
            host: Some(&*host).filter(|host| host.interval > 0),
            lost: lost.saturating_sub(lost_then),
            samples: received.saturating_sub(received_then) as f64 / seconds.max(1e-3),
            events: &events,
        };
        let mut fired = None;
        for trigger in &mut self.watched.triggers {
            let what = trigger.look(facts);
            fired = fired.or(what);
        }
        if let Some(what) = fired.filter(|_| now >= self.rest_until) {
            self.fire(what, now, &answer);
        }
    }

    fn fire(&mut self, what: String, now: u64, answer: &Answer) {
        self.rest_until = now.saturating_add(self.watched.pause);
        let at = now.saturating_sub(answer.start);
        let note = format!("trigger: {what}");
        let _ = self.links.requests.send(Request::Mark(TimeMark { at, name: String::new(), note: note.clone() }));
        let _ = self.links.notices.send(Notice::Reply(Ok(note)));
        // If another trigger fires meanwhile, its moment is in the same file.
        self.pending.get_or_insert((what, now, now.saturating_add(self.watched.after)));
    }

    fn save(&self, what: &str, at: u64, now: u64) {
        let (reply, moments) = bounded(1);
        let _ = self.links.requests.send(Request::Save(reply));
        let Ok(moment) = moments.recv_timeout(Duration::from_secs(10)) else { return };
        let range = (at.saturating_sub(self.watched.before), now);
        let saved = (self.watched.save)(&moment, range, what);
        let _ = self.links.notices.send(Notice::Reply(saved));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::{Ingest, IntakeOptions};
    use crate::session::Origin;
    use crate::source::Info;
    use parking_lot::Mutex;

    #[test]
    fn saving_that_fails_is_tried_again_at_the_next_trigger() {
        let tries = Arc::new(Mutex::new(Vec::new()));
        let seen = tries.clone();
        let save: Saver = Arc::new(move |moment: &Snapshot, range, what: &str| {
            let mut tries = seen.lock();
            tries.push((moment.len(), range.1 - range.0));
            if tries.len() == 1 { Err("no space left on device".to_owned()) } else { Ok(what.to_owned()) }
        });
        let (requests, wanted) = crossbeam_channel::unbounded();
        let (notices, said) = crossbeam_channel::unbounded();
        let host = Arc::new(ArcSwap::from_pointee(HostView { running: 9, at: 1, interval: 1, ..HostView::default() }));
        let links = TriggerLinks { host: host.clone(), requests, notices, shared: Arc::default() };
        let triggers = vec![Trigger::parse("runqueue > 4").expect("parses")];
        let mut watch = Watch::new(TriggerConfig { triggers, before: 1000, after: 0, pause: 50, save }, links);
        let core = Ingest::new(&Info::new(Origin::Live), None, IntakeOptions::default());
        let mut fire = |now: u64| {
            host.store(Arc::new(HostView { running: 9, at: now, interval: 1, ..HostView::default() }));
            watch.look(now);
            let Some((what, at, _)) = watch.pending.take() else { return Vec::new() };
            let Ok(Request::Mark(mark)) = wanted.recv() else { panic!("no mark") };
            assert_eq!(mark.note, "trigger: runqueue 9");
            std::thread::scope(|scope| {
                scope.spawn(|| match wanted.recv() {
                    Ok(Request::Save(reply)) => drop(reply.send(Box::new(core.core().moment()))),
                    other => panic!("{other:?}"),
                });
                watch.save(&what, at, now);
            });
            said.try_iter().collect::<Vec<Notice>>()
        };
        let told = fire(10_000);
        assert_eq!(told[1], Notice::Reply(Err("no space left on device".into())), "{told:?}");
        assert!(fire(10_020).is_empty(), "none fires within the pause");
        assert_eq!(fire(10_100)[1], Notice::Reply(Ok("runqueue 9".into())));
        assert_eq!(*tries.lock(), [(0, 1000), (0, 1000)]);
    }
}
