//! Live recordings of other machines: `ssh://[USER@]HOST[:PORT]` runs `perfprof-tui record` there and reads its output.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::Context;
use crossbeam_channel::{Receiver, bounded};

use crate::cli::{Usage, usage};
use crate::kernel::privilege;

/// The recorder on the other machine, run by ssh; dropping it ends both.
#[derive(Debug)]
pub(crate) struct Remote {
    child: Child,
    /// Address as the user typed it, and the host alone.
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) at: usize,
    /// Keeps the descriptor of the pipe open.
    _stream: OwnedFd,
    /// Messages of ssh and of the recorder; they cannot go to the terminal of the screen.
    said: Receiver<String>,
}

impl Remote {
    /// Returns the messages since the last call, with their machine.
    pub(crate) fn complaints(&self) -> impl Iterator<Item = String> + '_ {
        self.said.try_iter().map(|line| format!("{}: {line}", self.host))
    }
}

/// Maximum lines and bytes of pending messages.
const LINES: usize = 64;
const LINE: u64 = 500;

/// Reads all messages, so that the writer never blocks.
fn listen(stderr: ChildStderr) -> std::io::Result<Receiver<String>> {
    let (tell, said) = bounded(LINES);
    let read = move || {
        let mut lines = BufReader::new(stderr);
        loop {
            let mut line = Vec::new();
            match lines.by_ref().take(LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => drop(tell.try_send(String::from_utf8_lossy(&line).trim_end().to_owned())),
            }
        }
    };
    crate::kernel::thread("complaints", read)?;
    Ok(said)
}

impl Drop for Remote {
    fn drop(&mut self) {
        // When ssh ends, the closed pipe ends the recorder.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Parses an address such as `ssh://root@node-7:2222` into ssh's host and the port.
fn address(path: &Path) -> Option<Result<(String, Option<u16>), String>> {
    let rest = path.to_str()?.strip_prefix("ssh://")?;
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !port.contains(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let host = host.trim_end_matches('/');
    let name = host.rsplit('@').next().unwrap_or_default();
    // ssh would read a host with a leading dash as an option.
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%@".contains(c);
    if name.is_empty() || name.starts_with('-') || host.starts_with('-') || !host.chars().all(plain) {
        return Some(Err(format!("{}: expected ssh://[USER@]HOST[:PORT]", path.display())));
    }
    Some(match port.map(|port| port.trim_end_matches('/').parse()).transpose() {
        Ok(port) => Ok((host.to_owned(), port)),
        Err(_) => Err(format!("{}: the port is not a number", path.display())),
    })
}

/// Starts a recorder with these options for each path that is an address, and replaces the path by the pipe to read.
pub(crate) fn start(paths: &mut [PathBuf], options: &[String]) -> anyhow::Result<Vec<Remote>> {
    let mut out = Vec::new();
    for (at, path) in paths.iter_mut().enumerate() {
        let Some(address) = address(path) else { continue };
        let (host, port) = address.map_err(Usage)?;
        // Like GIT_SSH: another program that takes ssh's arguments.
        let ssh = privilege::variable("PERFPROF_SSH").unwrap_or_else(|| "ssh".into());
        let there = privilege::variable("PERFPROF_REMOTE").and_then(|path| path.into_string().ok());
        let there = there.unwrap_or_else(|| "perfprof-tui".to_owned());
        // The remote shell parses them again.
        let options = shlex::try_join(options.iter().map(String::as_str)).context("an option after --")?;
        let line = format!("{there} record -q -o - --names {options}").trim_end().to_owned();
        let mut command = Command::new(&ssh);
        command.args(port.map(|port| ["-p".to_owned(), port.to_string()]).into_iter().flatten());
        command.arg("-T").arg("-C").arg("--").arg(&host).arg(line);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot start {}", ssh.display()))?;
        let stdout = child.stdout.take().context("no pipe to ssh")?;
        let said = listen(child.stderr.take().context("no pipe to ssh")?)?;
        let stream = OwnedFd::from(stdout);
        let name = path.display().to_string();
        *path = PathBuf::from(format!("/proc/self/fd/{}", stream.as_raw_fd()));
        let host = host.rsplit('@').next().unwrap_or_default().to_owned();
        out.push(Remote { child, name, host, at, _stream: stream, said });
    }
    name_apart(&mut out);
    if out.is_empty() && !options.is_empty() {
        return Err(usage("options after -- are only for `record` on ssh://HOST"));
    }
    Ok(out)
}

/// Machines with the same host name (tunnels) are distinguished by the address typed.
fn name_apart(remotes: &mut [Remote]) {
    let shared = |at: usize| remotes.iter().any(|r| r.host == remotes[at].host && r.name != remotes[at].name);
    let shared: Vec<bool> = (0..remotes.len()).map(shared).collect();
    for (remote, _) in remotes.iter_mut().zip(shared).filter(|(_, shared)| *shared) {
        remote.host = remote.name.trim_start_matches("ssh://").trim_end_matches('/').to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |text: &str| address(Path::new(text));
        assert_eq!(of("ssh://node-7"), Some(Ok(("node-7".into(), None))));
        assert_eq!(of("ssh://root@10.0.0.7:2222/"), Some(Ok(("root@10.0.0.7".into(), Some(2222)))));
        assert!(of("perf.data").is_none());
        for bad in [
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://a b",
            "ssh://h:port",
            "ssh://root@",
            "ssh://a;b",
            "ssh://-v",
            "ssh://root@-v",
            "ssh://-v@h",
        ] {
            assert!(of(bad).is_some_and(|address| address.is_err()), "{bad}");
        }
    }
}
