//! `report` of hardware data: branches (`-b`), memory accesses (`--mem-mode`), transactions.

use crate::engine::IntakeOptions;
use crate::ingest::hardware::HardwareWords;
use crate::kernel::attr::sample;
use crate::perfdata::PeriodMeaning;
use crate::perfdata::features::bit;
use crate::query::aggregate::filter_eval::FilterEvaluator;
use crate::report::hardware::{HardwareKey, HardwareRows, KEYS, Key, NeededField, usual};
use crate::report::json;
use crate::source::Info;
use crate::symbols::objects::Objects;

use crate::cli::args::{OutputFormat, ReportArgs};
use crate::cli::input::Opened;
use crate::cli::input::selection::{chosen_events, keys_of};
use crate::cli::output::{print, print_events_csv, print_json};
use crate::cli::usage;

pub(crate) struct HardwareReport {
    words: HardwareWords,
    keys: Vec<Key>,
    /// True if memory accesses are weighted by their cost.
    by_weight: bool,
}

impl HardwareReport {
    /// Returns the requested hardware data; `None` for a report of functions.
    pub(crate) fn of(args: &ReportArgs) -> anyhow::Result<Option<Self>> {
        let typed = args.sort.as_deref().unwrap_or_default();
        let own = |words| move |word: &str| Key::named(word.trim()).and_then(Key::words) == Some(words);
        let words = match (args.branch_stack, args.mem_mode) {
            (true, true) => return Err(usage("-b and --mem-mode cannot be combined")),
            (true, false) => HardwareWords::Branches,
            (false, true) => HardwareWords::Accesses,
            (false, false) if !args.no_branch_stack && typed.split(',').any(own(HardwareWords::Branches)) => {
                HardwareWords::Branches
            }
            (false, false) if KEYS.iter().any(|key| typed.split(',').any(own(key.of))) => HardwareWords::Accesses,
            (false, false) => return Ok(None),
        };
        Self::with(args, words).map(Some)
    }

    /// A recording of branches is shown as a table of branches by default.
    pub(crate) fn by_itself(args: &ReportArgs, info: &Info) -> Option<Self> {
        let of_functions = args.no_branch_stack
            || args.branch_history
            || args.children
            || args.hierarchy
            || args.coverage
            || args.call_graph.as_deref().is_some_and(|way| way != "none")
            || args.more.fields.is_some()
            || args.more.parent.is_some();
        let is_asked_for = info.head.as_ref().is_some_and(|head| head.features.get(bit::BRANCH_STACK).is_some());
        let has = |bit: u64| info.events.iter().any(|event| event.attr.sample_type & bit != 0);
        // Stack copies are recorded for call chains, so a report of functions is expected.
        let is_of_branches = is_asked_for && has(sample::BRANCH_STACK) && !has(sample::STACK_USER);
        let words = HardwareWords::Branches;
        (!of_functions && is_of_branches).then(|| Self::with(args, words).ok()).flatten()
    }

    fn with(args: &ReportArgs, words: HardwareWords) -> anyhow::Result<Self> {
        let typed = args.sort.as_deref().unwrap_or_default();
        let list = if typed.is_empty() { usual(words) } else { typed };
        let mut keys = Vec::new();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let Some(key) = Key::named(word) else { return Err(keys_of(word).err().unwrap_or_else(|| usage(word))) };
            match key.words() {
                Some(HardwareWords::Branches) if words != HardwareWords::Branches => {
                    return Err(usage(format!("--sort {word}: only for branches; use -b")));
                }
                Some(HardwareWords::Accesses) if words == HardwareWords::Branches && key.is_of_memory() => {
                    return Err(usage(format!("--sort {word}: not available for branches; omit -b")));
                }
                _ => keys.push(key),
            }
        }
        if words == HardwareWords::Accesses && !args.mem_mode && keys.iter().any(|key| key.is_of_memory()) {
            return Err(usage(format!("--sort {list}: only for memory accesses; use --mem-mode")));
        }
        Ok(Self { words, keys, by_weight: args.mem_mode })
    }

    /// Returns true if samples without branches have the requested data, too.
    pub(crate) fn is_of_any_sample(&self) -> bool {
        self.words == HardwareWords::Accesses && !self.by_weight
    }

    fn own_keys(&self) -> impl Iterator<Item = &'static HardwareKey> + '_ {
        self.keys.iter().filter_map(|key| match key {
            Key::Hardware(key) => Some(*key),
            Key::Column(_) => None,
        })
    }

    pub(crate) fn run(self, args: &ReportArgs, opened: Opened) -> anyhow::Result<u8> {
        let needed = match self.words {
            HardwareWords::Branches => Some(NeededField { bit: sample::BRANCH_STACK, what: "branches", option: "-b" }),
            HardwareWords::Accesses if self.by_weight => {
                Some(NeededField { bit: sample::DATA_SRC, what: "sources of data", option: "--data" })
            }
            HardwareWords::Accesses => None,
        };
        for NeededField { bit, what, option } in needed.into_iter().chain(self.own_keys().filter_map(|key| key.needs)) {
            if !opened.source.info().events.iter().any(|event| event.attr.sample_type & bit != 0) {
                return Err(usage(format!(
                    "{}: its samples have no {what}; record with `perf record {option}`",
                    opened.name
                )));
            }
        }
        let wants = IntakeOptions {
            chains: args.which.check()?.is_some_and(|filter| filter.needs_chains()),
            fields: args.which.needs_fields(),
            hardware: Some(self.words),
            lines: self.own_keys().any(|key| key.is_of_line),
            ..IntakeOptions::default()
        };
        let (name, mut objects) = (opened.name.clone(), Objects::new(opened.symbols.clone()));
        let loaded = opened.load(wants)?;
        let data = loaded.data();
        let filter = args.which.filter(&loaded)?.map(|filter| {
            let mut judge = FilterEvaluator::new(filter);
            judge.follow(data);
            judge
        });
        let Some(log) = loaded.ingest.core().hardware.as_ref() else { return Ok(0) };
        let (mut events, mut tables) = (Vec::new(), Vec::new());
        for event in chosen_events(&loaded, &args.which)? {
            let rows =
                HardwareRows::build(data, log, (event, filter.as_ref()), (&self.keys, self.by_weight), &mut objects);
            let table = rows.table(&self.keys, args.limit.unwrap_or(usize::MAX), args.percent_limit);
            let lost = loaded.ingest.core().profile.ledger.lost_of(event);
            let (name, total) = (&loaded.event_names[event], rows.total);
            match args.format {
                OutputFormat::Csv => tables.push((name.as_str(), table)),
                OutputFormat::Json => {
                    events.push(json::event(name, PeriodMeaning::default(), &total, lost, table.to_json()))
                }
                OutputFormat::Text => {
                    let what = if self.words == HardwareWords::Branches { "branch" } else { "sample" };
                    let line = json::event_line(name, what, PeriodMeaning::default(), &total, lost);
                    print(&format!("{line}{}\n", table.to_text()))?;
                }
            }
        }
        print_events_csv(tables)?;
        if matches!(args.format, OutputFormat::Json) {
            print_json(&json::report(&name, events))?;
        }
        Ok(loaded.exit_code())
    }
}
