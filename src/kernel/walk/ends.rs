//! How walks ended: whole, cut or broken, and how often.

/// The reason why a walk ended, as the program reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum WalkEnd {
    /// The table marks the outermost frame.
    Complete = 1,
    /// The walk reached the maximum number of frames.
    Full = 2,
    /// The stack could not be read.
    Fault = 3,
    /// The return address is not in code.
    Nowhere = 4,
    /// The frame pointer is not valid.
    NoFrame = 5,
    /// The caller's frame would be inside the callee's.
    Backwards = 6,
    /// The rule is not supported.
    Unsupported = 7,
    /// The chain of frame pointers ends.
    LastFrame = 8,
}

impl WalkEnd {
    const ALL: [Self; 8] = [
        Self::Complete,
        Self::Full,
        Self::Fault,
        Self::Nowhere,
        Self::NoFrame,
        Self::Backwards,
        Self::Unsupported,
        Self::LastFrame,
    ];

    pub(crate) fn of(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|why| *why as u8 == code)
    }

    /// Describes the end; [`Self::is_broken`] says whether it is a fault.
    pub(crate) fn cause(self) -> &'static str {
        match self {
            Self::Complete => "whole, by tables",
            Self::LastFrame => "to the last frame pointer",
            Self::Full => "cut at 127 frames",
            Self::Fault => "the stack cannot be read",
            Self::Nowhere => "return address outside code",
            Self::NoFrame => "no table, no frame pointer",
            Self::Backwards => "the caller's frame is inside the callee's",
            Self::Unsupported => "unsupported unwind rule",
        }
    }

    pub(crate) fn is_broken(self) -> bool {
        !matches!(self, Self::Complete | Self::LastFrame | Self::Full)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WalkEnds([u64; WalkEnd::ALL.len()]);

impl WalkEnds {
    pub(crate) fn count(&mut self, why: WalkEnd) {
        self.0[why as usize - 1] += 1;
    }

    pub(crate) fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn of(&self, why: WalkEnd) -> u64 {
        self.0[why as usize - 1]
    }

    pub(crate) fn percents(&self) -> impl Iterator<Item = (WalkEnd, f64)> {
        let all = self.all().max(1) as f64;
        WalkEnd::ALL
            .into_iter()
            .map(move |why| (why, 100.0 * self.of(why) as f64 / all))
            .filter(|(_, share)| *share > 0.0)
    }

    pub(crate) fn broken_percent(&self) -> f64 {
        self.percents().filter(|(why, _)| why.is_broken()).map(|(_, share)| share).sum()
    }
}
