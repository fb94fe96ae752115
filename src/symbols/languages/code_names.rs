//! The names of the functions that a piece of code has at its addresses.

use std::sync::Arc;

use crate::record::interpreted::FunctionSource;

/// The name of a function, and where it is in its file, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FunctionLabel {
    pub(crate) name: Arc<str>,
    pub(crate) file: Arc<str>,
    pub(crate) line: u32,
    /// The file that the lines of its instructions are in; `None` if these are not known. Unlike `file`, it does not
    /// identify the function.
    pub(crate) source: Option<FunctionSource>,
}

impl FunctionLabel {
    /// Returns the label of a function without a file.
    pub(crate) fn of(name: &str) -> Self {
        Self { name: name.into(), file: "".into(), line: 0, source: None }
    }
}

/// One of the functions at an address: the place of its label, and its line there, 0 if that is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FunctionPlace {
    pub(crate) label: u32,
    pub(crate) line: u32,
}

/// The names of the functions in a piece of code: one, or those that were inlined into it at its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodeNames {
    /// The function itself is the first.
    pub(crate) labels: Vec<FunctionLabel>,
    /// The start of the code, relative to the blob.
    pub(super) code: u64,
    /// The ends of ranges of addresses relative to the code, in order, each with its place in `chains`.
    pub(super) ends: Vec<(i32, u32)>,
    /// The functions of each, the innermost first.
    pub(super) chains: Vec<Box<[FunctionPlace]>>,
}

impl CodeNames {
    pub(super) fn one(label: FunctionLabel) -> Self {
        Self { labels: vec![label], code: 0, ends: Vec::new(), chains: Vec::new() }
    }

    /// Returns the same functions with these lines for all addresses, the innermost first.
    pub(super) fn everywhere(functions: Vec<(FunctionLabel, u32)>) -> Self {
        let (labels, lines): (Vec<_>, Vec<u32>) = functions.into_iter().unzip();
        let all = (0..).zip(lines).map(|(label, line)| FunctionPlace { label, line }).collect();
        Self { labels, code: 0, ends: vec![(i32::MAX, 0)], chains: vec![all] }
    }

    /// Returns the functions at an address of the blob, the innermost first. An address is in the range that
    /// ends at it, or at the next end: that of a return address is an end.
    pub(crate) fn at(&self, at: u32) -> &[FunctionPlace] {
        const OWN: FunctionPlace = FunctionPlace { label: 0, line: 0 };
        let range = self.range(at).map(|(_, range)| range);
        range.and_then(|(_, place)| self.chains.get(*place as usize)).map_or(&[OWN], |chain| &**chain)
    }

    /// Returns whether a range ends at an address: what is at others is that of a later address.
    pub(crate) fn ends_at(&self, at: u32) -> bool {
        self.range(at).is_some_and(|(at, (end, _))| *end == at)
    }

    /// Returns an address relative to the code, and the range that it is in.
    fn range(&self, at: u32) -> Option<(i32, &(i32, u32))> {
        let at = i32::try_from(u64::from(at).checked_sub(self.code)?).ok()?;
        Some((at, self.ends.get(self.ends.partition_point(|(end, _)| *end < at))?))
    }

    /// Returns about how much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        let labels: usize = self.labels.iter().map(|label| label.name.len() + label.file.len() + 64).sum();
        let chains: usize = self.chains.iter().map(|chain| 8 * chain.len() + 16).sum();
        labels + chains + 8 * self.ends.len() + 128
    }
}
