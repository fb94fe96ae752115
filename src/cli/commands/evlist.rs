//! `evlist`: prints the events of a recording, like perf evlist.

use crate::event::format::Formats;
use crate::kernel::attr::{Flag, TYPE_TRACEPOINT};
use crate::panel::text::clean;
use crate::perfdata::EventDesc;
use crate::perfdata::attr_words;
use crate::perfdata::read::Recording;
use crate::report::head::EventGroup;
use crate::source::{Batch, Info, Progress, Source, SourceEvent, recording};

use crate::cli::args::listed::EvlistArgs;
use crate::cli::output::print;

pub(crate) fn run(args: EvlistArgs) -> anyhow::Result<u8> {
    let mut source = recording::open(&[args.recording.path()])?;
    let info = source.info().clone();
    let Some(head) = info.head.clone() else { return named(&mut *source) };
    if args.group {
        print(&groups(&info, &head))?;
    } else {
        let formats = if args.trace_fields { Formats::parse(&info.tracing) } else { Formats::default() };
        let sizes = head.attr_sizes.iter().copied().chain(std::iter::repeat(0));
        let line = |(event, size)| line(event, size, &args, &formats);
        print(&info.events.iter().zip(sizes).map(line).collect::<String>())?;
    }
    let is_trace = |event: &EventDesc| event.attr.kind == TYPE_TRACEPOINT;
    if !args.trace_fields && info.events.iter().any(is_trace) {
        print("# Tip: use 'perfprof-tui evlist --trace-fields' to show fields for tracepoint events\n")?;
    }
    Ok(0)
}

/// Reads the events of a text recording, which are known only after its samples.
fn named(source: &mut dyn Source) -> anyhow::Result<u8> {
    let mut names: Vec<String> = source.info().events.iter().map(|event| event.name.clone()).collect();
    let mut batch = Batch::default();
    loop {
        batch.clear();
        let step = source.next(&mut batch)?;
        names.extend(batch.events.iter().filter_map(|event| match event {
            SourceEvent::Event(event) => Some(event.name.clone()),
            _ => None,
        }));
        if matches!(step, Progress::End(_)) {
            break;
        }
    }
    print(&names.iter().map(|name| format!("{}\n", clean(name))).collect::<String>())?;
    Ok(0)
}

fn line(event: &EventDesc, size: u32, args: &EvlistArgs, formats: &Formats) -> String {
    let mut words: Vec<String> = Vec::new();
    if args.verbose {
        words.extend(attr_words::fields(&event.attr, size).into_iter().map(|(name, value)| format!("{name}: {value}")));
    } else if args.freq {
        let name = if event.attr.has(Flag::Freq) { "sample_freq" } else { "sample_period" };
        words.push(format!("{name}={}", event.attr.period_or_freq));
    }
    if args.trace_fields {
        words.push(fields(event, formats));
    }
    let mut out = clean(&event.name).into_owned();
    for (i, word) in words.iter().enumerate() {
        out.push_str(if i == 0 { ": " } else { ", " });
        out.push_str(&clean(word));
    }
    out.push('\n');
    out
}

/// Returns the fields of a tracepoint, without the common ones.
fn fields(event: &EventDesc, formats: &Formats) -> String {
    if event.attr.kind != TYPE_TRACEPOINT {
        return "(not a tracepoint)".to_owned();
    }
    let own = formats.by_id.get(&event.attr.config).map(|format| format.fields.iter());
    let names = own.into_iter().flatten().map(|field| field.name.as_str());
    format!("trace_fields: {}", names.filter(|name| !name.starts_with("common_")).collect::<Vec<_>>().join(","))
}

fn groups(info: &Info, head: &Recording) -> String {
    let told = EventGroup::list(head).unwrap_or_default();
    let mut out = String::new();
    let mut at = 0;
    while at < info.events.len() {
        let group = told.iter().find(|group| group.leader == at && group.members > 1);
        let members = group.map_or(1, |group| group.members).min(info.events.len() - at);
        let names: Vec<_> = info.events[at..at + members].iter().map(|event| clean(&event.name)).collect();
        out.push_str(&match group {
            Some(group) => format!("{}{{{}}}\n", clean(&group.name), names.join(",")),
            None => format!("{}\n", names.join(",")),
        });
        at += members;
    }
    out
}
