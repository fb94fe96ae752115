//! Debug files from debuginfod servers, in the background (debuginfod(8), "WEBAPI": `URL/buildid/ID/debuginfo`). They
//! are stored in the cache of debuginfod's own client, where later look-ups find them.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::kernel::files::{NewFile, OwnPlace};
use crate::record::kinds::BuildId;
use crate::session::DsoId;

use super::curl::{Curl, hidden, secrets, shown};

/// Timeouts in seconds for the connection and for the whole transfer.
const CONNECT: &str = "10";
const WHOLE: &str = "600";
/// The maximum size of a file in bytes.
const MAX_BYTES: u64 = 4 << 30;

/// A debug file to fetch.
pub type WantedFile = (DsoId, BuildId);

/// The outcome of fetching a debug file.
#[derive(Debug)]
pub struct Fetched {
    /// The DSO that the debug file belongs to.
    pub dso: DsoId,
    /// `Ok` if the file is in the cache now; else the error of the last server, for the user.
    pub result: Result<(), String>,
}

/// Starts the thread, which ends when the sender is dropped.
pub fn spawn(urls: Vec<String>, cache: PathBuf) -> std::io::Result<(Sender<WantedFile>, Receiver<Fetched>)> {
    let (wanted, want_rx) = unbounded::<WantedFile>();
    let (fetch_tx, fetched) = unbounded();
    let work = move || {
        for (dso, id) in want_rx {
            let result = fetch(&urls, &cache, &id);
            if fetch_tx.send(Fetched { dso, result }).is_err() {
                return;
            }
        }
    };
    crate::kernel::thread("fetch", work)?;
    Ok((wanted, fetched))
}

fn fetch(urls: &[String], cache: &Path, id: &BuildId) -> Result<(), String> {
    let place = OwnPlace::new(cache, id.to_string());
    if place.path().join(NAME).is_file() {
        return Ok(());
    }
    let mut last = "no server is configured".to_owned();
    for url in urls {
        let mut file = place.create(NAME).map_err(|e| format!("{}: {e}", place.path().display()))?;
        match ask(url, id, &mut file).and_then(|()| file.commit()) {
            Ok(()) => return Ok(()),
            Err(error) => last = format!("{}: {}", shown(url), hidden(&error.to_string(), &secrets(url))),
        }
    }
    Err(last)
}

const NAME: &str = "debuginfo";

fn ask(url: &str, id: &BuildId, file: &mut NewFile) -> io::Result<()> {
    // A server's query follows the path.
    let (base, query) = url.split_once('?').map_or((url, None), |(base, query)| (base, Some(query)));
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let curl = Curl::new(&format!("{}/buildid/{id}/debuginfo{query}", base.trim_end_matches('/')));
    let curl = curl.flag("fail").flag("location").option("connect-timeout", CONNECT).option("max-time", WHOLE);
    let mut child = curl
        .start()
        .map_err(|e| io::Error::other(format!("curl cannot be run, which is needed for DEBUGINFOD_URLS: {e}")))?;
    let mut bytes = child.stdout.take().map(|out| out.take(MAX_BYTES + 1));
    let copied = bytes.as_mut().map_or(Ok(0), |bytes| io::copy(bytes, file));
    if !matches!(copied, Ok(n) if n <= MAX_BYTES) {
        // curl would block on the unread rest.
        let _ = child.kill();
    }
    drop(bytes);
    let output = child.wait_with_output()?;
    if copied? > MAX_BYTES {
        return Err(io::Error::other("the file exceeds 4 GB"));
    }
    if !output.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    file.flush()
}
