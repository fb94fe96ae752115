//! Strings of CPython (PEP 393). A walk has their first or last bytes.

use crate::kernel::walk::runtime::StringBytes;

/// Decodes what a walk has of a string: its first characters, or its last ones if `is_end`. The rest is replaced by an
/// ellipsis. `kind_shift` is the lowest bit of its kind.
pub(crate) fn decode(string: StringBytes<'_>, kind_shift: u8, is_end: bool) -> Option<String> {
    let width = match string.state >> kind_shift & 7 {
        1 => 1,
        2 => 2,
        4 => 4,
        _ => return None,
    };
    let len = usize::try_from(string.len).ok()?.checked_mul(width)?;
    let bytes = &string.bytes[..len.min(string.bytes.len()) / width * width];
    let character = |unit: &[u8]| {
        let code = unit.iter().rev().fold(0u32, |code, byte| code << 8 | u32::from(*byte));
        char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    let mut text: String = bytes.chunks_exact(width).map(character).collect();
    if len > bytes.len() {
        text.insert(if is_end { 0 } else { text.len() }, '…');
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], kind: u32, len: u32, is_end: bool) -> Option<String> {
        decode(StringBytes { len, state: kind << 2 | 1 << 5, bytes: text }, 2, is_end)
    }

    #[test]
    fn strings_of_all_widths_are_read() {
        assert_eq!(read(b"spin\0\0\0\0", 1, 4, false).as_deref(), Some("spin"));
        assert_eq!(read(b"h\xe9", 1, 2, false).as_deref(), Some("hé"));
        assert_eq!(read(&[0x3b, 0x4, 0, 0xd8], 2, 2, false).as_deref(), Some("л\u{fffd}"));
        assert_eq!(read(&[0, 0xf6, 1, 0, 0xff, 0xff, 0xff, 0xff], 4, 2, false).as_deref(), Some("\u{1f600}\u{fffd}"));
        assert_eq!(read(b"long", 1, 9, false).as_deref(), Some("long…"));
        assert_eq!(read(b"/app.py", 1, 99, true).as_deref(), Some("…/app.py"));
        assert_eq!(read(b"", 1, 0, true).as_deref(), Some(""));
        for kind in [0, 3, 5, 6, 7] {
            assert_eq!(read(b"spin", kind, 4, false), None);
        }
        assert_eq!(read(b"abc", 4, u32::MAX, false).as_deref(), Some("…"));
    }
}
