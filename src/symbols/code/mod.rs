//! The instructions of a function, from its file, the running kernel or a JIT's dump, with samples and source lines.

mod arm;
mod bytes;
mod script;
mod x86;

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use object::Architecture;

use super::dwarf::lines::{Lines, SourceLine};
use super::trust::door::{FileKind, TrustedUids};
use super::trust::find_file::FileSearch;
use super::trust::isolated::run_isolated;
use super::{Resolver, SymbolOptions, Symbolized};
use crate::session::{Dso, DsoKind};

/// Where an instruction continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flow {
    #[default]
    On,
    /// To an address, conditionally or not.
    Jump(u64),
    Call(u64),
    /// To an address in a register or in memory.
    Away,
    Return,
}

/// One instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Address inside the DSO, the same as that of samples.
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) text: String,
    pub(crate) flow: Flow,
    pub(crate) callee: Option<Arc<str>>,
    /// The source line; `None` if the debug information does not have one.
    pub line: Option<SourceLine>,
}

/// An annotated function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub(crate) function: Arc<str>,
    pub(crate) dso: Arc<str>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Added to an address inside the DSO, it yields the linked address.
    pub(crate) linked: u64,
    /// Whether it has the lines of a script in place of instructions.
    pub(crate) is_script: bool,
    /// The function's instructions, sorted by address.
    pub instructions: Vec<Instruction>,
    /// Lines of the source files that were found, by file name, from line 1.
    pub sources: Vec<(Arc<str>, Vec<String>)>,
    pub(crate) notes: Vec<String>,
}

/// Longer functions are cut.
const MAX_CODE: u64 = 1 << 20;
const MAX_SOURCES: usize = 64;

/// Disassembles the function at an address of a DSO, or returns the reason why the code is not available.
pub fn list(
    dso: &Dso,
    at: u64,
    resolver: &mut Resolver,
    lines: &mut Lines,
    options: &SymbolOptions,
) -> Result<Listing, String> {
    if let DsoKind::Interpreted(_) = dso.kind {
        return script::list(dso, at, options);
    }
    let Some(Symbolized { start, end, name, .. }) = resolver.resolve(dso, at) else {
        return Err("no known function at this address".to_owned());
    };
    let mut notes = Vec::new();
    if end.saturating_sub(start) > MAX_CODE {
        notes.push(format!("only the first {} KB are shown", MAX_CODE >> 10));
    }
    let end = end.min(start.saturating_add(MAX_CODE));
    let of = (dso.clone(), options.clone());
    let (code, mut instructions) = run_isolated(move || {
        let code = bytes::of(&of.0, start, end, &of.1)?;
        let instructions = match code.machine {
            Architecture::X86_64 => x86::decode(&code.bytes, code.address, 64),
            Architecture::I386 => x86::decode(&code.bytes, code.address, 32),
            Architecture::Aarch64 => arm::decode(&code.bytes, code.address),
            other => return Err(format!("cannot disassemble code for {other:?}")),
        };
        Ok((code, instructions))
    })
    .flatten()?;
    // Addresses of code are linked addresses; those of samples are inside the DSO.
    let moved = start.wrapping_sub(code.address);
    for instruction in &mut instructions {
        instruction.at = instruction.at.wrapping_add(moved);
        let to_dso = |target: u64| code.to_dso(target).unwrap_or_else(|| target.wrapping_add(moved));
        match &mut instruction.flow {
            Flow::Call(target) | Flow::Jump(target) => {
                *target = to_dso(*target);
                if !(start..end).contains(target) {
                    instruction.callee = resolver.resolve(dso, *target).map(|found| found.name);
                }
            }
            _ => {}
        }
    }
    let places = lines.all_places(dso, instructions.iter().map(|instruction| instruction.at).collect());
    for (instruction, places) in instructions.iter_mut().zip(places) {
        instruction.line = places.into_iter().find_map(|place| place.line);
    }
    let namers = lines.namers(dso.id).cloned();
    let sources = namers.map(|namers| sources(&instructions, dso, options, &namers)).unwrap_or_default();
    if !instructions.iter().any(|i| i.line.is_some()) {
        notes.push("no source lines: the file has no debug information".to_owned());
    } else if sources.is_empty() {
        notes.push("no source text: the source files are not available".to_owned());
    }
    let linked = moved.wrapping_neg();
    let (function, dso) = (name, dso.path.clone());
    Ok(Listing { function, dso, start, end, linked, is_script: false, instructions, sources, notes })
}

/// Reads the source files that instructions name. The users who named them must be allowed to read them.
fn sources(
    instructions: &[Instruction],
    dso: &Dso,
    options: &SymbolOptions,
    namers: &TrustedUids,
) -> Vec<(Arc<str>, Vec<String>)> {
    let Ok(mut places) = FileSearch::new(dso, options) else { return Vec::new() };
    let mut names: Vec<Arc<str>> =
        instructions.iter().filter_map(|i| i.line.as_ref()).map(|l| l.file.clone()).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(MAX_SOURCES);
    let read = |name: Arc<str>| read_source(&mut places, &name, namers).ok().map(|lines| (name, lines));
    names.into_iter().filter_map(read).collect()
}

/// Returns the lines of a source file that these users name.
fn read_source(places: &mut FileSearch<'_>, name: &str, namers: &TrustedUids) -> io::Result<Vec<String>> {
    let file = places.source(Path::new(name), namers)?;
    // Reads no more than the size at opening: the file may keep growing.
    let size = file.metadata()?.len().min(FileKind::Source.limit());
    let mut bytes = Vec::new();
    file.take(size).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}

impl Listing {
    /// Returns where an instruction is: its linked address, or its line in a script.
    pub(crate) fn place(&self, index: usize) -> String {
        let one = &self.instructions[index];
        match &one.line {
            Some(line) if self.is_script => line.line.to_string(),
            None if self.is_script => String::new(),
            _ => format!("{:x}", self.linked(one.at)),
        }
    }

    /// Returns the linked address of an address inside the DSO, as objdump prints it.
    pub(crate) fn linked(&self, at: u64) -> u64 {
        at.wrapping_add(self.linked)
    }

    pub(crate) fn source(&self, line: &SourceLine) -> Option<&str> {
        let at = self.sources.binary_search_by(|(name, _)| name.cmp(&line.file)).ok()?;
        self.sources[at].1.get((line.line as usize).checked_sub(1)?).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::super::trust::find_file::tests::own_dso;
    use super::*;

    #[inline(never)]
    fn counted(n: u64) -> u64 {
        // The loop stays in this function at any optimization level.
        let (mut i, mut sum) = (0, 0);
        while i < std::hint::black_box(n) {
            sum += i ^ std::hint::black_box(3);
            i += 1;
        }
        sum
    }

    #[test]
    fn a_function_of_this_program_is_taken_apart() {
        let options = SymbolOptions::live();
        let (mut resolver, mut lines) = (Resolver::new(options.clone()), Lines::new(options.clone()));
        assert_eq!(counted(2), 3 + 2);
        let (dso, at) = own_dso(counted as fn(u64) -> u64 as usize as u64);
        let listing = list(&dso, at, &mut resolver, &mut lines, &options).expect("listing");
        assert!(listing.function.ends_with("counted"), "{}", listing.function);
        assert_eq!((listing.start, listing.instructions[0].at), (at, at));
        assert!(listing.instructions.iter().any(|i| i.flow == Flow::Return));
        let inside = |i: &Instruction| matches!(i.flow, Flow::Jump(to) if (listing.start..listing.end).contains(&to));
        assert!(listing.instructions.iter().any(inside), "a loop jumps back");
        let here = |i: &Instruction| i.line.as_ref().is_some_and(|l| l.file.ends_with("symbols/code/mod.rs"));
        assert!(listing.instructions.iter().any(here));
    }
}
