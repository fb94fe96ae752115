//! speedscope's JSON (speedscope.app/file-format-schema.json): a sampled profile for each thread, in
//! order of time. Written as it goes: a recording may have millions of samples.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;

use crate::panel::printable::EscapeForm;
use crate::profile::NodeId;
use crate::query::symbol_stacks::{SymbolStacks, samples};
use crate::session::TaskId;

use super::{ExportInput, Format, FormatWriter};

/// A thread's samples; neighbours with one stack are one entry.
#[derive(Default)]
struct Thread {
    stacks: Vec<(NodeId, u64)>,
}

pub(super) const FORMAT: Format = Format {
    name: "speedscope",
    about: "speedscope.app",
    writer: FormatWriter::Profile(Some(EscapeForm::Json), write),
};

fn write(input: &ExportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (data, event) = (input.data, input.event);
    let named = SymbolStacks::build(data);
    let mut threads: BTreeMap<TaskId, Thread> = BTreeMap::new();
    samples(data, input.filter.clone(), |row| {
        if usize::from(row.event) != event {
            return;
        }
        let site = data.profile.sites.all()[row.site as usize];
        let stacks = &mut threads.entry(site.task).or_default().stacks;
        let node = named.node_of[site.stack.0 as usize];
        match stacks.last_mut() {
            Some((last, period)) if *last == node => *period = period.saturating_add(row.period),
            _ => stacks.push((node, row.period)),
        }
    });
    let unit = if data.events[event].contains("clock") { "nanoseconds" } else { "none" };
    out.write_all(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":")?;
    serde_json::to_writer(&mut *out, concat!("perfprof-tui ", env!("CARGO_PKG_VERSION")))?;
    out.write_all(b",\"name\":")?;
    serde_json::to_writer(&mut *out, input.title)?;
    out.write_all(b",\"activeProfileIndex\":0,\"shared\":{\"frames\":[")?;
    for (i, name) in named.names.iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, &json!({ "name": &*name.text, "file": &*name.dso }))?;
    }
    out.write_all(b"]},\"profiles\":[")?;
    for (i, (task, thread)) in threads.iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        let task = &data.session.tasks()[task.0 as usize];
        one(&format!("{} {}/{}", task.comm, task.pid, task.tid), unit, thread, &named, out)?;
    }
    out.write_all(b"]}\n")?;
    out.flush()
}

fn one(name: &str, unit: &str, thread: &Thread, named: &SymbolStacks, out: &mut dyn Write) -> io::Result<()> {
    let total = thread.stacks.iter().fold(0u64, |sum, (_, period)| sum.saturating_add(*period));
    out.write_all(b"{\"type\":\"sampled\",\"name\":")?;
    serde_json::to_writer(&mut *out, name)?;
    write!(out, ",\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{total},\"samples\":[")?;
    for (i, (node, _)) in thread.stacks.iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        let mut frames: Vec<u32> = named.trie.walk(*node).map(|f| f.0).collect();
        frames.reverse();
        serde_json::to_writer(&mut *out, &frames)?;
    }
    out.write_all(b"],\"weights\":[")?;
    for (i, (_, period)) in thread.stacks.iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        write!(out, "{period}")?;
    }
    out.write_all(b"]}")
}
