//! How the BPF program walks the frames of an interpreter, and the words in which it writes them.

/// Interpreters that can be known at a time, with the number that stands for none, and bytes of the map of names that
/// were written (walk.bpf.c has the same numbers).
pub(super) const RUNTIMES: usize = 1024;
pub(super) const SEEN_BYTES: usize = 8 << 14;
/// The size of `struct runtime`.
const BYTES: usize = 112;

/// Bytes of a function's name, from its start, and of its file's, up to its end.
pub(crate) const NAME_BYTES: usize = 96;
pub(crate) const FILE_BYTES: usize = 120;

/// `struct runtime` of walk.bpf.c: offsets in bytes, addresses of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LanguageRuntime {
    /// The functions that execute the language's code: start and length.
    pub(crate) loops: [(u64, u64); 2],
    /// The interpreter's own code.
    pub(crate) text: (u64, u64),
    /// The type of code objects; for Ruby, the address of the list of symbols.
    pub(crate) code_type: u64,
    /// The address of a pointer to the innermost frame, if all threads have the same; else 0.
    pub(crate) global: u64,
    /// Names are known by this and the address of the code.
    pub(crate) id: u32,
    /// The position of the thread's state, and the value of its `thread_id`, relative to the thread pointer.
    pub(crate) slot: i32,
    pub(crate) own: i16,
    pub(crate) layout: RuntimeLayout,
}

/// The kinds of interpreters that the program distinguishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum InterpreterKind {
    #[default]
    Cpython,
    /// The type of a function is its first byte, and it may have a class.
    Php,
    /// Frames lie next to each other, `next` bytes apart. A thread's state begins with the bounds of its stack, and
    /// `hops` leads to the thread.
    Ruby,
    /// Frames lie next to each other in a list of stacks, `next` bytes apart. `hops` leads from a thread's state to the
    /// innermost stack.
    Perl,
}

/// Offsets in the types of an interpreter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuntimeLayout {
    pub(crate) thread_id: u16,
    /// From the thread's state to its innermost frame: one pointer or two.
    pub(crate) hops: (u16, Option<u16>),
    pub(crate) frame_size: u8,
    pub(crate) code: u8,
    pub(crate) next: u8,
    pub(crate) instruction: u8,
    pub(crate) kind: InterpreterKind,
    /// A byte of frames, its least value in the outermost frame of a call from C, and the bits that count.
    pub(crate) entry: (u8, u8, u8),
    /// Whether such a frame has no code.
    pub(crate) is_shim: bool,
    /// Whether the instruction is an index of 32 bits instead of a pointer.
    pub(crate) is_index: bool,
    pub(crate) code_size: u8,
    pub(crate) first_line: u8,
    /// Whether the name of a package of Perl is behind its array of symbols.
    pub(crate) name_apart: bool,
    /// Bits of the first line below its number.
    pub(crate) line_shift: u8,
    pub(crate) arguments: u8,
    pub(crate) flags: u8,
    pub(crate) name: u8,
    pub(crate) file: u8,
    /// The first instruction, relative to the code object.
    pub(crate) start: u8,
    /// The pointer to the table of lines in a code object, which walks do not read.
    pub(crate) line_table: u8,
    /// Bytes from a string's length to its state; without a state, those of its length.
    pub(crate) head: u8,
    /// The lowest bit of a string's kind, and the offsets of the characters of ASCII and of other strings.
    pub(crate) kind_shift: u8,
    pub(crate) ascii: u8,
    pub(crate) wide: u8,
}

impl LanguageRuntime {
    pub(super) fn encode(&self, thread_pointer: u32) -> Vec<u8> {
        let RuntimeLayout { thread_id, hops, entry, .. } = self.layout;
        let l = &self.layout;
        let mut out = Vec::with_capacity(BYTES);
        let ranges = self.loops.iter().chain([&self.text]).flat_map(|(start, len)| [*start, *len]);
        ranges.chain([self.code_type, self.global]).for_each(|word| out.extend(word.to_le_bytes()));
        [self.id, thread_pointer, self.slot as u32].iter().for_each(|half| out.extend(half.to_le_bytes()));
        out.extend(thread_id.to_le_bytes());
        out.extend(self.own.to_le_bytes());
        [hops.0, hops.1.unwrap_or(u16::MAX)].iter().for_each(|hop| out.extend(hop.to_le_bytes()));
        out.extend([l.frame_size, l.code, l.next, l.instruction]);
        out.extend([entry.0, entry.1, l.is_shim.into(), l.is_index.into()]);
        out.extend([l.code_size, l.first_line, l.arguments, l.flags]);
        out.extend([
            l.name,
            l.file,
            l.start,
            l.kind_shift,
            l.ascii,
            l.wide,
            entry.2,
            l.head,
            l.kind as u8,
            l.line_shift,
            l.name_apart.into(),
        ]);
        out.resize(BYTES, 0);
        out
    }
}

/// A part of a walk's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkPart<'a> {
    /// The address of a native frame, and whether it is in the interpreter's own code.
    Native(u64, bool),
    /// The interpreter whose frames follow.
    Runtime(u32),
    Frame(WalkedFunction),
    /// A frame of code that a virtual machine made.
    Generated(GeneratedFrame),
    /// The names of a function and of its file, once.
    Names(WalkedFunction, StringBytes<'a>, StringBytes<'a>),
}

/// The identity of a function: the address of its code, and a hash of the code's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct WalkedFunction {
    pub(crate) code: u64,
    pub(crate) cookie: u32,
    /// The instruction relative to the code; in `WalkPart::Names`, the function's first line.
    pub(crate) at: u32,
}

/// The identity of a frame in code of a virtual machine for Java, or of a function of JavaScript.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GeneratedFrame {
    /// The blob of code; if it is interpreted, the constant part of its method. The shared part of a function of
    /// JavaScript.
    pub(crate) code: u64,
    /// The number of the compilation; if it is interpreted, a hash of the constant part; a hash of a function of
    /// JavaScript.
    pub(crate) cookie: u32,
    /// The address relative to the blob, or the index of the bytecode.
    pub(crate) at: u32,
    pub(crate) kind: GeneratedKind,
}

/// The kinds of frames that a process's memory describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GeneratedKind {
    Blob,
    /// A function of an interpreter, whose names are in walks, but not its lines.
    Interpreted,
    /// A method of Java that is interpreted.
    Method,
    /// A function of JavaScript: where its compiled code is executed, `None` in the engine's own file.
    Script(Option<CodePlace>),
}

/// An address in compiled code, which is that of the call in a caller; whether it was sampled; and a hash of the code
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CodePlace {
    pub(crate) address: u64,
    pub(crate) is_sampled: bool,
    pub(crate) hash: u32,
}

impl GeneratedKind {
    /// Returns whether the frame's address, which was written before it, is of an interpreter.
    pub(crate) fn has_address(self) -> bool {
        !matches!(self, Self::Blob)
    }
}

/// Adds a word to the hash of what identifies code (walk.bpf.c computes the same).
pub(super) fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ hash >> 29
}

/// Returns the hash of what identifies a method, given the start of its constant part, and the length and the first
/// characters of the symbols of its name and of its class. Memory of a method that was dropped is used again.
pub(crate) fn method_cookie(constant: &[u8; METHOD_BYTES], symbols: [(u16, [u8; SYMBOL_BYTES]); 2]) -> u32 {
    let words = constant.as_chunks::<8>().0;
    let word = |at: usize| u64::from_le_bytes(words[at]);
    let symbol = |(len, text): (u16, [u8; SYMBOL_BYTES])| {
        text.as_chunks::<8>().0.iter().fold(len.into(), |hash, word| mix(hash, u64::from_le_bytes(*word)))
    };
    let hash = mix(mix(word(1), word(4)), word(5));
    (symbols.into_iter().fold(hash, |hash, one| mix(hash, symbol(one))) >> 32) as u32
}

/// Returns the hash of what identifies a function of CPython or PHP: its first line, flags and arguments, the addresses of
/// its name and its file, and the number of the name's bytes and their start; `None` without a name.
pub(crate) fn code_cookie([line, flags, arguments]: [u32; 3], strings: [u64; 2], name: Option<(u64, [u8; 64])>) -> u32 {
    let hash = mix(mix(line.into(), strings[0]), strings[1]);
    let hash = mix(hash, u64::from(flags) << 32 | u64::from(arguments));
    let content = name.map_or(0, |(bytes, start)| {
        start.as_chunks::<8>().0.iter().fold(bytes, |hash, word| mix(hash, u64::from_le_bytes(*word)))
    });
    (mix(hash, content) >> 32) as u32
}

/// Characters of a symbol that identify it.
pub(crate) const SYMBOL_BYTES: usize = 64;

/// Bytes of a method's constant part that identify it.
pub(crate) const METHOD_BYTES: usize = 48;

/// A string of the process: its length in characters, its state, and its first or last bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StringBytes<'a> {
    pub(crate) len: u32,
    pub(crate) state: u32,
    pub(crate) bytes: &'a [u8],
}

const TAG: u32 = 56;
const ADDRESS: u64 = (1 << TAG) - 1;
/// The bit of an address in compiled code that was sampled.
const SAMPLED_HERE: u64 = 1 << 55;

/// The words of a record, as parts; a group that is cut or unknown ends them.
#[derive(Clone, Debug)]
pub(crate) struct WalkParts<'a>(&'a [[u8; 8]]);

impl<'a> WalkParts<'a> {
    pub(crate) fn of(words: &'a [u8]) -> Self {
        Self(words.as_chunks().0)
    }

    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn string(head: u64, bytes: &'a [[u8; 8]]) -> StringBytes<'a> {
        StringBytes { len: head as u32, state: (head >> 32) as u32, bytes: bytes.as_flattened() }
    }
}

impl<'a> Iterator for WalkParts<'a> {
    type Item = WalkPart<'a>;

    fn next(&mut self) -> Option<WalkPart<'a>> {
        let first = self.word()?;
        let (tag, low) = (first >> TAG, first & ADDRESS);
        match tag {
            0 => Some(WalkPart::Native(low, false)),
            4 => Some(WalkPart::Native(low, true)),
            3 => Some(WalkPart::Runtime(low as u32)),
            5 | 6 => {
                let key = self.word()?;
                let (cookie, at) = ((key >> 32) as u32, key as u32);
                let kind = if tag == 6 { GeneratedKind::Method } else { GeneratedKind::Blob };
                Some(WalkPart::Generated(GeneratedFrame { code: low, cookie, at, kind }))
            }
            7 => {
                let (key, place) = (self.word()?, self.word()?);
                let (address, is_sampled) = (place & (SAMPLED_HERE - 1), place & SAMPLED_HERE != 0);
                let place = CodePlace { address, is_sampled, hash: key as u32 };
                let kind = GeneratedKind::Script((address != 0).then_some(place));
                Some(WalkPart::Generated(GeneratedFrame { code: low, cookie: (key >> 32) as u32, at: 0, kind }))
            }
            1 | 2 => {
                let key = self.word()?;
                let function = WalkedFunction { code: low, cookie: (key >> 32) as u32, at: key as u32 };
                if tag == 1 {
                    return Some(WalkPart::Frame(function));
                }
                let (name, file) = (self.word()?, self.word()?);
                let (strings, rest) = self.0.split_at_checked((NAME_BYTES + FILE_BYTES) / 8)?;
                self.0 = rest;
                let (of_name, of_file) = strings.split_at(NAME_BYTES / 8);
                Some(WalkPart::Names(function, Self::string(name, of_name), Self::string(file, of_file)))
            }
            _ => None,
        }
    }
}
