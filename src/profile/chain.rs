//! The parts of a sample's call chain: its words, and the frames that they are.

use std::hash::Hasher;

use rustc_hash::FxHasher;

use crate::record::Sample;
use crate::record::kinds::misc;
use crate::record::sample::{
    CONTEXT_CUT, CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER, CONTEXT_KERNEL, CONTEXT_MAX, CONTEXT_USER,
};
use crate::session::{MapId, Mappings};

use super::Frame;

/// Deeper stacks are cut at the root end.
const MAX_DEPTH: usize = 1024;

/// The frame that ends every broken stack, whatever was found there.
const BROKEN: Frame = Frame { map: MapId::BROKEN, caller: false, ip: 0 };

/// A chain while it is read.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Whether words are frames that no mapping holds.
    pub(crate) keeps_words: bool,
    /// Frames of a stack that are taken, from its leaf on, where that was said.
    pub(crate) most: Option<usize>,
    words: Vec<Word>,
    frames: Vec<Frame>,
}

impl Chain {
    /// The frames of a sample, root first. Without frame pointers a walk finds what else the register held: a word
    /// where no code is mapped called nothing, nor did those behind it. The place that was sampled is known from the
    /// registers, and of a process without any known mapping nothing can be said.
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

/// An address of a chain and what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    ip: u64,
    context: u64,
    caller: bool,
}

/// Reads a sample's place: leaf first, markers taken out. What was sampled is at the sample's own address, whatever
/// its chain begins with: a chain may leave out the kernel, or be of a moment later than the hardware's address.
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
            // The chain's own word for what was sampled comes first, where it has one.
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

/// True if a word says what those behind it are. Behind a user's address any other number of that size is what a walk
/// found without frame pointers, such as -1.
fn is_marker(word: u64) -> bool {
    let guest = [CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER];
    word == CONTEXT_KERNEL || word == CONTEXT_USER || guest.contains(&word)
}

/// Two independent hashes of a sample's place and of what its addresses mean; equal pairs are taken as
/// equal places (a chance of 2^-100 for a million of them).
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
