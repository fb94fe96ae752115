//! Pods of a private containerd: real containers with a shell and the labels that kubelet sets.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::process::ran;

/// A containerd with its own folder. Its containers end when this is dropped.
pub struct Pods {
    dir: tempfile::TempDir,
    daemon: Child,
    running: Vec<String>,
    /// The namespace of its pods, unique to the test.
    pub namespace: String,
}

/// The workload of a container.
#[derive(Clone, Copy)]
pub enum Does {
    Burn,
    Sleep,
}

/// Number of instances started so far.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// A shell loop that uses a part of a CPU: enough to be seen, and the other tests have the rest.
pub const BURNS: &str = "while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.03; done";

const BUSYBOX: &str = "/bin/busybox";

impl Pods {
    /// Starts the daemon; the error names what this machine lacks.
    pub fn start() -> Result<Self, String> {
        for (program, package) in [("containerd", "containerd"), ("ctr", "containerd"), ("runc", "runc")] {
            let found = Command::new(program).arg("--version").stdout(Stdio::null()).status();
            found.map_err(|error| format!("{program} is not installed ({package}): {error}"))?;
        }
        if !Path::new(BUSYBOX).exists() {
            return Err(format!("{BUSYBOX} is not installed (busybox-static)"));
        }
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("rootfs/bin")).expect("made");
        super::copy_program(BUSYBOX, at("rootfs/bin/busybox"));
        for name in ["sh", "sleep"] {
            std::os::unix::fs::symlink("busybox", at(&format!("rootfs/bin/{name}"))).expect("link");
        }
        let config = format!(
            "version = 2\nroot = {:?}\nstate = {:?}\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\naddress = {:?}\n",
            at("root"),
            at("state"),
            at("sock")
        );
        std::fs::write(at("config.toml"), config).expect("written");
        let mut daemon = Command::new("containerd");
        let daemon = daemon.arg("-c").arg(at("config.toml")).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = daemon.spawn().map_err(|error| error.to_string())?;
        let namespace = format!("shop-{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let pods = Self { daemon, dir, running: Vec::new(), namespace };
        let until = Instant::now() + Duration::from_secs(120);
        while !pods.ctr(&["version"]).status.success() {
            if Instant::now() > until {
                return Err("containerd does not respond".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(pods)
    }

    fn ctr(&self, args: &[&str]) -> Output {
        let socket = self.dir.path().join("sock");
        let mut ctr = Command::new("ctr");
        ctr.arg("-a").arg(socket).args(["-n", "k8s.io"]).args(args).stdin(Stdio::null()).output().expect("ctr")
    }

    /// The root file system, which has a shell.
    fn rootfs(&self) -> PathBuf {
        self.dir.path().join("rootfs")
    }

    /// The id of a container, unique to the test.
    fn id(&self, pod: &str, name: &str) -> String {
        format!("{}-{pod}-{name}", self.namespace)
    }

    /// Runs a container of a pod.
    ///
    /// # Errors
    /// The message of ctr.
    pub fn run(&mut self, pod: &str, name: &str, does: Does) -> Result<(), String> {
        let work = match does {
            Does::Burn => BURNS,
            Does::Sleep => "while :; do sleep 1; done",
        };
        self.run_in(pod, name, &self.rootfs(), &["/bin/sh", "-c", work])
    }

    /// Runs a container with another program and root file system.
    ///
    /// # Errors
    /// The message of ctr.
    pub fn run_in(&mut self, pod: &str, name: &str, rootfs: &Path, work: &[&str]) -> Result<(), String> {
        let id = self.id(pod, name);
        let labels = [("pod.name", pod), ("pod.namespace", self.namespace.as_str()), ("container.name", name)];
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("io.kubernetes.{key}={value}")).collect();
        let mut args = vec!["run", "-d", "--rootfs"];
        labels.iter().for_each(|label| args.extend(["--label", label.as_str()]));
        let rootfs = rootfs.display().to_string();
        args.extend([rootfs.as_str(), id.as_str()]);
        args.extend(work);
        let done = self.ctr(&args);
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        self.running.push(id);
        Ok(())
    }

    /// Limits a container's CPU time, in percent of a CPU.
    ///
    /// Returns `false` if there is no CPU controller.
    pub fn limit(&self, pod: &str, name: &str, percent: u32) -> bool {
        let (id, quota) = (self.id(pod, name), 1000 * percent);
        let mut dirs = perfprof_tui::kernel::cgroup::trees().into_iter().map(|tree| tree.join("k8s.io").join(&id));
        let set = |dir: PathBuf| {
            let write = |file: &str, text: String| {
                let path = dir.join(file);
                path.exists() && std::fs::write(path, text).is_ok()
            };
            write("cpu.max", format!("{quota} 100000")) || write("cpu.cfs_quota_us", quota.to_string())
        };
        dirs.any(set)
    }

    /// Returns the CPU time of a container.
    pub fn ran(&self, pod: &str, name: &str) -> Duration {
        let id = self.id(pod, name);
        let groups = perfprof_tui::kernel::cgroup::trees().into_iter().map(|tree| tree.join("k8s.io").join(&id));
        let lists = groups.filter_map(|group| std::fs::read_to_string(group.join("cgroup.procs")).ok());
        // Every hierarchy lists the same processes.
        let pids = lists.max_by_key(String::len).unwrap_or_default();
        pids.lines().filter_map(|pid| pid.parse().ok()).map(ran).sum()
    }

    /// Ends a container.
    pub fn end(&mut self, pod: &str, name: &str) {
        let id = self.id(pod, name);
        self.running.retain(|running| *running != id);
        self.remove(&id);
    }

    fn remove(&self, id: &str) {
        self.ctr(&["task", "kill", "-s", "KILL", id]);
        let until = Instant::now() + Duration::from_secs(60);
        while !self.ctr(&["task", "rm", id]).status.success() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.ctr(&["containers", "rm", id]);
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        std::mem::take(&mut self.running).iter().for_each(|id| self.remove(id));
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}
