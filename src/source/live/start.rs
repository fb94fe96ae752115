//! The start of a live session: its settings, the events and rings that it opens, and its first records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll, eventfd};

use crate::event::{CallGraph, Event, Interpreters};
use crate::kernel::limits::{self, Rights};
use crate::kernel::spawn::HeldCommand;
use crate::kernel::sys::{Errno, Sys};
use crate::kernel::{cgroup, monotonic_ns, procfs};
use crate::record::SampleId;
use crate::record::interpreted::Language;
use crate::record::kinds::encode_cgroup;
use crate::source::Batch;
use crate::symbols::languages::survey;

use super::attach::Attachment;
use super::attr::{self, CommonAttrs, Exclude, Rate};
use super::describe::info;
use super::event_slot::Slot;
use super::poll_loop::{COUNT_NS, FIRST_TICKS_NS};
use super::records::stack_walks::{self, StackWalks};
use super::records::{outer_namespace, output};
use super::target::Target;
use super::target::family::Family;
use super::waits::OffCpuTime;
use super::{HOUSEKEEPING_NS, LiveSource, OpenError, containers, kernel_maps, probes, throttle};

/// The number of threads up to which those of a target are looked at before sampling begins.
const FEW: usize = 64;

/// The settings of a live session.
#[derive(Debug, Default)]
pub struct LiveConfig {
    /// The events; their own settings have precedence over these.
    pub events: Vec<Event>,
    /// The rate of events without their own. Not a frequency for tracepoints and breakpoints: every hit is sampled.
    pub rate: Rate,
    /// The call graph mode, unless an event has no call chains.
    pub chains: CallGraph,
    /// Whether the stacks of events that are added later will be walked.
    pub walks_later: bool,
    /// Whether samples have their task's cgroup.
    pub cgroups: bool,
    /// Additional data in samples and other records.
    pub extras: attr::Extras,
    /// The modes that are not sampled.
    pub exclude: Exclude,
    /// Whether children of the target are sampled, too; without effect if all tasks are.
    pub inherit: bool,
    /// Data pages of each ring; chosen from the rate when `None`.
    pub pages: Option<usize>,
    /// The delay before sampling begins.
    pub delay: Duration,
    /// The tasks or cgroups.
    pub target: Target,
    /// The selected CPUs; all online ones when `None`.
    pub cpus: Option<Vec<u32>>,
    /// The command to start and follow to its end.
    pub command: Option<HeldCommand>,
    /// Whether events may flood the machine.
    pub force: bool,
    /// The limit of kernel memory for unwind tables, in bytes.
    pub tables: usize,
    /// The recorded frames of interpreted programs.
    pub interpreters: Interpreters,
    /// Whether the time that threads sleep is measured, too.
    pub off_cpu_time: bool,
}

impl LiveSource {
    /// Opens everything; sampling begins with the first [`next`](crate::source::Source::next).
    pub fn start(mut config: LiveConfig, sys: Box<dyn Sys>, rights: Rights) -> Result<Self, OpenError> {
        limits::raise_files(0);
        let requested = config.chains;
        let (chains, walks, note) = stack_walks::for_events(&config)?;
        let target = config.target;
        let sees_all = config.events.iter().any(|event| event.machine_wide);
        let pages = config.pages.unwrap_or_else(|| attr::ring_pages(config.rate, &config.events, chains));
        // Frame pointers that were requested by name are recorded as every reader expects them.
        let is_replaced = requested != chains && note.is_some();
        let is_requested = config.extras.defers_fp && chains == CallGraph::Fp;
        let defers = config.extras.deferred && (is_replaced || is_requested);
        let common = CommonAttrs {
            rate: config.rate,
            chains,
            tables: walks.as_ref().is_some_and(StackWalks::is_by_tables),
            copies: config.chains == CallGraph::Auto && target != Target::System,
            exclude: config.exclude,
            inherit: config.inherit && target.is_tasks(),
            tasks: target.is_tasks(),
            watermark: (pages * rustix::param::page_size() / 2) as u32,
            cgroups: config.cgroups,
            extras: attr::Extras { deferred: defers, ..config.extras },
            enable_on_exec: !sees_all && target.begins_with_exec(config.command.as_ref(), config.delay),
        };
        let by_task = target.is_tasks() && !sees_all;
        config.events.extend(config.off_cpu_time.then(Event::off_cpu_time));
        let mut attachment = Attachment::new(sys, rights, std::mem::take(&mut config.events), common, pages, by_task);
        attachment.is_narrow = target != Target::System;
        attachment.is_auto = config.chains == CallGraph::Auto;
        attachment.walks = walks;
        // Without a note, the program was not refused: no event needs it yet.
        let is_late = chains != config.chains && note.is_none() && !common.tables;
        attachment.notes.extend(note);
        attachment.cgroups = target.open_cgroups()?;
        let no_poll = |e: Errno| OpenError::new("the event poll", "made", e.to_string(), "");
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(no_poll)?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(no_poll)?;
        // Without it, controls wait for the end of a tick.
        let _ = epoll::add(&epoll, &wake, epoll::EventData::new_u64(u64::MAX), epoll::EventFlags::IN);
        let start = monotonic_ns();
        let is_beside = config.command.as_ref().is_some_and(|held| target != Target::Processes(vec![held.pid()]));
        let mut source = Self {
            info: info(&attachment, &target, &config.cpus, config.inherit, start),
            attachment,
            target,
            chosen: config.cpus,
            known_tasks: Vec::new(),
            family: Family::default(),
            settling: None,
            child: None,
            is_beside,
            held: config.command,
            epoll,
            wake: Arc::new(wake),
            round_start: start,
            drained: usize::MAX,
            read: Vec::new(),
            next_tick: 0,
            ticks: 0,
            next_housekeeping: start + HOUSEKEEPING_NS,
            next_counts: start,
            counted_losses: BTreeMap::new(),
            count_ns: COUNT_NS,
            enable_at: None,
            inherit: config.inherit,
            tables: config.tables,
            interpreters: config.interpreters,
            late_walks: is_late.then_some(config.chains),
            flood: throttle::FloodGuard::new(config.force),
            probes: probes::Probes::default(),
            containers: None,
            waits: OffCpuTime::default(),
            pending: Batch::default(),
            stopping: None,
        };
        source.open_all()?;
        source.report_waits();
        source.choose_waits();
        source.info = info(&source.attachment, &source.target, &source.chosen, source.inherit, start);
        if matches!(requested, CallGraph::Fp | CallGraph::Dwarf(_)) {
            source.info.notes.extend(source.note_languages());
        }
        source.info.notes.extend(probes::left_over_note());
        let now = monotonic_ns();
        source.enable_at = Some(now + config.delay.as_nanos() as u64);
        source.next_tick = now + FIRST_TICKS_NS[0];
        let mut notes = Vec::new();
        source.pending.bytes = source.preamble(&mut notes);
        source.pending.index = output::index(&source.pending.bytes, &source.info.events[0].layout());
        source.info.notes.append(&mut notes);
        if source.attachment.common.cgroups {
            // Without it, containers are shown by their ids.
            source.containers = containers::Watch::start(containers::Scanner::here()).ok();
        }
        Ok(source)
    }

    fn open_all(&mut self) -> Result<(), OpenError> {
        let cpus = self.wanted_cpus()?;
        self.known_tasks = self.tasks();
        self.choose_calls(&[]);
        self.attachment.choose_switches(&mut Vec::new());
        let whos = self.whos();
        // Each dummy has a listener for the kernel's code.
        let (wide, bound): (Vec<&Slot>, Vec<&Slot>) =
            self.attachment.slots.iter().partition(|slot| slot.event.machine_wide);
        let events = wide.len() + bound.len() * whos.len().max(1);
        let need = |dummies: usize| cpus.len() * (events + 2 * dummies) + 32;
        if self.attachment.by_task
            && self.attachment.rights.system_wide()
            && OpenError::room_for(need(whos.len()), 0).is_err()
        {
            // A dummy per CPU receives records of all tasks, and replaces one per thread.
            self.attachment.by_task = false;
        }
        OpenError::room_for(need(if self.attachment.by_task { whos.len() } else { 1 }), 0)?;
        self.attachment.trace_walks(&self.attachment.all_slots(), &whos);
        self.attachment.note_wide_probes(&self.attachment.all_slots());
        for cpu in cpus {
            self.open_cpu(cpu, &whos)?;
        }
        // The first stacks of chosen processes are whole, if these are few.
        let is_few = (1..=FEW).contains(&self.known_tasks.len()) && self.attachment.is_on_tasks();
        if let Some(walks) =
            self.attachment.walks.as_mut().filter(|_| is_few && (self.held.is_none() || self.is_beside))
        {
            walks.expect_tasks();
        }
        let pids = self.request_tables();
        if let Some(walks) = &self.attachment.walks {
            walks.await_tables(pids);
        }
        if self.attachment.rings.is_empty() {
            let reason = match self.target {
                Target::User { .. } => "that user has no processes",
                _ => "it has ended",
            };
            return Err(OpenError::new(self.target.label(), "sampled", reason, ""));
        }
        self.settle_later();
        Ok(())
    }

    /// Returns the first records of a recording: the kernel's mappings, and the existing cgroups.
    pub(crate) fn preamble(&self, notes: &mut Vec<String>) -> Vec<u8> {
        let mut out = Vec::new();
        notes.extend((!procfs::is_mounted()).then(|| procfs::NOT_MOUNTED.to_owned()));
        kernel_maps::records(&mut out, &self.info.events, notes);
        let trailer = self.info.events[0].layout().encode_trailer(&SampleId::default());
        if self.attachment.outside.is_some() {
            outer_namespace::name(&mut out, &trailer);
            notes.extend((!self.target.is_tasks()).then(|| outer_namespace::WORDS.to_owned()));
        }
        if self.attachment.common.cgroups && self.attachment.have.cgroup {
            for (id, path) in cgroup::known() {
                encode_cgroup(&mut out, id, path.as_bytes(), &trailer);
            }
        }
        out
    }

    /// Returns a note if chosen processes have functions of languages, which only tables show.
    fn note_languages(&self) -> Option<String> {
        if !(1..=FEW).contains(&self.known_tasks.len()) {
            return None;
        }
        let pids: BTreeSet<i32> = self.known_tasks.iter().filter_map(|tid| procfs::tgid(*tid)).collect();
        let names: Vec<&str> = survey::languages(pids).into_iter().map(Language::name).collect();
        let languages = names.join(", ");
        (!names.is_empty()).then(|| {
            format!(
                "functions of {languages} are not shown: they need unwind tables; omit --call-graph, or use --call-graph \
                 tables"
            )
        })
    }
}
