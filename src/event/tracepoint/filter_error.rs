//! The kernel's message about a rejected filter. perf's ioctl returns only an errno, but a private tracefs instance
//! reports position and reason (Documentation/trace/events.rst, "Event filtering").

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::kernel::procfs;
use crate::kernel::sys::Errno;

/// The attempts to remove an instance, and the time between two of them.
const REMOVALS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(5);

struct Instance(PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        // The kernel refuses while somebody else, who lists tracefs, has a file of it open.
        for _ in 0..REMOVALS {
            match fs::remove_dir(&self.0) {
                Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => std::thread::sleep(PAUSE),
                // It is empty and harmless.
                _ => return,
            }
        }
    }
}

/// Returns the kernel's error about a filter of `system:event`. It consists of the expression, a caret, and the reason.
/// `None` if the kernel accepts the filter, or this user may not create an instance.
pub fn kernel_message(root: &Path, system: &str, event: &str, filter: &str) -> Option<String> {
    let dir = root.join("instances").join(format!("perfprof_{}", std::process::id()));
    match fs::create_dir(&dir) {
        // It could not be removed the last time.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        created => created.ok()?,
    }
    let instance = Instance(dir);
    let path = instance.0.join("events").join(system).join(event).join("filter");
    let mut file = fs::File::options().write(true).open(&path).ok()?;
    if file.write_all(filter.as_bytes()).is_ok() {
        let _ = file.write_all(b"0");
        return None;
    }
    drop(file);
    // The error is only returned by the first read.
    let text = procfs::read_at_once(&path).ok()?;
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    text.contains("parse_error").then_some(text)
}
