//! Containers: identified by the path of a cgroup, named by their runtime, and stored in a file.

use std::sync::Arc;

use crate::perfdata::bytes::lines_of;
use crate::perfdata::features::bit;

/// The maximum number of containers in a file, and of bytes in a name.
const MAX: usize = 100_000;
const MAX_NAME: usize = 512;
const HEAD: &str = "perfprof-tui containers 1";
/// The number of digits that runtimes show of a container's id, and of a pod's.
const SHORT: usize = 12;
const SHORT_POD: usize = 8;

/// The runtime that created a cgroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Runtime {
    /// containerd, for Kubernetes or through nerdctl.
    Containerd,
    /// CRI-O.
    Crio,
    /// Docker, from the name of a scope or of a cgroup above it.
    Docker,
    /// Podman, and other users of libpod.
    Podman,
    /// LXC, including the containers of Incus and LXD.
    Lxc,
    /// Containers and virtual machines registered with systemd-machined.
    Machine,
    /// The path has a container's id, but does not identify the runtime.
    Unknown,
    /// A unit of systemd.
    Systemd,
    /// A cgroup of any other origin.
    #[default]
    Plain,
}

const RUNTIMES: &[(Runtime, &str)] = &[
    (Runtime::Containerd, "containerd"),
    (Runtime::Crio, "cri-o"),
    (Runtime::Docker, "docker"),
    (Runtime::Podman, "podman"),
    (Runtime::Lxc, "lxc"),
    (Runtime::Machine, "machine"),
    (Runtime::Unknown, "unknown"),
    (Runtime::Systemd, "systemd"),
    (Runtime::Plain, "cgroup"),
];

impl Runtime {
    /// Returns the name in tables and in recordings.
    pub fn word(self) -> &'static str {
        RUNTIMES.iter().find(|(one, _)| *one == self).map_or("", |(_, word)| word)
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        RUNTIMES.iter().find(|(_, known)| *known == word).map(|(one, _)| *one)
    }

    /// Returns whether it runs containers, rather than only grouping processes.
    pub fn is_container(self) -> bool {
        !matches!(self, Self::Systemd | Self::Plain)
    }
}

/// A container, a unit, or another cgroup, with readable names; unknown ones are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Container {
    pub(crate) runtime: Runtime,
    /// The full id that the runtime assigned.
    pub id: Arc<str>,
    /// The name in its pod, or the name that the user gave it.
    pub name: Arc<str>,
    pub(crate) pod: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) image: Arc<str>,
}

impl Container {
    /// Returns its pod and name as a single word; empty if it has no name.
    pub fn words(&self) -> String {
        joined(&self.namespace, &self.pod, &self.name)
    }

    /// Returns whether a text denotes it: its name, a prefix of its id, or a pattern of its name.
    pub fn is_called(&self, word: &str, glob: impl Fn(&str) -> bool) -> bool {
        let by_id = word.len() >= 4 && self.id.starts_with(word);
        *self.name == *word || by_id || glob(&self.name)
    }
}

/// Joins the non-empty parts of a container's name: `shop/cart-7d9/app`.
pub fn joined(namespace: &str, pod: &str, name: &str) -> String {
    let parts: Vec<&str> = [namespace, pod, name].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("/")
}

/// A container, and the path of its topmost cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedContainer {
    /// The path from the root of the hierarchy.
    pub root: Arc<str>,
    /// The container, shared by all tasks below the path.
    pub container: Arc<Container>,
}

/// The parts of a cgroup's path that identify a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupPlace<'a> {
    pub(crate) runtime: Runtime,
    pub(crate) id: &'a str,
    /// The path of the container's topmost cgroup.
    pub root: &'a str,
    /// A label for the pod until its name is known.
    pub pod: Option<String>,
}

impl CgroupPlace<'_> {
    /// Returns the container with the names that the path alone provides.
    pub fn container(&self) -> Container {
        let name = match self.runtime {
            Runtime::Lxc | Runtime::Machine | Runtime::Systemd => unescaped(self.id),
            _ => short(self.id, SHORT).to_owned(),
        };
        let pod = self.pod.as_deref().map(|uid| short(uid, SHORT_POD)).unwrap_or_default();
        Container {
            runtime: self.runtime,
            id: self.id.into(),
            name: name.into(),
            pod: pod.into(),
            ..Container::default()
        }
    }
}

/// Returns the first characters of an id; a name stays whole.
fn short(id: &str, len: usize) -> &str {
    let is_id = id.len() >= 32 && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    id.get(..len).filter(|_| is_id).unwrap_or(id)
}

/// Decodes systemd's escapes of characters in unit names, such as `\x2d` (systemd.unit(5)).
fn unescaped(name: &str) -> String {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(1..3).filter(|_| *first == b'\\' && tail.first() == Some(&b'x'));
        let code = code.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        out.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the containers of a cgroup, innermost first; without any, its unit or the group. Empty for the root.
pub fn places(path: &str) -> Vec<CgroupPlace<'_>> {
    let parts = parts(path);
    let mut found: Vec<CgroupPlace<'_>> = Vec::new();
    let mut pod = None;
    for (at, (name, end)) in parts.iter().enumerate() {
        pod = pod_of(name, at.checked_sub(1).map_or("", |at| parts[at].0)).or(pod);
        let above: Vec<&str> = parts[..at].iter().map(|(name, _)| *name).collect();
        if let Some((runtime, id)) = container_of(name, &above) {
            found.push(CgroupPlace { runtime, id, root: &path[..*end], pod: pod.clone() });
        }
    }
    found.reverse();
    if found.is_empty() {
        found.extend(unit_of(path, &parts));
    }
    found
}

/// Returns the names in a path, and where each ends. A path outside the cgroup namespace begins with `/..`.
fn parts(path: &str) -> Vec<(&str, usize)> {
    let mut end = 0;
    let mut list = Vec::new();
    for part in path.split('/') {
        end += part.len();
        if !part.is_empty() && part != ".." {
            list.push((part, end));
        }
        end += 1;
    }
    list
}

fn is_id(text: &str) -> bool {
    (text.len() == 64 || text.len() == 32) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Names of systemd's scopes, of cgroupfs, and of mixtures of both (`…slice:cri-containerd:ID`).
const PREFIXES: &[(&str, Runtime)] = &[
    ("cri-containerd", Runtime::Containerd),
    ("crio", Runtime::Crio),
    ("docker", Runtime::Docker),
    ("libpod", Runtime::Podman),
    ("libpod-payload", Runtime::Podman),
    ("nerdctl", Runtime::Containerd),
];

fn container_of<'a>(name: &'a str, above: &[&str]) -> Option<(Runtime, &'a str)> {
    let inner = name.strip_suffix(".scope").unwrap_or(name);
    let parent = above.last().copied().unwrap_or_default();
    if let Some((kind, id)) = inner.rsplit_once([':', '-']).filter(|(_, id)| is_id(id)) {
        let kind = kind.rsplit(':').next().unwrap_or(kind);
        let known = PREFIXES.iter().find(|(prefix, _)| *prefix == kind);
        return known.map(|(_, runtime)| (*runtime, id));
    }
    if is_id(inner) {
        let of = |prefix: &str| above.iter().any(|part| part.starts_with(prefix));
        let runtime = if of("docker") {
            Runtime::Docker
        } else if of("libpod") {
            Runtime::Podman
        } else {
            Runtime::Unknown
        };
        return (inner.len() == 64 || of("kubepods") || of("ecs")).then_some((runtime, inner));
    }
    if let Some(name) = name.strip_prefix("lxc.payload.") {
        return Some((Runtime::Lxc, name));
    }
    if matches!(parent, "lxc" | "lxc.payload") {
        return Some((Runtime::Lxc, name));
    }
    let machine = name.strip_suffix(".scope").and_then(|scope| scope.strip_prefix("machine-"));
    let machine = machine.filter(|_| parent == "machine.slice");
    let spawned = || name.strip_prefix("systemd-nspawn@").and_then(|name| name.strip_suffix(".service"));
    machine.or_else(spawned).map(|name| (Runtime::Machine, name))
}

/// Returns the unique id of a Kubernetes pod, or the id of Podman's.
fn pod_of(name: &str, parent: &str) -> Option<String> {
    let slice = name.strip_suffix(".slice");
    let named = slice.and_then(|slice| slice.rsplit_once("-pod")).filter(|(head, _)| head.contains("kubepods"));
    if let Some((_, uid)) = named {
        return Some(uid.replace('_', "-"));
    }
    let podman = slice.unwrap_or(name).rsplit_once("libpod_pod_").map(|(_, id)| id).filter(|id| is_id(id));
    let of_kubelet = name.strip_prefix("pod").filter(|uid| {
        let is_level = matches!(parent, "kubepods" | "besteffort" | "burstable" | "guaranteed");
        is_level && uid.len() >= 32
    });
    podman.or(of_kubelet).map(str::to_owned)
}

/// Returns the innermost service or scope, else the slice, else the whole path.
fn unit_of<'a>(path: &'a str, parts: &[(&'a str, usize)]) -> Option<CgroupPlace<'a>> {
    let (_, last) = parts.last()?;
    let ends = |kinds: &[&str]| {
        parts.iter().rfind(|(name, _)| kinds.iter().any(|kind| name.ends_with(kind) && name.len() > kind.len()))
    };
    let unit = ends(&[".service", ".scope", ".mount", ".socket", ".swap"]).or_else(|| ends(&[".slice"]));
    Some(match unit {
        Some((name, end)) => CgroupPlace { runtime: Runtime::Systemd, id: name, root: &path[..*end], pod: None },
        None => {
            let begin = parts.first().map_or(0, |(name, end)| end - name.len());
            CgroupPlace { runtime: Runtime::Plain, id: &path[begin..*last], root: &path[..*last], pod: None }
        }
    })
}

pub(crate) fn is_container(path: &str) -> bool {
    places(path).first().is_some_and(|place| place.runtime.is_container())
}

/// Returns whether a group may be a container of containerd's `ctr`, whose path `/NAMESPACE/NAME` does not show it.
pub fn may_be_one(path: &str) -> bool {
    places(path).first().is_some_and(|place| place.runtime == Runtime::Plain && place.id.split('/').count() == 2)
}

/// Encodes containers for a file as text: one per line, with fields separated by tabs.
pub fn encode<'a>(list: impl Iterator<Item = &'a NamedContainer>) -> Vec<u8> {
    let mut out = format!("{HEAD}\n");
    for NamedContainer { root, container: c } in list.take(MAX) {
        let fields = [&**root, c.runtime.word(), &c.id, &c.name, &c.pod, &c.namespace, &c.image];
        let fields: Vec<String> = fields.iter().map(|field| limited(field, 8 * MAX_NAME)).collect();
        out.push_str(&fields.join("\t"));
        out.push('\n');
    }
    out.into_bytes()
}

/// Encodes containers for records of a stream, each of at most `most` bytes.
pub fn encode_in_parts(list: &[NamedContainer], most: usize) -> Vec<Vec<u8>> {
    let bytes = encode(list.iter());
    if bytes.len() <= most || list.len() < 2 {
        return if list.is_empty() { Vec::new() } else { vec![bytes] };
    }
    let (left, right) = list.split_at(list.len() / 2);
    [encode_in_parts(left, most), encode_in_parts(right, most)].concat()
}

/// Returns a text as a single line, without control characters, with at most `most` bytes.
pub(super) fn limited(name: &str, most: usize) -> String {
    let mut out: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    while out.len() > most {
        out.pop();
    }
    out
}

/// Decodes the containers in a file's header features, given as (bit, bytes).
pub fn decode_from(features: &[(u8, Vec<u8>)]) -> Vec<NamedContainer> {
    features.iter().find(|(bit, _)| *bit == bit::CONTAINERS).map(|(_, bytes)| decode(bytes)).unwrap_or_default()
}

/// Decodes the containers in a file; malformed lines are skipped.
pub fn decode(bytes: &[u8]) -> Vec<NamedContainer> {
    let one = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [root, runtime, rest @ ..] = &fields[..] else { return None };
        let [id, name, pod, namespace, image] = <[&str; 5]>::try_from(rest).ok()?;
        named(root, Runtime::of_word(runtime)?, [id, name, pod, namespace, image])
    };
    lines_of(bytes, HEAD, MAX, one)
}

/// Returns a container from its fields in order; `None` without a path.
pub fn named(root: &str, runtime: Runtime, [id, name, pod, namespace, image]: [&str; 5]) -> Option<NamedContainer> {
    let text = |text: &str| -> Arc<str> { limited(text, MAX_NAME).into() };
    let container = Container {
        runtime,
        id: text(id),
        name: text(name),
        pod: text(pod),
        namespace: text(namespace),
        image: text(image),
    };
    root.starts_with('/')
        .then(|| NamedContainer { root: limited(root, 8 * MAX_NAME).into(), container: Arc::new(container) })
}

#[cfg(test)]
mod tests;
