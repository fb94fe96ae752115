//! Docker's state of a container: `config.v2.json`.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Home, Names, Opened, Reader, oci};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Container {
    name: String,
    config: Config,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Config {
    image: String,
    labels: Option<HashMap<String, String>>,
}

#[derive(Deserialize)]
struct Daemon {
    #[serde(rename = "data-root")]
    data_root: Option<PathBuf>,
}

/// The directories of Docker's state, in addition to the configured one.
const ROOTS: [&str; 2] = ["var/lib/docker", "var/snap/docker/common/var-lib-docker"];
const HOME: &str = ".local/share/docker";

pub(super) fn find(reader: &Reader, id: &str, home: Option<&Home>) -> Option<Names> {
    let told = || {
        let text = Opened::of(&reader.root.join("etc/docker"))?.read(Path::new("daemon.json"))?;
        let daemon: Daemon = serde_json::from_slice(&text).ok()?;
        Some(reader.root.join(daemon.data_root?.strip_prefix("/").ok()?))
    };
    let own = home.map(|home| home.path.join(HOME));
    let roots = own.into_iter().chain(ROOTS.iter().map(|root| reader.root.join(root)));
    let path = Path::new(id).join("config.v2.json");
    let state = roots.chain(std::iter::once_with(told).flatten());
    let bytes = state.into_iter().find_map(|root| Opened::of(&root.join("containers"))?.read(&path))?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Option<Names> {
    let container: Container = serde_json::from_slice(bytes).ok()?;
    let own = Names {
        name: container.name.trim_start_matches('/').to_owned(),
        image: container.config.image,
        ..Names::default()
    };
    // For a container of a pod, kubelet's labels have the names that Docker's name consists of. Its image is a digest.
    Some(oci::of_labels(&container.config.labels.unwrap_or_default()).complete(own))
}
