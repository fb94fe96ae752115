//! Tests of the on-disk state of each runtime.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

use super::*;

const ID: &str = "4f1c0a7be2d94f1c0a7be2d94f1c0a7be2d94f1c0a7be2d94f1c0a7be2d9aaaa";
const SANDBOX: &str = "cccc0a7be2d94f1c0a7be2d94f1c0a7be2d94f1c0a7be2d94f1c0a7be2d9cccc";
const UID: &str = "0c2d6f3e-94b0-4a3e-8d1c-3a9be6d7f101";

struct Disk(tempfile::TempDir);

impl Disk {
    fn new() -> Self {
        let disk = Self(tempfile::tempdir().expect("a folder"));
        fs::set_permissions(disk.0.path(), fs::Permissions::from_mode(0o755)).expect("mode");
        disk
    }

    fn put(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        path
    }

    fn reader(&self) -> Reader {
        Reader::below(self.0.path().to_owned())
    }

    /// Returns runtime, namespace/pod/name and image, and whether the names were found.
    fn told(&self, path: &str) -> Option<(Runtime, String, String, bool)> {
        let (named, found) = self.reader().name(path, || None)?;
        assert!(path.starts_with(&*named.root));
        Some((named.container.runtime, named.container.words(), named.container.image.to_string(), found))
    }
}

fn found(runtime: Runtime, words: &str, image: &str) -> Option<(Runtime, String, String, bool)> {
    Some((runtime, words.to_owned(), image.to_owned(), true))
}

/// Returns a bundle like those of kubelet and containerd, including irrelevant fields.
fn cri(kind: &str, more: &str) -> String {
    format!(
        r#"{{"ociVersion":"1.1.0","process":{{"args":["app"]}},"linux":{{"cgroupsPath":"x"}},"annotations":{{
        "io.kubernetes.cri.container-type":"{kind}","io.kubernetes.cri.sandbox-id":"{SANDBOX}"{more}}}}}"#
    )
}

const POD: &str = r#","io.kubernetes.cri.sandbox-name":"cart-7d9","io.kubernetes.cri.sandbox-namespace":"shop""#;

#[test]
fn containerd_keeps_names_in_its_bundles() {
    let disk = Disk::new();
    let bundles = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
    let name = r#","io.kubernetes.cri.container-name":"app","io.kubernetes.cri.image-name":"reg.example/cart:1.4""#;
    disk.put(&format!("{bundles}/{ID}/config.json"), &cri("container", &format!("{name}{POD}")));
    disk.put(&format!("{bundles}/{SANDBOX}/config.json"), &cri("sandbox", POD));
    let scope = format!("/kubepods.slice/kubepods-pod{}.slice/cri-containerd-{ID}.scope", UID.replace('-', "_"));
    let want = found(Runtime::Containerd, "shop/cart-7d9/app", "reg.example/cart:1.4");
    assert_eq!(disk.told(&scope), want);
    assert_eq!(disk.told(&format!("{scope}/system.slice/cron.service")), want);
    // A path of cgroupfs does not have the runtime.
    assert_eq!(disk.told(&format!("/kubepods/besteffort/pod{UID}/{ID}")), want);
    assert_eq!(
        disk.told(&format!("/kubepods/pod{UID}/{SANDBOX}")),
        found(Runtime::Containerd, "shop/cart-7d9/pause", "")
    );
    // Before 1.4 only the sandbox had the pod's name.
    disk.put(&format!("{bundles}/{ID}/config.json"), &cri("container", name));
    assert_eq!(disk.told(&scope), want);
    // Containers of `ctr` have their name as id.
    disk.put("run/containerd/io.containerd.runtime.v2.task/tools/build-1/config.json", r#"{"ociVersion":"1.0.2"}"#);
    assert_eq!(disk.told("/tools/build-1"), found(Runtime::Containerd, "build-1", ""));
    for other in ["/tools/other", "/tools/build-1/deeper/still", "/tools", "/system.slice/cron.service", "/", "/../x"] {
        assert_eq!(disk.told(other), None, "{other}");
    }
}

#[test]
fn docker_keeps_names_in_a_file_of_each_container() {
    let disk = Disk::new();
    let file = |name: &str, labels: &str| {
        format!(
            r#"{{"ID":"{ID}","Image":"sha256:1","Name":"/{name}","Config":{{"Image":"nginx:1.25","Labels":{labels}}}}}"#
        )
    };
    let state = format!("var/lib/docker/containers/{ID}/config.v2.json");
    disk.put(&state, &file("web", "null"));
    let want = found(Runtime::Docker, "web", "nginx:1.25");
    for path in [format!("/docker/{ID}"), format!("/system.slice/docker-{ID}.scope"), format!("/own.slice/{ID}")] {
        assert_eq!(disk.told(&path), want, "{path}");
    }
    let labels = r#"{"io.kubernetes.container.name":"app","io.kubernetes.pod.name":"cart-7d9","io.kubernetes.pod.namespace":"shop"}"#;
    disk.put(&state, &file("k8s_app_cart-7d9_shop_1_0", labels));
    assert_eq!(disk.told(&format!("/docker/{ID}")), found(Runtime::Docker, "shop/cart-7d9/app", "nginx:1.25"));
    // A configured state directory.
    fs::remove_file(disk.0.path().join(&state)).expect("removed");
    assert_eq!(disk.told(&format!("/docker/{ID}")), Some((Runtime::Docker, ID[..12].to_owned(), String::new(), false)));
    disk.put("etc/docker/daemon.json", r#"{"data-root":"/data/docker","log-level":"warn"}"#);
    disk.put(&format!("data/docker/containers/{ID}/config.v2.json"), &file("web", "{}"));
    assert_eq!(disk.told(&format!("/docker/{ID}")), want);
}

#[test]
fn podman_and_crio_keep_names_in_their_storage() {
    let disk = Disk::new();
    let list = |name: &str| {
        let metadata = r#"{\"image-name\":\"docker.io/library/nginx:latest\",\"image-id\":\"1\",\"name\":\"web\"}"#;
        format!(
            r#"[{{"id":"{SANDBOX}","names":["other"]}},{{"id":"{ID}","names":["{name}"],"metadata":"{metadata}"}}]"#
        )
    };
    let path = disk.put("var/lib/containers/storage/overlay-containers/containers.json", &list("web"));
    let scope = format!("/machine.slice/libpod-{ID}.scope/container");
    assert_eq!(disk.told(&scope), found(Runtime::Podman, "web", "docker.io/library/nginx:latest"));
    // A list is read again only after it has changed.
    let mut reader = disk.reader();
    let name = |reader: &mut Reader| reader.name(&scope, || None).expect("there").0.container.name.to_string();
    assert_eq!(name(&mut reader), "web");
    fs::write(&path, list("renamed")).expect("written");
    assert_eq!(name(&mut reader), "renamed");
    // In a pod, its bundle is like CRI-O's except for the manager, and the pod's name is in a database.
    let bundle = format!("var/lib/containers/storage/overlay-containers/{ID}/userdata/config.json");
    disk.put(
        &bundle,
        &format!(
            r#"{{"annotations":{{"io.container.manager":"libpod","io.kubernetes.cri-o.ContainerType":"container",
            "io.kubernetes.cri-o.SandboxID":"{SANDBOX}"}}}}"#
        ),
    );
    let image = "docker.io/library/nginx:latest";
    assert_eq!(disk.told(&scope), found(Runtime::Podman, "renamed", image));
    let config = format!(r#"{{"id":"{SANDBOX}","name":"cart","labels":{{}},"cgroupParent":"/libpod_parent"}}"#);
    for database in ["libpod/bolt_state.db", "db.sql"] {
        let path = disk.put(&format!("var/lib/containers/storage/{database}"), &format!("page{config}name"));
        assert_eq!(disk.told(&scope), found(Runtime::Podman, "cart/renamed", image), "{database}");
        fs::remove_file(path).expect("removed");
    }
    fs::remove_file(disk.0.path().join(&bundle)).expect("removed");
    // CRI-O's bundle is in the run directory.
    let userdata = format!("run/containers/storage/overlay-containers/{ID}/userdata/config.json");
    disk.put(
        &userdata,
        &format!(
            r#"{{"annotations":{{"io.kubernetes.cri-o.ContainerType":"container","io.kubernetes.cri-o.SandboxID":"{SANDBOX}",
            "io.kubernetes.cri-o.ImageName":"quay.io/app:2","io.kubernetes.container.name":"app",
            "io.kubernetes.pod.name":"cart-7d9","io.kubernetes.pod.namespace":"shop"}}}}"#
        ),
    );
    let crio = format!("/kubepods.slice/kubepods-pod{}.slice/crio-{ID}.scope", UID.replace('-', "_"));
    assert_eq!(disk.told(&crio), found(Runtime::Crio, "shop/cart-7d9/app", "quay.io/app:2"));
}

/// Rootless containers have their state in the user's home, which is read with the user's rights only.
#[test]
fn a_users_own_containers_are_named_with_the_users_rights() {
    let disk = Disk::new();
    disk.put("etc/passwd", "root:x:0:0::/root:/bin/sh\nann:x:4242:4242:Ann:/home/ann:/bin/sh\n");
    let home = "home/ann/.local/share/containers/storage/overlay-containers";
    let list = disk.put(&format!("{home}/containers.json"), &format!(r#"[{{"id":"{ID}","names":["mine"]}}]"#));
    let scope = format!("/user.slice/user-4242.slice/user@4242.service/user.slice/libpod-{ID}.scope");
    let name = || disk.told(&scope).expect("a container");
    assert_eq!(name().1, "mine");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // A link that leads out of the directory, and a file that the user cannot read, are ignored.
    let (folder, secret) = (
        list.parent().expect("a folder"),
        disk.put("secret.json", &format!(r#"[{{"id":"{ID}","names":["secret"]}}]"#)),
    );
    chown(folder, Some(4242), Some(4242)).expect("owner");
    assert_eq!(name().1, "mine");
    fs::remove_file(&list).expect("removed");
    symlink(&secret, &list).expect("link");
    assert_eq!((name().1, name().3), (ID[..12].to_owned(), false));
    fs::remove_file(&list).expect("removed");
    fs::rename(&secret, &list).expect("moved");
    fs::set_permissions(&list, fs::Permissions::from_mode(0o600)).expect("mode");
    assert_eq!((name().1, name().3), (ID[..12].to_owned(), false));
    chown(&list, Some(4242), Some(4242)).expect("owner");
    assert_eq!(name().1, "secret");
}

#[test]
fn what_no_runtime_tells_is_told_by_kubelets_logs_or_by_its_id() {
    let disk = Disk::new();
    let path = format!("/kubepods/burstable/pod{UID}/{ID}");
    let short = Some((Runtime::Unknown, format!("0c2d6f3e/{}", &ID[..12]), String::new(), false));
    assert_eq!(disk.told(&path), short);
    disk.put(&format!("var/log/pods/shop_cart-7d9_{UID}/app/0.log"), "");
    assert_eq!(disk.told(&path), found(Runtime::Unknown, &format!("shop/cart-7d9/{}", &ID[..12]), ""));
    disk.put(&format!("var/log/containers/cart-7d9_shop_app-{ID}.log"), "");
    assert_eq!(disk.told(&path), found(Runtime::Unknown, "shop/cart-7d9/app", ""));
    assert_eq!(disk.told("/lxc.payload.web"), found(Runtime::Lxc, "web", ""));
}

#[test]
fn state_that_is_broken_or_too_large_tells_nothing() {
    let disk = Disk::new();
    let state = format!("var/lib/docker/containers/{ID}/config.v2.json");
    let is_named = || disk.told(&format!("/docker/{ID}")).expect("a container").3;
    for text in ["", "{", "[]", r#"{"Name":5}"#, "\u{0}\u{1}"] {
        disk.put(&state, text);
        assert!(!is_named(), "{text}");
    }
    let file = fs::File::options()
        .write(true)
        .open(disk.put(&state, r#"{"Name":"/web","Config":{"Image":"i"}}"#))
        .expect("open");
    assert!(is_named());
    file.set_len(64 << 20).expect("sparse");
    assert!(!is_named());
}

#[test]
fn names_of_hundreds_of_containers_are_read_once() {
    let disk = Disk::new();
    let id = |at: usize| format!("{at:064x}");
    let entries: Vec<String> = (0..500).map(|at| format!(r#"{{"id":"{}","names":["c{at}"]}}"#, id(at))).collect();
    disk.put("var/lib/containers/storage/overlay-containers/containers.json", &format!("[{}]", entries.join(",")));
    for at in 500..1000 {
        let bundle = format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json", id(at));
        let name = format!(r#","io.kubernetes.cri.container-name":"c{at}"{POD},"x":"{}""#, "y".repeat(8000));
        disk.put(&bundle, &cri("container", &name));
    }
    let (mut reader, before) = (disk.reader(), READS.get());
    for at in 0..1000 {
        let runtime = if at < 500 { "libpod" } else { "cri-containerd" };
        let (named, found) = reader.name(&format!("/x.slice/{runtime}-{}.scope", id(at)), || None).expect("one");
        assert!(found && *named.container.name == *format!("c{at}"), "{named:?}");
    }
    let read = READS.get() - before;
    assert!(read <= 1000 + 1, "{read} files for 1,000 containers, 500 in one store");
}
