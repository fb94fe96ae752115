//! The program in a pseudo-terminal: tests send keys and read the screen of a terminal emulator.

use std::io::{Read, Write};
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A script that replaces ssh, and its environment: it runs remote commands locally.
pub fn instead_of_ssh(dir: &std::path::Path, script: &str) -> [(&'static str, String); 2] {
    use std::os::unix::fs::PermissionsExt;
    let ssh = dir.join("ssh");
    std::fs::write(&ssh, script).expect("written");
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).expect("made to run");
    let program = env!("CARGO_BIN_EXE_perfprof-tui").to_owned();
    [("PERFPROF_SSH", ssh.to_string_lossy().into_owned()), ("PERFPROF_REMOTE", program)]
}

/// A running program with its screen.
pub struct Session {
    pub pty: pty_process::blocking::Pty,
    pub child: Child,
    pub screen: Arc<Mutex<(vt100::Parser, Vec<u8>)>>,
    /// Ends once the terminal is closed everywhere and all bytes are read.
    reader: std::thread::JoinHandle<()>,
}

pub fn cells(n: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(n).expect("not empty")
}

/// A terminal's answer to the attributes query; it does not report its background.
pub const ATTRIBUTES: &[u8] = b"\x1b[?62;4c";

pub use super::process::PATIENCE;

impl Session {
    pub fn start(args: &[&str], rows: u16, cols: u16) -> Self {
        Self::start_in(args, rows, cols, &[])
    }

    /// Starts the program with additional environment variables.
    pub fn start_in(args: &[&str], rows: u16, cols: u16, env: &[(&str, &str)]) -> Self {
        Self::start_as(args, rows, cols, env, ATTRIBUTES)
    }

    /// Starts the program in a terminal with this answer to the attributes query.
    pub fn start_as(args: &[&str], rows: u16, cols: u16, env: &[(&str, &str)], answer: &'static [u8]) -> Self {
        Self::spawn(env!("CARGO_BIN_EXE_perfprof-tui"), args, rows, cols, env, answer)
    }

    /// Starts another program that executes perfprof-tui.
    pub fn start_program(program: &str, args: &[&str], rows: u16, cols: u16) -> Self {
        Self::spawn(program, args, rows, cols, &[], ATTRIBUTES)
    }

    fn spawn(program: &str, args: &[&str], rows: u16, cols: u16, env: &[(&str, &str)], answer: &'static [u8]) -> Self {
        let (pty, pts) = pty_process::blocking::open().expect("pty");
        pty.resize(pty_process::Size::new(rows, cols)).expect("size");
        // The tests may run under nohup(1), which ignores SIGHUP.
        let command = pty_process::blocking::Command::new("env").args(["--default-signal=HUP", program]);
        // A clean environment and configuration, with CI set as services do.
        let command = command.args(args).env_clear().envs(super::environment()).env("TERM", "xterm-256color");
        let child = command.env("CI", "true").envs(env.iter().copied()).spawn(pts).expect("spawn");
        let parser = vt100::Parser::new(cells(rows), cells(cols), 0);
        let screen = Arc::new(Mutex::new((parser, Vec::new())));
        let shared = screen.clone();
        let mut reader = std::fs::File::from(std::os::fd::AsFd::as_fd(&pty).try_clone_to_owned().expect("dup"));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            let mut answered = false;
            while let Ok(n) = reader.read(&mut buffer) {
                // Answer the attributes query like a terminal.
                if !answered && memchr::memmem::find(&buffer[..n], b"\x1b[c").is_some() {
                    answered = true;
                    let _ = reader.write_all(answer);
                }
                let mut screen = shared.lock().expect("lock");
                screen.0.process(&buffer[..n]);
                screen.1.extend_from_slice(&buffer[..n]);
                if n == 0 {
                    return;
                }
            }
        });
        Self { pty, child, screen, reader }
    }

    pub fn text(&self) -> String {
        self.screen.lock().expect("lock").0.screen().contents()
    }

    /// Returns all bytes that the program has written.
    pub fn bytes(&self) -> Vec<u8> {
        self.screen.lock().expect("lock").1.clone()
    }

    pub fn wait_for(&self, what: &str) -> &Self {
        let start = Instant::now();
        while !self.text().contains(what) {
            assert!(start.elapsed() < PATIENCE, "no {what:?} on\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Waits until a line contains all of these.
    pub fn wait_for_line(&self, parts: &[&str]) -> &Self {
        let start = Instant::now();
        while !self.text().lines().any(|line| parts.iter().all(|part| line.contains(part))) {
            assert!(start.elapsed() < PATIENCE, "no line with {parts:?} on\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
        self
    }

    /// Waits until a text disappears from the screen.
    pub fn wait_until_gone(&self, what: &str) -> &Self {
        let start = Instant::now();
        while self.text().contains(what) {
            assert!(start.elapsed() < PATIENCE, "still {what:?} on\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
        self
    }

    pub fn keys(&mut self, keys: &str) -> &mut Self {
        self.pty.write_all(keys.as_bytes()).expect("write");
        self
    }

    pub fn end(&mut self) -> ExitStatus {
        /// The time after the program's end from which others have its terminal.
        const HELD_OPEN: Duration = Duration::from_secs(5);
        let (start, mut seen) = (Instant::now(), None);
        loop {
            let ended =
                self.child.try_wait().expect("wait").map(|status| (status, *seen.get_or_insert_with(Instant::now)));
            // A process that the program started may keep the terminal open.
            if let Some((status, at)) = ended
                && (self.reader.is_finished() || at.elapsed() > HELD_OPEN)
            {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "still running:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn is_restored(&self) -> bool {
        let bytes = self.bytes();
        let contains = |needle: &[u8]| memchr::memmem::rfind(&bytes, needle);
        contains(b"\x1b[?1049l") > contains(b"\x1b[?1049h") && contains(b"\x1b[?25h").is_some()
    }

    pub fn signal(&self, name: &str) {
        let status = std::process::Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.expect("kill").success());
    }
}

/// Kernel work by `dd` on a part of a CPU until it is dropped, visible on idle and on busy machines.
pub struct Work(Child);

impl Work {
    pub fn start() -> Self {
        let part = "while [ -e /proc/$PPID ]; do dd if=/dev/zero of=/dev/null bs=1M count=200; sleep 0.1; done";
        let mut sh = std::process::Command::new("sh");
        Self(sh.args(["-c", part]).stderr(std::process::Stdio::null()).spawn().expect("sh"))
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
