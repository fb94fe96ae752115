//! Debug files from debuginfod servers, in the background (debuginfod(8), "WEBAPI": `URL/buildid/ID/debuginfo`). They
//! are stored in the cache of debuginfod's own client, where later look-ups find them.

use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::kernel::files::{NewFile, OwnPlace};
use crate::record::kinds::BuildId;
use crate::session::DsoId;

use super::curl::{Curl, TransferError, hidden, secrets, shown};

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
        match ask(url, id, &mut file).and_then(|()| Ok(file.commit()?)) {
            Ok(()) => return Ok(()),
            Err(error) => last = format!("{}: {}", shown(url), hidden(&error.to_string(), &secrets(url))),
        }
    }
    Err(last)
}

const NAME: &str = "debuginfo";

fn ask(url: &str, id: &BuildId, file: &mut NewFile) -> Result<(), TransferError> {
    // A server's query follows the path.
    let (base, query) = url.split_once('?').map_or((url, None), |(base, query)| (base, Some(query)));
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let curl = Curl::new(&format!("{}/buildid/{id}/debuginfo{query}", base.trim_end_matches('/')));
    curl.option("connect-timeout", CONNECT).option("max-time", WHOLE).fetch(file, MAX_BYTES)
}
