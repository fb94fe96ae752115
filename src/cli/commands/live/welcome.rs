//! The hint of a user's first run. An empty file in the state directory records that it was shown.

use crate::kernel::files::OwnPlace;

const HINT: &str = "First time here?  ? explains this screen,  : finds every command,  f filters,  S saves a \
                    snapshot. perfprof-tui demo gives a tour.";

pub(crate) fn hint() -> Option<&'static str> {
    is_first(&OwnPlace::of_user("XDG_STATE_HOME", ".local/state", "perfprof-tui")?).then_some(HINT)
}

/// Returns true on the first run. If the file cannot be created, the hint appears again.
fn is_first(place: &OwnPlace) -> bool {
    if std::fs::symlink_metadata(place.path().join("welcomed")).is_ok() {
        return false;
    }
    // A failure only means that the hint appears again.
    let _ = place.create("welcomed").and_then(|mut file| file.commit());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_and_again_where_nothing_can_be_kept() {
        let dir = tempfile::tempdir().expect("dir");
        let place = OwnPlace::new(dir.path().join("state"), "perfprof-tui");
        assert_eq!([is_first(&place), is_first(&place)], [true, false]);
        assert_eq!(std::fs::metadata(place.path().join("welcomed")).expect("there").len(), 0);
        let none = OwnPlace::new("/proc/nowhere", "perfprof-tui");
        assert_eq!([is_first(&none), is_first(&none)], [true, true]);
    }
}
