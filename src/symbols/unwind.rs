//! Call chains from a copy of the user stack and registers, by the tables that compilers leave for
//! exceptions (`.eh_frame`, `.debug_frame`; DWARF 5, section 6.4).
//!
//! Addresses are looked up as linked, not as mapped, so that one module and one cache serve all
//! processes.

use std::ops::Range;

use framehop::aarch64::{UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use object::{Object, ObjectSection};
use rustc_hash::FxHashMap;

use super::bytes::{Bytes, Part};
use super::debug_image::Image;
use super::elf::{self, Segments};
use super::options::{MAX_FILES, SymbolOptions};
use super::shares::Shares;
use crate::perfdata::unpack::UnpackBudget;
use crate::record::sample::UserState;
use crate::session::{Dso, DsoId, DsoKind};

/// Deeper stacks are cut.
const MAX_FRAMES: usize = 1024;

/// The end of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainEnd {
    /// At the thread's first function.
    Root,
    /// Where the copy of the stack ends: callers are missing.
    Cut,
    /// Where tables or memory lead nowhere.
    Lost,
}

/// One file's tables.
struct Tables<U> {
    unwinder: U,
    segments: Segments,
}

/// Unwinds stacks of one architecture.
struct Machine<U: Unwinder> {
    cache: U::Cache,
    /// For code without a file: by frame pointers.
    plain: U,
    files: FxHashMap<DsoId, Option<Tables<U>>>,
    /// Who holds what had to be unpacked for it.
    shares: Shares<DsoId>,
}

impl<U: Unwinder<Module = Module<Part>> + Default> Machine<U>
where
    U::Cache: Default,
{
    fn new(options: &SymbolOptions) -> Self {
        let shares = Shares::new(options.budget / 4, MAX_FILES);
        Self { cache: U::Cache::default(), plain: U::default(), files: FxHashMap::default(), shares }
    }

    /// Opens a file's tables; others give way to them.
    fn open(&mut self, dso: &Dso, options: &SymbolOptions) {
        let mut purse = UnpackBudget::new(self.shares.most());
        let opened = load(dso, options, &mut purse);
        self.shares.hold(dso.id, opened.as_ref().map_or(0, |(.., user)| *user), purse.taken());
        self.files.insert(dso.id, opened.map(|(unwinder, segments, _)| Tables { unwinder, segments }));
        self.shares.excess().iter().for_each(|gone| drop(self.files.remove(gone)));
    }

    /// Goes from frame to frame; `find` leads an address to its DSO and its offset there.
    fn walk<'a>(
        &mut self,
        options: &SymbolOptions,
        find: &dyn Fn(u64) -> Option<(&'a Dso, u64)>,
        mut regs: U::UnwindRegs,
        from: u64,
        stack: &Copied<'_>,
        out: &mut Vec<u64>,
    ) -> ChainEnd {
        let mut at = FrameAddress::from_instruction_pointer(from);
        out.push(from);
        let mut read = |address: u64| stack.read(address).ok_or(());
        while out.len() < MAX_FRAMES {
            let looked = at.address_for_lookup();
            let file = find(looked).filter(|(dso, _)| matches!(dso.kind, DsoKind::File | DsoKind::Vdso));
            if let Some((dso, _)) = file {
                if !self.files.contains_key(&dso.id) {
                    self.open(dso, options);
                }
                self.shares.ask(dso.id);
            }
            let tables = file.and_then(|(dso, offset)| {
                let tables = self.files.get(&dso.id)?.as_ref()?;
                Some((&tables.unwinder, tables.segments.to_address(offset)?))
            });
            let (unwinder, linked) = tables.unwrap_or((&self.plain, looked));
            let place = if at.is_return_address() {
                FrameAddress::from_return_address(linked.wrapping_add(1))
            } else {
                Some(FrameAddress::from_instruction_pointer(linked))
            };
            let Some(place) = place else { return ChainEnd::Lost };
            match unwinder.unwind_frame(place, &mut regs, &mut self.cache, &mut read) {
                Ok(Some(caller)) => {
                    let Some(next) = FrameAddress::from_return_address(caller) else { return ChainEnd::Root };
                    out.push(caller);
                    at = next;
                }
                Ok(None) => return ChainEnd::Root,
                Err(Error::CouldNotReadStack(address)) if stack.is_beyond(address) => return ChainEnd::Cut,
                Err(_) => return ChainEnd::Lost,
            }
        }
        ChainEnd::Cut
    }
}

/// Opens a file's tables.
fn load<U: Unwinder<Module = Module<Part>> + Default>(
    dso: &Dso,
    options: &SymbolOptions,
    purse: &mut UnpackBudget,
) -> Option<(U, Segments, u32)> {
    let image = Image::open(dso, options).ok()?;
    let debug = image.debug.as_ref().map(|(bytes, _)| bytes);
    let module = module(&image.bytes, debug, purse)?;
    let mut unwinder = U::default();
    unwinder.add_module(module);
    Some((unwinder, image.segments, image.user))
}

fn module(bytes: &Bytes, debug: Option<&Bytes>, purse: &mut UnpackBudget) -> Option<Module<Part>> {
    let file = elf::parse(bytes).ok()?;
    let mut section = |of: &Bytes, name: &str| -> Option<(Part, Range<u64>)> {
        let file = elf::parse(of).ok()?;
        let section = file.section_by_name(name)?;
        let svma = section.address()..section.address().checked_add(section.size())?;
        Some((Part::of(of, &section, purse).ok()??, svma))
    };
    let frames = section(bytes, ".eh_frame");
    let header = section(bytes, ".eh_frame_hdr").filter(|_| frames.is_some());
    let debug_frame = section(bytes, ".debug_frame").or_else(|| section(debug?, ".debug_frame"));
    // Without a header to search in, the unwinder makes a list of its own.
    let unlisted = frames.as_ref().filter(|_| header.is_none()).map_or(0, |(section, _)| section.len());
    let listed = unlisted + debug_frame.as_ref().map_or(0, |(section, _)| section.len());
    purse.take(".eh_frame", listed as u64).ok()?;
    let svma = |part: &Option<(Part, Range<u64>)>| part.as_ref().map(|(_, range)| range.clone());
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: file.section_by_name(".text").map(|s| s.address()..s.address().saturating_add(s.size())),
        got_svma: file.section_by_name(".got").map(|s| s.address()..s.address().saturating_add(s.size())),
        eh_frame_svma: svma(&frames),
        eh_frame_hdr_svma: svma(&header),
        eh_frame: frames.map(|(section, _)| section),
        eh_frame_hdr: header.map(|(section, _)| section),
        debug_frame: debug_frame.map(|(section, _)| section),
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(String::new(), 0..u64::MAX, 0, info))
}

/// The copy of a stack, and where it lay.
struct Copied<'a> {
    from: u64,
    bytes: &'a [u8],
    /// Whether the stack went on behind it.
    full: bool,
}

impl Copied<'_> {
    fn read(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.from)?).ok()?;
        self.bytes.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn is_beyond(&self, address: u64) -> bool {
        self.full && address.saturating_add(8) > self.from.saturating_add(self.bytes.len() as u64)
    }
}

/// Unwinds the stacks of a session. One thread owns it.
pub struct UnwindSpace {
    options: SymbolOptions,
    x86_64: Machine<UnwinderX86_64<Part>>,
    aarch64: Machine<UnwinderAarch64<Part>>,
}

impl std::fmt::Debug for UnwindSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stacks of {} files", self.x86_64.files.len() + self.aarch64.files.len())
    }
}

/// Places of registers in a sample (arch/x86/include/uapi/asm/perf_regs.h): those that the tables of System V
/// programs are read by.
mod x86 {
    pub(crate) const BP: u32 = 6;
    pub(crate) const SP: u32 = 7;
    pub(crate) const IP: u32 = 8;
}

/// `PERF_SAMPLE_REGS_ABI_64`.
const ABI_64: u64 = 2;

/// Register numbers of arch/arm64/include/uapi/asm/perf_regs.h.
mod arm {
    pub(crate) const FP: u32 = 29;
    pub(crate) const LR: u32 = 30;
    pub(crate) const SP: u32 = 31;
    pub(crate) const PC: u32 = 32;
}

impl UnwindSpace {
    /// No tables yet: each is read when a stack leads through its file.
    pub fn new(options: SymbolOptions) -> Self {
        Self { x86_64: Machine::new(&options), aarch64: Machine::new(&options), options }
    }

    /// The caller of a function that has made no frame yet, or never makes one: what the link register of a sample
    /// without a copied stack holds, where the tables say that it is still there. `pc` is where the sample was.
    pub fn caller_of_leaf<'a>(
        &mut self,
        state: &UserState<'_>,
        pc: u64,
        find: &dyn Fn(u64) -> Option<(&'a Dso, u64)>,
    ) -> Option<u64> {
        let lr = state.register(arm::LR).filter(|_| state.abi == ABI_64)?;
        let none = Copied { from: 0, bytes: &[], full: false };
        let mut out = Vec::new();
        // Without a stack nothing but a register leads on, and that no further than to the caller.
        self.aarch64.walk(&self.options, find, UnwindRegsAarch64::new(lr, 0, 0), pc, &none, &mut out);
        out.get(1).copied()
    }

    /// Appends the addresses of a user stack, leaf first: the instruction, then return addresses. `None`
    /// when there is nothing to begin with: a kernel thread's, or a 32-bit process's.
    pub fn unwind<'a>(
        &mut self,
        state: &UserState<'_>,
        find: &dyn Fn(u64) -> Option<(&'a Dso, u64)>,
        out: &mut Vec<u64>,
    ) -> Option<ChainEnd> {
        if state.abi != ABI_64 {
            return None;
        }
        let stack = |sp| Copied { from: sp, bytes: state.stack, full: state.is_full() };
        let get = |register| state.register(register).unwrap_or(0);
        if let Some(pc) = state.register(arm::PC) {
            let sp = get(arm::SP);
            let regs = UnwindRegsAarch64::new(get(arm::LR), sp, get(arm::FP));
            return Some(self.aarch64.walk(&self.options, find, regs, pc, &stack(sp), out));
        }
        let ip = state.register(x86::IP)?;
        let regs = UnwindRegsX86_64::new(ip, get(x86::SP), get(x86::BP));
        Some(self.x86_64.walk(&self.options, find, regs, ip, &stack(get(x86::SP)), out))
    }
}

#[cfg(test)]
mod tests;
