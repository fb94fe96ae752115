//! Debug files from debuginfod servers, in the background (debuginfod(8), "WEBAPI": `URL/buildid/ID/debuginfo`).
//! What comes is kept where debuginfod's own client keeps it, and found there from then on.
//!
//! curl does the fetching: it knows the machine's certificates and proxies, and a server that hangs
//! hangs nothing of ours.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::record::kinds::BuildId;
use crate::session::DsoId;

/// Seconds until a connection must stand, and in which a file must have come.
const CONNECT: &str = "10";
const WHOLE: &str = "600";
/// Larger files are not fetched.
const MAX_BYTES: &str = "4294967296";

/// A debug file that is wanted, or was fetched.
pub type Wanted = (DsoId, BuildId);

/// What became of a wish: the words say it to the user.
#[derive(Debug)]
pub struct Fetched {
    pub dso: DsoId,
    pub result: Result<(), String>,
}

/// Starts the thread; it ends when the sender is dropped.
pub fn spawn(urls: Vec<String>, cache: PathBuf) -> std::io::Result<(Sender<Wanted>, Receiver<Fetched>)> {
    let (wanted, want_rx) = unbounded::<Wanted>();
    let (fetch_tx, fetched) = unbounded();
    let work = move || {
        for (dso, id) in want_rx {
            let result = fetch(&urls, &cache, &id);
            if fetch_tx.send(Fetched { dso, result }).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("fetch".to_owned()).spawn(work)?;
    Ok((wanted, fetched))
}

/// Asks one server after the other.
fn fetch(urls: &[String], cache: &Path, id: &BuildId) -> Result<(), String> {
    let dir = cache.join(id.to_string());
    let place = dir.join("debuginfo");
    if place.is_file() {
        return Ok(());
    }
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let mut last = "no server is named".to_owned();
    for url in urls {
        let target = tempfile::Builder::new().prefix(".debuginfo").tempfile_in(&dir).map_err(|e| e.to_string())?;
        let address = format!("{}/buildid/{id}/debuginfo", url.trim_end_matches('/'));
        let status = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--location", "--proto", "=http,https"])
            .args(["--connect-timeout", CONNECT, "--max-time", WHOLE, "--max-filesize", MAX_BYTES, "--output"])
            .arg(target.path())
            .arg("--")
            .arg(&address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output();
        match status {
            Ok(output) if output.status.success() => {
                return target.persist(&place).map(|_| ()).map_err(|e| e.to_string());
            }
            Ok(output) => last = format!("{url}: {}", String::from_utf8_lossy(&output.stderr).trim()),
            Err(e) => return Err(format!("curl cannot be run, which fetches from DEBUGINFOD_URLS: {e}")),
        }
    }
    Err(last)
}
