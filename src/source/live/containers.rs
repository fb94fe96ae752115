//! The containers of the running machine: found by their cgroups as they come and go, named off the way of samples.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use crate::kernel::cgroup;
use crate::session::containers::NamedContainer;
use crate::source::containers::Reader;

/// The shortest interval of looking through cgroups; and one in so many parts of the time is what that may take.
const PAUSE: Duration = Duration::from_millis(250);
const DUTY: u32 = 200;
/// The number of looks at a container whose names are not there yet: its cgroup may be older than its state.
const TRIES: u32 = 8;

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningContainer {
    /// The cgroup that holds it, and its names.
    pub named: NamedContainer,
    /// Its directory in the tree of perf events; none where it is in others only.
    pub place: Option<PathBuf>,
}

/// Changes of containers since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ContainerChanges {
    /// Those that started, or whose names were found since.
    pub came: Vec<RunningContainer>,
    pub(crate) went: Vec<Arc<str>>,
}

/// Looks through the cgroups.
#[derive(Debug)]
pub struct Scanner {
    trees: Vec<PathBuf>,
    /// Whether the first of them is that of perf events.
    samples: bool,
    reader: Reader,
    known: HashMap<String, CgroupState>,
}

/// The state of a cgroup: how often it was asked whose it is, and whether there is more to come to know.
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

    /// Of trees, the first of them that of perf events if so.
    pub fn of(trees: Vec<PathBuf>, samples: bool, reader: Reader) -> Self {
        Self { trees, samples, reader, known: HashMap::new() }
    }

    /// The containers that came, or whose names came, and those that went.
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
        // What is below a container, or is none, stays so; one whose names are not there yet is told by its id.
        let more_to_come = !is_named && known.tries < TRIES;
        let fresh = is_named || known.tries == 1;
        known.open = more_to_come && (found.is_some() || crate::session::containers::may_be_one(&path));
        known.told |= found.is_some();
        found.filter(|_| fresh).map(|(named, _)| RunningContainer { named, place })
    }
}

/// The thread that looks.
#[derive(Debug)]
pub struct Watch {
    news: Receiver<ContainerChanges>,
    /// It ends when this goes.
    _alive: Sender<()>,
}

impl Watch {
    /// Begins; what is there comes with the first news.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(mut scanner: Scanner) -> io::Result<Self> {
        let (tell, news) = unbounded();
        let (alive, ends) = bounded::<()>(0);
        let look = move || {
            loop {
                let began = Instant::now();
                let found = scanner.look();
                if found != ContainerChanges::default() && tell.send(found).is_err() {
                    return;
                }
                let pause = PAUSE.max(began.elapsed() * DUTY);
                if !matches!(ends.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        };
        crate::kernel::thread("containers", look)?;
        Ok(Self { news, _alive: alive })
    }

    /// Changes since the last call.
    pub fn news(&self) -> impl Iterator<Item = ContainerChanges> {
        self.news.try_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::session::{Origin, Session};

    /// 500 containers of Docker's, each in a group of its own.
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
        // And the folder that they are in.
        assert_eq!(asked(&scanner), 500 + 1, "each is looked up once");
        assert_eq!((news.came.len(), news.went.len()), (500, 0));
        assert!(news.came.iter().all(|one| one.place.is_some() && one.named.container.name.starts_with("web-")));
        assert_eq!(scanner.look(), ContainerChanges::default());
        assert_eq!(asked(&scanner), 500 + 1, "what is known is not looked up again");
        std::fs::remove_dir(tree.path().join("docker").join(format!("{:064x}", 7))).expect("removed");
        assert_eq!(scanner.look().went, [Arc::from(format!("/docker/{:064x}", 7))]);
        // 10,000 processes of them get their names.
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

    /// A group is often older than the state of its container; it is looked for a few times more.
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
