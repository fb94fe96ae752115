//! `diff`: compares two recordings.

use std::collections::BTreeMap;
use std::io::Write;

use crate::engine::IntakeOptions;
use crate::engine::offline::Offline;
use crate::event::base_name;
use crate::export::{folded, svg};
use crate::lang::counted;
use crate::panel::printable::EscapeForm;
use crate::panel::row_order::arrange;
use crate::panel::text::clean;
use crate::panel::unit::thousands;
use crate::perfdata::SampleCount;
use crate::query::diff::go_exit;
use crate::query::diff::{DiffRow, DiffSide, NormalizeBy, diff};
use crate::query::rows::top_table::key_text;
use crate::query::{Aggregate, ColumnKey, Order, RowLimit, Top, TopSpec};
use crate::report::diff::{Compute, DiffTableShape, Row, object, ratio, table, weighted};
use crate::report::rows::options::ShareOf;

use crate::cli::args::{DiffArgs, DiffFormat, OrderSide, RecordingArgs};
use crate::cli::input::selection::{chosen_events, keys_of, main_event, note_main_event};
use crate::cli::output::{self, complain, print, print_csv, print_json, texts};
use crate::cli::{input, usage};

struct ComparedSide {
    loaded: Offline,
    event: usize,
    side: DiffSide,
    rows: Vec<(Vec<String>, crate::profile::Acc)>,
}

pub(crate) fn run(mut args: DiffArgs) -> anyhow::Result<u8> {
    let mut sides = [args.old, args.new];
    args.store.move_into(&mut sides);
    if let Some(why) = args.store.misplaced(&sides) {
        return Err(usage(why));
    }
    [args.old, args.new] = sides;
    let keys = keys_of(&args.sort)?;
    args.which.check()?;
    let per = args.per;
    let (old, new) = (load(&args, &args.old, &keys)?, load(&args, &args.new, &keys)?);
    let events = paired(&args, &old, &new)?;
    let skips_go_exit = go_exit::is_missing(new.data(), old.data());
    let side = |loaded, event| ComparedSide::of(&args, loaded, event, &keys, skips_go_exit);
    let (old, new) = (side(old, events[0])?, side(new, events[1])?);
    if matches!(args.format, DiffFormat::Folded | DiffFormat::Svg) {
        return stacks(&args, &old, &new, skips_go_exit);
    }
    if per == NormalizeBy::Second {
        for (path, side) in [(&args.old, old.side), (&args.new, new.side)] {
            if side.seconds == 0.0 && !side.total.is_zero() {
                let path = path.display();
                return Err(usage(format!(
                    "--per second: the samples of {path} span no time; compare shares with --per total"
                )));
            }
        }
    }
    let rows = diff((&old.side, &old.rows), (&new.side, &new.rows), per);
    let mut rows: Vec<Row> = rows.into_iter().filter(|row| !args.baseline_only || row.old.samples > 0).collect();
    // The sort is stable: equal rows stay sorted by the largest difference.
    let most: Option<&dyn Fn(&Row) -> f64> = match args.compute {
        _ if args.order == Some(OrderSide::Old) => Some(&|row| row.old_value),
        Compute::DeltaAbs => None,
        Compute::Delta => Some(&DiffRow::delta),
        Compute::Ratio => Some(&ratio),
        Compute::Weighted(before, after) => Some(&move |row| weighted(row, before, after) as f64),
    };
    if let Some(value) = most {
        arrange(&mut rows, |a, b| value(b).total_cmp(&value(a)));
    }
    let shape = DiffTableShape {
        per,
        compute: args.compute,
        formula: args.formula,
        periods: args.period,
        totals: [old.side, new.side],
    };
    let rows: Vec<&Row> = rows.iter().take(args.limit.unwrap_or(usize::MAX)).collect();
    match args.format {
        DiffFormat::Json => {
            let list: Vec<_> = rows.iter().map(|r| object(r, &keys, shape.totals)).collect();
            let side = |path: &std::path::Path, one: &ComparedSide| {
                serde_json::json!({ "file": path.display().to_string(), "event": one.loaded.event_names[one.event],
                    "samples": one.side.samples(one.side.total), "period": one.side.total.period, "seconds": one.side.seconds })
            };
            let all = serde_json::json!({ "old": side(&args.old, &old), "new": side(&args.new, &new),
                "per": per.unit_label(), "test": "two-proportion z, 95 %", "rows": list });
            print_json(&all)?;
        }
        DiffFormat::Csv => print_csv(&table(&rows, &keys, &shape).to_csv())?,
        DiffFormat::Text if args.separator.is_some() => {
            let separator = args.separator.as_deref().unwrap_or_default();
            print(&table(&rows, &keys, &shape).to_separated(separator))?;
        }
        _ => {
            let side = |name: &str, path: &std::path::Path, one: &ComparedSide| {
                let meaning = one.loaded.data().meaning(one.event);
                let (n, noun) = one.side.total.counted(meaning.count);
                let total = match meaning.is_value {
                    true => format!(", total {}", meaning.unit.total(one.side.total.period, thousands)),
                    false => String::new(),
                };
                // Most profiles of other tools have no times.
                let has_times = !meaning.is_value || one.side.seconds > 0.0;
                let seconds = if has_times { format!(", {:.1} s", one.side.seconds) } else { String::new() };
                let (path, event) = (path.display().to_string(), clean(&one.loaded.event_names[one.event]));
                format!("# {name} {}: {} of {event}{total}{seconds}\n", clean(&path), counted(n, noun))
            };
            if !args.quiet {
                print(&side("old", &args.old, &old))?;
                print(&side("new", &args.new, &new))?;
                let is_tested = [&old, &new].iter().all(|one| one.side.stands_for != SampleCount::Unknown);
                let test = match is_tested {
                    true => "~ within chance (two-proportion z test, 95 %)",
                    false => "chance is not tested: the numbers of samples are unknown",
                };
                print(&format!("# values: {}.  ▲ grew  ▼ shrank  + new  - gone  {test}\n", per.unit_label()))?;
            }
            let text = table(&rows, &keys, &shape).to_text();
            print(match (rows.is_empty(), args.quiet) {
                (true, true) => "",
                (true, false) => "no differences\n",
                (false, true) => text.split_once('\n').map_or("", |(_, rows)| rows),
                (false, false) => &text,
            })?;
        }
    }
    std::mem::forget((old, new));
    Ok(0)
}

fn load(args: &DiffArgs, path: &std::path::Path, keys: &[ColumnKey]) -> anyhow::Result<Offline> {
    let recording = RecordingArgs::from_files(vec![path.to_owned()], args.names.clone());
    let opened = match args.quiet {
        true => input::open_silently(&recording, args.no_demangle)?.0,
        false => input::open(&recording, args.no_demangle)?,
    };
    opened.load(IntakeOptions {
        chains: args.children
            || matches!(args.format, DiffFormat::Folded | DiffFormat::Svg)
            || args.which.filter.is_some(),
        traces: keys.contains(&ColumnKey::Trace),
        fields: args.which.needs_fields() || keys.iter().any(|key| key.traced().is_some()),
        ..IntakeOptions::default()
    })
}

/// Returns the event of each recording to compare: the first pair with the same name without modifiers, like perf.
fn paired(args: &DiffArgs, old: &Offline, new: &Offline) -> anyhow::Result<[usize; 2]> {
    let (of_old, of_new) = (chosen_events(old, &args.which)?, chosen_events(new, &args.which)?);
    let partner = |event: &usize| {
        let name = &old.event_names[*event];
        let is = |like: &dyn Fn(&str) -> bool| of_new.iter().copied().find(|other| like(&new.event_names[*other]));
        is(&|other| other == name).or_else(|| is(&|other| base_name(other) == base_name(name)))
    };
    let in_both: Vec<usize> = of_old.iter().copied().filter(|event| partner(event).is_some()).collect();
    if let Some(event) = main_event(old, &in_both)
        && let Some(other) = partner(&event)
    {
        if !args.quiet {
            note_main_event("compared", old, event, &in_both);
        }
        return Ok([event, other]);
    }
    let none = |path: &std::path::Path| anyhow::anyhow!("{} has no events", path.display());
    let event = main_event(old, &of_old).ok_or_else(|| none(&args.old))?;
    let other = main_event(new, &of_new).ok_or_else(|| none(&args.new))?;
    let names = (&old.event_names[event], &new.event_names[other]);
    complain(&format!("comparing {} with {}; choose another event with --event", names.0, names.1));
    Ok([event, other])
}

impl ComparedSide {
    fn of(
        args: &DiffArgs,
        loaded: Offline,
        event: usize,
        keys: &[ColumnKey],
        skips_go_exit: bool,
    ) -> anyhow::Result<Self> {
        let filter = args.which.filter(&loaded)?;
        let fold = Aggregate::new(event, filter).group_by(keys).over(loaded.data());
        let spec =
            TopSpec { keys: keys.to_vec(), children: args.children, order: Order::SelfTime, ..TopSpec::default() };
        let top = Top::build(loaded.data(), &fold, None, &spec, RowLimit::First(usize::MAX));
        let covered = loaded.data().covered(u64::MAX);
        let seconds = covered.map_or(0.0, |(from, until)| until.saturating_sub(from) as f64 / 1e9);
        let key = |row: &crate::query::TopRow| -> Vec<String> {
            keys.iter().map(|k| key_text(loaded.data(), &top, row, *k)).collect()
        };
        let weight = |row: &crate::query::TopRow| if args.children { row.children } else { row.own };
        let is_left_out = |row: &crate::query::TopRow| skips_go_exit && go_exit::is_row(loaded.data(), &top, row);
        let rows = top.rows.iter().filter(|r| !weight(r).is_zero() && !is_left_out(r));
        let rows = rows.map(|r| (key(r), weight(r))).collect();
        let mut total = top.total;
        if args.percentage.unwrap_or(args.which.usual_shares()) == ShareOf::Absolute {
            total = Aggregate::new(event, args.which.of_times_and_cpus().filter(&loaded)?).over(loaded.data()).total();
        }
        let meaning = loaded.data().meaning(event);
        let side = DiffSide { total, seconds, stands_for: meaning.count, unit: meaning.unit };
        Ok(Self { event, side, rows, loaded })
    }
}

/// Returns a line of folded stacks without the outermost function of goroutines.
fn without_go_exit(line: &str) -> String {
    line.split(';').filter(|frame| *frame != go_exit::GO_EXIT).collect::<Vec<_>>().join(";")
}

/// Writes folded stacks with both weights, like difffolded.pl (`stack old new`), or their flame graph.
fn stacks(args: &DiffArgs, old: &ComparedSide, new: &ComparedSide, skips_go_exit: bool) -> anyhow::Result<u8> {
    let mut merged: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (is_new, one) in [(false, old), (true, new)] {
        let filter = args.which.filter(&one.loaded)?;
        // Counts of texts may have different numbers of decimals.
        let decimals = old.side.unit.scale().max(new.side.unit.scale()) / one.side.unit.scale();
        // Shares are scaled to the new recording's weight, so that the numbers are integers.
        let scale = match args.per {
            NormalizeBy::Total => new.side.total.period as f64 / one.side.total.period.max(1) as f64,
            NormalizeBy::Second if one.side.seconds > 0.0 => decimals / one.side.seconds,
            _ => decimals,
        };
        folded::lines(one.loaded.data(), one.event, filter, false, |line, n| {
            let line = if skips_go_exit { without_go_exit(line) } else { line.to_owned() };
            let entry = merged.entry(line).or_default();
            *(if is_new { &mut entry.1 } else { &mut entry.0 }) += n as f64 * scale;
            Ok(())
        })?;
    }
    let lines: Vec<String> = merged.iter().map(|(line, (a, b))| format!("{line} {a:.0} {b:.0}")).collect();
    let title = format!("{} to {}", args.old.display(), args.new.display());
    let write = |out: &mut dyn Write| -> std::io::Result<()> {
        match args.format {
            DiffFormat::Svg => svg::write_lines(&lines, &title, &new.loaded.event_names[new.event], out),
            _ => lines.iter().try_for_each(|line| writeln!(out, "{line}")),
        }
    };
    match &args.output {
        None => {
            let mut out = texts(EscapeForm::Text);
            write(&mut out)?;
            out.finish()?;
        }
        Some(path) => output::file(path, Some(EscapeForm::Text), |out| Ok(write(out)?))?,
    }
    if lines.is_empty() {
        return Err(usage("no samples of either recording pass the filters"));
    }
    Ok(0)
}
