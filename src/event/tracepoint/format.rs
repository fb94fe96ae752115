//! The layout of a tracepoint's raw data, from its `format` file (Documentation/trace/events.rst) or from the tracing
//! data of a recording (similar to trace.dat(5)).

mod names;
pub mod print;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::calls::CallTables;
use crate::perfdata::bytes::ByteReader;
use print::{FunctionAt, Printer};

/// Kernel strings that records refer to by address.
pub(crate) type StringAddresses = FxHashMap<u64, Box<str>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldShape {
    /// One number.
    Number,
    /// Numbers of this many bytes.
    Array(usize),
    /// Text up to a NUL.
    Text,
    /// A word with offset (low half) and length (high half) of text or bytes.
    Located { text: bool, relative: bool, element: usize },
}

/// A field of a tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name in C, without an array length.
    pub name: String,
    pub(crate) kind: String,
    pub(crate) offset: usize,
    /// Bytes at its offset; for variable-length data those of its location word.
    pub size: usize,
    pub(crate) signed: bool,
    /// Whether the data is big-endian.
    big: bool,
    pub(crate) shape: FieldShape,
    /// The key of a profile's label, which may have other characters than a field's name.
    pub(crate) label: Option<Box<str>>,
}

/// A tracepoint's description.
#[derive(Clone, Debug, Default)]
pub struct Format {
    pub(crate) system: String,
    pub(crate) name: String,
    pub(crate) id: u64,
    /// All fields in the file's order; common fields first.
    pub fields: Vec<Field>,
    /// The parsed `print fmt`; empty if it uses unsupported syntax.
    pub printer: Printer,
    /// The source of the printer.
    pub print: String,
    pub(crate) big: bool,
    pub(crate) strings: Arc<StringAddresses>,
    /// The system calls of the machine.
    pub(crate) calls: CallTables,
}

impl Format {
    /// Parses a `format` file. Returns `None` if it does not have an ID.
    pub fn parse(system: &str, text: &str, big: bool) -> Option<Self> {
        let mut format = Self { system: system.to_owned(), big, ..Self::default() };
        let mut id = None;
        // The print format is last and may span several lines.
        let (head, print) = text.split_once("print fmt: ").map_or((text, None), |(head, print)| (head, Some(print)));
        if let Some(print) = print {
            format.printer = Printer::parse(print);
            format.print = print.trim_end().to_owned();
        }
        for line in head.lines() {
            if let Some(name) = line.strip_prefix("name: ") {
                format.name = name.trim().to_owned();
            } else if let Some(number) = line.strip_prefix("ID: ") {
                id = number.trim().parse().ok();
            } else if let Some(field) = line.trim_start().strip_prefix("field:") {
                format.fields.extend(parse_field(field, big));
            }
        }
        format.id = id?;
        Some(format)
    }

    pub(crate) fn names_strings(&self) -> bool {
        self.fields.iter().any(|f| f.kind.contains("char") && f.kind.ends_with('*'))
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// Returns a field by name. If there is a field with the text of a recorded address, returns that one.
    pub(crate) fn said(&self, name: &str) -> Option<&Field> {
        self.field(&text_of(name)).or_else(|| self.field(name))
    }

    pub(crate) fn tells_beside(&self, field: &Field) -> bool {
        self.fields.iter().any(|of| field.name == text_of(&of.name))
    }

    pub(crate) fn own_fields(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| !field.name.starts_with("common_"))
    }

    /// Returns the names of its own fields with text.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let own = self.fields.iter().map(|field| &*field.name).filter(|name| !name.starts_with("__"));
        own.filter(|name| self.said(name).is_some_and(Field::is_text))
    }

    /// Formats a sample with the kernel's `print fmt`; else lists all fields by name. Empty without raw data.
    pub fn text(&self, raw: &[u8]) -> String {
        self.text_with(raw, &|_| None)
    }

    /// Formats a sample like [`Self::text`], but system calls in the syntax of a call.
    pub(crate) fn call_or_text(&self, raw: &[u8]) -> String {
        self.call_or_text_with(raw, &|_| None)
    }

    /// Does the same with names of the kernel's functions.
    pub(crate) fn call_or_text_with(&self, raw: &[u8], function: &FunctionAt<'_>) -> String {
        print::call::text(self, raw).unwrap_or_else(|| self.text_with(raw, function))
    }

    /// Returns the words that the print format has in the place of a field's number, which perf shows, too.
    pub(crate) fn printed_words(&self, field: &str, number: i64) -> Option<String> {
        print::printed(self, self.field(field)?, number)
    }

    /// Returns the words for a field's number: names of flags, states, system calls, errors.
    pub(crate) fn words(&self, field: &str, number: i64) -> Option<String> {
        self.words_with(field, number, &|_| None)
    }

    /// Returns the words for a field's number: those of the print format, or else of a table of known fields.
    pub(crate) fn words_with(&self, field: &str, number: i64, function: &FunctionAt<'_>) -> Option<String> {
        let field = self.field(field)?;
        print::words(self, field, number, function).or_else(|| names::of(self, field, number))
    }

    /// Returns the number of a field that has a name; of several, the least one that is not negative.
    pub(crate) fn number_of(&self, field: &str, name: &str) -> Option<i64> {
        /// States, vectors, calls, errors and the flags of most names are below it.
        const SMALL: i64 = 1 << 12;
        let numbers = (0..SMALL).chain((12..63).map(|bit| 1 << bit)).chain((-SMALL..0).rev());
        numbers.into_iter().find(|number| self.words(field, *number).as_deref() == Some(name))
    }

    pub(crate) fn text_with(&self, raw: &[u8], function: &FunctionAt<'_>) -> String {
        if raw.is_empty() {
            return String::new();
        }
        self.printer.print(self, raw, function).unwrap_or_else(|| {
            self.own_fields().map(|f| format!("{}={}", f.name, f.text(raw))).collect::<Vec<_>>().join(" ")
        })
    }
}

impl Field {
    /// Returns the field's data, following a location word.
    pub(crate) fn bytes<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let own = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        let FieldShape::Located { relative, .. } = self.shape else { return Some(own) };
        let word = number(own, false, self.big) as u32;
        let (mut at, len) = ((word & 0xffff) as usize, (word >> 16) as usize);
        if relative {
            at += self.offset + self.size;
        }
        raw.get(at..at.checked_add(len)?)
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.shape, FieldShape::Text | FieldShape::Located { text: true, .. })
    }

    pub(crate) fn is_number(&self) -> bool {
        self.shape == FieldShape::Number
    }

    /// Returns the field's number, or the first of several.
    pub fn number(&self, raw: &[u8]) -> Option<i64> {
        let own = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(number(&own[..own.len().min(8)], self.signed, self.big))
    }

    /// Formats the field as text.
    pub fn text(&self, raw: &[u8]) -> String {
        let Some(bytes) = self.bytes(raw) else { return String::new() };
        let big = self.big;
        let list = |element: usize| {
            let numbers: Vec<String> =
                bytes.chunks_exact(element.max(1)).map(|b| format!("{:#x}", number(b, false, big))).collect();
            format!("{{{}}}", numbers.join(", "))
        };
        match self.shape {
            FieldShape::Text | FieldShape::Located { text: true, .. } => text(bytes),
            FieldShape::Array(element) | FieldShape::Located { element, .. } => list(element),
            FieldShape::Number if self.signed => number(bytes, true, big).to_string(),
            FieldShape::Number => (number(bytes, false, big) as u64).to_string(),
        }
    }
}

/// Decodes a number of 1, 2, 4 or 8 bytes.
pub(crate) fn number(bytes: &[u8], signed: bool, big: bool) -> i64 {
    let fold = |n: u64, b: &u8| n << 8 | u64::from(*b);
    let raw = match *bytes {
        [a, b, c, d] if !big => u64::from(u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] if !big => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ if big => bytes.iter().fold(0, fold),
        _ => bytes.iter().rev().fold(0, fold),
    };
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    if signed { (raw << unused) as i64 >> unused } else { raw as i64 }
}

pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    &bytes[..memchr::memchr(0, bytes).unwrap_or(bytes.len())]
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(until_nul(bytes)).into_owned()
}

pub(crate) fn text_of(name: &str) -> String {
    format!("__{name}_val")
}

/// Parses `unsigned long args[6]; offset:16; size:48; signed:0;`.
fn parse_field(text: &str, big: bool) -> Option<Field> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut value = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (value("offset:")?, value("size:")?);
    let signed = value("signed:").unwrap_or(0) != 0;
    let (kind, name) = declaration.split_at(declaration.rfind([' ', '*'])? + 1);
    let (name, count) = match name.split_once('[') {
        Some((name, rest)) => (name, rest.trim_end_matches(']').parse::<usize>().ok()),
        None => (name, None),
    };
    let located = kind.contains("__data_loc") || kind.contains("__rel_loc");
    let is_text = kind.split_whitespace().any(|w| w == "char" || w == "char[]");
    let shape = if located {
        let element = element_size(kind);
        FieldShape::Located { text: is_text, relative: kind.contains("__rel_loc"), element }
    } else if is_text && !kind.trim_end().ends_with('*') && (count.is_some() || size > 1) {
        FieldShape::Text
    } else if let Some(n) = count.filter(|n| *n > 0) {
        FieldShape::Array(size / n)
    } else if size > 8 {
        FieldShape::Array(element_size(kind))
    } else {
        FieldShape::Number
    };
    let (name, kind) = (name.to_owned(), kind.trim().to_owned());
    Some(Field { name, kind, offset, size, signed, big, shape, label: None })
}

fn element_size(kind: &str) -> usize {
    let has = |words: &[&str]| words.iter().any(|w| kind.contains(w));
    if has(&["long", "64", "size_t", "*"]) {
        8
    } else if has(&["short", "16"]) {
        2
    } else if has(&["char", "8", "bool"]) {
        1
    } else {
        4
    }
}

/// The formats of a recording by tracepoint ID.
#[derive(Clone, Debug, Default)]
pub struct Formats {
    /// Keyed by the event's `config`, which equals the field `common_type`.
    pub by_id: FxHashMap<u64, Format>,
}

/// Larger numbers or sizes mean damaged data.
const MAX_FORMATS: u32 = 100_000;

impl Formats {
    /// Parses the tracing data of a perf.data file, as far as it is intact.
    pub fn parse(blob: &[u8]) -> Self {
        let mut formats = Self::default();
        let _ = formats.read(blob);
        formats
    }

    fn read(&mut self, blob: &[u8]) -> Option<()> {
        let rest = blob.strip_prefix(&[23, 8, 68])?.strip_prefix(b"tracing")?;
        let (_version, rest) = rest.split_at(memchr::memchr(0, rest)? + 1);
        let big = *rest.first()? != 0;
        let mut b = ByteReader::new(rest.get(6..)?, big);
        for name in [&b"header_page\0"[..], b"header_event\0"] {
            b.rest = b.rest.strip_prefix(name)?;
            let size = b.u64()? as usize;
            b.take(size)?;
        }
        // Formats of ftrace's own events.
        for _ in 0..b.u32()?.min(MAX_FORMATS) {
            let size = b.u64()? as usize;
            b.take(size)?;
        }
        for _ in 0..b.u32()?.min(MAX_FORMATS) {
            let end = memchr::memchr(0, b.rest)?;
            let system = String::from_utf8_lossy(b.take(end)?).into_owned();
            b.take(1)?;
            for _ in 0..b.u32()?.min(MAX_FORMATS) {
                let size = b.u64()? as usize;
                let text = String::from_utf8_lossy(b.take(size)?);
                if let Some(format) = Format::parse(&system, &text, big) {
                    self.by_id.insert(format.id, format);
                }
            }
        }
        // The kernel's symbols; perf leaves them empty.
        let size = b.u32()? as usize;
        b.take(size)?;
        let size = b.u32()? as usize;
        let strings = Arc::new(strings(&String::from_utf8_lossy(b.take(size)?)));
        self.by_id.values_mut().for_each(|format| format.strings = strings.clone());
        Some(())
    }
}

/// Parses tracefs's `printk_formats`: `0xffffffff8281972f : "thaw_processes"`.
pub(crate) fn strings(text: &str) -> StringAddresses {
    let line = |line: &str| -> Option<(u64, Box<str>)> {
        let (address, string) = line.split_once(" : ")?;
        let address = u64::from_str_radix(address.trim().strip_prefix("0x")?, 16).ok()?;
        let string = string.strip_prefix('"')?.strip_suffix('"')?;
        Some((address, string.replace("\\n", "\n").replace("\\\"", "\"").into()))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) const SYS_ENTER: &str = "name: sys_enter\nID: 19\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\tfield:unsigned long args[2];\toffset:16;\tsize:16;\tsigned:0;\n\tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;\n\nprint fmt: \"NR %ld (%lx, %lx) %s\", REC->id, REC->args[0], REC->args[1], __get_str(name)\n";

    pub(crate) fn raw() -> Vec<u8> {
        let mut raw = vec![19, 0, 0, 0, 0, 0, 0, 0];
        for word in [-3i64 as u64, 0xab, 0xcd] {
            raw.extend(word.to_le_bytes());
        }
        raw.extend((36u32 | 3 << 16).to_le_bytes());
        raw.extend(b"hi\0");
        raw
    }

    #[test]
    fn fields_and_text() {
        let f = Format::parse("raw_syscalls", SYS_ENTER, false).expect("format");
        assert_eq!((f.id, f.fields.len()), (19, 4));
        assert_eq!(f.field("id").and_then(|id| id.number(&raw())), Some(-3));
        assert_eq!(f.field("args").map(|a| a.text(&raw())).as_deref(), Some("{0xab, 0xcd}"));
        assert_eq!(f.text(&raw()), "NR -3 (ab, cd) hi");
        assert_eq!(f.text(&raw()[..20]), "id=-3 args= name=");
    }

    #[test]
    fn tracing_data_of_our_own_making_is_read_back() {
        let mut blob = vec![23, 8, 68];
        blob.extend(b"tracing0.6\0");
        blob.extend([0, 8]);
        blob.extend(4096u32.to_le_bytes());
        for name in [&b"header_page\0"[..], b"header_event\0"] {
            blob.extend(name);
            blob.extend(0u64.to_le_bytes());
        }
        blob.extend(0u32.to_le_bytes());
        blob.extend(1u32.to_le_bytes());
        blob.extend(b"raw_syscalls\0");
        blob.extend(1u32.to_le_bytes());
        blob.extend((SYS_ENTER.len() as u64).to_le_bytes());
        blob.extend(SYS_ENTER.as_bytes());
        let formats = Formats::parse(&blob);
        assert_eq!(formats.by_id.get(&19).map(|f| f.name.as_str()), Some("sys_enter"));
        for cut in 0..blob.len() {
            let _ = Formats::parse(&blob[..cut]);
        }
    }
}
