//! Recordings of other machines while they are made: `ssh://[USER@]HOST[:PORT]` runs `perfprof-tui record` there, as
//! whoever ssh lets in, and reads what it writes.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::Context;
use crossbeam_channel::{Receiver, bounded};

use super::{Usage, usage};
use crate::kernel::privilege;

/// The program on the other machine and ssh, which brings its words here; ended when it is dropped.
#[derive(Debug)]
pub(crate) struct Remote {
    child: Child,
    /// As the user named it, and its machine alone.
    pub(crate) name: String,
    pub(crate) host: String,
    /// Which of the paths it is.
    pub(crate) at: usize,
    /// Keeps the pipe's place among our descriptors.
    _stream: OwnedFd,
    /// What ssh and the recorder there complain of: the terminal is the screen's.
    said: Receiver<String>,
}

impl Remote {
    /// The complaints since the last call, with the machine that they are of.
    pub(crate) fn complaints(&self) -> impl Iterator<Item = String> + '_ {
        self.said.try_iter().map(|line| format!("{}: {line}", self.host))
    }
}

/// Lines and bytes of complaints that are held until they are asked for.
const LINES: usize = 64;
const LINE: u64 = 500;

/// Reads complaints to their end, so that nobody waits for them to be read.
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
        // ssh's end closes the pipe of the recorder, which ends it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The host of an address such as `ssh://root@node-7:2222`: what ssh takes, and the port.
fn address(path: &Path) -> Option<Result<(String, Option<u16>), String>> {
    let rest = path.to_str()?.strip_prefix("ssh://")?;
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !port.contains(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let host = host.trim_end_matches('/');
    let name = host.rsplit('@').next().unwrap_or_default();
    // A host that began with a dash would be an option to ssh.
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%@".contains(c);
    if name.is_empty() || name.starts_with('-') || host.starts_with('-') || !host.chars().all(plain) {
        return Some(Err(format!("{}: expected ssh://[USER@]HOST[:PORT]", path.display())));
    }
    Some(match port.map(|port| port.trim_end_matches('/').parse()).transpose() {
        Ok(port) => Ok((host.to_owned(), port)),
        Err(_) => Err(format!("{}: the port is no number", path.display())),
    })
}

/// Starts recorders where paths are addresses, and puts where they are read in their place. `options` are those of
/// `record` there.
pub(crate) fn start(paths: &mut [PathBuf], options: &[String]) -> anyhow::Result<Vec<Remote>> {
    let mut out = Vec::new();
    for (at, path) in paths.iter_mut().enumerate() {
        let Some(address) = address(path) else { continue };
        let (host, port) = address.map_err(Usage)?;
        // As git has GIT_SSH: another program that takes ssh's arguments.
        let ssh = privilege::variable("PERFPROF_SSH").unwrap_or_else(|| "ssh".into());
        let there = privilege::variable("PERFPROF_REMOTE").and_then(|path| path.into_string().ok());
        let there = there.unwrap_or_else(|| "perfprof-tui".to_owned());
        // The shell of the other side reads them back.
        let options = shlex::try_join(options.iter().map(String::as_str)).context("an option for the other side")?;
        let line = format!("{there} record -q -o - --names {options}").trim_end().to_owned();
        let mut command = Command::new(&ssh);
        command.args(port.map(|port| ["-p".to_owned(), port.to_string()]).into_iter().flatten());
        command.arg("-T").arg("-C").arg("--").arg(&host).arg(line);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("{} cannot be started", ssh.display()))?;
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
        return Err(usage("options after -- are for `record` on ssh://HOST"));
    }
    Ok(out)
}

/// Machines behind one name, as tunnels to several have it, are told apart by what the user typed.
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
