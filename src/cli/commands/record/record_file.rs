//! Output of `record`: a file, a sequence of files, or a stream.

use std::collections::VecDeque;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGUSR2;

use crate::export::perfdata;
use crate::kernel::files::NewFile;
use crate::lang::quantity;
use crate::perfdata::features;
use crate::perfdata::features::{FeatureSection, bit};
use crate::perfdata::stream::StreamWriter;
use crate::perfdata::topology::CpuTopology;
use crate::perfdata::write::Writer;
use crate::session::containers::NamedContainer;
use crate::session::{containers, recorder};
use crate::source::Info;

use crate::cli::args::RecordArgs;
use crate::cli::output::failed;
use crate::cli::usage;

/// Maximum bytes of names per record; a record has at most 64 KiB.
const NAMES_AT_ONCE: usize = 60_000;

pub(crate) enum RecordSink {
    File(Box<Writer>),
    Stream(StreamWriter),
}

impl RecordSink {
    pub(crate) fn open(args: &RecordArgs, info: &Info, named: &[NamedContainer]) -> anyhow::Result<Self> {
        if args.is_streamed() {
            if std::io::stdout().is_terminal() {
                anyhow::bail!(
                    "refusing to write a recording to a terminal; pipe it, e.g. to `perfprof-tui open -`, or name a \
                     file with -o"
                );
            }
            let mut sections = described(info)?;
            sections.push(recorder_of(args, info));
            sections.extend(features::clock());
            let out = Box::new(crate::cli::output::binary());
            let mut stream = Self::Stream(StreamWriter::start(out, &info.events, &sections)?);
            stream.name(named)?;
            return Ok(stream);
        }
        let start = || -> std::io::Result<Writer> {
            let mut writer = Writer::start(NewFile::create(args.target())?, &info.events)?;
            args.more.compression.map_or(Ok(()), |level| writer.pack(level))?;
            Ok(writer)
        };
        let writer = start().map_err(|error| failed(args.target(), &error))?;
        Ok(Self::File(Box::new(writer)))
    }

    pub(crate) fn name(&mut self, named: &[NamedContainer]) -> std::io::Result<()> {
        let Self::Stream(writer) = self else { return Ok(()) };
        let parts = containers::encode_in_parts(named, NAMES_AT_ONCE);
        parts.into_iter().try_for_each(|part| writer.section(&(bit::CONTAINERS, part)))
    }

    pub(crate) fn records(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Self::File(writer) => writer.records(bytes),
            Self::Stream(writer) => writer.records(bytes),
        }
    }

    pub(crate) fn finish_round(&mut self) -> std::io::Result<()> {
        match self {
            Self::File(writer) => writer.finish_round(),
            Self::Stream(writer) => writer.finish_round(),
        }
    }

    pub(crate) fn written(&self) -> u64 {
        match self {
            Self::File(writer) => writer.written(),
            Self::Stream(writer) => writer.written(),
        }
    }
}

enum Switch {
    Signal(Arc<AtomicBool>),
    Size(u64),
    Time(Duration),
}

impl Switch {
    fn of(text: &str) -> anyhow::Result<Self> {
        if text == "signal" {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(SIGUSR2, flag.clone())?;
            return Ok(Self::Signal(flag));
        }
        // Like in perf, lower-case suffixes are times, upper-case ones sizes.
        let is_time = text.ends_with(['s', 'm', 'h', 'd']);
        let of = match is_time {
            true => quantity::duration(text).ok().filter(|time| !time.is_zero()).map(Self::Time),
            false => quantity::size(text).ok().filter(|size| *size > 0).map(Self::Size),
        };
        let expected = "expected signal, a size such as 100M, or a time such as 30s, above 0";
        of.ok_or_else(|| usage(format!("--switch-output={text}: {expected}")))
    }
}

/// The files of one run: their names, the condition for the next, and which are kept.
pub(crate) struct FileSeries {
    target: PathBuf,
    switch: Option<Switch>,
    dated: bool,
    keep: usize,
    begun: Instant,
    done: VecDeque<PathBuf>,
}

impl FileSeries {
    pub(crate) fn of(args: &RecordArgs) -> anyhow::Result<Self> {
        let switch = args.more.switch_output.as_deref().map(Switch::of).transpose()?;
        let dated = switch.is_some() || args.more.timestamp_filename;
        if dated && args.is_streamed() {
            return Err(usage("--switch-output and --timestamp-filename need a file, not a stream"));
        }
        let keep = args.more.switch_max_files.unwrap_or(usize::MAX).max(1);
        Ok(Self { target: args.target().to_owned(), switch, dated, keep, begun: Instant::now(), done: VecDeque::new() })
    }

    /// Returns true if the next file should begin now; `bytes` is the size of the current one.
    pub(crate) fn is_due(&self, written: u64) -> bool {
        match &self.switch {
            None => false,
            Some(Switch::Signal(flag)) => flag.swap(false, Ordering::Relaxed),
            Some(Switch::Size(size)) => written >= *size,
            Some(Switch::Time(time)) => self.begun.elapsed() >= *time,
        }
    }

    pub(crate) fn name(&self) -> PathBuf {
        let mut name = self.target.clone().into_os_string();
        if self.dated {
            name.push(format!(".{}", now()));
        }
        name.into()
    }

    /// Removes the oldest files above the limit.
    pub(crate) fn ended(&mut self, path: &Path) -> anyhow::Result<()> {
        self.begun = Instant::now();
        self.done.push_back(path.to_owned());
        while self.done.len() > self.keep {
            let oldest = self.done.pop_front().unwrap_or_default();
            std::fs::remove_file(&oldest).map_err(|error| anyhow::anyhow!("{}: {error}", oldest.display()))?;
        }
        Ok(())
    }
}

/// Returns the local time in perf's format for file names, in hundredths of a second.
fn now() -> String {
    let ns = crate::kernel::wall_ns();
    let time = crate::kernel::local_time((ns / 1_000_000_000) as i64).unwrap_or_default();
    format!("{}{:02}", time.strftime("%Y%m%d%H%M%S"), ns % 1_000_000_000 / 10_000_000)
}

pub(crate) fn names_of(named: &[NamedContainer]) -> Option<FeatureSection> {
    (!named.is_empty()).then(|| (bit::CONTAINERS, containers::encode(named.iter())))
}

/// Records the profiler's own threads, which readers exclude, and how call chains are taken.
pub(crate) fn recorder_of(args: &RecordArgs, info: &Info) -> FeatureSection {
    let own = (!args.sampling.include_self).then(|| std::process::id() as i32);
    (bit::RECORDER, recorder::encode(own, info.states.iter().map(|state| state.chains)))
}

pub(crate) fn described(info: &Info) -> anyhow::Result<Vec<FeatureSection>> {
    let cmdline: Vec<String> = std::env::args().collect();
    let mut sections = features::machine(&cmdline);
    sections.push(CpuTopology::here());
    sections.push(features::event_desc(&info.events));
    sections.extend(features::group_desc(&info.groups));
    sections.extend(perfdata::tracing(&info.events).transpose()?);
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_does_not_end_as_it_begins() {
        assert!(matches!(Switch::of("30s"), Ok(Switch::Time(time)) if time.as_secs() == 30));
        assert!(matches!(Switch::of("100M"), Ok(Switch::Size(size)) if size == 100 << 20));
        for text in ["0s", "0m", "0B", "0M", "soon"] {
            assert!(Switch::of(text).is_err_and(|why| why.to_string().contains("above 0")), "{text}");
        }
    }
}
