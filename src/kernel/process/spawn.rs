//! The profiled command, which is stopped before its `exec`, so that profiling starts with its first instruction.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, pidfd_open, waitid};
use rustix::stdio::stderr;

use super::privilege;

/// A command that waits for [`HeldCommand::release`] between fork and exec. `Command::spawn` returns only after the
/// exec, so a helper thread forks and blocks in it until the gate opens.
#[derive(Debug)]
pub struct HeldCommand {
    program: OsString,
    /// Where the program was found.
    path: Option<PathBuf>,
    pid: i32,
    gate: OwnedFd,
    spawning: std::thread::JoinHandle<io::Result<Child>>,
    fate: ExitOutcome,
}

/// The destination of a held command's output while a screen owns the terminal, or a recording standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    Inherit,
    /// Standard error, because standard output has a recording.
    ToErrors,
    Discard,
}

/// Checks that a program exists and may be run, before events are opened or a screen is drawn, and returns its path;
/// `None` if only the exec can find it.
fn find(program: &OsStr) -> io::Result<Option<PathBuf>> {
    let kind = |path: &Path| match rustix::fs::access(path, Access::EXEC_OK) {
        Ok(()) if path.is_dir() => Err(io::ErrorKind::PermissionDenied),
        Ok(()) => Ok(()),
        Err(errno) => Err(io::Error::from(errno).kind()),
    };
    let places: Vec<PathBuf> = match (program.as_encoded_bytes().contains(&b'/'), privilege::variable("PATH")) {
        (true, _) => vec![program.into()],
        (false, Some(path)) => std::env::split_paths(&path).map(|dir| dir.join(program)).collect(),
        // Where PATH is not trusted, the exec reports the error.
        (false, None) => return Ok(None),
    };
    let found: Vec<Result<(), io::ErrorKind>> = places.iter().map(|place| kind(place)).collect();
    // A file without the right to run it does not hide later ones, like in execvp(3).
    if let Some(at) = found.iter().position(Result::is_ok) {
        return Ok(std::path::absolute(&places[at]).ok());
    }
    let denied = found.contains(&Err(io::ErrorKind::PermissionDenied));
    let kind = if denied { io::ErrorKind::PermissionDenied } else { io::ErrorKind::NotFound };
    Err(named(program, kind.into()))
}

pub(crate) fn hold(command: &[OsString], output: Output) -> io::Result<HeldCommand> {
    let (program, args) = command.split_first().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let path = find(program)?;
    let (gate_read, gate) = pipe_with(PipeFlags::CLOEXEC)?;
    let (pid_read, pid_write) = pipe_with(PipeFlags::CLOEXEC)?;
    let mut cmd = Command::new(program);
    // The profiled command must not see the passwords of stores.
    cmd.env_remove("PERFPROF_PUSH_AUTH").env_remove("PERFPROF_STORE_AUTH");
    cmd.args(args);
    match output {
        Output::Inherit => {}
        Output::ToErrors => _ = cmd.stdout(fcntl_dupfd_cloexec(stderr(), 3)?),
        Output::Discard => _ = cmd.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()),
    }
    let gate_raw = gate.as_raw_fd();
    let hold = move || {
        super::own_memory::leave_children_as_they_are();
        super::limits::leave_children_their_files();
        // Close the child's copy of the write end; otherwise the read below would never see its end.
        // SAFETY: only this forked child's descriptor table is changed, and the child does not use that descriptor
        // again.
        unsafe { libc::close(gate_raw) };
        rustix::io::write(&pid_write, &std::process::id().to_le_bytes())?;
        let mut byte = [0];
        match rustix::io::read(&gate_read, &mut byte)? {
            1 => Ok(()),
            // The parent may have gone.
            // SAFETY: it ends this forked child alone, and runs none of the parent's exit handlers.
            _ => unsafe { libc::_exit(0) },
        }
    };
    // SAFETY: between fork and exec the closure makes only prctl, setrlimit, close, getpid, write and read calls, all
    // async-signal-safe, and does not allocate.
    unsafe { cmd.pre_exec(hold) };
    let spawning = crate::kernel::thread("spawn", move || cmd.spawn())?;
    let mut pid = [0; 4];
    match rustix::io::read(pid_read.as_fd(), &mut pid)? {
        4 => {
            let (program, pid) = (program.clone(), i32::from_le_bytes(pid));
            Ok(HeldCommand { program, path, pid, gate, spawning, fate: ExitOutcome::of(pid) })
        }
        _ => match spawning.join() {
            Ok(Err(error)) => Err(named(program, error)),
            _ => Err(io::Error::other("the child ended before it started")),
        },
    }
}

/// A program that cannot be run, with the message and the status of a shell (POSIX, Exit Status for Commands).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{program}: {reason}")]
pub(crate) struct NotRun {
    pub(crate) program: String,
    reason: &'static str,
    pub(crate) code: u8,
}

/// Names the program in an error of running it; other errors stay as the kernel reported them.
fn named(program: &OsStr, error: io::Error) -> io::Error {
    let program = program.display().to_string();
    let (reason, code) = match error.kind() {
        io::ErrorKind::NotFound if program.contains('/') => ("No such file or directory", 127),
        io::ErrorKind::NotFound => ("command not found", 127),
        io::ErrorKind::PermissionDenied => ("Permission denied", 126),
        _ => return error,
    };
    io::Error::new(error.kind(), NotRun { program, reason, code })
}

impl HeldCommand {
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns the absolute path of the program; `None` if only the exec can find it.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    pub(crate) fn fate(&self) -> ExitOutcome {
        self.fate.clone()
    }

    /// Lets the command run. The error is that of its exec: no such file, not executable.
    pub(crate) fn release(self) -> io::Result<RunningCommand> {
        rustix::io::write(&self.gate, &[1])?;
        drop(self.gate);
        let started = self.spawning.join().map_err(|_| io::Error::other("the starting thread ended"))?;
        let child = started.map_err(|error| named(&self.program, error))?;
        Ok(RunningCommand { child, fate: self.fate })
    }

    pub(crate) fn cancel(self) {
        drop(self.gate);
        if let Ok(Ok(mut ended)) = self.spawning.join() {
            let _ = ended.wait();
        }
    }
}

/// A running command. Dropping it ends the command in any case, because no other process waits for it.
#[derive(Debug)]
pub struct RunningCommand {
    child: Child,
    fate: ExitOutcome,
}

/// The time that a command has to end after SIGTERM. A command that ignores the signal is left running.
pub(crate) const FAREWELL: Duration = Duration::from_secs(5);

impl RunningCommand {
    #[cfg(test)]
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    pub(crate) fn fate(&self) -> ExitOutcome {
        self.fate.clone()
    }

    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let ended = self.child.try_wait()?;
        if let Some(status) = ended {
            self.fate.is(status, false);
        }
        Ok(ended)
    }

    #[cfg(test)]
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.fate.is(self.child.wait()?, false);
        Ok(())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        // Fails if it has ended already: then there is nothing to signal.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Returns whether a signal has stopped it. A stopped process handles no other signal until it is continued.
    pub(crate) fn is_stopped(&self) -> bool {
        let how = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), how), Ok(Some(_)))
    }

    /// Returns a descriptor that becomes readable when it ends.
    pub(crate) fn end_fd(&self) -> Option<OwnedFd> {
        pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).ok()
    }

    /// Ends it with SIGTERM if it still runs, as perf does. A stopped command is also continued, so that it can end.
    pub(crate) fn end(&mut self) {
        if !matches!(self.ended(), Ok(None)) {
            return;
        }
        self.signal(Signal::TERM);
        let until = Instant::now() + FAREWELL;
        while Instant::now() < until {
            if let Ok(Some(status)) = self.child.try_wait() {
                return self.fate.is(status, true);
            }
            if self.is_stopped() {
                self.signal(Signal::CONT);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a command ended, for messages after its owner is gone.
#[derive(Clone, Debug, Default)]
pub struct ExitOutcome {
    /// The command's process; 0 where there is no command.
    pid: i32,
    ended: Arc<OnceLock<(ExitStatus, bool)>>,
}

impl ExitOutcome {
    fn of(pid: i32) -> Self {
        Self { pid, ended: Arc::default() }
    }

    fn is(&self, status: ExitStatus, told: bool) {
        let _ = self.ended.set((status, told));
    }

    pub(crate) fn running(&self) -> Option<i32> {
        (self.pid > 0 && self.ended.get().is_none()).then_some(self.pid)
    }

    /// Returns the exit code of our program: the command's, like a shell's. A command that we ended after the
    /// measurement did not fail. If a signal `interrupted` the measurement, it interrupted both.
    pub(crate) fn code(&self, interrupted: bool) -> u8 {
        match self.ended.get() {
            Some((status, told)) if !told || interrupted => describe(*status).1 as u8,
            _ => 0,
        }
    }
}

/// Returns a description of how a command ended, and the exit code that a shell would return.
pub(crate) fn describe(status: ExitStatus) -> (String, i32) {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => (format!("exited with status {code}"), code),
        (None, Some(signal)) => (format!("was ended by signal {signal}"), 128 + signal),
        (None, None) => ("ended".to_owned(), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os_strings(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_held_command_runs_only_when_released() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("ran");
        let held = hold(&os_strings(&["touch", path.to_str().expect("utf8")]), Output::Discard).expect("hold");
        assert!(held.pid() > 0 && !path.exists());
        let fate = held.fate();
        held.release().expect("exec").wait().expect("wait");
        assert!(fate.code(true) == 0 && path.exists());
    }

    #[test]
    fn a_command_ends_with_its_owner_and_its_code_is_its_own() {
        let start = |line: &str| {
            let held = hold(&os_strings(&["sh", "-c", line]), Output::Discard).expect("hold");
            (held.fate(), held.release().expect("exec"))
        };
        for (line, code) in [("exit 7", 7), ("kill -KILL $$", 137), ("kill -TERM $$", 143)] {
            let (fate, mut command) = start(line);
            command.wait().expect("wait");
            drop(command);
            assert_eq!([false, true].map(|interrupted| fate.code(interrupted)), [code; 2], "{line}");
        }
        let (fate, command) = start("exec sleep 60");
        let pid = command.pid();
        assert_eq!(fate.code(true), 0);
        drop(command);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
        assert_eq!([false, true].map(|interrupted| fate.code(interrupted)), [0, 143]);
        // A stopped process cannot handle the signal.
        let (fate, command) = start("kill -STOP $$; exec sleep 60");
        while !command.is_stopped() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (pid, began) = (command.pid(), Instant::now());
        assert_eq!(fate.running(), Some(pid));
        drop(command);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists() && began.elapsed() < FAREWELL);
        assert_eq!((fate.code(true), fate.running()), (143, None));
        // It may handle SIGTERM.
        let (fate, command) = start("trap 'exit 3' TERM; while :; do sleep 0.05; done");
        std::thread::sleep(Duration::from_millis(200));
        drop(command);
        assert_eq!(fate.code(true), 3);
    }

    #[test]
    fn a_command_that_is_not_there_is_said_as_a_shell_does() {
        for (program, kind, words) in [
            ("/no/such/program", io::ErrorKind::NotFound, "/no/such/program: No such file or directory"),
            ("nosuchcommand", io::ErrorKind::NotFound, "nosuchcommand: command not found"),
            ("/", io::ErrorKind::PermissionDenied, "/: Permission denied"),
        ] {
            let error = hold(&[program.into()], Output::Discard).expect_err("nothing to hold");
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, words));
        }
        // The exec detects an executable file that is not a program.
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("empty-interpreter");
        std::fs::write(&path, "#!/no/such/interpreter\n").expect("written");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("executable");
        let held = hold(&os_strings(&[path.to_str().expect("utf8")]), Output::Discard).expect("hold");
        assert_eq!(held.release().expect_err("no exec").kind(), io::ErrorKind::NotFound);
        hold(&os_strings(&["true"]), Output::Discard).expect("hold").cancel();
        assert!(hold(&[], Output::Discard).is_err());
    }
}
