//! Frames of interpreted functions, as addresses above all of user code: the language, the function, and its line.
//! A process has a mapping of each of its languages, and a function is named by the record of a symbol there.

use super::kinds::{Mmap, encode, types};

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

    /// Returns the address of a function that has this one in a file that describes the functions.
    pub(crate) fn address_of(self, in_file: u64) -> u64 {
        in_file.wrapping_sub(OFFSET).wrapping_add(self.start())
    }
}

/// Returns the address of a function in the file that would describe it.
pub(crate) fn to_dso(address: u64) -> u64 {
    (address & (LANGUAGE_LEN - 1)) + OFFSET
}

/// Stands for the name of a function that could not be read.
pub(crate) const NAME_NOT_READ: &str = "(name not read)";

/// Appends the record that names a function.
pub(crate) fn encode_function(out: &mut Vec<u8>, address: u64, name: &str, trailer: &[u8]) -> Option<()> {
    encode(out, types::KSYMBOL, 0, |out| {
        out.extend(address.to_le_bytes());
        out.extend((FUNCTION_LEN as u32).to_le_bytes());
        out.extend([0; 4]);
        out.extend(name.bytes().filter(|byte| *byte != 0));
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
}
