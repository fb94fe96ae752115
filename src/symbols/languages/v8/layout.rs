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
    /// The kind of scopes with one word more there, if any: those of modules.
    pub(super) counted_scope: Option<u32>,
    /// Variables of a scope that have their names in it; with more of them, these are in a table.
    pub(super) named_variables: u32,
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
    /// The object that has the instructions: that of the code before V8 11.
    pub(super) stream: u16,
    /// The first type that is not one of strings.
    pub(super) no_string: u16,
}

/// Compiled code, and what it inlined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CodeLayout {
    /// Where it begins: the offset of its address, or of the instructions themselves.
    pub(super) start: u8,
    pub(super) has_instructions: bool,
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

/// Variables of a scope that have their names in it since V8 10.
const NAMED_VARIABLES: u32 = 75;

/// Reports whether a version was compared with programs of known call chains: those of Node 16, 18, and 20 to 24.
fn is_known(version: (u8, u8)) -> bool {
    matches!(version, (9, 4) | (10, 2) | (11..=13, _))
}

impl V8Layout {
    /// Returns the layout of a version; `None` if a constant is missing or has an unknown value.
    pub(super) fn of(version: (u8, u8), constants: &Constants) -> Option<Self> {
        is_known(version).then_some(())?;
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
            ("class_String__length__int32_t", 12),
            ("scopeinfo_idx_ncontextlocals", 2),
        ] {
            (constants.get(name)? == value).then_some(())?;
        }
        for (name, value) in [("CodeKindFieldMask", 15), ("CodeKindFieldShift", 0)] {
            // V8 9 does not have them.
            let is_there = version.0 >= 10 || constants.get(name).is_some();
            (!is_there || constants.get(name)? == value).then_some(())?;
        }
        let field = |class, field| constants.field(class, field);
        let shared = |name| field("SharedFunctionInfo", name);
        let script = |name| field("Script", name);
        let kind = |name: &str| u16::try_from(constants.get(name)?).ok();
        // These are missing in some versions.
        let first = kind("FirstJSFunctionType").or_else(|| constants.class("JSFunction"))?;
        // The last one is that of classes, but in V8 9.
        let last = kind("LastJSFunctionType").or_else(|| first.checked_add(if version.0 < 10 { 14 } else { 15 }))?;
        let lines = script("line_ends")?;
        let head: u8 = constants.get("scopeinfo_idx_first_vars")?.try_into().ok().filter(|n| [3, 5].contains(n))?;
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
                stream: constants.class(if version.0 < 11 { "Code" } else { "InstructionStream" })?,
                no_string: kind("FirstNonstringType").filter(|first| [64, 128].contains(first))?,
            },
            script_name: script("name")?,
            script_source: script("source").or((version.0 < 10).then_some(8))?,
            script_lines: lines,
            scope_head: head,
            // The kinds begin elsewhere since positions are in front.
            counted_scope: (version.0 >= 12).then_some(if head == 3 { 3 } else { 5 }),
            named_variables: if version.0 < 10 { u32::MAX } else { NAMED_VARIABLES },
            code: CodeLayout::of(version, constants)?,
        })
    }
}

impl CodeLayout {
    fn of(version: (u8, u8), constants: &Constants) -> Option<Self> {
        let field = |name| constants.field("Code", name);
        let small = |name: &str| u8::try_from(constants.get(name)?).ok();
        if version.0 < 11 {
            // Of its fields, V8 9 describes these only, and V8 10 its flags.
            (field("instruction_size")? == 40 && field("flags").is_none_or(|at| at == 48)).then_some(())?;
            return Some(Self { start: field("instruction_start")?, ..Self::with_instructions() });
        }
        // Before 12, the constants of code are those of an earlier form of it.
        let (deoptimization, positions) = if version.0 < 12 { (16, 24) } else { (8, 16) };
        let wrapped = small("DeoptimizationDataWrappedSharedFunctionInfoIndex");
        Some(Self {
            start: if version.0 < 12 { 40 } else { field("instruction_start")? },
            has_instructions: false,
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

    /// Returns the layout of code before V8 11, as of Node 18.
    fn with_instructions() -> Self {
        Self {
            start: 128,
            has_instructions: true,
            size: 40,
            flags: 48,
            deoptimization: 16,
            positions: 24,
            baseline: 11,
            literals: 2,
            inlined: 7,
            owner: 6,
            is_wrapped: false,
            has_translations: false,
        }
    }
}

impl V8Layout {
    /// Returns the layout of Node 16.
    #[cfg(test)]
    pub(super) fn of_9() -> Self {
        let new = Self::of_11();
        Self {
            engine: ScriptEngine { types: (1059, 1073), ..new.engine },
            types: V8Types { shared: 179, scope: 178, script: 112, array: 119, code: 162, stream: 162, no_string: 64 },
            named_variables: u32::MAX,
            code: CodeLayout { start: 96, ..CodeLayout::with_instructions() },
            ..new
        }
    }

    /// Returns the layout of Node 18.
    pub(super) fn of_10() -> Self {
        let new = Self::of_11();
        Self {
            engine: ScriptEngine { types: (2065, 2080), ..new.engine },
            types: V8Types { shared: 257, scope: 256, script: 170, array: 179, code: 240, stream: 240, no_string: 128 },
            code: CodeLayout::with_instructions(),
            ..new
        }
    }

    /// Returns the layout of Node 20.
    pub(super) fn of_11() -> Self {
        Self {
            engine: ScriptEngine {
                id: 0,
                types: (2066, 2081),
                instance_type: 12,
                shared: 24,
                name: 16,
                script: 32,
                literal: 52,
                script_id: 64,
            },
            types: V8Types { shared: 262, scope: 261, script: 167, array: 175, code: 245, stream: 252, no_string: 128 },
            script_name: 16,
            script_source: 8,
            script_lines: 56,
            scope_head: 3,
            counted_scope: None,
            named_variables: NAMED_VARIABLES,
            code: CodeLayout {
                start: 40,
                has_instructions: false,
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
            types: V8Types { shared: 282, scope: 280, script: 167, array: 205, code: 187, stream: 192, no_string: 128 },
            scope_head: 5,
            counted_scope: Some(5),
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
