//! The time of the next frame: at once, unless the terminal lags or the link to it is known to be slow. Frames are
//! left out then, never queued.

use std::time::{Duration, Instant};

use crate::ui::app::App;
use crate::ui::term;

/// The pace of frames.
#[derive(Debug)]
pub(crate) struct FramePacer {
    next: Instant,
    /// Times in a row that the terminal would not take a frame, or took it slowly.
    lagged: u32,
    /// Bytes written so far, when that was looked at.
    written: (u64, Instant),
}

impl FramePacer {
    /// Between two frames of a slow link.
    const SLOW: Duration = Duration::from_millis(500);
    /// After this a terminal that lags is asked again.
    const AGAIN: Duration = Duration::from_millis(50);
    /// So many in a row make a link slow.
    const LAGS: u32 = 12;

    /// Begins now.
    pub(crate) fn start() -> Self {
        let now = Instant::now();
        Self { next: now, lagged: 0, written: (term::written(), now) }
    }

    /// True if a frame may be drawn now.
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

    /// A frame was drawn, and begun then.
    pub(crate) fn drew(&mut self, app: &mut App, began: Instant) {
        let now = Instant::now();
        // What was waited for counts like the times that it would have been asked again.
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

    /// The time to wait for something to happen; `dirty` when a frame is due.
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
