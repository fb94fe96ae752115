//! Tests of cgroup paths, and of the file format.

use super::*;
use crate::damage;
use proptest::prelude::*;

const ID: &str = "4f1c0a7be2d94f1c0a7be2d94f1c0a7be2d94f1c0a7be2d94f1c0a7be2d9aaaa";
const INNER: &str = "bbbb0a7be2d94f1c0a7be2d94f1c0a7be2d94f1c0a7be2d94f1c0a7be2d9bbbb";
const UID: &str = "0c2d6f3e-94b0-4a3e-8d1c-3a9be6d7f101";

fn of(path: &str) -> (Runtime, String, String, String) {
    let places = places(path);
    let place = places.first().expect(path);
    let container = place.container();
    (container.runtime, container.name.to_string(), container.pod.to_string(), place.root.to_owned())
}

#[test]
fn every_runtimes_paths_are_known_by_both_drivers() {
    let (uid, short) = (UID.replace('-', "_"), &ID[..12]);
    let slice = format!("/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice");
    let kubelet = format!("/kubepods/burstable/pod{UID}");
    let table = [
        (format!("{slice}/cri-containerd-{ID}.scope"), Runtime::Containerd, "0c2d6f3e"),
        (format!("{slice}/crio-{ID}.scope"), Runtime::Crio, "0c2d6f3e"),
        (format!("{slice}/docker-{ID}.scope"), Runtime::Docker, "0c2d6f3e"),
        (format!("/kubepods.slice/kubepods-pod{uid}.slice/cri-containerd-{ID}.scope"), Runtime::Containerd, "0c2d6f3e"),
        (format!("/kubelet.slice/kubelet-kubepods.slice/cri-containerd-{ID}.scope"), Runtime::Containerd, ""),
        (format!("{kubelet}/{ID}"), Runtime::Unknown, "0c2d6f3e"),
        (format!("/kubepods/pod{UID}/crio-{ID}"), Runtime::Crio, "0c2d6f3e"),
        (format!("/system.slice/containerd.service/kubepods-x.slice:cri-containerd:{ID}"), Runtime::Containerd, ""),
        (format!("/system.slice/docker-{ID}.scope"), Runtime::Docker, ""),
        (format!("/docker/{ID}"), Runtime::Docker, ""),
        (format!("/libpod_parent/libpod-{ID}"), Runtime::Podman, ""),
        (format!("/machine.slice/libpod-{ID}.scope"), Runtime::Podman, ""),
        (format!("/machine.slice/machine-libpod_pod_{INNER}.slice/libpod-{ID}.scope"), Runtime::Podman, "bbbb0a7b"),
        (format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{ID}.scope"), Runtime::Podman, ""),
    ];
    for (path, runtime, pod) in &table {
        let want = (*runtime, short.to_owned(), (*pod).to_owned(), path.clone());
        assert_eq!(of(path), want, "{path}");
        // Cgroups created inside the container belong to it.
        let below = format!("{path}/system.slice/cron.service");
        assert_eq!(of(&below), want, "{below}");
    }
}

#[test]
fn what_is_called_by_a_name_stays_whole() {
    let table = [
        ("/lxc.payload.web-1", Runtime::Lxc, "web-1", "/lxc.payload.web-1"),
        ("/lxc/web-1/system.slice/cron.service", Runtime::Lxc, "web-1", "/lxc/web-1"),
        (
            "/machine.slice/machine-my\\x2dbox.scope/payload",
            Runtime::Machine,
            "my-box",
            "/machine.slice/machine-my\\x2dbox.scope",
        ),
        (
            "/machine.slice/systemd-nspawn@deb.service",
            Runtime::Machine,
            "deb",
            "/machine.slice/systemd-nspawn@deb.service",
        ),
        ("/system.slice/nginx.service", Runtime::Systemd, "nginx.service", "/system.slice/nginx.service"),
        (
            "/user.slice/user-0.slice/session-3.scope",
            Runtime::Systemd,
            "session-3.scope",
            "/user.slice/user-0.slice/session-3.scope",
        ),
        (
            "/user.slice/user@0.service/app.slice/app-a\\x2db.scope",
            Runtime::Systemd,
            "app-a-b.scope",
            "/user.slice/user@0.service/app.slice/app-a\\x2db.scope",
        ),
        ("/system.slice", Runtime::Systemd, "system.slice", "/system.slice"),
        ("/k8s.io/cart-app", Runtime::Plain, "k8s.io/cart-app", "/k8s.io/cart-app"),
        ("/../other/web", Runtime::Plain, "other/web", "/../other/web"),
    ];
    for (path, runtime, name, root) in table {
        assert_eq!(of(path), (runtime, name.to_owned(), String::new(), root.to_owned()), "{path}");
    }
    for path in ["", "/", "/../.."] {
        assert_eq!(places(path), [], "{path}");
    }
    // The monitor of a container does not count as one, and a number of another length is not an id.
    assert_eq!(of(&format!("/machine.slice/libpod-conmon-{ID}.scope")).0, Runtime::Systemd);
    assert_eq!(of("/web/0123456789abcdef0123456789abcdef").0, Runtime::Plain);
}

#[test]
fn of_nested_containers_the_innermost_comes_first() {
    let path = format!("/docker/{ID}/kubelet.slice/kubelet-kubepods-pod{UID}.slice/cri-containerd-{INNER}.scope");
    let list: Vec<_> = places(&path).iter().map(|place| (place.runtime, place.id.to_owned())).collect();
    assert_eq!(list, [(Runtime::Containerd, INNER.to_owned()), (Runtime::Docker, ID.to_owned())]);
}

#[test]
fn a_container_is_called_by_name_id_or_pattern() {
    let container = Container { id: ID.into(), name: "cart".into(), ..Container::default() };
    for (word, is) in [("cart", true), ("4f1c0a", true), ("4f1", false), ("car", false), (ID, true)] {
        assert_eq!(container.is_called(word, |_| false), is, "{word}");
    }
    assert!(container.is_called("c*", |name| name.starts_with('c')));
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    let field = || prop_oneof![9 => "[a-zé /]{0,8}", 1 => any::<String>()];
    let root = prop_oneof![9 => "/[a-z/]{0,9}", 1 => any::<String>()];
    let line = (root, "containerd|docker|cri-o|what", field(), field(), field());
    let line = line.prop_map(|(root, runtime, a, b, c)| format!("{root}\t{runtime}\t{a}\t{b}\t{c}\tns\timage\n"));
    let lines = proptest::collection::vec(line, 0..6);
    damage::bytes(4, lines.prop_map(|lines| format!("{HEAD}\n{}", lines.concat()).into_bytes()))
}

#[test]
fn whatever_a_file_has_is_read() {
    damage::reaching(256, 40, file(), |bytes| {
        let list = decode(&bytes);
        assert_eq!(decode(&encode(list.iter())), list);
        for NamedContainer { root, container } in &list {
            assert!(root.starts_with('/') && !root.contains(char::is_control), "{root:?}");
            assert!(container.name.len() <= MAX_NAME && !container.name.contains(char::is_control));
        }
        !list.is_empty()
    });
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn a_place_is_a_part_of_the_path(path in "(/(pod|libpod-|docker-|machine-|[a-f0-9]{64}|\\.\\.|\\\\x2|é|[a-z.]{0,6}){0,3}(\\.slice|\\.scope|\\.service)?){0,5}") {
        for place in places(&path) {
            prop_assert!(path.starts_with(place.root) && place.root.ends_with(place.id) || place.root.contains(place.id));
            prop_assert!(!place.id.is_empty());
            let _ = place.container();
        }
    }
}
