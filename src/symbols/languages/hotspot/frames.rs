//! Functions of the frames that walks found in code of a virtual machine, read from the memory of its process.

use rustc_hash::FxHashMap;

use super::layout::{DataLayout, InlinedLayout, JavaLayout};
use super::lines::MethodLines;
use super::scopes::ScopedMethod;
use super::{scopes, tables};
use crate::kernel::machine::identity::Identity;
use crate::kernel::walk::runtime::{GeneratedFrame, GeneratedKind};
use crate::record::interpreted::{FunctionSource, LINES};
use crate::symbols::languages::ProcessMemory;
use crate::symbols::languages::code_names::{CodeNames, FunctionLabel, FunctionPlace};

/// Bytes of each table of compiled code at most, and functions at all of its addresses together.
const TABLE: u64 = 1 << 20;
const FUNCTIONS: usize = 1 << 16;

impl CodeNames {
    /// Reads the names of a frame's code; `None` if the code is gone or is not understood.
    pub(crate) fn of_java(frame: GeneratedFrame, layout: &JavaLayout, memory: &impl ProcessMemory) -> Option<Self> {
        // Other code may have been placed there since the sample, and methods live as long as code that names them.
        let is_same = || (cookie_of(frame, layout, memory)? == frame.cookie).then_some(());
        is_same()?;
        let names = match frame.kind {
            GeneratedKind::Method => Self::interpreted(frame.code, layout, memory)?,
            GeneratedKind::Blob => Self::of_blob(frame.code, layout, memory)?,
            GeneratedKind::Script(_) | GeneratedKind::Interpreted => return None,
        };
        is_same()?;
        Some(names)
    }

    /// Reads the name of an interpreted method, and the lines of its bytecode.
    fn interpreted(constant: u64, layout: &JavaLayout, memory: &impl ProcessMemory) -> Option<Self> {
        let name = layout.constant.label(constant, memory)?;
        let lines = layout.constant.lines(constant, layout.major, memory);
        let mut names = Self::one(FunctionLabel { source: source_of(&lines), ..FunctionLabel::of(&name) });
        let ends = lines.starts.iter().skip(1).map(|(start, _)| *start as i32 - 1).chain([i32::MAX]);
        for ((_, line), end) in lines.starts.iter().zip(ends) {
            names.ends.push((end, names.chains.len() as u32));
            names.chains.push([FunctionPlace { label: 0, line: *line }].into());
        }
        Some(names)
    }

    fn of_blob(blob: u64, layout: &JavaLayout, memory: &impl ProcessMemory) -> Option<Self> {
        let name = memory.word(blob.checked_add(layout.blob_name)?)?;
        let name = tables::string::<96>(name, memory)?;
        match &name[..] {
            b"nmethod" | b"native nmethod" => Self::compiled(blob, layout, memory),
            other => Some(Self::one(FunctionLabel::of(&String::from_utf8_lossy(other)))),
        }
    }

    fn compiled(blob: u64, layout: &JavaLayout, memory: &impl ProcessMemory) -> Option<Self> {
        let word = |at: u64| memory.word(blob.checked_add(at)?);
        let (code_at, is_offset) = layout.blob.code;
        let code = word(code_at.into())?;
        let code = if is_offset { u64::from(code as u32) } else { code.checked_sub(blob)? };
        let label = |method: u64| -> Option<(FunctionLabel, MethodLines)> {
            let constant = memory.word(method.checked_add(layout.blob.constant.into())?)?;
            let name = layout.constant.label(constant, memory)?;
            let lines = layout.constant.lines(constant, layout.major, memory);
            Some((FunctionLabel { source: source_of(&lines), ..FunctionLabel::of(&name) }, lines))
        };
        let mut names = Self { code, ..Self::one(label(word(layout.method)?)?.0) };
        let inlined = layout.inlined.as_ref();
        if let Some([positions, scopes, methods]) = inlined.and_then(|inlined| tables_of(blob, inlined, memory)) {
            let methods = methods.as_chunks::<8>().0;
            let label = |index: u32| label(u64::from_le_bytes(*methods.get((index as usize).checked_sub(1)?)?));
            names.add_inlined(&positions, &scopes, layout.major, label);
        }
        Some(names)
    }

    /// Adds the functions at all addresses of compiled code. Where they are damaged, there is only its own.
    fn add_inlined(
        &mut self,
        positions: &[u8],
        scopes: &[u8],
        version: u8,
        label: impl Fn(u32) -> Option<(FunctionLabel, MethodLines)>,
    ) {
        const OWN: u32 = 0;
        self.chains.push([FunctionPlace::default()].into());
        let (mut of_scope, mut of_method) = (FxHashMap::default(), FxHashMap::default());
        let mut left = FUNCTIONS;
        for position in scopes::positions(positions) {
            let place = *of_scope.entry(position.scope).or_insert_with(|| {
                let found = scopes::functions(scopes, position.scope, version).filter(|found| found.len() <= left);
                let mut place = |of: ScopedMethod| -> Option<FunctionPlace> {
                    let known = of_method.entry(of.method).or_insert_with(|| {
                        let (label, lines) = label(of.method)?;
                        self.labels.push(label);
                        Some((u32::try_from(self.labels.len() - 1).ok()?, lines))
                    });
                    let (label, lines) = known.as_ref()?;
                    Some(FunctionPlace { label: *label, line: of.index.map_or(0, |index| lines.at(index)) })
                };
                let chain: Option<Box<[FunctionPlace]>> =
                    found.and_then(|found| found.into_iter().map(&mut place).collect());
                let Some(chain) = chain.filter(|chain| !chain.is_empty()) else { return OWN };
                left -= chain.len();
                self.chains.push(chain);
                self.chains.len() as u32 - 1
            });
            self.ends.push((position.at, place));
        }
    }
}

/// Returns the file of a method's lines. Several methods may have one name, and so one range of lines. The file has no
/// folder, so that nothing opens it.
fn source_of(lines: &MethodLines) -> Option<FunctionSource> {
    let file = lines.source.rsplit('/').next().filter(|file| !file.is_empty())?;
    Some(FunctionSource { file: file.into(), first: 1, last: LINES, pid: -1, uid: Identity::nobody().uid })
}

/// Reads the positions, scopes and methods of compiled code.
fn tables_of(blob: u64, inlined: &InlinedLayout, memory: &impl ProcessMemory) -> Option<[Vec<u8>; 3]> {
    let word = |at: u64| memory.word(blob.checked_add(at)?);
    let half = |at: u64| word(at).map(|word| u64::from(word as u32));
    let (first, last) = (half(inlined.positions.0)?, half(inlined.positions.1)?);
    let ranges = match inlined.data {
        DataLayout::Inside { scopes, methods } => {
            let (begin, end) = (word(scopes)?, blob.checked_add(first)?);
            [(end, blob.checked_add(last)?), (begin, end), (blob.checked_add(half(methods)?)?, begin)]
        }
        DataLayout::Apart { immutable, immutable_size, mutable, mutable_size, relocations } => {
            let (data, size) = (word(immutable)?, half(immutable_size)?);
            let at = |offset: u64| data.checked_add(offset);
            let own = word(mutable)?;
            let methods = own.checked_add(half(relocations)?.next_multiple_of(8))?;
            let end = own.checked_add(half(mutable_size)?)?;
            [(at(first)?, at(last)?), (at(last)?, at(size)?), (methods, end)]
        }
    };
    let read = |(begin, end): (u64, u64)| {
        let len = end.checked_sub(begin).filter(|len| *len <= TABLE)?;
        let mut bytes = vec![0; len as usize];
        memory.read(begin, &mut bytes)?;
        Some(bytes)
    };
    let [positions, scopes, methods] = ranges.map(read);
    Some([positions?, scopes?, methods?])
}

/// Returns what identifies the code that is at the place of a frame's code now.
fn cookie_of(frame: GeneratedFrame, layout: &JavaLayout, memory: &impl ProcessMemory) -> Option<u32> {
    if frame.kind == GeneratedKind::Method {
        return layout.constant.cookie(frame.code, memory);
    }
    let mut bytes = [0; 4];
    memory.read(frame.code.checked_add(layout.blob.compilation.into())?, &mut bytes)?;
    Some(u32::from_le_bytes(bytes))
}
