//! V8's `.cpuprofile`: a tree of calls, and the node of each sample.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use serde::Deserialize;

use crate::perfdata::EventUnit;
use crate::session::DsoKind;

use super::ImportError;
use super::labels::NO_LABELS;
use super::profile::{ImportedProfile, ImportedSample, NO_ID, ROOT, rounded};

/// `Profiler.Profile` of the DevTools protocol.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CpuProfile {
    nodes: Vec<Node>,
    /// The ids of nodes.
    samples: Option<Vec<u64>>,
    /// Microseconds between samples; the first since the start.
    time_deltas: Option<Vec<f64>>,
    #[serde(default)]
    start_time: f64,
    #[serde(default)]
    end_time: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    id: u64,
    call_frame: CallFrame,
    #[serde(default)]
    hit_count: u64,
    children: Option<Vec<u64>>,
    /// The caller, in files of Chrome that lack `children`.
    parent: Option<u64>,
}

/// `Runtime.CallFrame` of the DevTools protocol.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CallFrame {
    pub(super) function_name: String,
    pub(super) url: String,
    /// Counted from 0; negative if unknown.
    pub(super) line_number: Option<i64>,
}

impl CallFrame {
    /// Returns the name; for a function without one, its file and line: most of a file's functions may have no name.
    fn name(&self) -> Cow<'_, str> {
        match self.line_number {
            Some(line @ 0..) if self.function_name.is_empty() && !self.url.is_empty() => {
                let file = self.url.rsplit('/').next().unwrap_or_default();
                format!("(anonymous {file}:{})", line.saturating_add(1)).into()
            }
            _ => self.function_name.as_str().into(),
        }
    }

    /// Returns the stack of a call from another stack; the root of the tree does not count as a call.
    pub(super) fn called_from(&self, parent: u32, out: &mut ImportedProfile) -> u32 {
        if parent == ROOT && self.function_name == "(root)" {
            return ROOT;
        }
        let kind = if self.url.is_empty() { DsoKind::Unknown } else { DsoKind::Anon };
        let frame = out.frame(&self.name(), &self.url, kind);
        out.stack(parent, frame)
    }
}

pub(super) fn read(profile: CpuProfile) -> Result<ImportedProfile, ImportError> {
    let mut out = ImportedProfile::new("V8 CPU profile: the period of a sample is the time until the next");
    let stacks = stacks(&profile.nodes, &mut out);
    let thread = out.thread("javascript", NO_ID, NO_ID);
    let sample = |time, period, stack| ImportedSample { time, period, stack, thread, event: 0, labels: NO_LABELS };
    match (&profile.samples, &profile.time_deltas) {
        (Some(samples), Some(deltas)) if !samples.is_empty() => {
            out.event("cpu", EventUnit::Nanoseconds, true);
            let mut time = profile.start_time;
            let times = deltas.iter().copied().chain(std::iter::repeat(0.0)).map(|delta| {
                time += delta;
                time
            });
            let mut samples: Vec<(f64, u64)> = times.zip(samples.iter().copied()).collect();
            // V8 writes negative distances at times: the period is the time until the next sample on the clock.
            samples.sort_by(|a, b| a.0.total_cmp(&b.0));
            let ends = samples.iter().skip(1).map(|(time, _)| *time).chain([profile.end_time]);
            let mut unknown = 0u64;
            for ((time, node), end) in samples.iter().zip(ends) {
                let Some(stack) = stacks.get(node) else {
                    unknown += 1;
                    continue;
                };
                out.add(sample(rounded(time * 1000.0), rounded((end - time) * 1000.0), *stack));
            }
            if unknown > 0 {
                out.notes.push(format!("{unknown} samples were left out: their nodes are missing in the file"));
            }
        }
        _ => {
            let event = out.event("hits", EventUnit::Count, false);
            out.are_sums(event, 1);
            let hit = profile.nodes.iter().filter(|node| node.hit_count > 0);
            hit.filter_map(|node| Some((node.hit_count, *stacks.get(&node.id)?)))
                .for_each(|(hits, stack)| out.add(sample(0, hits, stack)));
        }
    }
    if out.len() == 0 { Err(ImportError::Lacks("samples")) } else { Ok(out) }
}

/// Returns the stack of each node by its id. Only nodes below a root have one.
fn stacks(nodes: &[Node], out: &mut ImportedProfile) -> FxHashMap<u64, u32> {
    let at: FxHashMap<u64, usize> = nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut has_caller = vec![false; nodes.len()];
    let mut link = |parent: usize, child: Option<&usize>| {
        if let Some(child) = child.filter(|child| !std::mem::replace(&mut has_caller[**child], true)) {
            children[parent].push(*child);
        }
    };
    for (parent, node) in nodes.iter().enumerate() {
        node.children.iter().flatten().for_each(|id| link(parent, at.get(id)));
    }
    for node in nodes {
        if let Some(parent) = node.parent.and_then(|id| at.get(&id)) {
            link(*parent, at.get(&node.id));
        }
    }
    let mut stacks = FxHashMap::default();
    let mut open: Vec<(usize, u32)> = (0..nodes.len()).filter(|at| !has_caller[*at]).map(|at| (at, ROOT)).collect();
    while let Some((at, parent)) = open.pop() {
        let stack = nodes[at].call_frame.called_from(parent, out);
        stacks.insert(nodes[at].id, stack);
        open.extend(children[at].iter().map(|child| (*child, stack)));
    }
    stacks
}
