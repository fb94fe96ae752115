//! Tarballs of `perf archive`: unpacked into a directory of our own that goes with its last user, and only as far as
//! such a tarball could reach.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Programs and their debug information pack to a fifth or so: what unpacks to more than this many times its size, or
/// this many bytes, is none.
const RATIO: u64 = 24;
const LEAST: u64 = 64 << 20;
/// Files in it.
const MAX_FILES: usize = 1 << 16;

/// A stream that may bring so many bytes more.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(into)?;
        let too_much = || io::Error::other("it unpacks to more than an archive of programs could, or than fits");
        self.left = self.left.checked_sub(n as u64).ok_or_else(too_much)?;
        Ok(n)
    }
}

/// Unpacks a tarball. Names that lead out of the directory are not followed.
///
/// # Errors
/// When it cannot be read, or there is too much in it; nothing of it stays then.
pub(crate) fn unpack(path: &Path) -> anyhow::Result<tempfile::TempDir> {
    // What is behind the library's own words tells more.
    let fail = |e: io::Error| anyhow::anyhow!("--archive {}: {}", path.display(), anyhow::Error::new(e).root_cause());
    let mut file = File::open(path).map_err(fail)?;
    let size = file.metadata().map_err(fail)?.len();
    let mut magic = [0; 4];
    file.read_exact(&mut magic).map_err(fail)?;
    let file = BufReader::new(File::open(path).map_err(fail)?);
    let from: Box<dyn Read> = match magic {
        [b'B', b'Z', b'h', _] => Box::new(bzip2::read::MultiBzDecoder::new(file)),
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(file)),
        [0x28, 0xb5, 0x2f, 0xfd] => Box::new(zstd::stream::read::Decoder::new(file).map_err(fail)?),
        _ => Box::new(file),
    };
    let dir = tempfile::tempdir()?;
    let left = size.saturating_mul(RATIO).max(LEAST).min(room(dir.path()).map_err(fail)?);
    let mut archive = tar::Archive::new(Bounded { from, left });
    for (i, entry) in archive.entries().map_err(fail)?.enumerate() {
        let mut entry = entry.map_err(fail)?;
        // One that is sparse takes more room than it has bytes.
        if i >= MAX_FILES || entry.header().entry_type().is_gnu_sparse() {
            return Err(fail(io::Error::other("it holds what no archive of programs does")));
        }
        entry.unpack_in(dir.path()).map_err(fail)?;
    }
    Ok(dir)
}

/// Half of the room that is left where a directory is.
fn room(dir: &Path) -> io::Result<u64> {
    let fs = rustix::fs::statvfs(dir)?;
    Ok(fs.f_bavail.saturating_mul(fs.f_frsize) / 2)
}
