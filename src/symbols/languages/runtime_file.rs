//! Files that contain the runtime of a language.

use std::fmt;

use crate::kernel::procfs::ProcMapping;
use crate::kernel::walk::LanguageRuntime;
use crate::record::interpreted::Language;
use crate::symbols::elf::program::{ElfProgram, Machine};

use super::cpython::CpythonFile;
use super::hotspot::{HotspotFile, JavaMachine};
use super::names::RuntimeTypes;
use super::perl::PerlFile;
use super::php::PhpFile;
use super::ruby::RubyFile;
use super::v8::{V8File, V8Layout};
use super::{NotWalked, ProcessMemory, ThreadSlot};

/// A language and the version of its runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LanguageVersion {
    pub(crate) language: Language,
    pub(crate) major: u8,
    pub(crate) minor: u8,
}

impl fmt::Display for LanguageVersion {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.language, self.major) {
            // The version is known only from the memory of a process.
            (Language::Java, 0) => to.write_str(self.language.name()),
            (Language::Java, major) => write!(to, "java {major}"),
            (Language::JavaScript, major) => write!(to, "V8 {major}.{}", self.minor),
            (language, major) => write!(to, "{} {major}.{}", language.name(), self.minor),
        }
    }
}

/// A file with a runtime, with addresses as linked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuntimeFile {
    pub(crate) version: LanguageVersion,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Cpython(CpythonFile),
    Php(PhpFile),
    Ruby(Box<RubyFile>),
    Perl(PerlFile),
    Hotspot(HotspotFile),
    V8(V8File),
}

/// A runtime in the memory of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FoundRuntime {
    Threads(ThreadSlot),
    Machine(Box<JavaMachine>),
    Engine(Box<V8Layout>),
}

/// A file that was recognized; an error if its version is not supported.
pub(crate) type Recognized = (LanguageVersion, Result<RuntimeFile, NotWalked>);

impl RuntimeFile {
    /// Recognizes a runtime by its symbols; `None` for other files.
    pub(crate) fn of(bytes: &[u8]) -> Option<Recognized> {
        let program = &ElfProgram::of(bytes).ok().filter(|program| program.machine == Machine::X86_64)?;
        let python = || {
            let (minor, file) = CpythonFile::of(program, bytes)?;
            Some((LanguageVersion { language: Language::Python, major: 3, minor }, file.map(Kind::Cpython)))
        };
        let php = || {
            let ((major, minor), file) = PhpFile::of(program)?;
            Some((LanguageVersion { language: Language::Php, major, minor }, file.map(Kind::Php)))
        };
        let java = || {
            let file = HotspotFile::of(program)?;
            Some((LanguageVersion { language: Language::Java, major: 0, minor: 0 }, Ok(Kind::Hotspot(file))))
        };
        let javascript = || {
            let ((major, minor), file) = V8File::of(program, bytes)?;
            Some((LanguageVersion { language: Language::JavaScript, major, minor }, file.map(Kind::V8)))
        };
        let ruby = || {
            let ((major, minor), file) = RubyFile::of(program, bytes)?;
            let kind = file.map(Box::new).map(Kind::Ruby);
            Some((LanguageVersion { language: Language::Ruby, major, minor }, kind))
        };
        let perl = || {
            let (minor, file) = PerlFile::of(program, bytes)?;
            Some((LanguageVersion { language: Language::Perl, major: 5, minor }, file.map(Kind::Perl)))
        };
        let (version, kind) = python().or_else(php).or_else(ruby).or_else(perl).or_else(java).or_else(javascript)?;
        Some((version, kind.map(|kind| Self { version, kind })))
    }

    /// Returns the difference of addresses in memory from the linked ones, if a mapping of the file has the runtime.
    pub(crate) fn bias(&self, map: &ProcMapping) -> Option<u64> {
        match &self.kind {
            Kind::Cpython(file) => file.bias(map),
            Kind::Php(file) => file.bias(map),
            Kind::Ruby(file) => file.bias(map),
            Kind::Perl(file) => file.bias(map),
            Kind::Hotspot(file) => file.bias(map),
            Kind::V8(file) => file.bias(map),
        }
    }

    /// Finds the runtime in the memory of a process. The process must be readable, even if nothing of it is needed: the
    /// kernel reads it without this user's rights.
    pub(crate) fn find(&self, bias: u64, memory: &impl ProcessMemory) -> Result<FoundRuntime, NotWalked> {
        match &self.kind {
            Kind::Cpython(file) => file.slot(bias, memory).map(FoundRuntime::Threads),
            Kind::Php(file) => file.slot(bias, memory).map(FoundRuntime::Threads),
            Kind::Ruby(file) => file.slot(bias, memory).map(FoundRuntime::Threads),
            Kind::Perl(file) => file.slot(bias, memory).map(FoundRuntime::Threads),
            Kind::Hotspot(file) => file.machine(bias, memory).map(Box::new).map(FoundRuntime::Machine),
            Kind::V8(file) => file.layout(bias, memory).map(Box::new).map(FoundRuntime::Engine),
        }
    }

    /// Returns the runtime's ID in walks, given a number.
    pub(crate) fn id(&self, number: u32) -> u32 {
        number << LANGUAGE_BITS | self.version.language as u32
    }

    /// Returns how the frames of a process are walked whose file is mapped with this difference from the linked addresses;
    /// `None` if it has no list of frames.
    pub(crate) fn runtime(&self, bias: u64, slot: ThreadSlot, id: u32) -> Option<LanguageRuntime> {
        match &self.kind {
            Kind::Cpython(file) => Some(file.runtime(bias, slot, id)),
            Kind::Php(file) => Some(file.runtime(bias, id)),
            Kind::Ruby(file) => Some(file.runtime(bias, slot, id)),
            Kind::Perl(file) => Some(file.runtime(bias, slot, id)),
            Kind::Hotspot(_) | Kind::V8(_) => None,
        }
    }

    /// Returns where all code of the interpreter is, if its JIT writes some next to the file's: start and length.
    pub(crate) fn text_with_jit(&self, bias: u64, maps: &[ProcMapping]) -> Option<(u64, u64)> {
        match &self.kind {
            Kind::Php(file) => file.text_with_jit(bias, maps),
            _ => None,
        }
    }

    /// Returns how the lines of functions are read whose names are in walks; `None` if they are not.
    pub(crate) fn lines(&self) -> Option<RuntimeTypes> {
        match &self.kind {
            Kind::Cpython(file) => Some(RuntimeTypes::Python(file.lines(self.version.minor))),
            Kind::Php(file) => Some(RuntimeTypes::Php(file.lines())),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(super) fn of_python(minor: u8, file: CpythonFile) -> Self {
        let version = LanguageVersion { language: Language::Python, major: 3, minor };
        Self { version, kind: Kind::Cpython(file) }
    }
}

/// The lowest bits of a runtime's ID in walks are its language.
const LANGUAGE_BITS: u32 = 4;

/// Returns the language of a runtime by its ID in walks.
pub(crate) fn language_of(id: u32) -> Option<Language> {
    Language::ALL.get(id as usize & ((1 << LANGUAGE_BITS) - 1)).copied()
}
