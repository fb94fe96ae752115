//! A container's bundle in the OCI runtime specification: `config.json`, in whose annotations runtimes store names.

use std::collections::HashMap;

use serde::Deserialize;

use super::Names;

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    annotations: HashMap<String, String>,
}

const NAME: [&str; 3] = ["io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name"];
const POD: [&str; 2] = ["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name"];
const NAMESPACE: [&str; 2] = ["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace"];
const IMAGE: [&str; 4] = [
    "io.kubernetes.cri.image-name",
    "io.kubernetes.cri-o.ImageName",
    "io.kubernetes.cri-o.UserRequestedImage",
    "org.opencontainers.image.ref.name",
];
const SANDBOX: [&str; 2] = ["io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"];
const MANAGER: &str = "io.container.manager";
const KIND: [&str; 2] = ["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"];

/// The name of the pause container, which holds a pod's namespaces.
const PAUSE: &str = "pause";

pub(super) fn parse(bytes: &[u8]) -> Option<Names> {
    let config: Config = serde_json::from_slice(bytes).ok()?;
    Some(of_labels(&config.annotations))
}

pub(super) fn of_labels(labels: &HashMap<String, String>) -> Names {
    let first = |keys: &[&str]| {
        keys.iter().find_map(|key| labels.get(*key).filter(|value| !value.is_empty())).cloned().unwrap_or_default()
    };
    let mut names = Names {
        name: first(&NAME),
        pod: first(&POD),
        namespace: first(&NAMESPACE),
        image: first(&IMAGE),
        sandbox: first(&SANDBOX),
        manager: first(&[MANAGER]),
    };
    if first(&KIND) == "sandbox" {
        names.name = PAUSE.to_owned();
    }
    names
}
