//! The time of the next frame: at once, unless the terminal lags or its link is slow; then frames are dropped.

use std::time::{Duration, Instant};

use crate::machine::sampler::CpuRow;
use crate::ui::app::App;
use crate::ui::terminal::term;

#[derive(Debug)]
pub(crate) struct FramePacer {
    next: Instant,
    link: LinkJudge,
    /// Time that writes had been blocked when the frame began, in nanoseconds.
    blocked: u64,
    /// Bytes written so far, and the time of that count.
    written: (u64, Instant),
}

/// Decides whether the link to the terminal is slow.
#[derive(Debug)]
struct LinkJudge {
    /// Number of consecutive times that the terminal blocked a frame or accepted it slowly.
    lagged: u32,
    /// The time of the last lag while the link is slow by this judge's decision; `None` if the user decided.
    slow_since: Option<Instant>,
    /// Time without a lag after which a slow link counts as fast again.
    probation: Duration,
}

impl LinkJudge {
    /// Number of consecutive lags after which the link counts as slow.
    const LAGS: u32 = 12;
    /// The first and the longest probation. Each relapse doubles it: a slow link keeps up with two frames a second.
    const PROBATION: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(640));

    fn new() -> Self {
        Self { lagged: 0, slow_since: None, probation: Self::PROBATION.0 }
    }

    /// Records lags; returns whether the link becomes slow.
    fn lags(&mut self, by: u32, now: Instant, is_slow: bool) -> bool {
        self.lagged += by;
        if is_slow {
            self.slow_since = self.slow_since.map(|_| now);
            return false;
        }
        let becomes = self.lagged >= Self::LAGS;
        self.slow_since = becomes.then_some(now);
        becomes
    }

    /// Records a frame that the terminal accepted immediately; returns whether the link is fast again.
    fn keeps_up(&mut self, now: Instant, is_slow: bool) -> bool {
        self.lagged = 0;
        if !is_slow {
            self.slow_since = None;
            return false;
        }
        let is_over = self.slow_since.is_some_and(|since| now.duration_since(since) >= self.probation);
        if is_over {
            self.slow_since = None;
            self.probation = (2 * self.probation).min(Self::PROBATION.1);
        }
        is_over
    }
}

/// Returns whether the CPUs are so busy that the terminal itself may be waiting for one.
fn is_machine_busy(app: &App) -> bool {
    /// In percent of all CPUs.
    const BUSY: f32 = 90.0;
    app.model.context.host.as_ref().is_some_and(|host| {
        let online = host.rows.iter().filter(|row| row.online);
        online.clone().map(CpuRow::busy).sum::<f32>() >= BUSY * online.count().max(1) as f32
    })
}

impl FramePacer {
    /// Interval between frames on a slow link.
    const SLOW: Duration = Duration::from_millis(500);
    /// Interval after which a lagging terminal is polled again.
    const AGAIN: Duration = Duration::from_millis(50);

    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self { next: now, link: LinkJudge::new(), blocked: 0, written: (term::written(), now) }
    }

    pub(crate) fn may_draw(&mut self, app: &mut App) -> bool {
        let now = Instant::now();
        if now < self.next {
            return false;
        }
        if !term::is_ready() {
            self.next = now + Self::AGAIN;
            self.lags(app, 1);
            return false;
        }
        let since = now.duration_since(self.written.1);
        if app.model.context.bytes_a_second.is_some() && since >= Duration::from_secs(1) {
            let written = term::written();
            app.model.context.bytes_a_second = Some((written - self.written.0) as f64 / since.as_secs_f64());
            self.written = (written, now);
        }
        self.blocked = term::blocked_ns();
        true
    }

    pub(crate) fn drew(&mut self, app: &mut App) {
        let now = Instant::now();
        let waited = Duration::from_nanos(term::blocked_ns().saturating_sub(self.blocked));
        // The waiting time counts as if the terminal had been polled repeatedly.
        match waited.as_millis() / Self::AGAIN.as_millis() {
            0..2 if self.link.keeps_up(now, app.model.context.slow) => {
                app.model.context.slow = false;
                app.model.say("the terminal keeps up again: the frame limit is off");
            }
            0..2 => {}
            n => self.lags(app, n as u32),
        }
        self.next = if app.model.context.slow { now + Self::SLOW } else { now };
    }

    fn lags(&mut self, app: &mut App, by: u32) {
        if !is_machine_busy(app) && self.link.lags(by, Instant::now(), app.model.context.slow) {
            app.model.context.slow = true;
            app.model.say("the terminal lags: two frames per second until it keeps up (:frame-limit changes that)");
        }
    }

    /// Returns how long to wait for events; `dirty` if a frame is due.
    pub(crate) fn wait(&self, app: &App, dirty: bool) -> Duration {
        match (dirty, app.model.context.bytes_a_second) {
            (true, _) => self.next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)),
            (false, Some(_)) => Duration::from_secs(1),
            (false, None) => {
                app.model.context.behind.next_second(app.model.context.info.start).unwrap_or(Duration::from_secs(3600))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_link_is_one_until_it_keeps_up() {
        let (mut link, start) = (LinkJudge::new(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(!link.lags(11, at(0), false) && !link.keeps_up(at(0), false), "a frame in time in between");
        assert!(!link.lags(11, at(1), false) && link.lags(1, at(1), false));
        assert!(!link.keeps_up(at(10), true) && !link.lags(1, at(10), true), "each lag begins the probation again");
        assert_eq!([19, 20].map(|seconds| link.keeps_up(at(seconds), true)), [false, true]);
        assert!(link.lags(12, at(30), false));
        assert_eq!([49, 50].map(|seconds| link.keeps_up(at(seconds), true)), [false, true], "a relapse");
    }

    #[test]
    fn a_chosen_pace_stays() {
        let (mut link, start) = (LinkJudge::new(), Instant::now());
        assert!(!link.lags(12, start, true) && !link.keeps_up(start + Duration::from_secs(1000), true));
        // Found, then switched off and on by the user.
        assert!(!link.keeps_up(start, false) && link.lags(12, start, false));
        assert!(!link.keeps_up(start, false) && !link.keeps_up(start + Duration::from_secs(1000), true));
    }
}
