//! `usdt list`, `add` and `del`: persistent events for a program's static probes, under their own names.

use std::path::{Path, PathBuf};

use crate::event::probe::elf;
use crate::event::probe::{self, as_name, tracefs};
use crate::panel::Table;

use crate::cli::args::OutputFormat;
use crate::cli::commands::probe::places::root;
use crate::cli::output::{complain, print, print_table};
use crate::cli::usage;

/// Action of the words after `usdt`, instead of a unit.
pub(crate) const VERBS: [&str; 3] = ["list", "add", "del"];

pub(crate) fn run(words: &[PathBuf], format: OutputFormat) -> anyhow::Result<u8> {
    let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match texts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => made(format),
        ["list", place] => listed(place, format),
        ["add", place] => add(place),
        ["del", event] => del(event),
        ["add" | "del"] => Err(usage(format!("usdt {}: expected PROVIDER:NAME@FILE or PROVIDER:NAME", texts[0]))),
        [verb, ..] => Err(usage(format!("usdt {verb}: expected one probe; its arguments are predefined"))),
        [] => Err(usage("usdt: expected list, add or del")),
    }
}

/// `[PROVIDER:NAME@]FILE`.
fn parts(place: &str) -> (Option<&str>, &Path) {
    match place.split_once('@').filter(|(event, _)| event.contains(':') && !event.contains('/')) {
        Some((event, file)) => (Some(event), Path::new(file)),
        None => (None, Path::new(place)),
    }
}

fn table(rows: Vec<[String; 2]>, format: OutputFormat) -> anyhow::Result<u8> {
    print_table(&Table::of_texts([("event", "Event"), ("what", "Arguments")], rows), format).map(|()| 0)
}

fn listed(place: &str, format: OutputFormat) -> anyhow::Result<u8> {
    let (event, path) = parts(place);
    let probes = elf::static_probes(path).map_err(anyhow::Error::msg)?;
    let wanted = |known: &str| event.is_none_or(|event| event == known);
    let found = probes.iter().filter(|probe| wanted(&probe.event()));
    let rows: Vec<[String; 2]> = found.map(|probe| [probe.event(), probe.operands.join(" ")]).collect();
    if rows.is_empty() {
        complain(&format!("{place}: no {}", event.map_or("static probes", |_| "such static probe")));
    }
    table(rows, format)
}

fn made(format: OutputFormat) -> anyhow::Result<u8> {
    let known = tracefs::list(&root()?)?;
    table(known.iter().map(|probe| [probe.event(), probe.what.clone()]).collect(), format)
}

fn add(place: &str) -> anyhow::Result<u8> {
    let (Some(event), path) = parts(place) else {
        return Err(usage(format!("usdt add {place}: expected PROVIDER:NAME@FILE; list probes with usdt list FILE")));
    };
    let root = root()?;
    let group = as_name(event.split(':').next().unwrap_or_default());
    let probes = elf::static_probes(path).map_err(anyhow::Error::msg)?;
    let path = path.canonicalize()?;
    let places: Vec<probe::Probe> =
        probes.iter().filter(|p| p.event() == event).map(|p| p.probe(&path, &group)).collect();
    let Some((made, more)) = places.split_first() else {
        return Err(anyhow::anyhow!("{}: no static probe {event}", path.display()));
    };
    tracefs::add(&root, made).map_err(anyhow::Error::msg)?;
    // An inlined probe has several places; the kernel joins those with the same arguments.
    let joined = more.iter().filter(|probe| tracefs::add(&root, probe).is_ok()).count();
    if joined < more.len() {
        complain(&format!(
            "{event}: probed at {} of its {} places; at the others its arguments are stored elsewhere",
            joined + 1,
            places.len()
        ));
    }
    print(&format!("{}\n", made.event()))?;
    complain(&format!("measure it with -e {0}; remove it with usdt del {0}", made.event()));
    Ok(0)
}

fn del(event: &str) -> anyhow::Result<u8> {
    let event = event.split('@').next().unwrap_or(event);
    let (group, name) =
        event.split_once(':').ok_or_else(|| usage(format!("usdt del {event}: expected PROVIDER:NAME")))?;
    let event = format!("{}:{}", as_name(group), as_name(name));
    let gone = tracefs::remove(&root()?, &|known| known.event() == event).map_err(anyhow::Error::msg)?;
    if gone.is_empty() {
        return Err(anyhow::anyhow!("no probe {event}; list existing probes with usdt list"));
    }
    gone.iter().try_for_each(|probe| print(&format!("{}\n", probe.event())))?;
    Ok(0)
}
