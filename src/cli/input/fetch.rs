//! Profiles from servers: `http://HOST:6060/debug/pprof/profile?seconds=10` is fetched into a temporary file.

use std::path::{Path, PathBuf};

use anyhow::bail;
use tempfile::NamedTempFile;

use crate::cli::output::complain;
use crate::engine::curl::{Curl, hidden, secrets, shown};

/// The maximum size of a response.
const MOST_BYTES: u64 = 256 << 20;
/// Seconds that a server may take in addition to the duration that the URL requests.
const PATIENCE: u64 = 30;
/// The maximum duration that a URL may request, in seconds.
const MOST_SECONDS: u64 = 3600;

/// A fetched profile; dropping it deletes the file.
#[derive(Debug)]
pub(crate) struct FetchedProfile {
    _file: NamedTempFile,
    /// The address for display, and the host in it.
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) at: usize,
}

/// Fetches each path that is a URL, and replaces it by the file.
pub(crate) fn fetch(paths: &mut [PathBuf]) -> anyhow::Result<Vec<FetchedProfile>> {
    let mut out = Vec::new();
    for (at, path) in paths.iter_mut().enumerate() {
        let Some(url) = url(path).map(str::to_owned) else { continue };
        let name = shown(&url);
        let file = one(&url, &name)?;
        let rest = name.split_once("://").map_or("", |(_, rest)| rest);
        let host = rest.split('/').next().unwrap_or_default().to_owned();
        *path = file.path().to_owned();
        out.push(FetchedProfile { _file: file, name, host, at });
    }
    Ok(out)
}

fn url(path: &Path) -> Option<&str> {
    path.to_str().filter(|path| path.starts_with("http://") || path.starts_with("https://"))
}

/// Returns the duration that a URL requests, in seconds.
fn seconds(url: &str) -> u64 {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let value = query.split('&').find_map(|pair| pair.strip_prefix("seconds="));
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn one(url: &str, name: &str) -> anyhow::Result<NamedTempFile> {
    let seconds = seconds(url);
    if seconds > MOST_SECONDS {
        bail!("{name}: a profile of more than {MOST_SECONDS} seconds is not fetched");
    }
    if seconds > 0 {
        complain(&format!("{name} records for {seconds} s"));
    }
    let curl = Curl::new(url)
        .option("connect-timeout", "10")
        .option("max-time", &(seconds + PATIENCE).to_string())
        .option("max-filesize", &MOST_BYTES.to_string());
    let mut file = NamedTempFile::new()?;
    match curl.fetch(&mut file, MOST_BYTES) {
        Ok(()) => Ok(file),
        Err(error) => bail!("{name} sent no profile: {}", hidden(&error.to_string(), &secrets(url))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_its_duration() {
        let of = |path: &str| url(Path::new(path)).map(seconds);
        assert_eq!(of("http://h:6060/debug/pprof/profile?gc=1&seconds=10"), Some(10));
        assert_eq!((of("https://h/heap"), of("./http:/x"), of("ssh://h")), (Some(0), None, None));
    }
}
