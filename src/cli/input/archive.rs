//! Tarballs of `perf archive`, unpacked into a temporary directory with a limit on size and number of files.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Maximum ratio of unpacked to packed size (programs with debug information: about 5), and the bytes always allowed.
const RATIO: u64 = 24;
const LEAST: u64 = 64 << 20;
const MAX_FILES: usize = 1 << 16;

/// A stream with a limit on the remaining bytes.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(into)?;
        let too_much =
            || io::Error::other("it unpacks to more than a perf archive can contain, or than fits on the disk");
        self.left = self.left.checked_sub(n as u64).ok_or_else(too_much)?;
        Ok(n)
    }
}

/// Unpacks a tarball. Paths that lead out of the directory are skipped. On an error the directory is removed.
pub(crate) fn unpack(path: &Path) -> anyhow::Result<tempfile::TempDir> {
    // The root cause says more than the library's own message.
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
        // A sparse file takes more space than it has bytes.
        if i >= MAX_FILES || entry.header().entry_type().is_gnu_sparse() {
            return Err(fail(io::Error::other("it has too many or sparse files for a perf archive")));
        }
        entry.unpack_in(dir.path()).map_err(fail)?;
    }
    Ok(dir)
}

/// Returns half of the free space of a directory's file system, in bytes.
fn room(dir: &Path) -> io::Result<u64> {
    let fs = rustix::fs::statvfs(dir)?;
    Ok(fs.f_bavail.saturating_mul(fs.f_frsize) / 2)
}
