//! The kernel's message about a rejected filter. perf's ioctl returns only an errno, but a private tracefs instance
//! reports position and reason (Documentation/trace/events.rst, "Event filtering").

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::kernel::procfs;

/// The attempts to remove an instance, and the time between two of them.
const REMOVALS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(5);

struct Instance(PathBuf);

impl Drop for Instance {
    fn drop(&mut self) {
        // An instance that stays is empty and harmless.
        let _ = until_unused(|| fs::remove_dir(&self.0));
    }
}

/// Repeats a removal that the kernel refuses while another program, which lists tracefs, has a file of the instance open.
fn until_unused(remove: impl Fn() -> io::Result<()>) -> io::Result<()> {
    for _ in 1..REMOVALS {
        match remove() {
            Err(error) if error.kind() == ErrorKind::ResourceBusy => std::thread::sleep(PAUSE),
            ended => return ended,
        }
    }
    remove()
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_removal_is_repeated_only_while_the_instance_is_used() {
        let times = Cell::new(0);
        let removal = |refusals: u32, last: io::Result<()>| {
            times.set(0);
            let last = Cell::new(Some(last));
            let ended = until_unused(|| {
                times.set(times.get() + 1);
                if times.get() <= refusals {
                    return Err(ErrorKind::ResourceBusy.into());
                }
                last.take().expect("the last one")
            });
            (times.get(), ended.map_err(|error| error.kind()))
        };
        assert_eq!(removal(3, Ok(())), (4, Ok(())));
        assert_eq!(removal(0, Err(ErrorKind::NotFound.into())), (1, Err(ErrorKind::NotFound)));
        assert_eq!(removal(REMOVALS, Ok(())), (REMOVALS, Err(ErrorKind::ResourceBusy)));
    }
}
