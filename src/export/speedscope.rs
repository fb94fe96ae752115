//! speedscope's JSON (speedscope.app/file-format-schema.json): a sampled profile per thread, in time order. It is
//! written incrementally, because a recording may have millions of samples.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::json;

use crate::panel::printable::EscapeForm;
use crate::perfdata::EventUnit;
use crate::profile::NodeId;
use crate::query::tree::symbol_stacks::{SymbolStacks, samples};
use crate::session::TaskId;

use super::{ExportFormat, ExportInput, FormatWriter};

/// A thread's samples; adjacent samples with the same stack are merged.
type Stacks = Vec<(NodeId, u64)>;

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "speedscope",
    about: "speedscope.app",
    writer: FormatWriter::Profile(Some(EscapeForm::Json), write),
};

fn write(input: &ExportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (data, event) = (input.data, input.event);
    let named = SymbolStacks::build(data);
    let mut threads: BTreeMap<TaskId, Stacks> = BTreeMap::new();
    samples(data, input.filter.clone(), |row| {
        if usize::from(row.event) != event {
            return;
        }
        let site = data.profile.sites.all()[row.site as usize];
        let stacks = threads.entry(site.task).or_default();
        let node = named.node_of[site.stack.0 as usize];
        match stacks.last_mut() {
            Some((last, period)) if *last == node => *period = period.saturating_add(row.period),
            _ => stacks.push((node, row.period)),
        }
    });
    let unit = data.unit(event);
    out.write_all(b"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":")?;
    serde_json::to_writer(&mut *out, concat!("perfprof-tui ", env!("CARGO_PKG_VERSION")))?;
    out.write_all(b",\"name\":")?;
    serde_json::to_writer(&mut *out, input.title)?;
    out.write_all(b",\"activeProfileIndex\":0,\"shared\":{\"frames\":[")?;
    list(out, &named.names, |name, out| {
        Ok(serde_json::to_writer(out, &json!({ "name": &*name.text, "file": &*name.dso }))?)
    })?;
    out.write_all(b"]},\"profiles\":[")?;
    list(out, &threads, |(task, stacks), out| {
        let task = &data.session.tasks()[task.0 as usize];
        // Profiles of other tools may lack the numbers.
        let ids = if task.pid < 0 && task.tid < 0 { String::new() } else { format!(" {}/{}", task.pid, task.tid) };
        one(&format!("{}{ids}", task.comm), unit, stacks, &named, out)
    })?;
    out.write_all(b"]}\n")?;
    out.flush()
}

fn one(name: &str, unit: EventUnit, stacks: &Stacks, named: &SymbolStacks, out: &mut dyn Write) -> io::Result<()> {
    let word = match unit {
        EventUnit::Nanoseconds => "nanoseconds",
        EventUnit::Bytes => "bytes",
        EventUnit::Count | EventUnit::Decimal(_) => "none",
    };
    let total = stacks.iter().fold(0u64, |sum, (_, period)| sum.saturating_add(*period));
    out.write_all(b"{\"type\":\"sampled\",\"name\":")?;
    serde_json::to_writer(&mut *out, name)?;
    write!(out, ",\"unit\":\"{word}\",\"startValue\":0,\"endValue\":{},\"samples\":[", unit.written(total))?;
    list(out, stacks, |(node, _), out| Ok(serde_json::to_writer(out, &named.path(*node))?))?;
    out.write_all(b"],\"weights\":[")?;
    list(out, stacks, |(_, period), out| write!(out, "{}", unit.written(*period)))?;
    out.write_all(b"]}")
}

fn list<T>(
    out: &mut dyn Write,
    entries: impl IntoIterator<Item = T>,
    one: impl Fn(T, &mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    for (i, entry) in entries.into_iter().enumerate() {
        out.write_all(if i > 0 { b"," } else { b"" })?;
        one(entry, out)?;
    }
    Ok(())
}
