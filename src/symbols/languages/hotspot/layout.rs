//! Offsets in the types of a virtual machine of one version, and where one process has its code.

use super::tables::VmTables;
use crate::kernel::walk::code_cache::{BLOB_HEAD, BlobLayout, CodeCache, CodeHeap, HEAPS, NameLayout};
use crate::kernel::walk::runtime::METHOD_BYTES;
use crate::symbols::languages::ProcessMemory;

/// The first version whose interpreter's frames have the known form.
const OLDEST: u8 = 11;

/// The offset of the pool of constants in the constant part of a method, in all versions.
const CONSTANTS: u64 = 8;

/// Bytes behind the code of a complete interpreter at most.
const MOST_REST: u32 = 4096;

/// Offsets in the types of a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaLayout {
    /// The version of Java.
    pub(crate) major: u8,
    pub(super) blob: BlobLayout,
    pub(super) blob_name: u64,
    pub(super) constant: ConstantLayout,
    /// The method of compiled code.
    pub(super) method: u64,
    /// Where compiled code describes inlined functions; `None` in versions whose tables do not have it.
    pub(super) inlined: Option<InlinedLayout>,
}

/// The way from a method to its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConstantLayout {
    /// In the constant part of a method.
    pub(super) constants: u64,
    pub(super) name: u64,
    /// In a pool of constants, which begin behind it.
    pub(super) pool_holder: u64,
    pub(super) pool_length: u64,
    pub(super) pool_size: u64,
    /// In a class.
    pub(super) class_name: u64,
    pub(super) class_constants: u64,
    /// In a symbol.
    pub(super) symbol_length: u64,
    pub(super) symbol_body: u64,
    /// Where a method has its lines; `None` in versions whose tables do not have it.
    pub(super) lines: Option<LineLayout>,
}

/// The position of lines: in the constant part of a method, and in its pool of constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineLayout {
    /// Bits of a method, and the length of its bytecode, which follows the constant part.
    pub(super) flags: u64,
    pub(super) code_size: u64,
    pub(super) constant_size: u64,
    /// The index of the file's name.
    pub(super) source: u64,
}

impl ConstantLayout {
    /// Returns the same for the BPF program; `None` if it does not read as far.
    fn names(&self) -> Option<NameLayout> {
        Some(NameLayout {
            name: self.name.try_into().ok().filter(|name| usize::from(*name) + 2 <= METHOD_BYTES && name % 2 == 0)?,
            symbol_length: self.symbol_length.try_into().ok()?,
            symbol_body: self.symbol_body.try_into().ok()?,
            pool_size: self.pool_size.try_into().ok()?,
            pool_holder: self.pool_holder.try_into().ok()?,
            class_name: self.class_name.try_into().ok()?,
        })
    }
}

/// The data of compiled code: a table of positions, what they mean, and the methods they name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InlinedLayout {
    /// Offsets in the data of the table's start and end.
    pub(super) positions: (u64, u64),
    pub(super) data: DataLayout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DataLayout {
    /// In the blob: the pointer to the scopes, and the offset of the methods.
    Inside { scopes: u64, methods: u64 },
    /// Elsewhere: the pointer and the size of immutable data, and of mutable data with the size of what is first there.
    Apart { immutable: u64, immutable_size: u64, mutable: u64, mutable_size: u64, relocations: u64 },
}

impl JavaLayout {
    /// Takes the offsets from the tables; `None` if the version is not supported.
    pub(super) fn of(tables: &VmTables, memory: &impl ProcessMemory) -> Option<Self> {
        let at = |of: &str, name: &str| tables.offset(of, name);
        let small = |of: &str, name: &str, size: u64| {
            let offset = at(of, name).filter(|offset| offset.is_multiple_of(size) && offset + size <= BLOB_HEAD)?;
            u8::try_from(offset).ok()
        };
        // Older versions have one heap of code.
        tables.address("CodeCache", "_heaps")?;
        let version = memory.word(tables.address("Abstract_VM_Version", "_vm_major_version")?)?;
        let major = u8::try_from(version as u32).ok().filter(|major| *major >= OLDEST)?;
        let code = match small("CodeBlob", "_code_begin", 8) {
            Some(pointer) => (pointer, false),
            None => (small("CodeBlob", "_code_offset", 4)?, true),
        };
        let is_short = tables.is_short("CodeBlob", "_frame_complete_offset");
        let complete = (small("CodeBlob", "_frame_complete_offset", if is_short { 2 } else { 4 })?, is_short);
        let constant_size = tables.size("ConstMethod").filter(|size| *size >= METHOD_BYTES as u64)?;
        let constant = ConstantLayout {
            constants: at("ConstMethod", "_constants").filter(|at| *at == CONSTANTS)?,
            name: at("ConstMethod", "_name_index")?,
            pool_holder: at("ConstantPool", "_pool_holder")?,
            pool_length: at("ConstantPool", "_length")?,
            pool_size: tables.size("ConstantPool")?,
            class_name: at("Klass", "_name")?,
            class_constants: at("InstanceKlass", "_constants")?,
            symbol_length: at("Symbol", "_length")?,
            symbol_body: at("Symbol", "_body")?,
            lines: lines(tables, constant_size),
        };
        let blob = BlobLayout {
            blob: tables.size("HeapBlock")?.try_into().ok()?,
            compilation: at("nmethod", "_compile_id")?.try_into().ok()?,
            size: small("CodeBlob", "_size", 4)?,
            frame_size: small("CodeBlob", "_frame_size", 4)?,
            complete,
            code,
            constant: at("Method", "_constMethod")?.try_into().ok()?,
            constant_size: constant_size.try_into().ok()?,
            names: constant.names()?,
        };
        let method = at("nmethod", "_method").or_else(|| at("CompiledMethod", "_method"))?;
        let inlined = inlined(tables);
        Some(Self { major, blob, blob_name: at("CodeBlob", "_name")?, constant, method, inlined })
    }

    /// Finds the heaps of code of a process; `None` if there are none yet.
    pub(super) fn code_cache(&self, tables: &VmTables, memory: &impl ProcessMemory) -> Option<CodeCache> {
        let variable = |of, name| memory.word(tables.address(of, name)?).filter(|value| *value != 0);
        let queue = variable("AbstractInterpreter", "_code")?;
        let half = |at: u64| memory.word(at).map(|word| word as u32);
        let interpreter = memory.word(queue.wrapping_add(tables.offset("StubQueue", "_stub_buffer")?))?;
        let interpreter_len = half(queue.wrapping_add(tables.offset("StubQueue", "_buffer_limit")?))?;
        let used = half(queue.wrapping_add(tables.offset("StubQueue", "_queue_end")?))?;
        // The rest is given back once the interpreter is complete.
        interpreter_len.checked_sub(used).filter(|rest| *rest < MOST_REST)?;
        let list = variable("CodeCache", "_heaps")?;
        let len = ["GrowableArrayBase", "GenericGrowableArray"].iter().find_map(|of| tables.offset(of, "_len"));
        let n = half(list.wrapping_add(len?))? as usize;
        let pointers = memory.word(list.wrapping_add(tables.offset("GrowableArray<int>", "_data")?))?;
        let (mut heaps, mut shift) = (Vec::new(), None);
        for i in 0..n.min(HEAPS) {
            let heap = memory.word(pointers.wrapping_add(8 * i as u64))?;
            let range = |space: &str| {
                let space = heap.wrapping_add(tables.offset("CodeHeap", space)?);
                let bound = |name| memory.word(space.wrapping_add(tables.offset("VirtualSpace", name)?));
                let (start, end) = (bound("_low_boundary")?, bound("_high_boundary")?);
                Some((start, end.checked_sub(start)?))
            };
            let ((start, len), (segments, _)) = (range("_memory")?, range("_segmap")?);
            shift = Some(half(heap.wrapping_add(tables.offset("CodeHeap", "_log2_segment_size")?))?);
            heaps.push(CodeHeap { start, len, segments });
        }
        let start = heaps.iter().map(|heap| heap.start).min()?;
        let end = heaps.iter().map(|heap| heap.start.saturating_add(heap.len)).max()?;
        let range = (start, end - start);
        let segment_shift = shift.and_then(|shift| u8::try_from(shift).ok()).filter(|shift| *shift < 20)?;
        let interpreter = (interpreter, interpreter_len.into());
        // Code is at most 2 GB, so that calls reach all of it.
        (range.1 <= 1 << 31).then_some(CodeCache { range, interpreter, heaps, segment_shift, id: 0, layout: self.blob })
    }
}

impl JavaLayout {
    /// Returns the layout of OpenJDK 17 for x86-64.
    pub(crate) fn of_17() -> Self {
        let blob = BlobLayout {
            blob: 16,
            compilation: 304,
            size: 12,
            frame_size: 28,
            complete: (20, false),
            code: (32, false),
            constant: 8,
            constant_size: 48,
            names: NameLayout::default(),
        };
        let constant = ConstantLayout {
            constants: 8,
            name: 34,
            pool_holder: 24,
            pool_length: 60,
            pool_size: 72,
            class_name: 24,
            class_constants: 232,
            symbol_length: 4,
            symbol_body: 6,
            lines: Some(LineLayout { flags: 28, code_size: 32, constant_size: 48, source: 54 }),
        };
        let data = DataLayout::Inside { scopes: 120, methods: 260 };
        let inlined = Some(InlinedLayout { positions: (268, 272), data });
        Self { major: 17, blob, blob_name: 96, constant, method: 112, inlined }
    }

    /// Returns the layout of OpenJDK 25 for x86-64.
    pub(super) fn of_25() -> Self {
        let old = Self::of_17();
        let blob = BlobLayout {
            blob: 8,
            compilation: 212,
            size: 24,
            frame_size: 44,
            complete: (54, true),
            code: (36, true),
            constant_size: 56,
            ..old.blob
        };
        let data =
            DataLayout::Apart { immutable: 96, immutable_size: 160, mutable: 16, mutable_size: 48, relocations: 28 };
        let inlined = Some(InlinedLayout { positions: (196, 200), data });
        let lines = Some(LineLayout { flags: 28, code_size: 34, constant_size: 56, source: 54 });
        let constant = ConstantLayout { name: 36, class_constants: 224, lines, ..old.constant };
        Self { major: 25, blob, blob_name: 8, constant, method: 80, inlined }
    }
}

fn lines(tables: &VmTables, constant_size: u64) -> Option<LineLayout> {
    let of_method = |name: &str| tables.offset("ConstMethod", name);
    Some(LineLayout {
        flags: of_method("_flags").or_else(|| of_method("_flags._flags"))?,
        code_size: of_method("_code_size")?,
        constant_size,
        source: tables.offset("ConstantPool", "_source_file_name_index")?,
    })
}

fn inlined(tables: &VmTables) -> Option<InlinedLayout> {
    let at = |name: &str| tables.offset("nmethod", name).or_else(|| tables.offset("CompiledMethod", name));
    let blob = |name: &str| tables.offset("CodeBlob", name);
    let (first, data) = match at("_immutable_data") {
        Some(immutable) => {
            let data = DataLayout::Apart {
                immutable,
                immutable_size: at("_immutable_data_size")?,
                mutable: blob("_mutable_data")?,
                mutable_size: blob("_mutable_data_size")?,
                relocations: blob("_relocation_size")?,
            };
            ("_scopes_data_offset", data)
        }
        None => (
            "_dependencies_offset",
            DataLayout::Inside { scopes: at("_scopes_data_begin")?, methods: at("_metadata_offset")? },
        ),
    };
    Some(InlinedLayout { positions: (at("_scopes_pcs_offset")?, at(first)?), data })
}
