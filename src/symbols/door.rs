//! The one door through which files are opened that a profiled process or a recording names.
//!
//! Whoever names a file must not learn through us, nor have shown on root's screen, what they could not read. So
//! a path is followed below a root that it cannot leave, and with the rights of those who had a say in it, as the
//! kernel has them ([`Identity`]). What is found must be a plain file of a file system that stores files, and not
//! too large for what it is wanted for; all of that is asked of what is open, not of its name. Nothing here waits:
//! not for the writer of a FIFO, not for a lease to be given back.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, fstatfs, open, openat2};
use rustix::io::Errno;

use crate::kernel::identity::Identity;
use crate::kernel::procfs;

/// The users who had a say in which file is opened: what one of them may not read stays closed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namers(Vec<Identity>);

impl Namers {
    /// Takes another one in. Root may read everything, so its say changes nothing.
    pub fn add(&mut self, who: Identity) {
        if !who.is_root() && !self.0.iter().any(|known| known.uid == who.uid) {
            self.0.push(who);
        }
    }

    /// Takes all of those in.
    pub(crate) fn extend(&mut self, others: &Self) {
        others.0.iter().for_each(|who| self.add(who.clone()));
    }

    /// Takes those in who may have written a file that names others.
    pub(crate) fn add_writers(&mut self, file: &File) {
        self.add(file.metadata().map_or_else(|_| Identity::nobody(), |meta| Identity::of_file(&meta)));
    }

    /// Users whose files are believed where they lie about what is theirs.
    fn is_one(&self, uid: u32) -> bool {
        self.0.iter().any(|who| who.uid == uid)
    }
}

impl From<Identity> for Namers {
    fn from(who: Identity) -> Self {
        let mut namers = Self::default();
        namers.add(who);
        namers
    }
}

/// The purpose of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Programs, libraries and their debug files.
    Code,
    /// Source text, which is read whole and shown.
    Source,
    /// What is read by pieces, as far as there is room: what a JIT tells, parts of a recording.
    Stream,
}

impl Purpose {
    /// Larger files are not opened, in bytes.
    pub(crate) fn limit(self) -> u64 {
        match self {
            Self::Code => 64 << 30,
            Self::Source => 8 << 20,
            Self::Stream => u64::MAX,
        }
    }
}

/// The reason why a file that is there is not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0} is no plain file")]
    NotPlain(String),
    #[error("{0} is a link, which is not followed")]
    Link(String),
    #[error("{0} is none that is stored: it is made while it is read")]
    Pseudo(String),
    #[error("{path} has {size} bytes; more than {limit} are not read")]
    TooLarge { path: String, size: u64, limit: u64 },
    #[error("{path} may not be read by user {uid}, who names it")]
    Unreadable { path: String, uid: u32 },
    #[error("{path} belongs to user {uid}, so it is not believed")]
    Foreign { path: String, uid: u32 },
    #[error("{0} is older than its process, so it is of an earlier one of that number")]
    Older(String),
    #[error("{0} was replaced while it was opened")]
    Replaced(String),
}

/// True if a file was refused as it is older than its process.
pub(crate) fn is_older(error: &io::Error) -> bool {
    let refusal = error.get_ref().and_then(|inner| inner.downcast_ref::<Refusal>());
    matches!(refusal, Some(Refusal::Older(_)))
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::other(refusal)
    }
}

/// A tree of files, and who says which of them to open.
#[derive(Debug)]
pub struct Door {
    root: File,
    is_here: bool,
    pub(crate) namers: Namers,
}

impl Door {
    /// Below a directory, which is the root for links, too.
    pub fn new(root: File, namers: Namers) -> Self {
        Self { root, is_here: false, namers }
    }

    /// To the files of this machine.
    ///
    /// # Errors
    /// Those of opening its root.
    pub(crate) fn here(namers: Namers) -> io::Result<Self> {
        Ok(Self { root: procfs::directory("/")?, is_here: true, namers })
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// When it is not there, and [`Refusal`].
    pub fn open(&self, path: &Path, purpose: Purpose) -> io::Result<File> {
        self.pass(path, purpose, OFlags::empty())
    }

    /// Opens a file that anybody could have put there: a link is not followed, and it must belong to those who
    /// name it, to root, or to us.
    ///
    /// # Errors
    /// As [`Door::open`].
    pub fn believed(&self, path: &Path) -> io::Result<File> {
        let file = self.pass(path, Purpose::Stream, OFlags::NOFOLLOW)?;
        let uid = file.metadata()?.uid();
        let ours = [0, rustix::process::geteuid().as_raw()];
        if ours.contains(&uid) || self.namers.is_one(uid) {
            return Ok(file);
        }
        Err(Refusal::Foreign { path: path.display().to_string(), uid }.into())
    }

    fn pass(&self, path: &Path, purpose: Purpose, how: OFlags) -> io::Result<File> {
        let one = |who: &Identity| {
            who.opens(|| self.follow(path, purpose, how)).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    Refusal::Unreadable { path: path.display().to_string(), uid: who.uid }.into()
                }
                _ => error,
            })
        };
        let mut found: Option<File> = None;
        for who in &self.namers.0 {
            let file = one(who)?;
            match &found {
                Some(known) if !is_one(&known.metadata()?, &file.metadata()?) => {
                    return Err(Refusal::Replaced(path.display().to_string()).into());
                }
                Some(_) => {}
                None => found = Some(file),
            }
        }
        found.map_or_else(|| self.follow(path, purpose, how), Ok)
    }

    /// With the rights that this thread has just now.
    fn follow(&self, path: &Path, purpose: Purpose, how: OFlags) -> io::Result<File> {
        let flags = how | OFlags::PATH | OFlags::CLOEXEC;
        let rules = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let place = match openat2(&self.root, path, flags, Mode::empty(), rules) {
            // Linux before 5.6. Below the machine's own root there is nothing that a path could leave.
            Err(Errno::NOSYS) if self.is_here => open(path, flags, Mode::empty()),
            place => place,
        };
        enter(&File::from(place?), path, purpose)
    }
}

/// A file that somebody has mapped, by the mapping: the kernel has let them read or run it.
///
/// # Errors
/// When it is mapped no more, and [`Refusal`].
pub(crate) fn mapped(pid: i32, start: u64, end: u64) -> io::Result<File> {
    enter(&procfs::map_file(pid, start, end)?, Path::new("what is mapped"), Purpose::Code)
}

/// A file that we or our caller name. It need not be stored: `/proc/kallsyms` is such a file.
///
/// # Errors
/// When it is not there, or no plain file.
pub(crate) fn own(path: &Path) -> io::Result<File> {
    let place = File::options().read(true).custom_flags(libc::O_PATH).open(path)?;
    plain(&place, path)?;
    reopen(&place)
}

/// A recording that our caller names: also a FIFO, or the end of a pipe under `/dev/fd`.
///
/// # Errors
/// Those of opening it.
pub(crate) fn recording(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Opens what was found, for reading. To open a device can set something off, so it is looked at before.
fn enter(place: &File, path: &Path, purpose: Purpose) -> io::Result<File> {
    let size = plain(place, path)?.len();
    let name = || path.display().to_string();
    if PSEUDO.contains(&(fstatfs(place)?.f_type as u32)) {
        return Err(Refusal::Pseudo(name()).into());
    }
    let limit = purpose.limit();
    if size > limit {
        return Err(Refusal::TooLarge { path: name(), size, limit }.into());
    }
    reopen(place)
}

fn plain(place: &File, path: &Path) -> io::Result<Metadata> {
    let meta = place.metadata()?;
    if meta.is_symlink() {
        return Err(Refusal::Link(path.display().to_string()).into());
    }
    if !meta.is_file() {
        return Err(Refusal::NotPlain(path.display().to_string()).into());
    }
    Ok(meta)
}

/// Opens the very file that was looked at. Where somebody holds a lease on it, an open that may block waits for
/// that to be broken, 45 seconds (fcntl(2), "Leases").
fn reopen(place: &File) -> io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    File::options().read(true).custom_flags(flags).open(format!("/proc/self/fd/{}", place.as_raw_fd()))
}

fn is_one(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// File systems whose files are made by the kernel while they are read, which may never end, take something away
/// (`/proc/kmsg`), or be another user's secrets in the hands of root (linux/magic.h). A list of what is refused,
/// as new file systems that store files come every year, and those that do not tell a size of 0, so nothing of
/// them is read anyway. FUSE is not among them: the kernel keeps root out of what users mount, unless an
/// administrator allows it (`user_allow_other`), and virtiofs, which whole machines run from, is one.
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

    fn below(dir: &Path, namers: Namers) -> Door {
        Door::new(procfs::directory(dir).expect("root"), namers)
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
        let door = below(dir.path(), Namers::default());
        let open = |path: &str| door.open(Path::new(path), Purpose::Code);
        // A link is followed as the process would follow it: from its own root.
        assert_eq!(open("/link").expect("inside").metadata().expect("meta").len(), 5);
        for out in ["/out", "/../../../../../../etc/passwd", "/magic", "/dir", "/fifo", "/none"] {
            assert!(open(out).is_err(), "{out}");
        }
        let here = Door::here(Namers::default()).expect("door");
        for path in ["/dev/null", "/proc/self/exe", "/etc"] {
            assert!(here.open(Path::new(path), Purpose::Code).is_err(), "{path}");
        }
        assert!(own(&at("fifo")).is_err() && own(dir.path()).is_err() && own(Path::new("/dev/null")).is_err());
    }

    /// What is made while it is read is another's secret, takes something away, or never ends.
    #[test]
    fn files_that_are_not_stored_stay_closed() {
        let began = Instant::now();
        let here = Door::here(Namers::default()).expect("door");
        let paths =
            ["/proc/kmsg", "/proc/self/environ", "/proc/version", "/sys/kernel/notes", "/sys/kernel/vmcoreinfo"];
        let there: Vec<&str> = paths.into_iter().filter(|path| Path::new(path).exists()).collect();
        assert!(there.len() > 2, "{there:?}");
        for path in there {
            for opened in [here.open(Path::new(path), Purpose::Source), here.believed(Path::new(path))] {
                let said = opened.expect_err("closed").to_string();
                assert!(said.contains("none that is stored") || said.contains("ermission"), "{path}: {said}");
            }
        }
        assert!(began.elapsed() < Duration::from_secs(10));
        // What the caller names may be such a file.
        own(Path::new("/proc/kallsyms")).expect("readable by all");
    }

    #[test]
    fn a_file_is_no_larger_than_its_purpose_allows() {
        let dir = tempfile::tempdir().expect("dir");
        let file = File::create(dir.path().join("x.c")).expect("file");
        let door = below(dir.path(), Namers::default());
        for purpose in [Purpose::Code, Purpose::Source] {
            let open = || door.open(Path::new("/x.c"), purpose);
            file.set_len(purpose.limit()).expect("sparse");
            open().expect("not too large");
            file.set_len(purpose.limit() + 1).expect("sparse");
            assert!(open().expect_err("too large").to_string().contains("are not read"));
        }
    }

    #[test]
    fn what_a_user_may_not_read_stays_closed() {
        let dir = tempfile::tempdir().expect("dir");
        let (path, inner) = (dir.path().join("x.c"), dir.path().join("inner"));
        fs::write(&path, b"secret").expect("write");
        if !is_root() {
            // We have no more rights than anybody, and nobody to become.
            assert!(below(dir.path(), Identity::nobody().into()).open(Path::new("/x.c"), Purpose::Source).is_ok());
            mode(&path, 0);
            assert!(below(dir.path(), Identity::nobody().into()).open(Path::new("/x.c"), Purpose::Source).is_err());
            return;
        }
        let user = |uid| {
            let file = tempfile::NamedTempFile::new().expect("file");
            chown(file.path(), Some(uid), None).expect("owner");
            let mut namers = Namers::default();
            namers.add_writers(file.as_file());
            namers
        };
        let open = |namers: Namers, path: &str| below(dir.path(), namers).open(Path::new(path), Purpose::Source);
        let root: Namers = user(0);
        mode(dir.path(), 0o755);
        mode(&path, 0o600);
        open(root.clone(), "/x.c").expect("root's");
        let said = open(user(4242), "/x.c").expect_err("closed").to_string();
        assert!(said.contains("may not be read by user 4242"), "{said}");
        mode(&path, 0o644);
        open(user(4242), "/x.c").expect("everybody's");
        // Open to all, in a directory that is not.
        fs::create_dir(&inner).expect("dir");
        fs::rename(&path, inner.join("x.c")).expect("moved");
        open(user(4242), "/inner/x.c").expect("everybody's");
        mode(&inner, 0o700);
        assert!(open(user(4242), "/inner/x.c").is_err());
        symlink("/inner/x.c", dir.path().join("link")).expect("link");
        assert!(open(user(4242), "/link").is_err());
        open(root, "/link").expect("root's");
        // All who had a say must be able to.
        chown(&inner, Some(4242), None).expect("owner");
        open(user(4242), "/inner/x.c").expect("its own");
        for others in [[4242, 4243], [4243, 4242]] {
            let mut both = Namers::default();
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
        open("/map", Namers::default()).expect("ours");
        let no = |path, namers| open(path, namers).expect_err("refused").to_string();
        assert!(no("/link", Namers::default()).contains("a link"));
        assert!(no("/fifo", Namers::default()).contains("no plain file"));
        if is_root() {
            mode(dir.path(), 0o755);
            mode(&at("map"), 0o644);
            chown(at("map"), Some(65_534), None).expect("owner");
            open("/map", Identity::nobody().into()).expect("its user's");
            assert!(no("/map", Namers::default()).contains("belongs to user 65534, so it is not believed"));
            chown(at("map"), Some(4242), None).expect("owner");
            assert!(no("/map", Identity::nobody().into()).contains("not believed"));
        }
    }
}
