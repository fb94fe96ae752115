//! The bytes of a function's code.

use std::os::unix::fs::FileExt;

use object::{Architecture, Object, ObjectSection, ObjectSegment};

use crate::kernel::procfs;
use crate::perfdata::unpack::UnpackBudget;
use crate::session::{Dso, DsoKind};
use crate::symbols::SymbolOptions;
use crate::symbols::bytes::Bytes;
use crate::symbols::debug_image::Image;
use crate::symbols::elf::{self, ElfSegments};
use crate::symbols::trust::door;

/// Code, and the address that it was linked for.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) bytes: Vec<u8>,
    pub(crate) address: u64,
    pub(crate) machine: Architecture,
    segments: ElfSegments,
}

impl Code {
    /// Converts a linked address to the address inside the DSO. `None` where both are the same.
    pub(crate) fn to_dso(&self, address: u64) -> Option<u64> {
        self.segments.to_offset(address)
    }
}

/// Returns the code between two addresses of a DSO, or the reason why it is not available.
pub(crate) fn of(dso: &Dso, start: u64, end: u64, options: &SymbolOptions) -> Result<Code, String> {
    match dso.kind {
        DsoKind::File | DsoKind::Vdso => of_file(dso, start, end, options),
        DsoKind::Kernel | DsoKind::Module => of_kernel(dso, start, end, options),
        DsoKind::Bpf => Err("code of BPF programs is not available; try bpftool prog dump jited".to_owned()),
        DsoKind::Anon => Err("code of a JIT is not available after recording".to_owned()),
        DsoKind::Interpreted(_) => Err("interpreted functions have no machine code".to_owned()),
        DsoKind::Unknown | DsoKind::Guest | DsoKind::Cut => Err("the file at this address is unknown".to_owned()),
    }
}

fn of_file(dso: &Dso, start: u64, end: u64, options: &SymbolOptions) -> Result<Code, String> {
    let image = Image::open(dso, options).map_err(|e| e.to_string())?;
    let file = elf::parse(&image.bytes).map_err(|e| e.to_string())?;
    let machine = file.architecture();
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let last = image.bytes.len();
    let bytes = range.and_then(|(from, to)| image.bytes.get(from..to.min(last))).filter(|bytes| !bytes.is_empty());
    let address = image.segments.to_address(start);
    match (bytes, address) {
        (Some(bytes), Some(address)) => {
            Ok(Code { bytes: bytes.to_vec(), address, machine, segments: image.segments.clone() })
        }
        _ => Err("the file has no code at this address".to_owned()),
    }
}

fn of_kernel(dso: &Dso, start: u64, end: u64, options: &SymbolOptions) -> Result<Code, String> {
    if let Some(path) = &options.vmlinux {
        let image =
            door::own(path).and_then(|file| Bytes::of(&file)).map_err(|e| format!("{}: {e}", path.display()))?;
        let file = elf::parse(&image).map_err(|e| e.to_string())?;
        let text = elf::kernel(&image, &mut UnpackBudget::new(options.budget / 2)).ok().and_then(|(_, text, _)| text);
        let moved = dso.text.zip(text).map_or(0, |(then, here)| then.wrapping_sub(here));
        let at = start.wrapping_sub(moved);
        let section = file.sections().find(|s| s.address() != 0 && at.wrapping_sub(s.address()) < s.size());
        let data = section.as_ref().and_then(|s| s.data().ok()).unwrap_or_default();
        let from = section.map_or(0, |s| at.wrapping_sub(s.address())) as usize;
        let until = from.saturating_add((end - start) as usize).min(data.len());
        let bytes = data.get(from..until).unwrap_or_default().to_vec();
        if bytes.is_empty() {
            return Err(format!("{} has no code at this address", path.display()));
        }
        return Ok(Code { bytes, address: start, machine: file.architecture(), segments: ElfSegments::default() });
    }
    if !options.is_own_kernel(dso) {
        return Err("code of the recorded kernel is not available; use --vmlinux FILE".to_owned());
    }
    from_kcore(start, end)
}

/// Reads code from the kernel's memory, which is an ELF file.
fn from_kcore(start: u64, end: u64) -> Result<Code, String> {
    let missing = |why: String| {
        format!(
            "the kernel's code is in /proc/kcore ({why}) or in a vmlinux image: save a recording, and give one to \
             open or annotate with --vmlinux FILE"
        )
    };
    let file = procfs::kcore().map_err(|e| missing(e.to_string()))?;
    let mut head = vec![0; 1 << 16];
    let n = file.read_at(&mut head, 0).map_err(|e| missing(e.to_string()))?;
    head.truncate(n);
    let elf = elf::parse(&head).map_err(|e| missing(e.to_string()))?;
    let segment = elf.segments().find(|s| start.wrapping_sub(s.address()) < s.size());
    let Some(segment) = segment else { return Err(missing("it does not contain this address".to_owned())) };
    let mut bytes = vec![0; (end - start) as usize];
    let at = segment.file_range().0 + (start - segment.address());
    let n = file.read_at(&mut bytes, at).map_err(|e| missing(e.to_string()))?;
    bytes.truncate(n);
    Ok(Code { bytes, address: start, machine: elf.architecture(), segments: ElfSegments::default() })
}
