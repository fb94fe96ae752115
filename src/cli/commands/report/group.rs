//! `report --group`: the events of a group side by side, like in perf.

use crate::panel::Table;
use crate::report::head::EventGroup;
use crate::report::rows::ReportShape;
use crate::report::rows::group::GroupRows;
use crate::source::Info;

use crate::cli::args::{OutputFormat, ReportArgs};
use crate::cli::output::{print, print_csv};
use crate::cli::usage;

/// Returns the groups of a recording.
pub(super) fn of(info: &Info) -> Vec<EventGroup> {
    info.head.as_ref().and_then(|head| EventGroup::list(head)).unwrap_or_default()
}

fn has(group: &EventGroup, event: usize) -> bool {
    event.checked_sub(group.leader).is_some_and(|place| place < group.members)
}

/// Returns the name of an event's group, if it has one.
pub(super) fn name_of(groups: &[EventGroup], event: usize) -> Option<&str> {
    groups.iter().find(|group| has(group, event)).map(|group| &*group.name)
}

/// Divides events by their groups; without groups, all are one.
pub(super) fn divided(events: Vec<usize>, groups: &[EventGroup]) -> Vec<Vec<usize>> {
    if groups.is_empty() {
        return vec![events];
    }
    let mut sets: Vec<Vec<usize>> = Vec::new();
    for event in events {
        let group = groups.iter().find(|group| has(group, event));
        let same = |set: &&mut Vec<usize>| group.is_some_and(|group| has(group, set[0]));
        match sets.iter_mut().find(same) {
            Some(set) => set.push(event),
            None => sets.push(vec![event]),
        }
    }
    sets
}

/// Prints the rows of a group.
pub(super) fn print_rows(
    rows: &GroupRows<'_>,
    name: Option<&str>,
    args: &ReportArgs,
    shape: &ReportShape<'_>,
) -> anyhow::Result<()> {
    if shape.as_perf {
        return print(&rows.text_as_perf(name.unwrap_or_default(), shape));
    }
    let table = rows.table(shape);
    match args.format {
        OutputFormat::Text => {
            if !args.more.quiet {
                print(&rows.heading())?;
            }
            print(&(text(&table, args) + "\n"))
        }
        OutputFormat::Csv => print_csv(&table.to_csv()),
        OutputFormat::Json => Err(usage("--group: use --format text or csv; in JSON, each event has its rows")),
    }
}

fn text(table: &Table, args: &ReportArgs) -> String {
    let text = match &args.more.separator {
        Some(separator) => table.to_separated(separator),
        None => table.to_text_within(&args.more.column_widths),
    };
    match args.more.quiet {
        true => text.split_once('\n').map_or_else(String::new, |(_, rows)| rows.to_owned()),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_divided_by_their_groups() {
        assert_eq!(divided(vec![0, 1, 2], &[]), [[0, 1, 2]]);
        let group = |leader| EventGroup { name: String::new(), leader, members: 2 };
        let groups = [group(1), group(4)];
        assert_eq!(divided(vec![0, 1, 2, 3, 4], &groups), [vec![0], vec![1, 2], vec![3], vec![4]]);
    }
}
