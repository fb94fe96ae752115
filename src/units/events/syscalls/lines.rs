//! Calls as lines, like strace writes them, with their stacks.

use std::collections::VecDeque;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::units::kit::prelude::*;

use super::arguments::{Arguments, CallTexts, written};
use super::lookups::DescriptorName;
use super::names::{Call, CallTables, error_name};
use super::shapes::ACCEPTING;

/// The number of lines to keep.
const KEEP: u64 = 10_000;
/// The limit of bytes of their texts: a path may have 4 KiB.
const MAX_BYTES: usize = 16 << 20;

/// The arguments of a call, if its record has them, its paths or socket address, its structure, and what its
/// descriptors refer to.
#[derive(Clone, Debug, Default)]
pub(super) struct CallArguments {
    pub(super) arguments: Option<Arguments>,
    pub(super) text: Option<Arc<str>>,
    pub(super) second: Option<Arc<str>>,
    pub(super) structure: Option<Arc<str>>,
    pub(super) files: Vec<(i32, Arc<DescriptorName>)>,
}

impl CallArguments {
    /// Returns the bytes of the texts that only this call has.
    fn size(&self) -> usize {
        [&self.text, &self.second, &self.structure].into_iter().flatten().map(|text| text.len()).sum()
    }

    /// Returns what a descriptor of the call refers to.
    fn file(&self, fd: i32) -> Option<&str> {
        self.files.iter().find(|(own, _)| *own == fd).and_then(|(_, name)| name.get())
    }

    /// Writes the call with its arguments.
    pub(super) fn line(&self, tables: CallTables, call: Call) -> String {
        let name = tables.name(call);
        let file = |fd: i32| self.file(fd).map(str::to_owned);
        let paths = [&self.text, &self.second].map(|path| path.as_deref());
        match &self.arguments {
            Some(arguments) => {
                written(&name, arguments, CallTexts { paths, structure: self.structure.as_deref() }, file)
            }
            None => name,
        }
    }
}

/// A call that returned.
#[derive(Clone, Debug)]
pub(super) struct ListedCall {
    pub(super) thread: ThreadKey,
    pub(super) call: Call,
    pub(super) made: CallArguments,
    pub(super) time: u64,
    /// `None` if its start was not recorded.
    pub(super) ns: Option<u64>,
    pub(super) result: i64,
    pub(super) stack: RetainedStack,
}

impl ListedCall {
    /// Returns the peer of the socket that a call accepted.
    fn accepted(&self, tables: CallTables) -> Option<&str> {
        let is_accept = ACCEPTING.contains(&tables.known(self.call)?);
        let result = i32::try_from(self.result).ok().filter(|_| is_accept)?;
        self.made.file(result)
    }

    /// Writes the call with its arguments and its result.
    pub(super) fn line(&self, tables: CallTables) -> String {
        let call = self.made.line(tables, self.call);
        match self.result {
            -4095..0 => format!("{call} = -{}", error_name(self.result.unsigned_abs() as u32)),
            result if matches!(&*tables.name(self.call), "mmap" | "mmap2" | "mremap" | "brk") => {
                format!("{call} = {result:#x}")
            }
            result => match self.accepted(tables) {
                Some(peer) => format!("{call} = {result} → {peer}"),
                None => format!("{call} = {result}"),
            },
        }
    }
}

/// The newest calls.
#[derive(Clone, Debug)]
pub(super) struct CallLines {
    keep: usize,
    /// The number of lines so far, and at the last reset: a number means one call.
    number: u64,
    cleared_at: u64,
    /// Calls that would be lines, but were only summed in the kernel.
    summed: u64,
    lines: VecDeque<(u64, ListedCall)>,
    /// The bytes of their texts.
    bytes: usize,
}

impl Default for CallLines {
    fn default() -> Self {
        Self { keep: KEEP as usize, number: 0, cleared_at: 0, summed: 0, lines: VecDeque::new(), bytes: 0 }
    }
}

impl CallLines {
    pub(super) fn of(settings: &Settings) -> Result<Self, String> {
        let keep = settings.number("keep", KEEP)?.clamp(1, 1_000_000) as usize;
        Ok(Self { keep, ..Self::default() })
    }

    pub(super) fn add(&mut self, call: ListedCall) {
        self.bytes += call.made.size();
        while self.lines.len() >= self.keep || self.bytes > MAX_BYTES {
            let Some((_, oldest)) = self.lines.pop_front() else { break };
            self.bytes -= oldest.made.size();
        }
        self.lines.push_back((self.number, call));
        self.number += 1;
    }

    /// Counts calls that have no line, because they were only summed.
    pub(super) fn lack(&mut self, calls: u64) {
        self.summed = self.summed.saturating_add(calls);
    }

    pub(super) fn clear(&mut self) {
        self.lines.clear();
        (self.bytes, self.summed) = (0, 0);
        self.cleared_at = self.number;
    }

    /// Describes the calls that have no line; empty if there are none.
    pub(super) fn lacking(&self) -> String {
        note(self.summed, "failed or slow call", "without a line, summed in the kernel")
    }

    pub(super) fn get(&self, number: u64) -> Option<&ListedCall> {
        let (first, _) = self.lines.front()?;
        self.lines.get(usize::try_from(number.checked_sub(*first)?).ok()?).map(|(_, call)| call)
    }

    pub(super) fn newest(&self) -> Option<&ListedCall> {
        self.lines.back().map(|(_, call)| call)
    }

    /// Iterates over the newest lines.
    fn newest_of(&self, rows: usize) -> impl ExactSizeIterator<Item = &(u64, ListedCall)> {
        self.lines.iter().skip(self.lines.len().saturating_sub(rows))
    }

    /// The threads of the newest lines.
    pub(super) fn threads(&self, rows: usize) -> impl Iterator<Item = ThreadKey> {
        self.newest_of(rows).map(|(_, call)| call.thread)
    }

    pub(super) fn panel(
        &self,
        at: &Moment<'_>,
        tables: CallTables,
        containers: &FxHashMap<ThreadKey, String>,
    ) -> Panel {
        let shown = self.newest_of(at.look.rows);
        let gone = self.number - self.cleared_at - shown.len() as u64;
        let container = |thread: ThreadKey| containers.get(&thread).map_or(Cell::Empty, |name| text(name.as_str()));
        let rows = Sheet::of(shown, |(number, _)| *number)
            .right("time_ns", "Time", 14, |(_, of)| Cell::Moment(at.after(of.time)))
            .task(at, |(_, of)| of.thread)
            .ranked(1)
            .when(!containers.is_empty(), |sheet| {
                sheet.left("container", "Container", 20, |(_, of)| container(of.thread)).ranked(2)
            })
            .right("ns", "Took", 9, |(_, of)| of.ns.map_or(Cell::Empty, Cell::Time))
            .left("line", "Call", 0, |(_, of)| text(of.line(tables)))
            .rows();
        Panel::new("Lines", Body::Log(rows)).noted(all_notes([note(gone, "older call", "not shown"), self.lacking()]))
    }
}

/// The functions of a call's stack, the innermost first.
pub(super) fn stack_panel(at: &Moment<'_>, call: Option<&ListedCall>) -> Panel {
    let frames = call.map(|call| at.frames(call.stack)).unwrap_or_default();
    Sheet::of(frames.iter().rev().enumerate(), |(i, _)| i as u64)
        .left("function", "Function", 48, |(_, name)| text(name.text.clone()))
        .left("dso", "DSO", 0, |(_, name)| text(name.dso.clone()))
        .whole("Stack of the call under the cursor")
}
