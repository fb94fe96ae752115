//! /proc/kallsyms: the kernel's functions, and where modules and BPF programs lie
//! (`kernel/kallsyms.c`; with kptr_restrict all addresses read as zero).

use std::io::{self, Read};
use std::path::Path;

use super::door;
use super::table::{Binding, Builder, Raw, SymbolTable};
use crate::kernel::procfs;

/// The kernel's functions in one table, since they live in one address space.
#[derive(Debug, Default)]
pub struct Kallsyms {
    pub table: SymbolTable,
    /// The address of `_text`, which perf's kernel map starts at.
    pub text: Option<u64>,
    pub end: Option<u64>,
    /// Whether addresses are hidden.
    pub restricted: bool,
}

/// Bytes read at once: the text of a kernel is 10 MB, and only its names are worth keeping.
const PIECE: usize = 1 << 16;

impl Kallsyms {
    /// Reads a kallsyms file, piece by piece.
    pub fn read(path: &Path) -> io::Result<Self> {
        let mut file = door::own(path)?;
        let mut reader = Reader::default();
        let mut buffer = vec![0; PIECE];
        let mut kept = 0;
        loop {
            if kept == buffer.len() {
                // No line of a kernel is that long.
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

    /// Reads the text of a kallsyms file.
    pub fn parse(text: &[u8]) -> Self {
        let mut reader = Reader::default();
        reader.text(text);
        reader.finish()
    }
}

/// A kallsyms file being read.
struct Reader {
    known: Kallsyms,
    table: Builder,
}

impl Default for Reader {
    fn default() -> Self {
        Self { known: Kallsyms { restricted: true, ..Kallsyms::default() }, table: Builder::last_wins() }
    }
}

impl Reader {
    fn text(&mut self, text: &[u8]) {
        let known = &mut self.known;
        for (address, kind, name) in text.split(|b| *b == b'\n').filter_map(parse_line) {
            known.restricted &= address == 0;
            match name {
                b"_text" => known.text = Some(address),
                b"_stext" if known.text.is_none() => known.text = Some(address),
                b"_etext" => known.end = Some(address),
                _ => {}
            }
            let binding = match kind {
                b'W' | b'w' => Binding::Weak,
                b'T' | b'D' | b'B' => Binding::Global,
                b't' | b'd' | b'b' => Binding::Local,
                _ => continue,
            };
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

/// `ffffffff81000000 T _text` and for modules a tab and `[name]`, which perf shows as the DSO.
fn parse_line(line: &[u8]) -> Option<(u64, u8, &[u8])> {
    let space = memchr::memchr(b' ', line)?;
    let mut address = 0u64;
    for digit in &line[..space] {
        address = address << 4 | u64::from((*digit as char).to_digit(16)?);
    }
    let kind = *line.get(space + 1)?;
    let name = line.get(space + 3..)?;
    let name = &name[..memchr::memchr(b'\t', name).unwrap_or(name.len())];
    (!name.is_empty()).then_some((address, kind, name))
}

/// A loaded module, from /proc/modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    pub name: String,
    pub start: u64,
    pub len: u64,
}

/// The loaded modules; none when the kernel has no modules or hides their addresses.
pub fn modules() -> Vec<Module> {
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
    use super::*;

    #[test]
    fn functions_and_extent() {
        let text = b"ffffffff81000000 T _stext\nffffffff81000000 T _text\nffffffff81000040 t do_it\nffffffff81000080 r rodata\nffffffff81000100 T _etext\nffffffffc0000000 t estimation_timer\t[ip_vs]\nbad line\n";
        let k = Kallsyms::parse(text);
        assert_eq!((k.text, k.end, k.restricted), (Some(0xffffffff81000000), Some(0xffffffff81000100), false));
        assert_eq!(k.table.find(0xffffffff81000090).map(|s| s.name), Some(&b"do_it"[..]));
        assert_eq!(k.table.find(0xffffffffc0000010).map(|s| s.name), Some(&b"estimation_timer"[..]));
    }

    #[test]
    fn hidden_addresses_give_no_names() {
        let k = Kallsyms::parse(b"0000000000000000 T _text\n0000000000000000 t x\n");
        assert!(k.restricted && k.table.is_empty());
    }

    #[test]
    fn module_lines() {
        let text = "ip_vs 159744 0 - Live 0xffffffffc0000000\nx 1 0 - Live 0x0000000000000000\njunk\n";
        assert_eq!(parse_modules(text), [Module { name: "ip_vs".into(), start: 0xffffffffc0000000, len: 159744 }]);
    }
}
