//! Interpreted functions of a recording: their records for each of its files, and a file of symbols in perf's cache, by
//! whose build id perf names them.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::kernel::files::OwnPlace;
use crate::kernel::process::privilege;
use crate::perfdata::build_ids::IdentifiedFile;
use crate::record::interpreted::{self, FUNCTION_LEN, Language};
use crate::record::kinds::{BuildId, FileId, Header, Mmap, Record, split, types};
use crate::record::{Layout, SampleId};
use crate::session::dso::NamedFunction;

/// The functions named so far by their addresses, and the processes that have their mapping.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordedFunctions {
    functions: BTreeMap<u64, NamedFunction>,
    processes: BTreeSet<(i32, Language)>,
}

impl RecordedFunctions {
    pub(crate) fn follow(&mut self, header: Header, record: &[u8]) {
        if !matches!(header.kind, types::KSYMBOL | types::MMAP2 | types::EXIT) {
            return;
        }
        let Ok(Some((header, body, _))) = split(record) else { return };
        match Record::decode(header, body, false) {
            Ok(Record::Ksymbol { addr, name, source, .. }) if Language::of_address(addr).is_some() => {
                self.functions.insert(addr & !(FUNCTION_LEN - 1), NamedFunction::of_record(name, source));
            }
            Ok(Record::Mmap(Mmap { pid, name, .. })) => {
                self.processes.extend(Language::of_dso(name).map(|language| (pid, language)));
            }
            Ok(Record::Exit(task)) if task.pid == task.tid => self.processes.retain(|(pid, _)| *pid != task.pid),
            _ => {}
        }
    }

    /// Appends their records again, for another file of the recording.
    pub(crate) fn repeat(&self, layout: Layout, out: &mut Vec<u8>) {
        let trailer = |pid| layout.encode_trailer(&SampleId { pid, tid: pid, time: 0, id: 0, cpu: 0 });
        for (address, function) in &self.functions {
            let source = function.source.as_deref();
            interpreted::encode_function(out, *address, &function.name, source, &trailer(-1));
        }
        for (pid, language) in &self.processes {
            interpreted::encode_mapping(out, *language, *pid, &trailer(*pid));
        }
    }

    /// Writes a file of symbols for each language into the cache of this user.
    pub(crate) fn put_in_cache(&self) -> Vec<io::Result<IdentifiedFile>> {
        let of = |language| {
            let own = self.functions.iter().filter(|(address, _)| Language::of_address(**address) == Some(language));
            own.map(|(address, function)| (interpreted::to_dso(*address), function.name.clone())).collect::<Vec<_>>()
        };
        Language::ALL.into_iter().filter_map(|language| put_in_cache(language, &of(language))).collect()
    }
}

/// Writes functions by their addresses in the file of symbols into perf's cache of this user; `None` without functions.
pub(crate) fn put_in_cache(language: Language, functions: &[(u64, Arc<str>)]) -> Option<io::Result<IdentifiedFile>> {
    let home = privilege::directory("HOME").filter(|_| !functions.is_empty())?;
    Some(write_below(&home, language, functions))
}

/// Writes the file and the link from its build id, as perf does.
fn write_below(home: &Path, language: Language, functions: &[(u64, Arc<str>)]) -> io::Result<IdentifiedFile> {
    let (id, bytes) = symbols_file(functions).ok_or(io::ErrorKind::FileTooLarge)?;
    let (name, hex) = (language.dso().to_owned(), id.to_string());
    let (head, tail) = hex.split_at(2);
    let own = Path::new(&name).join(&hex);
    let mut file = OwnPlace::new(home, Path::new(".debug").join(&own)).create("elf")?;
    file.write_all(&bytes)?;
    file.commit()?;
    OwnPlace::new(home, Path::new(".debug/.build-id").join(head)).link(tail, &Path::new("../..").join(&own))?;
    Ok(IdentifiedFile { kernel: false, path: name, file: FileId::None, id })
}

const HEAD: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;

/// Returns an ELF file with a symbol for each function, and its build id: a hash of its symbols. Addresses are offsets,
/// too, though the file ends before: perf computes with either.
fn symbols_file(functions: &[(u64, Arc<str>)]) -> Option<(BuildId, Vec<u8>)> {
    let (mut symbols, mut names) = (vec![0; 24], vec![0]);
    for (address, name) in functions {
        symbols.extend(u32::try_from(names.len()).ok()?.to_le_bytes());
        // A global function in the section of code.
        symbols.extend([0x12, 0, 2, 0]);
        symbols.extend([*address, FUNCTION_LEN].iter().flat_map(|word| word.to_le_bytes()));
        names.extend(name.bytes().filter(|byte| *byte != 0));
        names.push(0);
    }
    let hasher = RandomState::new();
    let words: Vec<u8> = (0..3).flat_map(|i| hasher.hash_one((i, &symbols, &names)).to_le_bytes()).collect();
    let id = BuildId::new(&words[..20])?;
    let mut note: Vec<u8> = [4u32, 20, 3].iter().flat_map(|word| word.to_le_bytes()).collect();
    note.extend(b"GNU\0");
    note.extend(id.bytes());
    note.resize(note.len().next_multiple_of(8), 0);
    let (first, last) = (functions.first()?.0, functions.last()?.0);
    let size = last.checked_sub(first)?.checked_add(FUNCTION_LEN)?;
    const TITLES: &[u8] = b"\0.note.gnu.build-id\0.text\0.symtab\0.strtab\0.shstrtab\0\0\0\0\0";
    let note_at = HEAD + SEGMENT;
    let symbols_at = note_at + note.len();
    let names_at = symbols_at + symbols.len();
    names.resize(names.len().next_multiple_of(8), 0);
    let titles_at = names_at + names.len();
    let table_at = titles_at + TITLES.len();

    let mut out = Vec::with_capacity(table_at + 6 * SECTION);
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    out.extend(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    // A shared object.
    [3, machine, 1, 0].iter().for_each(|half| out.extend(half.to_le_bytes()));
    [0, HEAD as u64, table_at as u64].iter().for_each(|word| out.extend(word.to_le_bytes()));
    let sizes = [HEAD as u16, SEGMENT as u16, 1, SECTION as u16, 6, 5];
    out.extend([0; 4]);
    sizes.iter().for_each(|half| out.extend(half.to_le_bytes()));
    // A loaded segment that can be executed; the file has nothing of it.
    out.extend((1u64 | 5 << 32).to_le_bytes());
    [first, first, first, 0, size, FUNCTION_LEN].iter().for_each(|word| out.extend(word.to_le_bytes()));
    [&note[..], &symbols, &names, TITLES].iter().for_each(|part| out.extend(*part));
    let mut section = |name: u32, kind: u32, flags: u64, (address, at, size): (u64, u64, u64), link: u32, each: u64| {
        [name, kind].iter().for_each(|half| out.extend(half.to_le_bytes()));
        [flags, address, at, size].iter().for_each(|word| out.extend(word.to_le_bytes()));
        // Of symbols, the first that is global.
        [link, u32::from(link != 0)].iter().for_each(|half| out.extend(half.to_le_bytes()));
        [8, each].iter().for_each(|word| out.extend(word.to_le_bytes()));
    };
    let part = |at: usize, len: usize| (0, at as u64, len as u64);
    section(0, 0, 0, (0, 0, 0), 0, 0);
    section(1, 7, 2, part(note_at, note.len()), 0, 0);
    section(20, 8, 6, (first, first, size), 0, 0);
    section(26, 2, 0, part(symbols_at, symbols.len()), 4, 24);
    section(34, 3, 0, part(names_at, names.len()), 0, 0);
    section(42, 3, 0, part(titles_at, TITLES.len()), 0, 0);
    Some((id, out))
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSymbol};

    use super::*;
    use crate::record::interpreted::FunctionSource;

    #[test]
    fn symbols_in_the_cache_are_found_by_their_build_id() {
        let dir = tempfile::tempdir().expect("a directory");
        let list: Vec<(u64, Arc<str>)> = vec![(0x3_0000, "spin (app.py)".into()), (0x5_0000, "größe (app.py)".into())];
        let file = write_below(dir.path(), Language::Python, &list).expect("it is written");
        let hex = file.id.to_string();
        let path = dir.path().join(".debug/.build-id").join(&hex[..2]).join(&hex[2..]).join("elf");
        let bytes = std::fs::read(path).expect("it is there");
        let elf = object::File::parse(&*bytes).expect("an ELF file");
        assert_eq!(elf.build_id().expect("a note"), Some(file.id.bytes()));
        let symbols = elf.symbols().filter(|symbol| symbol.is_definition());
        let read: Vec<_> = symbols.map(|s| (s.address(), s.size(), s.name().expect("text").to_owned())).collect();
        assert_eq!(
            read,
            [(0x3_0000, 0x1_0000, "spin (app.py)".to_owned()), (0x5_0000, 0x1_0000, "größe (app.py)".to_owned())]
        );
    }

    #[test]
    fn functions_are_repeated_for_the_next_file() {
        let (layout, mut bytes) = (Layout::default(), Vec::new());
        let source = FunctionSource { file: "/srv/app.py".into(), first: 3, last: 9, pid: 7, uid: 1000 };
        let address = Language::Python.address(2);
        interpreted::encode_function(&mut bytes, address, "spin (app.py)", Some(&source), &[]).expect("short");
        interpreted::encode_mapping(&mut bytes, Language::Python, 7, &[]).expect("short");
        interpreted::encode_mapping(&mut bytes, Language::Php, 8, &[]).expect("short");
        let mut functions = RecordedFunctions::default();
        let follow = |functions: &mut RecordedFunctions, bytes: &[u8]| {
            for (header, record) in (crate::record::kinds::WholeRecords { rest: bytes }) {
                functions.follow(header, record);
            }
        };
        follow(&mut functions, &bytes);
        let mut again = Vec::new();
        functions.repeat(layout, &mut again);
        let mut read = RecordedFunctions::default();
        follow(&mut read, &again);
        let named = NamedFunction { name: "spin (app.py)".into(), source: Some(Arc::new(source)) };
        assert_eq!(read.functions.values().collect::<Vec<_>>(), [&named]);
        assert_eq!(read.processes.into_iter().collect::<Vec<_>>(), [(7, Language::Python), (8, Language::Php)]);
    }
}
