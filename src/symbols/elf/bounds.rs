//! Bounds of functions without a symbol in stripped files. They are from tables kept for exceptions and debuggers:
//! `.eh_frame` with its `.eh_frame_hdr` (LSB Core, "Exception Frames"), `.debug_frame` (DWARF 5, section 6.4) and
//! `.ARM.exidx` (Exception Handling ABI for the Arm Architecture, section 6).

use std::hash::Hash;
use std::ops::Range;

use gimli::{BaseAddresses, CieOrFde, CommonInformationEntry, FrameDescriptionEntry, Reader, UnwindSection};
use rustc_hash::FxHashMap;

use super::ElfSegments;
use super::program::ElfProgram;
use super::section::{Section, Shape, Slice};
use crate::symbols::bytes::Bytes;

/// The limit of listed functions: each takes 16 bytes. Files with more functions and no search table have no bounds.
const MAX_LISTED: usize = 1 << 20;

/// A file's functions. Nothing is read before the first lookup.
#[derive(Debug)]
pub(crate) struct Bounds {
    bytes: Bytes,
    segments: ElfSegments,
    way: Option<Way>,
}

/// The table that lookups search.
#[derive(Debug)]
enum Way {
    /// The search table of `.eh_frame_hdr`, in the file itself.
    Header {
        frames: Section,
        header: Section,
        bases: BaseAddresses,
        shape: Shape,
    },
    /// Start and end of each function, as linked, sorted.
    List(Vec<(u64, u64)>),
    Index {
        entries: Section,
        shape: Shape,
    },
}

/// The header that every linker writes before the table. It has the version and encodings in four bytes (relative to
/// the header), then the address of `.eh_frame` and the number of entries.
const USUAL: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const HEAD: usize = 12;

impl Shape {
    fn word(self, bytes: &[u8], at: usize) -> u32 {
        Slice::new(bytes.get(at..).unwrap_or_default(), self.endian).read_u32().unwrap_or_default()
    }

    /// Returns the offset in `.eh_frame` of an address's entry.
    fn entry(self, header: &[u8], base: u64, frames: u64, address: u64) -> Option<u64> {
        let n = (header.len().checked_sub(HEAD)? / 8).min(self.word(header, 8) as usize);
        let far = |at: usize| base.wrapping_add_signed((self.word(header, at) as i32).into());
        let i = last_until(n, |i| far(HEAD + 8 * i), address)?;
        far(HEAD + 8 * i + 4).checked_sub(frames)
    }

    /// Returns the function of an entry of `.ARM.exidx`. It ends where the next entry's function begins. Each entry is
    /// a 31-bit distance from itself and a word that describes how to unwind.
    fn indexed(self, entries: &[u8], base: u64, address: u64) -> Option<(u64, u64)> {
        let start = |i: usize| {
            let distance = ((self.word(entries, 8 * i) << 1) as i32) >> 1;
            base.wrapping_add(8 * i as u64).wrapping_add_signed(distance.into()) & 0xffff_ffff
        };
        let n = entries.len() / 8;
        let i = last_until(n, start, address)?;
        (i + 1 < n).then(|| (start(i), start(i + 1)))
    }
}

/// Returns the last of `n` sorted starts that is not after an address.
fn last_until(n: usize, start: impl Fn(usize) -> u64, address: u64) -> Option<usize> {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low.midpoint(high);
        if start(middle) <= address { low = middle + 1 } else { high = middle }
    }
    low.checked_sub(1)
}

impl Bounds {
    pub(crate) fn of(bytes: &Bytes, segments: &ElfSegments) -> Self {
        Self { bytes: bytes.clone(), segments: segments.clone(), way: None }
    }

    /// Returns the function at an offset in the file. It has its range in the file, and its start as linked.
    pub(crate) fn find(&mut self, offset: u64) -> Option<(Range<u64>, u64)> {
        let address = self.segments.to_address(offset)?;
        let way = self.way.get_or_insert_with(|| read(&self.bytes).unwrap_or(Way::List(Vec::new())));
        let (start, end) = way.find(&self.bytes, address).filter(|(start, end)| (*start..*end).contains(&address))?;
        let from = self.segments.to_offset(start)?;
        Some((from..from.checked_add(end - start)?, start))
    }

    pub(crate) fn memory(&self) -> usize {
        match &self.way {
            Some(Way::List(list)) => size_of_val(&**list),
            _ => 0,
        }
    }
}

impl Way {
    /// Returns start and end of the function at an address. May return another function's.
    fn find(&self, bytes: &[u8], address: u64) -> Option<(u64, u64)> {
        match self {
            Self::Header { frames, header, bases, shape } => {
                let at = shape.entry(header.bytes(bytes), header.address, frames.address, address)?;
                let at = gimli::EhFrameOffset(usize::try_from(at).ok()?);
                let frames = frames.eh_frames(bytes, *shape);
                let found = frames.fde_from_offset(bases, at, gimli::EhFrame::cie_from_offset).ok()?;
                Some((found.initial_address(), found.initial_address().checked_add(found.len())?))
            }
            Self::List(list) => {
                let after = list.partition_point(|(start, _)| *start <= address);
                list.get(after.checked_sub(1)?).copied()
            }
            Self::Index { entries, shape } => shape.indexed(entries.bytes(bytes), entries.address, address),
        }
    }
}

fn read(bytes: &[u8]) -> Option<Way> {
    let program = ElfProgram::of(bytes).ok()?;
    let (shape, bases) = (program.shape, program.bases());
    let of = |name: &str| program.section(name);
    if let (Some(frames), Some(header)) = (of(".eh_frame"), of(".eh_frame_hdr"))
        && header.bytes(bytes).starts_with(&USUAL)
    {
        return Some(Way::Header { frames, header, bases, shape });
    }
    if let Some(frames) = of(".eh_frame") {
        return list(&frames.eh_frames(bytes, shape), &bases);
    }
    if let Some(entries) = of(".ARM.exidx") {
        return Some(Way::Index { entries, shape });
    }
    list(&of(".debug_frame")?.debug_frames(bytes, shape), &bases)
}

/// Lists all functions of a section that has no search table.
fn list<'a, S: UnwindSection<Slice<'a>>>(frames: &S, bases: &BaseAddresses) -> Option<Way>
where
    S::Offset: Hash + Eq,
{
    let mut list = Vec::new();
    let all = each_function(frames, bases, |found| {
        if list.len() == MAX_LISTED {
            return Err(());
        }
        let start = found.initial_address();
        list.extend(start.checked_add(found.len()).filter(|end| start < *end).map(|end| (start, end)));
        Ok(())
    });
    all.ok()?;
    list.sort_unstable();
    list.shrink_to_fit();
    Some(Way::List(list))
}

/// Calls `each` for every readable function of a section. It stops at the first error.
pub(crate) fn each_function<'a, S: UnwindSection<Slice<'a>>, E>(
    frames: &S,
    bases: &BaseAddresses,
    mut each: impl FnMut(FrameDescriptionEntry<Slice<'a>>) -> Result<(), E>,
) -> Result<(), E>
where
    S::Offset: Hash + Eq,
{
    let (mut heads, mut entries) = (FxHashMap::default(), frames.entries(bases));
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(entry) = entry else { continue };
        let head = |frames: &S, bases: &_, at| match heads.get(&at) {
            Some(head) => Ok(CommonInformationEntry::clone(head)),
            None => frames.cie_from_offset(bases, at).inspect(|head| _ = heads.insert(at, head.clone())),
        };
        if let Ok(found) = entry.parse(head) {
            each(found)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use gimli::Vendor;
    use object::{Object, ObjectSection};

    use super::*;
    use crate::symbols::elf;
    use crate::symbols::trust::find_file::tests::{SPIN, libc, map};

    fn segments(bytes: &Bytes) -> ElfSegments {
        ElfProgram::of(bytes).expect("elf").places()
    }

    #[test]
    fn functions_have_the_bounds_of_their_symbols() {
        let bytes = map(std::env::current_exe().expect("path"));
        let segments = segments(&bytes);
        let mut bounds = Bounds::of(&bytes, &segments);
        let mut purse = crate::perfdata::unpack::UnpackBudget::new(1 << 28);
        let table = elf::symbols(&bytes, elf::SymbolSection::All, &segments, false, &mut purse).expect("symbols");
        let ours: Vec<_> = table.iter().filter(|s| memchr::memmem::find(s.name, b"perfprof_tui").is_some()).collect();
        assert!(ours.len() > 1000);
        let mut same = |s: &&crate::symbols::names::table::Symbol<'_>| {
            bounds.find(s.start.midpoint(s.end)).is_some_and(|(range, linked)| {
                range.start == s.start && range.end <= s.end && segments.to_address(s.start) == Some(linked)
            })
        };
        let found = ours.iter().filter(|s| same(s)).count();
        // A cold part may be a separate function inside another's symbol.
        assert!(found * 100 > ours.len() * 99, "{found} of {}", ours.len());
        assert_eq!(bounds.memory(), 0, "the file's own table is searched");
    }

    #[test]
    fn a_list_has_what_the_table_has() {
        let bytes = libc();
        let mut by_table = Bounds::of(&bytes, &segments(&bytes));
        let mut bytes = by_table.bytes.to_vec();
        let hidden = memchr::memmem::find_iter(&bytes, b".eh_frame_hdr\0").last().expect("a section's name");
        bytes[hidden + 1] = b'x';
        // Hides the table from the program header, too.
        let kind = object::elf::PT_GNU_EH_FRAME.0.to_le_bytes();
        let header = (64..4096).step_by(56).find(|at| bytes[*at..at + 4] == kind).expect("a program header");
        bytes[header..header + 4].fill(0);
        let mut by_list = Bounds::of(&bytes.into(), &by_table.segments);
        let mut found = 0;
        for offset in (0x2_8000..0x18_0000).step_by(41) {
            let (a, b) = (by_table.find(offset), by_list.find(offset));
            assert_eq!(a, b, "{offset:#x}");
            found += usize::from(a.is_some());
        }
        assert!(found > 10_000 && by_list.memory() > 16 * 1000, "{found} in {} bytes", by_list.memory());
    }

    #[test]
    fn an_arm_index_is_searched_by_distance() {
        let shape = Shape { endian: gimli::RunTimeEndian::Little, size: 4, vendor: Vendor::Default };
        // Entries at 0x1000: functions at 0x800, 0x900 and 0xa00.
        let entries: Vec<u8> = [0x800u32, 0x900, 0xa00]
            .iter()
            .zip(0u32..)
            .flat_map(|(start, i)| [(start.wrapping_sub(0x1000 + 8 * i)) & 0x7fff_ffff, 1])
            .flat_map(u32::to_le_bytes)
            .collect();
        let find = |address| shape.indexed(&entries, 0x1000, address);
        assert_eq!(
            [0x7ff, 0x800, 0x8ff, 0x950, 0xa00].map(find),
            [None, Some((0x800, 0x900)), Some((0x800, 0x900)), Some((0x900, 0xa00)), None]
        );
    }

    #[test]
    fn hostile_tables_give_nothing() {
        let bytes = map(SPIN);
        let segments = segments(&bytes);
        let file = elf::parse(&bytes).expect("elf");
        let places = [".eh_frame_hdr", ".eh_frame"].map(|name| Section::of(&file, name).expect("section").range);
        let text = file.section_by_name(".text").and_then(|s| s.file_range()).expect("text").0;
        let mut seed = 1u64;
        for _ in 0..3000 {
            let mut broken = bytes.to_vec();
            for range in &places {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                broken[range.start + (seed >> 33) as usize % range.len()] = (seed >> 20) as u8;
            }
            let mut bounds = Bounds::of(&broken.into(), &segments);
            for offset in (text..text + 0x200).step_by(16) {
                if let Some((range, _)) = bounds.find(offset) {
                    assert!(range.contains(&offset));
                }
            }
        }
    }
}
