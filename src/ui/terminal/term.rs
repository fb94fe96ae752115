//! The terminal: setup, output in whole frames, and restoration.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use crossterm::event::{DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture};
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{cursor, execute, queue};
use ratatui::Terminal;
use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::engine::thread_wanted_cpu_ns;
use crate::panel::printable::{EscapeForm, Printable};
use crate::symbols::isolated;
use crate::ui::state::environment::drawn_part;
use crate::ui::terminal::paint::Painter;

/// Whether the terminal is set up for the interface.
static OURS: AtomicBool = AtomicBool::new(false);
/// Number of bytes written to the terminal.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Time that writes were blocked by the terminal, in nanoseconds.
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// Whether the terminal supports synchronized output.
static WHOLE_FRAMES: AtomicBool = AtomicBool::new(false);

/// Enables synchronized output: each frame is marked at its start and end.
pub(crate) fn mark_frames(on: bool) {
    WHOLE_FRAMES.store(on, Ordering::Relaxed);
}

/// Returns whether the terminal accepts output without blocking. A lagging terminal gets fewer frames, not a queue.
pub(crate) fn is_ready() -> bool {
    let out = io::stdout();
    let mut fds = [PollFd::new(&out, PollFlags::OUT)];
    // If the terminal cannot be polled, write to it.
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).map_or(true, |n| n > 0)
}

pub(crate) fn written() -> u64 {
    WRITTEN.load(Ordering::Relaxed)
}

/// Returns the time that writes were blocked by the terminal, in nanoseconds. Time in which this thread ran or waited for
/// a CPU does not count: a busy machine is not a slow terminal.
pub(crate) fn blocked_ns() -> u64 {
    BLOCKED.load(Ordering::Relaxed)
}

/// Leaves the choice of colours to the theme. With NO_COLOR, crossterm would reset a cell's style after setting it, so
/// that the selection would be invisible.
pub(crate) fn own_colors() {
    crossterm::style::force_color_output(true);
}

pub(crate) fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    OURS.store(true, Ordering::SeqCst);
    let mut out = Vec::new();
    queue!(out, EnterAlternateScreen, EnableBracketedPaste, EnableMouseCapture, cursor::Hide)?;
    write_all(&out)
}

/// Restores the terminal, if it is set up.
pub(crate) fn leave() {
    if OURS.swap(false, Ordering::SeqCst) {
        let mut out = Vec::new();
        let _ = queue!(out, DisableMouseCapture, DisableBracketedPaste, LeaveAlternateScreen, cursor::Show);
        let _ = write_all(&out);
        let _ = disable_raw_mode();
    }
}

pub(crate) fn mouse(on: bool) -> io::Result<()> {
    let mut out = io::stdout();
    if on { execute!(out, EnableMouseCapture) } else { execute!(out, DisableMouseCapture) }
}

/// Copies a text to the clipboard of the terminal's machine with OSC 52, which works over ssh.
pub(crate) fn copy(text: &str) -> io::Result<()> {
    // Remove control characters, which could affect the program into which the text is pasted.
    let mut plain = Printable::new(EscapeForm::Text, Vec::new());
    plain.write_all(text.as_bytes())?;
    plain.finish()?;
    execute!(io::stdout(), crossterm::clipboard::CopyToClipboard::to_clipboard_from(plain.get_mut()))
}

/// Restores the terminal before the message of a panic.
pub(crate) fn restore_on_panic() {
    isolated::before_the_end(leave);
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    WRITTEN.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    let mut out = io::stdout().lock();
    let (began, before) = (Instant::now(), thread_wanted_cpu_ns());
    let result = out.write_all(bytes).and_then(|()| out.flush());
    let wall = began.elapsed().as_nanos() as u64;
    BLOCKED.fetch_add(wall.saturating_sub(thread_wanted_cpu_ns().saturating_sub(before)), Ordering::Relaxed);
    result
}

/// Collects a frame and writes it in one piece.
#[derive(Debug, Default)]
pub(crate) struct FrameWriter {
    bytes: Vec<u8>,
}

impl Write for FrameWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        if WHOLE_FRAMES.load(Ordering::Relaxed) {
            self.bytes.splice(..0, *b"\x1b[?2026h");
            self.bytes.extend(b"\x1b[?2026l");
        }
        let result = write_all(&self.bytes);
        self.bytes.clear();
        result
    }
}

/// crossterm's backend with another way of writing cells. It never queries the cursor position: the answer would arrive
/// in the thread that reads keys, and not all terminals answer.
#[derive(Debug)]
pub(crate) struct QuietBackend {
    inner: CrosstermBackend<FrameWriter>,
    painter: Painter,
    cursor: Position,
    cursor_shown: bool,
}

pub(crate) type ScreenTerminal = Terminal<QuietBackend>;

pub(crate) fn size() -> io::Result<(u16, u16)> {
    crossterm::terminal::size()
}

fn drawn(size: Size) -> Size {
    let (width, height) = drawn_part(size.width, size.height);
    Size { width, height }
}

pub(crate) fn screen() -> io::Result<ScreenTerminal> {
    let inner = CrosstermBackend::new(FrameWriter { bytes: Vec::with_capacity(1 << 16) });
    let painter = Painter::empty(drawn(inner.size()?));
    Terminal::new(QuietBackend { inner, painter, cursor: Position::ORIGIN, cursor_shown: false })
}

impl Backend for QuietBackend {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        self.inner.write_all(&self.painter.paint(content))
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.cursor_shown) { self.inner.hide_cursor() } else { Ok(()) }
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.cursor_shown = true;
        // ratatui reports a failure on standard error when it is dropped, and panics if that is the same closed
        // terminal. The next frame fails as well.
        let _ = self.inner.show_cursor();
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.cursor = position.into();
        self.inner.set_cursor_position(self.cursor)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    /// Clears the whole screen for any region: the interface draws all of it.
    fn clear_region(&mut self, _kind: ClearType) -> io::Result<()> {
        self.painter = Painter::empty(self.size()?);
        self.inner.clear_region(ClearType::All)
    }

    fn size(&self) -> io::Result<Size> {
        self.inner.size().map(drawn)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.inner.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.inner)
    }
}
