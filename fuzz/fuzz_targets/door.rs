//! Opening files that other users name: in a tree of directories, files, links, FIFOs and devices of several users,
//! paths are opened for the users who name them. A separate component-wise walk determines the expected result.

#![no_main]

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use perfprof_tui::kernel::identity::Identity;
use perfprof_tui::kernel::procfs;
use perfprof_tui::symbols::door::{FileKind, TrustedFileOpener, TrustedUids};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, mknodat, openat, readlinkat};

const USERS: [u32; 4] = [0, 4242, 4243, NOBODY];
const NOBODY: u32 = 65_534;
const NAMES: [&str; 8] = ["a", "b", "c", "..", ".", "", "a.c", "proc"];
const MODES: [u32; 8] = [0o755, 0o700, 0o711, 0o000, 0o777, 0o070, 0o007, 0o444];
const SOURCE: u64 = 8 << 20;

/// The fuzzer's input.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn one<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        self.byte().map(|byte| list[usize::from(byte) % list.len()])
    }

    /// Returns a path that a user could name: absolute or relative, up and down, out of the tree, or arbitrary bytes.
    fn path(&mut self, outside: &Path) -> Option<PathBuf> {
        let shape = self.byte()?;
        if shape & 15 == 15 {
            let (raw, rest) = self.0.split_at_checked(usize::from(shape >> 4))?;
            self.0 = rest;
            return Some(PathBuf::from(OsStr::from_bytes(raw)));
        }
        if shape & 15 == 14 {
            let far = ["/etc/passwd", "/proc/self/exe", "/proc/self/root/etc/passwd", "/dev/null"];
            return Some(if shape & 64 == 0 { outside.to_owned() } else { far[usize::from(shape >> 4 & 3)].into() });
        }
        let mut text = if shape & 16 == 0 { "/".to_owned() } else { String::new() };
        for i in 0..shape & 7 {
            text.push_str(if i > 0 { "/" } else { "" });
            text.push_str(self.one(&NAMES)?);
        }
        Some(text.into())
    }
}

/// Creates the tree, and one file outside of it.
fn grow(words: &mut Words<'_>, root: &Path, outside: &Path, owned: bool) -> Option<()> {
    let mut dirs = vec![root.to_owned()];
    let mut made = vec![root.to_owned()];
    for _ in 0..words.byte()? % 24 {
        let dir = &dirs[usize::from(words.byte()?) % dirs.len()];
        let path = dir.join(words.one(&["a", "b", "c", "a.c", "proc"])?);
        // Existing names are left unchanged.
        let there = match words.byte()? % 8 {
            0 | 1 => fs::create_dir(&path).map(|()| dirs.push(path.clone())).is_ok(),
            2 | 3 => {
                let size = words.one(&[0, 9, SOURCE, SOURCE + 1])?;
                File::create_new(&path).and_then(|file| file.set_len(size)).is_ok()
            }
            4 | 5 => symlink(words.path(outside)?, &path).is_ok(),
            6 => fs::hard_link(&made[usize::from(words.byte()?) % made.len()], &path).is_ok(),
            _ => {
                let (kind, device) =
                    words.one(&[(FileType::Fifo, 0), (FileType::Socket, 0), (FileType::CharacterDevice, 0x103)])?;
                mknodat(rustix::fs::CWD, &path, kind, Mode::from(0o666), device).is_ok()
            }
        };
        if there {
            made.push(path);
        }
    }
    for path in &made {
        let (user, group) = (words.one(&USERS)?, words.one(&USERS)?);
        if owned {
            lchown(path, Some(user), Some(group)).expect("given away");
        }
        let mode = words.one(&MODES)?;
        if !path.is_symlink() {
            fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
        }
    }
    Some(())
}

/// Returns whether a user without groups has the permission of a mode bit.
fn may(user: u32, stat: &Stat, bit: u32) -> bool {
    let shift = match (stat.st_uid == user, stat.st_gid == NOBODY) {
        (true, _) => 6,
        (false, true) => 3,
        (false, false) => 0,
    };
    user == 0 || stat.st_mode >> shift & bit != 0
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns the file that a user can open under a path: regular and readable, through directories that the user can
/// search.
fn walk(root: &File, path: &Path, user: u32, last_link: bool) -> Option<Stat> {
    let look = |dir: &OwnedFd, name: &[u8]| openat(dir, name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty()).ok();
    let top: OwnedFd = root.as_fd().try_clone_to_owned().ok()?;
    let mut ways: Vec<OwnedFd> = vec![top];
    let mut left: Vec<Vec<u8>> = path.as_os_str().as_bytes().split(|b| *b == b'/').rev().map(<[u8]>::to_vec).collect();
    if path.as_os_str().is_empty() {
        return None;
    }
    let mut links = 0;
    while let Some(name) = left.pop() {
        let dir = ways.last()?;
        let is_last = left.is_empty();
        if name.is_empty() && !is_last {
            continue;
        }
        if !may(user, &fstat(dir).ok()?, 1) {
            return None;
        }
        match name.as_slice() {
            // A slash at the end, or only a slash: a directory.
            b"" | b"." if is_last => return None,
            b"." => {}
            b".." => drop((ways.len() > 1).then(|| ways.pop())),
            name => {
                let found = look(dir, name)?;
                let stat = fstat(&found).ok()?;
                match kind(&stat) {
                    FileType::Directory => ways.push(found),
                    FileType::Symlink => {
                        links += 1;
                        if links > 40 || is_last && !last_link {
                            return None;
                        }
                        let target = readlinkat(dir, name, Vec::new()).ok()?.into_bytes();
                        if target.first() == Some(&b'/') {
                            ways.truncate(1);
                        }
                        left.extend(target.split(|b| *b == b'/').rev().map(<[u8]>::to_vec));
                    }
                    FileType::RegularFile if is_last => return may(user, &stat, 4).then_some(stat),
                    _ => return None,
                }
            }
        }
    }
    None
}

fn namer(dir: &Path, user: u32, owned: bool) -> Identity {
    if user == NOBODY || !owned {
        return Identity::nobody();
    }
    let path = dir.join(user.to_string());
    let file = File::create(&path).expect("file");
    file.set_permissions(Permissions::from_mode(0o600)).expect("set");
    lchown(&path, Some(user), Some(0)).expect("given away");
    Identity::of_file(&file.metadata().expect("there"))
}

fuzz_target!(|bytes: &[u8]| {
    let base = tempfile::tempdir_in("/dev/shm").expect("dir");
    let owned = rustix::process::geteuid().is_root();
    let (tree, outside) = (base.path().join("tree"), base.path().join("secret"));
    fs::create_dir(&tree).expect("dir");
    fs::write(&outside, b"secret").expect("written");
    let mut words = Words(bytes);
    if grow(&mut words, &tree, &outside, owned).is_none() {
        return;
    }
    let root = procfs::directory(&tree).expect("root");
    let mut ask = || -> Option<()> {
        let who = words.byte()?;
        let users: Vec<u32> = (0..4).filter(|i| who >> i & 1 == 1).map(|i| USERS[i]).collect();
        let mut namers = TrustedUids::default();
        users.iter().for_each(|user| namers.add(namer(base.path(), *user, owned)));
        let path = words.path(&outside)?;
        let door = TrustedFileOpener::new(procfs::directory(&tree).expect("root"), namers);
        let believed = who & 128 != 0;
        let opened = match believed {
            false => door.open(&path, FileKind::Source),
            true => door.believed(&path),
        };
        if !owned {
            return Some(());
        }
        // All users who influenced the path, and we ourselves, must get the same file.
        let mut views = users.iter().chain(&[0]).map(|user| walk(&root, &path, *user, !believed));
        let first = views.next()?;
        let same = |a: &Stat, b: &Stat| (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino);
        let agreed = views.try_fold(first, |known, next| match (known, next) {
            (Some(a), Some(b)) if same(&a, &b) => Some(Some(a)),
            _ => None,
        });
        let theirs = |stat: &Stat| !believed || stat.st_uid == 0 || users.contains(&stat.st_uid);
        let wanted = agreed.flatten().filter(|stat| (believed || stat.st_size as u64 <= SOURCE) && theirs(stat));
        let got = opened.as_ref().ok().map(|file| file.metadata().expect("open"));
        let inode = (got.as_ref().map(|meta| meta.ino()), wanted.as_ref().map(|stat| stat.st_ino));
        assert_eq!(inode.0, inode.1, "{} for {users:?}: {opened:?}", path.display());
        Some(())
    };
    while ask().is_some() {}
});
