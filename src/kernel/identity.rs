//! Users whose rights to files are taken on for a moment: what they could not open stays closed, and the
//! kernel itself decides that, with directories on the way, access lists and its security modules.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::process::{Gid, getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups};

use super::procfs;

/// The user and the group that have nothing of their own (`/proc/sys/kernel/overflowuid`).
const NOBODY: u32 = 65_534;
/// The capabilities that pass over the permissions of files.
const OVERRIDE: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// A user with the groups that count for files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user that the kernel compares with the owner of a file.
    pub uid: u32,
    gid: u32,
    groups: Arc<[u32]>,
}

impl Identity {
    /// The identity that may read only what everybody may.
    pub fn nobody() -> Self {
        Self::alone(NOBODY)
    }

    /// A user of whom nothing but the number is known.
    fn alone(uid: u32) -> Self {
        Self { uid, gid: NOBODY, groups: Arc::default() }
    }

    /// The user of a process, as its status says: who owns its files in /proc does not tell, as those become root's
    /// when the process asks for it (`PR_SET_DUMPABLE`).
    ///
    /// # Errors
    /// When it has gone.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let status = procfs::status(pid)?;
        let numbers = |key: &str| -> Option<Vec<u32>> {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let (uids, gids) = numbers("Uid").zip(numbers("Gid")).ok_or_else(gone)?;
        // Real, effective, saved and of files: who called a setuid program has a say in what it does, as has
        // whom a daemon of root works for.
        let which = uids.iter().position(|uid| *uid != 0).unwrap_or(0);
        let (uid, gid) = uids.get(which).copied().zip(gids.get(which).copied()).ok_or_else(gone)?;
        Ok(Self { uid, gid, groups: numbers("Groups").unwrap_or_default().into() })
    }

    /// The identity that may have written what is in a file: its owner, or others, of whom nothing is known.
    pub fn of_file(meta: &Metadata) -> Self {
        let by_all = meta.mode() & 0o002 != 0;
        let by_group = meta.mode() & 0o020 != 0 && meta.gid() != 0 && meta.uid() == 0;
        Self::alone(if by_all || by_group { NOBODY } else { meta.uid() })
    }

    /// True if nothing is kept from this user.
    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Opens something with no more rights than this user has, nor than our own. The work is done on this thread,
    /// whose credentials are its own; others notice nothing.
    ///
    /// # Errors
    /// Those of the work, and when the rights cannot be taken on.
    pub(crate) fn opens<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.is_root() {
            return work();
        }
        let own = Own::remember()?;
        if own.uid == 0 {
            self.take_on()?;
        }
        // An ordinary user's rights are already less than root's; a capability may make them more. And a process
        // may be set so that it keeps them when its user changes (SECBIT_NO_SETUID_FIXUP).
        let mut sets = capabilities(None)?;
        if sets.effective.intersects(OVERRIDE) {
            sets.effective.remove(OVERRIDE);
            set_capabilities(None, sets)?;
        }
        work()
    }

    fn take_on(&self) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|gid| Gid::from_raw_unchecked(*gid)).collect();
        set_thread_groups(&groups)?;
        set_file_ids(self.uid, self.gid)
    }
}

/// The rights that a thread had before it took another user's on; it has them again when this goes.
struct Own {
    uid: u32,
    gid: u32,
    groups: Vec<Gid>,
    sets: CapabilitySets,
}

impl Own {
    fn remember() -> io::Result<Self> {
        let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
        Ok(Self { uid, gid, groups: getgroups()?, sets: capabilities(None)? })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // Where one of these fails, the thread is left with less than it had.
        if self.uid == 0 {
            let _ = set_file_ids(self.uid, self.gid);
            let _ = set_thread_groups(&self.groups);
        }
        let _ = set_capabilities(None, self.sets);
    }
}

/// Sets the user and the group that count for files, of this thread alone (setfsuid(2), credentials(7)).
fn set_file_ids(uid: u32, gid: u32) -> io::Result<()> {
    // Neither call fails in a way that it tells; the second of each says what the first has done.
    let now = [
        // SAFETY: both take numbers and touch nothing of ours.
        unsafe { (libc::setfsgid(gid), libc::setfsgid(u32::MAX)).1 },
        // SAFETY: as above.
        unsafe { (libc::setfsuid(uid), libc::setfsuid(u32::MAX)).1 },
    ];
    if now == [gid as libc::c_int, uid as libc::c_int] { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_process_is_its_user_whatever_its_directory_says() {
        let own = Identity::of_process(std::process::id() as i32).expect("status");
        assert_eq!(own.uid, rustix::process::getuid().as_raw());
        assert!(Identity::of_process(-1).is_err());
    }

    #[test]
    fn who_may_have_written_a_file() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let who = |mode| {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).expect("mode");
            Identity::of_file(&file.as_file().metadata().expect("meta"))
        };
        let own = rustix::process::geteuid().as_raw();
        assert_eq!((who(0o644).uid, who(0o600).uid, who(0o646)), (own, own, Identity::nobody()));
        if own == 0 {
            assert_eq!(who(0o664).uid, 0, "root's own group");
            std::os::unix::fs::chown(file.path(), None, Some(50)).expect("group");
            assert_eq!((who(0o664), who(0o644).uid), (Identity::nobody(), 0));
        }
    }

    /// The rights are those of the user while the work is done, and ours before and after.
    #[test]
    fn rights_are_taken_on_and_given_back() {
        let file = tempfile::NamedTempFile::new().expect("file");
        let path = file.path();
        let open = || File::open(path).map(|_| ());
        let mode = |mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("mode");
        let before = (getgroups().expect("groups"), capabilities(None).expect("sets"));
        let user = Identity { uid: 4242, gid: 4243, groups: [4244, 4245].into() };
        mode(0o600);
        if geteuid().is_root() {
            assert_eq!(user.opens(open).expect_err("closed").kind(), io::ErrorKind::PermissionDenied);
            mode(0o640);
            assert!(user.opens(open).is_err());
            for gid in [4243, 4245] {
                std::os::unix::fs::chown(path, None, Some(gid)).expect("group");
                user.opens(open).expect("its group's");
                Identity::nobody().opens(open).expect_err("not nobody's");
            }
            mode(0o600);
            std::os::unix::fs::chown(path, Some(4242), None).expect("owner");
            user.opens(open).expect("its own");
        } else {
            // There is nobody to become; what is ours we read.
            user.opens(open).expect("ours");
        }
        open().expect("ours again");
        assert_eq!((getgroups().expect("groups"), capabilities(None).expect("sets")), before);
    }
}
