//! Options of retention and triggers, and the snapshots that triggers save.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::engine::{Snapshot, TriggerConfig};
use crate::kernel::file_error::at;
use crate::kernel::limits;
use crate::lang::quantity::{self, SECOND};
use crate::machine::trigger::Trigger;
use crate::panel::unit;

use crate::cli::Usage;
use crate::cli::args::RetentionArgs;
use crate::cli::sampling::snapshot::{free_name, save};

const PREFIX: &str = "perfprof-trigger-";

/// Minimum and default memory limit in bytes.
const LEAST: usize = 16 << 20;
const USUAL: usize = 256 << 20;
/// Bytes of a cgroup's memory left for ring buffers and mapped files.
const REST: u64 = 64 << 20;

/// Returns the default memory limit: at most half of a cgroup's rest, because it may contain the profiled programs.
fn usual(machine: u64, limit: Option<u64>) -> usize {
    let share = limit.map_or(u64::MAX, |limit| limit.saturating_sub(REST) / 2).min(machine / 16);
    usize::try_from(share).unwrap_or(USUAL).clamp(LEAST, USUAL)
}

pub(crate) struct Retention {
    /// Bytes.
    pub(crate) memory: usize,
    /// Nanoseconds.
    pub(crate) keep: Option<u64>,
    pub(crate) watched: Option<TriggerConfig>,
}

impl Retention {
    pub(crate) fn counted(&self) -> Vec<String> {
        let triggers = self.watched.iter().flat_map(|watched| &watched.triggers);
        triggers.flat_map(|trigger| trigger.events().map(str::to_owned)).collect()
    }
}

pub(crate) fn kept(args: &RetentionArgs) -> anyhow::Result<Retention> {
    let usage = |option: &str, value: &str, expected: &str| -> anyhow::Error {
        Usage(format!("{option} {value}: expected {expected}")).into()
    };
    let memory = match &args.memory {
        None => usual(limits::memory(), limits::memory_limit()),
        Some(text) => {
            let size = quantity::size(text).ok().filter(|bytes| *bytes >= LEAST);
            size.ok_or_else(|| usage("--memory", text, "a size of 16M or more"))?
        }
    };
    let keep = match args.keep.as_str() {
        "all" => None,
        text => {
            let ns = quantity::time(text).ok().filter(|ns| *ns >= SECOND);
            Some(ns.ok_or_else(|| usage("--keep", text, "a time of at least one second, e.g. 10m, or all"))?)
        }
    };
    let triggers: Result<Vec<Trigger>, _> = args.triggers.iter().map(|text| Trigger::parse(text)).collect();
    let triggers = triggers.map_err(|fault| Usage(format!("--trigger: {fault}")))?;
    if triggers.is_empty() {
        return Ok(Retention { memory, keep, watched: None });
    }
    let (before, after) = args.trigger_span.split_once(',').unwrap_or((&args.trigger_span, "5s"));
    let span = quantity::time(before).ok().zip(quantity::time(after).ok());
    let (before, after) = span.ok_or_else(|| usage("--trigger-span", &args.trigger_span, "times, e.g. 60s,5s"))?;
    let pause = quantity::time(&args.trigger_pause).ok();
    let pause = pause.ok_or_else(|| usage("--trigger-pause", &args.trigger_pause, "a time, e.g. 60s"))?;
    let (number, room) = args.trigger_max.split_once(',').unwrap_or((&args.trigger_max, "1G"));
    let limits = quantity::count(number).ok().filter(|n| *n > 0).zip(quantity::size(room).ok());
    let (number, room) =
        limits.ok_or_else(|| usage("--trigger-max", &args.trigger_max, "a number and a size, e.g. 10,1G"))?;
    let dir = args.trigger_dir.clone();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .map_err(|error| anyhow::anyhow!("--trigger-dir {}: {error}", dir.display()))?;
    let folder = TriggerFolder { dir, number, room };
    let save = move |moment: &Snapshot, range, what: &str| folder.save(moment, range, what);
    Ok(Retention {
        memory,
        keep,
        watched: Some(TriggerConfig { triggers, before, after, pause, save: Arc::new(save) }),
    })
}

/// Directory of snapshots with its limits.
struct TriggerFolder {
    dir: PathBuf,
    number: usize,
    room: u64,
}

impl TriggerFolder {
    fn save(&self, moment: &Snapshot, range: (u64, u64), what: &str) -> Result<String, String> {
        let (number, bytes) = held(&self.dir).map_err(|error| error.to_string())?;
        if number >= self.number || bytes >= self.room {
            return Err(format!(
                "{what}: not saved, {} holds {number} snapshots, {} already; see --trigger-max",
                self.dir.display(),
                unit::bytes(bytes)
            ));
        }
        // Two triggers may fire within one second.
        save(moment, &free_name(&self.dir, PREFIX), Some(range)).map(|text| format!("{what}: {text}"))
    }
}

/// Returns the number of triggers' snapshots in a directory and their total size in bytes.
fn held(dir: &Path) -> io::Result<(usize, u64)> {
    let (mut number, mut bytes) = (0, 0);
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let entry = entry.map_err(at(dir))?;
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            number += 1;
            bytes += entry.metadata().map_or(0, |meta| meta.len());
        }
    }
    Ok((number, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        keeping: RetentionArgs,
    }

    fn parsed(words: &[&str]) -> Result<Retention, String> {
        let line = Line::try_parse_from([&["x"], words].concat()).map_err(|e| e.to_string())?;
        kept(&line.keeping).map_err(|e| e.to_string())
    }

    #[test]
    fn options_of_the_recorder() {
        let dir = tempfile::tempdir().expect("dir");
        let below = dir.path().join("a/b").display().to_string();
        let kept =
            parsed(&["--trigger", "lost > 0", "--trigger-dir", &below, "--trigger-span", "10s"]).expect("parsed");
        let watched = kept.watched.expect("watched");
        assert_eq!((kept.memory, kept.keep), (usual(limits::memory(), limits::memory_limit()), Some(600_000_000_000)));
        assert_eq!((watched.before, watched.after, watched.pause), (10_000_000_000, 5_000_000_000, 60_000_000_000));
        assert!(Path::new(&below).is_dir());
        assert_eq!(parsed(&["--keep", "all"]).expect("parsed").keep, None);
        for (words, why) in [
            (&["--keep", "0s"][..], "--keep 0s: expected"),
            (&["--memory", "1M"], "16M or more"),
            (&["--trigger", "nothing"], "--trigger: unknown condition nothing"),
            (&["--trigger", "lost > 0", "--trigger-max", "0"], "10,1G"),
            (&["--trigger", "lost > 0", "--trigger-dir", "/proc/none"], "--trigger-dir /proc/none"),
        ] {
            let fault = parsed(words).err().expect(why);
            assert!(fault.contains(why), "{fault}");
        }
    }

    #[test]
    fn a_limit_of_memory_is_kept() {
        let large = 256 << 30;
        assert_eq!([None, Some(64 << 30)].map(|limit| usual(large, limit)), [USUAL; 2]);
        assert_eq!([1 << 30, 256 << 20, 0].map(|limit| usual(large, Some(limit)) >> 20), [256, 96, 16]);
        assert_eq!([2 << 30, 8 << 30, 1 << 20].map(|machine| usual(machine, None) >> 20), [128, 256, 16]);
    }

    #[test]
    fn a_full_shelf_takes_no_more() {
        let dir = tempfile::tempdir().expect("dir");
        let folder = TriggerFolder { dir: dir.path().to_owned(), number: 1, room: 1 << 20 };
        assert_eq!(held(dir.path()).expect("readable"), (0, 0));
        let name = || free_name(dir.path(), PREFIX);
        let first = name();
        fs::write(&first, b"x").expect("written");
        assert_ne!(name(), first);
        assert_eq!(held(dir.path()).expect("readable"), (1, 1));
        let core = crate::ingest::Ingest::new(
            &crate::source::Info::new(crate::session::Origin::Live),
            None,
            crate::engine::IntakeOptions::default(),
        );
        let told = folder.save(&core.core().moment(), (0, 1), "lost 3").expect_err("full");
        assert!(told.contains("lost 3: not saved") && told.contains("holds 1 snapshots"), "{told}");
    }
}
