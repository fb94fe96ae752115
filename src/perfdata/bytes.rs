//! A reader of numbers and strings of either byte order.

/// The maximum length of a list: a file may claim any number of entries.
pub(crate) const MAX_ENTRIES: u32 = 4096;

/// A byte string that is read from its front. Every method returns `None` past its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a> {
    pub(crate) rest: &'a [u8],
    pub(crate) big: bool,
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(rest: &'a [u8], big: bool) -> Self {
        Self { rest, big }
    }

    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let bytes = *self.take(2)?.first_chunk()?;
        Some(if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let bytes = *self.take(4)?.first_chunk()?;
        Some(if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let bytes = *self.take(8)?.first_chunk()?;
        Some(if self.big { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) })
    }

    /// Reads a string as the header stores it: a length, then bytes padded with zeros.
    pub(crate) fn string(&mut self) -> Option<String> {
        let len = self.u32()? as usize;
        Some(text(self.take(len)?))
    }

    pub(crate) fn list<T>(&mut self, one: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let n = self.u32()?.min(MAX_ENTRIES);
        (0..n).map(|_| one(self)).collect()
    }
}

/// Parses the lines of a text after the line `head`, `most` of them; malformed lines are skipped.
pub(crate) fn lines_of<T>(bytes: &[u8], head: &str, most: usize, one: impl Fn(&str) -> Option<T>) -> Vec<T> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    if lines.next() != Some(head) {
        return Vec::new();
    }
    lines.take(most).filter_map(one).collect()
}

/// Returns the text before the first NUL.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_and_nothing_past_the_end() {
        let mut b = ByteReader::new(&[0, 0, 0, 2, b'h', b'i', 9], true);
        assert_eq!((b.string().as_deref(), b.u16(), b.take(1)), (Some("hi"), None, Some(&[9][..])));
        let mut b = ByteReader::new(&[2, 0, 0, 0, b'h', 0, 1, 0], false);
        assert_eq!((b.string().as_deref(), b.u16(), b.u64()), (Some("h"), Some(1), None));
    }

    #[test]
    fn numbers_of_either_order() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
        let mut b = ByteReader::new(&bytes, true);
        assert_eq!((b.u16(), b.u32(), b.u64()), (Some(0x0102), Some(0x0304_0506), Some(0x0708_090a_0b0c_0d0e)));
        let mut b = ByteReader::new(&bytes, false);
        assert_eq!((b.u16(), b.u32(), b.u64()), (Some(0x0201), Some(0x0605_0403), Some(0x0e0d_0c0b_0a09_0807)));
        assert_eq!((b.take(0), b.take(1), b.u16(), b.u32(), b.string()), (Some(&[][..]), None, None, None, None));
        assert_eq!((text(b"a\0b"), text(b"whole"), text(b"")), ("a".into(), "whole".into(), String::new()));
    }
}
