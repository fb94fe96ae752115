//! `report` and `doctor`: answers on standard output, words about them on standard error.

use std::sync::Arc;

use crate::engine::offline::{self, Loaded};
use crate::filter::Filter;
use crate::panel;
use crate::query::{Fold, Key, Order, Top, TopSpec};
use crate::report::{doctor as checks, json};
use crate::source::Source;
use crate::source::file::FileSource;
use crate::symbols::resolver::Options;

use super::Usage;
use super::args::{Doctor, Format, Names, Report};
use super::output::{complain, print};

/// Sort keys as typed.
pub fn keys_of(text: &str) -> anyhow::Result<Vec<Key>> {
    Key::parse_list(text).map_err(|word| {
        let names: Vec<&str> = Key::ALL.iter().map(|row| row.1[0]).collect();
        let near = crate::event::fault::nearest(&word, names.iter().copied());
        let hint = if near.is_empty() { String::new() } else { format!("; nearest: {}", near.join(", ")) };
        Usage(format!("--sort {text}: {word} is no key; there are {}{hint}", names.join(", "))).into()
    })
}

/// A filter as typed.
pub fn filter_of(text: Option<&str>) -> anyhow::Result<Option<Arc<Filter>>> {
    text.map(|t| Filter::parse(t).map(Arc::new).map_err(|fault| Usage(format!("--where: {fault}")).into())).transpose()
}

/// Where the names of a recording come from. The running kernel's names serve only when it is the
/// kernel that was recorded.
pub fn symbols(names: &Names, no_demangle: bool, source: &FileSource) -> Options {
    let uname = rustix::system::uname();
    let info = source.info();
    let same_kernel =
        uname.release().to_string_lossy() == info.kernel && uname.nodename().to_string_lossy() == info.host;
    let own = same_kernel.then(|| "/proc/kallsyms".into());
    if own.is_none() && names.kallsyms.is_none() {
        complain(&format!(
            "recorded on {} {}: kernel functions have names only with --kallsyms",
            info.host, info.kernel
        ));
    }
    Options {
        demangle: !no_demangle,
        live: false,
        same_kernel: same_kernel && names.symfs.is_none(),
        symfs: names.symfs.clone(),
        kallsyms: names.kallsyms.clone().or(own),
    }
}

/// `perfprof-tui report`.
pub fn run(args: Report) -> anyhow::Result<u8> {
    let keys = keys_of(&args.sort)?;
    let filter = filter_of(args.filter.as_deref())?;
    let path = args.file.or(args.input).ok_or_else(|| Usage("a recording must be named".into()))?;
    let mut source = FileSource::open(&path)?;
    let symbols = symbols(&args.names, args.no_demangle, &source);
    let loaded = offline::load(&mut source, symbols)?;
    loaded.notes.iter().for_each(|note| complain(note));
    if args.coverage {
        return coverage(&loaded, args.format);
    }
    let children = !args.no_children
        && loaded.ingest.core().events.iter().any(|e| e.attr.sample_type & crate::kernel::attr::sample::CALLCHAIN != 0);
    let spec = TopSpec { keys: keys.clone(), children, order: Order::SelfTime, reversed: false };
    let limit = args.limit.unwrap_or(usize::MAX);
    let tops: Vec<(usize, Top)> =
        events(&loaded).into_iter().map(|event| (event, top(&loaded, event, filter.clone(), &spec))).collect();
    match args.format {
        Format::Json => {
            let lost = loaded.ingest.core().profile.ledger.lost_records;
            let list = tops
                .iter()
                .map(|(event, top)| json::event(loaded.data(), &loaded.event_names[*event], lost, top, &keys, limit))
                .collect();
            print(&format!("{}\n", serde_json::to_string_pretty(&json::report(&path.display().to_string(), list))?))?;
        }
        Format::Csv => {
            for (_, top) in &tops {
                print(&panel::top::table(loaded.data(), top, &keys, children, limit).to_csv())?;
            }
        }
        Format::Text => {
            tops.iter().try_for_each(|(event, top)| print_text(&loaded, *event, top, &keys, children, limit))?
        }
    }
    Ok(0)
}

/// Samples of each CPU against what its rate would give.
fn coverage(loaded: &Loaded, format: Format) -> anyhow::Result<u8> {
    for event in events(loaded) {
        let attr = &loaded.ingest.core().events[event].attr;
        let hz = if attr.has(crate::kernel::attr::Flag::Freq) { attr.period_or_freq } else { 0 };
        let table = crate::analysis::coverage::table(loaded.data(), event, hz);
        match format {
            Format::Text => {
                print(&format!("# event {}\n{}\n", panel::text::clean(&loaded.event_names[event]), table.to_text()))?
            }
            Format::Csv => print(&table.to_csv())?,
            Format::Json => return Err(Usage("--coverage prints text or csv".into()).into()),
        }
    }
    Ok(0)
}

/// Events that have samples, or all when none has: side-band dummies are not worth a table.
fn events(loaded: &Loaded) -> Vec<usize> {
    let core = loaded.ingest.core();
    let is_dummy = |i: &usize| {
        core.events[*i].attr.kind == crate::kernel::attr::TYPE_SOFTWARE
            && core.events[*i].attr.config == crate::kernel::attr::SW_DUMMY
    };
    let all: Vec<usize> = (0..core.events.len()).collect();
    let real: Vec<usize> = all.iter().copied().filter(|i| !is_dummy(i)).collect();
    if real.is_empty() { all } else { real }
}

fn top(loaded: &Loaded, event: usize, filter: Option<Arc<Filter>>, spec: &TopSpec) -> Top {
    let mut fold = Fold::new(event, filter, spec.keys.contains(&Key::Cpu));
    fold.update(loaded.data(), u64::MAX);
    Top::build(loaded.data(), &fold, spec, usize::MAX)
}

fn print_text(
    loaded: &Loaded,
    event: usize,
    top: &Top,
    keys: &[Key],
    children: bool,
    limit: usize,
) -> anyhow::Result<()> {
    let lost = loaded.ingest.core().profile.ledger.lost_records;
    let name = panel::text::clean(&loaded.event_names[event]).into_owned();
    let head = format!(
        "# event {name}: {} samples, period {}, lost {}\n",
        panel::unit::thousands(top.total.samples),
        panel::unit::thousands(top.total.period),
        panel::unit::thousands(lost)
    );
    print(&head)?;
    print(&panel::top::table(loaded.data(), top, keys, children, limit).to_text())?;
    print("\n")
}

/// `perfprof-tui doctor`.
pub fn doctor(args: Doctor) -> anyhow::Result<u8> {
    let items = checks::examine();
    match args.format {
        Format::Text => print(&checks::text(&items))?,
        Format::Json => {
            let list: Vec<_> = items.iter().map(|i| serde_json::json!({ "name": i.name, "state": i.state.word(), "found": i.found, "remedy": i.remedy })).collect();
            print(&format!("{}\n", serde_json::to_string_pretty(&list)?))?;
        }
        Format::Csv => return Err(Usage("doctor prints text or json".into()).into()),
    }
    Ok(0)
}
