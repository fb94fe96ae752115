//! `report` and `doctor`: answers on standard output, words about them on standard error.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::engine::IntakeOptions;
use crate::engine::offline::Offline;
use crate::event::plain;
use crate::filter::Filter;
use crate::kernel::attr::{TYPE_TRACEPOINT, sample};
use crate::lang::{nearest_hint, quantity};
use crate::panel;
use crate::perfdata::EventDesc;
use crate::query::chains::{Tree, TreeKind};
use crate::query::heaviest_chain::HeavyTrees;
use crate::query::lines::CHAIN_LIMIT;
use crate::query::parallel::shared;
use crate::query::{Aggregate, ColumnKey, Direction, Order, Partner, RowLimit, Top, TopRow, TopSpec};
use crate::report::{doctor as checks, json};
use crate::source::Info;

pub(crate) use super::chosen::{chosen_events, events, keys_of};

use super::args::{Doctor, Format, Report};
use super::chosen::is_dummy;
use super::output::{print, print_json};
use super::report_hardware::HardwareReport;
use super::usage;
use super::{dump, open};

/// The word of `--sort` that orders rows by instructions a cycle, and the other keys.
fn ordered(text: &str) -> (String, Order) {
    let words: Vec<&str> = text.split(',').filter(|word| word.trim() != "ipc").collect();
    let order = if words.len() < text.split(',').count() { Order::Ipc } else { Order::SelfTime };
    (words.join(","), order)
}

/// Whether a recording has the field of a tracepoint that a key names.
fn is_recorded(loaded: &Offline, name: &str) -> anyhow::Result<()> {
    let Some((event, field)) = name.split_once('.') else { return Ok(()) };
    let events: Vec<&str> =
        loaded.event_names.iter().filter_map(|name| plain(name).split_once(':')).map(|n| n.1).collect();
    let known = loaded.fields();
    let fields: Vec<&str> = known.iter().map(|field| &*field.name).collect();
    let (what, word, list) =
        if events.contains(&event) { ("field", field, fields) } else { ("tracepoint", event, events) };
    if list.contains(&word) {
        return Ok(());
    }
    let hint = nearest_hint(word, list.iter().copied());
    Err(usage(format!("--sort {name}: the recording has no {what} {word}{hint}")))
}

/// The columns of a recording for which none were typed.
fn own_keys(info: &Info) -> Vec<ColumnKey> {
    // perf's choice for tracepoints, too: their addresses say little.
    let keys = if only_tracepoints(&info.events) {
        vec![ColumnKey::Comm, ColumnKey::Trace]
    } else {
        vec![ColumnKey::Comm, ColumnKey::Dso, ColumnKey::Sym]
    };
    if info.hosts.are_many() { [vec![ColumnKey::Host], keys].concat() } else { keys }
}

/// The parts of a report on each event.
struct ReportShape {
    keys: Vec<ColumnKey>,
    children: bool,
    limit: usize,
    percent: f64,
    chains: Option<Direction>,
    hierarchy: bool,
}

/// `perfprof-tui report`.
pub(crate) fn run(args: Report) -> anyhow::Result<u8> {
    let hardware = HardwareReport::of(&args)?;
    let (keys, order) = ordered(args.sort.as_deref().unwrap_or_default());
    let typed = Some(keys).filter(|keys| args.sort.is_some() && (!keys.is_empty() || order != Order::Ipc));
    let typed = typed.as_deref().filter(|_| hardware.is_none()).map(keys_of).transpose()?;
    let by_stack = args.which.check()?.is_some_and(|f| f.needs_chains());
    let opened = open::open(&args.recording, args.frames.no_demangle)?;
    if args.header {
        return header(&opened);
    }
    if args.dump {
        return dump::print(opened);
    }
    if let Some(hardware) = hardware {
        return hardware.run(&args, opened);
    }
    let info = opened.source.info();
    let keys = match typed {
        Some(keys) => keys,
        None if args.branch_history => vec![ColumnKey::Sym, ColumnKey::Dso],
        None => own_keys(info),
    };
    let children = !args.no_children && (info.chains || args.branch_history);
    let chains = direction(args.call_graph.as_deref(), children)?;
    let wants = IntakeOptions {
        chains: children || chains.is_some() || by_stack,
        traces: keys.contains(&ColumnKey::Trace),
        fields: args.which.needs_fields() || keys.iter().any(|key| key.traced().is_some()),
        inline: args.frames.inline,
        history: args.branch_history,
        ..IntakeOptions::default()
    };
    let name = opened.name.clone();
    let loaded = opened.load(wants)?;
    keys.iter().filter_map(|key| key.traced()).try_for_each(|name| is_recorded(&loaded, name))?;
    if args.coverage {
        return coverage(&loaded, args.format);
    }
    let filter = args.which.filter(&loaded)?;
    let spec = TopSpec { keys: keys.clone(), children, order, reversed: false, origins: false };
    let limit = args.limit.unwrap_or(usize::MAX);
    let shape = ReportShape { keys, children, limit, percent: args.percent_limit, chains, hierarchy: args.hierarchy };
    let tops: Vec<(usize, Top)> = chosen_events(&loaded, &args.which)?
        .into_iter()
        .map(|event| (event, top(&loaded, event, filter.clone(), &spec, args.percent_limit)))
        .collect();
    match args.format {
        Format::Json => {
            let lost = |event: usize| loaded.ingest.core().profile.ledger.lost_of(event);
            let list = tops
                .iter()
                .map(|(event, top)| {
                    json::event(loaded.data(), &loaded.event_names[*event], lost(*event), top, &shape.keys, limit)
                })
                .collect();
            print_json(&json::report(&name, list))?;
        }
        Format::Csv => {
            for (_, top) in &tops {
                print(&panel::top::table(loaded.data(), top, &shape.keys, children, limit).to_csv())?;
            }
        }
        Format::Text => tops.iter().try_for_each(|(event, top)| print_text(&loaded, *event, top, &shape))?,
    }
    let code = loaded.exit_code();
    // Taking millions of small pieces of memory apart would only delay the prompt.
    std::mem::forget((loaded, tops));
    Ok(code)
}

/// `-g` as typed: perf's words for the order, or `none`; other words of perf's are accepted. Without
/// an order it is the one that leads where a row's figure comes from (perf-report(1), --call-graph).
fn direction(text: Option<&str>, children: bool) -> anyhow::Result<Option<Direction>> {
    let Some(text) = text else { return Ok(None) };
    let mut found = Some(if children { Direction::Callees } else { Direction::Callers });
    for word in text.split(',') {
        match word {
            "caller" => found = Some(Direction::Callees),
            "callee" => found = Some(Direction::Callers),
            "graph" | "fractal" | "" => {}
            "none" => found = None,
            number if quantity::share(number).is_ok() => {}
            "function" | "address" | "percent" => {}
            other => return Err(usage(format!("-g {text}: {other} is neither caller, callee nor none"))),
        }
    }
    Ok(found)
}

fn only_tracepoints(events: &[EventDesc]) -> bool {
    let mut real = events.iter().filter(|e| !is_dummy(e)).peekable();
    real.peek().is_some() && real.all(|e| e.attr.kind == TYPE_TRACEPOINT || e.attr.sample_type & sample::RAW != 0)
}

/// Prints the head of a recording.
fn header(opened: &open::Opened) -> anyhow::Result<u8> {
    for (what, value) in &opened.source.info().facts {
        print(&format!("# {what:18} : {}\n", panel::text::clean(value)))?;
    }
    Ok(0)
}

/// Samples of each CPU against what its rate would give.
fn coverage(loaded: &Offline, format: Format) -> anyhow::Result<u8> {
    for event in events(loaded) {
        let attr = &loaded.ingest.core().events[event].attr;
        let hz = if attr.has(crate::kernel::attr::Flag::Freq) { attr.period_or_freq } else { 0 };
        let table = crate::cpu::coverage::table(loaded.data(), event, hz);
        match format {
            Format::Text => {
                print(&format!("# event {}\n{}\n", panel::text::clean(&loaded.event_names[event]), table.to_text()))?
            }
            Format::Csv => print(&table.to_csv())?,
            Format::Json => return Err(usage("--coverage prints text or csv")),
        }
    }
    Ok(0)
}

fn top(loaded: &Offline, event: usize, filter: Option<Arc<Filter>>, spec: &TopSpec, percent: f64) -> Top {
    let data = loaded.data();
    let mut fold = Aggregate::new(event, filter).told_apart(&spec.keys);
    fold.update(data, 0..u64::MAX);
    let partner = Partner::of(data.events.iter().map(String::as_str), event).filter(|_| fold.traced().is_none());
    let partner = partner.map(|partner| {
        let mut other = Aggregate::of_event(partner.event, &fold);
        other.update(data, 0..u64::MAX);
        (partner, other)
    });
    let with = partner.as_ref().map(|(partner, other)| (*partner, other));
    let mut top = Top::build_with(data, &fold, with, spec, RowLimit::First(usize::MAX));
    let total = top.total;
    if percent > 0.0 {
        top.rows.retain(|row| row.children.percent_of(&total) >= percent);
    }
    top
}

fn print_text(loaded: &Offline, event: usize, top: &Top, shape: &ReportShape) -> anyhow::Result<()> {
    let lost = loaded.ingest.core().profile.ledger.lost_of(event);
    let name = panel::text::clean(&loaded.event_names[event]).into_owned();
    let head = format!(
        "# event {name}: {} samples, period {}, lost {}\n",
        panel::unit::thousands(top.total.samples),
        panel::unit::thousands(top.total.period),
        panel::unit::thousands(lost)
    );
    print(&head)?;
    if shape.hierarchy {
        print(&panel::tree::hierarchy(loaded.data(), top, &shape.keys, shape.percent))?;
        return print("\n");
    }
    let table = panel::top::table(loaded.data(), top, &shape.keys, shape.children, shape.limit).to_text();
    let Some(direction) = shape.chains else {
        print(&table)?;
        return print("\n");
    };
    let mut chains = chains_of(loaded, top, direction, shape);
    let mut lines = table.lines();
    let mut out = format!("{}\n", lines.next().unwrap_or_default());
    for (line, row) in lines.zip(&top.rows) {
        out.extend([line, "\n"]);
        out.push_str(&chains.remove(&(row.group, row.label)).unwrap_or_default());
        if out.len() > AT_ONCE {
            print(&std::mem::take(&mut out))?;
        }
    }
    print(&(out + "\n"))
}

/// The call chains of the rows that have some which are shown, by group and label.
fn chains_of(loaded: &Offline, top: &Top, direction: Direction, shape: &ReportShape) -> FxHashMap<(u32, u32), String> {
    let limit = shape.percent.max(CHAIN_LIMIT);
    // A chain counts no more than its row does, so that most rows have none.
    let counts = |row: &TopRow| if shape.children { row.children } else { row.own };
    let has_some = |row: &&TopRow| counts(row).percent_of(&top.total) >= limit;
    let mut rows: Vec<&TopRow> = top.rows.iter().take(shape.limit).filter(has_some).collect();
    rows.sort_by_key(|row| row.group);
    let groups: Vec<&[&TopRow]> = rows.chunk_by(|a, b| a.group == b.group).collect();
    let heavy = HeavyTrees::new(loaded.data(), top, TreeKind { direction, inclusive: shape.children }, limit);
    let texts = |groups: &[&[&TopRow]]| {
        let of_row = |(row, tree): (&&TopRow, Tree)| {
            ((row.group, row.label), panel::tree::chain(loaded.data(), &tree, &top.total, limit))
        };
        groups.iter().flat_map(|rows| rows.iter().zip(heavy.trees(rows)).map(of_row)).collect::<Vec<_>>()
    };
    shared(&groups, groups.len(), 1, texts).into_iter().flatten().collect()
}

/// Bytes of text that are worth a write.
const AT_ONCE: usize = 1 << 16;

/// `perfprof-tui doctor`.
pub(crate) fn doctor(args: Doctor) -> anyhow::Result<u8> {
    let items = checks::examine();
    match args.format {
        Format::Text => print(&checks::text(&items))?,
        Format::Json => {
            let list: Vec<_> = items.iter().map(|i| serde_json::json!({ "name": i.name, "state": i.state.word(), "found": i.found, "remedy": i.remedy })).collect();
            print_json(&list)?;
        }
        Format::Csv => return Err(usage("doctor prints text or json")),
    }
    Ok(0)
}
