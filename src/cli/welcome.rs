//! The first run of a user: a hint is shown, once. An empty file in the state folder remembers that.

use std::fs;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::kernel::privilege;

const HINT: &str = "First time here?  ? explains this screen,  : finds every command,  f filters,  S saves a proof. \
                    perfprof-tui demo gives a tour.";

/// The words for somebody who is here for the first time.
pub fn hint() -> Option<&'static str> {
    let state = privilege::directory("XDG_STATE_HOME")
        .or_else(|| privilege::directory("HOME").map(|home| home.join(".local/state")));
    is_first(&state?.join("perfprof-tui")).then_some(HINT)
}

/// Whether nothing remembers an earlier run. Where it cannot be remembered the hint comes again.
fn is_first(folder: &Path) -> bool {
    let file = folder.join("welcomed");
    if fs::symlink_metadata(&file).is_ok() {
        return false;
    }
    // Under sudo the home may be another user's, who could lead us anywhere: nothing is made there.
    let me = rustix::process::geteuid().as_raw();
    let mut there = folder.ancestors().filter_map(|path| fs::symlink_metadata(path).ok());
    if there.all(|meta| [0, me].contains(&meta.uid())) {
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits() as i32;
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).custom_flags(nofollow);
        // What fails here only costs the hint's coming again.
        let _ = fs::create_dir_all(folder).and_then(|()| options.open(&file));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_and_again_where_nothing_can_be_kept() {
        let dir = tempfile::tempdir().expect("dir");
        let folder = dir.path().join("state/perfprof-tui");
        assert_eq!([is_first(&folder), is_first(&folder)], [true, false]);
        assert_eq!(fs::metadata(folder.join("welcomed")).expect("there").len(), 0);
        let none = Path::new("/proc/nowhere/perfprof-tui");
        assert_eq!([is_first(none), is_first(none)], [true, true]);
    }
}
