//! The containers of the running machine, found by their cgroups as they start and stop. A separate thread names them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use crate::kernel::{cgroup, with_cpu_time};
use crate::session::containers::NamedContainer;
use crate::source::containers::Reader;

/// The shortest interval of scanning cgroups, and the inverse of the share of a CPU that scanning may take.
const PAUSE: Duration = Duration::from_millis(250);
const DUTY: u64 = 400;
/// The number of look-ups of a container without names: its cgroup may be older than its state.
const TRIES: u32 = 8;

/// A running container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningContainer {
    /// Its cgroup, and its names.
    pub named: NamedContainer,
    /// Its directory in the hierarchy of perf events; `None` if it is only in others.
    pub place: Option<PathBuf>,
}

/// Changes of containers since the last scan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ContainerChanges {
    /// Containers that started, or whose names were found since.
    pub came: Vec<RunningContainer>,
    pub(crate) went: Vec<Arc<str>>,
}

/// The scanner of cgroups.
#[derive(Debug)]
pub struct Scanner {
    trees: Vec<PathBuf>,
    /// Whether the first hierarchy is that of perf events.
    samples: bool,
    reader: Reader,
    known: HashMap<String, CgroupState>,
}

/// The state of a cgroup: how often it was looked up, and whether to look again.
#[derive(Debug)]
struct CgroupState {
    tries: u32,
    open: bool,
    told: bool,
}

impl Scanner {
    pub(crate) fn here() -> Self {
        Self::of(cgroup::trees(), cgroup::tree().is_some(), Reader::here())
    }

    /// Returns a scanner of hierarchies; `samples` says whether the first is that of perf events.
    pub fn of(trees: Vec<PathBuf>, samples: bool, reader: Reader) -> Self {
        Self { trees, samples, reader, known: HashMap::new() }
    }

    /// Returns the containers that started, stopped, or whose names were found.
    pub fn look(&mut self) -> ContainerChanges {
        let (mut there, mut news) = (HashSet::new(), ContainerChanges::default());
        for (at, tree) in self.trees.clone().into_iter().enumerate() {
            for (name, dir) in cgroup::below(&tree) {
                let path = format!("/{name}");
                if !there.insert(path.clone()) {
                    continue;
                }
                let place = (at == 0 && self.samples).then(|| dir.clone());
                news.came.extend(self.meet(path, dir, place));
            }
        }
        let gone: Vec<String> = self.known.keys().filter(|path| !there.contains(*path)).cloned().collect();
        for path in gone {
            let told = self.known.remove(&path).is_some_and(|known| known.told);
            news.went.extend(told.then(|| path.into()));
        }
        news.came.sort_by(|a, b| a.named.root.cmp(&b.named.root));
        news.went.sort();
        news
    }

    fn meet(&mut self, path: String, dir: PathBuf, place: Option<PathBuf>) -> Option<RunningContainer> {
        let known = self.known.entry(path.clone()).or_insert(CgroupState { tries: 0, open: true, told: false });
        if !known.open {
            return None;
        }
        known.tries += 1;
        let found = self.reader.name(&path, || cgroup::first_process(&dir)).filter(|(named, _)| *named.root == *path);
        let is_named = found.as_ref().is_some_and(|(_, is_named)| *is_named);
        // Decisions about containers and their descendants are final. One without names is reported with its id.
        let more_to_come = !is_named && known.tries < TRIES;
        let fresh = is_named || known.tries == 1;
        known.open = more_to_come && (found.is_some() || crate::session::containers::may_be_one(&path));
        known.told |= found.is_some();
        found.filter(|_| fresh).map(|(named, _)| RunningContainer { named, place })
    }
}

/// A handle to the scanning thread.
#[derive(Debug)]
pub struct Watch {
    news: Receiver<ContainerChanges>,
    /// The thread ends when this is dropped.
    _alive: Sender<()>,
}

impl Watch {
    /// Starts the thread; its first report contains the existing containers.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(mut scanner: Scanner) -> io::Result<Self> {
        let (tell, news) = unbounded();
        let (alive, ends) = bounded::<()>(0);
        let look = move || {
            loop {
                let (found, cost) = with_cpu_time(|| scanner.look());
                if found != ContainerChanges::default() && tell.send(found).is_err() {
                    return;
                }
                let pause = PAUSE.max(Duration::from_nanos(cost * DUTY));
                if !matches!(ends.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        };
        crate::kernel::thread("containers", look)?;
        Ok(Self { news, _alive: alive })
    }

    /// Returns the changes since the last call.
    pub fn news(&self) -> impl Iterator<Item = ContainerChanges> {
        self.news.try_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::session::{Origin, Session};

    fn machine() -> (tempfile::TempDir, tempfile::TempDir) {
        let (tree, disk) = (tempfile::tempdir().expect("tree"), tempfile::tempdir().expect("disk"));
        for at in 0..500 {
            let id = format!("{at:064x}");
            let state = disk.path().join("var/lib/docker/containers").join(&id);
            std::fs::create_dir_all(tree.path().join("docker").join(&id)).expect("made");
            std::fs::create_dir_all(&state).expect("made");
            let json = format!(
                r#"{{"Name":"/web-{at}","Config":{{"Image":"nginx","Labels":{{"x":"{}"}}}}}}"#,
                "y".repeat(4000)
            );
            std::fs::write(state.join("config.v2.json"), json).expect("written");
        }
        (tree, disk)
    }

    #[test]
    fn hundreds_of_containers_are_found_named_and_left_alone() {
        let (tree, disk) = machine();
        let mut scanner = Scanner::of(vec![tree.path().to_owned()], true, Reader::below(disk.path().to_owned()));
        let asked = |scanner: &Scanner| scanner.known.values().map(|known| known.tries).sum::<u32>();
        let news = scanner.look();
        // Plus the containing directory.
        assert_eq!(asked(&scanner), 500 + 1, "each is looked up once");
        assert_eq!((news.came.len(), news.went.len()), (500, 0));
        assert!(news.came.iter().all(|one| one.place.is_some() && one.named.container.name.starts_with("web-")));
        assert_eq!(scanner.look(), ContainerChanges::default());
        assert_eq!(asked(&scanner), 500 + 1, "what is known is not looked up again");
        std::fs::remove_dir(tree.path().join("docker").join(format!("{:064x}", 7))).expect("removed");
        assert_eq!(scanner.look().went, [Arc::from(format!("/docker/{:064x}", 7))]);
        // 10,000 processes of these containers get their names.
        let mut session = Session::new(Origin::Recorded);
        for at in 0..500 {
            session.apply(&Record::Cgroup { id: at + 1, path: format!("/docker/{at:064x}").as_bytes() }, 1);
        }
        let tasks: Vec<_> = (1..=10_000).map(|pid| session.task_in(pid, pid, pid as u64 % 500 + 1)).collect();
        assert!(session.name_containers(news.came.into_iter().map(|one| one.named).collect()));
        let names: Vec<_> =
            tasks.iter().map(|id| session.container(&session.tasks()[id.0 as usize]).name.clone()).collect();
        assert!((0..10_000).all(|at| *names[at] == *format!("web-{}", (at + 1) % 500)));
    }

    /// A group is often older than the state of its container, so the look-up is repeated a few times.
    #[test]
    fn names_that_come_late_are_told_late() {
        let (tree, disk) = (tempfile::tempdir().expect("tree"), tempfile::tempdir().expect("disk"));
        let id = "e".repeat(64);
        std::fs::create_dir_all(tree.path().join("docker").join(&id)).expect("made");
        let mut scanner = Scanner::of(vec![tree.path().to_owned()], false, Reader::below(disk.path().to_owned()));
        let name = |news: ContainerChanges| {
            news.came.first().map(|one| (one.named.container.name.to_string(), one.place.clone()))
        };
        assert_eq!(name(scanner.look()), Some((id[..12].to_owned(), None)));
        assert_eq!(name(scanner.look()), None);
        let state = disk.path().join("var/lib/docker/containers").join(&id);
        std::fs::create_dir_all(&state).expect("made");
        std::fs::write(state.join("config.v2.json"), r#"{"Name":"/late"}"#).expect("written");
        assert_eq!(name(scanner.look()), Some(("late".to_owned(), None)));
        assert_eq!(name(scanner.look()), None);
    }
}
