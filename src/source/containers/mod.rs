//! Names of containers, read from the state that runtimes keep on disk, without communication with a runtime. A
//! runtime's directory, or a user's, is the root of all reads in it ([`TrustedFileOpener`]): links cannot lead out of it, and files
//! that its owner may not read stay closed.

mod docker;
mod libpod;
mod oci;
mod storage;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::kernel::identity::Identity;
use crate::kernel::procfs;
use crate::session::containers::{CgroupPlace, Container, NamedContainer, Runtime, places};
use crate::symbols::door::{FileKind, TrustedFileOpener, TrustedUids};

/// The maximum size of a state file in bytes.
const LIMIT: u64 = 8 << 20;
/// The directory of the machine's files in `kubectl debug node`, and the state directories of runtimes there.
const HOST: &str = "/host";
const CONTAINERS: [&str; 4] = ["run/containerd", "var/lib/docker/containers", "run/containers", "run/k3s"];
const ENTRIES: usize = 20_000;

/// The names of a container; unknown ones are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Names {
    name: String,
    pod: String,
    namespace: String,
    image: String,
    /// The pause container of its pod, whose state may have further names.
    sandbox: String,
    /// The program that manages it, if its bundle names one.
    manager: String,
}

impl Names {
    fn complete(mut self, other: Self) -> Self {
        let pairs = [
            (&mut self.name, other.name),
            (&mut self.pod, other.pod),
            (&mut self.namespace, other.namespace),
            (&mut self.image, other.image),
            (&mut self.sandbox, other.sandbox),
            (&mut self.manager, other.manager),
        ];
        pairs.into_iter().filter(|(own, _)| own.is_empty()).for_each(|(own, other)| *own = other);
        self
    }
}

/// The reader of the state of all runtimes.
#[derive(Debug)]
pub struct Reader {
    root: PathBuf,
    stores: storage::Stores,
}

impl Reader {
    /// Returns a reader for this machine, also inside a container that shows the machine's first process or its files.
    pub fn here() -> Self {
        let place = |path: &str| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        let first = procfs::sees_all_processes().then_some("/proc/1/root");
        let other = |path: &&str| place(path).is_some_and(|there| Some(there) != place("/"));
        let host = Some(HOST).filter(|path| CONTAINERS.iter().any(|state| Path::new(path).join(state).is_dir()));
        Self::below(first.into_iter().chain(host).find(other).unwrap_or("/").into())
    }

    /// Returns a reader for the machine whose files are below a directory.
    pub fn below(root: PathBuf) -> Self {
        Self { root, stores: storage::Stores::default() }
    }

    /// Returns the innermost container of a cgroup, and whether its names were found; otherwise it has the names in its
    /// path. `None` if the cgroup does not belong to a container.
    pub fn name(&mut self, path: &str, pid: impl Fn() -> Option<i32>) -> Option<(NamedContainer, bool)> {
        let places = places(path);
        for place in &places {
            if let Some((runtime, names)) = self.state(path, place, &pid) {
                return Some((named(place, runtime, names), true));
            }
        }
        let innermost = places.first().filter(|place| place.runtime.is_container())?;
        let told = matches!(innermost.runtime, Runtime::Lxc | Runtime::Machine);
        Some((NamedContainer { root: innermost.root.into(), container: Arc::new(innermost.container()) }, told))
    }

    fn state(
        &mut self,
        path: &str,
        place: &CgroupPlace<'_>,
        pid: &dyn Fn() -> Option<i32>,
    ) -> Option<(Runtime, Names)> {
        let id = place.id;
        let home = home_of(path, &self.root);
        let containerd = |reader: &Self| reader.containerd(None, id, pid).map(|names| (Runtime::Containerd, names));
        let docker = |reader: &Self| docker::find(reader, id, home.as_ref()).map(|names| (Runtime::Docker, names));
        let found = match place.runtime {
            Runtime::Containerd => containerd(self),
            Runtime::Docker => docker(self),
            Runtime::Crio | Runtime::Podman => storage::find(&self.root, &mut self.stores, id, home.as_ref()),
            Runtime::Unknown => docker(self)
                .or_else(|| storage::find(&self.root, &mut self.stores, id, home.as_ref()))
                .or_else(|| containerd(self)),
            Runtime::Plain => {
                let (namespace, name) = id.split_once('/').filter(|(_, name)| !name.contains('/'))?;
                let names = self.containerd(Some(namespace), name, pid)?;
                let called = Names { name: name.to_owned(), ..Names::default() };
                Some((Runtime::Containerd, names.complete(called)))
            }
            Runtime::Lxc | Runtime::Machine | Runtime::Systemd => None,
        };
        if place.runtime == Runtime::Plain || !place.runtime.is_container() {
            return found;
        }
        let (runtime, names) = found.unwrap_or((place.runtime, Names::default()));
        let names = names.clone().complete(match names.name.is_empty() || names.pod.is_empty() {
            true => self.logged(id, place.pod.as_deref()),
            false => Names::default(),
        });
        (names != Names::default()).then_some((runtime, names))
    }

    /// Returns the names in the bundle of a container, and in that of its sandbox.
    fn containerd(&self, namespace: Option<&str>, id: &str, pid: &dyn Fn() -> Option<i32>) -> Option<Names> {
        let known = |id: &str| {
            CONTAINERD.iter().find_map(|folder| {
                let tasks = self.root.join(folder).join(TASKS);
                let spaces = match namespace {
                    Some(namespace) if is_name(namespace) => vec![namespace.to_owned()],
                    Some(_) => Vec::new(),
                    None => entries(&tasks),
                };
                spaces.into_iter().find_map(|space| bundle(&Opened::of(&tasks.join(space))?, id))
            })
        };
        let (names, beside) = match known(id) {
            Some(names) => (names, None),
            None => {
                // The runtime uses another directory: the shim that started the container works in one of its bundles.
                let folder = shim_folder(pid()?)?;
                (bundle(&folder, id)?, Some(folder))
            }
        };
        if !names.pod.is_empty() || names.sandbox.is_empty() {
            return Some(names);
        }
        let sandbox = match &beside {
            Some(folder) => bundle(folder, &names.sandbox),
            None => known(&names.sandbox),
        };
        let sandbox = sandbox.unwrap_or_default();
        Some(names.complete(Names { name: String::new(), image: String::new(), ..sandbox }))
    }

    /// Returns the names in kubelet's log directories of a pod, and in the log links of a container.
    fn logged(&self, id: &str, uid: Option<&str>) -> Names {
        let ending = format!("-{id}.log");
        let of_container = || {
            let logs = entries(&self.root.join("var/log/containers"));
            let name = logs.iter().find_map(|log| log.strip_suffix(&*ending))?;
            let (pod, rest) = name.split_once('_')?;
            let (namespace, name) = rest.split_once('_')?;
            let [name, pod, namespace] = [name, pod, namespace].map(str::to_owned);
            Some(Names { name, pod, namespace, ..Names::default() })
        };
        let of_pod = || {
            let uid = uid?;
            let logs = entries(&self.root.join("var/log/pods"));
            let name = logs.iter().find_map(|log| log.strip_suffix(uid)?.strip_suffix('_'))?;
            let (namespace, pod) = name.split_once('_')?;
            Some(Names { pod: pod.to_owned(), namespace: namespace.to_owned(), ..Names::default() })
        };
        of_container().or_else(of_pod).unwrap_or_default()
    }
}

/// The directories of containerd's `state`, including those of containerds bundled with other programs.
const CONTAINERD: [&str; 4] =
    ["run/containerd", "run/k3s/containerd", "run/k0s/containerd", "var/snap/microk8s/common/run/containerd"];
const TASKS: &str = "io.containerd.runtime.v2.task";

fn bundle(folder: &Opened, id: &str) -> Option<Names> {
    oci::parse(&folder.read(&Path::new(id).join("config.json"))?)
}

/// Returns the directory of bundles in which the shim of a process works.
fn shim_folder(pid: i32) -> Option<Opened> {
    const STEPS: usize = 8;
    let above = std::iter::successors(Some(pid), |pid| procfs::parent(*pid).filter(|parent| *parent > 1));
    let is_shim = |pid: &i32| procfs::comm(*pid, *pid).is_some_and(|comm| comm.starts_with(b"containerd-shim"));
    let shim = above.take(STEPS).find(is_shim)?;
    let namers = Identity::of_process(shim).ok()?.into();
    Opened::with(&PathBuf::from(format!("/proc/{shim}/cwd/..")), namers)
}

fn named(place: &CgroupPlace<'_>, runtime: Runtime, names: Names) -> NamedContainer {
    let of_path = place.container();
    let or = |name: String, other: &Arc<str>| if name.is_empty() { other.clone() } else { name.into() };
    let id = if place.runtime == Runtime::Plain { names.name.as_str().into() } else { of_path.id.clone() };
    let container = Container {
        runtime,
        id,
        name: or(names.name, &of_path.name),
        pod: or(names.pod, &of_path.pod),
        namespace: names.namespace.into(),
        image: names.image.into(),
    };
    NamedContainer { root: place.root.into(), container: Arc::new(container) }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Home {
    path: PathBuf,
    uid: u32,
}

fn home_of(path: &str, root: &Path) -> Option<Home> {
    let part = path.split('/').find_map(|part| part.strip_prefix("user-")?.strip_suffix(".slice"))?;
    let uid: u32 = part.parse().ok()?;
    let users = Opened::of(&root.join("etc"))?.read(Path::new("passwd"))?;
    let users = String::from_utf8_lossy(&users).into_owned();
    let home = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.get(2)?.parse() == Ok(uid)).then(|| fields.get(5).map(|home| (*home).to_owned()))?
    })?;
    Some(Home { path: root.join(home.trim_start_matches('/')), uid })
}

/// Returns whether a part of a cgroup's path can be the name of a directory elsewhere.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains('/')
}

#[derive(Debug)]
struct Opened(TrustedFileOpener);

impl Opened {
    /// Opens a directory; files in it are read only if its owner may read them.
    fn of(path: &Path) -> Option<Self> {
        Self::with(path, TrustedUids::default())
    }

    fn with(path: &Path, mut namers: TrustedUids) -> Option<Self> {
        let folder = procfs::directory(path).ok()?;
        namers.add_writers(&folder);
        Some(Self(TrustedFileOpener::new(folder, namers)))
    }

    fn open(&self, path: &Path) -> Option<File> {
        self.0.open(path, FileKind::Source).ok()
    }

    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        #[cfg(test)]
        READS.set(READS.get() + 1);
        let mut bytes = Vec::new();
        self.open(path)?.take(LIMIT).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
thread_local! {
    static READS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn entries(folder: &Path) -> Vec<String> {
    let list = std::fs::read_dir(folder).into_iter().flatten().flatten().take(ENTRIES);
    let mut names: Vec<String> = list.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests;
