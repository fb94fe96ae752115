//! A program's functions from debug information: parameters, offsets of members (DWARF 5, sections 3.3 and 5.7).

use std::borrow::Cow;
use std::path::Path;

use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianArcSlice, LittleEndian, Unit, UnitOffset, constants,
};
use object::Object;

use crate::perfdata::unpack::{self, UnpackBudget};

use super::args::{Parameter, Parameters};

pub(super) type DebugReader = EndianArcSlice<LittleEndian>;
pub(super) type DebugEntry = DebuggingInformationEntry<DebugReader>;

pub(crate) struct DebugInfo {
    pub(super) dwarf: Dwarf<DebugReader>,
}

#[derive(Clone, Copy, Debug)]
struct TypeAt {
    unit: usize,
    offset: UnitOffset,
}

enum Kind {
    Pointer(Option<TypeAt>),
    Struct,
    /// A number: size in bytes, and whether it is signed.
    Number(u64, bool),
    Float,
}

/// The limit of decompressed section bytes.
const MAX_UNPACKED: usize = 256 << 20;
/// Longer chains of typedefs mean damaged data.
const MAX_DEPTH: usize = 32;

impl DebugInfo {
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let bytes = std::fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok().filter(|file| file.is_little_endian())?;
        file.section_by_name(".debug_info")?;
        let mut purse = UnpackBudget::new(MAX_UNPACKED);
        let load = |id: gimli::SectionId| -> Result<DebugReader, gimli::Error> {
            let data = file.section_by_name(id.name()).and_then(|s| unpack::section(&s, &mut purse).ok());
            Ok(DebugReader::new(data.unwrap_or(Cow::Borrowed(&[])).into(), LittleEndian))
        };
        Some(Self { dwarf: Dwarf::load(load).ok()? })
    }

    pub(super) fn units(&self) -> impl Iterator<Item = Unit<DebugReader>> + '_ {
        let mut headers = self.dwarf.units();
        std::iter::from_fn(move || headers.next().ok().flatten()).filter_map(|header| self.dwarf.unit(header).ok())
    }

    fn unit(&self, index: usize) -> Option<Unit<DebugReader>> {
        self.units().nth(index)
    }

    pub(super) fn text(&self, unit: &Unit<DebugReader>, entry: &DebugEntry, at: gimli::DwAt) -> Option<String> {
        let value = entry.attr_value(at)?;
        let text = self.dwarf.attr_string(unit, value).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    fn parameters(&self, function: &str) -> Option<Vec<(String, Option<TypeAt>)>> {
        let (index, unit, entry) = self.find(function)?;
        Some(self.children(index, &unit, &entry))
    }

    pub(super) fn function(&self, name: &str) -> Option<(Unit<DebugReader>, DebugEntry)> {
        self.find(name).map(|(_, unit, entry)| (unit, entry))
    }

    fn find(&self, function: &str) -> Option<(usize, Unit<DebugReader>, DebugEntry)> {
        for (index, unit) in self.units().enumerate() {
            let mut entries = unit.entries();
            let mut found = None;
            while let Ok(Some(entry)) = entries.next_dfs() {
                if entry.tag() != constants::DW_TAG_subprogram {
                    continue;
                }
                let entry = entry.clone();
                let names = [constants::DW_AT_linkage_name, constants::DW_AT_name];
                let named =
                    |e: &DebugEntry| names.iter().any(|at| self.text(&unit, e, *at).as_deref() == Some(function));
                let origin = self.origin(&unit, &entry);
                let declared = entry.attr_value(constants::DW_AT_declaration).is_some();
                if declared || !(named(&entry) || origin.as_ref().is_some_and(named)) {
                    continue;
                }
                found = Some(entry);
                break;
            }
            if let Some(entry) = found {
                return Some((index, unit, entry));
            }
        }
        None
    }

    fn origin(&self, unit: &Unit<DebugReader>, entry: &DebugEntry) -> Option<DebugEntry> {
        let of = |at| match entry.attr_value(at)? {
            AttributeValue::UnitRef(offset) => unit.entry(offset).ok(),
            _ => None,
        };
        of(constants::DW_AT_abstract_origin).or_else(|| of(constants::DW_AT_specification))
    }

    fn children(&self, index: usize, unit: &Unit<DebugReader>, function: &DebugEntry) -> Vec<(String, Option<TypeAt>)> {
        let mut out = Vec::new();
        let Ok(mut tree) = unit.entries_tree(Some(function.offset())) else { return out };
        let Ok(root) = tree.root() else { return out };
        let mut children = root.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry().clone();
            if entry.tag() != constants::DW_TAG_formal_parameter {
                continue;
            }
            let origin = self.origin(unit, &entry);
            let whole = origin.as_ref().unwrap_or(&entry);
            let name = self.text(unit, &entry, constants::DW_AT_name);
            let name = name.or_else(|| self.text(unit, whole, constants::DW_AT_name)).unwrap_or_default();
            let kind = type_of(index, &entry).or_else(|| type_of(index, whole));
            out.push((name, kind));
        }
        out
    }

    /// Resolves typedefs and qualifiers; returns also the type's name in C.
    fn resolve(&self, at: TypeAt) -> Option<(Kind, TypeAt, String)> {
        let unit = self.unit(at.unit)?;
        let mut here = at;
        for _ in 0..MAX_DEPTH {
            let entry = unit.entry(here.offset).ok()?;
            let name = self.text(&unit, &entry, constants::DW_AT_name);
            let size = entry.attr_value(constants::DW_AT_byte_size).and_then(|v| v.udata_value()).unwrap_or(8);
            let inner = type_of(at.unit, &entry);
            let of = || name.clone().unwrap_or_else(|| "struct".to_owned());
            return Some(match entry.tag() {
                constants::DW_TAG_pointer_type | constants::DW_TAG_reference_type => {
                    let words =
                        inner.and_then(|inner| self.resolve(inner)).map_or_else(|| "void".to_owned(), |(_, _, n)| n);
                    (Kind::Pointer(inner), here, format!("{words}*"))
                }
                constants::DW_TAG_structure_type | constants::DW_TAG_class_type | constants::DW_TAG_union_type => {
                    (Kind::Struct, here, of())
                }
                constants::DW_TAG_enumeration_type => (Kind::Number(size, false), here, of()),
                constants::DW_TAG_base_type => {
                    let kind = match entry.attr_value(constants::DW_AT_encoding) {
                        Some(AttributeValue::Encoding(constants::DW_ATE_float)) => Kind::Float,
                        Some(AttributeValue::Encoding(constants::DW_ATE_signed | constants::DW_ATE_signed_char)) => {
                            Kind::Number(size, true)
                        }
                        _ => Kind::Number(size, false),
                    };
                    (kind, here, of())
                }
                _ => {
                    here = inner?;
                    continue;
                }
            });
        }
        None
    }

    /// Returns a member's offset in bytes and its type, also of members of anonymous members.
    fn member(&self, of: TypeAt, name: &str, depth: usize) -> Option<(u64, TypeAt)> {
        let unit = self.unit(of.unit)?;
        let mut tree = unit.entries_tree(Some(of.offset)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Ok(Some(child)) = children.next() {
            let entry = child.entry().clone();
            if entry.tag() != constants::DW_TAG_member {
                continue;
            }
            let place = entry.attr_value(constants::DW_AT_data_member_location);
            let offset = place.and_then(|v| v.udata_value()).unwrap_or(0);
            let kind = type_of(of.unit, &entry)?;
            match self.text(&unit, &entry, constants::DW_AT_name) {
                Some(found) if found == name => return Some((offset, kind)),
                None if depth < MAX_DEPTH => {
                    let inner = self.resolve(kind).filter(|(k, ..)| matches!(k, Kind::Struct));
                    if let Some((more, found)) = inner.and_then(|(_, at, _)| self.member(at, name, depth + 1)) {
                        return Some((offset + more, found));
                    }
                }
                _ => {}
            }
        }
        None
    }

    fn describe(&self, name: String, at: Option<TypeAt>) -> Parameter {
        let known = at.and_then(|at| self.resolve(at));
        let fetch = known.as_ref().map_or_else(|| "x64".to_owned(), |(kind, ..)| fetch(kind));
        Parameter { name, kind: known.map(|(_, _, words)| words).unwrap_or_default(), fetch }
    }
}

fn type_of(unit: usize, entry: &DebugEntry) -> Option<TypeAt> {
    match entry.attr_value(constants::DW_AT_type)? {
        AttributeValue::UnitRef(offset) => Some(TypeAt { unit, offset }),
        _ => None,
    }
}

fn fetch(kind: &Kind) -> String {
    match kind {
        Kind::Number(size, signed) => format!("{}{}", if *signed { 's' } else { 'u' }, 8 * (*size).clamp(1, 8)),
        _ => "x64".to_owned(),
    }
}

impl Parameters for DebugInfo {
    fn of(&self, function: &str) -> Option<Vec<Parameter>> {
        let known = self.parameters(function)?;
        Some(known.into_iter().map(|(name, at)| self.describe(name, at)).collect())
    }

    fn register(&self, function: &str, parameter: usize) -> Result<usize, String> {
        let known = self.parameters(function).unwrap_or_default();
        let kind = |at: Option<TypeAt>| at.and_then(|at| self.resolve(at)).map(|(kind, ..)| kind);
        let mut register = 0;
        for (i, (name, at)) in known.into_iter().enumerate() {
            match kind(at) {
                Some(Kind::Float) if i == parameter => {
                    return Err(format!("{name} is in a floating-point register, which probes cannot read"));
                }
                Some(Kind::Float) => {}
                // Structures of up to two words are in registers, others on the stack; the size alone is ambiguous.
                Some(Kind::Struct) if i <= parameter => {
                    return Err(format!("{name} is a structure passed by value; name the register"));
                }
                _ if i == parameter => return Ok(register),
                _ => register += 1,
            }
        }
        Err("no such parameter".to_owned())
    }

    fn member(&self, function: &str, parameter: usize, path: &[&str]) -> Result<(Vec<u32>, String), String> {
        let known = self.parameters(function).unwrap_or_default();
        let mut at = known.get(parameter).and_then(|(_, at)| *at).ok_or("its type is unknown")?;
        let mut offsets: Vec<u32> = Vec::new();
        for name in path {
            let (kind, here, words) = self.resolve(at).ok_or("its type is unknown")?;
            let (of, through) = match kind {
                Kind::Pointer(Some(inner)) => (self.resolve(inner).ok_or("the type it points to is unknown")?.1, true),
                _ => (here, false),
            };
            let (offset, member) = self.member(of, name, 0).ok_or_else(|| format!("{words} has no member {name}"))?;
            let offset = u32::try_from(offset).map_err(|_| "the offset of the member is too large".to_owned())?;
            match offsets.last_mut() {
                Some(last) if !through => *last += offset,
                _ if through => offsets.push(offset),
                _ => return Err(format!("{words} is passed by value")),
            }
            at = member;
        }
        Ok((offsets, self.describe(String::new(), Some(at)).fetch))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProbeSpec;
    use super::super::args::resolve_all;
    use super::*;
    use crate::damage;
    use proptest::strategy::Just;

    const PROBED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/bin/probed.so");

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn names_of_a_program_with_debug_information() {
        let info = DebugInfo::open(Path::new(PROBED)).expect("debug information");
        let args = |text: &str| resolve_all(&ProbeSpec::parse(text).expect(text), &info);
        let known: Vec<(String, String, String)> =
            info.of("send_message").expect("known").into_iter().map(|p| (p.name, p.kind, p.fetch)).collect();
        let row = |name: &str, kind: &str, fetch: &str| (name.to_owned(), kind.to_owned(), fetch.to_owned());
        assert_eq!(
            known,
            [
                row("number", "long unsigned int", "u64"),
                row("share", "double", "x64"),
                row("message", "message*", "x64"),
                row("count", "int", "s32"),
                row("color", "color", "u32"),
            ]
        );
        // The double uses a floating-point register, so later parameters move up.
        assert_eq!(
            args("send_message number count message->inner.len message->flags message->next->kind"),
            Ok(["number=%di:u64", "count=%dx:s32", "len=+8(%si):s16", "flags=+4(%si):s32", "kind=+0(+24(%si)):u32"]
                .map(str::to_owned)
                .to_vec())
        );
        assert_eq!(args("call_name filename:string"), Ok(vec!["filename=+0(%di):string".to_owned()]));
        for (text, words) in [
            ("send_message share", "floating-point"),
            ("send_message message->nothing", "message* has no member nothing"),
            ("send_message size", "number, share, message, count, color"),
            ("by_value after", "by value"),
            ("other x", "unknown"),
        ] {
            let error = args(text).expect_err(text);
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn what_has_no_debug_information_is_none() {
        assert!(DebugInfo::open(Path::new("/no/such/file")).is_none());
        assert!(DebugInfo::open(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"))).is_none());
    }

    #[test]
    fn damage_is_no_panic() {
        let whole = Just(std::fs::read(PROBED).expect("read"));
        damage::reaching(64, 20, damage::bytes(20, whole), |bytes| {
            let dir = tempfile::tempdir().expect("dir");
            let path = dir.path().join("damaged.so");
            std::fs::write(&path, bytes).expect("written");
            let Some(info) = DebugInfo::open(&path) else { return false };
            let _ = Parameters::member(&info, "send_message", 2, &["next", "kind"]);
            let _ = info.register("send_message", 3);
            info.of("send_message").is_some()
        });
    }
}
