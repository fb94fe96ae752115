//! Tracepoints by name: the tracefs mount, the list, and their kernel IDs.

pub(crate) mod calls;
pub mod filter_error;
pub mod format;
pub(crate) mod instance;
pub(crate) mod strings;
pub mod trace_filter;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::kernel::file_error::at;
use crate::kernel::procfs;

/// A command that lets the user's group read tracefs. By default only the owner can.
pub(crate) const LEND: &str = "mount -o remount,gid=$(id -g),mode=750 /sys/kernel/tracing";

/// Returns the mounted tracefs, or why it cannot be read.
pub fn root() -> io::Result<PathBuf> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for place in places {
        match fs::read_dir(Path::new(place).join("events")) {
            Ok(_) => return Ok(place.into()),
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => error = e,
            Err(_) => {}
        }
    }
    Err(error)
}

/// Returns the kernel's ID of `system:name`, which is the config of its event.
pub(crate) fn id(root: &Path, system: &str, name: &str) -> io::Result<u64> {
    if [system, name].iter().any(|part| part.is_empty() || part.contains(['/', '.'])) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let path = root.join("events").join(system).join(name).join("id");
    let text = fs::read_to_string(&path).map_err(at(&path))?;
    text.trim().parse().map_err(io::Error::other)
}

/// Returns the format description of a tracepoint, as in perf.data files.
pub fn format(root: &Path, system: &str, name: &str) -> io::Result<String> {
    let text = procfs::read_at_once(&root.join("events").join(system).join(name).join("format"))?;
    String::from_utf8(text).map_err(io::Error::other)
}

/// Returns the list of kernel strings that records refer to by address. Empty if there is none.
pub(crate) fn printk_formats(root: &Path) -> Vec<u8> {
    let text = procfs::read_at_once(&root.join("printk_formats")).unwrap_or_default();
    if u32::try_from(text.len()).is_ok() { text } else { Vec::new() }
}

/// Returns all tracepoints as (system, name), sorted. Entries of the `ftrace` system are formats of ftrace's own
/// records; of these only `function` can be opened (kernel/trace/trace_export.c: no `reg`).
pub fn all(root: &Path) -> Vec<(String, String)> {
    let dirs = |path: PathBuf| -> Vec<String> {
        let Ok(entries) = fs::read_dir(path) else { return Vec::new() };
        entries
            .flatten()
            .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
            .filter_map(|e| e.file_name().into_string().ok())
            .collect()
    };
    let events = root.join("events");
    let mut found: Vec<(String, String)> = dirs(events.clone())
        .into_iter()
        .flat_map(|system| dirs(events.join(&system)).into_iter().map(move |name| (system.clone(), name)))
        .collect();
    found.retain(|(system, name)| system != "ftrace" || name == "function");
    found.sort();
    found
}

/// Creates the TRACING_DATA of perf.data (feature 1), version 0.6. The format is similar to trace.dat(5); record
/// layouts are those of a live session.
pub(crate) fn tracing_data(root: &Path, events: &[(String, String)]) -> io::Result<Vec<u8>> {
    let sized = |out: &mut Vec<u8>, text: &[u8]| {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text);
    };
    let mut out = b"\x17\x08\x44tracing0.6\0\x00\x08".to_vec();
    out.extend((rustix::param::page_size() as u32).to_le_bytes());
    for name in ["header_page", "header_event"] {
        out.extend(name.bytes().chain([0]));
        sized(&mut out, &procfs::read_at_once(&root.join("events").join(name))?);
    }
    out.extend(0u32.to_le_bytes());
    let systems: BTreeSet<&str> = events.iter().map(|(s, _)| s.as_str()).collect();
    out.extend((systems.len() as u32).to_le_bytes());
    for system in systems {
        out.extend(system.bytes().chain([0]));
        let names: Vec<&str> = events.iter().filter(|(s, _)| s == system).map(|(_, n)| n.as_str()).collect();
        out.extend((names.len() as u32).to_le_bytes());
        for name in names {
            sized(&mut out, strings::described(system, &format(root, system, name)?).as_bytes());
        }
    }
    // No kallsyms: readers do not use them from here.
    out.extend(0u32.to_le_bytes());
    let strings = printk_formats(root);
    out.extend((strings.len() as u32).to_le_bytes());
    out.extend(strings);
    // No saved command lines either.
    out.extend(0u64.to_le_bytes());
    Ok(out)
}
