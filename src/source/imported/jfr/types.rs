//! The parts of a chunk: numbers and texts, the types that its metadata describe, and values of these types.

use std::borrow::Cow;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::source::imported::ImportError;
use crate::source::imported::profile::MOST_TEXT;

/// The elements and strings of a chunk's metadata; a JDK has some thousands.
const MOST_ELEMENTS: usize = 1 << 19;
/// How deep types and elements of metadata are nested.
const MOST_NESTED: u8 = 12;

/// A field's value: a number, which may be the key of another value, or a text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item<'a> {
    Number(u64),
    Text(Cow<'a, str>),
    /// A text by its key.
    TextKey(u64),
}

/// A position in the file, up to the end of a chunk.
#[derive(Clone, Copy)]
pub(super) struct JfrReader<'a> {
    bytes: &'a [u8],
    pub(super) at: usize,
    /// The values that may still be read: types may be nested such that they have no bytes.
    steps: u64,
}

impl<'a> JfrReader<'a> {
    /// Returns a reader of a part of the file, from a position on.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> Self {
        let length = bytes.len().saturating_sub(at) as u64;
        Self::limited(bytes, at, 16 * length + 64)
    }

    /// Returns a reader of at most this many values.
    pub(super) fn limited(bytes: &'a [u8], at: usize, steps: u64) -> Self {
        Self { bytes, at, steps }
    }

    fn step(&mut self) -> Result<(), ImportError> {
        self.steps = self.steps.checked_sub(1).ok_or(ImportError::TooComplex)?;
        Ok(())
    }

    pub(super) fn damaged(&self, what: &'static str) -> ImportError {
        ImportError::Damaged { what, at: self.at }
    }

    pub(super) fn take(&mut self, n: u64) -> Result<&'a [u8], ImportError> {
        let end = usize::try_from(n).ok().and_then(|n| self.at.checked_add(n));
        let part = end.and_then(|end| self.bytes.get(self.at..end));
        let part = part.ok_or_else(|| self.damaged("a value is longer than its chunk"))?;
        self.at += part.len();
        Ok(part)
    }

    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], ImportError> {
        let part = self.take(N as u64)?;
        part.try_into().map_err(|_| self.damaged("an incomplete number"))
    }

    /// Reads a number in LEB128 with at most nine bytes; the ninth has eight bits.
    pub(super) fn int(&mut self) -> Result<u64, ImportError> {
        let mut value = 0;
        for shift in (0..56).step_by(7) {
            let [byte] = self.fixed::<1>()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        let [byte] = self.fixed::<1>()?;
        Ok(value | u64::from(byte) << 56)
    }

    /// Reads a text in one of its encodings; only its start if it is long.
    fn text(&mut self) -> Result<Item<'a>, ImportError> {
        let [encoding] = self.fixed::<1>()?;
        let text = match encoding {
            0 | 1 => Cow::Borrowed(""),
            2 => return self.int().map(Item::TextKey),
            3 | 5 => {
                let n = self.int()?;
                let bytes = self.take(n)?;
                let start = &bytes[..bytes.len().min(MOST_TEXT)];
                match encoding {
                    3 => String::from_utf8_lossy(start),
                    _ if start.is_ascii() => String::from_utf8_lossy(start),
                    _ => start.iter().map(|byte| char::from(*byte)).collect(),
                }
            }
            4 => {
                let mut units = Vec::new();
                for _ in 0..self.int()? {
                    self.step()?;
                    let unit = self.int()? as u16;
                    if units.len() < MOST_TEXT {
                        units.push(unit);
                    }
                }
                String::from_utf16_lossy(&units).into()
            }
            _ => return Err(self.damaged("an unknown encoding of a text")),
        };
        Ok(Item::Text(text))
    }
}

struct Field {
    name: Arc<str>,
    class: u64,
    /// Whether it is the key of a value of this type.
    is_key: bool,
    is_list: bool,
}

#[derive(Default)]
struct Class {
    name: Arc<str>,
    fields: Vec<Field>,
}

/// The types of a chunk by their ids.
#[derive(Default)]
pub(super) struct JfrTypes {
    classes: FxHashMap<u64, Class>,
    strings: Vec<Arc<str>>,
    elements: usize,
}

impl JfrTypes {
    /// Reads the body of a metadata event.
    pub(super) fn read(mut from: JfrReader<'_>) -> Result<Self, ImportError> {
        let mut types = Self::default();
        // Its time, duration and number.
        for _ in 0..3 {
            from.int()?;
        }
        for _ in 0..from.int()? {
            if types.strings.len() >= MOST_ELEMENTS {
                return Err(ImportError::TooComplex);
            }
            let Item::Text(text) = from.text()? else { return Err(from.damaged("a name by its key")) };
            types.strings.push(Arc::from(&*text));
        }
        types.element(&mut from, None, 0)?;
        Ok(types)
    }

    /// Reads an element with its children. Those of a class are its fields.
    fn element(&mut self, from: &mut JfrReader<'_>, inside: Option<u64>, nested: u8) -> Result<(), ImportError> {
        self.elements += 1;
        if self.elements > MOST_ELEMENTS || nested > MOST_NESTED {
            return Err(ImportError::TooComplex);
        }
        let kind = self.string(from)?;
        let mut attributes: [Arc<str>; 5] = Default::default();
        for _ in 0..from.int()? {
            let (key, value) = (self.string(from)?, self.string(from)?);
            if let Some(at) = ["id", "name", "class", "constantPool", "dimension"].iter().position(|of| **of == *key) {
                attributes[at] = value;
            }
        }
        let [id, name, class, is_key, dimension] = attributes;
        let mut inside = inside;
        match (&*kind, inside) {
            ("class", _) => {
                let id = id.parse::<u64>().map_err(|_| from.damaged("a type without a number"))?;
                self.classes.insert(id, Class { name, fields: Vec::new() });
                inside = Some(id);
            }
            ("field", Some(owner)) => {
                let class = class.parse::<u64>().map_err(|_| from.damaged("a field without a type"))?;
                let is_list = !dimension.is_empty() && &*dimension != "0";
                let field = Field { name, class, is_key: &*is_key == "true", is_list };
                self.classes.entry(owner).or_default().fields.push(field);
            }
            _ => {}
        }
        for _ in 0..from.int()? {
            self.element(from, inside, nested + 1)?;
        }
        Ok(())
    }

    fn string(&self, from: &mut JfrReader<'_>) -> Result<Arc<str>, ImportError> {
        let index = usize::try_from(from.int()?).ok();
        let found = index.and_then(|index| self.strings.get(index));
        found.cloned().ok_or_else(|| from.damaged("a name that is missing in the metadata"))
    }

    pub(super) fn name(&self, class: u64) -> &str {
        self.classes.get(&class).map_or("", |class| &class.name)
    }

    /// Reads a value of a type, and passes its numbers and texts with the names of their fields.
    pub(super) fn value<'a>(
        &self,
        from: &mut JfrReader<'a>,
        (name, class): (&str, u64),
        nested: u8,
        see: &mut dyn FnMut(&str, Item<'a>),
    ) -> Result<(), ImportError> {
        let class = self.classes.get(&class).ok_or_else(|| from.damaged("a value of an unknown type"))?;
        if nested > MOST_NESTED {
            return Err(ImportError::TooComplex);
        }
        from.step()?;
        match &*class.name {
            "boolean" | "byte" => see(name, Item::Number(from.fixed::<1>()?[0].into())),
            "char" | "short" | "int" | "long" => see(name, Item::Number(from.int()?)),
            "float" => drop(from.take(4)?),
            "double" => drop(from.take(8)?),
            "java.lang.String" => see(name, from.text()?),
            _ => {
                for field in &class.fields {
                    let n = if field.is_list { from.int()? } else { 1 };
                    for _ in 0..n {
                        from.step()?;
                        match field.is_key {
                            true => see(&field.name, Item::Number(from.int()?)),
                            false => self.value(from, (&field.name, field.class), nested + 1, see)?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
