//! The running machine as a source: opens events, drains rings, and follows CPUs, threads and the profiled command.

pub(crate) mod attach;
pub mod attr;
mod capture;
pub mod containers;
mod control;
pub(crate) mod counters;
mod describe;
pub mod error;
mod event_slot;
mod follow;
pub(crate) mod kernel_maps;
pub(crate) mod overhead;
mod poll_loop;
pub(crate) mod probes;
mod records;
mod settle;
mod start;
mod summed_calls;
pub mod target;
pub(crate) mod throttle;
mod waits;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use crate::event::{CallGraph, Interpreters};
use crate::kernel::spawn::{self, ExitOutcome, HeldCommand, RunningCommand};
use crate::kernel::{monotonic_ns, procfs};
use crate::session::EndReason;
use crate::session::containers::NamedContainer;

use super::{Batch, Control, Info, Progress, SamplingState, Source, SourceError, SourceEvent, Waker};
use attach::call_feed::CallFeed;
use attach::{Attachment, CounterReadings};
use describe::info;
pub(crate) use error::OpenError;
pub(crate) use follow::can_be_sampled;
use records::losses::CountedLosses;
use records::stack_walks::StackWalks;
pub use records::stack_walks::tables_of;
use settle::Settling;
pub use start::LiveConfig;
pub use target::Target;
use target::family::Family;
use waits::OffCpuTime;

/// The interval of checking threads, CPUs and losses.
const HOUSEKEEPING_NS: u64 = 1_000_000_000;

/// The running machine.
pub struct LiveSource {
    attachment: Attachment,
    target: Target,
    chosen: Option<Vec<u32>>,
    known_tasks: Vec<i32>,
    family: Family,
    /// Tasks that started while events were opened on others, and whose state is still unknown.
    settling: Option<Settling>,
    child: Option<RunningCommand>,
    /// Whether the command only limits the duration, and is not the target.
    is_beside: bool,
    held: Option<HeldCommand>,
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    info: Info,
    round_start: u64,
    drained: usize,
    /// A buffer for a ring's bytes, if they cannot be passed on directly.
    read: Vec<u8>,
    next_tick: u64,
    ticks: usize,
    next_housekeeping: u64,
    next_counts: u64,
    /// The losses by CPU at the last reading, until they are compared with the kernel's reports.
    counted_losses: BTreeMap<u32, CountedLosses>,
    count_ns: u64,
    enable_at: Option<u64>,
    inherit: bool,
    tables: usize,
    interpreters: Interpreters,
    /// The call graph mode to set with the first event whose stacks the program in the kernel can walk.
    late_walks: Option<CallGraph>,
    flood: throttle::FloodGuard,
    probes: probes::Probes,
    containers: Option<containers::Watch>,
    /// The program that sums the time off the CPUs.
    waits: OffCpuTime,
    /// Records and events that arose outside of [`Source::next`].
    pending: Batch,
    stopping: Option<EndReason>,
}

impl LiveSource {
    /// Returns a handle to how the command ends, valid after the source is dropped; without a command, success.
    pub(crate) fn fate(&self) -> ExitOutcome {
        let held = self.held.as_ref().map(HeldCommand::fate);
        held.or_else(|| self.child.as_ref().map(RunningCommand::fate)).unwrap_or_default()
    }

    /// Returns whether measuring has begun, which `-D` delays.
    pub(crate) fn has_begun(&self) -> bool {
        self.enable_at.is_none()
    }

    fn begin(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        if let (Some(held), Some(walks)) = (&self.held, &self.attachment.walks) {
            walks.prepare(held);
        }
        let is_added = |event: &SourceEvent| matches!(event, SourceEvent::Event(_));
        let mut began = self.enable_at.is_none() && self.pending.events.iter().any(is_added);
        if self.enable_at.is_some_and(|at| monotonic_ns() >= at) {
            self.enable_at = None;
            // If the exec starts it, the start-up of the command is not measured.
            if !self.attachment.common.enable_on_exec {
                self.attachment.enable_all();
            }
            began = true;
        }
        if began {
            self.attachment.walks.iter().for_each(StackWalks::name_again);
            // Counting starts from these values. The command is not released yet.
            batch.events.push(SourceEvent::MeasuredSince(monotonic_ns()));
            self.next_counts = monotonic_ns();
            self.read_counts(batch);
        }
        if self.enable_at.is_none() {
            self.attachment.begin_calls();
            self.attachment.begin_switches();
        }
        if let Some(held) = self.held.take() {
            self.child = Some(held.release().map_err(SourceError::Command)?);
            self.attachment.common.enable_on_exec = false;
        }
        batch.append(&mut self.pending);
        let news: Vec<containers::ContainerChanges> =
            self.containers.iter().flat_map(containers::Watch::news).collect();
        for news in news {
            self.follow_containers(&news, batch);
            let came: Vec<NamedContainer> = news.came.into_iter().map(|running| running.named).collect();
            batch.events.extend((!came.is_empty()).then_some(SourceEvent::Containers(came)));
        }
        batch.events.extend(self.attachment.notes.drain(..).map(SourceEvent::Note));
        Ok(())
    }

    fn housekeeping(&mut self, batch: &mut Batch) {
        let now = monotonic_ns();
        if now >= self.next_counts {
            self.read_counts(batch);
        }
        self.read_waits(now, false, batch);
        self.settle(batch);
        if now < self.next_housekeeping {
            return;
        }
        self.next_housekeeping = now + HOUSEKEEPING_NS;
        let CounterReadings { counts, by_cpu, losses } = self.attachment.counts();
        self.counted_losses = losses;
        self.limit_copies(&counts, batch);
        batch.events.push(SourceEvent::Counts(counts));
        batch.events.extend(self.attachment.walks.as_mut().and_then(StackWalks::tell).map(SourceEvent::Walks));
        self.hold_back(by_cpu, batch);
        self.follow_tasks(batch);
        let changes = self.follow_cpus(batch);
        changes.iter().for_each(|change| batch.note(change.note()));
    }

    fn changed(&self) -> SamplingState {
        (&info(&self.attachment, &self.target, &self.chosen, self.inherit, self.info.start)).into()
    }

    fn ended(&mut self) -> Option<EndReason> {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.ended()
        {
            self.child = None;
            return Some(EndReason::Command(spawn::describe(status).0));
        }
        let counts = self.child.is_none() || self.is_beside;
        if self.ticks.is_multiple_of(5) && self.held.is_none() && counts && self.is_gone() {
            return Some(EndReason::Target(self.target.label()));
        }
        None
    }
}

impl LiveSource {
    /// Returns whether all of the target's tasks and their descendants have ended.
    fn is_gone(&mut self) -> bool {
        self.target.is_gone()
            && self.is_hung_up()
            && !self.attachment.calls.as_ref().is_some_and(CallFeed::has_threads)
            && !self.tasks().into_iter().any(procfs::is_running)
    }
}

impl Source for LiveSource {
    fn info(&self) -> &Info {
        &self.info
    }

    fn next(&mut self, batch: &mut Batch) -> Result<Progress, SourceError> {
        self.begin(batch)?;
        if self.stopping.is_none() {
            self.wait();
            self.stopping = self.ended();
        }
        self.housekeeping(batch);
        self.drain(batch);
        // The kernel's own reports in the rings have been read now.
        let losses = std::mem::take(&mut self.counted_losses);
        self.attachment.report_losses(&losses, batch);
        if let Some(why) = self.stopping.take() {
            batch.events.push(SourceEvent::MeasuredUntil(monotonic_ns()));
            // Records with earlier timestamps may not be in the ring yet.
            std::thread::sleep(Duration::from_millis(5));
            self.attachment.stop_calls();
            self.attachment.stop_switches();
            self.attachment.hits.sum_up(false);
            self.read_waits(monotonic_ns(), true, batch);
            self.drain(batch);
            let CounterReadings { counts, losses, .. } = self.attachment.counts();
            self.attachment.report_losses(&losses, batch);
            batch.events.push(SourceEvent::Counts(counts));
            batch.events.extend(self.attachment.may_lack_records().then_some(SourceEvent::UnknownLosses));
            batch.events.push(SourceEvent::CpuCounts(self.attachment.cpu_counts()));
            batch.events.extend(self.attachment.walks.as_mut().and_then(StackWalks::tell).map(SourceEvent::Walks));
            self.read_sums(batch);
            self.attachment.calls = None;
            self.attachment.close(|_| true);
            return Ok(batch.end(why));
        }
        Ok(Progress::More)
    }

    fn waker(&self) -> Waker {
        Waker::new(self.wake.clone())
    }

    fn facts(&self) -> Option<SamplingState> {
        Some(self.changed())
    }

    fn control(&mut self, control: &Control) -> Result<String, String> {
        // Delivers the next batch, with the change's message, immediately.
        self.next_tick = 0;
        self.carry_out(control)
    }
}

impl Drop for LiveSource {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.cancel();
        }
        // The kernel removes a probe only while no event uses it.
        self.attachment.close(|_| true);
        if let Some(walks) = &mut self.attachment.walks {
            walks.keep_traced(&[]);
        }
        self.probes.remove();
    }
}
