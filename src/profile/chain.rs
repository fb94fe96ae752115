//! Call chains: decoding a sample's chain into frames.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::record::Sample;
use crate::record::kinds::misc;
use crate::record::sample::{
    CONTEXT_CUT, CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER, CONTEXT_KERNEL, CONTEXT_MAX, CONTEXT_USER,
};
use crate::session::{MapId, Mappings};

use super::Frame;

/// Deeper stacks are truncated at the root end.
const MAX_DEPTH: usize = 1024;

/// The frame at the root of every broken stack.
const BROKEN: Frame = Frame { map: MapId::BROKEN, caller: false, ip: 0 };

#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Whether addresses outside all mappings are kept as frames.
    pub(crate) keeps_words: bool,
    /// The maximum number of frames of a stack, counted from its leaf, if limited.
    pub(crate) most: Option<usize>,
    words: Vec<Word>,
    frames: Vec<Frame>,
}

impl Chain {
    /// Returns the frames of a sample, root first. Without frame pointers, an unwinder follows arbitrary register
    /// contents, so a return address outside the mapped code ends the stack as broken. The sampled address itself comes
    /// from the registers and is kept. A process without known mappings is not checked.
    pub(crate) fn frames(&mut self, mut places: Mappings<'_>, sample: &Sample<'_>, mode: u16) -> &[Frame] {
        self.words.clear();
        self.frames.clear();
        words_of(sample, mode, self.most.map_or(MAX_DEPTH, |most| most.clamp(1, MAX_DEPTH)), &mut self.words);
        for word in &self.words {
            let (map, ip) = match word.context {
                CONTEXT_KERNEL => places.kernel(word.ip),
                CONTEXT_USER => match places.user(word.ip) {
                    Some(place) => place,
                    None if word.caller && !self.keeps_words && places.knows_user() => {
                        self.frames.push(BROKEN);
                        break;
                    }
                    None => (MapId::UNKNOWN, word.ip),
                },
                CONTEXT_GUEST | CONTEXT_GUEST_KERNEL | CONTEXT_GUEST_USER => (MapId::GUEST, word.ip),
                CONTEXT_CUT => (MapId::CUT, word.ip),
                _ => (MapId::UNKNOWN, word.ip),
            };
            self.frames.push(Frame { map, caller: word.caller, ip });
        }
        self.frames.reverse();
        &self.frames
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    ip: u64,
    context: u64,
    caller: bool,
}

/// Decodes a sample's chain into addresses, leaf first, without context markers. The leaf is the sample's own address,
/// because a chain may leave out the kernel, or may be of a moment later than the hardware's address.
fn words_of(sample: &Sample<'_>, mode: u16, most: usize, out: &mut Vec<Word>) {
    let own = match mode {
        misc::USER => CONTEXT_USER,
        misc::GUEST_KERNEL | misc::GUEST_USER => CONTEXT_GUEST,
        _ => CONTEXT_KERNEL,
    };
    out.push(Word { ip: sample.ip, context: own, caller: false });
    let (mut context, mut caller, mut first) = (own, false, true);
    for ip in crate::record::sample::u64s(sample.chain) {
        if ip == CONTEXT_CUT {
            out.push(Word { ip: 0, context: ip, caller: false });
        } else if ip >= CONTEXT_MAX && (is_marker(ip) || context != CONTEXT_USER || !caller) {
            context = ip;
            // The first address of each context is exact; those after it are return addresses.
            caller = false;
        } else if out.len() == most {
            break;
        } else {
            // The chain's own entry for the leaf comes first, if it has one.
            match first {
                true if ip == sample.ip => out[0].context = context,
                true if context == own => {}
                _ => out.push(Word { ip, context, caller }),
            }
            caller = true;
        }
        first &= ip >= CONTEXT_MAX;
    }
}

/// Returns whether a word is a context marker. After a user address, any other word in that range is an artifact of
/// unwinding without frame pointers, such as -1.
fn is_marker(word: u64) -> bool {
    let guest = [CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER];
    word == CONTEXT_KERNEL || word == CONTEXT_USER || guest.contains(&word)
}

/// Returns two independent hashes of a sample's addresses and of the mappings that they refer to. Stacks with equal
/// pairs count as equal (a chance of a collision of 2^-100 for a million of them).
pub(crate) fn fingerprint(sample: &Sample<'_>, space: u32, kernel: u32, mode: u16) -> (u64, u64) {
    let mut one = FxHasher::default();
    one.write_u64(u64::from(space) << 32 | u64::from(kernel));
    one.write_u16(mode);
    let mut two = 0x9e37_79b9_7f4a_7c15u64 ^ u64::from(space);
    for word in std::iter::once(sample.ip).chain(crate::record::sample::u64s(sample.chain)) {
        one.write_u64(word);
        two = (two ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        two ^= two >> 32;
    }
    (one.finish(), two)
}

#[cfg(test)]
mod tests;
