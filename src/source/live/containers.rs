//! The containers of the running machine: found by their cgroups as they come and go, named off the way of samples.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use crate::kernel::cgroup;
use crate::session::containers::Named;
use crate::source::containers::Reader;

/// How often cgroups are looked through at most; and one in so many parts of the time is what that may take.
const PAUSE: Duration = Duration::from_millis(250);
const DUTY: u32 = 200;
/// How often a container is looked at again whose names are not there yet: its cgroup may be older than its state.
const TRIES: u32 = 8;

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    pub named: Named,
    /// Its directory in the tree of perf events; none where it is in others only.
    pub place: Option<PathBuf>,
}

/// What has changed since it was looked last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct News {
    pub came: Vec<Running>,
    pub went: Vec<Arc<str>>,
}

/// Looks through the cgroups.
#[derive(Debug)]
pub struct Scanner {
    trees: Vec<PathBuf>,
    /// Whether the first of them is that of perf events.
    samples: bool,
    reader: Reader,
    known: HashMap<String, Known>,
}

/// What is known of a cgroup: how often it was asked whose it is, and whether there is more to come to know.
#[derive(Debug)]
struct Known {
    tries: u32,
    open: bool,
    told: bool,
}

impl Scanner {
    pub fn here() -> Self {
        Self::of(cgroup::trees(), cgroup::tree().is_some(), Reader::here())
    }

    fn of(trees: Vec<PathBuf>, samples: bool, reader: Reader) -> Self {
        Self { trees, samples, reader, known: HashMap::new() }
    }

    /// The containers that came, or whose names came, and those that went.
    pub fn look(&mut self) -> News {
        let (mut there, mut news) = (HashSet::new(), News::default());
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

    fn meet(&mut self, path: String, dir: PathBuf, place: Option<PathBuf>) -> Option<Running> {
        let known = self.known.entry(path.clone()).or_insert(Known { tries: 0, open: true, told: false });
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
        found.filter(|_| fresh).map(|(named, _)| Running { named, place })
    }
}

/// The thread that looks.
#[derive(Debug)]
pub struct Watch {
    news: Receiver<News>,
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
                if found != News::default() && tell.send(found).is_err() {
                    return;
                }
                let pause = PAUSE.max(began.elapsed() * DUTY);
                if !matches!(ends.recv_timeout(pause), Err(RecvTimeoutError::Timeout)) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("containers".to_owned()).spawn(look)?;
        Ok(Self { news, _alive: alive })
    }

    /// What came since the last call.
    pub fn news(&self) -> impl Iterator<Item = News> {
        self.news.try_iter()
    }
}
