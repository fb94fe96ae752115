//! /proc/kallsyms: symbols of the kernel, its modules and BPF programs.
//! See `kernel/kallsyms.c`; with kptr_restrict all addresses read as zero.

use std::io::{self, Read};
use std::path::Path;

use super::table::{Binding, Raw, SymbolTable, SymbolTableBuilder};
use crate::kernel::procfs;
use crate::symbols::trust::door;

/// The kernel's functions in one table, since they share one address space.
#[derive(Debug, Default)]
pub struct Kallsyms {
    /// Functions of the kernel, modules and BPF programs by address. Empty if addresses are hidden.
    pub table: SymbolTable,
    /// The address of `_text`, else of `_stext`: perf's kernel map starts there.
    pub text: Option<u64>,
    pub(crate) text_symbol: &'static str,
    pub(crate) end: Option<u64>,
    /// Whether addresses are hidden.
    pub(crate) restricted: bool,
    /// The number of lines that name a symbol.
    pub(crate) lines: u64,
}

/// The limit of decompressed text; no kernel's is longer.
const MOST: u64 = 1 << 29;
/// Bytes per read: a kernel's text is 10 MB, and only its names are kept.
const PIECE: usize = 1 << 16;

impl Kallsyms {
    /// Reads a kallsyms file, which may be compressed with gzip. Fails if it is not a list of symbols.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut file = door::own(path)?;
        let mut head = Vec::new();
        (&mut file).take(2).read_to_end(&mut head)?;
        let is_packed = head == [0x1f, 0x8b];
        let whole = io::Cursor::new(head).chain(file);
        let text: Box<dyn Read> =
            if is_packed { Box::new(flate2::read::MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        let known = Self::read_text(text.take(MOST))?;
        if known.lines == 0 {
            let why = format!("{} is not a list of kernel symbols in the format of /proc/kallsyms", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(known)
    }

    fn read_text(mut file: impl Read) -> io::Result<Self> {
        let mut reader = Reader::default();
        let mut buffer = vec![0; PIECE];
        let mut kept = 0;
        loop {
            if kept == buffer.len() {
                // Kernels do not have lines this long.
                kept = 0;
            }
            let n = file.read(&mut buffer[kept..])?;
            if n == 0 {
                break;
            }
            let end = kept + n;
            let whole = memchr::memrchr(b'\n', &buffer[..end]).map_or(0, |at| at + 1);
            reader.text(&buffer[..whole]);
            buffer.copy_within(whole..end, 0);
            kept = end - whole;
        }
        reader.text(&buffer[..kept]);
        Ok(reader.finish())
    }

    /// Parses the text of a kallsyms file.
    pub fn parse(text: &[u8]) -> Self {
        let mut reader = Reader::default();
        reader.text(text);
        reader.finish()
    }
}

struct Reader {
    known: Kallsyms,
    table: SymbolTableBuilder,
}

impl Default for Reader {
    fn default() -> Self {
        Self { known: Kallsyms { restricted: true, ..Kallsyms::default() }, table: SymbolTableBuilder::last_wins() }
    }
}

impl Reader {
    fn text(&mut self, text: &[u8]) {
        let known = &mut self.known;
        let mut rest = text;
        while !rest.is_empty() {
            let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let line = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            let Some((address, kind, name)) = parse_line(line) else { continue };
            known.restricted &= address == 0;
            known.lines += 1;
            match name {
                b"_text" => (known.text, known.text_symbol) = (Some(address), "_text"),
                b"_stext" if known.text.is_none() => (known.text, known.text_symbol) = (Some(address), "_stext"),
                b"_etext" => known.end = Some(address),
                _ => {}
            }
            // On ARM, `$x` and the like mark where code and data of a module begin.
            let Some(binding) = binding_of(kind).filter(|_| name[0] != b'$') else { continue };
            self.table.push(Raw { start: address, size: 0, name, binding });
        }
    }

    fn finish(mut self) -> Kallsyms {
        if !self.known.restricted {
            self.known.table = self.table.finish();
        }
        self.known
    }
}

/// Returns the binding of a symbol from its letter (nm(1)). `None` for addresses that cannot hold code: read-only data,
/// absolute values, undefined symbols. Every other letter counts as a name, because compilers invent new ones: kernels
/// with Rust have `u`, `N` and `1`. Without such a symbol its samples would go to the one before it.
fn binding_of(kind: u8) -> Option<Binding> {
    match kind {
        b'R' | b'r' | b'A' | b'a' | b'U' => None,
        b'W' | b'w' | b'V' | b'v' => Some(Binding::Weak),
        kind if kind.is_ascii_lowercase() => Some(Binding::Local),
        _ => Some(Binding::Global),
    }
}

/// Parses `ffffffff81000000 T _text`. In modules a tab and `[name]` follow, which perf shows as the DSO.
fn parse_line(line: &[u8]) -> Option<(u64, u8, &[u8])> {
    // Addresses have all their digits, 32 or 64 bits.
    let space = line.iter().take(17).position(|byte| *byte == b' ').filter(|digits| *digits >= 8)?;
    let mut address = 0u64;
    for digit in &line[..space] {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        address = address << 4 | u64::from(digit);
    }
    let (kind, name) = match line.trim_ascii_end().get(space + 1..)? {
        [kind, b' ', name @ ..] => (*kind, name),
        _ => return None,
    };
    let of_module = if name.last() == Some(&b']') { memchr::memchr(b'\t', name) } else { None };
    let name = &name[..of_module.unwrap_or(name.len())];
    (!name.is_empty()).then_some((address, kind, name))
}

/// A loaded module, from /proc/modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// Returns the loaded modules. Empty if no module is loaded or addresses are hidden.
pub(crate) fn modules() -> Vec<Module> {
    parse_modules(&procfs::modules())
}

fn parse_modules(text: &str) -> Vec<Module> {
    let one = |line: &str| {
        let mut fields = line.split(' ');
        let name = fields.next()?.to_owned();
        let len = fields.next()?.parse().ok()?;
        let start = u64::from_str_radix(fields.nth(3)?.strip_prefix("0x")?, 16).ok()?;
        (start != 0).then_some(Module { name, start, len })
    };
    text.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn functions_and_extent() {
        let text = b"ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000040 t do_it\nffffffff81000060 t $x\nffffffff81000080 r rodata\nffffffff81000100 T _etext\nffffffffc0000000 t estimation_timer\t[ip_vs]\nbad line\n";
        let k = Kallsyms::parse(text);
        assert_eq!((k.text, k.end, k.restricted), (Some(0xffffffff81000000), Some(0xffffffff81000100), false));
        assert_eq!(k.table.find(0xffffffff81000090).map(|s| s.name), Some(&b"do_it"[..]));
        assert_eq!(k.table.find(0xffffffffc0000010).map(|s| s.name), Some(&b"estimation_timer"[..]));
    }

    #[test]
    fn this_kernels_symbols_are_all_there_and_small() {
        let text = std::fs::read_to_string("/proc/kallsyms").expect("symbols");
        let known = Kallsyms::read_text(text.as_bytes()).expect("symbols");
        if known.restricted {
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED this_kernels_symbols_are_all_there_and_small: addresses are hidden"
            );
            return;
        }
        // Of symbols at the same address, the last.
        let mut plain = std::collections::BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let (address, kind, name) = (words.next().expect("address"), words.next().expect("kind"), words.next());
            if !"rRaAU".contains(kind) {
                plain.insert(u64::from_str_radix(address, 16).expect("address"), name.expect("name").as_bytes());
            }
        }
        assert!(plain.len() > 1000 && known.table.len() == plain.len(), "{} {}", plain.len(), known.table.len());
        let ends = plain.keys().skip(1).map(|end| Some(*end)).chain([None]);
        for ((start, name), end) in plain.iter().zip(ends) {
            for at in [*start, end.map_or(start + 1, |end| end - 1)] {
                let found = known.table.find(at).map(|s| (s.start, s.name));
                assert_eq!(found, Some((*start, *name)), "{at:x}");
            }
        }
        let names: usize = plain.values().map(|name| name.len() + 1).sum();
        let (held, most) = (known.table.memory(), 9 * plain.len() + names * 101 / 100 + (1 << 16));
        assert!(held < most, "{held} bytes for {} functions whose names have {names}", plain.len());
    }

    /// Samples of a symbol with an unknown letter would go to the symbol before it.
    #[test]
    fn every_letter_of_code_names_its_symbol() {
        let letters = "tTwWdDbBuliNnVvICGgSs1?-";
        let line = |(at, kind): (usize, char)| format!("{:016x} {kind} symbol_{at}\n", 0xffff_ffff_8100_0000 + at * 16);
        let text: String = letters.chars().enumerate().map(line).collect();
        let known = Kallsyms::parse(text.as_bytes());
        for (at, kind) in letters.chars().enumerate() {
            let found = known.table.find(0xffff_ffff_8100_0004 + at as u64 * 16).map(|s| s.name.to_vec());
            assert_eq!(found, Some(format!("symbol_{at}").into_bytes()), "{kind}");
        }
        let known = Kallsyms::parse(b"ffffffff81000000 T code\nffffffff81000010 r data\nffffffff81000020 a absolute\n");
        assert_eq!(known.table.find(0xffffffff81000024).map(|s| s.name), Some(&b"code"[..]));
    }

    #[test]
    fn lines_end_in_any_way_and_bad_ones_name_nothing() {
        let text = b"ffffffff81000000 T _text\r\nffffffff81000010 t one\r\nffffffff81000020 tt two\r\n\
            ffffffff81000030 t\r\nffffffff81000040 t \r\nffffffffc0000000 t three\t[mod]\r\n";
        let known = Kallsyms::parse(text);
        assert_eq!((known.text, known.lines), (Some(0xffffffff81000000), 3));
        let name = |at: u64| known.table.find(at).map(|s| s.name);
        assert_eq!(name(0xffffffff81000044), Some(&b"one"[..]));
        assert_eq!(name(0xffffffffc0000004), Some(&b"three"[..]));
    }

    #[test]
    fn hidden_addresses_give_no_names() {
        let k = Kallsyms::parse(b"0000000000000000 T _text\n0000000000000000 t x\n");
        assert!(k.restricted && k.table.is_empty());
    }

    #[test]
    fn a_list_is_read_plain_and_packed_and_another_file_is_named() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            path
        };
        let text = b"ffffffff81000000 T _text\nffffffff81000040 t do_it\n";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, text).expect("packed");
        for path in [at("plain", text), at("packed.gz", &gzip.finish().expect("packed"))] {
            let known = Kallsyms::read(&path).expect("a list");
            assert_eq!((known.text, known.table.len(), known.lines), (Some(0xffffffff81000000), 2, 2), "{path:?}");
        }
        for path in [at("empty", b""), at("other", b"PERFILE2\0\0\0"), at("short.gz", &[0x1f, 0x8b])] {
            let said = Kallsyms::read(&path).map(|known| known.lines).map_err(|e| e.to_string());
            assert!(said.is_err(), "{path:?}");
        }
        let said = Kallsyms::read(&at("words", b"a list of words\n")).map(|known| known.lines).expect_err("no list");
        assert!(said.to_string().contains("words is not a list of kernel symbols"), "{said}");
    }

    #[test]
    fn module_lines() {
        let text = "ip_vs 159744 0 - Live 0xffffffffc0000000\nx 1 0 - Live 0x0000000000000000\njunk\n";
        assert_eq!(parse_modules(text), [Module { name: "ip_vs".into(), start: 0xffffffffc0000000, len: 159744 }]);
    }
}
