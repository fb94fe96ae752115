//! Call chains from a copy of the user stack and registers, by the tables that compilers write for exceptions
//! (`.eh_frame`, `.debug_frame`; DWARF 5, section 6.4). Lookups use linked addresses, not mapped ones, so that all
//! processes share one module and one cache.

pub(crate) mod jit;
pub mod rows;

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use framehop::aarch64::{UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{UnwindRegsX86_64, UnwinderX86_64};
use framehop::{Error, ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use object::{Object, ObjectSection};
use rustc_hash::FxHashMap;

use super::bytes::{Bytes, Part};
use super::debug_image::Image;
use super::elf::program::ElfProgram;
use super::elf::{self, ElfSegments};
use super::options::{MAX_FILES, SymbolOptions};
use super::shares::Shares;
use super::trust::find_file::FileSearch;
use crate::kernel::blocked::stacks::{self, SleepingStack};
use crate::kernel::walk::rule::{Caller, Cfa, Rule, Saved};
use crate::perfdata::unpack::UnpackBudget;
use crate::record::sample::UserState;
use crate::session::{Dso, DsoId, DsoKind};
use crate::symbols::unwind::jit::JitRows;
use rows::UnwindRows;

mod builder;

use builder::ModuleBuilder;

/// Deeper stacks are cut.
const MAX_FRAMES: usize = 1024;

/// How a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainEnd {
    /// At the thread's first function.
    Root,
    /// At the end of the stack's copy: callers are missing.
    Cut,
    /// Tables or memory do not lead to a caller.
    Lost,
    /// The tables of a file are still being built.
    Pending,
}

/// The return address of functions with a return probe, instead of their caller.
const TRAMPOLINE: &str = "[uprobes]";

struct Tables<U> {
    unwinder: U,
    segments: ElfSegments,
    /// Tables in sections that the unwinder does not support.
    rows: Option<UnwindRows>,
}

/// A file's tables, the user who could have written it, and the bytes of decompressed sections. `None` without tables.
type Built<U> = Option<(Tables<U>, u32, usize)>;

/// Registers that a rule changes to those of the caller.
trait ByRule {
    /// Unwinds to the caller; `None` if another method is needed.
    fn caller(&mut self, rule: Rule, is_first: bool, read: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64>;
}

impl ByRule for UnwindRegsX86_64 {
    fn caller(&mut self, rule: Rule, is_first: bool, read: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
        let Rule::Frame { cfa, saved, caller: Caller::OnTop } = rule else { return None };
        let mut at = |base: u64, n: i64| read(base.wrapping_add_signed(n)).ok();
        let cfa = match cfa {
            Cfa::Sp(n) => self.sp().wrapping_add_signed(n),
            Cfa::Fp(n) => self.bp().wrapping_add_signed(n),
            Cfa::AtSp(n, m) => at(self.sp(), n)?.wrapping_add_signed(m),
            Cfa::AtFp(n, m) => at(self.bp(), n)?.wrapping_add_signed(m),
            Cfa::Register(..) => return None,
        };
        if cfa < self.sp() || cfa == self.sp() && !is_first {
            return None;
        }
        let caller = at(cfa, -8)?;
        let bp = match saved {
            Saved::Same => self.bp(),
            Saved::At(n) => at(cfa, n)?,
            Saved::AtItself => at(self.bp(), 0)?,
        };
        self.set_sp(cfa);
        self.set_bp(bp);
        self.set_ip(caller);
        Some(caller)
    }
}

impl ByRule for UnwindRegsAarch64 {
    /// The unwinder reads all AArch64 tables.
    fn caller(&mut self, _: Rule, _: bool, _: &mut impl FnMut(u64) -> Result<u64, ()>) -> Option<u64> {
        None
    }
}

struct Machine<U: Unwinder> {
    cache: U::Cache,
    /// Unwinds code without a file by frame pointers.
    plain: U,
    files: FxHashMap<DsoId, Option<Tables<U>>>,
    /// Tables of JITs; `None` if a JIT does not write tables.
    jits: FxHashMap<DsoId, Option<JitRows>>,
    /// Memory of decompressed sections by DSO.
    shares: Shares<DsoId>,
    /// Builds tables of a live session.
    builder: Option<ModuleBuilder<U>>,
    /// Whether a stack waits for its tables for a short time.
    waits: bool,
}

impl<U: Unwinder<Module = Module<Part>> + Default + Send + 'static> Machine<U>
where
    U::Cache: Default,
    U::UnwindRegs: ByRule,
{
    fn new(options: &SymbolOptions) -> Self {
        let shares = Shares::new(options.budget / 4, MAX_FILES);
        Self {
            cache: U::Cache::default(),
            plain: U::default(),
            files: FxHashMap::default(),
            jits: FxHashMap::default(),
            shares,
            builder: None,
            waits: true,
        }
    }

    /// Opens a file's tables. A live session does not wait for large ones: its source continues to write.
    fn open(&mut self, dso: &Dso, options: &Arc<SymbolOptions>) {
        if options.live && self.builder.is_none() {
            // Without the threads, tables are built here.
            self.builder = ModuleBuilder::start().ok();
        }
        let most = self.shares.most();
        let built = match &mut self.builder {
            Some(builder) => builder.order(dso, options, most, self.waits),
            None => {
                let image = Image::open(dso, options).ok();
                vec![(dso.id, image.and_then(|image| tables_of(&image, most)))]
            }
        };
        self.hold(built);
    }

    /// Stores tables and evicts others if necessary.
    fn hold(&mut self, built: Vec<(DsoId, Built<U>)>) {
        for (id, built) in built {
            let (user, bytes) = built.as_ref().map_or((0, 0), |(_, user, bytes)| (*user, *bytes));
            self.shares.hold(id, user, bytes);
            self.files.insert(id, built.map(|(tables, ..)| tables));
            self.shares.excess().iter().for_each(|gone| drop(self.files.remove(gone)));
        }
    }

    fn is_coming(&self, dso: DsoId) -> bool {
        self.builder.as_ref().is_some_and(|builder| builder.is_coming(dso))
    }

    /// Walks from frame to frame; `find` maps an address to its DSO and offset.
    fn walk<'a>(
        &mut self,
        options: &Arc<SymbolOptions>,
        find: &dyn Fn(u64) -> Option<(&'a Dso, u64)>,
        mut regs: U::UnwindRegs,
        from: u64,
        stack: &Copied<'_>,
        out: &mut Vec<u64>,
    ) -> ChainEnd {
        if let Some(finished) = self.builder.as_mut().map(ModuleBuilder::take) {
            self.hold(finished);
        }
        let mut at = FrameAddress::from_instruction_pointer(from);
        out.push(from);
        let mut read = |address: u64| stack.read(address).ok_or(());
        while out.len() < MAX_FRAMES {
            let looked = at.address_for_lookup();
            if at.is_return_address() && find(at.address()).is_some_and(|(dso, _)| &*dso.path == TRAMPOLINE) {
                out.pop();
                return ChainEnd::Lost;
            }
            let place = find(looked);
            let file = place.filter(|(dso, _)| matches!(dso.kind, DsoKind::File | DsoKind::Vdso));
            if let Some((dso, _)) = file {
                if !self.files.contains_key(&dso.id) && !self.is_coming(dso.id) {
                    self.open(dso, options);
                }
                if self.is_coming(dso.id) {
                    return ChainEnd::Pending;
                }
                self.shares.ask(dso.id);
            }
            let tables = file.and_then(|(dso, offset)| {
                let tables = self.files.get(&dso.id)?.as_ref()?;
                Some((&tables.unwinder, tables.segments.to_address(offset)?, tables.rows.as_ref()))
            });
            let rule = match (&tables, place) {
                (Some((_, linked, rows)), _) => rows.map_or(Rule::Gap, |rows| rows.rule(*linked)),
                (None, Some((dso, _))) => jit_rule(&mut self.jits, dso, looked, options),
                (None, None) => Rule::Gap,
            };
            if let Some(caller) = regs.caller(rule, !at.is_return_address(), &mut read) {
                let Some(next) = FrameAddress::from_return_address(caller) else { return ChainEnd::Lost };
                out.push(caller);
                at = next;
                continue;
            }
            let (unwinder, linked) = tables.map_or((&self.plain, looked), |(unwinder, linked, _)| (unwinder, linked));
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

/// Returns the rule of a JIT's code at an address. It is in the file that the JIT writes.
fn jit_rule(jits: &mut FxHashMap<DsoId, Option<JitRows>>, dso: &Dso, address: u64, options: &SymbolOptions) -> Rule {
    let Some(path) = dso.dump.as_deref().filter(|_| dso.kind == DsoKind::Anon) else { return Rule::Gap };
    if jits.len() >= MAX_FILES {
        jits.clear();
    }
    let rows = jits.entry(dso.id).or_insert_with(|| {
        let places = FileSearch::new(dso, options).ok()?;
        places.jit(Path::new(OsStr::from_bytes(path)), true).ok().map(JitRows::new)
    });
    let Some(rows) = rows else { return Rule::Gap };
    match rows.rule(address) {
        Rule::Gap if rows.read_on() => rows.rule(address),
        rule => rule,
    }
}

/// Builds a file's tables, whose decompressed sections may take `most` bytes.
fn tables_of<U: Unwinder<Module = Module<Part>> + Default>(image: &Image, most: usize) -> Built<U> {
    let mut purse = UnpackBudget::new(most);
    let debug = image.debug.as_ref().map(|(bytes, _)| bytes);
    let module = module(&image.bytes, debug, &mut purse)?;
    let mut unwinder = U::default();
    unwinder.add_module(module);
    let rows = rows::beyond_frames(&image.bytes);
    let rows = rows.filter(|rows| purse.take(rows.section, size_of_val(&*rows.rows) as u64).is_ok());
    Some((Tables { unwinder, segments: image.segments.clone(), rows }, image.user, purse.taken()))
}

fn module(bytes: &Bytes, debug: Option<&Bytes>, purse: &mut UnpackBudget) -> Option<Module<Part>> {
    let program = ElfProgram::of(bytes).ok()?;
    let own = |name: &str| {
        let section = program.section(name)?;
        let (part, start) = (Part::at(bytes, section.range), section.address);
        let svma = start..start.checked_add(part.len() as u64)?;
        Some((part, svma))
    };
    let mut unpacked = |of: &Bytes, name: &str| -> Option<(Part, Range<u64>)> {
        let file = elf::parse(of).ok()?;
        let section = file.section_by_name(name)?;
        let svma = section.address()..section.address().checked_add(section.size())?;
        Some((Part::of(of, &section, purse).ok()??, svma))
    };
    let frames = own(".eh_frame");
    let header = own(".eh_frame_hdr").filter(|_| frames.is_some());
    let debug_frame = unpacked(bytes, ".debug_frame").or_else(|| unpacked(debug?, ".debug_frame"));
    // Without a search table, the unwinder builds its own list.
    let unlisted = frames.as_ref().filter(|_| header.is_none()).map_or(0, |(section, _)| section.len());
    let listed = unlisted + debug_frame.as_ref().map_or(0, |(section, _)| section.len());
    purse.take(".eh_frame", listed as u64).ok()?;
    let place = |name: &str| own(name).map(|(_, svma)| svma);
    let svma = |part: &Option<(Part, Range<u64>)>| part.as_ref().map(|(_, range)| range.clone());
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: place(".text"),
        got_svma: place(".got"),
        eh_frame_svma: svma(&frames),
        eh_frame_hdr_svma: svma(&header),
        eh_frame: frames.map(|(section, _)| section),
        eh_frame_hdr: header.map(|(section, _)| section),
        debug_frame: debug_frame.map(|(section, _)| section),
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(String::new(), 0..u64::MAX, 0, info))
}

struct Copied<'a> {
    from: u64,
    bytes: &'a [u8],
    /// Whether the stack continues after the copy.
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

/// Unwinds the stacks of a session. Owned by one thread.
pub struct UnwindSpace {
    options: Arc<SymbolOptions>,
    x86_64: Machine<UnwinderX86_64<Part>>,
    aarch64: Machine<UnwinderAarch64<Part>>,
}

impl std::fmt::Debug for UnwindSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stacks of {} files", self.x86_64.files.len() + self.aarch64.files.len())
    }
}

/// Register indexes in a sample (arch/x86/include/uapi/asm/perf_regs.h), for tables of System V programs.
mod x86 {
    pub(crate) const BP: u32 = 6;
    pub(crate) const SP: u32 = 7;
    pub(crate) const IP: u32 = 8;
}

/// `PERF_SAMPLE_REGS_ABI_32`, `PERF_SAMPLE_REGS_ABI_64`.
const ABI_32: u64 = 1;
const ABI_64: u64 = 2;

/// Register indexes of arch/arm64/include/uapi/asm/perf_regs.h.
mod arm {
    pub(crate) const FP: u32 = 29;
    pub(crate) const LR: u32 = 30;
    pub(crate) const SP: u32 = 31;
    pub(crate) const PC: u32 = 32;
}

impl UnwindSpace {
    /// Creates a set without tables: each is read when a stack first needs its file.
    pub fn new(options: SymbolOptions) -> Self {
        Self { x86_64: Machine::new(&options), aarch64: Machine::new(&options), options: Arc::new(options) }
    }

    /// Returns the caller of a function without a frame of its own (yet). It is the link register of a sample without a
    /// copied stack, if the tables say that it still holds the return address. `pc` is the sampled instruction.
    pub fn caller_of_leaf<'a>(
        &mut self,
        state: &UserState<'_>,
        pc: u64,
        find: &dyn Fn(u64) -> Option<(&'a Dso, u64)>,
    ) -> Option<u64> {
        let lr = state.register(arm::LR).filter(|_| state.abi == ABI_64)?;
        let none = Copied { from: 0, bytes: &[], full: false };
        let mut out = Vec::new();
        // Without a stack, only a register can lead to the caller, and no further.
        self.aarch64.walk(&self.options, find, UnwindRegsAarch64::new(lr, 0, 0), pc, &none, &mut out);
        out.get(1).copied()
    }

    /// Appends the addresses of a user stack, leaf first. The instruction comes first, then return addresses. Returns
    /// `None` if the sample does not have user registers, as for kernel threads.
    pub fn unwind<'a>(
        &mut self,
        state: &UserState<'_>,
        find: &dyn Fn(u64) -> Option<(&'a Dso, u64)>,
        out: &mut Vec<u64>,
    ) -> Option<ChainEnd> {
        if state.abi == ABI_32 {
            // Copied stacks of 32-bit code are not unwound.
            out.push(state.register(x86::IP).filter(|_| state.register(arm::PC).is_none())?);
            return Some(ChainEnd::Lost);
        }
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

    /// Appends the addresses of a sleeping thread's user stack like [`Self::unwind`], without waiting for tables.
    pub(crate) fn unwind_sleeper<'a>(
        &mut self,
        sleeper: &SleepingStack,
        find: &dyn Fn(u64) -> Option<(&'a Dso, u64)>,
        out: &mut Vec<u64>,
    ) -> ChainEnd {
        let SleepingStack { ip, sp, bp, bytes, .. } = sleeper;
        let stack = Copied { from: *sp, bytes, full: bytes.len() >= stacks::COPIED };
        // An unknown frame pointer is one that leads nowhere, not even to a root, until a function restores its caller's.
        let regs = UnwindRegsX86_64::new(*ip, *sp, bp.unwrap_or(1));
        self.x86_64.waits = false;
        let end = self.x86_64.walk(&self.options, find, regs, *ip, &stack, out);
        self.x86_64.waits = true;
        end
    }
}

#[cfg(test)]
mod tests;
