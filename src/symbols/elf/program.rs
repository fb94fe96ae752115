//! The loaded parts of an ELF file, from its program headers.
//! Its sections are included if they are readable. A program runs with its program headers alone (elf(5)), so they
//! suffice for unwinding if section headers are damaged or missing.

use std::ops::Range;

use gimli::{BaseAddresses, EndianSlice, RunTimeEndian};
use object::elf::{EM_386, EM_AARCH64, EM_X86_64, FileHeader32, FileHeader64, PF_W, PF_X, PT_GNU_EH_FRAME, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, SectionFlags};

use super::section::{Section, Shape};
use crate::symbols::elf::{self, Elf, ElfError, ElfSegments, MAX_SEGMENTS};

/// The machines whose code is unwound by tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Machine {
    X86_64,
    /// x86-64 code with four-byte pointers.
    X32,
    I386,
    Aarch64,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Segment {
    pub(crate) offset: u64,
    /// Bytes in the file, and in memory.
    pub(crate) size: u64,
    pub(crate) memory: u64,
    pub(crate) address: u64,
    pub(crate) is_code: bool,
    pub(crate) is_writable: bool,
}

#[derive(Debug)]
pub(crate) struct ElfProgram<'d> {
    bytes: &'d [u8],
    pub(crate) machine: Machine,
    pub(crate) shape: Shape,
    /// The linked address of the entry point; 0 if the file is not a program.
    pub(crate) entry: u64,
    pub(crate) segments: Vec<Segment>,
    /// The file with its sections, if they are readable.
    pub(crate) elf: Option<Elf<'d>>,
    /// The search table of the unwind tables, from its program header.
    header: Option<Section>,
}

impl<'d> ElfProgram<'d> {
    /// Parses the program headers of a file. Fails if it is not an ELF file, or the headers are damaged.
    pub(crate) fn of(bytes: &'d [u8]) -> Result<Self, ElfError> {
        match FileHeader64::<Endianness>::parse(bytes) {
            Ok(header) => Self::read(header, bytes),
            Err(_) => Self::read(FileHeader32::<Endianness>::parse(bytes)?, bytes),
        }
    }

    fn read<H: FileHeader<Endian = Endianness>>(header: &H, bytes: &'d [u8]) -> Result<Self, ElfError> {
        let endian = header.endian()?;
        let is_wide = header.is_class_64();
        let machine = match header.e_machine(endian) {
            EM_X86_64 if is_wide => Machine::X86_64,
            EM_X86_64 => Machine::X32,
            EM_386 => Machine::I386,
            EM_AARCH64 => Machine::Aarch64,
            _ => Machine::Other,
        };
        let parts = u32::from(header.e_phnum(endian));
        let elf = elf::parse(bytes);
        if let Err(ElfError::Parts(parts)) = elf {
            return Err(ElfError::Parts(parts));
        }
        let headers = match header.program_headers(endian, bytes) {
            Ok(headers) => headers,
            // Program header counts that do not fit the header are in the section headers, which are unreadable.
            Err(error) if parts > 0 => return Err(error.into()),
            Err(_) => &[],
        };
        let (mut segments, mut searched) = (Vec::new(), None);
        for one in headers {
            let (offset, size): (u64, u64) = (one.p_offset(endian).into(), one.p_filesz(endian).into());
            let (address, memory): (u64, u64) = (one.p_vaddr(endian).into(), one.p_memsz(endian).into());
            match one.p_type(endian) {
                PT_LOAD if segments.len() < MAX_SEGMENTS => {
                    let has = |flag: u32| one.p_flags(endian).0 & flag != 0;
                    let (is_code, is_writable) = (has(PF_X.0), has(PF_W.0));
                    segments.push(Segment { offset, size, memory, address, is_code, is_writable });
                }
                PT_GNU_EH_FRAME => searched = Section::at(offset, size, address),
                _ => {}
            }
        }
        let endian = if header.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        Ok(Self {
            bytes,
            machine,
            shape: Shape::new(endian, is_wide, machine == Machine::Aarch64),
            entry: header.e_entry(header.endian()?).into(),
            segments,
            elf: elf.ok(),
            header: searched,
        })
    }

    pub(crate) fn places(&self) -> ElfSegments {
        ElfSegments::new(self.segments.iter().map(|part| (part.address, part.memory, part.offset)))
    }

    /// Returns a word of the loaded parts that identifies the file, and its address as linked. It is the start of the
    /// build ID, or else the offset of the section headers, which depends on the size of everything before them.
    pub(crate) fn mark(&self) -> Option<(u64, u64)> {
        let sections = if self.shape.size == 8 { 0x28 } else { 0x20 };
        let id = self.elf.as_ref().and_then(|elf| elf.build_id().ok().flatten()).filter(|id| id.len() >= 8);
        let at = id.map_or(Some(sections), |id| id.as_ptr().addr().checked_sub(self.bytes.as_ptr().addr()))?;
        let word = self.bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
        let is_in = |part: &&Segment| (at as u64).checked_sub(part.offset).is_some_and(|into| into + 8 <= part.size);
        let part = self.segments.iter().find(is_in)?;
        Some((part.address.wrapping_add(at as u64 - part.offset), u64::from_le_bytes(word)))
    }

    /// Returns a section by name. Those for unwinding are also found through the program headers.
    pub(crate) fn section(&self, name: &str) -> Option<Section> {
        let named = self.elf.as_ref().and_then(|elf| Section::of(elf, name));
        named.or_else(|| match name {
            ".eh_frame_hdr" => self.header.clone(),
            ".eh_frame" => self.frames(),
            _ => None,
        })
    }

    /// Returns the unwind table that the search table points to; its terminator ends it before its segment does.
    fn frames(&self) -> Option<Section> {
        let header = self.header.as_ref()?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(header.address);
        let (endian, size) = (self.shape.endian, self.shape.size);
        let slice = EndianSlice::new(header.bytes(self.bytes), endian);
        let gimli::Pointer::Direct(at) = gimli::EhFrameHdr::from(slice).parse(&bases, size).ok()?.eh_frame_ptr() else {
            return None;
        };
        let part = self.segments.iter().find(|part| at.wrapping_sub(part.address) < part.size)?;
        let into = at - part.address;
        Section::at(part.offset.checked_add(into)?, part.size - into, at)
    }

    pub(crate) fn bases(&self) -> BaseAddresses {
        let mut bases = BaseAddresses::default();
        for (name, set) in [
            (".eh_frame_hdr", BaseAddresses::set_eh_frame_hdr as fn(BaseAddresses, u64) -> BaseAddresses),
            (".eh_frame", BaseAddresses::set_eh_frame),
            (".text", BaseAddresses::set_text),
            (".got", BaseAddresses::set_got),
        ] {
            bases = self.section(name).map_or(bases.clone(), |section| set(bases, section.address));
        }
        bases
    }

    /// Returns the parts with code: linked address and content.
    pub(crate) fn code(&self) -> Vec<(u64, &'d [u8])> {
        let sections = self.elf.iter().flat_map(|elf| elf.sections()).filter(|section| {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return false };
            sh_flags.0 & object::elf::SHF_EXECINSTR.0 != 0
        });
        let named = sections.filter_map(|section| Some((section.address(), section.data().ok()?)));
        let named: Vec<(u64, &[u8])> = named.filter(|(_, code)| !code.is_empty()).collect();
        if !named.is_empty() {
            return named;
        }
        let part = |part: &Segment| {
            let range: Range<usize> =
                usize::try_from(part.offset).ok()?..usize::try_from(part.offset.checked_add(part.size)?).ok()?;
            Some((part.address, self.bytes.get(range)?))
        };
        self.segments.iter().filter(|part| part.is_code).filter_map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::trust::find_file::tests::{SPIN, map};

    /// Damages offset, number and names of the section headers.
    pub(crate) fn without_sections(bytes: &[u8], offset: u64) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[0x28..0x30].copy_from_slice(&offset.to_le_bytes());
        if offset == 0 {
            bytes[0x3a..0x40].fill(0);
        }
        bytes
    }

    #[test]
    fn tables_are_found_without_section_headers() {
        let whole = map(SPIN);
        let whole = ElfProgram::of(&whole).expect("a program");
        let own = whole.section(".eh_frame").expect("a table");
        for offset in [0, u64::MAX, 0x10_0000_0000] {
            let bytes = without_sections(whole.bytes, offset);
            let program = ElfProgram::of(&bytes).expect("a program");
            assert!(program.elf.as_ref().is_none_or(|elf| elf.sections().next().is_none()), "{offset:#x}");
            assert_eq!((&program.segments, program.entry), (&whole.segments, whole.entry));
            let found = program.section(".eh_frame").expect("a table");
            assert_eq!(found.address, own.address);
            assert!(found.bytes(&bytes).starts_with(own.bytes(whole.bytes)));
            let code: usize = program.code().iter().map(|(_, code)| code.len()).sum();
            assert!(code >= whole.code().iter().map(|(_, code)| code.len()).sum());
        }
    }

    #[test]
    fn damage_is_an_error() {
        let whole = map(SPIN);
        for len in [0, 3, 63, 64, 100, 400] {
            let _ = ElfProgram::of(&whole[..len]).map(|program| (program.section(".eh_frame"), program.code().len()));
        }
        assert!(ElfProgram::of(b"#!/bin/sh\n").is_err());
    }
}
