//! The interface's hands outside: files, and stopping the process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use crossbeam_channel::Sender;

use crate::engine::{Engine, Offline, Request, Snapshot, Wants, offline};
use crate::export::perfdata;
use crate::ingest::unit_feed::SEVERAL_HOSTS;
use crate::kernel::files::{NewFile, unwritten};
use crate::kernel::tty;
use crate::panel::printable::{Form, Printable};
use crate::panel::unit;
use crate::session::TimeMark;
use crate::ui::context::SavedFilters;
use crate::ui::run::{Driver, Outside};
use crate::units::kit::{Settings, Spec};

use super::args::{NameArgs, Recording};
use super::export::save_again;
use super::open;

/// Does the interface's work with files, beside the running session.
pub struct Outer {
    pub outside: Sender<Outside>,
    /// The name of snapshots.
    pub name: Option<PathBuf>,
    /// A recording's own files: it is saved from them, with all that its samples carry.
    pub recording: Option<Vec<PathBuf>>,
    /// Where names of other recordings come from.
    pub names: NameArgs,
    pub no_demangle: bool,
}

impl Driver for Outer {
    fn save(&mut self, engine: &Engine, path: Option<PathBuf>, range: Option<(u64, u64)>) {
        let path = path.or_else(|| self.name.clone()).unwrap_or_else(|| free_name(Path::new(""), "perfprof-"));
        let (reply, moments) = crossbeam_channel::bounded(1);
        let recording = self.recording.clone();
        if recording.is_none() {
            engine.send(Request::Save(reply));
        }
        let outside = self.outside.clone();
        let answer = engine.answer();
        let marks: Vec<TimeMark> = answer
            .marks
            .iter()
            .map(|mark| TimeMark { at: mark.at.saturating_add(answer.start), ..mark.clone() })
            .collect();
        let work = move || {
            let saved = match recording {
                Some(files) => save_again(&files, &path, range, &marks),
                None => match moments.recv() {
                    Ok(moment) => save(&moment, &path, range),
                    Err(_) => Err("the session has ended".to_owned()),
                },
            };
            let _ = outside.send(Outside::Saved(saved));
        };
        if let Err(error) = std::thread::Builder::new().name("save".to_owned()).spawn(work) {
            let _ = self.outside.send(Outside::Saved(Err(error.to_string())));
        }
    }

    fn write(&mut self, path: PathBuf, text: String) {
        let write = || -> std::io::Result<()> {
            let mut out = Printable::new(Form::Text, NewFile::create(&path)?);
            out.write_all(text.as_bytes())?;
            out.finish()?;
            out.get_mut().commit()
        };
        let said = match write() {
            Ok(()) => Ok(format!("{} lines written to {}", text.lines().count(), path.display())),
            Err(error) => Err(unwritten(&path, &error)),
        };
        let _ = self.outside.send(Outside::Saved(said));
    }

    fn save_filters(&mut self, filters: SavedFilters) {
        let _ = self.outside.send(Outside::Saved(super::filters::write(&filters)));
    }

    fn baseline(&mut self, engine: &Engine, path: PathBuf) {
        let (outside, requests) = (self.outside.clone(), engine.requests());
        let (names, no_demangle) = (self.names.clone(), self.no_demangle);
        let work = move || {
            let recording = Recording::from_files(vec![path.clone()], names);
            let read = || -> anyhow::Result<Offline> {
                let (mut opened, _) = open::open_silently(&recording, no_demangle)?;
                let wants = Wants { traces: true, ..Wants::default() };
                Ok(offline::load(&mut *opened.source, opened.symbols, wants)?)
            };
            let label = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
            let _ = outside.send(match read() {
                Ok(loaded) => {
                    let _ = requests.send(Request::Baseline(Some(Box::new(loaded))));
                    Outside::Baseline(label)
                }
                Err(error) => Outside::Saved(Err(format!("{error:#}"))),
            });
        };
        if let Err(error) = std::thread::Builder::new().name("baseline".to_owned()).spawn(work) {
            let _ = self.outside.send(Outside::Saved(Err(error.to_string())));
        }
    }

    fn unit(&mut self, engine: &Engine, spec: &'static Spec, settings: Settings) {
        let (outside, requests) = (self.outside.clone(), engine.requests());
        let (names, no_demangle) = (self.names.clone(), self.no_demangle);
        let Some(files) = self.recording.clone() else {
            let why = match engine.info().is_of_many() {
                true => SEVERAL_HOSTS,
                false => "a recording that came by a pipe cannot be read again for a unit: give it as a file",
            };
            let _ = self.outside.send(Outside::Saved(Err(why.to_owned())));
            return;
        };
        let work = move || {
            let read = || -> anyhow::Result<Offline> {
                let unit = (spec.make)(&settings).map_err(|why| anyhow::anyhow!("{}: {why}", spec.name))?;
                let recording = Recording::from_files(files, names);
                let (mut opened, _) = open::open_silently(&recording, no_demangle)?;
                offline::load_unit(&mut *opened.source, opened.symbols, spec, unit).map_err(anyhow::Error::msg)
            };
            match read() {
                Ok(loaded) => drop(requests.send(Request::UnitOf(Box::new(loaded)))),
                Err(error) => drop(outside.send(Outside::Saved(Err(format!("{error:#}"))))),
            }
        };
        if let Err(error) = std::thread::Builder::new().name("unit".to_owned()).spawn(work) {
            let _ = self.outside.send(Outside::Saved(Err(error.to_string())));
        }
    }

    fn suspend(&mut self) {
        let set = |on| super::live::SUSPENDED.store(on, Ordering::Release);
        set(true);
        tty::stop_self();
        // The signal thread may see SIGCONT a little later than we go on.
        std::thread::sleep(Duration::from_millis(20));
        set(false);
    }
}

pub(super) fn save(moment: &Snapshot, path: &Path, range: Option<(u64, u64)>) -> Result<String, String> {
    let cmdline: Vec<String> = std::env::args().collect();
    let (mut samples, mut bytes, mut names) = (0, 0, Vec::<String>::new());
    for (host, own) in moment.hosts.iter().enumerate() {
        // A recording is of one machine.
        let mut path = if moment.hosts.len() > 1 { name_with_host(path, &own.name) } else { path.to_owned() };
        // Names that differ may be written alike.
        while names.contains(&path.display().to_string()) {
            path = name_with_host(&path, &host.to_string());
        }
        let written = perfdata::save_host(moment, host as u16, &path, &cmdline, range);
        let written = written.map_err(|e| format!("{}; the samples are still here", unwritten(&path, &e)))?;
        samples += written.samples;
        bytes += written.bytes;
        names.push(path.display().to_string());
    }
    let samples = unit::thousands(samples as u64);
    Ok(format!("saved {samples} samples, {} to {}", unit::bytes(bytes), names.join(" and ")))
}

/// `x.data` as `x-HOST.data`. A host's name came from elsewhere: nothing of it leads to another folder.
fn name_with_host(path: &Path, host: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let host: String = host.chars().take(64).map(plain).collect();
    let part = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (stem, extension) = (part(path.file_stem()), part(path.extension()));
    let dot = if extension.is_empty() { "" } else { "." };
    path.with_file_name(format!("{stem}-{host}{dot}{extension}"))
}

/// A name in a directory that nothing has: the clock may be set back, and two snapshots may be of one second.
pub(super) fn free_name(dir: &Path, prefix: &str) -> PathBuf {
    free_name_at(dir, prefix, crate::kernel::wall_ns() / 1_000_000_000)
}

fn free_name_at(dir: &Path, prefix: &str, seconds: u64) -> PathBuf {
    let stamp = stamp(seconds);
    let name = |n: usize| if n == 0 { format!("{prefix}{stamp}.data") } else { format!("{prefix}{stamp}-{n}.data") };
    let mut paths = (0..1000).map(|n| dir.join(name(n)));
    paths.find(|path| !path.exists()).unwrap_or_else(|| dir.join(name(1000)))
}

/// A second since 1970 as `20261121-054200`, in UTC so that names sort.
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
