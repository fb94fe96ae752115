//! The kernel's own words about a filter that it refused: perf's ioctl gives an errno only, but a private
//! tracefs instance tells the place and the reason (Documentation/trace/events.rst, "Event filtering").

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::kernel::procfs;

/// An instance that goes when this does.
struct Instance(PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        // What cannot be removed now is empty and harms nobody.
        let _ = fs::remove_dir(&self.0);
    }
}

/// The kernel's error about a filter of `system:event`: the expression, a caret, the reason. `None` when it
/// takes the filter, or when there is no right to ask.
pub fn kernel_message(root: &Path, system: &str, event: &str, filter: &str) -> Option<String> {
    let dir = root.join("instances").join(format!("perfprof_{}", std::process::id()));
    fs::create_dir(&dir).ok()?;
    let instance = Instance(dir);
    let path = instance.0.join("events").join(system).join(event).join("filter");
    let mut file = fs::File::options().write(true).open(&path).ok()?;
    if file.write_all(filter.as_bytes()).is_ok() {
        let _ = file.write_all(b"0");
        return None;
    }
    drop(file);
    // In two reads only the first would be answered.
    let text = procfs::read_at_once(&path).ok()?;
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    text.contains("parse_error").then_some(text)
}
