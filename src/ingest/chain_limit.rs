//! Detection of call chains that end at the kernel's limit.

use crate::kernel::attr::Attr;
use crate::kernel::walk::{CHAIN_LIMIT as DEFAULT, FRAMES};
use crate::record::sample::{CONTEXT_MAX, CONTEXT_USER, NO_CODE, u64s};

/// Returns the frames of a chain that the kernel truncated at its limit, so that callers are missing; `None` for other
/// chains. A smaller limit that the user set for the event is intended, and does not count. A walk by tables ends in
/// `NO_CODE` if callers are missing, so a chain of exactly `FRAMES` frames can be whole.
pub(crate) fn stopped<'a>(attr: &Attr, chain: &'a [u8]) -> Option<&'a [u8]> {
    if chain.len() / 8 < DEFAULT {
        return None;
    }
    let is_frame = |word: &u64| *word < CONTEXT_MAX;
    if u64s(chain).filter(is_frame).count() == usize::from(attr.max_stack).max(DEFAULT) {
        return Some(chain);
    }
    let user = u64s(chain).skip_while(|word| *word != CONTEXT_USER).filter(is_frame);
    let (frames, mark) = chain.split_at_checked(chain.len().checked_sub(8)?)?;
    (user.count() == FRAMES + 1 && u64s(mark).next() == Some(NO_CODE)).then_some(frames)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::walk::CHAIN_LIMIT_BY_TABLES as BY_TABLES;
    use crate::record::kinds::tests::bytes;
    use crate::record::sample::CONTEXT_KERNEL;

    fn reached(max_stack: u16, kernel: usize, user: usize) -> bool {
        let chain = [&[CONTEXT_KERNEL][..], &vec![0xffff_8000_0000_0001; kernel], &[CONTEXT_USER], &vec![0x1001; user]];
        let chain = bytes(&chain.concat());
        let stopped = stopped(&Attr { max_stack, ..Attr::default() }, &chain);
        assert!(stopped.is_none_or(|frames| *frames == *chain));
        stopped.is_some()
    }

    #[test]
    fn both_parts_share_the_default_limit() {
        let of = |user| reached(0, 7, user);
        assert_eq!([119, 120, 121, 126, 127, 128].map(of), [false, true, false, false, false, false]);
        assert_eq!([126, 127, 128].map(|user| reached(0, 0, user)), [false, true, false]);
    }

    #[test]
    fn a_chain_by_tables_is_stopped_where_its_walk_did_not_end() {
        let of = |user| reached(BY_TABLES as u16, 7, user);
        assert!(![119, 120, 121, 126, 127].map(of).contains(&true), "all of them are whole");
        let marked = |user: usize| {
            let chain = bytes(&[&[CONTEXT_KERNEL, 1, CONTEXT_USER][..], &vec![0x1001; user], &[NO_CODE]].concat());
            let stopped = stopped(&Attr { max_stack: BY_TABLES as u16, ..Attr::default() }, &chain);
            stopped.map(|frames| (chain.len() - frames.len()) / 8)
        };
        assert_eq!([125, 126, 127].map(marked), [None, None, Some(1)], "a shorter one is broken");
    }

    #[test]
    fn a_raised_limit_is_the_events_own() {
        let of = |user| reached(512, 7, user);
        assert_eq!([120, 127, 504, 505, 506].map(of), [false, false, false, true, false]);
        assert!(!reached(3, 1, 2), "the user wanted no more");
    }
}
