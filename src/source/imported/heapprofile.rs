//! V8's profiles of nested nodes: `.heapprofile`, a tree of calls with the bytes that each allocated, and CPU profiles as
//! Chrome wrote them until 2016 and the package v8-profiler still writes them. The nesting is as deep as the stacks, so
//! it is read without recursion.

use rustc_hash::FxHashMap;
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
    /// The depth of its braces.
    depth: usize,
    frame: CallFrame,
    /// Known when its children begin, or at its end.
    stack: Option<u32>,
    id: u64,
    /// Its bytes or hits.
    weight: f64,
}

/// A node that was read.
struct EndedNode {
    stack: u32,
    id: u64,
    weight: u64,
}

/// A walk over JSON: nodes are read at their members, in any order except that those of the function precede `children`.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    open: Vec<OpenNode>,
    ended: Vec<EndedNode>,
    out: &'a mut ImportedProfile,
}

/// The members of a CPU profile outside of its tree.
#[derive(Deserialize)]
struct NodeSamples {
    /// The ids of nodes.
    #[serde(default)]
    samples: Vec<u64>,
    /// When each was taken, in microseconds; the last is the end.
    #[serde(default)]
    timestamps: Vec<f64>,
}

pub(super) fn read(bytes: &[u8]) -> Result<ImportedProfile, ImportError> {
    let mut out =
        ImportedProfile::new("V8 heap profile: the period of a sample is the size that its function allocated");
    let event = out.event("size", EventUnit::Bytes, false);
    out.are_sums(event, 0);
    let nodes = nodes(bytes, &mut out)?;
    add_weights(&nodes, &mut out)?;
    Ok(out)
}

/// Reads a CPU profile of nested nodes.
pub(super) fn read_cpu(bytes: &[u8]) -> Result<ImportedProfile, ImportError> {
    let mut out = ImportedProfile::new("V8 CPU profile: the period of a sample is the time until the next");
    let NodeSamples { samples, timestamps } = serde_json::from_slice(bytes)?;
    let nodes = nodes(bytes, &mut out)?;
    if samples.is_empty() || timestamps.len() < samples.len() {
        let event = out.event("hits", EventUnit::Count, false);
        out.are_sums(event, 1);
        add_weights(&nodes, &mut out)?;
        return Ok(out);
    }
    out.event("cpu", EventUnit::Nanoseconds, true);
    let stacks: FxHashMap<u64, u32> = nodes.iter().map(|node| (node.id, node.stack)).collect();
    let thread = out.thread("javascript", NO_ID, NO_ID);
    let mut unknown = 0u64;
    for (at, (node, time)) in samples.iter().zip(&timestamps).enumerate() {
        let Some(stack) = stacks.get(node).copied() else {
            unknown += 1;
            continue;
        };
        let span = timestamps.get(at + 1).map_or(0.0, |next| next - time);
        let (time, period) = (rounded(time * 1000.0), rounded(span * 1000.0));
        out.add(ImportedSample { time, period, stack, thread, event: 0, labels: NO_LABELS });
    }
    if unknown > 0 {
        out.notes.push(format!("{unknown} samples were left out: their nodes are missing in the file"));
    }
    if out.len() == 0 { Err(ImportError::Lacks("samples")) } else { Ok(out) }
}

/// Adds a sample without a time for each node that has a weight.
fn add_weights(nodes: &[EndedNode], out: &mut ImportedProfile) -> Result<(), ImportError> {
    let thread = out.thread("javascript", NO_ID, NO_ID);
    for node in nodes.iter().filter(|node| node.weight > 0) {
        let (period, stack) = (node.weight, node.stack);
        out.add(ImportedSample { time: 0, period, stack, thread, event: 0, labels: NO_LABELS });
    }
    if out.len() == 0 { Err(ImportError::Lacks("samples")) } else { Ok(()) }
}

/// Returns the nodes of a file in the order of their ends.
fn nodes(bytes: &[u8], out: &mut ImportedProfile) -> Result<Vec<EndedNode>, ImportError> {
    let mut walk = Walk { bytes, at: 0, depth: 0, open: Vec::new(), ended: Vec::new(), out };
    walk.run()?;
    if walk.depth > 0 {
        // The parser of values reports where the file ends.
        serde::de::IgnoredAny::deserialize(&mut serde_json::Deserializer::from_slice(&bytes[bytes.len()..]))?;
    }
    Ok(walk.ended)
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
        // Nodes are inside of the object.
        if !rest.starts_with(b":") || self.depth < 2 {
            return Ok(());
        }
        let value = self.bytes.len() - rest.len() + 1;
        match &self.bytes[start..end] {
            b"callFrame" => self.node().frame = self.value(value)?,
            b"functionName" => self.node().frame.function_name = self.value(value)?,
            b"url" => self.node().frame.url = self.value(value)?,
            // The older form counts lines from 1.
            b"lineNumber" => {
                let line: Option<i64> = self.value(value)?;
                self.node().frame.line_number = line.map(|line| line.saturating_sub(1));
            }
            b"id" => self.node().id = self.value(value)?,
            b"selfSize" | b"hitCount" => self.node().weight = self.value(value)?,
            b"children" => _ = self.stack(),
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

    /// Returns the stack of the node at the current depth.
    fn stack(&mut self) -> u32 {
        self.node();
        let last = self.open.len() - 1;
        if let Some(stack) = self.open[last].stack {
            return stack;
        }
        let parent = last.checked_sub(1).and_then(|parent| self.open[parent].stack).unwrap_or(ROOT);
        let stack = self.open[last].frame.called_from(parent, self.out);
        self.open[last].stack = Some(stack);
        stack
    }

    /// Ends the node whose braces end here.
    fn close(&mut self) {
        if self.open.last().is_none_or(|node| node.depth < self.depth) {
            return;
        }
        let stack = self.stack();
        let Some(node) = self.open.pop() else { return };
        self.ended.push(EndedNode { stack, id: node.id, weight: rounded(node.weight) });
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
