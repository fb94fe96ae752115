//! Processes that tests start, and their state while they run.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A child process that is killed on drop.
pub struct Running(pub Child);

impl Running {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// A process that sleeps for longer than any test takes.
    ///
    /// # Panics
    /// If it does not start.
    pub fn sleeping() -> Self {
        Self(Command::new("sleep").arg(SECONDS.to_string()).spawn().expect("sleep starts"))
    }

    /// A busy program of `tests/data/bin` that runs for longer than any test takes.
    ///
    /// # Panics
    /// If it does not start.
    pub fn busy(name: &str) -> Self {
        let mut command = Command::new(super::data("bin").join(name));
        command.arg(format!("{SECONDS}000")).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("it starts"))
    }
}

/// The duration of processes that tests end.
const SECONDS: u32 = 900;

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sets a flag on drop, so that a thread that polls it ends even if the test fails.
pub struct Stops<'a>(pub &'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A generous timeout; a passing test does not wait for it.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Waits until a condition holds.
///
/// # Panics
/// After [`PATIENCE`].
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the end of a process.
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

/// Repeats an attempt with more seconds until it succeeds: a busy machine loads tables late.
pub fn with_time(seconds: &[u32], attempt: impl Fn(u32) -> Result<(), String>) {
    let mut failure = String::new();
    for seconds in seconds {
        match attempt(*seconds) {
            Ok(()) => return,
            Err(error) => {
                eprintln!("in {seconds} s: {error}");
                failure = error;
            }
        }
    }
    panic!("{failure}");
}

/// Returns how many perf events a process has open.
pub fn events(pid: u32) -> usize {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let files = open.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    files.filter(|file| file.to_string_lossy().ends_with("[perf_event]")).count()
}

/// Returns whether a process has perf events open.
pub fn has_events(pid: u32) -> bool {
    events(pid) > 0
}

/// Returns the state of a process, as in /proc/PID/stat: `R`, `S`, `T`, `Z`.
pub fn state(pid: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// Returns whether unshare(1) or the mounts in its namespace failed: this user may not create namespaces.
pub fn cannot_unshare(said: &str) -> bool {
    ["unshare:", "mount:"].iter().any(|program| said.lines().any(|line| line.starts_with(program)))
}

/// Returns the CPU time of a process's threads, from schedstat.
pub fn ran(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    Duration::from_nanos(stats.filter_map(|text| text.split(' ').next()?.parse::<u64>().ok()).sum())
}

/// A shell command that runs until it has used a CPU for some milliseconds, on slow and on fast machines.
pub fn uses_cpu(milliseconds: u32) -> String {
    // Times of processes are hundredths of a second (proc_pid_stat(5)).
    let most = milliseconds.div_ceil(10);
    format!(
        "b=; while read -r _ _ _ _ _ _ _ _ _ _ _ _ _ u s _ < /proc/self/stat; \
         [ $((u + s - ${{b:=$((u + s))}})) -lt {most} ]; do i=0; while [ $i -lt 1000 ]; do i=$((i+1)); done; done"
    )
}

/// Barriers between a test and its shell command: files in a folder.
pub struct Gates<'a>(pub &'a std::path::Path);

impl Gates<'_> {
    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// A shell command that reports its arrival at a barrier.
    pub fn here(&self, name: &str) -> String {
        format!("touch {}", self.file(name))
    }

    /// A shell command that waits, for a minute at most, until a barrier is open.
    pub fn wait(&self, name: &str) -> String {
        format!("i=0; while [ ! -e {} ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done", self.file(name))
    }

    pub fn open(&self, name: &str) {
        std::fs::write(self.file(name), "").expect("written");
    }

    /// Returns whether a command has arrived.
    pub fn is_here(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    /// Waits until a command arrives.
    pub fn until(&self, name: &str) {
        until(name, || self.is_here(name));
    }
}
