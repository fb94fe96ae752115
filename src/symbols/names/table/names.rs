//! The names of a table, each terminated by a zero byte. They are in allocated pieces, or in the file itself.

use super::MAX_NAME;
use crate::symbols::bytes::Bytes;

/// Bits of a position that are the offset in a piece. Pieces are used instead of one growing block: a kernel's names
/// are megabytes, and both copies of a block exist while it grows.
const WITHIN: u32 = 16;
const PIECE: usize = 1 << WITHIN;
/// The position of a name that did not fit.
const NOWHERE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) enum Names {
    Own(Vec<Vec<u8>>),
    /// In a file, from an offset on.
    In(Bytes, usize),
}

impl Default for Names {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

/// Returns a name up to its first zero byte or the length limit.
pub(crate) fn cut(name: &[u8]) -> &[u8] {
    let name = &name[..name.len().min(MAX_NAME)];
    &name[..memchr::memchr(0, name).unwrap_or(name.len())]
}

impl Names {
    /// Returns the position of a name; copies it if names are not in a file.
    pub(crate) fn place(&mut self, name: &[u8]) -> u32 {
        match self {
            Self::Own(pieces) => add(pieces, cut(name)),
            Self::In(bytes, base) => {
                (name.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize).wrapping_sub(*base) as u32
            }
        }
    }

    pub(crate) fn get(&self, place: u32) -> &[u8] {
        cut(self.rest(place))
    }

    /// Returns a name with what follows it.
    pub(super) fn rest(&self, place: u32) -> &[u8] {
        let rest = match self {
            Self::Own(pieces) => {
                let piece = pieces.get((place >> WITHIN) as usize).map(Vec::as_slice).unwrap_or_default();
                piece.get(place as usize % PIECE..)
            }
            Self::In(bytes, base) => bytes.get(*base..).and_then(|names| names.get(place as usize..)),
        };
        rest.unwrap_or_default()
    }

    pub(crate) fn shrink(&mut self) {
        if let Self::Own(pieces) = self {
            pieces.shrink_to_fit();
            pieces.last_mut().into_iter().for_each(Vec::shrink_to_fit);
        }
    }

    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Own(pieces) => {
                pieces.iter().map(Vec::capacity).sum::<usize>() + size_of::<Vec<u8>>() * pieces.capacity()
            }
            Self::In(Bytes::Own(unpacked), _) => unpacked.len(),
            Self::In(..) => 0,
        }
    }
}

fn add(pieces: &mut Vec<Vec<u8>>, name: &[u8]) -> u32 {
    let fits = pieces.last().is_some_and(|piece| piece.len() + name.len() < PIECE);
    if !fits {
        if pieces.len() == PIECE {
            return NOWHERE;
        }
        // Most tables are small: the first piece grows, later ones have full size.
        pieces.push(if pieces.is_empty() { Vec::new() } else { Vec::with_capacity(PIECE) });
    }
    let number = pieces.len() - 1;
    let piece = &mut pieces[number];
    let at = piece.len();
    piece.extend_from_slice(name);
    piece.push(0);
    (number << WITHIN | at) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_where_they_were_put() {
        let mut names = Names::default();
        let of = |i: usize| vec![b'a' + (i % 26) as u8; i * 7 % 300];
        let places: Vec<u32> = (0..3000).map(|i| names.place(&of(i))).collect();
        assert!(places.iter().enumerate().all(|(i, place)| names.get(*place) == of(i)));
        names.shrink();
        let letters: usize = (0..3000).map(|i| of(i).len() + 1).sum();
        assert!((letters..letters + letters / 20 + 512).contains(&names.memory()), "{} {letters}", names.memory());
        let long = vec![b'x'; 5 * MAX_NAME];
        let place = names.place(&long);
        assert_eq!(names.get(place), &long[..MAX_NAME]);
        let zero = names.place(b"ab\0cd");
        assert_eq!((names.get(zero), names.get(NOWHERE), names.get(places[1])), (&b"ab"[..], &b""[..], &of(1)[..]));
    }
}
