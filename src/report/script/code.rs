//! The sampled instruction, and the source text of its line.

use std::fmt::Write;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::text::clean;
use crate::profile::{FrameId, NodeId};
use crate::query::Data;
use crate::session::{DsoId, DsoKind};
use crate::symbols::code::{self, Instruction, Listing};
use crate::symbols::lines::Lines;
use crate::symbols::{Resolver, SymbolOptions};

use super::{ScriptField, Shape};

/// The limit of functions whose code is held.
const MOST: usize = 256;

pub(super) struct SampledCode {
    options: SymbolOptions,
    resolver: Resolver,
    lines: Lines,
    /// By file and start; `None` if the code is not available.
    functions: FxHashMap<(DsoId, u64), Option<Arc<Listing>>>,
    /// The last printed line of each thread, which is not repeated.
    printed: FxHashMap<i32, (Arc<str>, u32)>,
}

impl SampledCode {
    pub(super) fn new(options: SymbolOptions) -> Self {
        Self {
            resolver: Resolver::new(options.clone()),
            lines: Lines::new(options.clone()),
            options,
            functions: FxHashMap::default(),
            printed: FxHashMap::default(),
        }
    }

    /// Returns the function of a frame, and the index of its instruction.
    fn at(&mut self, data: Data<'_>, frame: FrameId) -> Option<(Arc<Listing>, usize)> {
        let (id, mut at) = data.profile.frames.get(frame).place(&data.session.dsos);
        if let DsoKind::Interpreted(_) = data.session.dsos.get(id).kind {
            // A line has two addresses.
            at &= !1;
        }
        let sym = data.profile.frames.sym(data.profile.frames.sym_of(frame));
        sym.function.as_ref()?;
        if self.functions.len() >= MOST {
            self.functions.clear();
        }
        let (resolver, lines, options) = (&mut self.resolver, &mut self.lines, &self.options);
        let listing = self
            .functions
            .entry((id, sym.start))
            .or_insert_with(|| code::list(data.session.dsos.get(id), at, resolver, lines, options).ok().map(Arc::new));
        let listing = listing.as_ref()?;
        let place = listing.instructions.binary_search_by_key(&at, |instruction| instruction.at).ok()?;
        Some((listing.clone(), place))
    }

    /// Writes ` ilen: 3 insn: 48 01 c2`, with the requested fields.
    pub(super) fn instruction(&mut self, data: Data<'_>, shape: &Shape, stack: NodeId, out: &mut String) {
        let found = (stack != NodeId::ROOT).then(|| self.at(data, data.profile.trie.frame(stack))).flatten();
        let none = Instruction::default();
        let instruction = found.as_ref().map_or(&none, |(listing, place)| &listing.instructions[*place]);
        // Writing into a string cannot fail.
        if shape.set.has(ScriptField::Insnlen) {
            let _ = write!(out, " ilen: {}", instruction.bytes.len());
        }
        if shape.set.has(ScriptField::Insn) && !instruction.bytes.is_empty() {
            out.push_str(" insn:");
            instruction.bytes.iter().for_each(|byte| _ = write!(out, " {byte:02x}"));
        }
    }

    /// Writes the source line below a thread's sample. A line equal to the thread's last one is not repeated.
    pub(super) fn source(&mut self, data: Data<'_>, tid: i32, stack: NodeId, out: &mut String) {
        let found = (stack != NodeId::ROOT).then(|| self.at(data, data.profile.trie.frame(stack))).flatten();
        let Some((listing, place)) = found else { return };
        let Some(line) = &listing.instructions[place].line else { return };
        let is_last = |(file, number): &(Arc<str>, u32)| *file == line.file && *number == line.line;
        if self.printed.get(&tid).is_some_and(is_last) {
            return;
        }
        let Some(text) = listing.source(line) else { return };
        // Tabs in the source are kept.
        let text = text.split('\t').map(clean).collect::<Vec<_>>().join("\t");
        let _ = writeln!(out, "|{:<8} {text}", line.line);
        self.printed.insert(tid, (line.file.clone(), line.line));
    }
}
