//! Batches: the records of a source since the last one, and typed events in their order.

use std::sync::Arc;

use crate::event::EventState;
use crate::event::format::Format;
use crate::kernel::call_sums::CallSums;
use crate::kernel::hit_sums::HitSum;
use crate::kernel::sys::Counts;
use crate::perfdata::EventDesc;
use crate::perfdata::build_ids::IdentifiedFile;
use crate::record::Layout;
use crate::session::containers::NamedContainer;
use crate::session::{DsoKind, EndReason};
use crate::symbols::spaces::WalkFigures;

use super::{Info, Progress, live};

/// Records and other events since the last batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// Whole records, ring after ring.
    pub bytes: Vec<u8>,
    /// The time and the offset of each of them; empty if the source does not decode records.
    pub index: Vec<(u64, usize)>,
    /// The source's input that they are from.
    pub input: u16,
    /// Their position in the file, of a recording.
    pub place: FilePosition,
    /// Inputs that have been idle for a while: the session does not wait for their records.
    pub quiet: Vec<u16>,
    /// Whether that input has ended.
    pub input_done: bool,
    /// Samples with names, for sources without addresses.
    pub named: NamedSamples,
    /// The time up to which all records have been delivered.
    pub complete_until: Option<u64>,
    /// Everything else, in its order.
    pub events: Vec<SourceEvent>,
}

/// An event of a source that is not a record.
#[derive(Clone, Debug)]
pub enum SourceEvent {
    /// An added event, after those in [`Info::events`].
    Event(EventDesc),
    /// The fields of an event's named samples.
    Fields(u16, Arc<Format>),
    /// An id that is used from now on.
    Id(FreshId),
    /// An event that replaced another.
    Handover(Handover),
    /// A file with a new build id.
    BuildId(IdentifiedFile),
    /// Containers with new names.
    Containers(Vec<NamedContainer>),
    /// The counts and losses of each event since its start.
    Counts(CountReading),
    /// More records may be lost than records and counts report: a kernel that does not count losses had a full ring at
    /// the end.
    UnknownLosses,
    /// Counts on each CPU of events that are only counted.
    CpuCounts(Vec<CpuCount>),
    /// System calls that were summed in the kernel.
    CallSums(CallReading),
    /// Hits of an event that were summed in the kernel.
    HitSums(HitReading),
    /// The time since which all existing events are measured, if one was added.
    MeasuredSince(u64),
    /// The time until which all events were measured, at the end of the source.
    MeasuredUntil(u64),
    /// Changed figures of stack walks since the start.
    Walks(WalkFigures),
    /// The new state if the rate or the CPUs have changed.
    Changed(SamplingState),
    /// A filter for the view, because the target cannot be sampled alone.
    ViewFilter(ViewFilter),
    /// A note for the user, a sentence.
    Note(String),
    /// The reply to a control.
    Reply(Result<String, String>),
    /// The lines of a text that were not understood.
    Unread(u64),
    /// Bytes of a file that were read, and all.
    Progress(u64, u64),
}

impl SourceEvent {
    /// Returns whether it may be delivered a moment later, with more records.
    fn may_wait(&self) -> bool {
        matches!(self, Self::Counts(_) | Self::Walks(_) | Self::HitSums(_))
    }
}

impl Batch {
    /// Returns a batch that fills a used buffer.
    pub(crate) fn reusing(mut bytes: Vec<u8>) -> Self {
        bytes.clear();
        Self { bytes, ..Self::default() }
    }

    /// Ends the source: all records are complete.
    pub(crate) fn end(&mut self, why: EndReason) -> Progress {
        self.complete_until = Some(u64::MAX);
        Progress::End(why)
    }

    /// Returns whether it has only live records of fewer than `bytes` bytes, so that a later call of
    /// [`super::Source::next`] may add more before it is delivered.
    pub(crate) fn may_wait(&self, bytes: usize) -> bool {
        self.events.iter().all(SourceEvent::may_wait) && self.bytes.len() < bytes
    }

    /// Moves all records and events of another batch of the same input behind its own.
    pub(crate) fn append(&mut self, later: &mut Self) {
        // Every field is named, so that a new one is not forgotten. A live source has no places and names.
        let Self { bytes, index, input: _, place: _, quiet, input_done, named: _, complete_until, events } = later;
        let end = self.bytes.len();
        self.index.extend(index.drain(..).map(|(time, at)| (time, end + at)));
        self.bytes.append(bytes);
        self.quiet.append(quiet);
        self.input_done |= std::mem::take(input_done);
        self.complete_until = self.complete_until.max(complete_until.take());
        self.events.append(events);
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.events.push(SourceEvent::Note(note.into()));
    }

    /// Returns its notes for the user.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.events.iter().filter_map(|event| match event {
            SourceEvent::Note(note) => Some(note.as_str()),
            _ => None,
        })
    }

    /// Returns the lines that were not understood.
    pub(crate) fn unread(&self) -> u64 {
        let lines = |event: &SourceEvent| if let SourceEvent::Unread(lines) = event { *lines } else { 0 };
        self.events.iter().map(lines).sum()
    }

    /// Returns the losses of its last reading of counts.
    pub(crate) fn lost(&self) -> Option<u64> {
        self.events.iter().rev().find_map(|event| match event {
            SourceEvent::Counts(reading) => Some(reading.lost()),
            _ => None,
        })
    }

    /// Empties it, keeping its buffer.
    pub fn clear(&mut self) {
        *self = Self::reusing(std::mem::take(&mut self.bytes));
    }
}

/// A filter for the view, and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewFilter {
    pub(crate) filter: String,
    pub(crate) words: String,
}

/// The counts of all events at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountReading {
    /// The time of the reading, in nanoseconds of the session's clock; readings are processed with varying delays.
    pub at: u64,
    /// By event.
    pub of: Vec<Counts>,
}

/// The system calls that were summed in the kernel since the previous reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallReading {
    /// The event whose records single calls have.
    pub(crate) event: u16,
    /// The time of the previous reading, in nanoseconds of the session's clock.
    pub(crate) from: u64,
    /// Whether only calls of the target were measured.
    pub(crate) is_narrow: bool,
    /// Calls that were neither summed nor recorded.
    pub(crate) lost: u64,
    pub(crate) sums: CallSums,
}

/// The hits of an event that were summed in the kernel since the previous reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HitReading {
    pub(crate) event: u16,
    /// The times of the previous reading and of this one, in nanoseconds of the session's clock.
    pub(crate) from: u64,
    pub(crate) until: u64,
    /// Whether only hits of the target were measured.
    pub(crate) is_narrow: bool,
    /// By thread.
    pub(crate) sums: Vec<HitSum>,
}

impl CountReading {
    pub(crate) fn lost(&self) -> u64 {
        self.of.iter().map(|counts| counts.lost).sum()
    }
}

/// Samples whose frames are names, and their frames.
#[derive(Debug, Default)]
pub struct NamedSamples {
    pub(crate) samples: Vec<NamedSample>,
    /// Ids of the frames of all of them, one sample's after another's.
    pub(crate) frames: Vec<u32>,
    /// New frames; their ids continue from batch to batch.
    pub(crate) names: Vec<NamedFrame>,
}

/// A frame that is known by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFrame {
    pub(crate) name: Arc<str>,
    /// Path of the DSO, or its bracketed name.
    pub(crate) dso: Arc<str>,
    pub(crate) kind: DsoKind,
    /// The address in the text; 0 for none.
    pub(crate) ip: u64,
    /// Its offset from the function's start, if the text has it.
    pub(crate) offset: Option<u64>,
    /// Whether the text has no function for the address.
    pub(crate) is_unknown: bool,
}

impl NamedFrame {
    pub(crate) fn named(name: &str, dso: &str, kind: DsoKind) -> Self {
        Self { name: name.into(), dso: dso.into(), kind, ip: 0, offset: None, is_unknown: false }
    }
}

/// A sample whose frames are names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSample {
    pub(crate) comm: Arc<str>,
    /// -1 when unknown.
    pub(crate) pid: i32,
    pub(crate) tid: i32,
    pub(crate) cpu: u32,
    pub(crate) time: u64,
    pub(crate) period: u64,
    pub(crate) event: u16,
    /// Its part of [`NamedSamples::frames`], leaf first.
    pub(crate) frames: std::ops::Range<u32>,
    /// Whether the sample is complete.
    pub(crate) closed: bool,
    pub(crate) trace: Option<Arc<str>>,
    /// The values of its event's fields; see [`SourceEvent::Fields`].
    pub(crate) raw: Option<Arc<[u8]>>,
}

/// The position of a batch's records in their file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilePosition {
    /// The offset of the first record.
    pub(crate) at: u64,
    /// Whether all of them are from one compressed record, at that offset.
    pub(crate) packed: bool,
}

impl FilePosition {
    /// Returns the offset of the record that begins `behind` bytes after the first.
    pub(crate) fn of(self, behind: usize) -> u64 {
        if self.packed { self.at } else { self.at + behind as u64 }
    }
}

/// The count of an event on a CPU since it was opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuCount {
    /// The source's event.
    pub event: u16,
    /// The CPU of the count.
    pub cpu: u32,
    /// The time of the reading, in nanoseconds of the session's clock.
    pub time: u64,
    /// The count, scaled to the whole time if it was counted for a part of it.
    pub value: u64,
    /// The part of the time, in percent.
    pub running_percent: f64,
}

/// The current sampling settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplingState {
    /// See [`Info::clock_rate`].
    pub frequency: u64,
    /// See [`Info::has_whole_cpus`].
    pub whole_cpus: bool,
    /// See [`Info::n_cpus`].
    pub n_cpus: usize,
    /// See [`Info::cpus`].
    pub cpus: String,
    /// The command or target as text.
    pub target: String,
    /// See [`Info::whom`].
    pub whom: live::Target,
    /// See [`Info::alone`].
    pub alone: bool,
    /// See [`Info::states`].
    pub events: Vec<EventState>,
}

impl From<&Info> for SamplingState {
    fn from(info: &Info) -> Self {
        Self {
            frequency: info.clock_rate(),
            whole_cpus: info.has_whole_cpus(),
            n_cpus: info.n_cpus,
            cpus: info.cpus.clone(),
            target: info.target.clone(),
            whom: info.whom.clone(),
            alone: info.alone,
            events: info.states.clone(),
        }
    }
}

/// An id that records have from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreshId {
    /// The id in samples and LOST records.
    pub id: u64,
    /// The source's event.
    pub event: u16,
    /// The layout of its records.
    pub layout: Layout,
    /// The period of samples without one; 0 when each has its own.
    pub period: u64,
}

/// A handover between events: samples of old ids count before a time, those of new ids from it on. Both events run for
/// a moment, and each hit must be counted exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The time, in nanoseconds of the session's clock.
    pub at: u64,
    /// The ids of the old events, whose samples count before that time.
    pub old: Vec<u64>,
    /// The ids of the new events.
    pub new: Vec<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round of the source may come while a batch is held: all of both must arrive, in order.
    #[test]
    fn a_held_batch_keeps_the_events_of_every_round() {
        let filter = |text: &str| ViewFilter { filter: text.to_owned(), words: String::new() };
        let round = |number: u64| Batch {
            bytes: vec![number as u8; 8],
            index: vec![(number, 0)],
            complete_until: Some(number),
            quiet: vec![number as u16],
            input_done: number == 2,
            events: vec![
                SourceEvent::ViewFilter(filter(&number.to_string())),
                SourceEvent::Walks(WalkFigures::default()),
                SourceEvent::Counts(CountReading { at: number, of: Vec::new() }),
                SourceEvent::Changed(SamplingState { frequency: number, ..SamplingState::default() }),
            ],
            ..Batch::default()
        };
        let (mut held, mut later) = (round(1), round(2));
        held.append(&mut later);
        let each = format!("{:?}", [round(1).events, round(2).events].concat());
        assert_eq!(format!("{:?}", held.events), each);
        assert_eq!((&*held.bytes, held.complete_until), (&[[1; 8], [2; 8]].concat()[..], Some(2)));
        assert_eq!(held.index, [(1, 0), (2, 8)]);
        assert_eq!((held.quiet, held.input_done), (vec![1, 2], true));
        assert!(later.bytes.is_empty() && later.events.is_empty() && !later.input_done);
    }

    #[test]
    fn only_records_and_figures_wait() {
        let waits = |event: SourceEvent| Batch { events: vec![event], ..Batch::default() }.may_wait(1);
        assert!(
            waits(SourceEvent::Counts(CountReading::default())) && waits(SourceEvent::Walks(WalkFigures::default()))
        );
        assert!(waits(SourceEvent::HitSums(HitReading::default())));
        let filter = ViewFilter { filter: "tid == 1".to_owned(), words: String::new() };
        let urgent = [
            SourceEvent::ViewFilter(filter),
            SourceEvent::Changed(SamplingState::default()),
            SourceEvent::Reply(Ok(String::new())),
            SourceEvent::Note(String::new()),
            SourceEvent::Unread(1),
            SourceEvent::CpuCounts(Vec::new()),
            SourceEvent::MeasuredSince(1),
            SourceEvent::MeasuredUntil(2),
            SourceEvent::UnknownLosses,
            SourceEvent::Progress(1, 2),
        ];
        assert!(!urgent.into_iter().any(waits));
        assert!(Batch { bytes: vec![0; 9], ..Batch::default() }.may_wait(10));
        assert!(!Batch { bytes: vec![0; 10], ..Batch::default() }.may_wait(10));
    }
}
