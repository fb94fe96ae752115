//! The cost of container names: `cargo bench --bench containers`.
//!
//! 500 containers of each of two runtimes are in directories like those of Docker and Kubernetes with containerd, each
//! with a cgroup and 20 processes. They are discovered and named, then discovered again, as in a live session.

use std::path::Path;
use std::time::{Duration, Instant};

use perfprof_tui::record::Record;
use perfprof_tui::session::{Origin, Session};
use perfprof_tui::source::containers::Reader;
use perfprof_tui::source::live::containers::Scanner;

const CONTAINERS: u64 = 500;
const PROCESSES: i32 = 10_000;

/// An ID, the path of its cgroup, and its state: path and content.
fn container(at: u64) -> (String, String, String) {
    let (id, more) = (format!("{at:064x}"), "x".repeat(6000));
    if at.is_multiple_of(2) {
        let state = format!(r#"{{"Name":"/web-{at}","Config":{{"Image":"nginx","Labels":{{"x":"{more}"}}}}}}"#);
        return (format!("docker/{id}"), format!("var/lib/docker/containers/{id}/config.v2.json"), state);
    }
    let state = format!(
        r#"{{"process":{{"env":["{more}"]}},"annotations":{{"io.kubernetes.cri.container-type":"container",
        "io.kubernetes.cri.container-name":"app","io.kubernetes.cri.sandbox-name":"cart-{at}",
        "io.kubernetes.cri.sandbox-namespace":"shop"}}}}"#
    );
    let group = format!("kubepods.slice/kubepods-pod{at}.slice/cri-containerd-{id}.scope");
    (group, format!("run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json"), state)
}

fn main() {
    let (tree, disk) = (tempfile::tempdir().expect("dir"), tempfile::tempdir().expect("dir"));
    let put = |path: &Path, text: &str| {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    for (group, path, state) in (0..2 * CONTAINERS).map(container) {
        std::fs::create_dir_all(tree.path().join(group)).expect("made");
        put(&disk.path().join(path), &state);
    }
    let mut scanner = Scanner::of(vec![tree.path().to_owned()], true, Reader::below(disk.path().to_owned()));
    let started = Instant::now();
    let came = scanner.look().came;
    let first = started.elapsed();
    assert!(came.len() as u64 == 2 * CONTAINERS && came.iter().all(|one| one.named.container.name.len() < 12));
    let again = median(|| assert!(scanner.look().came.is_empty()));

    let mut session = Session::new(Origin::Recorded);
    for (at, running) in came.iter().enumerate() {
        session.apply(&Record::Cgroup { id: at as u64 + 1, path: running.named.root.as_bytes() }, 1);
    }
    let named: Vec<_> = came.into_iter().map(|running| running.named).collect();
    let started = Instant::now();
    session.name_containers(named);
    let taken = started.elapsed();
    let tasks: Vec<_> = (1..=PROCESSES).map(|pid| session.task(pid, pid)).collect();
    let each = median(|| (1..=PROCESSES).zip(&tasks).for_each(|(pid, id)| assert_eq!(session.task(pid, pid), *id)));

    println!("{} containers, {PROCESSES} processes", 2 * CONTAINERS);
    println!("found and named, each:                    {:>8.1?}", first / (2 * CONTAINERS as u32));
    println!("added to the session, each:               {:>8.1?}", taken / (2 * CONTAINERS as u32));
    println!("scanned again, four times per second:     {again:>8.1?}");
    println!("a sample's task, with its container:      {:>8.1?}", each / PROCESSES as u32);
}

fn median(mut run: impl FnMut()) -> Duration {
    let mut times: Vec<Duration> = (0..21)
        .map(|_| {
            let started = Instant::now();
            run();
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
