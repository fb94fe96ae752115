//! The records that a unit receives: samples, counts and sums, and what is lost of them.

use std::sync::Arc;

use crate::event::format::Format;
use crate::profile::RetainedStack;
use crate::record::sample::UserState;
use crate::source::{CallSum, HitSum, OpenCall};

/// An open event of a unit.
#[derive(Clone, Copy, Debug)]
pub struct UnitEvent<'a> {
    /// Index into [`Unit::event_requests`](super::Unit::event_requests). A request with a pattern may have several events.
    pub role: usize,
    /// The session's event number.
    pub number: u16,
    /// The event name without modifiers.
    pub name: &'a str,
    /// The tracepoint's fields.
    pub format: Option<&'a Arc<Format>>,
    /// The machine's architecture as in uname; empty for the local one.
    pub arch: &'a str,
}

/// A sample of one of a unit's events.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnitSample<'a> {
    /// Index into [`Unit::event_requests`](super::Unit::event_requests).
    pub role: usize,
    /// The session's event number, as in [`UnitEvent::number`].
    pub event: u16,
    /// Nanoseconds of the session's clock.
    pub time: u64,
    /// The CPU that took the sample.
    pub cpu: u32,
    /// The process; -1 if unknown.
    pub pid: i32,
    /// The running thread; a tracepoint's fields may name another one.
    pub tid: i32,
    /// The instruction pointer.
    pub ip: u64,
    /// The address of accessed data; 0 if unknown.
    pub addr: u64,
    /// The sample's period: 1 if each hit is sampled.
    pub period: u64,
    /// The cost reported by the hardware, as in [`record::UnitSample::weight`](crate::record::Sample::weight).
    pub weight: u64,
    /// The data source, as in [`record::UnitSample::data_src`](crate::record::Sample::data_src).
    pub data_src: u64,
    /// Whether user code was running.
    pub user: bool,
    /// Whether the guest of a virtual machine was running.
    pub guest: bool,
    /// The user registers, if requested with [`EventRequest::registers`](super::EventRequest::registers).
    pub registers: UserState<'a>,
    /// A tracepoint's fields in the layout of [`UnitEvent::format`]; empty for other events.
    pub raw: &'a [u8],
    /// The call chain, if requested.
    pub stack: RetainedStack,
}

impl UnitSample<'_> {
    /// A context switch record without a tracepoint: a thread started to run on a CPU.
    pub fn switch_in(cpu: u32, tid: i32, time: u64) -> Self {
        Self { role: usize::MAX, event: u16::MAX, time, cpu, pid: -1, tid, period: 1, ..Self::default() }
    }
}

/// The count of an event on a CPU between two reads of its counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CountedEvents {
    /// Index into [`Unit::event_requests`](super::Unit::event_requests).
    pub role: usize,
    /// The counter's CPU.
    pub cpu: u32,
    /// Time of the previous read, in nanoseconds of the session's clock.
    pub from: u64,
    /// Time of this read.
    pub until: u64,
    /// The number of hits, scaled if the counter was multiplexed.
    pub n: u64,
    /// The share of the time for which the counter was scheduled.
    pub running_percent: f64,
}

/// System calls that were summed in the kernel between two readings. Single records exist only for other calls.
#[derive(Clone, Debug)]
pub struct SummedCalls<'a> {
    /// Time of the previous reading, in nanoseconds of the session's clock.
    pub from: u64,
    /// Time of this reading.
    pub until: u64,
    /// The sums, by thread and call.
    pub sums: Vec<&'a CallSum>,
    /// The calls under way at the time of the reading.
    pub open: Vec<&'a OpenCall>,
}

/// Hits of an event that were summed in the kernel between two readings, in addition to the recorded ones.
#[derive(Clone, Debug, Default)]
pub struct SummedHits {
    /// Index into [`Unit::event_requests`](super::Unit::event_requests).
    pub role: usize,
    /// Time of the previous reading, in nanoseconds of the session's clock.
    pub from: u64,
    /// Time of this reading.
    pub until: u64,
    /// The sums, by thread.
    pub sums: Vec<HitSum>,
}

/// Records that were lost between two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostEvents {
    /// The CPU; `None` if unknown.
    pub cpu: Option<u32>,
    /// Time of the CPU's last record before the loss, in nanoseconds of the session's clock; 0 if there is none.
    pub from: u64,
    /// Time at which the kernel reported the loss.
    pub until: u64,
    /// Number of lost records of all events; 0 if nothing was measured in that time.
    pub records: u64,
}
