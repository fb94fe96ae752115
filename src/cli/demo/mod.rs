//! `demo`: a real incident, recorded once and compiled in, played as it came, by the path that streams of other
//! machines take. It needs no rights and no kernel of a kind.

use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::perfdata::read::PIPE_HEADER;
use crate::perfdata::unpack::{self, UnpackBudget};
use crate::record::kinds::{HEADER, Header, types};
use crate::record::sample::Layout;
use crate::source::recording;

use super::args;
use super::open::Opened;

/// A stream of 34 CPUs for eleven seconds, zstd; `tests/offline/demo.rs` makes it.
const INCIDENT: &[u8] = include_bytes!("incident.zst");
/// Bytes that it unpacks to, at most.
const MOST: usize = 16 << 20;
/// Pieces of this much time are sent at once, as a recorder drains its rings.
const ROUND: Duration = Duration::from_millis(100);

/// So much of the beginning is there at once: with the first burst there is something to look at.
const BEFORE: Duration = Duration::from_secs(4);

pub(crate) fn run(args: args::Demo) -> anyhow::Result<u8> {
    super::output::need_terminal("report")?;
    if !(args.speed > 0.0 && args.speed <= 100.0) {
        return Err(super::Usage(format!("--speed {}: expected more than 0, 100 at most", args.speed)).into());
    }
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let stream = unpack::zstd("the demo", INCIDENT, &mut UnpackBudget::new(MOST))?;
    let speed = args.speed;
    crate::kernel::thread("demo", move || {
        // The reader may leave before the end.
        let _ = play(&stream, speed, write);
    })?;
    let path = format!("/proc/self/fd/{}", read.as_raw_fd()).into();
    let source = recording::open_as(&[path], Some("demo".to_owned()), &[])?;
    let opened = Opened::of_stream(source);
    super::live::flow(opened, &args.view, !args.no_tour, read)
}

/// Writes a stream as its records came in time.
fn play(stream: &[u8], speed: f64, to: OwnedFd) -> std::io::Result<()> {
    let mut out = std::fs::File::from(to);
    let start = Instant::now();
    let mut at = PIPE_HEADER as usize;
    let (mut sent, mut first, mut layout) = (0, None, Layout::default());
    let mut due = Duration::ZERO;
    while let Some(header) = stream.get(at..).and_then(Header::read) {
        let size = usize::from(header.size).max(HEADER);
        let body = stream.get(at + HEADER..at + size).unwrap_or_default();
        if header.kind == types::HEADER_ATTR {
            layout = super::demo::layout_of(body).unwrap_or(layout);
        }
        if header.kind == types::SAMPLE
            && let Ok(sample) = layout.sample(header, body)
        {
            let first = *first.get_or_insert(sample.time);
            let when = Duration::from_nanos(sample.time.saturating_sub(first)).saturating_sub(BEFORE).div_f64(speed);
            if when >= due {
                out.write_all(&stream[sent..at])?;
                sent = at;
                due = when + ROUND.div_f64(speed);
                std::thread::sleep(when.saturating_sub(start.elapsed()));
            }
        }
        at += size;
    }
    out.write_all(&stream[sent..])
}

/// The layout of samples that an event's description stands for.
fn layout_of(body: &[u8]) -> Option<Layout> {
    let attr = crate::kernel::attr::Attr::decode(body, false)?;
    Some(crate::perfdata::EventDesc { name: String::new(), attr, ids: Vec::new() }.layout())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn the_incident_is_played_whole() {
        let stream = unpack::zstd("the demo", INCIDENT, &mut UnpackBudget::new(MOST)).expect("packed");
        let (read, write) = rustix::pipe::pipe().expect("pipe");
        let wanted = stream.clone();
        let player = std::thread::spawn(move || play(&stream, 100.0, write));
        let mut got = Vec::new();
        std::fs::File::from(read).read_to_end(&mut got).expect("read");
        assert!(player.join().expect("ends").is_ok());
        assert!(got == wanted && got.len() > 500_000, "{} of {}", got.len(), wanted.len());
    }
}
