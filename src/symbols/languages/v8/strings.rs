//! Strings and numbers in the heap of an engine.

use super::layout::V8Layout;
use crate::symbols::languages::ProcessMemory;

/// Characters of a name, parts of a string, and bytes of a script at most.
const NAME: u32 = 512;
const PARTS: usize = 16;
/// Strings that a string may refer to, one after the other.
const STEPS: u8 = 5;
const SCRIPT: u64 = 16 << 20;
/// Where the characters of a string are, and of one outside of the heap the pointer to them.
const CHARACTERS: u64 = 16;
const OUTSIDE: u64 = 24;

/// A string of one piece.
struct Flat {
    /// Where its characters are.
    at: u64,
    len: u32,
    is_wide: bool,
}

/// Returns the number that a word is, if it is not a pointer.
pub(super) fn number(word: u64) -> Option<u32> {
    (word as u32 == 0).then_some((word >> 32) as u32)
}

impl V8Layout {
    /// Returns a word of an object, by a pointer with a tag.
    pub(super) fn field(&self, object: u64, offset: u64, memory: &impl ProcessMemory) -> Option<u64> {
        (object & 3 == 1).then_some(())?;
        memory.word(object.checked_sub(1)?.checked_add(offset)?)
    }

    /// Returns the number of an object's type.
    pub(super) fn kind(&self, object: u64, memory: &impl ProcessMemory) -> Option<u16> {
        let map = self.field(object, 0, memory)?;
        Some(self.field(map, self.engine.instance_type.into(), memory)? as u16)
    }

    /// Returns the string of an object; `None` if it is not one, or not in a known form. Long ones are cut.
    pub(super) fn string(&self, object: u64, memory: &impl ProcessMemory) -> Option<String> {
        let mut text = String::new();
        let (mut rest, mut parts) = (vec![object], 0);
        while let Some(part) = rest.pop() {
            parts += 1;
            match self.kind(part, memory)? {
                kind if kind >= self.types.no_string || parts > PARTS => return None,
                kind if kind & 7 == 1 => {
                    rest.push(self.field(part, 24, memory)?);
                    rest.push(self.field(part, 16, memory)?);
                }
                _ => text.push_str(&read(&self.flat(part, memory)?, memory)?),
            }
            if text.len() >= NAME as usize && !rest.is_empty() {
                text.push('…');
                break;
            }
        }
        Some(text)
    }

    /// Returns the last characters of the lines of a script's text, of so many at least; `None` if the text is too long.
    pub(super) fn line_ends_of(&self, text: u64, most: u32, memory: &impl ProcessMemory) -> Option<Vec<u32>> {
        const PIECE: u64 = 64 << 10;
        let text = self.flat(text, memory)?;
        let width = if text.is_wide { 2 } else { 1 };
        let end = Some(u64::from(text.len) * width).filter(|end| *end <= SCRIPT)?;
        let (mut from, mut ends) = (0, Vec::new());
        while from < end && ends.len() < most as usize {
            let mut bytes = vec![0; (end - from).min(PIECE) as usize];
            memory.read(text.at.checked_add(from)?, &mut bytes)?;
            let first = (from / width) as u32;
            match text.is_wide {
                false => ends.extend(memchr::memchr_iter(b'\n', &bytes).map(|at| first + at as u32)),
                true => {
                    let units = (first..).zip(bytes.as_chunks::<2>().0);
                    ends.extend(units.filter(|(_, unit)| **unit == [b'\n', 0]).map(|(at, _)| at));
                }
            }
            from += bytes.len() as u64;
        }
        ends.push((from / width) as u32);
        Some(ends)
    }

    /// Returns where the characters of a string are.
    fn flat(&self, object: u64, memory: &impl ProcessMemory) -> Option<Flat> {
        self.flat_within(STEPS, object, memory)
    }

    /// Returns the same, in at most so many steps from string to string: they may form a cycle.
    fn flat_within(&self, steps: u8, mut object: u64, memory: &impl ProcessMemory) -> Option<Flat> {
        for left in (0..steps).rev() {
            let kind = self.kind(object, memory)?;
            (kind < self.types.no_string).then_some(())?;
            let len = (self.field(object, 8, memory)? >> 32) as u32;
            let is_wide = kind & 8 == 0;
            let at = match kind & 7 {
                0 => object - 1 + CHARACTERS,
                2 => self.field(object, OUTSIDE, memory)?,
                3 => {
                    let offset = number(self.field(object, 24, memory)?)?;
                    let parent = self.flat_within(left, self.field(object, 16, memory)?, memory)?;
                    parent.at.checked_add(u64::from(offset) * if parent.is_wide { 2 } else { 1 })?
                }
                // One that was made flat has an empty second part; a thin one is another.
                1 | 5 => {
                    if kind & 7 == 1 && self.field(self.field(object, 24, memory)?, 8, memory)? >> 32 != 0 {
                        return None;
                    }
                    object = self.field(object, 16, memory)?;
                    continue;
                }
                _ => return None,
            };
            return Some(Flat { at, len, is_wide });
        }
        None
    }
}

fn read(string: &Flat, memory: &impl ProcessMemory) -> Option<String> {
    let len = string.len.min(NAME) as usize;
    let mut bytes = vec![0; if string.is_wide { 2 * len } else { len }];
    memory.read(string.at, &mut bytes)?;
    let mut text: String = match string.is_wide {
        false => bytes.iter().map(|byte| char::from(*byte)).collect(),
        true => {
            let units = bytes.as_chunks::<2>().0.iter().map(|unit| u16::from_le_bytes(*unit));
            char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        }
    };
    if string.len > NAME {
        text.push('…');
    }
    Some(text)
}
