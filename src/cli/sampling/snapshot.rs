//! Snapshots: their names, and saving the samples in memory as perf.data files.

use std::path::{Path, PathBuf};

use crate::engine::{Snapshot, UnitAnswer};
use crate::export::perfdata;
use crate::kernel::files::unwritten;
use crate::lang::counted;
use crate::panel::printable::EscapeForm;
use crate::panel::{Panel, unit};
use crate::report::unit_figures;

use crate::cli::output;

/// Saves the samples in memory, one file per machine; returns a message.
pub(crate) fn save(moment: &Snapshot, path: &Path, range: Option<(u64, u64)>) -> Result<String, String> {
    let cmdline: Vec<String> = std::env::args().collect();
    let (mut samples, mut bytes, mut names) = (0, 0, Vec::<String>::new());
    for (host, own) in moment.hosts.iter() {
        // A file contains one machine.
        let mut path = if moment.hosts.are_many() { name_with_host(path, &own.name) } else { path.to_owned() };
        // Different host names may give the same file name.
        while names.contains(&path.display().to_string()) {
            path = name_with_host(&path, &names.len().to_string());
        }
        let written = perfdata::save(moment, host, &path, &cmdline, range);
        let written = written.map_err(|e| format!("{}; the samples are still here", unwritten(&path, &e)))?;
        samples += written.samples;
        bytes += written.bytes;
        names.push(path.display().to_string());
    }
    let samples = counted(samples as u64, "sample");
    Ok(format!("saved {samples}, {} to {}", unit::bytes(bytes), names.join(" and ")))
}

/// Saves the figures of units as text and JSON next to the recording; returns a message, empty without units. `start`
/// is the start of the session by the wall clock and by its own clock, in nanoseconds.
pub(crate) fn save_figures(figures: &[UnitAnswer], path: &Path, start: (u64, u64)) -> Result<String, String> {
    let mut saved = Vec::new();
    for (n, answer) in figures.iter().enumerate() {
        let before = figures[..n].iter().filter(|other| other.name == answer.name).count();
        let number = if before > 0 { format!("-{}", before + 1) } else { String::new() };
        let wall = if start.0 > 0 { start.0.saturating_add(answer.until) } else { 0 };
        let clock = (start.1.saturating_add(answer.since), start.1.saturating_add(answer.until));
        let shown: Vec<&Panel> = answer.panels.iter().filter(|panel| !panel.is_empty()).collect();
        let all: Vec<&Panel> = answer.panels.iter().collect();
        let json = format!("{}\n", unit_figures::json(answer, wall, clock, &all));
        let text = unit_figures::text(answer, wall, clock.1, &shown);
        let mut files = Vec::new();
        for (ending, form, text) in [("txt", EscapeForm::Text, text), ("json", EscapeForm::Json, json)] {
            let path = path.with_extension(format!("{}{number}.{ending}", answer.name));
            output::file(&path, Some(form), |out| Ok(out.write_all(text.as_bytes())?)).map_err(|e| e.to_string())?;
            files.push(format!("{} ({})", path.display(), unit::bytes(text.len() as u64)));
        }
        saved.push(format!("figures of {} to {}", answer.name, files.join(" and ")));
    }
    Ok(saved.join(", "))
}

/// Returns `x-HOST.data` for `x.data`. Host names are untrusted: the result stays in the same directory.
fn name_with_host(path: &Path, host: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let host: String = host.chars().take(64).map(plain).collect();
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (stem, extension) = (part(path.file_stem()), part(path.extension()));
    let dot = if extension.is_empty() { "" } else { "." };
    path.with_file_name(format!("{stem}-{host}{dot}{extension}"))
}

/// Returns an unused name in a directory, even if the clock was set back or two snapshots fall into one second.
pub(crate) fn free_name(dir: &Path, prefix: &str) -> PathBuf {
    free_name_at(dir, prefix, crate::kernel::wall_ns() / 1_000_000_000)
}

fn free_name_at(dir: &Path, prefix: &str, seconds: u64) -> PathBuf {
    let stamp = stamp(seconds);
    let name = |n: usize| if n == 0 { format!("{prefix}{stamp}.data") } else { format!("{prefix}{stamp}-{n}.data") };
    let mut paths = (0..1000).map(|n| dir.join(name(n)));
    paths.find(|path| !path.exists()).unwrap_or_else(|| dir.join(name(1000)))
}

/// Returns seconds since 1970 as `20261121-054200`, in UTC so that names sort.
fn stamp(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| seconds.to_string(), |time| time.strftime("%Y%m%d-%H%M%S").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_snapshot_takes_the_place_of_another() {
        let dir = tempfile::tempdir().expect("dir");
        let first = free_name_at(dir.path(), "p-", 1_795_000_000);
        assert!(first.ends_with("p-20261118-110640.data"), "{}", first.display());
        std::fs::write(&first, b"x").expect("written");
        // The clock was set back, or it is the same second.
        assert!(free_name_at(dir.path(), "p-", 1_795_000_000).ends_with("p-20261118-110640-1.data"));
    }

    #[test]
    fn hosts_have_snapshots_of_their_own() {
        let name = |path: &str, host| name_with_host(Path::new(path), host).display().to_string();
        assert_eq!(name("/tmp/a.b.data", "web-1.lan"), "/tmp/a.b-web-1.lan.data");
        assert_eq!(name("x", "../etc/passwd"), "x-.._etc_passwd");
    }
}
