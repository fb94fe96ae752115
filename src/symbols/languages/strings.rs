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

/// Decodes the bytes that a walk has of a string of PHP.
pub(crate) fn bytes(string: StringBytes<'_>, is_end: bool) -> String {
    let len = usize::try_from(string.len).unwrap_or(usize::MAX);
    text(&string.bytes[..len.min(string.bytes.len())], len > string.bytes.len(), is_end)
}

/// Decodes a method of PHP after its class, or a function, or one of Perl after its package. The state is the length of
/// what there is of the class, whose end is in the second half; the first half is the method's then.
pub(crate) fn qualified(string: StringBytes<'_>) -> String {
    let half = string.bytes.len() / 2;
    let class = usize::try_from(string.state).unwrap_or(0).min(half);
    if class == 0 {
        return bytes(string, false);
    }
    let (method, of_class) = string.bytes.split_at(half);
    // The name of a class without one has its file after a zero byte.
    let class = of_class[..class].split(|byte| *byte == 0).next().unwrap_or_default();
    format!("{}::{}", text(class, class.len() == half, true), bytes(StringBytes { bytes: method, ..string }, false))
}

/// Returns a file of Perl without the number that each string gets that is compiled.
pub(crate) fn without_number(file: String) -> String {
    const STRING: &str = "(eval ";
    let number = file.strip_prefix(STRING).and_then(|rest| rest.split_once(')')).map(|(number, _)| number);
    let is_one = number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()));
    if is_one { "(eval)".to_owned() } else { file }
}

fn text(bytes: &[u8], is_cut: bool, is_end: bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    match (is_cut, is_end) {
        (true, true) => format!("…{text}"),
        (true, false) => format!("{text}…"),
        _ => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8], kind: u32, len: u32, is_end: bool) -> Option<String> {
        decode(StringBytes { len, state: kind << 2 | 1 << 5, bytes: text }, 2, is_end)
    }

    #[test]
    fn methods_of_php_follow_their_classes() {
        let mut names = [0; 96];
        names[..5].copy_from_slice(b"total");
        names[48..56].copy_from_slice(b"App\\Cart");
        let read = |len, state, names: &[u8]| qualified(StringBytes { len, state, bytes: names });
        assert_eq!(read(5, 8, &names), "App\\Cart::total");
        assert_eq!(read(5, 0, &names), "total");
        assert_eq!(read(0, 0, &names), "");
        names[53] = 0;
        assert_eq!(read(5, 8, &names), "App\\C::total");
        assert_eq!(read(200, 0, &[b'n'; 96]), format!("{}…", "n".repeat(96)));
        assert_eq!(read(48, 48, &[b'n'; 96]), format!("…{0}::{0}", "n".repeat(48)));
        assert_eq!(read(u32::MAX, u32::MAX, &[0xff; 4]), "…\u{fffd}\u{fffd}::\u{fffd}\u{fffd}…");
        assert_eq!(read(9, 9, &[]), "…");
    }

    #[test]
    fn strings_that_perl_compiles_are_one_file() {
        let files = ["(eval 7)", "(eval 1234)[app.pl:3]", "(eval )", "(eval x)", "(eval 7", "/lib/(eval 7)", ""];
        let read = files.map(|file| without_number(file.to_owned()));
        assert_eq!(read, ["(eval)", "(eval)", "(eval )", "(eval x)", "(eval 7", "/lib/(eval 7)", ""]);
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
