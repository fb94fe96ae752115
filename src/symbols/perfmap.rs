//! /tmp/perf-PID.map: the functions of a JIT, a line each: `START SIZE name`, in hexadecimal
//! (tools/perf/Documentation/jit-interface.txt).

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::table::{Binding, Builder, Raw, SymbolTable};

/// A larger file is not read.
const MAX_SIZE: u64 = 1 << 30;

/// Reads a map. Any user can put a file there, so links are not followed, and it must belong to us,
/// to root, or to the owner of the directory that was named for such files.
pub fn read(path: &Path) -> io::Result<SymbolTable> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    if !meta.is_file() || meta.uid() != own && meta.uid() != 0 {
        return Err(io::Error::other(format!(
            "{} belongs to user {}, so it is not believed",
            path.display(),
            meta.uid()
        )));
    }
    let mut text = Vec::new();
    file.take(MAX_SIZE).read_to_end(&mut text)?;
    Ok(parse(&text))
}

/// The later of two functions at one address is the one that runs there.
fn parse(text: &[u8]) -> SymbolTable {
    let mut table = Builder::last_wins();
    for line in text.split(|b| *b == b'\n') {
        let mut parts = line.splitn(3, |b| *b == b' ');
        let mut hex =
            || u64::from_str_radix(std::str::from_utf8(parts.next()?).ok()?.trim_start_matches("0x"), 16).ok();
        let (Some(start), Some(size)) = (hex(), hex()) else { continue };
        let Some(name) = parts.next().filter(|n| !n.is_empty()) else { continue };
        table.push(Raw { start, size, name: name.trim_ascii_end(), binding: Binding::Global });
    }
    table.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_what_is_none() {
        let table = parse(b"1000 10 a b\nnonsense\n2000 20 old\n2000 20 LazyCompile:*fib /app/x.js:1\n3000 x y\n\n");
        let name = |at| table.find(at).map(|s| String::from_utf8_lossy(s.name).into_owned());
        assert_eq!(name(0x100f).as_deref(), Some("a b"));
        assert_eq!(name(0x2001).as_deref(), Some("LazyCompile:*fib /app/x.js:1"));
        assert_eq!(name(0x3000), None);
    }
}
