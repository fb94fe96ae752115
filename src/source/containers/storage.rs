//! The state of containers/storage, the library of CRI-O and Podman: a list of containers, and the bundle of each.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::session::containers::Runtime;

use super::{Home, Names, Opened, entries, libpod, oci};

#[derive(Debug, Default)]
pub(super) struct Stores {
    lists: HashMap<PathBuf, Store>,
    pods: HashMap<String, String>,
}

#[derive(Debug, Default)]
struct Store {
    /// Inode, size and modification time.
    stamp: (u64, u64, i64, i64),
    containers: HashMap<String, Names>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    names: Vec<String>,
    /// A JSON document in a string.
    #[serde(default)]
    metadata: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Metadata {
    name: String,
    image_name: String,
}

const ROOT: &str = "var/lib/containers/storage";
/// Podman's name in its bundles. Bundles of containers in pods have it, too, but have CRI-O's other annotations.
const PODMAN: &str = "libpod";
const RUN: &str = "run/containers/storage";
const HOME: &str = ".local/share/containers/storage";
/// The suffix of the container directories, after the driver's name: `overlay-containers`.
const FOLDER: &str = "-containers";
const LISTS: [&str; 2] = ["containers.json", "volatile-containers.json"];

pub(super) fn find(root: &Path, stores: &mut Stores, id: &str, home: Option<&Home>) -> Option<(Runtime, Names)> {
    let of_home = |home: &Home| [home.path.join(HOME), root.join(format!("run/user/{}/containers", home.uid))];
    let own = home.map(of_home).into_iter().flatten();
    let places: Vec<PathBuf> = own.chain([root.join(ROOT), root.join(RUN)]).collect();
    let (mut listed, mut bundled) = (None, None);
    for place in &places {
        for folder in entries(place).into_iter().filter(|name| name.ends_with(FOLDER)) {
            let path = place.join(folder);
            let Some(opened) = Opened::of(&path) else { continue };
            let lists = LISTS.iter().find_map(|list| look_up(&mut stores.lists, &path, &opened, list, id));
            listed = listed.or(lists);
            let bundle = || oci::parse(&opened.read(&Path::new(id).join("userdata/config.json"))?);
            bundled = bundled.or_else(bundle);
        }
    }
    let mut names = match (bundled, listed) {
        (None, None) => return None,
        (bundled, listed) => bundled.unwrap_or_default().complete(listed.unwrap_or_default()),
    };
    if !names.sandbox.is_empty() && names.manager != PODMAN {
        return Some((Runtime::Crio, names));
    }
    if names.pod.is_empty() && !names.sandbox.is_empty() {
        names.pod = stores.pod(&places, &names.sandbox).unwrap_or_default();
    }
    Some((Runtime::Podman, names))
}

impl Stores {
    fn pod(&mut self, places: &[PathBuf], id: &str) -> Option<String> {
        if !self.pods.contains_key(id) {
            let name = places.iter().find_map(|place| libpod::pod(place, id))?;
            self.pods.insert(id.to_owned(), name);
        }
        self.pods.get(id).cloned()
    }
}

/// Returns the entry of a container in a list, which is parsed again only after changes.
fn look_up(
    stores: &mut HashMap<PathBuf, Store>,
    folder: &Path,
    opened: &Opened,
    list: &str,
    id: &str,
) -> Option<Names> {
    let meta = opened.open(Path::new(list))?.metadata().ok()?;
    let stamp = (meta.ino(), meta.size(), meta.ctime(), meta.ctime_nsec());
    let store = stores.entry(folder.join(list)).or_default();
    if store.stamp != stamp {
        let containers = parse(&opened.read(Path::new(list))?)?;
        *store = Store { stamp, containers };
    }
    store.containers.get(id).cloned()
}

fn parse(bytes: &[u8]) -> Option<HashMap<String, Names>> {
    let list: Vec<Entry> = serde_json::from_slice(bytes).ok()?;
    let one = |entry: Entry| {
        let told: Metadata = serde_json::from_str(&entry.metadata).unwrap_or_default();
        let name = entry.names.into_iter().next().unwrap_or(told.name);
        (entry.id, Names { name, image: told.image_name, ..Names::default() })
    };
    Some(list.into_iter().map(one).collect())
}
