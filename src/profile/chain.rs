//! Call chains: decoding a sample's chain into frames.

use crate::record::Sample;
use crate::record::kinds::misc;
use crate::record::sample::{
    CONTEXT_CUT, CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER, CONTEXT_KERNEL, CONTEXT_MAX, CONTEXT_USER,
    NOT_WALKED,
};
use crate::session::{MapId, Mappings, Session};

use super::Frame;

/// Deeper stacks are truncated at the root end.
const MAX_DEPTH: usize = 1024;

/// The frame at the root of every broken stack.
pub(crate) const BROKEN: Frame = Frame { map: MapId::BROKEN, caller: false, ip: 0 };

/// The decoder of chains, which is reused for all samples.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    /// Whether addresses outside all mappings are kept as frames.
    pub(crate) keeps_words: bool,
    /// The maximum number of frames of a stack, counted from its leaf, if limited.
    pub(crate) most: Option<usize>,
    words: Vec<Word>,
    frames: Vec<Frame>,
}

/// Words at the root end of a chain that are known from another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SharedWords {
    pub(crate) count: usize,
    /// The context of these words, which are return addresses.
    pub(crate) context: u64,
}

impl Chain {
    /// Decodes a sample's chain without its shared words. Returns the number of shared words: 0 if they mean something
    /// else in this chain, and are decoded, too.
    pub(crate) fn decode(&mut self, sample: &Sample<'_>, mode: u16, shared: SharedWords) -> usize {
        self.words.clear();
        let most = self.most.map_or(MAX_DEPTH, |most| most.clamp(1, MAX_DEPTH));
        let mut decoder = Decoder::new(sample, mode, most, &mut self.words);
        let words = sample.chain.as_chunks::<8>().0;
        let (own, shared_words) = words.split_at(words.len().saturating_sub(shared.count));
        own.iter().for_each(|word| decoder.take(u64::from_le_bytes(*word)));
        let fits = decoder.words.len() + shared.count <= most;
        if shared.count > 0 && fits && decoder.caller && decoder.context == shared.context {
            return shared.count;
        }
        shared_words.iter().for_each(|word| decoder.take(u64::from_le_bytes(*word)));
        0
    }

    /// Returns the decoded words, leaf first.
    pub(crate) fn words(&self) -> &[Word] {
        &self.words
    }

    /// Returns the frames of the first `count` decoded words, leaf first. Without frame pointers, an unwinder follows arbitrary register
    /// contents, so a return address outside the mapped code ends the stack as broken. The sampled address itself comes
    /// from the registers and is kept. A process without known mappings is not checked.
    pub(crate) fn frames(&mut self, mut places: Mappings<'_>, count: usize) -> &[Frame] {
        self.frames.clear();
        for word in self.words.iter().take(count) {
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
                NOT_WALKED => (MapId::NOT_WALKED, word.ip),
                _ => (MapId::UNKNOWN, word.ip),
            };
            self.frames.push(Frame { map, caller: word.caller, ip });
        }
        &self.frames
    }
}

/// An address of a chain, or [`CONTEXT_CUT`] or [`NOT_WALKED`] as its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) ip: u64,
    pub(crate) context: u64,
    pub(crate) caller: bool,
}

/// Decodes a sample's chain into addresses, leaf first, without context markers. The leaf is the sample's own address,
/// because a chain may leave out the kernel, or may be of a moment later than the hardware's address.
#[derive(Debug)]
struct Decoder<'a> {
    /// The sample's address, and the context by its record.
    ip: u64,
    own: u64,
    most: usize,
    context: u64,
    caller: bool,
    first: bool,
    is_full: bool,
    words: &'a mut Vec<Word>,
}

impl<'a> Decoder<'a> {
    fn new(sample: &Sample<'_>, mode: u16, most: usize, words: &'a mut Vec<Word>) -> Self {
        let own = match mode {
            misc::USER => CONTEXT_USER,
            misc::GUEST_KERNEL | misc::GUEST_USER => CONTEXT_GUEST,
            _ => CONTEXT_KERNEL,
        };
        words.push(match sample.ip {
            NOT_WALKED => Word { ip: 0, context: NOT_WALKED, caller: false },
            ip => Word { ip, context: own, caller: false },
        });
        Self { ip: sample.ip, own, most, context: own, caller: false, first: true, is_full: false, words }
    }

    fn take(&mut self, ip: u64) {
        if self.is_full {
            return;
        }
        if ip == CONTEXT_CUT && self.words.len() > self.most {
            self.is_full = true;
        } else if ip == CONTEXT_CUT {
            self.words.push(Word { ip: 0, context: ip, caller: false });
        } else if ip >= CONTEXT_MAX && (is_marker(ip) || self.context != CONTEXT_USER || !self.caller) {
            self.context = ip;
            // The first address of each context is exact; those after it are return addresses.
            self.caller = false;
        } else if self.words.len() == self.most {
            self.is_full = true;
            return;
        } else {
            // The chain's own entry for the leaf comes first, if it has one.
            match self.first {
                true if ip == self.ip => self.words[0].context = self.context,
                true if self.context == self.own => {}
                _ => self.words.push(Word { ip, context: self.context, caller: self.caller }),
            }
            self.caller = true;
        }
        self.first &= ip >= CONTEXT_MAX;
    }
}

/// Returns whether a word is a context marker. After a user address, any other word in that range is an artifact of
/// unwinding without frame pointers, such as -1.
fn is_marker(word: u64) -> bool {
    let guest = [CONTEXT_GUEST, CONTEXT_GUEST_KERNEL, CONTEXT_GUEST_USER];
    word == CONTEXT_KERNEL || word == CONTEXT_USER || guest.contains(&word)
}

/// The mappings that a chain's addresses refer to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MapGenerations {
    space: u32,
    kernel: u32,
}

impl MapGenerations {
    pub(crate) fn of(session: &Session, pid: i32) -> Self {
        Self { space: session.space_generation(pid), kernel: session.kernel_generation() }
    }
}

/// Two independent hashes of a chain from its root on, and of the mappings that it refers to. Stacks with equal
/// fingerprints count as equal (a chance of a collision of 2^-100 for a million of them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fingerprint(pub(crate) u64, pub(crate) u64);

impl Fingerprint {
    /// Returns the fingerprint of an empty chain.
    pub(crate) fn new(maps: MapGenerations) -> Self {
        let maps = u64::from(maps.space) << 32 | u64::from(maps.kernel);
        // Mixed first: generations are as small as the differences between addresses.
        let two = (maps ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xff51_afd7_ed55_8ccd);
        Self(maps.wrapping_mul(0xf135_7aea_2e62_a9c5), two ^ two >> 32)
    }

    /// Returns the fingerprint of the chain with one more call.
    pub(crate) fn with(self, word: &Word) -> Self {
        // Contexts differ in few bits, and addresses in others.
        let word = word.ip ^ (word.context << 1 | u64::from(word.caller)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let one = (self.0 ^ word).wrapping_mul(0xf135_7aea_2e62_a9c5);
        let two = (self.1 ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        Self(one.rotate_left(26), two ^ two >> 32)
    }
}

#[cfg(test)]
mod tests;
