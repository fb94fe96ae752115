//! Where a virtual machine for Java has its code, and how the BPF program finds the frames of that code.

/// Heaps of code at most (walk.bpf.c has the same number), and the size of `struct code_cache`.
pub(crate) const HEAPS: usize = 3;
const BYTES: usize = 136;
/// Bytes of a blob that the BPF program reads.
pub(crate) const BLOB_HEAD: u64 = 128;

/// `struct code_cache` of walk.bpf.c: addresses of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CodeCache {
    /// Start and length of the range that has all heaps, and of the code of the interpreter.
    pub(crate) range: (u64, u64),
    pub(crate) interpreter: (u64, u64),
    pub(crate) heaps: Vec<CodeHeap>,
    /// The size of a segment, as a power of two.
    pub(crate) segment_shift: u8,
    pub(crate) id: u32,
    pub(crate) layout: BlobLayout,
}

/// A heap of code: start, length, and the address of its map of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CodeHeap {
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) segments: u64,
}

/// Offsets in blobs of code and in methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlobLayout {
    /// From a block of the heap to its blob.
    pub(crate) blob: u16,
    /// The number of the compilation.
    pub(crate) compilation: u16,
    pub(crate) size: u8,
    /// Words of a frame.
    pub(crate) frame_size: u8,
    /// Where the frame is complete, relative to the code, and whether that field has 16 bits.
    pub(crate) complete: (u8, bool),
    /// Where the code begins, and whether that is an offset of 32 bits instead of a pointer.
    pub(crate) code: (u8, bool),
    /// From a method to its constant part, and the size of that before the bytecode.
    pub(crate) constant: u8,
    pub(crate) constant_size: u8,
    pub(crate) names: NameLayout,
}

/// The way from the constant part of a method to its name and that of its class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NameLayout {
    /// The index of the name in the constant part.
    pub(crate) name: u8,
    /// In a symbol.
    pub(crate) symbol_length: u8,
    pub(crate) symbol_body: u8,
    /// In a pool of constants: its size before the constants, and its class.
    pub(crate) pool_size: u16,
    pub(crate) pool_holder: u16,
    /// In a class.
    pub(crate) class_name: u16,
}

impl CodeCache {
    pub(super) fn encode(&self) -> Vec<u8> {
        let l = &self.layout;
        let mut out = Vec::with_capacity(BYTES);
        let ranges = [self.range.0, self.range.1, self.interpreter.0, self.interpreter.1];
        let none = CodeHeap { start: 0, len: 0, segments: 0 };
        let heaps = self.heaps.iter().chain(std::iter::repeat(&none)).take(HEAPS);
        let words = ranges.into_iter().chain(heaps.flat_map(|heap| [heap.start, heap.len, heap.segments]));
        words.for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(self.id.to_le_bytes());
        [l.blob, l.compilation].iter().for_each(|half| out.extend(half.to_le_bytes()));
        out.extend([l.size, l.frame_size, l.complete.0, l.complete.1.into(), l.code.0, l.code.1.into()]);
        let n = &l.names;
        out.extend([l.constant, l.constant_size, self.segment_shift, n.name, n.symbol_length, n.symbol_body]);
        [n.pool_size, n.pool_holder, n.class_name].iter().for_each(|half| out.extend(half.to_le_bytes()));
        out.resize(BYTES, 0);
        out
    }
}
