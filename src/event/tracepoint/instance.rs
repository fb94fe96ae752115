//! Private instances of tracefs, and those that killed sessions left. Each has a ring buffer of 1.4 MiB for each CPU.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::event::own_names;
use crate::kernel::file_error::at;

/// The attempts to remove an instance, and the time between two of them.
const REMOVALS: u32 = 40;
const PAUSE: Duration = Duration::from_millis(5);

/// This process's instance; removed when dropped.
pub(super) struct Instance {
    dir: PathBuf,
    /// An open file of the instance. Meanwhile the kernel does not let other processes remove it.
    in_use: Option<fs::File>,
}

impl Instance {
    pub(super) fn create(root: &Path) -> io::Result<Self> {
        let dir = root.join("instances").join(own_names::name());
        match fs::create_dir(&dir) {
            // It could not be removed the last time.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            created => created.map_err(at(&dir))?,
        }
        let in_use = fs::File::open(dir.join("tracing_on")).ok();
        Ok(Self { dir, in_use })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.in_use = None;
        // `probe --clean` removes one that stays.
        let _ = until_unused(|| fs::remove_dir(&self.dir));
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

/// Returns the instances of sessions that ended without removing them, sorted by name.
pub(crate) fn left_over(root: &Path) -> Vec<PathBuf> {
    // A kernel without instances lacks the folder.
    let Ok(entries) = fs::read_dir(root.join("instances")) else { return Vec::new() };
    let is_left_over = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(own_names::is_left_over)
    };
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_left_over).collect();
    found.sort_unstable();
    found
}

/// Removes and returns the instances that killed sessions left. Instances in use remain, and the first one is reported as
/// the error.
pub(crate) fn remove_left_over(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut failed = None;
    let mut gone = Vec::new();
    for dir in left_over(root) {
        match until_unused(|| fs::remove_dir(&dir)) {
            Ok(()) => gone.push(dir),
            // Another process has just removed it.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => failed = failed.or(Some(format!("{}: {error}", dir.display()))),
        }
    }
    failed.map_or(Ok(gone), Err)
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

    #[test]
    fn only_instances_without_a_session_are_removed() {
        let root = tempfile::tempdir().expect("dir");
        assert_eq!(remove_left_over(root.path()), Ok(Vec::new()), "no folder of instances");
        let mut child = std::process::Command::new("true").spawn().expect("starts");
        let ended = format!("perfprof_{}", child.id());
        child.wait().expect("ends");
        let others = [own_names::name(), "perfprof_callers_1".to_owned(), "rasdaemon".to_owned()];
        let dir = |name: &str| root.path().join("instances").join(name);
        for name in others.iter().chain([&ended]) {
            fs::create_dir_all(dir(name)).expect("created");
        }
        assert_eq!(remove_left_over(root.path()), Ok(vec![dir(&ended)]));
        assert!(others.iter().all(|name| dir(name).exists()) && !dir(&ended).exists());
    }
}
