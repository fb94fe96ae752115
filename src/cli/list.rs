//! `list`: the events of this machine.

use crate::event::catalogue::{self, CatalogueEvent, EventKind};
use crate::event::spec::LookupPaths;
use crate::panel::{Align, Cell, Column, Table};

use super::args::List;
use super::output::{complain, print_table};
use super::{Usage, list_containers};

/// `perfprof-tui list`.
pub(crate) fn run(args: List) -> anyhow::Result<u8> {
    if args.globs == ["containers"] {
        return list_containers::run(args.format);
    }
    let globs = args.globs.iter().map(|text| matcher(text)).collect::<anyhow::Result<Vec<_>>>()?;
    let places = LookupPaths::system();
    let wanted = |entry: &CatalogueEvent| {
        globs.is_empty()
            || globs.iter().any(|(text, glob)| {
                glob.is_match(&entry.name) || entry.sort.word() == text.as_str() || entry.group == *text
            })
    };
    let list: Vec<CatalogueEvent> = catalogue::all(&places).into_iter().filter(wanted).collect();
    if let Err(why) = &places.tracefs {
        complain(&format!("no tracepoints: {why}"));
    }
    let table = table(&places, &list);
    print_table(&table, args.format)?;
    if list.is_empty() {
        complain(&format!("no event matches {}", args.globs.join(" ")));
        return Ok(1);
    }
    Ok(0)
}

/// A glob, or the start or middle of a name as it is.
fn matcher(text: &str) -> anyhow::Result<(String, globset::GlobMatcher)> {
    let pattern = if text.contains(['*', '?', '[']) { text.to_owned() } else { format!("*{}*", globset::escape(text)) };
    let glob = globset::GlobBuilder::new(&pattern).literal_separator(false).case_insensitive(true).build();
    let glob = glob.map_err(|e| Usage(format!("list {text}: not a glob: {}", e.kind())))?;
    Ok((text.to_owned(), glob.compile_matcher()))
}

fn table(places: &LookupPaths, list: &[CatalogueEvent]) -> Table {
    let column = |name, title| Column::new(name, title, Align::Left, 0);
    let about = |entry: &CatalogueEvent| match (entry.sort, entry.missing) {
        (EventKind::Tracepoint, _) => catalogue::fields(places, &entry.name).unwrap_or_default().join(", "),
        (_, "") => entry.about.clone(),
        (_, missing) => format!("{} ({missing})", entry.about),
    };
    let row = |entry: &CatalogueEvent| {
        vec![
            Cell::Text(entry.name.as_str().into()),
            Cell::Text(entry.sort.word().into()),
            Cell::Text(about(entry).into()),
        ]
    };
    Table {
        columns: vec![
            column("event", "Event"),
            column("sort", "Sort"),
            column("about", "What it counts, or its fields"),
        ],
        rows: list.iter().map(row).collect(),
    }
}
