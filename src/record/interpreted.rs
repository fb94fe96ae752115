//! Frames of interpreted functions, as addresses above all of user code: the language, the function, and its line.
//! A process has a mapping of each of its languages, and a function is named by the record of a symbol there.

use std::sync::Arc;

use super::kinds::{HAS_SOURCE, Mmap, encode, types};

/// A language whose functions are frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    Python,
    Php,
    Java,
    JavaScript,
    Ruby,
    Perl,
}

/// The addresses of all languages, those of one, and those of a function.
const LANGUAGES: u64 = 1 << 56;
pub(crate) const LANGUAGE_LEN: u64 = 1 << 48;
pub(crate) const FUNCTION_LEN: u64 = 1 << 16;
/// Where functions begin in a file that describes them.
const OFFSET: u64 = 1 << 16;

impl Language {
    pub(crate) const ALL: [Self; 6] = [Self::Python, Self::Php, Self::Java, Self::JavaScript, Self::Ruby, Self::Perl];

    /// Returns its name, as filters and columns have it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Php => "php",
            Self::Java => "java",
            Self::JavaScript => "js",
            Self::Ruby => "ruby",
            Self::Perl => "perl",
        }
    }

    /// Returns whether names are read from the memory of the process after a sample, not by the kernel's walk.
    pub(crate) fn names_are_read_later(self) -> bool {
        matches!(self, Self::Java | Self::JavaScript)
    }

    /// Returns the name of the mapping of its functions.
    pub(crate) fn dso(self) -> &'static str {
        match self {
            Self::Python => "[python]",
            Self::Php => "[php]",
            Self::Java => "[java]",
            Self::JavaScript => "[js]",
            Self::Ruby => "[ruby]",
            Self::Perl => "[perl]",
        }
    }

    /// Returns the language with this name of a mapping.
    pub(crate) fn of_dso(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.dso().as_bytes() == name)
    }

    /// Returns the language of a function's address; `None` for other addresses.
    pub(crate) fn of_address(address: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|language| address & !(LANGUAGE_LEN - 1) == language.start())
    }

    fn start(self) -> u64 {
        LANGUAGES + (self as u64 + 1) * LANGUAGE_LEN
    }

    /// Returns an address in a function by its number. Callers are looked up one byte before: its first byte is not
    /// used.
    pub(crate) fn address(self, function: u32) -> u64 {
        self.start() | u64::from(function) << 16 | 1
    }

    /// Returns whether the lines of its functions are read.
    pub(crate) fn has_lines(self) -> bool {
        matches!(self, Self::Python | Self::Php | Self::Java | Self::JavaScript)
    }

    /// Returns the address of a function that has this one in a file that describes the functions.
    pub(crate) fn address_of(self, in_file: u64) -> u64 {
        in_file.wrapping_sub(OFFSET).wrapping_add(self.start())
    }
}

/// Returns the number of a function, given its address.
pub(crate) fn number(function: u64) -> u32 {
    (function >> 16) as u32
}

/// Returns the address of a line, given that of its function and the function's first line. Lines that are not in the
/// range of a function's addresses have that of the function. Each line has two addresses: that of a caller is looked up
/// one byte before.
pub(crate) fn at_line(function: u64, first: u32, line: u32) -> u64 {
    let number = u64::from(line.wrapping_sub(first)) + 1;
    if line < first || number > u64::from(LINES) { function } else { function + 2 * number }
}

/// The number of lines that a function's addresses distinguish.
pub(crate) const LINES: u32 = FUNCTION_LEN as u32 / 2 - 1;

/// Returns the line of an address, given the function's first line; `None` for the address of the function.
pub(crate) fn line_at(address: u64, first: u32) -> Option<u32> {
    let number = (address & (FUNCTION_LEN - 1)) as u32 / 2;
    first.checked_add(number.checked_sub(1)?)
}

/// Where the source text of a function is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionSource {
    pub(crate) file: Arc<str>,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// A process that has the function, whose view of files counts, and the user who runs it and so names the file.
    pub(crate) pid: i32,
    pub(crate) uid: u32,
}

impl FunctionSource {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.file.bytes().filter(|byte| *byte != 0));
        out.push(0);
        [self.first, self.last, self.pid as u32, self.uid].iter().for_each(|word| out.extend(word.to_le_bytes()));
    }

    /// Decodes what a record has behind the name of a function; `None` if that is incomplete.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let end = memchr::memchr(0, bytes)?;
        let word = |i: usize| Some(u32::from_le_bytes(bytes.get(end + 1 + 4 * i..)?.get(..4)?.try_into().ok()?));
        let (first, last, pid, uid) = (word(0)?, word(1)?, word(2)? as i32, word(3)?);
        let file = String::from_utf8_lossy(&bytes[..end]).into();
        (first > 0 && first <= last).then_some(Self { file, first, last, pid, uid })
    }
}

/// Returns the address of a function in the file that would describe it.
pub(crate) fn to_dso(address: u64) -> u64 {
    (address & (LANGUAGE_LEN - 1)) + OFFSET
}

/// Stands for the name of a function that could not be read.
pub(crate) const NAME_NOT_READ: &str = "(name not read)";

/// Appends the record that names a function.
pub(crate) fn encode_function(
    out: &mut Vec<u8>,
    address: u64,
    name: &str,
    source: Option<&FunctionSource>,
    trailer: &[u8],
) -> Option<()> {
    encode(out, types::KSYMBOL, 0, |out| {
        out.extend(address.to_le_bytes());
        out.extend((FUNCTION_LEN as u32).to_le_bytes());
        out.extend([0; 2]);
        out.extend(source.map_or(0, |_| HAS_SOURCE).to_le_bytes());
        out.extend(name.bytes().filter(|byte| *byte != 0));
        if let Some(source) = source {
            out.push(0);
            source.encode(out);
        }
        out.resize((out.len() / 8 + 1) * 8, 0);
        out.extend(trailer);
    })
}

/// Appends the record of a process's mapping of a language's functions.
pub(crate) fn encode_mapping(out: &mut Vec<u8>, language: Language, pid: i32, trailer: &[u8]) -> Option<()> {
    let (start, len, pgoff, name) = (language.start(), LANGUAGE_LEN, OFFSET, language.dso().as_bytes());
    Mmap { pid, tid: pid, start, len, pgoff, prot: 5, name, ..Mmap::default() }.encode(out, trailer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_have_addresses_and_mappings_of_their_own() {
        for language in Language::ALL {
            let address = language.address(7);
            assert_eq!(Language::of_address(address), Some(language));
            assert_eq!(language.address_of(to_dso(address)), address);
            assert_eq!(language.dso(), format!("[{}]", language.name()));
            assert_eq!(Language::of_dso(language.dso().as_bytes()), Some(language));
        }
        // Recordings have these.
        assert_eq!(Language::Python.address(2), 0x0101_0000_0002_0001);
        assert_eq!(Language::Php.address(2), 0x0102_0000_0002_0001);
        for other in [0, 0x7fff_ffff_f000, 1 << 56, 0x0100_ffff_ffff_ffff, 0x01ff_0000_0000_0000, u64::MAX] {
            assert_eq!(Language::of_address(other), None);
        }
        assert_eq!(Language::of_dso(b"[heap]"), None);
    }

    #[test]
    fn an_address_has_the_line_of_its_function() {
        let function = Language::Python.address(7);
        let line = |line: u32| {
            let address = at_line(function, 10, line);
            assert_eq!(Language::of_address(address), Some(Language::Python));
            assert_eq!(address >> 16, function >> 16);
            // A call is looked up one byte before its return address.
            assert_eq!(line_at(address - 1, 10), line_at(address, 10));
            assert_eq!(line_at(to_dso(address), 10), line_at(address, 10));
            line_at(address, 10)
        };
        assert_eq!([10, 11, 32_776].map(line), [Some(10), Some(11), Some(32_776)]);
        // Recordings without lines have this address, too.
        assert_eq!([0, 9, 32_777, u32::MAX].map(line), [None; 4]);
        assert_eq!(line_at(function + 4, u32::MAX), None);
    }

    #[test]
    fn sources_are_behind_the_name_of_a_function() {
        use crate::record::Record;
        use crate::record::kinds::split;
        let source = FunctionSource { file: "/srv/app.py".into(), first: 3, last: 9, pid: 7, uid: 1000 };
        for (name, source) in [("spin (app.py)", Some(&source)), ("spin", Some(&source)), ("spin (a.py)", None)] {
            let mut out = Vec::new();
            encode_function(&mut out, Language::Python.address(2), name, source, &[0xff; 24]).expect("short");
            let (header, body, _) = split(&out).expect("whole").expect("a record");
            let Ok(Record::Ksymbol { name: read, source: bytes, .. }) = Record::decode(header, body, false) else {
                panic!("a symbol")
            };
            assert_eq!((read, FunctionSource::decode(bytes).as_ref()), (name.as_bytes(), source));
        }
        let mut whole = Vec::new();
        source.encode(&mut whole);
        (0..whole.len()).for_each(|len| assert_eq!(FunctionSource::decode(&whole[..len]), None));
        assert_eq!(FunctionSource::decode(&[0; 24]), None);
    }
}
