//! The processes and threads of a trace, and the tracks of their slices and counters.

use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::panel::text::clean;
use crate::session::hosts::HostId;
use crate::session::{Session, TaskId};

use super::Packets;
use super::messages::{CounterDescriptor, ProcessDescriptor, ThreadDescriptor, TracePacket, TrackDescriptor};

/// The limit of overlapping slices of one event in one thread; further ones are left out.
const MAX_LANES: usize = 64;

/// `CounterDescriptor.Unit`.
const UNIT_COUNT: u32 = 2;

/// A thread, as the trace has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceThread {
    pub(super) machine: u32,
    pub(super) pid: i32,
    pub(super) tid: i32,
    uuid: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Track {
    Process { machine: u32, pid: i32 },
    Thread { machine: u32, pid: i32, tid: i32 },
    Lane { event: u16, thread: u64, at: usize },
    Losses { machine: u32 },
}

pub(super) struct Tracks<'a> {
    session: &'a Session,
    /// The newest task of each thread, which has the thread's last name.
    newest: HashMap<(HostId, i32, i32), TaskId>,
    threads: HashMap<TaskId, TraceThread>,
    uuids: HashMap<Track, u64>,
    /// For each event and thread the ends of the last slices. Slices that overlap need several tracks.
    lanes: HashMap<(u16, u64), Vec<u64>>,
    /// The number for the next thread without one.
    spare: i32,
}

impl<'a> Tracks<'a> {
    pub(super) fn new(session: &'a Session) -> Self {
        let tasks = session.tasks().iter().zip(0..);
        let newest = tasks.map(|(task, id)| ((task.host, task.pid, task.tid), TaskId(id))).collect();
        let (threads, uuids, lanes) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { session, newest, threads, uuids, lanes, spare: i32::MAX }
    }

    /// Returns the number of a machine: 0 is the first.
    pub(super) fn machine(&self, host: HostId) -> u32 {
        self.session.hosts().iter().position(|(id, _)| id == host).unwrap_or(0) as u32
    }

    /// Returns the thread of a task; writes it and its process before their first use.
    pub(super) fn thread(&mut self, id: TaskId, packets: &mut Packets<'_>) -> io::Result<TraceThread> {
        if let Some(thread) = self.threads.get(&id) {
            return Ok(*thread);
        }
        let task = &self.session.tasks()[id.0 as usize];
        let machine = self.machine(task.host);
        // Tasks without a number, as in folded stacks, differ by their names. No kernel uses numbers this high.
        let tid = if task.tid < 0 { self.spare } else { task.tid };
        self.spare -= i32::from(task.tid < 0);
        let pid = if task.pid < 0 { tid } else { task.pid };
        let thread_name = Some(self.name(task.host, task.pid, task.tid).unwrap_or_else(|| task.comm.clone()));
        let process_name = self.name(task.host, task.pid, task.pid).unwrap_or_else(|| task.program.clone());
        let process = ProcessDescriptor { pid: Some(pid), process_name: Some(clean(&process_name).into_owned()) };
        let descriptor = TrackDescriptor { process: Some(process), ..TrackDescriptor::default() };
        self.track(Track::Process { machine, pid }, machine, descriptor, packets)?;
        let thread_name = thread_name.map(|name| clean(&name).into_owned());
        let thread = ThreadDescriptor { pid: Some(pid), tid: Some(tid.into()), thread_name };
        let descriptor = TrackDescriptor { thread: Some(thread), ..TrackDescriptor::default() };
        let uuid = self.track(Track::Thread { machine, pid, tid }, machine, descriptor, packets)?;
        let thread = TraceThread { machine, pid, tid, uuid };
        self.threads.insert(id, thread);
        Ok(thread)
    }

    /// Returns the last name of a thread with a number.
    fn name(&self, host: HostId, pid: i32, tid: i32) -> Option<Arc<str>> {
        let task = self.newest.get(&(host, pid, tid)).filter(|_| tid >= 0)?;
        Some(self.session.tasks()[task.0 as usize].comm.clone())
    }

    /// Returns a track of an event, given with its name, that has room for a slice; `None` if there are too many.
    pub(super) fn lane(
        &mut self,
        (event, name): (u16, &str),
        of: TraceThread,
        times: &RangeInclusive<u64>,
        packets: &mut Packets<'_>,
    ) -> io::Result<Option<u64>> {
        let ends = self.lanes.entry((event, of.uuid)).or_default();
        let at = ends.iter().position(|end| end <= times.start()).unwrap_or(ends.len());
        match ends.get_mut(at) {
            Some(end) => *end = *times.end(),
            None if at < MAX_LANES => ends.push(*times.end()),
            None => return Ok(None),
        }
        let (name, parent_uuid) = (Some(clean(name).into_owned()), Some(of.uuid));
        let descriptor = TrackDescriptor { name, parent_uuid, ..TrackDescriptor::default() };
        self.track(Track::Lane { event, thread: of.uuid, at }, of.machine, descriptor, packets).map(Some)
    }

    /// Returns the counter of a machine's lost samples.
    pub(super) fn losses(&mut self, machine: u32, packets: &mut Packets<'_>) -> io::Result<u64> {
        let counter = Some(CounterDescriptor { unit: Some(UNIT_COUNT) });
        let descriptor = TrackDescriptor { name: Some("lost samples".to_owned()), counter, ..Default::default() };
        self.track(Track::Losses { machine }, machine, descriptor, packets)
    }

    /// Returns the number of a track; writes its descriptor the first time.
    fn track(
        &mut self,
        track: Track,
        machine: u32,
        descriptor: TrackDescriptor,
        packets: &mut Packets<'_>,
    ) -> io::Result<u64> {
        let next = self.uuids.len() as u64 + 1;
        let uuid = *self.uuids.entry(track).or_insert(next);
        if uuid == next {
            let track_descriptor = Some(TrackDescriptor { uuid: Some(uuid), ..descriptor });
            packets.write(machine, TracePacket { track_descriptor, ..TracePacket::default() })?;
        }
        Ok(uuid)
    }
}
