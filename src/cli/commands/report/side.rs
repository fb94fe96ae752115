//! Reports without samples: threads and their counts, mappings, counts of records.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::IntakeOptions;
use crate::engine::offline::Offline;
use crate::query::Aggregate;
use crate::report::record_stats::RecordStats;
use crate::report::rows::options::ReportOptions;
use crate::report::tasks::TaskList;
use crate::report::thread_counts::{CountRecords, ThreadCounts};

use super::events;
use crate::cli::args::OutputFormat;
use crate::cli::input::Opened;
use crate::cli::output::{complain, print, print_table};

/// Prints threads, mappings, or counts of records, whichever the options request.
pub(super) fn print_list(options: &ReportOptions, opened: Opened, format: OutputFormat) -> anyhow::Result<u8> {
    let stats = Arc::new(Mutex::new(RecordStats::default()));
    let counted = stats.clone();
    let opened = opened.watched(move |batch| counted.lock().count(&batch.bytes));
    let loaded = opened.load(IntakeOptions { chains: false, fields: false, ..IntakeOptions::default() })?;
    let list = TaskList::of(&loaded.ingest.core().session);
    let samples = |event| Aggregate::new(event, None).over(loaded.data()).total().samples;
    let samples = |event: usize| (loaded.event_names[event].clone(), samples(event));
    let of_events = || events(&loaded).into_iter().map(samples).filter(|(_, n)| *n > 0).collect::<Vec<_>>();
    match (options.mmaps, options.tasks, format) {
        (true, _, OutputFormat::Text) => print(&list.text(true))?,
        (true, ..) => print_table(&list.map_table(), format)?,
        (_, true, OutputFormat::Text) => print(&list.text(false))?,
        (_, true, _) => print_table(&list.table(), format)?,
        (.., OutputFormat::Text) => print(&stats.lock().text(&of_events()))?,
        _ => print_table(&stats.lock().table(&of_events()), format)?,
    }
    Ok(loaded.exit_code())
}

pub(super) struct ThreadReport(Arc<Mutex<CountRecords>>);

impl ThreadReport {
    /// Keeps the records of counts while a recording is read, if requested.
    pub(super) fn watch(opened: Opened, wanted: bool) -> (Opened, Option<Self>) {
        if !wanted {
            return (opened, None);
        }
        let records = Arc::new(Mutex::new(CountRecords::default()));
        let kept = records.clone();
        (opened.watched(move |batch| kept.lock().keep(batch.input, &batch.bytes)), Some(Self(records)))
    }

    pub(super) fn print(&self, loaded: &Offline, format: OutputFormat) -> anyhow::Result<u8> {
        let counts = ThreadCounts::of(loaded.ingest.core(), &self.0.lock());
        if counts.is_empty() {
            complain("the recording has no counts of threads; record them with record -s");
        }
        match format {
            OutputFormat::Text => print(&counts.text(&loaded.event_names))?,
            format => print_table(&counts.table(&loaded.event_names), format)?,
        }
        Ok(loaded.exit_code())
    }
}
