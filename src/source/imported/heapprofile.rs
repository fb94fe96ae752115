//! V8's `.heapprofile`: a tree of calls with the bytes that each allocated. Its nesting is as deep as the stacks, so it
//! is read without recursion.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::perfdata::EventUnit;

use super::ImportError;
use super::labels::NO_LABELS;
use super::profile::{ImportedProfile, ImportedSample, NO_ID, ROOT, rounded};
use super::v8::CallFrame;

/// A node whose members are being read.
#[derive(Default)]
struct OpenNode {
    stack: u32,
    size: f64,
    /// The depth of its braces.
    depth: usize,
}

/// A walk over JSON: nodes are read at their members, in any order except that `callFrame` precedes `children`.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    open: Vec<OpenNode>,
    out: ImportedProfile,
    thread: u32,
}

pub(super) fn read(bytes: &[u8]) -> Result<ImportedProfile, ImportError> {
    let mut out =
        ImportedProfile::new("V8 heap profile: the period of a sample is the size that its function allocated");
    out.event("size", EventUnit::Bytes, false);
    let thread = out.thread("javascript", NO_ID, NO_ID);
    let mut walk = Walk { bytes, at: 0, depth: 0, open: Vec::new(), out, thread };
    walk.run()?;
    if walk.depth > 0 {
        // The parser of values reports where the file ends.
        serde::de::IgnoredAny::deserialize(&mut serde_json::Deserializer::from_slice(&bytes[bytes.len()..]))?;
    }
    if walk.out.len() == 0 { Err(ImportError::Lacks("samples")) } else { Ok(walk.out) }
}

impl Walk<'_> {
    fn run(&mut self) -> Result<(), ImportError> {
        while let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.close();
                    self.depth = self.depth.saturating_sub(1);
                }
                b'"' => {
                    let start = self.at;
                    let end = string_end(self.bytes, start);
                    self.at = end + 1;
                    self.member(start, end)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the member of a node whose name is at these offsets, if it is one.
    fn member(&mut self, start: usize, end: usize) -> Result<(), ImportError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default().trim_ascii_start();
        if !rest.starts_with(b":") {
            return Ok(());
        }
        let value = self.bytes.len() - rest.len() + 1;
        match &self.bytes[start..end] {
            b"callFrame" => {
                let frame: CallFrame = self.value(value)?;
                let parent =
                    self.open.iter().rev().find(|node| node.depth < self.depth).map_or(ROOT, |node| node.stack);
                let stack = frame.called_from(parent, &mut self.out);
                let depth = self.depth;
                self.node().stack = stack;
                self.node().depth = depth;
            }
            b"selfSize" => self.node().size = self.value(value)?,
            _ => {}
        }
        Ok(())
    }

    /// Parses the value at an offset and continues behind it.
    fn value<T: DeserializeOwned>(&mut self, at: usize) -> Result<T, ImportError> {
        let mut values = serde_json::Deserializer::from_slice(self.bytes.get(at..).unwrap_or_default()).into_iter();
        let value = values.next().ok_or(ImportError::Lacks("complete nodes: the file is cut"))??;
        self.at = at + values.byte_offset();
        Ok(value)
    }

    /// Returns the node at the current depth, which may begin here.
    fn node(&mut self) -> &mut OpenNode {
        if self.open.last().is_none_or(|node| node.depth < self.depth) {
            self.open.push(OpenNode { depth: self.depth, ..OpenNode::default() });
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    /// Ends the node whose braces end here.
    fn close(&mut self) {
        let Some(node) = self.open.pop_if(|node| node.depth >= self.depth) else { return };
        let period = rounded(node.size);
        if period > 0 {
            let (stack, thread) = (node.stack, self.thread);
            self.out.add(ImportedSample { time: 0, period, stack, thread, event: 0, labels: NO_LABELS });
        }
    }
}

/// Returns the offset of the quote that ends a string.
pub(super) fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr::memchr2(b'"', b'\\', bytes.get(at..).unwrap_or_default()) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        at += 2;
    }
    bytes.len()
}
