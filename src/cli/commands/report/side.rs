//! Reports without samples: threads and their counts, mappings, counts of records.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::IntakeOptions;
use crate::engine::offline::Offline;
use crate::query::Aggregate;
use crate::report::record_stats::RecordStats;
use crate::report::tasks::TaskList;
use crate::report::thread_counts::{CountRecords, ThreadCounts};

use super::events;
use crate::cli::args::{OutputFormat, ReportArgs};
use crate::cli::input::Opened;
use crate::cli::output::{complain, print, print_table};

/// Requested list instead of a table of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SideList {
    Tasks,
    Maps,
    Records,
}

impl SideList {
    pub(super) fn of(args: &ReportArgs) -> Option<Self> {
        let more = &args.more;
        let asked = [(more.mmaps, Self::Maps), (more.tasks, Self::Tasks), (more.stats, Self::Records)];
        asked.into_iter().find(|(asked, _)| *asked).map(|(_, list)| list)
    }

    pub(super) fn print(self, opened: Opened, format: OutputFormat) -> anyhow::Result<u8> {
        let stats = Arc::new(Mutex::new(RecordStats::default()));
        let counted = stats.clone();
        let opened = opened.watched(move |batch| counted.lock().count(&batch.bytes));
        let loaded = opened.load(IntakeOptions { chains: false, fields: false, ..IntakeOptions::default() })?;
        let list = TaskList::of(&loaded.ingest.core().session);
        let samples = |event: usize| {
            let mut fold = Aggregate::new(event, None);
            fold.update(loaded.data(), 0..u64::MAX);
            (loaded.event_names[event].clone(), fold.total().samples)
        };
        let of_events = || events(&loaded).into_iter().map(samples).filter(|(_, n)| *n > 0).collect::<Vec<_>>();
        match (self, format) {
            (Self::Tasks, OutputFormat::Text) => print(&list.text(false))?,
            (Self::Tasks, _) => print_table(&list.table(), format)?,
            (Self::Maps, OutputFormat::Text) => print(&list.text(true))?,
            (Self::Maps, _) => print_table(&list.map_table(), format)?,
            (Self::Records, OutputFormat::Text) => print(&stats.lock().text(&of_events()))?,
            (Self::Records, _) => print_table(&stats.lock().table(&of_events()), format)?,
        }
        Ok(loaded.exit_code())
    }
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
