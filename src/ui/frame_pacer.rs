//! The time of the next frame: immediately, unless the terminal lags or its link is slow. Frames are then dropped,
//! never queued.

use std::time::{Duration, Instant};

use crate::ui::app::App;
use crate::ui::term;

/// The frame rate limiter.
#[derive(Debug)]
pub(crate) struct FramePacer {
    next: Instant,
    /// Number of consecutive times that the terminal blocked a frame or accepted it slowly.
    lagged: u32,
    /// Bytes written so far, and the time of that count.
    written: (u64, Instant),
}

impl FramePacer {
    /// Interval between frames on a slow link.
    const SLOW: Duration = Duration::from_millis(500);
    /// Interval after which a lagging terminal is polled again.
    const AGAIN: Duration = Duration::from_millis(50);
    /// Number of consecutive lags after which the link counts as slow.
    const LAGS: u32 = 12;

    /// Starts now.
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self { next: now, lagged: 0, written: (term::written(), now) }
    }

    /// Returns whether a frame may be drawn now.
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
        if app.context.bytes_a_second.is_some() && since >= Duration::from_secs(1) {
            let written = term::written();
            app.context.bytes_a_second = Some((written - self.written.0) as f64 / since.as_secs_f64());
            self.written = (written, now);
        }
        true
    }

    /// Records that a frame was drawn, and when it began.
    pub(crate) fn drew(&mut self, app: &mut App, began: Instant) {
        let now = Instant::now();
        // The waiting time counts as if the terminal had been polled repeatedly.
        match now.duration_since(began).as_millis() / Self::AGAIN.as_millis() {
            0..2 => self.lagged = 0,
            n => self.lags(app, n as u32),
        }
        self.next = if app.context.slow { now + Self::SLOW } else { now };
    }

    fn lags(&mut self, app: &mut App, by: u32) {
        self.lagged += by;
        if self.lagged >= Self::LAGS && !app.context.slow {
            app.context.slow = true;
            app.say("the terminal lags: two frames a second from now on (:frame-limit changes that)");
        }
    }

    /// Returns how long to wait for events; `dirty` if a frame is due.
    pub(crate) fn wait(&self, app: &App, dirty: bool) -> Duration {
        match (dirty, app.context.bytes_a_second) {
            (true, _) => self.next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)),
            (false, Some(_)) => Duration::from_secs(1),
            (false, None) => {
                app.context.behind.next_second(app.context.info.start).unwrap_or(Duration::from_secs(3600))
            }
        }
    }
}
