//! Processes that tests start, and what is known of them while they run.

use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A process that ends with this.
pub struct Running(pub Child);

impl Running {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends a thread that looks at this, however the test ends.
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How long something may take to come about; generous, as nothing waits for it to pass.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until something is so.
///
/// # Panics
/// When it is not in [`PATIENCE`].
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a process has ended.
pub fn ended(child: &mut std::process::Child) -> std::process::ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("wait") {
            return status;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How many events of the kernel a process has open.
pub fn events(pid: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let files = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    files.filter(|file| file.to_string_lossy().contains("[perf_event]")).count()
}

/// True if a process has events of the kernel open.
pub fn has_events(pid: u32) -> bool {
    events(pid) > 0
}

/// The time that the threads of a process had on the CPUs, by the scheduler's account.
pub fn ran(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    Duration::from_nanos(stats.filter_map(|text| text.split(' ').next()?.parse::<u64>().ok()).sum())
}

/// Places where a command of a test waits, and where the test waits for it: files in a folder.
pub struct Gates<'a>(pub &'a std::path::Path);

impl Gates<'_> {
    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Words of a shell that say it is here.
    pub fn here(&self, name: &str) -> String {
        format!("touch {}", self.file(name))
    }

    /// Words of a shell that wait until something is open, a minute at most.
    pub fn wait(&self, name: &str) -> String {
        format!("i=0; while [ ! -e {} ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done", self.file(name))
    }

    pub fn open(&self, name: &str) {
        std::fs::write(self.file(name), "").expect("written");
    }

    /// True once a command is here.
    pub fn is_here(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    /// Waits until a command is here.
    pub fn until(&self, name: &str) {
        until(name, || self.is_here(name));
    }
}
