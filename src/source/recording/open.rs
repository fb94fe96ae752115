//! Detection of a file's format by its content: perf.data as a file, stream or directory, or text, each uncompressed or
//! compressed by gzip or zstd.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::kernel::identity::Identity;
use crate::kernel::procfs;
use crate::perfdata::features::bit;
use crate::perfdata::read::{PIPE_HEADER, ReadError, Recording, is_perf, is_stream};
use crate::source::imported::{self, ImportedSource};
use crate::source::text::{self, MAX_LINE, TextFormat, TextSource};
use crate::source::{Source, SourceError};
use crate::symbols::door::{self, FileKind, TrustedFileOpener, TrustedUids};

use super::RecordingSource;
use super::input::{Input, SideData};
use super::reader::{ByteSource, FillOutcome, PIECE, read_some};

/// The bytes at a file's start that suffice to detect its format.
const HEAD: usize = 64 << 10;
/// The first bytes of compressed data.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const ENOUGH: usize = 512;

/// Opens a recording: a file, a directory, `-` for standard input; several files of one recording, such as those of
/// `--switch-output`; or recordings of several machines.
pub fn open(paths: &[PathBuf]) -> Result<Box<dyn Source>, SourceError> {
    open_as(paths, None, &[])
}

/// Opens recordings under another name than the files', with known names of machines by path.
pub fn open_as(
    paths: &[PathBuf],
    name: Option<String>,
    hosts: &[Option<String>],
) -> Result<Box<dyn Source>, SourceError> {
    let (mut inputs, mut named, mut authors) = (Vec::new(), Vec::new(), TrustedUids::default());
    let mut absent = Vec::new();
    for (i, path) in paths.iter().enumerate() {
        let remote = hosts.get(i).and_then(Option::as_deref);
        let whole = name.clone().filter(|_| paths.len() == 1);
        let shown = whole.or_else(|| remote.map(str::to_owned)).unwrap_or_else(|| path.display().to_string());
        let wrap = |error: ReadError| SourceError::File { path: shown.clone(), error };
        let kind = match open_one(path, &shown, &mut authors) {
            // A machine that does not answer must not prevent showing the others.
            Err(error) if remote.is_some() && paths.len() > 1 => {
                absent.push(wrap(error));
                continue;
            }
            kind => kind.map_err(wrap)?,
        };
        match kind {
            Kind::Records(more) => {
                let own = || more.first().and_then(|input| input.rec.features.text(bit::HOSTNAME, input.rec.big));
                let host = remote.map(str::to_owned).or_else(own).unwrap_or_default();
                named.extend(more.iter().map(|_| host.clone()));
                inputs.extend(more);
            }
            Kind::Text(_) | Kind::Imported(_) if paths.len() > 1 => {
                let what = "samples that could be merged with other files (they have names instead of addresses)";
                return Err(wrap(ReadError::Holds(what)));
            }
            Kind::Text(mut source) => {
                source.info.authors = authors;
                return Ok(source);
            }
            Kind::Imported(mut source) => {
                source.info.authors = authors;
                return Ok(source);
            }
        }
    }
    let name = name.unwrap_or_else(|| match paths {
        [one] if one.as_os_str() == "-" => "standard input".to_owned(),
        [one] => one.display().to_string(),
        [first, .., last] => format!("{} to {}", first.display(), last.display()),
        [] => String::new(),
    });
    let notes = absent.iter().map(|error| format!("no recording comes from {error}")).collect();
    if let Some(error) = absent.into_iter().next().filter(|_| inputs.is_empty()) {
        return Err(error);
    }
    if inputs.is_empty() {
        return Err(SourceError::File { path: name, error: ReadError::Empty });
    }
    let path = name.clone();
    let mut source =
        RecordingSource::new(name, inputs, &named, notes).map_err(|error| SourceError::File { path, error })?;
    source.info.authors = authors;
    Ok(Box::new(source))
}

enum Kind {
    Records(Vec<Input>),
    Text(Box<TextSource>),
    Imported(Box<ImportedSource>),
}

fn open_one(path: &Path, name: &str, authors: &mut TrustedUids) -> Result<Kind, ReadError> {
    if path.as_os_str() == "-" {
        let stdin = File::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(io::Error::from)?);
        return from_open(stdin, name, authors);
    }
    let found = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ReadError::Missing,
        _ => error.into(),
    })?;
    if found.is_dir() {
        return directory(path, authors).map(Kind::Records);
    }
    from_open(door::recording(path)?, name, authors)
}

/// Opens a file or a pipe. A file has known writers; those of a pipe are unknown.
fn from_open(file: File, name: &str, authors: &mut TrustedUids) -> Result<Kind, ReadError> {
    if file.metadata()?.is_file() {
        authors.add_writers(&file);
        return from_file(file, name);
    }
    authors.add(Identity::nobody());
    from_pipe(file, name)
}

fn from_file(mut file: File, name: &str) -> Result<Kind, ReadError> {
    let mut head = Vec::with_capacity(HEAD);
    let mut reader = ByteSource::File { file: file.try_clone()?, at: 0, end: HEAD as u64 };
    reader.fill(&mut head)?;
    if head.is_empty() {
        return Err(ReadError::Empty);
    }
    let size = file.metadata()?.len();
    if is_stream(&head) {
        let rec = Recording::open(&file)?;
        return Ok(Kind::Records(vec![stream(rec, ByteSource::File { file, at: PIPE_HEADER, end: size })?]));
    }
    if is_perf(&head) {
        return Ok(Kind::Records(vec![records(file)?]));
    }
    file.seek(SeekFrom::Start(0))?;
    from_bytes(Box::new(file), head, size, name)
}

/// Detects the format of a pipe by its first bytes. Copies it to an unnamed file if it needs seeking.
fn from_pipe(pipe: File, name: &str) -> Result<Kind, ReadError> {
    let mut reader = ByteSource::Pipe { pipe, ahead: Vec::new(), at: 0 };
    let mut head = Vec::new();
    loop {
        let filled = reader.fill(&mut head)?;
        let known = is_stream(&head) || head.len() >= ENOUGH && is_perf(&head) || head.len() >= HEAD / 4;
        if known || filled == FillOutcome::End || head.len() >= ENOUGH && filled == FillOutcome::NotYet {
            break;
        }
    }
    let ByteSource::Pipe { pipe, .. } = reader else { return Err(ReadError::Empty) };
    if head.is_empty() {
        return Err(ReadError::Empty);
    }
    if is_stream(&head) {
        let (rec, ahead) = behind_header(head);
        return Ok(Kind::Records(vec![stream(rec, ByteSource::Pipe { pipe, ahead, at: PIPE_HEADER })?]));
    }
    let sniff = head.clone();
    from_bytes(Box::new(Cursor::new(head).chain(pipe)), sniff, 0, name)
}

/// Opens data that is read sequentially: compressed data, or text. `size` is 0 when unknown.
fn from_bytes(bytes: Box<dyn Read + Send>, head: Vec<u8>, size: u64, name: &str) -> Result<Kind, ReadError> {
    let mut plain: Box<dyn Read + Send> = if head.starts_with(GZIP) {
        Box::new(flate2::read::MultiGzDecoder::new(bytes))
    } else if head.starts_with(ZSTD) {
        Box::new(zstd::stream::read::Decoder::new(bytes)?)
    } else if is_perf(&head) {
        return spool(bytes).and_then(|file| Ok(Kind::Records(vec![records(file)?])));
    } else if let Some(error) = imported::refused(&head) {
        return Err(ReadError::Imported(error.into()));
    } else if let Some(format) = imported::sniff(&head) {
        let source = ImportedSource::read(name.to_owned(), format, bytes);
        return source
            .map(|source| Kind::Imported(Box::new(source)))
            .map_err(|error| ReadError::Imported(error.into()));
    } else {
        let (bytes, format) = match text::sniff(&head) {
            Some(format) => (bytes, format),
            None => with_long_line(bytes, &head)?,
        };
        let reader = BufReader::with_capacity(PIECE, bytes);
        return Ok(Kind::Text(Box::new(TextSource::new(name.to_owned(), format, Box::new(reader), size))));
    };
    let mut inner = Vec::new();
    let (n, failed) = read_some(&mut plain, HEAD, &mut inner);
    if n == 0 {
        return Err(failed.map_or(ReadError::Empty, ReadError::Io));
    }
    if is_stream(&inner) {
        let (rec, rest) = behind_header(inner);
        let reader = ByteSource::Stream { stream: Box::new(Cursor::new(rest).chain(plain)), at: PIPE_HEADER, failed };
        return Ok(Kind::Records(vec![stream(rec, reader)?]));
    }
    let sniff = inner.clone();
    let chained = Box::new(Cursor::new(inner).chain(plain));
    if sniff.starts_with(GZIP) || sniff.starts_with(ZSTD) {
        return Err(ReadError::Holds("recording but another compressed file"));
    }
    from_bytes(chained, sniff, 0, name)
}

/// Detects the format of a text whose first line is longer than [`HEAD`], such as that of a deep stack.
fn with_long_line(
    mut bytes: Box<dyn Read + Send>,
    head: &[u8],
) -> Result<(Box<dyn Read + Send>, TextFormat), ReadError> {
    if head.contains(&b'\n') || head.contains(&0) {
        return Err(foreign(head));
    }
    let mut lines = Vec::new();
    let (_, failed) = read_some(&mut bytes, MAX_LINE + HEAD, &mut lines);
    let format = text::sniff(&lines).ok_or_else(|| failed.map_or_else(|| foreign(head), ReadError::Io))?;
    Ok((Box::new(Cursor::new(lines).chain(bytes)), format))
}

fn behind_header(mut head: Vec<u8>) -> (Recording, Vec<u8>) {
    let big = crate::perfdata::swap::is_foreign(&head[..8]);
    let behind = head.split_off(PIPE_HEADER as usize);
    (Recording { data: PIPE_HEADER..u64::MAX, big, ..Recording::default() }, behind)
}

fn foreign(head: &[u8]) -> ReadError {
    if head.starts_with(b"PERFFILE") {
        return ReadError::Version1;
    }
    ReadError::Magic(String::from_utf8_lossy(&head[..head.len().min(12)]).into_owned())
}

/// Copies data that cannot be seeked to a temporary file without a name. An early end results in a truncated recording.
fn spool(mut bytes: Box<dyn Read + Send>) -> Result<File, ReadError> {
    let mut file = tempfile::tempfile()?;
    let mut piece = Vec::new();
    loop {
        piece.clear();
        let (n, failed) = read_some(&mut bytes, PIECE, &mut piece);
        file.write_all(&piece)?;
        if n == 0 || failed.is_some() {
            return Ok(file);
        }
    }
}

fn records(file: File) -> Result<Input, ReadError> {
    let rec = Recording::open(&file)?;
    let reader = ByteSource::File { file, at: rec.data.start, end: rec.data.end };
    Ok(Input::new(rec, reader))
}

fn stream(rec: Recording, reader: ByteSource) -> Result<Input, ReadError> {
    let mut input = Input::new(rec, reader);
    let mut beside = SideData::default();
    input.head(&mut beside)?;
    input.rec.warnings.append(&mut beside.notes);
    input.build_ids = beside.build_ids;
    if input.rec.events.is_empty() {
        return Err(ReadError::Holds("event: the stream ended before any was described"));
    }
    Ok(input)
}

/// Opens the directory of `perf record --threads`: DIR/data has header and perf's records, DIR/data.N the rings.
fn directory(path: &Path, authors: &mut TrustedUids) -> Result<Vec<Input>, ReadError> {
    // The user names the directory, but its writers name the files in it.
    let root = procfs::directory(path)?;
    authors.add_writers(&root);
    let dir = TrustedFileOpener::new(root, authors.clone());
    let mut inside = |name: &str| {
        let file = dir.open(Path::new(name), FileKind::Stream)?;
        authors.add_writers(&file);
        io::Result::Ok(file)
    };
    let main = inside("data").map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            ReadError::Holds("file named data, which a directory of `perf record --threads` has")
        }
        _ => error.into(),
    })?;
    let head = records(main)?;
    let mut rings: Vec<(u32, String)> = std::fs::read_dir(path)?
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter_map(|name| Some((name.strip_prefix("data.")?.parse().ok()?, name)))
        .collect();
    rings.sort();
    let mut inputs = Vec::new();
    for (_, ring) in rings {
        let file = inside(&ring)?;
        let end = file.metadata()?.len();
        let rec =
            Recording { events: head.rec.events.clone(), data: 0..end, big: head.rec.big, ..Recording::default() };
        inputs.push(Input::new(rec, ByteSource::File { file, at: 0, end }));
    }
    inputs.insert(0, head);
    Ok(inputs)
}
