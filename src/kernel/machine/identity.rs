//! Users whose file permissions are assumed for a moment, so that files that they could not open stay closed. The
//! kernel itself checks: directories on the path, access lists and its security modules.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::process::{Gid, getegid, geteuid, getgroups};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups};

use crate::kernel::procfs;

/// The user and the group without files of their own (`/proc/sys/kernel/overflowuid`).
const NOBODY: u32 = 65_534;
const OVERRIDE: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// A user with the groups that count for file permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user id that the kernel compares with the owner of a file.
    pub uid: u32,
    gid: u32,
    groups: Arc<[u32]>,
}

impl Identity {
    /// Returns the identity that may read only world-readable files.
    pub fn nobody() -> Self {
        Self::alone(NOBODY)
    }

    /// Returns a user without the rights of its groups, which are unknown.
    pub(crate) fn of_user(uid: u32) -> Self {
        Self::alone(uid)
    }

    fn alone(uid: u32) -> Self {
        Self { uid, gid: NOBODY, groups: Arc::default() }
    }

    /// Returns the user of a process from its status. The owner of its files in /proc is not reliable: it becomes root
    /// when the process asks for it (`PR_SET_DUMPABLE`). Fails when the process has gone.
    pub fn of_process(pid: i32) -> io::Result<Self> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let status = procfs::status(pid)?;
        let numbers = |key: &str| -> Option<Vec<u32>> {
            let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.split_whitespace().map(|word| word.parse().ok()).collect()
        };
        let (uids, gids) = numbers("Uid").zip(numbers("Gid")).ok_or_else(gone)?;
        // Real, effective, saved and file-system ids. The user who called a setuid program influences what it does, as
        // does the user for whom a daemon of root works.
        let which = uids.iter().position(|uid| *uid != 0).unwrap_or(0);
        let (uid, gid) = uids.get(which).copied().zip(gids.get(which).copied()).ok_or_else(gone)?;
        Ok(Self { uid, gid, groups: numbers("Groups").unwrap_or_default().into() })
    }

    /// Returns the identity that may have written a file: its owner, or the overflow user if others can write it.
    pub fn of_file(meta: &Metadata) -> Self {
        let by_all = meta.mode() & 0o002 != 0;
        let by_group = meta.mode() & 0o020 != 0 && meta.gid() != 0 && meta.uid() == 0;
        Self::alone(if by_all || by_group { NOBODY } else { meta.uid() })
    }

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Runs `work` with no more file permissions than this user's, nor than our own. Credentials are per thread, so
    /// other threads are not affected. Fails if the permissions cannot be assumed, or with the error of the work.
    pub(crate) fn opens<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.is_root() {
            return work();
        }
        let own = Own::remember()?;
        if own.uid == 0 {
            self.take_on()?;
        }
        // An ordinary user has fewer rights than root, but a capability may extend them, and a process may be
        // configured to keep capabilities when its user changes (SECBIT_NO_SETUID_FIXUP).
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

/// The previous credentials of a thread, restored on drop.
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
        // If one of these fails, the thread keeps fewer rights than it had.
        if self.uid == 0 {
            let _ = set_file_ids(self.uid, self.gid);
            let _ = set_thread_groups(&self.groups);
        }
        let _ = set_capabilities(None, self.sets);
    }
}

/// Sets the user and the group for file permissions, of this thread alone (setfsuid(2), credentials(7)).
fn set_file_ids(uid: u32, gid: u32) -> io::Result<()> {
    // Neither call reports failure; the second call of each pair returns what the first has set.
    let now = [
        // SAFETY: both take numbers and do not touch our memory.
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
                Identity::nobody().opens(open).expect_err("access is denied");
            }
            mode(0o600);
            std::os::unix::fs::chown(path, Some(4242), None).expect("owner");
            user.opens(open).expect("its own");
        } else {
            // An ordinary user cannot become another one, and reads its own files.
            user.opens(open).expect("ours");
        }
        open().expect("ours again");
        assert_eq!((getgroups().expect("groups"), capabilities(None).expect("sets")), before);
    }
}
