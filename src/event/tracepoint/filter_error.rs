//! The kernel's message about a rejected filter. perf's ioctl returns only an errno, but a private tracefs instance
//! reports position and reason (Documentation/trace/events.rst, "Event filtering").

use std::fs;
use std::io::Write;
use std::path::Path;

use super::instance::Instance;
use crate::kernel::procfs;

/// Returns the kernel's error about a filter of `system:event`. It consists of the expression, a caret, and the reason.
/// `None` if the kernel accepts the filter, or this user may not create an instance.
pub fn kernel_message(root: &Path, system: &str, event: &str, filter: &str) -> Option<String> {
    let instance = Instance::create(root).ok()?;
    let path = instance.dir().join("events").join(system).join(event).join("filter");
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
