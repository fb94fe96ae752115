//! The files behind file descriptors, and the names of files.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::session::Session;

use super::calls::FileCall;

/// The limit of paths; further ones share a row.
const MAX_PATHS: usize = 1 << 16;
/// The limit of processes whose descriptors are known.
const MAX_PROCESSES: usize = 1 << 14;
const MAX_DESCRIPTORS: usize = 1 << 16;
/// The descriptors that a fork copies; those of larger processes are looked up when they are used.
const MAX_COPIED: usize = 1 << 10;

/// Commands of fcntl(2) that change descriptors.
const DUPLICATE: u64 = 0;
const SET_FLAGS: u64 = 2;
const DUPLICATE_CLOSED_ON_EXEC: u64 = 1030;
const FD_CLOSED_ON_EXEC: u64 = 1;
const CLOSE_RANGE_CLOEXEC: u64 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PathId(u32);

/// The names of files by number.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    names: Vec<Arc<str>>,
    ids: FxHashMap<Arc<str>, PathId>,
}

pub(super) const OTHERS: PathId = PathId(0);
const UNKNOWN: PathId = PathId(1);

impl Default for Paths {
    fn default() -> Self {
        Self { names: vec!["(others)".into(), "(not known)".into()], ids: FxHashMap::default() }
    }
}

impl Paths {
    pub(super) fn id(&mut self, name: &str) -> PathId {
        if name.is_empty() {
            return UNKNOWN;
        }
        if let Some(known) = self.ids.get(name) {
            return *known;
        }
        if self.names.len() >= MAX_PATHS {
            return OTHERS;
        }
        let (id, name) = (PathId(self.names.len() as u32), Arc::<str>::from(name));
        self.names.push(name.clone());
        self.ids.insert(name, id);
        id
    }

    pub(super) fn name(&self, id: PathId) -> Arc<str> {
        self.names.get(id.0 as usize).cloned().unwrap_or_default()
    }
}

/// Returns the row of a link in /proc/PID/fd: the path, or the kind of what has no path.
fn row_of(link: &str) -> String {
    match link.split_once(":[") {
        Some(("socket", _)) => "(sockets)".to_owned(),
        Some(("pipe", _)) => "(pipes)".to_owned(),
        Some(("anon_inode", kind)) => format!("({})", kind.trim_end_matches(']')),
        _ if link.starts_with("anon_inode:") => format!("({})", &link["anon_inode:".len()..]),
        _ => link.to_owned(),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    file: PathId,
    is_closed_on_exec: bool,
}

/// The open files of processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Descriptors {
    has_looked: bool,
    /// Parents whose descriptors were not copied, by child.
    heirs: FxHashMap<i32, i32>,
    processes: FxHashMap<i32, BTreeMap<i32, Descriptor>>,
    directories: FxHashMap<i32, Option<Arc<str>>>,
}

impl Descriptors {
    /// Looks up the files that are open before the first record.
    pub(super) fn look_once(&mut self, paths: &mut Paths, session: &Session) {
        if !std::mem::replace(&mut self.has_looked, true) {
            self.look(paths, session);
        }
    }

    /// Looks up the files that are open now.
    pub(super) fn look(&mut self, paths: &mut Paths, session: &Session) {
        for (pid, fd, link) in session.open_files() {
            let file = paths.id(&row_of(&link));
            self.looked_up(pid, fd, file);
        }
    }

    /// Adds a descriptor of /proc, which does not list the flag: exec drops all but the standard ones.
    fn looked_up(&mut self, pid: i32, fd: i32, file: PathId) {
        self.open(pid, fd, file, fd > 2);
    }

    pub(super) fn open(&mut self, pid: i32, fd: i32, file: PathId, is_closed_on_exec: bool) {
        if self.processes.len() >= MAX_PROCESSES && !self.processes.contains_key(&pid) {
            self.processes.clear();
        }
        let own = self.processes.entry(pid).or_default();
        if own.len() < MAX_DESCRIPTORS || own.contains_key(&fd) {
            own.insert(fd, Descriptor { file, is_closed_on_exec });
        }
    }

    /// Returns the file of a descriptor, which is looked up if it was opened in another way.
    pub(super) fn file(&mut self, pid: i32, fd: i32, paths: &mut Paths, session: &Session) -> PathId {
        let known = |pid: i32| self.processes.get(&pid).and_then(|own| own.get(&fd)).map(|of| of.file);
        if let Some(file) = known(pid) {
            return file;
        }
        let mut look_up = |pid: i32| session.open_file(pid, fd).map(|link| paths.id(&row_of(&link)));
        let own = look_up(pid);
        // A child that has ended had inherited it.
        let file = own.or_else(|| {
            let parent = *self.heirs.get(&pid)?;
            known(parent).or_else(|| look_up(parent))
        });
        let file = file.unwrap_or(UNKNOWN);
        self.looked_up(pid, fd, file);
        file
    }

    pub(super) fn close(&mut self, pid: i32, fd: i32) {
        self.processes.get_mut(&pid).map(|own| own.remove(&fd));
    }

    /// close_range(2) closes descriptors, or with a flag lets exec do that.
    pub(super) fn close_range(&mut self, pid: i32, [first, last, flags]: [u64; 3]) {
        let Some(own) = self.processes.get_mut(&pid) else { return };
        let range = first as u32..=last as u32;
        let is_in = |fd: i32| u32::try_from(fd).is_ok_and(|fd| range.contains(&fd));
        if flags & CLOSE_RANGE_CLOEXEC == 0 {
            own.retain(|fd, _| !is_in(*fd));
        } else {
            own.iter_mut().filter(|(fd, _)| is_in(**fd)).for_each(|(_, of)| of.is_closed_on_exec = true);
        }
    }

    /// Follows dup, dup2, dup3 and fcntl.
    pub(super) fn duplicated(&mut self, call: FileCall, pid: i32, args: [u64; 3], result: i64) {
        let [fd, command, value] = args;
        let Some(copy) = i32::try_from(result).ok().filter(|fd| *fd >= 0) else { return };
        let fd = fd as i32;
        if call == FileCall::Control && command == SET_FLAGS {
            let own = self.processes.get_mut(&pid).and_then(|own| own.get_mut(&fd));
            own.into_iter().for_each(|of| of.is_closed_on_exec = value & FD_CLOSED_ON_EXEC != 0);
            return;
        }
        if call == FileCall::Control && !matches!(command, DUPLICATE | DUPLICATE_CLOSED_ON_EXEC) {
            return;
        }
        if copy == fd {
            return;
        }
        match self.processes.get(&pid).and_then(|own| own.get(&fd)).copied() {
            Some(of) => {
                let is_closed_on_exec = call == FileCall::Control && command == DUPLICATE_CLOSED_ON_EXEC
                    || call == FileCall::Duplicate && value & super::CLOSE_ON_EXEC as u64 != 0;
                self.open(pid, copy, of.file, is_closed_on_exec);
            }
            // The call closed the previous file of this number.
            None => self.close(pid, copy),
        }
    }

    /// A new process has the descriptors of its parent.
    pub(super) fn fork(&mut self, parent: i32, child: i32) {
        if let Some(own) = self.processes.get(&parent).filter(|own| own.len() <= MAX_COPIED).cloned()
            && self.processes.len() < MAX_PROCESSES
        {
            self.processes.insert(child, own);
        } else if self.heirs.len() < MAX_PROCESSES {
            self.heirs.insert(child, parent);
        }
        self.directories.remove(&child);
    }

    pub(super) fn exec(&mut self, pid: i32) {
        if let Some(own) = self.processes.get_mut(&pid) {
            own.retain(|_, of| !of.is_closed_on_exec);
        }
    }

    pub(super) fn end(&mut self, pid: i32) {
        self.processes.remove(&pid);
        self.heirs.remove(&pid);
        self.directories.remove(&pid);
    }

    pub(super) fn moved(&mut self, pid: i32) {
        self.directories.remove(&pid);
    }

    /// Forgets all after lost records: /proc has the current state.
    pub(super) fn forget(&mut self) {
        self.processes.clear();
        self.heirs.clear();
        self.directories.clear();
    }

    /// Returns a path that does not depend on the working directory, as far as that is known.
    pub(super) fn absolute(
        &mut self,
        path: String,
        pid: i32,
        directory: i32,
        paths: &Paths,
        session: &Session,
    ) -> Arc<str> {
        if path.is_empty() || path.starts_with('/') {
            return path.into();
        }
        let base = if directory == super::AT_CWD {
            if self.directories.len() >= MAX_PROCESSES {
                self.directories.clear();
            }
            let look_up = || session.working_directory(pid).map(Arc::from);
            self.directories.entry(pid).or_insert_with(look_up).clone()
        } else {
            let of = self.processes.get(&pid).and_then(|own| own.get(&directory));
            of.filter(|of| of.file != UNKNOWN).map(|of| paths.name(of.file))
        };
        let path = path.trim_start_matches("./");
        base.map_or_else(|| path.into(), |base| format!("{}/{path}", base.trim_end_matches('/')).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Origin;

    #[test]
    fn large_processes_are_not_copied_by_forks() {
        let mut of = Descriptors::default();
        let file = Paths::default().id("/a");
        (0..MAX_COPIED as i32).for_each(|fd| of.open(1, fd, file, false));
        of.fork(1, 2);
        of.open(1, 1 << 20, file, false);
        of.fork(1, 3);
        assert_eq!(
            [1, 2, 3].map(|pid| of.processes.get(&pid).map_or(0, BTreeMap::len)),
            [MAX_COPIED + 1, MAX_COPIED, 0]
        );
        // The child has ended.
        let session = Session::new(Origin::Recorded);
        let mut paths = Paths::default();
        assert_eq!([1 << 20, 1 << 21].map(|fd| of.file(3, fd, &mut paths, &session)), [file, UNKNOWN]);
        // /proc does not list which descriptors exec closes.
        of.looked_up(4, 1, file);
        of.looked_up(4, 9, file);
        of.exec(4);
        assert_eq!(of.processes[&4].keys().copied().collect::<Vec<i32>>(), [1]);
    }

    #[test]
    fn descriptors_are_followed() {
        let session = Session::new(Origin::Recorded);
        let (mut paths, mut of) = (Paths::default(), Descriptors::default());
        let [a, b] = ["/a", "/b"].map(|path| paths.id(path));
        let mut file = |of: &mut Descriptors, pid: i32, fd: i32| {
            let file = of.file(pid, fd, &mut paths, &session);
            paths.name(file).to_string()
        };
        of.open(1, 3, a, true);
        of.duplicated(FileCall::Duplicate, 1, [3, 0, 0], 4);
        of.fork(1, 2);
        of.close(1, 3);
        assert_eq!([file(&mut of, 1, 3), file(&mut of, 1, 4), file(&mut of, 2, 3)], ["(not known)", "/a", "/a"]);
        // The number is used again.
        of.open(1, 3, b, false);
        assert_eq!(file(&mut of, 1, 3), "/b");
        // dup2 closes its target; one that fails changes nothing.
        of.duplicated(FileCall::Duplicate, 1, [3, 4, 0], 4);
        of.duplicated(FileCall::Duplicate, 1, [4, 3, 0], -9);
        assert_eq!(file(&mut of, 1, 4), "/b");
        of.exec(2);
        assert_eq!([file(&mut of, 2, 3), file(&mut of, 2, 4)], ["(not known)", "/a"]);
        of.duplicated(FileCall::Control, 2, [4, SET_FLAGS, FD_CLOSED_ON_EXEC], 0);
        of.duplicated(FileCall::Control, 2, [4, DUPLICATE, 0], 9);
        of.duplicated(FileCall::Control, 2, [4, 3, 0], 2);
        of.exec(2);
        assert_eq!(
            [file(&mut of, 2, 4), file(&mut of, 2, 9), file(&mut of, 2, 2)],
            ["(not known)", "/a", "(not known)"]
        );
        of.open(2, 11, a, false);
        of.close_range(2, [3, u64::MAX, CLOSE_RANGE_CLOEXEC]);
        assert_eq!(file(&mut of, 2, 11), "/a");
        of.close_range(2, [3, 10, 0]);
        of.exec(2);
        assert_eq!([file(&mut of, 2, 9), file(&mut of, 2, 11)], ["(not known)"; 2]);
        of.end(1);
        assert_eq!(file(&mut of, 1, 4), "(not known)");
    }

    #[test]
    fn relative_paths_follow_their_directory() {
        let session = Session::new(Origin::Recorded);
        let (mut paths, mut of) = (Paths::default(), Descriptors::default());
        let etc = paths.id("/etc/");
        of.open(1, 3, etc, false);
        let mut path =
            |path: &str, directory: i32| of.absolute(path.into(), 1, directory, &paths, &session).to_string();
        assert_eq!([path("passwd", 3), path("./x", -100), path("/y", 3)], ["/etc/passwd", "x", "/y"]);
        assert_eq!([path("z", 5), path("", 3)], ["z", ""]);
    }

    #[test]
    fn what_has_no_path_is_a_kind() {
        let rows =
            ["socket:[77]", "pipe:[1]", "anon_inode:[eventpoll]", "anon_inode:bpf-map", "/tmp/a:[b]"].map(row_of);
        assert_eq!(rows, ["(sockets)", "(pipes)", "(eventpoll)", "(bpf-map)", "/tmp/a:[b]"]);
    }

    #[test]
    fn many_paths_share_a_row() {
        let mut paths = Paths::default();
        let last = (0..=MAX_PATHS).map(|i| paths.id(&format!("/{i}"))).last();
        assert_eq!(last.map(|id| paths.name(id)).as_deref(), Some("(others)"));
    }
}
