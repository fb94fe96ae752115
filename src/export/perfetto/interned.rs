//! Numbers for names, mappings, frames and stacks: a sequence of packets has each of them once.

use hashbrown::{HashMap, HashSet};

use crate::panel::text::clean;
use crate::profile::{FrameId, NodeId, SymId};
use crate::query::Data;
use crate::query::tree::symbol_stacks::name_in;
use crate::session::DsoId;

use super::messages::{Callstack, Frame, InternedData, InternedString, Mapping};

/// The numbers of a sequence: those of stacks, functions and mappings are their indexes here. 0 means none.
#[derive(Default)]
pub(super) struct Interned {
    stacks: HashSet<NodeId>,
    /// A frame with inlined functions is several.
    frames: HashMap<(FrameId, SymId), u64>,
    functions: HashSet<SymId>,
    mappings: HashSet<DsoId>,
}

impl Interned {
    /// Returns the number of a stack, and adds to `new` what is used for the first time; `None` for the empty stack.
    pub(super) fn callstack(&mut self, data: Data<'_>, stack: NodeId, new: &mut InternedData) -> Option<u64> {
        if stack == NodeId::ROOT {
            return None;
        }
        let iid = Some(u64::from(stack.0));
        if self.stacks.insert(stack) {
            let frames = &data.profile.frames;
            let mut frame_ids = Vec::new();
            for frame in data.profile.trie.walk(stack) {
                let inlined = frames.inlined(frame.0).iter().rev().map(|sym| SymId(*sym));
                let functions = inlined.chain([frames.sym_of(frame)]);
                frame_ids.extend(functions.map(|function| self.frame(data, (frame, function), new)));
            }
            frame_ids.reverse();
            new.callstacks.push(Callstack { iid, frame_ids });
        }
        iid
    }

    fn frame(&mut self, data: Data<'_>, (frame, function): (FrameId, SymId), new: &mut InternedData) -> u64 {
        let next = self.frames.len() as u64 + 1;
        let iid = *self.frames.entry((frame, function)).or_insert(next);
        if iid == next {
            let (_, at) = data.profile.frames.get(frame).place(&data.session.dsos);
            let function_name_id = Some(self.function(data, function, new));
            let mapping_id = Some(self.mapping(data, data.profile.frames.sym(function).dso, new));
            new.frames.push(Frame { iid: Some(iid), function_name_id, mapping_id, rel_pc: Some(at) });
        }
        iid
    }

    fn function(&mut self, data: Data<'_>, function: SymId, new: &mut InternedData) -> u64 {
        let iid = u64::from(function.0) + 1;
        if self.functions.insert(function) {
            new.function_names.push(interned(iid, &clean(&name_in(data.profile, function).text)));
        }
        iid
    }

    /// Returns the number of a DSO's mapping: one with addresses in the file, so that processes share frames.
    fn mapping(&mut self, data: Data<'_>, dso: DsoId, new: &mut InternedData) -> u64 {
        let iid = u64::from(dso.0) + 1;
        if self.mappings.insert(dso) {
            let of = data.session.dsos.get(dso);
            new.mapping_paths.push(interned(iid, &clean(&of.path)));
            let build_id = of.build_id.map(|id| InternedString { iid: Some(iid), str: Some(id.bytes().to_vec()) });
            new.mappings.push(Mapping {
                iid: Some(iid),
                build_id: build_id.as_ref().and(Some(iid)),
                path_string_ids: vec![iid],
            });
            new.build_ids.extend(build_id);
        }
        iid
    }
}

fn interned(iid: u64, text: &str) -> InternedString {
    InternedString { iid: Some(iid), str: Some(text.as_bytes().to_vec()) }
}
