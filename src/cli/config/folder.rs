//! The configuration directory, and reading its files only if other users cannot write them.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::kernel::files::OwnPlace;
use crate::kernel::privilege;

/// Maximum size of a configuration file in bytes.
const MAX_BYTES: u64 = 1 << 20;

/// Returns the configuration directory (XDG Base Directory Specification); `None` without a home directory.
pub(crate) fn folder() -> Option<PathBuf> {
    place().map(|place| place.path())
}

pub(crate) fn place() -> Option<OwnPlace> {
    OwnPlace::of_user("XDG_CONFIG_HOME", ".config", "perfprof-tui")
}

/// Reads a file; `None` if it does not exist. Under sudo the directory may belong to another user: files of unrelated
/// users, and those that all users may write, are rejected.
pub(crate) fn private_file(path: &Path) -> Result<Option<String>, String> {
    let fail = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    // Opening a FIFO must not block.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let mut file = match std::fs::OpenOptions::new().read(true).custom_flags(nonblock).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(&error)),
    };
    let meta = file.metadata().map_err(|error| fail(&error))?;
    let me = rustix::process::geteuid().as_raw();
    let invoker = privilege::variable("SUDO_UID").and_then(|uid| uid.to_str()?.parse().ok());
    if !is_trusted(meta.uid(), meta.mode(), me, invoker) {
        return Err(fail(&"ignored: it belongs to another user, or all users may write it"));
    }
    if !meta.is_file() || meta.len() > MAX_BYTES {
        return Err(fail(&"ignored: it is not a regular file, or larger than 1 MB"));
    }
    let mut bytes = Vec::new();
    file.by_ref().take(MAX_BYTES).read_to_end(&mut bytes).map_err(|error| fail(&error))?;
    String::from_utf8(bytes).map(Some).map_err(|_| fail(&"it is not UTF-8"))
}

/// Returns true for a file of root, this user or sudo's caller that not all users may write; a group may.
fn is_trusted(owner: u32, mode: u32, me: u32, invoker: Option<u32>) -> bool {
    (owner == me || owner == 0 || Some(owner) == invoker) && mode & 0o002 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_what_nobody_else_could_have_written_is_read() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("config.toml");
        assert_eq!(private_file(&path), Ok(None));
        std::fs::write(&path, "theme = 'dark'").expect("written");
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
        mode(0o644);
        assert_eq!(private_file(&path).as_ref().map(Option::as_deref), Ok(Some("theme = 'dark'")));
        mode(0o666);
        assert!(private_file(&path).is_err_and(|why| why.contains("all users may write")));
        mode(0o600);
        let file = std::fs::File::options().write(true).open(&path).expect("there");
        file.set_len(MAX_BYTES + 1).expect("sparse");
        assert!(private_file(&path).is_err_and(|why| why.contains("larger than")));
        file.set_len(0).expect("empty");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(4242), None).expect("given away");
            assert!(private_file(&path).is_err_and(|why| why.contains("another user")));
        }
        for (owner, mode, invoker, wanted) in [
            (0, 0o644, None, true),
            (7, 0o600, None, true),
            (8, 0o600, None, false),
            (8, 0o600, Some(8), true),
            (8, 0o602, Some(8), false),
            (7, 0o666, None, false),
        ] {
            assert_eq!(is_trusted(owner, mode, 7, invoker), wanted, "{owner} {mode:o} {invoker:?}");
        }
        std::fs::remove_file(&path).expect("gone");
        // Opening a FIFO without a writer would block forever.
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::from(0o600), 0)
            .expect("made");
        assert!(private_file(&path).is_err_and(|why| why.contains("regular file")));
    }
}
