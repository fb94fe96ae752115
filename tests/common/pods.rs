//! Pods of a containerd of our own: real containers of a file system with a shell, with the names that kubelet gives.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A containerd that keeps everything in a folder of its own, and what runs in it; all ends with it.
pub struct Pods {
    dir: tempfile::TempDir,
    daemon: Child,
    running: Vec<String>,
}

/// What a container does.
#[derive(Clone, Copy)]
pub enum Does {
    Burn,
    Sleep,
}

const BUSYBOX: &str = "/bin/busybox";

impl Pods {
    /// Starts it; why not, where that is not possible here.
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
        std::fs::copy(BUSYBOX, at("rootfs/bin/busybox")).expect("copied");
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
        let pods = Self { daemon: daemon.spawn().map_err(|error| error.to_string())?, dir, running: Vec::new() };
        let until = Instant::now() + Duration::from_secs(30);
        while !pods.ctr(&["version"]).status.success() {
            if Instant::now() > until {
                return Err("containerd does not answer".to_owned());
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

    pub fn rootfs(&self) -> PathBuf {
        self.dir.path().join("rootfs")
    }

    /// What it calls a container, which no other test has.
    pub fn id(pod: &str, name: &str) -> String {
        format!("{pod}-{name}-{}", std::process::id())
    }

    /// Runs a container of a pod in the namespace `shop`.
    ///
    /// # Errors
    /// What ctr says.
    pub fn run(&mut self, pod: &str, name: &str, does: Does) -> Result<(), String> {
        let (id, rootfs) = (Self::id(pod, name), self.rootfs());
        let labels = [("pod.name", pod), ("pod.namespace", "shop"), ("container.name", name)];
        let labels: Vec<String> = labels.iter().map(|(key, value)| format!("io.kubernetes.{key}={value}")).collect();
        let work = match does {
            Does::Burn => "while :; do :; done",
            Does::Sleep => "while :; do sleep 1; done",
        };
        let mut args = vec!["run", "-d", "--rootfs"];
        labels.iter().for_each(|label| args.extend(["--label", label.as_str()]));
        let rootfs = rootfs.display().to_string();
        args.extend([rootfs.as_str(), id.as_str(), "/bin/sh", "-c", work]);
        let done = self.ctr(&args);
        if !done.status.success() {
            return Err(String::from_utf8_lossy(&done.stderr).into_owned());
        }
        self.running.push(id);
        Ok(())
    }

    /// The first process of a container.
    pub fn pid(&self, pod: &str, name: &str) -> i32 {
        let (id, list) = (Self::id(pod, name), self.ctr(&["task", "ls"]).stdout);
        let list = String::from_utf8_lossy(&list).into_owned();
        let mut words = list.lines().find(|line| line.starts_with(&id)).expect("it runs").split_whitespace();
        words.nth(1).and_then(|pid| pid.parse().ok()).expect("a pid")
    }

    /// Ends a container.
    pub fn end(&mut self, pod: &str, name: &str) {
        let id = Self::id(pod, name);
        self.running.retain(|running| *running != id);
        self.remove(&id);
    }

    fn remove(&self, id: &str) {
        self.ctr(&["task", "kill", "-s", "KILL", id]);
        let until = Instant::now() + Duration::from_secs(10);
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
