//! Functions of frames that the memory of processes describes, as far as their names were read.

use rustc_hash::FxHashMap;

use crate::kernel::walk::runtime::{GeneratedFrame, GeneratedKind};
use crate::record::interpreted::Language;
use crate::symbols::languages::code_names::{CodeNames, FunctionLabel};
use crate::symbols::languages::names::{FrameNames, KnownRuntimes, NameReader};

/// Pieces of code that are known, and bytes of their names; beyond, all are read again.
const PIECES: usize = 1 << 16;
const BYTES: usize = 32 << 20;

#[derive(Debug, Default)]
pub(super) struct GeneratedFrames {
    reader: Option<NameReader>,
    known: FxHashMap<Piece, Names>,
    bytes: usize,
}

/// A runtime, its code, what identifies that, and what it is.
type Piece = (u32, u64, u32, GeneratedKind);

#[derive(Debug)]
enum Names {
    /// Names, and the numbers of those that were used; 0 for others.
    Known(CodeNames, Box<[u32]>),
    Native,
    Unknown,
    Unreadable,
}

/// The result of looking up the functions of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeneratedFunctions {
    Known,
    /// The frame is one of the runtime itself.
    Native,
    /// Their names were not read, or could not be.
    Unread,
    /// The process may not be read.
    Unreadable,
}

fn piece(runtime: u32, frame: GeneratedFrame) -> Piece {
    (runtime, frame.code, frame.cookie, frame.kind)
}

impl GeneratedFrames {
    pub(super) fn new(machines: KnownRuntimes) -> Self {
        Self { reader: Some(NameReader::new(machines)), ..Self::default() }
    }

    pub(super) fn knows(&self, runtime: u32, frame: GeneratedFrame) -> bool {
        self.known.contains_key(&piece(runtime, frame))
    }

    /// Asks for the names of frames' code.
    pub(super) fn ask(&mut self, runtime: u32, frames: Vec<GeneratedFrame>) {
        if self.known.len() >= PIECES || self.bytes >= BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        let Some(reader) = &mut self.reader else { return };
        reader.read(runtime, frames, |runtime, frame, names| {
            let names = match names {
                FrameNames::Known(names) => {
                    self.bytes += names.bytes();
                    let numbers = vec![0; names.labels.len()];
                    Names::Known(names, numbers.into())
                }
                FrameNames::Native => Names::Native,
                FrameNames::Unknown => Names::Unknown,
                FrameNames::Unreadable => Names::Unreadable,
            };
            self.known.insert(piece(runtime, frame), names);
        });
    }

    /// Adds the addresses of a frame's functions, the innermost first; `number` returns the number of a name that was
    /// not used yet, not 0.
    pub(super) fn functions(
        &mut self,
        (runtime, frame): (u32, GeneratedFrame),
        language: Language,
        mut number: impl FnMut(&FunctionLabel) -> u32,
        frames: &mut Vec<u64>,
    ) -> GeneratedFunctions {
        match self.known.get_mut(&piece(runtime, frame)) {
            Some(Names::Known(names, numbers)) => {
                for place in names.at(frame.at) {
                    let own = &mut numbers[*place as usize];
                    if *own == 0 {
                        *own = number(&names.labels[*place as usize]);
                    }
                    frames.push(language.address(*own));
                }
                GeneratedFunctions::Known
            }
            Some(Names::Native) => GeneratedFunctions::Native,
            Some(Names::Unknown) | None => GeneratedFunctions::Unread,
            Some(Names::Unreadable) => GeneratedFunctions::Unreadable,
        }
    }
}
