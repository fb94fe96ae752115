//! The fields of the running kernel's types, from its BPF Type Format (Documentation/bpf/btf.rst). Fields are looked up
//! by name, because their offsets differ between kernels.

use std::fs;

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// The maximum nesting of structures; deeper BTF is damaged.
const MAX_DEPTH: usize = 16;

mod kind {
    pub(crate) const INT: u32 = 1;
    pub(crate) const PTR: u32 = 2;
    pub(crate) const ARRAY: u32 = 3;
    pub(crate) const STRUCT: u32 = 4;
    pub(crate) const UNION: u32 = 5;
    pub(crate) const ENUM: u32 = 6;
    pub(crate) const TYPEDEF: u32 = 8;
    pub(crate) const VOLATILE: u32 = 9;
    pub(crate) const CONST: u32 = 10;
    pub(crate) const RESTRICT: u32 = 11;
    pub(crate) const FUNC: u32 = 12;
    pub(crate) const FUNC_PROTO: u32 = 13;
    pub(crate) const VAR: u32 = 14;
    pub(crate) const DATASEC: u32 = 15;
    pub(crate) const DECL_TAG: u32 = 17;
    pub(crate) const TYPE_TAG: u32 = 18;
    pub(crate) const ENUM64: u32 = 19;
}

/// The types of a kernel.
#[derive(Debug)]
pub struct Btf {
    bytes: Vec<u8>,
    /// The offset of each type; the first is void.
    types: Vec<usize>,
    strings: std::ops::Range<usize>,
}

/// The reason why a field cannot be found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BtfError {
    /// The kernel has no BTF file, or it cannot be read; with the error of reading it.
    #[error("this kernel does not describe its types ({VMLINUX}: {0})")]
    Absent(String),
    /// The bytes are not BTF, or truncated.
    #[error("the kernel's BTF is damaged")]
    Damaged,
    /// A type or a member that does not exist, spelled as in C: `rq.nr_running`.
    #[error("this kernel has no {0}")]
    NoField(String),
}

impl Btf {
    /// Reads the types of the running kernel.
    pub fn system() -> Result<Self, BtfError> {
        let bytes = fs::read(VMLINUX).map_err(|error| BtfError::Absent(error.to_string()))?;
        Self::parse(bytes).ok_or(BtfError::Damaged)
    }

    /// Parses BTF; returns `None` if it is damaged or truncated.
    pub fn parse(bytes: Vec<u8>) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize);
        if u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?) != MAGIC {
            return None;
        }
        let header = word(4)?;
        let (type_at, type_len, str_at, str_len) = (word(8)?, word(12)?, word(16)?, word(20)?);
        let start = header.checked_add(type_at)?;
        let end = start.checked_add(type_len).filter(|end| *end <= bytes.len())?;
        let strings = header.checked_add(str_at)?;
        let strings = strings..strings.checked_add(str_len).filter(|end| *end <= bytes.len())?;
        let mut types = vec![0];
        let mut at = start;
        while at < end {
            types.push(at);
            let info = word(at + 4)? as u32;
            let n = (info & 0xffff) as usize;
            at += 12
                + match info >> 24 & 0x1f {
                    kind::INT | kind::VAR | kind::DECL_TAG => 4,
                    kind::ARRAY => 12,
                    kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * n,
                    kind::ENUM | kind::FUNC_PROTO => 8 * n,
                    _ => 0,
                };
        }
        Some(Self { bytes, types, strings })
    }

    fn word(&self, at: usize) -> u32 {
        self.bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
    }

    fn name(&self, offset: u32) -> &[u8] {
        let at = self.strings.start + offset as usize;
        let rest = self.bytes.get(at..self.strings.end).unwrap_or_default();
        &rest[..memchr::memchr(0, rest).unwrap_or(rest.len())]
    }

    fn kind(&self, id: u32) -> u32 {
        self.types.get(id as usize).filter(|at| **at > 0).map_or(0, |at| self.word(at + 4) >> 24 & 0x1f)
    }

    /// Returns the offset in bytes of a field that is nested in structures.
    pub fn offset(&self, of: &str, path: &[&str]) -> Result<u32, BtfError> {
        let missing = || BtfError::NoField(format!("{of}.{}", path.join(".")));
        let is_it = |id: &u32| {
            let at = self.types[*id as usize];
            matches!(self.kind(*id), kind::STRUCT) && self.name(self.word(at)) == of.as_bytes()
        };
        let mut id = (1..self.types.len() as u32).find(is_it).ok_or_else(missing)?;
        let mut offset = 0;
        for name in path {
            let (bits, member) = self.member(id, name, 0).ok_or_else(missing)?;
            offset += bits / 8;
            id = member;
        }
        Ok(offset)
    }

    /// Returns the number of a function.
    pub(crate) fn function(&self, name: &str) -> Option<u32> {
        let is_it = |id: &u32| {
            self.kind(*id) == kind::FUNC && self.name(self.word(self.types[*id as usize])) == name.as_bytes()
        };
        (1..self.types.len() as u32).find(is_it)
    }

    /// Returns the parameters of a function with their types, in order.
    pub fn parameters(&self, function: &str) -> Option<Vec<(String, u32)>> {
        let id = self.function(function)?;
        let proto = self.word(self.types[id as usize] + 8);
        let at = *self.types.get(proto as usize).filter(|_| self.kind(proto) == kind::FUNC_PROTO)?;
        let n = (self.word(at + 4) & 0xffff) as usize;
        let one = |i: usize| (at + 12 + 8 * i, at + 16 + 8 * i);
        Some((0..n).map(one).map(|(name, of)| (self.text(self.word(name)), self.word(of))).collect())
    }

    /// Returns a type as simplified C, and as the type name that probe arguments use.
    pub fn describe(&self, id: u32) -> (String, String) {
        let inner = self.resolve(id);
        let at = self.types.get(inner as usize).copied().unwrap_or_default();
        match self.kind(inner) {
            kind::PTR => {
                let (of, _) = self.describe(self.word(at + 8));
                (format!("{of}*"), "x64".to_owned())
            }
            kind::INT => {
                let (size, info) = (self.word(at + 8), self.word(at + 12));
                let sign = if info >> 24 & 1 == 1 { 's' } else { 'u' };
                (self.text(self.word(at)), format!("{sign}{}", 8 * size.clamp(1, 8)))
            }
            kind::ENUM => {
                (format!("enum {}", self.text(self.word(at))), format!("s{}", 8 * self.word(at + 8).clamp(1, 8)))
            }
            kind::STRUCT => (format!("struct {}", self.text(self.word(at))), "x64".to_owned()),
            kind::UNION => (format!("union {}", self.text(self.word(at))), "x64".to_owned()),
            _ => ("void".to_owned(), "x64".to_owned()),
        }
    }

    /// Follows members from a type. Returns one offset for each pointer to dereference, and the type at the end.
    pub fn follow(&self, id: u32, path: &[&str]) -> Result<(Vec<u32>, u32), BtfError> {
        let (mut offsets, mut id) = (Vec::<u32>::new(), id);
        for name in path {
            let inner = self.resolve(id);
            let through = self.kind(inner) == kind::PTR;
            let of = if through { self.word(self.types[inner as usize] + 8) } else { inner };
            let missing = || BtfError::NoField(format!("{}.{name}", self.describe(of).0));
            let (bits, member) = self.member(of, name, 0).ok_or_else(missing)?;
            match offsets.last_mut() {
                Some(last) if !through => *last = last.saturating_add(bits / 8),
                _ if through => offsets.push(bits / 8),
                _ => return Err(missing()),
            }
            id = member;
        }
        Ok((offsets, id))
    }

    fn text(&self, name: u32) -> String {
        String::from_utf8_lossy(self.name(name)).into_owned()
    }

    /// Returns a member's offset in bits and its type. Members of anonymous structures count, too.
    fn member(&self, id: u32, name: &str, depth: usize) -> Option<(u32, u32)> {
        let id = self.resolve(id);
        if depth > MAX_DEPTH || !matches!(self.kind(id), kind::STRUCT | kind::UNION) {
            return None;
        }
        let at = self.types[id as usize];
        let info = self.word(at + 4);
        let bitfields = info >> 31 == 1;
        for i in 0..(info & 0xffff) as usize {
            let one = at + 12 + 12 * i;
            let (member, offset) = (self.word(one + 4), self.word(one + 8));
            let bits = if bitfields { offset & 0xff_ffff } else { offset };
            match self.name(self.word(one)) {
                b"" => {
                    if let Some((inner, found)) = self.member(member, name, depth + 1) {
                        return Some((bits.checked_add(inner)?, found));
                    }
                }
                found if found == name.as_bytes() => return Some((bits, member)),
                _ => {}
            }
        }
        None
    }

    fn resolve(&self, mut id: u32) -> u32 {
        for _ in 0..MAX_DEPTH {
            match self.kind(id) {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    id = self.word(self.types[id as usize] + 8);
                }
                _ => break,
            }
        }
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;
    use proptest::prelude::*;

    fn small() -> Vec<u8> {
        let names = b"\0inner\0outer\0x\0y\0in\0";
        let mut types: Vec<u32> = Vec::new();
        types.extend([1, kind::STRUCT << 24 | 2, 8, 13, 0, 0, 15, 0, 32]);
        types.extend([0, kind::UNION << 24 | 1, 8, 17, 3, 0]);
        types.extend([1, kind::TYPEDEF << 24, 1]);
        types.extend([7, kind::STRUCT << 24 | 2, 16, 13, 0, 0, 0, 2, 64]);
        let mut out = MAGIC.to_le_bytes().to_vec();
        out.extend([1, 0]);
        for word in [24, 0, 4 * types.len() as u32, 4 * types.len() as u32, names.len() as u32] {
            out.extend(word.to_le_bytes());
        }
        types.iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.extend(names);
        out
    }

    #[test]
    fn fields_are_found_by_name_through_what_has_none() {
        let btf = Btf::parse(small()).expect("parses");
        assert_eq!((btf.offset("inner", &["y"]), btf.offset("outer", &["in", "y"])), (Ok(4), Ok(12)));
        assert_eq!(btf.offset("outer", &["z"]), Err(BtfError::NoField("outer.z".into())));
        assert!(btf.offset("nobody", &["x"]).is_err());
    }

    #[test]
    fn places_beyond_all_numbers_are_none() {
        let mut bytes = small();
        // The offset of `in`, and that of the structure that contains it.
        for at in [24 + 4 * 14, 24 + 4 * 26] {
            bytes[at..at + 4].fill(0xff);
        }
        let btf = Btf::parse(bytes).expect("parses");
        assert_eq!(btf.offset("outer", &["in"]), Err(BtfError::NoField("outer.in".into())));
    }

    #[test]
    fn damage_is_no_panic() {
        damage::reaching(512, 20, damage::bytes(4, Just(small())), |bytes| {
            Btf::parse(bytes).is_some_and(|btf| btf.offset("outer", &["in", "y"]).is_ok())
        });
    }
}
