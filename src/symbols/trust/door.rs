//! Opens files that a profiled process or a recording names.
//!
//! A user who names a file must not be able to read, through this program or on root's screen, what that user may not
//! read directly. So a path is resolved below a root that it cannot leave, and with the kernel's permission checks for
//! every user who influenced it ([`Identity`]). The result must be a regular file, on a file system that stores files,
//! and below the size limit of its purpose. These checks use the open file, not its name. Opening never blocks on the
//! writer of a FIFO or on a lease.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, open, openat2};
use rustix::io::Errno;

use crate::kernel::machine::identity::Identity;
use crate::kernel::procfs;

/// The users who influenced which file is opened. All of them must be allowed to read it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedUids(Vec<Identity>);

impl TrustedUids {
    /// Adds a user. Root may read everything, so root is not added.
    pub fn add(&mut self, who: Identity) {
        if !who.is_root() && !self.0.iter().any(|known| known.uid == who.uid) {
            self.0.push(who);
        }
    }

    pub(crate) fn extend(&mut self, others: &Self) {
        others.0.iter().for_each(|who| self.add(who.clone()));
    }

    /// Adds the users who may have written a file that names other files.
    pub(crate) fn add_writers(&mut self, file: &File) {
        self.add(file.metadata().map_or_else(|_| Identity::nobody(), |meta| Identity::of_file(&meta)));
    }

    /// Returns whether a user is on the list. Such a user may own the files that are named.
    fn is_one(&self, uid: u32) -> bool {
        self.0.iter().any(|who| who.uid == uid)
    }
}

impl From<Identity> for TrustedUids {
    fn from(who: Identity) -> Self {
        let mut namers = Self::default();
        namers.add(who);
        namers
    }
}

/// The purpose of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Programs, libraries and their debug files.
    Code,
    /// Source text, which is read whole and shown.
    Source,
    /// Files read in pieces within the memory budget: of JITs, and of recordings.
    Stream,
}

impl FileKind {
    /// Returns the size limit in bytes.
    pub(crate) fn limit(self) -> u64 {
        match self {
            Self::Code => 64 << 30,
            Self::Source => 8 << 20,
            Self::Stream => u64::MAX,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} {kind}")]
pub(crate) struct Refusal {
    pub(crate) path: String,
    pub(crate) kind: RefusalKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefusalKind {
    #[error("is not a regular file")]
    NotPlain,
    #[error("is a symbolic link, which is not followed")]
    Link,
    #[error("is not a stored file: the kernel generates its content")]
    Pseudo,
    #[error("is too large: {size} bytes; the limit is {limit}")]
    TooLarge { size: u64, limit: u64 },
    #[error("is not readable by user {0}, who names it")]
    Unreadable(u32),
    #[error("belongs to user {0}, so it is not trusted")]
    Foreign(u32),
    #[error("is older than its process: an earlier process with the same PID wrote it")]
    Older,
    #[error("was replaced while it was opened")]
    Replaced,
}

impl RefusalKind {
    /// Returns the error of opening a path.
    pub(crate) fn of(self, path: &Path) -> io::Error {
        io::Error::other(Refusal { path: path.display().to_string(), kind: self })
    }
}

/// Returns whether a file was refused because it is older than its process.
pub(crate) fn is_older(error: &io::Error) -> bool {
    let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>());
    refusal.is_some_and(|refusal| refusal.kind == RefusalKind::Older)
}

/// A directory tree, and the users who choose which of its files to open.
#[derive(Debug)]
pub struct TrustedFileOpener {
    root: File,
    is_here: bool,
    pub(crate) namers: TrustedUids,
}

impl TrustedFileOpener {
    /// Opens files below a directory, which is also the root for symbolic links.
    pub fn new(root: File, namers: TrustedUids) -> Self {
        Self { root, is_here: false, namers }
    }

    /// Opens files of this machine; fails if the root directory cannot be opened.
    pub(crate) fn here(namers: TrustedUids) -> io::Result<Self> {
        Ok(Self { root: procfs::directory("/")?, is_here: true, namers })
    }

    /// Opens a file for reading. Fails if the file does not exist, or with a [`Refusal`].
    pub fn open(&self, path: &Path, purpose: FileKind) -> io::Result<File> {
        self.pass(path, purpose, OFlags::empty())
    }

    /// Opens a file in a directory that everyone can write to. Symbolic links are not followed, and the file must
    /// belong to the users who name it, to root, or to us. Errors are those of [`TrustedFileOpener::open`].
    pub fn believed(&self, path: &Path) -> io::Result<File> {
        let file = self.pass(path, FileKind::Stream, OFlags::NOFOLLOW)?;
        let uid = file.metadata()?.uid();
        let ours = [0, rustix::process::geteuid().as_raw()];
        if ours.contains(&uid) || self.namers.is_one(uid) {
            return Ok(file);
        }
        Err(RefusalKind::Foreign(uid).of(path))
    }

    fn pass(&self, path: &Path, purpose: FileKind, how: OFlags) -> io::Result<File> {
        let one = |who: &Identity| {
            who.opens(|| self.follow(path, purpose, how)).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => RefusalKind::Unreadable(who.uid).of(path),
                _ => error,
            })
        };
        let mut found: Option<File> = None;
        for who in &self.namers.0 {
            let file = one(who)?;
            match &found {
                Some(known) if !is_one(&known.metadata()?, &file.metadata()?) => {
                    return Err(RefusalKind::Replaced.of(path));
                }
                Some(_) => {}
                None => found = Some(file),
            }
        }
        found.map_or_else(|| self.follow(path, purpose, how), Ok)
    }

    /// Resolves a path with the current rights of this thread.
    fn follow(&self, path: &Path, purpose: FileKind, how: OFlags) -> io::Result<File> {
        let flags = how | OFlags::PATH | OFlags::CLOEXEC;
        let rules = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let place = match openat2(&self.root, path, flags, Mode::empty(), rules) {
            // Linux before 5.6. A path cannot leave the machine's own root.
            Err(Errno::NOSYS) if self.is_here => open(path, flags, Mode::empty()),
            place => place,
        };
        // Without symbolic links, users cannot lead to a device.
        let rules = rules | ResolveFlags::NO_SYMLINKS;
        let again = |flags: OFlags| Ok(openat2(&self.root, path, how | flags, Mode::empty(), rules)?.into());
        enter(&File::from(place?), path, purpose, again)
    }
}

/// Opens a file by a process's mapping: the kernel has let the process read or execute it. Fails with a [`Refusal`].
pub(crate) fn mapped(pid: i32, start: u64, end: u64) -> io::Result<File> {
    let place = procfs::map_file(pid, start, end)?;
    enter(&place, Path::new("what is mapped"), FileKind::Code, |_| Err(io::ErrorKind::NotFound.into()))
}

/// Opens a regular file that we or our caller name. The kernel may generate it, as with `/proc/kallsyms`.
pub(crate) fn own(path: &Path) -> io::Result<File> {
    let place = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    plain(&place, path)?;
    reopen(&place, path, |flags| Ok(open(path, flags, Mode::empty())?.into()))
}

/// Opens a recording that our caller names. It may be a FIFO, or a pipe under `/dev/fd`.
pub(crate) fn recording(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens a resolved file for reading. It is checked first, because opening a device can have side effects.
fn enter(
    place: &File,
    path: &Path,
    purpose: FileKind,
    again: impl FnOnce(OFlags) -> io::Result<File>,
) -> io::Result<File> {
    let size = plain(place, path)?.len();
    if PSEUDO.contains(&(fstatfs(place)?.f_type as u32)) {
        return Err(RefusalKind::Pseudo.of(path));
    }
    let limit = purpose.limit();
    if size > limit {
        return Err(RefusalKind::TooLarge { size, limit }.of(path));
    }
    reopen(place, path, again)
}

fn plain(place: &File, path: &Path) -> io::Result<Metadata> {
    let meta = place.metadata()?;
    if meta.is_symlink() {
        return Err(RefusalKind::Link.of(path));
    }
    if !meta.is_file() {
        return Err(RefusalKind::NotPlain.of(path));
    }
    Ok(meta)
}

/// Opens the checked file without blocking: a lease would delay it by up to 45 seconds (fcntl(2), "Leases"). `again` opens
/// its path once more, for machines where /proc is not mounted.
fn reopen(place: &File, path: &Path, again: impl FnOnce(OFlags) -> io::Result<File>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let by_number = open(format!("/proc/self/fd/{}", place.as_raw_fd()), flags, Mode::empty());
    if by_number.as_ref().err() != Some(&Errno::NOENT) || Path::new("/proc/self").exists() {
        return Ok(by_number?.into());
    }
    let file = again(flags)?;
    if is_one(&file.metadata()?, &place.metadata()?) { Ok(file) } else { Err(RefusalKind::Replaced.of(path)) }
}

fn is_one(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// File systems whose files the kernel generates on reading (linux/magic.h).
/// Reading them may never end, may consume data (`/proc/kmsg`), or may return another user's secrets to root. This is a
/// deny list, because new file systems that store files appear every year; unlisted pseudo file systems report a size
/// of 0, so nothing of them is read. FUSE is not listed: the kernel denies root access to users' mounts unless an
/// administrator allows it (`user_allow_other`), and virtiofs is the root file system of whole machines.
const PSEUDO: [u32; 24] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x7472_6163, // tracefs
    0x6462_6720, // debugfs
    0x7363_6673, // securityfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0xcafe_4a11, // bpf
    0x6265_6570, // configfs
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x4249_4e4d, // binfmt_misc
    0xf97c_ff8c, // selinux
    0x4341_5d53, // smack
    0x5a3c_69f0, // apparmor
    0x6573_5543, // fusectl
    0x0765_5821, // resctrl
    0x1980_0202, // mqueue
    0x6e73_6673, // nsfs
    0x0000_0187, // autofs
    0x6759_6969, // rpc_pipefs
    0x6e66_7364, // nfsd
    0x0000_1cd1, // devpts
    0x0000_9fa2, // usbfs
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::time::{Duration, Instant};

    fn below(dir: &Path, namers: TrustedUids) -> TrustedFileOpener {
        TrustedFileOpener::new(procfs::directory(dir).expect("root"), namers)
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("mode");
    }

    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn only_plain_files_and_only_inside_the_root() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("inner"), b"inner").expect("write");
        symlink("/inner", at("link")).expect("link");
        symlink("/etc/passwd", at("out")).expect("link");
        symlink("/proc/self/exe", at("magic")).expect("link");
        fs::create_dir(at("dir")).expect("dir");
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RUSR).expect("fifo");
        let door = below(dir.path(), TrustedUids::default());
        let open = |path: &str| door.open(Path::new(path), FileKind::Code);
        // A link resolves as it would for the process: from the process's root.
        assert_eq!(open("/link").expect("inside").metadata().expect("meta").len(), 5);
        for out in ["/out", "/../../../../../../etc/passwd", "/magic", "/dir", "/fifo", "/none"] {
            assert!(open(out).is_err(), "{out}");
        }
        let here = TrustedFileOpener::here(TrustedUids::default()).expect("door");
        for path in ["/dev/null", "/proc/self/exe", "/etc"] {
            assert!(here.open(Path::new(path), FileKind::Code).is_err(), "{path}");
        }
        assert!(own(&at("fifo")).is_err() && own(dir.path()).is_err() && own(Path::new("/dev/null")).is_err());
    }

    /// Generated files can hold secrets, be consumed by reading, or never end.
    #[test]
    fn files_that_are_not_stored_stay_closed() {
        let began = Instant::now();
        let here = TrustedFileOpener::here(TrustedUids::default()).expect("door");
        let paths =
            ["/proc/kmsg", "/proc/self/environ", "/proc/version", "/sys/kernel/notes", "/sys/kernel/vmcoreinfo"];
        let there: Vec<&str> = paths.into_iter().filter(|path| Path::new(path).exists()).collect();
        assert!(there.len() > 2, "{there:?}");
        for path in there {
            for opened in [here.open(Path::new(path), FileKind::Source), here.believed(Path::new(path))] {
                let said = opened.expect_err("closed").to_string();
                assert!(said.contains("not a stored file") || said.contains("ermission"), "{path}: {said}");
            }
        }
        assert!(began.elapsed() < Duration::from_secs(10));
        // The caller may name such a file.
        own(Path::new("/proc/kallsyms")).expect("readable by all");
    }

    #[test]
    fn a_file_is_no_larger_than_its_purpose_allows() {
        let dir = tempfile::tempdir().expect("dir");
        let file = File::create(dir.path().join("x.c")).expect("file");
        let door = below(dir.path(), TrustedUids::default());
        for purpose in [FileKind::Code, FileKind::Source] {
            let open = || door.open(Path::new("/x.c"), purpose);
            file.set_len(purpose.limit()).expect("sparse");
            open().expect("not too large");
            file.set_len(purpose.limit() + 1).expect("sparse");
            assert!(open().expect_err("too large").to_string().contains("is too large"));
        }
    }

    #[test]
    fn what_a_user_may_not_read_stays_closed() {
        let dir = tempfile::tempdir().expect("dir");
        let (path, inner) = (dir.path().join("x.c"), dir.path().join("inner"));
        fs::write(&path, b"secret").expect("write");
        if !is_root() {
            // Without privileges, this process cannot change to another user.
            assert!(below(dir.path(), Identity::nobody().into()).open(Path::new("/x.c"), FileKind::Source).is_ok());
            mode(&path, 0);
            assert!(below(dir.path(), Identity::nobody().into()).open(Path::new("/x.c"), FileKind::Source).is_err());
            return;
        }
        let user = |uid| {
            let file = tempfile::NamedTempFile::new().expect("file");
            chown(file.path(), Some(uid), None).expect("owner");
            let mut namers = TrustedUids::default();
            namers.add_writers(file.as_file());
            namers
        };
        let open = |namers: TrustedUids, path: &str| below(dir.path(), namers).open(Path::new(path), FileKind::Source);
        let root: TrustedUids = user(0);
        mode(dir.path(), 0o755);
        mode(&path, 0o600);
        open(root.clone(), "/x.c").expect("root's");
        let said = open(user(4242), "/x.c").expect_err("closed").to_string();
        assert!(said.contains("is not readable by user 4242"), "{said}");
        mode(&path, 0o644);
        open(user(4242), "/x.c").expect("everybody's");
        // Readable by all, in a directory that is not.
        fs::create_dir(&inner).expect("dir");
        fs::rename(&path, inner.join("x.c")).expect("moved");
        open(user(4242), "/inner/x.c").expect("everybody's");
        mode(&inner, 0o700);
        assert!(open(user(4242), "/inner/x.c").is_err());
        symlink("/inner/x.c", dir.path().join("link")).expect("link");
        assert!(open(user(4242), "/link").is_err());
        open(root, "/link").expect("root's");
        // Every user on the list must have access.
        chown(&inner, Some(4242), None).expect("owner");
        open(user(4242), "/inner/x.c").expect("its own");
        for others in [[4242, 4243], [4243, 4242]] {
            let mut both = TrustedUids::default();
            others.into_iter().for_each(|uid| both.extend(&user(uid)));
            assert!(open(both, "/inner/x.c").is_err());
        }
    }

    #[test]
    fn what_others_planted_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |name: &str| dir.path().join(name);
        fs::write(at("map"), b"1000 10 a\n").expect("write");
        symlink("/map", at("link")).expect("link");
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RUSR).expect("fifo");
        let open = |path: &str, namers| below(dir.path(), namers).believed(Path::new(path));
        open("/map", TrustedUids::default()).expect("ours");
        let no = |path, namers| open(path, namers).expect_err("refused").to_string();
        assert!(no("/link", TrustedUids::default()).contains("a symbolic link"));
        assert!(no("/fifo", TrustedUids::default()).contains("not a regular file"));
        if is_root() {
            mode(dir.path(), 0o755);
            mode(&at("map"), 0o644);
            chown(at("map"), Some(65_534), None).expect("owner");
            open("/map", Identity::nobody().into()).expect("owned by its user");
            assert!(no("/map", TrustedUids::default()).contains("belongs to user 65534, so it is not trusted"));
            chown(at("map"), Some(4242), None).expect("owner");
            assert!(no("/map", Identity::nobody().into()).contains("not trusted"));
        }
    }
}
