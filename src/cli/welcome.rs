//! The first run of a user: a hint is shown, once. An empty file in the state folder remembers that.

use crate::kernel::files::OwnPlace;

const HINT: &str = "First time here?  ? explains this screen,  : finds every command,  f filters,  S saves a proof. \
                    perfprof-tui demo gives a tour.";

/// The words for somebody who is here for the first time.
pub(crate) fn hint() -> Option<&'static str> {
    is_first(&OwnPlace::of_user("XDG_STATE_HOME", ".local/state", "perfprof-tui")?).then_some(HINT)
}

/// True if nothing remembers an earlier run. Where it cannot be remembered the hint comes again.
fn is_first(place: &OwnPlace) -> bool {
    if std::fs::symlink_metadata(place.path().join("welcomed")).is_ok() {
        return false;
    }
    // What fails here only costs the hint's coming again.
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
