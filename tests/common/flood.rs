//! A flood of packets between two network namespaces, received on one CPU: a harmless softirq incident of bounded
//! length. The sender runs on its own CPU at the highest priority, so that the flood arrives even on a busy machine.

use std::process::{Child, Command, Stdio};

/// The namespaces and the sender.
pub struct Flood {
    names: [String; 2],
    sender: Option<Child>,
}

fn ip(args: &[&str]) -> Result<(), String> {
    let out = Command::new("ip").args(args).output().map_err(|e| format!("ip: {e}"))?;
    let said = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    if out.status.success() { Ok(()) } else { Err(format!("ip {}: {said}", args.join(" "))) }
}

impl Flood {
    /// Starts a sender to a bridge in another namespace whose packets are received on `cpu`.
    ///
    /// `helper` is an ignored test of the calling file that runs [`send`]. The error names what this machine lacks.
    pub fn start(cpu: u32, helper: &str) -> Result<Self, String> {
        let names = ["from", "to"].map(|side| format!("perfprof-{side}-{}", std::process::id()));
        let mut flood = Self { names: names.clone(), sender: None };
        let [from, to] = &names;
        for name in &names {
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        ip(&["-n", to, "link", "add", "br0", "type", "bridge"])?;
        ip(&["-n", to, "link", "add", "p0", "type", "veth", "peer", "name", "c0", "netns", from])?;
        ip(&["-n", to, "link", "set", "p0", "master", "br0"])?;
        ip(&["-n", to, "addr", "add", "10.78.1.1/24", "dev", "br0"])?;
        ip(&["-n", from, "addr", "add", "10.78.1.2/24", "dev", "c0"])?;
        for (name, link) in [(to, "p0"), (to, "br0"), (from, "c0")] {
            ip(&["-n", name, "link", "set", link, "up"])?;
        }
        let steer = format!("echo {:x} > /sys/class/net/p0/queues/rx-0/rps_cpus", 1u64 << cpu);
        ip(&["netns", "exec", to, "sh", "-c", &steer])?;
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", from]).arg(program).args(["--ignored", "--exact", helper]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        flood.sender = Some(child.map_err(|e| e.to_string())?);
        Ok(flood)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        if let Some(mut sender) = self.sender.take() {
            let _ = sender.kill();
            let _ = sender.wait();
        }
        for name in &self.names {
            let _ = ip(&["netns", "del", name]);
        }
    }
}

/// Sends datagrams to the bridge for this many seconds, from the first CPU and at the highest priority.
pub fn send(seconds: u64) {
    let mut first = rustix::thread::CpuSet::new();
    first.set(0);
    rustix::thread::sched_setaffinity(None, &first).expect("pinned");
    rustix::process::setpriority_process(None, -20).expect("a priority");
    // Priorities are compared within a session; those of sessions are compared if the kernel has autogroups.
    let _ = rustix::process::setsid();
    let _ = std::fs::write("/proc/self/autogroup", "-20");
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").expect("bind");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
    while std::time::Instant::now() < end {
        for _ in 0..256 {
            // Ignore errors: the port is closed, and the queue may be full.
            let _ = socket.send_to(&[0; 32], "10.78.1.1:9");
        }
    }
}
