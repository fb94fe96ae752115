//! Lists, adds and removes the kernel's probes through two files of tracefs.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use super::Probe;
use crate::kernel::file_error::at;

pub(crate) const USER: &str = "uprobe_events";
pub(crate) const KERNEL: &str = "kprobe_events";

/// An existing probe, ours or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExistingProbe {
    pub(crate) group: String,
    pub(crate) name: String,
    /// Location and arguments, in the kernel's syntax.
    pub(crate) what: String,
    pub(crate) file: &'static str,
}

impl ExistingProbe {
    pub(crate) fn event(&self) -> String {
        format!("{}:{}", self.group, self.name)
    }
}

/// Lists all probes. A kernel without a probe type lacks its file.
pub(crate) fn list(root: &Path) -> io::Result<Vec<ExistingProbe>> {
    let mut out = Vec::new();
    for file in [KERNEL, USER] {
        let path = root.join(file);
        let text = match fs::read_to_string(&path).map_err(at(&path)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let one = |line: &str| {
            let (head, what) = line.split_once(' ')?;
            let (group, name) = head.split_once(':')?.1.split_once('/')?;
            let (group, name, what) = (group.to_owned(), name.to_owned(), what.to_owned());
            Some(ExistingProbe { group, name, what, file })
        };
        out.extend(text.lines().filter_map(one));
    }
    Ok(out)
}

/// Creates a probe; the error states why the kernel rejected it.
pub(crate) fn add(root: &Path, probe: &Probe) -> Result<(), String> {
    let path = root.join(probe.file());
    if !path.exists() {
        let kind = if probe.file() == KERNEL {
            "probes of its own functions (CONFIG_KPROBES)"
        } else {
            "probes of programs (CONFIG_UPROBES)"
        };
        return Err(format!("this kernel has no {kind}"));
    }
    write(&path, &probe.line()).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::EEXIST) => {
                let event = probe.event();
                format!(
                    "another event has this name; remove it with `perfprof-tui probe --del {event}`, or write NAME=… \
                     before the function"
                )
            }
            Some(libc::ENOENT) => "no such function".to_owned(),
            Some(libc::EINVAL) => format!("the kernel rejected it ({})", last_error(root)),
            Some(libc::EACCES | libc::EPERM) => "permission denied: creating probes requires root".to_owned(),
            Some(libc::EILSEQ | libc::EADDRNOTAVAIL) => "this location cannot be probed".to_owned(),
            _ => error.to_string(),
        };
        format!("{}: {why}", probe.event())
    })
}

/// Retries for a probe in use: a process that another thread forks holds the events' descriptors until it calls exec.
const TRIES: u32 = 20;
const BETWEEN: Duration = Duration::from_millis(25);

/// Removes and returns matching probes. Probes in use remain, and the first one is reported as the error.
pub(crate) fn remove(root: &Path, matches: &dyn Fn(&ExistingProbe) -> bool) -> Result<Vec<ExistingProbe>, String> {
    let known = list(root).map_err(|error| format!("cannot list probes: {error}"))?;
    let mut failed = None;
    let mut gone = Vec::new();
    let mut seen = HashSet::new();
    // An event may have several locations, one per line, and is removed as a whole.
    for probe in known.into_iter().filter(matches).filter(|probe| seen.insert(probe.event())) {
        match remove_one(root, &probe) {
            Ok(()) => gone.push(probe),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(gone), Err)
}

fn remove_one(root: &Path, probe: &ExistingProbe) -> Result<(), String> {
    let line = format!("-:{}/{}", probe.group, probe.name);
    for _ in 0..TRIES {
        match write(&root.join(probe.file), &line) {
            Ok(()) => return Ok(()),
            Err(error) if error.raw_os_error() != Some(libc::EBUSY) => {
                return Err(format!("{}: {error}", probe.event()));
            }
            Err(_) => std::thread::sleep(BETWEEN),
        }
    }
    Err(format!("{} is in use", probe.event()))
}

/// Appends one line: opening the file without append mode would clear it.
fn write(path: &Path, line: &str) -> io::Result<()> {
    fs::File::options().append(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}

fn last_error(root: &Path) -> String {
    let text = fs::read_to_string(root.join("error_log")).unwrap_or_default();
    let words =
        text.lines().rev().find_map(|line| line.split_once("error: ").map(|(_, words)| words.trim().to_owned()));
    words.unwrap_or_else(|| "Invalid argument".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::ProbePoint;
    use super::*;

    #[test]
    fn what_is_there_is_listed_and_what_is_missing_is_said() {
        let dir = tempfile::tempdir().expect("dir");
        let place = ProbePoint::File { path: "/bin/x".into(), offset: 16, semaphore: None };
        let probe = Probe { group: "g".into(), name: "n".into(), place, on_return: false, args: Vec::new() };
        assert!(add(dir.path(), &probe).expect_err("no file").contains("CONFIG_UPROBES"));
        let kernel = Probe { place: ProbePoint::Kernel { function: "f".into(), offset: 0 }, ..probe.clone() };
        assert!(add(dir.path(), &kernel).expect_err("no file").contains("CONFIG_KPROBES"));
        fs::write(dir.path().join(USER), "p:old/one /bin/y:0x0000000000000010 a=%di:u64\n").expect("written");
        add(dir.path(), &probe).expect("added");
        let found = list(dir.path()).expect("listed");
        let events: Vec<String> = found.iter().map(ExistingProbe::event).collect();
        assert_eq!(
            (events, found[0].what.as_str()),
            (vec!["old:one".into(), "g:n".into()], "/bin/y:0x0000000000000010 a=%di:u64")
        );
        let gone = remove(dir.path(), &|known| known.group == "g").expect("removed");
        assert_eq!(gone.len(), 1);
        assert!(fs::read_to_string(dir.path().join(USER)).expect("read").ends_with("-:g/n\n"));
    }
}
