//! `report`: the rows of each event; results go to standard output, messages to standard error.

mod call_graph;
pub(crate) mod dump;
mod group;
mod hardware;
mod side;

use std::path::PathBuf;

use regex::Regex;

use crate::engine::IntakeOptions;
use crate::engine::offline::Offline;
use crate::event::base_name;
use crate::filter::ChosenFunctions;
use crate::kernel::attr::{TYPE_TRACEPOINT, sample};
use crate::lang::{counted, nearest_hint};
use crate::panel;
use crate::perfdata::EventDesc;
use crate::profile::SymId;
use crate::query::rows::top_table::TopField;
use crate::query::stack_gaps;
use crate::query::tree::heaviest_chain::ApartBy;
use crate::query::tree::stack_marks::{StackMarks, StackRules};
use crate::query::{ColumnKey, column};
use crate::report::head::{self, EventGroup};
use crate::report::json;
use crate::report::rows::columns::RequestedColumns;
use crate::report::rows::group::GroupRows;
use crate::report::rows::options::ShareOf;
use crate::report::rows::samples::SelectedSamples;
use crate::report::rows::stdio::{self, OnlyValue};
use crate::report::rows::{EventRows, ReportShape};
use crate::source::Info;

pub(crate) use crate::cli::input::selection::{chosen_events, events, keys_of};

use crate::cli::args::{OutputFormat, RecordingArgs, ReportArgs, SelectionArgs};
use crate::cli::input::selection::{check_latency, is_dummy};
use crate::cli::output::{complain, has_terminal, print, print_events_csv, print_json};
use crate::cli::{input, usage};
use hardware::HardwareReport;

fn is_recorded(loaded: &Offline, name: &str) -> anyhow::Result<()> {
    let Some((event, field)) = name.split_once('.') else { return Ok(()) };
    let events: Vec<&str> = loaded
        .event_names
        .iter()
        .map(|name| base_name(name))
        .map(|name| name.split_once(':').map_or(name, |n| n.1))
        .collect();
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

fn own_keys(info: &Info, as_perf: bool) -> Vec<ColumnKey> {
    // perf also shows the fields of tracepoints by default, because their addresses say little.
    let keys = if only_tracepoints(&info.events) {
        if as_perf { vec![ColumnKey::Trace] } else { vec![ColumnKey::Comm, ColumnKey::Trace] }
    } else {
        vec![ColumnKey::Comm, ColumnKey::Dso, ColumnKey::Sym]
    };
    if info.hosts.are_many() { [vec![ColumnKey::Host], keys].concat() } else { keys }
}

/// perf's default pattern of a parent.
const PARENT: &str = "^sys_|^do_page_fault";

/// Returns the rules for stacks; `by_parent` if parents identify rows.
fn stack_rules(args: &ReportArgs, by_parent: bool) -> anyhow::Result<StackRules> {
    let more = &args.more;
    let read = |option: &str, text: Option<&str>| {
        text.map(Regex::new).transpose().map_err(|error| usage(format!("{option}: {error}")))
    };
    let usual = (by_parent || more.exclude_other).then_some(PARENT);
    Ok(StackRules {
        parent: read("--parent", more.parent.as_deref().or(usual))?,
        ignore_callees: read("--ignore-callees", more.ignore_callees.as_deref())?,
        only_with_parent: more.exclude_other,
        only_named: more.hide_unresolved,
    })
}

pub(crate) fn run(args: ReportArgs) -> anyhow::Result<u8> {
    let hardware = HardwareReport::of(&args)?;
    // --stdio prints tables in perf's layout.
    let as_perf = args.stdio && args.format == OutputFormat::Text;
    let for_scripts = as_perf || call_graph::has_word(&args, "folded");
    let typed = match hardware {
        Some(_) => RequestedColumns::default(),
        None => {
            RequestedColumns::of(args.sort.as_deref(), &args.more, args.samples, for_scripts, as_perf).map_err(usage)?
        }
    };
    let by_stack = args.which.check()?.is_some_and(|f| f.needs_chains());
    let rules = stack_rules(&args, typed.by_parent())?;
    let opened = match args.more.quiet {
        true => input::open_silently(&args.recording, args.frames.no_demangle)?.0,
        false => input::open(&args.recording, args.frames.no_demangle)?,
    };
    if args.more.header_only {
        return header(&args.recording, &opened);
    }
    if args.dump {
        return dump::print(opened);
    }
    if args.more.mmaps || args.more.tasks || args.more.stats {
        return side::print_list(&args.more, opened, args.format);
    }
    let by_itself = || HardwareReport::by_itself(&args, opened.source.info());
    if let Some(hardware) = hardware {
        let of_branches = hardware.is_of_any_sample().then(by_itself).flatten();
        return of_branches.unwrap_or(hardware).run(&args, opened);
    }
    if let Some(branches) = by_itself() {
        complain("a recording of branches: this is a table of branches; use --no-branch-stack for functions");
        return branches.run(&args, opened);
    }
    let info = opened.source.info();
    let own = if args.branch_history { vec![ColumnKey::Sym, ColumnKey::Dso] } else { own_keys(info, as_perf) };
    let children = !args.no_children && (info.chains || args.branch_history) && !typed.by_leaf();
    if typed.by_leaf() && args.children {
        complain("--children has no effect: lines and sizes belong to the sampled code, so rows count no callees");
    }
    let columns = typed.columns(own, children);
    let keys = columns.keys.clone();
    let by_children = children && (args.children || as_perf);
    let shows_latency = columns.fields.iter().chain(&columns.order).any(|field| *field == TopField::Latency)
        || keys.contains(&column::traced(column::PARALLELISM));
    let has_chains = info.chains || args.branch_history;
    let chains = call_graph::of(&args, children, as_perf && has_chains && !args.hierarchy)?;
    let wants = IntakeOptions {
        chains: children || chains.is_some() || by_stack || rules.need_chains(),
        traces: keys.contains(&ColumnKey::Trace),
        fields: args.which.needs_fields() || keys.iter().any(|key| key.traced().is_some()),
        inline: args.frames.inline,
        lines: keys.iter().any(|key| key.is_of_line()) || chains.is_some_and(|spec| spec.apart != ApartBy::Nothing),
        history: args.branch_history,
        max_stack: args.more.max_stack,
        ..IntakeOptions::default()
    };
    if (args.header || args.more.show_info) && args.format == OutputFormat::Text {
        header(&args.recording, &opened)?;
        print("#\n")?;
    }
    if call_graph::has_word(&args, "branch") && has_sampled(info, sample::BRANCH_STACK) {
        complain("-g branch has no effect; use -b for the predictions of branches");
    }
    // Without events, it is unknown before samples are read.
    let lacks_cgroups = !info.events.is_empty() && !has_sampled(info, sample::CGROUP);
    if keys.contains(&ColumnKey::Cgroup) && lacks_cgroups {
        complain("the samples have no cgroups; record them with record --all-cgroups");
    }
    // Like perf, its layout has the events of a recorded group side by side.
    let groups = (args.more.group || shows_as_perf(&args) && !args.more.no_group).then(|| group::of(info));
    let groups = groups.filter(|groups| args.more.group || !groups.is_empty());
    let name = opened.name.clone();
    let (opened, counts) = side::ThreadReport::watch(opened, args.more.threads);
    let loaded = opened.load(wants)?;
    if let Some(counts) = counts.as_ref().filter(|_| args.format != OutputFormat::Text) {
        return counts.print(&loaded, args.format);
    }
    keys.iter().filter_map(|key| key.traced()).try_for_each(|name| is_recorded(&loaded, name))?;
    if shows_latency {
        check_latency(&loaded)?;
    }
    let gaps = loaded.ingest.core().profile.ledger.parallelism_gaps;
    if (shows_latency || args.which.parallelism.is_some()) && gaps > 0 {
        let times = counted(gaps, "time");
        complain(&format!("latency is inexact: records were lost {times}, perhaps context switches"));
    }
    if args.coverage {
        return coverage(&loaded, args.format);
    }
    if has_chains {
        stack_gaps::of_processes(loaded.data()).iter().for_each(|note| complain(note));
    }
    let which = &args.which;
    // Several functions may match a glob, or a name without its file.
    let frames = &loaded.data().profile.frames;
    let is_whole = |name: &&str| (0..frames.n_syms() as u32).any(|sym| *frames.sym(SymId(sym)).name() == **name);
    let symbols = which.symbols.as_deref().filter(is_whole);
    let only = OnlyValue::of(&keys, which.comms.as_deref(), which.dsos.as_deref(), symbols);
    let first_key = args.sort.as_ref().and_then(|sort| ColumnKey::parse_list(sort.split(',').next()?).ok());
    let shape = ReportShape {
        options: &args.more,
        columns,
        children,
        by_children,
        as_perf: shows_as_perf(&args),
        hierarchy: args.hierarchy,
        percent_limit: args.percent_limit,
        limit: args.limit.unwrap_or(usize::MAX),
        chains,
        skips_row: args.more.fields.is_none() && first_key.is_some_and(|keys| keys == [ColumnKey::Sym]),
        time: which.time.as_deref(),
        only,
        dsos: which.dsos.as_deref(),
        symbols: which.symbols.as_deref().map(ChosenFunctions::of),
    };
    print_events(&loaded, &name, &args, &rules, (&shape, groups.as_deref()))?;
    let code = match counts {
        Some(counts) => counts.print(&loaded, args.format)?,
        None => loaded.exit_code(),
    };
    if args.format == OutputFormat::Text && !args.stdio && !args.more.quiet && has_terminal() {
        on_screens(&args.recording.paths()).iter().for_each(|hint| complain(hint));
    }
    // Freeing millions of small allocations would only delay the exit.
    std::mem::forget(loaded);
    Ok(code)
}

/// Returns the command that shows recordings on screens, as perf report does; a stream can be read only once.
fn on_screens(paths: &[PathBuf]) -> Option<String> {
    let words: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let files = shlex::try_join(words.iter().map(String::as_str)).ok()?;
    (!words.iter().any(|word| word == "-")).then(|| format!("on screens, with flame graphs: perfprof-tui open {files}"))
}

/// Returns whether tables have perf's layout.
fn shows_as_perf(args: &ReportArgs) -> bool {
    args.stdio && args.format == OutputFormat::Text && args.more.separator.is_none() && !args.hierarchy
}

fn has_sampled(info: &Info, bit: u64) -> bool {
    info.events.iter().any(|event| event.attr.sample_type & bit != 0)
}

fn print_events(
    loaded: &Offline,
    name: &str,
    args: &ReportArgs,
    rules: &StackRules,
    (shape, groups): (&ReportShape<'_>, Option<&[EventGroup]>),
) -> anyhow::Result<()> {
    let has_rules = rules.need_chains() || rules.only_named;
    let marks = has_rules.then(|| StackMarks::new(loaded.data().profile, rules));
    let samples = SelectedSamples { filter: args.which.filter(loaded)?, marks };
    let is_absolute = samples.is_filtered() && share_of(args) == ShareOf::Absolute;
    let whole = is_absolute.then(|| whole(loaded, &args.which, rules)).transpose()?;
    if shape.as_perf && !args.more.quiet {
        let lost = |event| loaded.ingest.core().profile.ledger.lost_of(event);
        print(&stdio::head(events(loaded).into_iter().map(lost).sum(), &shape.only))?;
    }
    let (mut objects, mut tables, mut is_empty) = (Vec::new(), Vec::new(), true);
    let chosen = chosen_events(loaded, &args.which)?;
    let sets = match groups {
        Some(groups) => group::divided(chosen, groups),
        None => chosen.into_iter().map(|event| vec![event]).collect(),
    };
    for set in sets {
        let rows = |event: &usize| EventRows::new(loaded, *event, &samples, whole.as_ref(), shape);
        let [event] = set[..] else {
            let rows = GroupRows(set.iter().map(rows).collect());
            is_empty &= rows.is_empty();
            group::print_rows(&rows, groups.and_then(|groups| group::name_of(groups, set[0])), args, shape)?;
            continue;
        };
        let rows = rows(&event).limited(shape.percent_limit);
        is_empty &= rows.is_empty();
        match args.format {
            OutputFormat::Json => objects.push(rows.object(shape)),
            OutputFormat::Csv => tables.push((&*loaded.event_names[event], rows.table().table(shape.limit))),
            OutputFormat::Text => rows.write(shape, print)?,
        }
        std::mem::forget(rows);
    }
    if samples.is_filtered() && !args.which.warn_of_unknown_names(loaded) && is_empty {
        let callees = if args.which.symbols.is_some() { "; --where 'stack ~ \"NAME*\"' includes callees" } else { "" };
        complain(&format!("no samples match the filters{callees}"));
    }
    match args.format {
        OutputFormat::Json => print_json(&json::report(name, objects)),
        OutputFormat::Csv => {
            print_events_csv(tables)?;
            if shape.chains.is_some() {
                complain("CSV has no call chains; use --format json, or export --to folded for whole stacks");
            }
            Ok(())
        }
        OutputFormat::Text => Ok(()),
    }
}

/// Returns the base of percentages: perf's default in perf's layout.
fn share_of(args: &ReportArgs) -> ShareOf {
    let is_perfs = args.stdio && args.format == OutputFormat::Text;
    let usual = if is_perfs { ShareOf::Absolute } else { args.which.usual_shares() };
    args.more.percentage.unwrap_or(usual)
}

/// Returns the samples that absolute percentages are relative to. Like perf, these lack the samples outside of the
/// selected times and CPUs, and those that --hide-unresolved leaves out.
fn whole(loaded: &Offline, which: &SelectionArgs, rules: &StackRules) -> anyhow::Result<SelectedSamples> {
    let filter = which.of_times_and_cpus().filter(loaded)?;
    let rules = StackRules { parent: None, only_with_parent: false, ..rules.clone() };
    let marks = rules.only_named.then(|| StackMarks::new(loaded.data().profile, &rules));
    Ok(SelectedSamples { filter, marks })
}

fn only_tracepoints(events: &[EventDesc]) -> bool {
    let mut real = events.iter().filter(|e| !is_dummy(e)).peekable();
    real.peek().is_some() && real.all(|e| e.attr.kind == TYPE_TRACEPOINT)
}

fn header(recording: &RecordingArgs, opened: &input::Opened) -> anyhow::Result<u8> {
    let written = recording.written().map(|seconds| ("captured on".to_owned(), head::time(seconds)));
    for (what, value) in written.iter().chain(&opened.source.info().facts) {
        print(&format!("# {what:18} : {}\n", panel::text::clean(value)))?;
    }
    Ok(0)
}

/// Prints the samples of each CPU and the number expected from its rate.
fn coverage(loaded: &Offline, format: OutputFormat) -> anyhow::Result<u8> {
    let mut tables = Vec::new();
    for event in events(loaded) {
        let attr = &loaded.ingest.core().events[event].attr;
        let hz = if attr.has(crate::kernel::attr::Flag::Freq) { attr.period_or_freq } else { 0 };
        let table = crate::machine::coverage::table(loaded.data(), event, hz);
        match format {
            OutputFormat::Text => {
                print(&format!("# event {}\n{}\n", panel::text::clean(&loaded.event_names[event]), table.to_text()))?
            }
            OutputFormat::Csv => tables.push((&*loaded.event_names[event], table)),
            OutputFormat::Json => return Err(usage("--coverage: use --format text or csv")),
        }
    }
    print_events_csv(tables)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::attr::{Attr, SW_BPF_OUTPUT, TYPE_SOFTWARE};

    #[test]
    fn shares_are_of_all_samples_in_perfs_layout() {
        use crate::cli::args::{Args, CliCommand};
        use clap::Parser;
        let base = |line: &str| match Args::try_parse_from(line.split(' ')).expect(line).command {
            Some(CliCommand::Report(args)) => share_of(&args),
            other => panic!("{other:?}"),
        };
        for (line, expected) in [
            ("perfprof-tui report x", ShareOf::Relative),
            ("perfprof-tui report x --stdio", ShareOf::Absolute),
            ("perfprof-tui report x --stdio --percentage relative", ShareOf::Relative),
            ("perfprof-tui report x --stdio --format json", ShareOf::Relative),
            ("perfprof-tui report x --percentage absolute", ShareOf::Absolute),
            ("perfprof-tui report x --dso libc.so.6", ShareOf::Absolute),
            ("perfprof-tui report x --comm app --format json", ShareOf::Absolute),
            ("perfprof-tui report x -S main --percentage relative", ShareOf::Relative),
            ("perfprof-tui report x --where user", ShareOf::Relative),
        ] {
            assert_eq!(base(line), expected, "{line}");
        }
    }

    #[test]
    fn a_report_names_the_command_of_the_screens() {
        let hint = |paths: &[&str]| on_screens(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert!(hint(&["a b.data", "c"]).is_some_and(|hint| hint.ends_with("perfprof-tui open 'a b.data' c")));
        assert_eq!(hint(&["-"]), None);
    }

    #[test]
    fn only_tracepoints_have_a_text() {
        let event = |kind, config| {
            let attr = Attr { kind, config, sample_type: sample::RAW, ..Attr::default() };
            EventDesc { name: "offcpu-time".into(), attr, ids: Vec::new() }
        };
        let [traced, off_cpu] = [event(TYPE_TRACEPOINT, 7), event(TYPE_SOFTWARE, SW_BPF_OUTPUT)];
        assert!(only_tracepoints(std::slice::from_ref(&traced)));
        assert!(!only_tracepoints(&[traced, off_cpu.clone()]) && !only_tracepoints(&[off_cpu]));
        assert!(!only_tracepoints(&[]));
    }
}
