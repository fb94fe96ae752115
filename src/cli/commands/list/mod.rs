//! `list`: prints the events of this machine.

pub(crate) mod containers;

use crate::event::catalogue::{self, CatalogueEvent, EventKind};
use crate::event::spec::LookupPaths;
use crate::kernel::sys::RealSys;
use crate::panel::Table;

use crate::cli::Usage;
use crate::cli::args::ListArgs;
use crate::cli::output::{complain, print_table};

pub(crate) fn run(args: ListArgs) -> anyhow::Result<u8> {
    if args.globs == ["containers"] {
        return containers::run(args.format);
    }
    let globs = args.globs.iter().map(|text| matcher(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let places = LookupPaths::system();
    let wanted = |entry: &CatalogueEvent| {
        let is = |(text, glob): &(String, globset::GlobMatcher)| match of_perf(text) {
            Some(sort) => entry.sort.word() == sort,
            None => glob.is_match(&entry.name) || entry.sort.word() == text.as_str() || entry.group == *text,
        };
        globs.is_empty() || globs.iter().any(is)
    };
    let list: Vec<CatalogueEvent> = catalogue::all(&places, &RealSys).into_iter().filter(wanted).collect();
    if let Err(why) = &places.tracefs {
        complain(&format!("no tracepoints: {why}"));
    }
    let lacking: Vec<&str> = args.globs.iter().filter_map(|word| lacking(word)).collect();
    if list.is_empty() && !lacking.is_empty() {
        lacking.iter().for_each(|why| complain(why));
        return Ok(0);
    }
    let mut table = table(&places, &list);
    if args.no_desc {
        table.columns.truncate(DESCRIPTION);
        table.rows.iter_mut().for_each(|row| row.truncate(DESCRIPTION));
    }
    print_table(&table, args.format)?;
    if list.is_empty() {
        complain(&format!("no events match {}", args.globs.join(" ")));
        return Ok(1);
    }
    Ok(0)
}

/// Returns the group of events of perf's word for it, or ours.
fn of_perf(word: &str) -> Option<&'static str> {
    Some(match word {
        "hw" | "hardware" => "hardware",
        "sw" | "software" => "software",
        "cache" | "hwcache" => "cache",
        "pmu" => "pmu",
        "tracepoint" => "tracepoint",
        _ => return None,
    })
}

/// Returns why a group of events is empty.
fn lacking(word: &str) -> Option<&'static str> {
    match word {
        "sdt" => Some("list static probes by file: perfprof-tui probe -x FILE -l"),
        "metric" | "metrics" | "metricgroup" | "metricgroups" => {
            Some("metrics of CPU models are not computed; `perfprof-tui list pmu` lists their events")
        }
        "hw" | "hardware" | "cache" | "hwcache" | "pmu" => {
            Some("this machine has no hardware counters; see perfprof-tui doctor")
        }
        _ => None,
    }
}

fn matcher(text: &str) -> anyhow::Result<(String, globset::GlobMatcher)> {
    let pattern = if text.contains(['*', '?', '[']) { text.to_owned() } else { format!("*{}*", globset::escape(text)) };
    let glob = globset::GlobBuilder::new(&pattern).literal_separator(false).case_insensitive(true).build();
    let glob = glob.map_err(|e| Usage(format!("list {text}: not a glob: {}", e.kind())))?;
    Ok((text.to_owned(), glob.compile_matcher()))
}

const DESCRIPTION: usize = 2;

fn table(places: &LookupPaths, list: &[CatalogueEvent]) -> Table {
    let about = |entry: &CatalogueEvent| match (entry.sort, entry.missing) {
        (EventKind::Tracepoint, _) => catalogue::fields(places, &entry.name).unwrap_or_default().join(", "),
        (_, "") => entry.about.clone(),
        (_, missing) => format!("{} ({missing})", entry.about),
    };
    let row = |entry: &CatalogueEvent| [entry.name.clone(), entry.sort.word().to_owned(), about(entry)];
    let columns = [("event", "Event"), ("sort", "Sort"), ("about", "Description or fields")];
    Table::of_texts(columns, list.iter().map(row))
}
