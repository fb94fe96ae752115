//! Detection of call chains that end at the kernel's limit.

use crate::kernel::attr::Attr;
use crate::kernel::walk::{CHAIN_LIMIT as DEFAULT, CHAIN_LIMIT_BY_TABLES as BY_TABLES, FRAMES};
use crate::record::sample::{CONTEXT_MAX, CONTEXT_USER, u64s};

/// Returns whether the kernel truncated a chain at its limit, so that callers are missing. A smaller limit that the
/// user set for the event is intended, and does not count.
pub(crate) fn is_reached(attr: &Attr, chain: &[u8]) -> bool {
    if chain.len() / 8 < DEFAULT {
        return false;
    }
    let frames = |from: u64| {
        let behind = u64s(chain).skip_while(move |word| from != 0 && *word != from);
        behind.filter(|word| *word < CONTEXT_MAX).count()
    };
    let limit = usize::from(attr.max_stack).max(DEFAULT);
    frames(0) == limit || limit <= BY_TABLES && frames(CONTEXT_USER) == FRAMES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kinds::tests::bytes;
    use crate::record::sample::CONTEXT_KERNEL;

    fn reached(max_stack: u16, kernel: usize, user: usize) -> bool {
        let chain = [&[CONTEXT_KERNEL][..], &vec![0xffff_8000_0000_0001; kernel], &[CONTEXT_USER], &vec![0x1001; user]];
        is_reached(&Attr { max_stack, ..Attr::default() }, &bytes(&chain.concat()))
    }

    #[test]
    fn both_parts_share_the_default_limit() {
        let of = |user| reached(0, 7, user);
        assert_eq!([119, 120, 121, 126, 127, 128].map(of), [false, true, false, false, true, false]);
        assert_eq!([126, 127, 128].map(|user| reached(0, 0, user)), [false, true, false]);
    }

    #[test]
    fn each_part_of_a_chain_by_tables_has_its_own_limit() {
        let of = |user| reached(BY_TABLES as u16, 7, user);
        assert_eq!([119, 120, 121, 126, 127].map(of), [false, false, false, false, true]);
    }

    #[test]
    fn a_raised_limit_is_the_events_own() {
        let of = |user| reached(512, 7, user);
        assert_eq!([120, 127, 504, 505, 506].map(of), [false, false, false, true, false]);
        assert!(!reached(3, 1, 2), "the user wanted no more");
    }
}
