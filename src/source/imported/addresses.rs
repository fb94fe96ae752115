//! Addresses for which a profile has no functions. They are named by this machine's files, if these have the build IDs
//! of the profile.

use std::collections::BTreeMap;

use crate::lang::counted;
use crate::record::kinds::BuildId;
use crate::source::NamedFrame;
use crate::symbols::SymbolOptions;
use crate::symbols::profile_names::{CodeAddress, functions_at};

/// The files that are read; addresses of further ones stay.
const MOST_FILES: usize = 1024;
/// The notes on files that cannot be read.
const MOST_NOTES: usize = 3;

/// Frames whose names are addresses, by the path of their file.
#[derive(Debug, Default)]
pub(super) struct UnnamedFrames {
    files: BTreeMap<String, UnnamedFile>,
}

#[derive(Debug)]
struct UnnamedFile {
    build_id: BuildId,
    /// The numbers of frames, and their addresses. Each thread of a profile may name them again.
    frames: BTreeMap<u32, CodeAddress>,
}

impl UnnamedFrames {
    /// Adds a frame of a file. Of several builds at a path, only the first is looked up.
    pub(super) fn add(&mut self, path: &str, build_id: BuildId, frame: u32, address: CodeAddress) {
        let is_new = !self.files.contains_key(path);
        if !path.starts_with('/') || is_new && self.files.len() >= MOST_FILES {
            return;
        }
        let file = self.files.entry(path.to_owned()).or_insert(UnnamedFile { build_id, frames: BTreeMap::new() });
        if file.build_id == build_id {
            file.frames.insert(frame, address);
        }
    }

    /// Names the frames. Returns notes on files that could not be read.
    pub(super) fn name(&mut self, frames: &mut [NamedFrame], options: &SymbolOptions) -> Vec<String> {
        let (mut notes, mut others) = (Vec::new(), 0);
        for (path, file) in std::mem::take(&mut self.files) {
            let addresses = file.frames.values().copied().collect();
            match functions_at(&path, file.build_id, addresses, options) {
                Ok(names) => {
                    for (frame, name) in file.frames.keys().zip(names) {
                        if let (Some(frame), Some(name)) = (frames.get_mut(*frame as usize), name) {
                            (frame.name, frame.ip, frame.is_unknown) = (name, 0, false);
                        }
                    }
                }
                Err(why) if notes.len() < MOST_NOTES => {
                    let addresses = counted(file.frames.len() as u64, "address");
                    notes.push(format!("{addresses} without functions in {path}: {why}"));
                }
                Err(_) => others += 1,
            }
        }
        if others > 0 {
            notes.push(format!("addresses without functions in {}", counted(others, "further file")));
        }
        notes
    }
}
