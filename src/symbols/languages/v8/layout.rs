//! Where an engine of one version keeps the names of functions, and what it inlined.

use super::constants::Constants;
use crate::kernel::walk::script_engine::ScriptEngine;

/// Offsets and types of objects of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct V8Layout {
    /// The part that the BPF program needs, without an ID.
    pub(crate) engine: ScriptEngine,
    pub(super) types: V8Types,
    /// In a script.
    pub(super) script_name: u8,
    pub(super) script_source: u8,
    pub(super) script_lines: u8,
    /// The words of a scope before its variables: with the positions of its function, or without.
    pub(super) scope_head: u8,
    pub(super) code: CodeLayout,
}

/// Numbers of types of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct V8Types {
    pub(super) shared: u16,
    pub(super) scope: u16,
    pub(super) script: u16,
    pub(super) array: u16,
    pub(super) code: u16,
    pub(super) stream: u16,
}

/// Compiled code, and what it inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeLayout {
    pub(super) start: u8,
    pub(super) size: u8,
    pub(super) flags: u8,
    pub(super) deoptimization: u8,
    pub(super) positions: u8,
    /// The kind of code that is not optimized; optimized code has a greater one.
    pub(super) baseline: u8,
    /// Indexes in the data for deoptimization.
    pub(super) literals: u8,
    pub(super) inlined: u8,
    pub(super) owner: u8,
    /// The owner is in a wrapper.
    pub(super) is_wrapped: bool,
    /// Code without positions describes its frames as known.
    pub(super) has_translations: bool,
}

/// Versions that were compared with programs of known call chains.
const KNOWN: std::ops::RangeInclusive<u8> = 11..=13;

impl V8Layout {
    /// Returns the layout of a version; `None` if a constant is missing or has an unknown value.
    pub(super) fn of(version: (u8, u8), constants: &Constants) -> Option<Self> {
        KNOWN.contains(&version.0).then_some(())?;
        // Frames and strings have the same form in all these versions.
        for (name, value) in [
            ("off_fp_context", -8),
            ("off_fp_function", -16),
            ("HeapObjectTag", 1),
            ("HeapObjectTagMask", 3),
            ("SmiShiftSize", 31),
            ("class_HeapObject__map__Map", 0),
            ("StringRepresentationMask", 7),
            ("OneByteStringTag", 8),
            ("FirstNonstringType", 128),
            ("class_String__length__int32_t", 12),
            ("scopeinfo_idx_ncontextlocals", 2),
            ("CodeKindFieldMask", 15),
            ("CodeKindFieldShift", 0),
        ] {
            (constants.get(name)? == value).then_some(())?;
        }
        let field = |class, field| constants.field(class, field);
        let shared = |name| field("SharedFunctionInfo", name);
        let script = |name| field("Script", name);
        let kind = |name: &str| u16::try_from(constants.get(name)?).ok();
        // These are missing in some versions.
        let first = kind("FirstJSFunctionType").or_else(|| constants.class("JSFunction"))?;
        let last = kind("LastJSFunctionType").unwrap_or(first + 14);
        let lines = script("line_ends")?;
        Some(Self {
            engine: ScriptEngine {
                id: 0,
                types: (first, last),
                instance_type: field("Map", "instance_type")?,
                shared: field("JSFunction", "shared")?,
                name: shared("name_or_scope_info")?,
                script: shared("script").or_else(|| shared("script_or_debug_info"))?,
                literal: shared("flags")?.checked_add(4)?,
                script_id: lines.checked_add(8)?,
            },
            types: V8Types {
                shared: constants.class("SharedFunctionInfo")?,
                scope: constants.class("ScopeInfo")?,
                script: constants.class("Script")?,
                array: constants.class("FixedArray")?,
                code: constants.class("Code")?,
                stream: constants.class("InstructionStream")?,
            },
            script_name: script("name")?,
            script_source: script("source")?,
            script_lines: lines,
            scope_head: constants.get("scopeinfo_idx_first_vars")?.try_into().ok().filter(|n| [3, 5].contains(n))?,
            code: CodeLayout::of(version, constants)?,
        })
    }
}

impl CodeLayout {
    fn of(version: (u8, u8), constants: &Constants) -> Option<Self> {
        let field = |name| constants.field("Code", name);
        let small = |name: &str| u8::try_from(constants.get(name)?).ok();
        // Before 12, the constants of code are those of an earlier form of it.
        let (deoptimization, positions) = if version.0 < 12 { (16, 24) } else { (8, 16) };
        let wrapped = small("DeoptimizationDataWrappedSharedFunctionInfoIndex");
        Some(Self {
            start: if version.0 < 12 { 40 } else { field("instruction_start")? },
            size: if version.0 < 12 { 56 } else { field("instruction_size")? },
            flags: if version.0 < 12 { 48 } else { field("flags")? },
            deoptimization,
            positions,
            baseline: small("CodeKindBaseline")?,
            literals: small("DeoptimizationDataLiteralArrayIndex")?,
            inlined: small("DeoptimizationDataInliningPositionsIndex")?,
            owner: wrapped.or_else(|| small("DeoptimizationDataSharedFunctionInfoIndex"))?,
            is_wrapped: wrapped.is_some(),
            has_translations: version == (13, 6),
        })
    }
}

impl V8Layout {
    /// Returns the layout of Node 20.
    pub(super) fn of_11() -> Self {
        Self {
            engine: ScriptEngine {
                id: 0,
                types: (2066, 2080),
                instance_type: 12,
                shared: 24,
                name: 16,
                script: 32,
                literal: 52,
                script_id: 64,
            },
            types: V8Types { shared: 262, scope: 261, script: 167, array: 175, code: 245, stream: 252 },
            script_name: 16,
            script_source: 8,
            script_lines: 56,
            scope_head: 3,
            code: CodeLayout {
                start: 40,
                size: 56,
                flags: 48,
                deoptimization: 16,
                positions: 24,
                baseline: 11,
                literals: 2,
                inlined: 7,
                owner: 6,
                is_wrapped: false,
                has_translations: false,
            },
        }
    }

    /// Returns the layout of Node 24.
    pub(super) fn of_13() -> Self {
        let old = Self::of_11();
        Self {
            engine: ScriptEngine { types: (2065, 2081), shared: 32, name: 24, script: 40, literal: 60, ..old.engine },
            types: V8Types { shared: 282, scope: 280, script: 167, array: 205, code: 187, stream: 192 },
            scope_head: 5,
            code: CodeLayout {
                size: 56,
                flags: 52,
                deoptimization: 8,
                positions: 16,
                baseline: 10,
                literals: 3,
                inlined: 8,
                owner: 7,
                is_wrapped: true,
                has_translations: true,
                ..old.code
            },
            ..old
        }
    }
}
