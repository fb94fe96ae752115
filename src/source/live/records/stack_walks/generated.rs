//! Functions of frames that the memory of processes describes, as far as their names were read.

use rustc_hash::FxHashMap;

use crate::kernel::walk::runtime::{GeneratedFrame, GeneratedKind};
use crate::record::interpreted::{Language, at_line};
use crate::symbols::languages::code_names::{CodeNames, FunctionLabel};
use crate::symbols::languages::line_table::FunctionLines;
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
    /// Names, and the numbers of those that were used, 0 for others, and whether they have lines.
    Known(CodeNames, Box<[(u32, bool)]>),
    Lines(FunctionLines),
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

    /// Returns the lines of an interpreter's function, if they were read.
    pub(super) fn lines(&self, runtime: u32, frame: GeneratedFrame) -> Option<&FunctionLines> {
        match self.known.get(&piece(runtime, frame))? {
            Names::Lines(lines) => Some(lines),
            _ => None,
        }
    }

    #[cfg(test)]
    pub(super) fn learn_lines(&mut self, runtime: u32, frame: GeneratedFrame, lines: FunctionLines) {
        self.known.insert(piece(runtime, frame), Names::Lines(lines));
    }

    /// Asks for the names of the code of a process's frames.
    pub(super) fn ask(&mut self, runtime: (u32, i32), frames: Vec<GeneratedFrame>) {
        if self.known.len() >= PIECES || self.bytes >= BYTES {
            self.known.clear();
            self.bytes = 0;
        }
        let Some(reader) = &mut self.reader else { return };
        reader.read(runtime, frames, |runtime, frame, names| {
            let names = match names {
                FrameNames::Known(names) => {
                    self.bytes += names.bytes();
                    let numbers = vec![(0, false); names.labels.len()];
                    Names::Known(names, numbers.into())
                }
                FrameNames::Lines(lines) => {
                    self.bytes += lines.bytes();
                    Names::Lines(lines)
                }
                FrameNames::Native => Names::Native,
                FrameNames::Unknown => Names::Unknown,
                FrameNames::Unreadable => Names::Unreadable,
            };
            self.known.insert(piece(runtime, frame), names);
        });
    }

    /// Adds the addresses of a frame's functions, the innermost first; `number` returns the number of a name that was
    /// not used yet, not 0, and whether lines are those of its source.
    pub(super) fn functions(
        &mut self,
        (runtime, frame): (u32, GeneratedFrame),
        language: Language,
        mut number: impl FnMut(&FunctionLabel) -> (u32, bool),
        frames: &mut Vec<u64>,
    ) -> GeneratedFunctions {
        match self.known.get_mut(&piece(runtime, frame)) {
            Some(Names::Known(names, numbers)) => {
                // Between two described addresses of Java's compiled code, the innermost function may be at any line.
                let is_exact = frame.kind != GeneratedKind::Blob || names.ends_at(frame.at);
                for (i, place) in names.at(frame.at).iter().enumerate() {
                    let (own, label) = (&mut numbers[place.label as usize], &names.labels[place.label as usize]);
                    if own.0 == 0 {
                        *own = number(label);
                    }
                    let function = language.address(own.0);
                    let source = label.source.as_ref().filter(|_| own.1 && (i > 0 || is_exact));
                    frames.push(source.map_or(function, |source| at_line(function, source.first, place.line)));
                }
                GeneratedFunctions::Known
            }
            Some(Names::Native) => GeneratedFunctions::Native,
            Some(Names::Lines(_) | Names::Unknown) | None => GeneratedFunctions::Unread,
            Some(Names::Unreadable) => GeneratedFunctions::Unreadable,
        }
    }
}
