//! The thread that reads the terminal's input. It ends with the interface: what is typed afterwards is for the shell.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, unbounded};
use crossterm::event::{Event as Input, poll, read};
use rustix::process::{Signal, getpid, kill_process};

use crate::ui::terminal::term_query::{TermFacts, TermQuery};

/// How long answers are distinguished from keys.
const LATEST: Duration = Duration::from_secs(1);
/// Polling interval for keys typed meanwhile.
const LISTEN: Duration = Duration::from_millis(20);
/// How long input is discarded after the end: reports of the mouse are under way, and people type more slowly.
const REPORTS: Duration = Duration::from_millis(50);

/// The thread that reads keys; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct InputReader {
    pub(crate) inputs: Receiver<Input>,
    /// The terminal's answers that arrive after the first frame.
    pub(crate) late: Receiver<TermFacts>,
    has_left: Arc<AtomicBool>,
}

impl InputReader {
    /// Starts the thread. `asked` are queries that are not answered completely.
    pub(crate) fn start(asked: Option<TermQuery>) -> io::Result<Self> {
        let (sender, inputs) = unbounded();
        let (tell, late) = unbounded();
        let has_left = Arc::new(AtomicBool::new(false));
        let is_over = has_left.clone();
        let listen = move || {
            if let Some(mut asked) = asked {
                let until = Instant::now() + LATEST;
                while !asked.listen(LISTEN) && Instant::now() < until && !is_over.load(Ordering::Acquire) {
                    asked.typed().into_iter().for_each(|input| drop(sender.send(input)));
                }
                asked.typed().into_iter().for_each(|input| drop(sender.send(input)));
                let _ = tell.send(asked.facts());
            }
            // Keep the sender: a channel without senders would always be ready.
            let _tell = tell;
            pass_on(&sender, &is_over, REPORTS, next);
        };
        std::thread::Builder::new().name("input".to_owned()).spawn(listen)?;
        Ok(Self { inputs, late, has_left })
    }
}

impl Drop for InputReader {
    fn drop(&mut self) {
        self.has_left.store(true, Ordering::Release);
        // The signal of a change of size ends the wait for input.
        let _ = kill_process(getpid(), Signal::WINCH);
    }
}

/// Waits for the next input, at most for some time. `None` if there was none.
fn next(limit: Option<Duration>) -> io::Result<Option<Input>> {
    if limit.is_some_and(|limit| !poll(limit).unwrap_or(true)) {
        return Ok(None);
    }
    read().map(Some)
}

/// Passes inputs on until the interface has ended, and discards those of a short time afterwards.
fn pass_on(
    sender: &Sender<Input>,
    has_left: &AtomicBool,
    discarded: Duration,
    mut next: impl FnMut(Option<Duration>) -> io::Result<Option<Input>>,
) {
    while !has_left.load(Ordering::Acquire) {
        match next(None) {
            // The interface may have ended meanwhile.
            Ok(input) => input.into_iter().for_each(|input| drop(sender.send(input))),
            Err(_) => return,
        }
    }
    let until = Instant::now() + discarded;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        if next(Some(left)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use crossterm::event::{KeyCode, KeyEvent};

    use super::*;

    fn key(letter: char) -> Input {
        Input::Key(KeyEvent::from(KeyCode::Char(letter)))
    }

    /// The wait ends without an input if the interface ends.
    #[test]
    fn keys_after_the_end_are_left_to_the_shell() {
        let (sender, inputs) = unbounded();
        let has_left = AtomicBool::new(false);
        let mut typed = "abq".chars();
        let mut is_limited = Vec::new();
        pass_on(&sender, &has_left, Duration::from_secs(3600), |limit| {
            is_limited.push(limit.is_some());
            let Some(letter) = typed.next() else {
                return Err(io::ErrorKind::Other.into());
            };
            has_left.store(letter == 'q', Ordering::Release);
            Ok((letter != 'q').then(|| key(letter)))
        });
        assert_eq!(inputs.try_iter().collect::<Vec<_>>(), ['a', 'b'].map(key));
        assert_eq!(is_limited, [false, false, false, true], "the rest is waited for only for a while");
    }

    #[test]
    fn a_terminal_that_is_gone_ends_the_thread() {
        let (sender, inputs) = unbounded();
        pass_on(&sender, &AtomicBool::new(false), REPORTS, |_| Err(io::ErrorKind::Other.into()));
        assert!(inputs.is_empty());
    }
}
