//! A column in blocks of fixed size: growing does not copy, and at most one block is partly unused.

use std::marker::PhantomData;
use std::ops::{Deref, Index, IndexMut};
use std::sync::Arc;

use super::marks::MarkedSet;

const BLOCK: usize = 1 << SHIFT;
const SHIFT: usize = 14;

/// The column, which is indexed like a slice.
#[derive(Clone, Debug)]
pub struct Segments<T, B = Box<[T]>> {
    blocks: Vec<B>,
    len: usize,
    of: PhantomData<T>,
}

/// A column whose copies share unmodified blocks.
pub type SharedSegments<T> = Segments<T, Arc<[T]>>;

/// The storage of a block.
pub trait Block<T>: Deref<Target = [T]> + From<Box<[T]>> {
    /// Returns the entries for modification.
    fn entries(&mut self) -> &mut [T];
}

impl<T> Block<T> for Box<[T]> {
    #[inline]
    fn entries(&mut self) -> &mut [T] {
        self
    }
}

impl<T: Copy> Block<T> for Arc<[T]> {
    fn entries(&mut self) -> &mut [T] {
        Arc::make_mut(self)
    }
}

impl<T, B> Default for Segments<T, B> {
    fn default() -> Self {
        Self { blocks: Vec::new(), len: 0, of: PhantomData }
    }
}

impl<T: Copy, B: Block<T>> Segments<T, B> {
    pub(crate) fn push(&mut self, value: T) {
        match self.blocks.get_mut(self.len >> SHIFT) {
            Some(block) => block.entries()[self.len & (BLOCK - 1)] = value,
            None => self.blocks.push(vec![value; BLOCK].into_boxed_slice().into()),
        }
        self.len += 1;
    }

    /// Frees the blocks after the first `len` entries.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.blocks.truncate(self.len.div_ceil(BLOCK));
    }

    /// Moves kept entries down into the places of the others, each converted by `new`.
    pub(super) fn keep(&mut self, kept: &MarkedSet, mut new: impl FnMut(T) -> T) {
        for (to, from) in kept.iter().enumerate() {
            self[to] = new(self[from as usize]);
        }
        self.truncate(kept.len());
    }
}

impl<T, B: Block<T>> Segments<T, B> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, at: usize) -> Option<&T> {
        (at < self.len).then(|| &self[at])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.since(0)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let len = self.len;
        self.blocks
            .iter_mut()
            .enumerate()
            .flat_map(move |(i, block)| &mut block.entries()[..BLOCK.min(len - (i << SHIFT))])
    }

    pub(crate) fn since(&self, from: usize) -> impl Iterator<Item = &T> {
        let from = from.min(self.len);
        let blocks = self.blocks.iter().enumerate().skip(from >> SHIFT);
        blocks.flat_map(move |(i, block)| {
            let base = i << SHIFT;
            &block[from.saturating_sub(base)..BLOCK.min(self.len - base)]
        })
    }

    pub(crate) fn memory(&self) -> usize {
        self.blocks.len() * BLOCK * size_of::<T>()
    }
}

/// Indexes past the last entry return the arbitrary content of the block's capacity.
impl<T, B: Block<T>> Index<usize> for Segments<T, B> {
    type Output = T;

    #[inline]
    fn index(&self, at: usize) -> &T {
        debug_assert!(at < self.len, "{at} of {}", self.len);
        &self.blocks[at >> SHIFT][at & (BLOCK - 1)]
    }
}

impl<T, B: Block<T>> IndexMut<usize> for Segments<T, B> {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut T {
        debug_assert!(at < self.len, "{at} of {}", self.len);
        &mut self.blocks[at >> SHIFT].entries()[at & (BLOCK - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::marks::Marks;
    use proptest::prelude::*;

    #[test]
    fn growing_takes_a_block_more_and_cutting_gives_it_back() {
        let mut column: Segments<u32> = Segments::default();
        assert_eq!((column.memory(), column.len(), column.get(0)), (0, 0, None));
        (0..BLOCK as u32).for_each(|i| column.push(i));
        let (first, one) = (std::ptr::from_ref(&column[0]), column.memory());
        assert_eq!(one, 4 * BLOCK);
        column.push(7);
        assert_eq!((column.memory(), std::ptr::from_ref(&column[0])), (2 * one, first), "nothing moves");
        column.truncate(BLOCK);
        assert_eq!((column.memory(), column.len(), column.get(BLOCK)), (one, BLOCK, None));
        column.truncate(2 * BLOCK);
        assert_eq!(column.len(), BLOCK);
        column.truncate(0);
        assert_eq!(column.memory(), 0);
    }

    #[test]
    fn a_copy_shares_what_neither_changes() {
        let mut column = SharedSegments::<u32>::default();
        (0..2 * BLOCK as u32 + 1).for_each(|i| column.push(i));
        let copy = column.clone();
        column.push(7);
        column[3] = 9;
        assert_eq!((copy.len(), copy[3], column[3], column[copy.len()]), (2 * BLOCK + 1, 3, 9, 7));
        let same = |at: usize| std::ptr::eq(&column[at], &copy[at]);
        assert_eq!([same(0), same(BLOCK), same(2 * BLOCK)], [false, true, false]);
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn it_reads_as_a_vector_does(n in 0usize..40_000, cut in 0usize..50_000, from in 0usize..50_000) {
            let mut all: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(7)).collect();
            let mut column: Segments<u32> = Segments::default();
            all.iter().for_each(|i| column.push(*i));
            all.truncate(cut);
            column.truncate(cut);
            prop_assert_eq!(column.len(), all.len());
            prop_assert!(column.iter().eq(&all));
            prop_assert!(column.since(from).eq(&all[from.min(all.len())..]));
            prop_assert_eq!(column.get(from), all.get(from));
            if let Some(last) = all.len().checked_sub(1) {
                column[last] = 1;
                all[last] = 1;
                prop_assert_eq!(column[last], 1);
            }
            column.iter_mut().chain(&mut all).for_each(|i| *i /= 3);
            let mut marks = Marks::none(all.len());
            (0..all.len()).filter(|i| i % 5 > 1).for_each(|i| marks.mark(i as u32));
            let kept = marks.count();
            column.keep(&kept, |i| i + 1);
            let all: Vec<u32> = kept.iter().map(|i| all[i as usize] + 1).collect();
            prop_assert!(column.iter().eq(&all));
        }
    }
}
