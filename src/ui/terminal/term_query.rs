//! Queries to the terminal at setup: its background colour (OSC 11), and synchronized output (DECRQM of mode 2026).
//!
//! The last query is for device attributes (DA1), which nearly every terminal answers: after that answer no other will
//! come. Keys typed meanwhile are kept.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::ui::theme::Background;

const QUESTIONS: &[u8] = b"\x1b]11;?\x1b\\\x1b[?2026$p\x1b[c";
/// A longer input is not an answer.
const MOST: usize = 4096;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TermFacts {
    pub(crate) background: Option<Background>,
    pub(crate) whole_frames: bool,
}

#[derive(Debug)]
pub(crate) struct TermQuery {
    input: OwnedFd,
    heard: Vec<u8>,
    facts: TermFacts,
    typed: Vec<Input>,
    done: bool,
}

/// Returns whether the terminal is one of tmux.
pub(crate) fn is_tmux() -> bool {
    std::env::var_os("TMUX").is_some()
}

impl TermQuery {
    /// Queries the user's terminal, which must be in raw mode. Returns `None` if there is none or it would not answer.
    pub(crate) fn ask() -> Option<Self> {
        if matches!(std::env::var("TERM").as_deref(), Ok("" | "dumb") | Err(_)) {
            return None;
        }
        let stdin = rustix::stdio::stdin();
        let input = match rustix::termios::isatty(stdin) {
            true => stdin.try_clone_to_owned().ok()?,
            false => File::open("/dev/tty").ok()?.into(),
        };
        let mut out = io::stdout().lock();
        out.write_all(QUESTIONS).and_then(|()| out.flush()).ok()?;
        Some(Self { input, heard: Vec::new(), facts: TermFacts::default(), typed: Vec::new(), done: false })
    }

    /// Reads answers until they are complete or the time is over. Returns whether they are complete.
    pub(crate) fn listen(&mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while !self.done {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.hear(left) {
                break;
            }
        }
        self.done
    }

    /// Reads input for a limited time; `false` at its end.
    fn hear(&mut self, within: Duration) -> bool {
        let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.input, PollFlags::IN)];
        match poll(&mut fds, Some(&within)) {
            Ok(0) => return true,
            Err(error) => return error == rustix::io::Errno::INTR,
            Ok(_) => {}
        }
        let mut buffer = [0; 512];
        match rustix::io::read(self.input.as_fd(), &mut buffer) {
            Ok(0) => false,
            Ok(n) => {
                self.take(&buffer[..n]);
                true
            }
            Err(error) => error == rustix::io::Errno::INTR,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        let mut at = 0;
        while let Some((word, len)) = next(&self.heard[at..]) {
            at += len;
            match word {
                Word::Background(background) => self.facts.background = Some(background),
                Word::WholeFrames(can) => self.facts.whole_frames = can,
                Word::End => self.done = true,
                Word::Key(key) => self.typed.push(Input::Key(key)),
                Word::Other => {}
            }
        }
        self.heard.drain(..at);
        if self.heard.len() > MOST {
            self.heard.clear();
        }
    }

    pub(crate) fn facts(&self) -> TermFacts {
        self.facts
    }

    pub(crate) fn typed(&mut self) -> Vec<Input> {
        std::mem::take(&mut self.typed)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Background(Background),
    WholeFrames(bool),
    /// Its attributes, the last answer.
    End,
    Key(KeyEvent),
    Other,
}

/// Returns the next complete part and its length; `None` if it is incomplete.
fn next(bytes: &[u8]) -> Option<(Word, usize)> {
    match bytes {
        [] => None,
        [0x1b, b']', rest @ ..] => {
            let end = rest.iter().position(|b| matches!(b, 0x07 | 0x1b))?;
            let len = if rest[end] == 0x07 { end + 3 } else { end + 4 };
            let word = rest[..end].strip_prefix(b"11;").and_then(background).map_or(Word::Other, Word::Background);
            (bytes.len() >= len).then_some((word, len))
        }
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().position(|b| (0x40..=0x7e).contains(b))?;
            let word = match (rest[end], &rest[..end]) {
                (b'c', [b'?', ..]) => Word::End,
                // Set, reset or permanently set: the mode is supported (DECRPM).
                (b'y', [b'?', b'2', b'0', b'2', b'6', b';', state, b'$']) => {
                    Word::WholeFrames(matches!(state, b'1' | b'2' | b'3'))
                }
                (last, []) => arrow(last).map_or(Word::Other, Word::Key),
                _ => Word::Other,
            };
            Some((word, end + 3))
        }
        // The start of an answer or the Esc key: the next byte decides.
        [0x1b] => None,
        [0x1b, ..] => Some((Word::Key(KeyEvent::from(KeyCode::Esc)), 1)),
        [byte, ..] if byte.is_ascii() => Some((key(*byte).map_or(Word::Other, Word::Key), 1)),
        _ => Some((Word::Other, 1)),
    }
}

fn arrow(last: u8) -> Option<KeyEvent> {
    let code = match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        _ => return None,
    };
    Some(code.into())
}

fn key(byte: u8) -> Option<KeyEvent> {
    Some(match byte {
        b'\r' => KeyCode::Enter.into(),
        b'\t' => KeyCode::Tab.into(),
        0x7f => KeyCode::Backspace.into(),
        1..=26 => KeyEvent::new(KeyCode::Char(char::from(b'a' + byte - 1)), KeyModifiers::CONTROL),
        b' '..=b'~' => KeyCode::Char(char::from(byte)).into(),
        _ => return None,
    })
}

/// Parses `rgb:RRRR/GGGG/BBBB` or `rgba:…`, with one to four digits each (XParseColor(3)).
fn background(text: &[u8]) -> Option<Background> {
    let text = std::str::from_utf8(text).ok()?;
    let (_, parts) = text.split_once(':').filter(|(kind, _)| matches!(*kind, "rgb" | "rgba"))?;
    let part = |text: &str| {
        let most = 16f64.powi(i32::try_from(text.len()).ok().filter(|n| (1..=4).contains(n))?) - 1.0;
        Some(f64::from(u16::from_str_radix(text, 16).ok()?) / most)
    };
    let parts: Vec<f64> = parts.split('/').map(part).collect::<Option<_>>()?;
    let [r, g, b] = parts.get(..3)?.try_into().ok()?;
    // Lightness of 50 in CIELAB, by relative luminance (WCAG 2.2).
    let linear = |c: f64| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) };
    let luminance = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    Some(if luminance > 0.184 { Background::Light } else { Background::Dark })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;
    use proptest::prelude::*;

    fn asked() -> TermQuery {
        let input = rustix::pipe::pipe().expect("pipe").0;
        TermQuery { input, heard: Vec::new(), facts: TermFacts::default(), typed: Vec::new(), done: false }
    }

    #[test]
    fn answers_are_told_from_keys() {
        let answer = b"2\x1b]11;rgb:ffff/fafa/f0f0\x1b\\:\x1b[A\x1b[?2026;2$y\x14\x1b[?62;4cq";
        let codes = [KeyCode::Char('2'), KeyCode::Char(':'), KeyCode::Up, KeyCode::Char('t'), KeyCode::Char('q')];
        for size in 1..answer.len() {
            let mut asked = asked();
            answer.chunks(size).for_each(|part| asked.take(part));
            assert_eq!(asked.facts(), TermFacts { background: Some(Background::Light), whole_frames: true });
            let typed: Vec<KeyCode> = asked.typed().iter().filter_map(|e| Some(e.as_key_event()?.code)).collect();
            assert_eq!((&typed[..], asked.done), (&codes[..], true));
        }
    }

    #[test]
    fn terminals_that_know_less() {
        let mut dark = asked();
        dark.take(b"\x1b]11;rgb:1/1/2\x07\x1b[?2026;0$y\x1b[?1;2c");
        assert_eq!((dark.facts().background, dark.facts().whole_frames), (Some(Background::Dark), false));
        for odd in ["rgb:", "rgb:zz/00/00", "rgb:12345/0/0", "hsl:1/2/3", "rgb:1/2", "?"] {
            assert_eq!(background(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn nothing_breaks_it() {
        let whole: &[&[u8]] = &[
            b"\x1b]11;rgb:ffff/fafa/f0f0\x1b\\",
            b"\x1b]11;rgba:1/1/2/3\x07",
            b"\x1b[?2026;2$y",
            b"\x1b[?62;4c",
            b"q\x1b[A",
        ];
        let one = || damage::bytes(4, proptest::sample::select(whole).prop_map(<[u8]>::to_vec));
        damage::reaching(256, 15, proptest::collection::vec(one(), 0..9), |parts| {
            let mut asked = asked();
            parts.iter().for_each(|part| asked.take(part));
            assert!(asked.heard.len() <= MOST);
            asked.facts() != TermFacts::default()
        });
        let mut endless = self::asked();
        endless.take(b"\x1b]11;");
        (0..99).for_each(|_| endless.take(&[b'x'; 100]));
        assert!(endless.heard.len() <= MOST);
    }
}
