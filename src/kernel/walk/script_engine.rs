//! How the BPF program identifies the functions of frames of an engine for JavaScript.

use super::runtime::mix;

/// The size of `struct engine`.
const BYTES: usize = 16;

/// `struct engine` of walk.bpf.c: offsets in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScriptEngine {
    pub(crate) id: u32,
    /// The first and the last type of functions.
    pub(crate) types: (u16, u16),
    /// The type in a map, and the shared part of a function.
    pub(crate) instance_type: u8,
    pub(crate) shared: u8,
    /// In the shared part: what has the name, the script, and the number of the function in that.
    pub(crate) name: u8,
    pub(crate) script: u8,
    pub(crate) literal: u8,
    /// In a script: its own number.
    pub(crate) script_id: u8,
}

impl ScriptEngine {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BYTES);
        out.extend(self.id.to_le_bytes());
        [self.types.0, self.types.1].iter().for_each(|half| out.extend(half.to_le_bytes()));
        out.extend([self.instance_type, self.shared, self.name, self.script, self.literal, self.script_id]);
        out.resize(BYTES, 0);
        out
    }
}

/// Returns the hash of what identifies a function: the words of its name and script, the script's own number, and the
/// number of the function in that. The numbers of scripts are never used again.
pub(crate) fn function_cookie(name: u64, script: u64, script_id: u64, literal: u32) -> u32 {
    (mix(mix(mix(name, script), script_id), literal.into()) >> 32) as u32
}

/// Returns the hash of code at an address, given its bytes there.
pub(crate) fn code_hash(at: u64, bytes: [u64; 2]) -> u32 {
    (mix(mix(at, bytes[0]), bytes[1]) >> 32) as u32
}
