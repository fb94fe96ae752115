//! Strings, lists and internal objects of Ruby (include/ruby/internal/core, internal/imemo.h).

use super::RubyLayout;
use crate::symbols::languages::ProcessMemory;

/// The bits of an object's type, and the types of strings and lists.
const TYPE: u64 = 0x1f;
const STRING: u64 = 5;
const LIST: u64 = 7;
/// Of strings: the characters are elsewhere. Of lists: the elements are not.
const PLACE: u64 = 1 << 13;
/// The bits of the types of internal objects, and that of code.
const INTERNAL: u64 = 0xf01f;
const CODE: u64 = 0x701a;
/// Bytes of a string and elements of a list at most.
const LONGEST: u64 = 4096;

/// Returns words at an address.
pub(super) fn words<const N: usize>(at: u64, memory: &impl ProcessMemory) -> Option<[u64; N]> {
    let mut words = [0; N];
    for (i, word) in words.iter_mut().enumerate() {
        *word = memory.word(at.checked_add(8 * i as u64)?)?;
    }
    Some(words)
}

/// Returns whether a word can be the address of an object of the heap.
pub(super) fn is_address(word: u64) -> bool {
    word.is_multiple_of(8) && word > 4096 && word < 1 << 56
}

/// Returns whether an address is that of code (`rb_iseq_t`).
pub(super) fn is_code(at: u64, memory: &impl ProcessMemory) -> bool {
    memory.word(at).is_some_and(|flags| flags & INTERNAL == CODE)
}

/// Returns the elements of a list.
pub(super) fn list(at: u64, memory: &impl ProcessMemory) -> Option<Vec<u64>> {
    let [flags, _, len, _, elements] = words(at, memory)?;
    let (elements, len) = match (flags & TYPE, flags & PLACE) {
        (LIST, 0) => (elements, len),
        // The length is above other bits of the flags.
        (LIST, _) => (at.checked_add(16)?, flags >> 15 & 0x7f),
        _ => return None,
    };
    let mut bytes = vec![0; 8 * usize::try_from(len).ok().filter(|len| *len as u64 <= LONGEST)?];
    memory.read(elements, &mut bytes)?;
    Some(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

impl RubyLayout {
    /// Returns the bytes of a string.
    pub(super) fn string(&self, at: u64, memory: &impl ProcessMemory) -> Option<Vec<u8>> {
        let [flags, _, len, elsewhere] = words(at, memory)?;
        (flags & TYPE == STRING).then_some(())?;
        let (from, len) = match flags & PLACE {
            0 if self.embedded == 16 => (at.checked_add(16)?, flags >> 14 & 31),
            0 => (at.checked_add(self.embedded.into())?, len),
            _ => (elsewhere, len),
        };
        let mut bytes = vec![0; usize::try_from(len).ok().filter(|len| *len as u64 <= LONGEST)?];
        memory.read(from, &mut bytes)?;
        Some(bytes)
    }
}
