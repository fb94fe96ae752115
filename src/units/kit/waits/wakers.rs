//! The causes of wakeups. A wakeup record names the task on the CPU, which an interrupt or softirq merely interrupts.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::panel::stacks::FrameName;
use crate::profile::RetainedStack;

use crate::units::kit::field::Num;
use crate::units::kit::tables::stack_labels::ByStack;
use crate::units::kit::waits::disks::DiskNames;
use crate::units::kit::waits::endings::Ending;
use crate::units::kit::waits::sched::{WAKING, WakeContext, Wakeup};
use crate::units::kit::{Context, EventRequest, Moment, ThreadKey, UnitEvent, UnitSample};

/// The tracepoint of completed requests: its `dev` is the disk whose interrupt wakes.
pub(crate) const DISK: &str = "block:block_rq_complete";
/// A wakeup belongs to a completed request on the same CPU for this long, unless the CPU switches in between.
const SAME_INTERRUPT_NS: u64 = 1_000_000;

/// The waker of a task, derived from the record and earlier ones on its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum TaskWaker {
    /// A thread.
    Task(ThreadKey),
    /// A softirq, possibly raised by a system call of the interrupted thread: only the stack shows that.
    Softirq { on: ThreadKey, disk: Option<u32> },
    /// An interrupt, regardless of the interrupted task.
    Interrupt { disk: Option<u32> },
    /// The limit of distinct places was reached.
    Untold,
    /// No record has the wakeup, but the thread runs again.
    Unrecorded,
}

impl TaskWaker {
    pub(crate) fn context(self) -> WakeContext {
        match self {
            Self::Task(_) | Self::Untold | Self::Unrecorded => WakeContext::Task,
            Self::Softirq { .. } => WakeContext::Softirq,
            Self::Interrupt { .. } => WakeContext::Irq,
        }
    }

    /// Returns the thread, if the record alone determines it as the cause.
    pub(crate) fn tid(self) -> Option<i32> {
        if let Self::Task(thread) = self { Some(thread.tid) } else { None }
    }

    /// Returns the waker without details that only stacks distinguish.
    pub(crate) fn without_stack(self) -> Self {
        if let Self::Softirq { disk, .. } = self { Self::Softirq { on: ThreadKey::default(), disk } } else { self }
    }

    pub(crate) fn cause(self) -> Cause {
        cause(self, WakePath::default())
    }
}

/// Tracks completed requests, so that wakeups by a disk have its name.
#[derive(Clone, Debug, Default)]
pub(crate) struct WakerReader {
    /// The event number of `sched_waking`, which the waker records; the CPU that gets the task records `sched_wakeup`.
    waking: Option<u16>,
    dev: Option<Num>,
    /// The last completed request on each CPU since its last switch: time and disk.
    completed: FxHashMap<u32, (u64, u32)>,
    disks: DiskNames,
}

impl WakerReader {
    pub(crate) fn request() -> EventRequest {
        EventRequest::new(DISK).optional()
    }

    /// Binds an event about wakers. Returns true for [`DISK`], which needs no other lookup; `disk` is its role.
    pub(crate) fn bind(&mut self, event: &UnitEvent<'_>, disk: usize) -> bool {
        if event.role == disk {
            self.dev = Num::of(event.format, "dev").ok();
        } else if event.role == 1 && event.name == WAKING {
            self.waking = Some(event.number);
        }
        event.role == disk
    }

    /// Whether a hit duplicates a wakeup of sched_waking: recordings may have both.
    pub(crate) fn is_repeated(&self, hit: &UnitSample<'_>) -> bool {
        hit.role == 1 && self.waking.is_some_and(|number| number != hit.event)
    }

    pub(crate) fn complete(&mut self, hit: &UnitSample<'_>, cx: &Context<'_>) {
        let Some(dev) = self.dev.as_ref().and_then(|dev| u32::try_from(dev.get(hit.raw)).ok()) else { return };
        self.completed.insert(hit.cpu, (hit.time, dev));
        self.disks.meet(dev.into(), cx.session);
    }

    /// Forgets a CPU's last completion after a switch: its interrupt is over.
    pub(crate) fn switch(&mut self, cpu: u32) {
        self.completed.remove(&cpu);
    }

    pub(crate) fn waker(&self, wakeup: Wakeup, hit: &UnitSample<'_>, cx: &Context<'_>) -> TaskWaker {
        let last = self.completed.get(&hit.cpu);
        let disk = last.filter(|(time, _)| hit.time.saturating_sub(*time) <= SAME_INTERRUPT_NS).map(|(_, dev)| *dev);
        match wakeup.context {
            WakeContext::Task => TaskWaker::Task(cx.thread(hit.tid)),
            WakeContext::Softirq => TaskWaker::Softirq { on: cx.thread(hit.tid), disk },
            WakeContext::Irq => TaskWaker::Interrupt { disk },
        }
    }

    pub(crate) fn words(
        &self,
        at: &Moment<'_>,
        cause: Cause,
        task: impl Fn(&Moment<'_>, ThreadKey) -> Arc<str>,
    ) -> Arc<str> {
        match cause {
            Cause::Task { thread, .. } => task(at, thread),
            Cause::Disk(dev) => {
                let name = dev.map_or_else(|| "disk".into(), |dev| self.disks.name(dev.into()));
                format!("{name} interrupt").into()
            }
            Cause::Timer => "timer".into(),
            Cause::Network { .. } => "network softirq".into(),
            Cause::IrqWork => "irq_work".into(),
            Cause::Context(context) => context.label().into(),
            Cause::OtherCpu => "another CPU".into(),
            Cause::Exit => "end of the program".into(),
            Cause::Untold => "others".into(),
            Cause::Unrecorded => "not recorded".into(),
        }
    }
}

/// The cause of a wakeup, from the waker and its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Cause {
    /// A thread, and what it passed on.
    Task { thread: ThreadKey, passes: Passes },
    /// A disk request completed.
    Disk(Option<u32>),
    /// A timer expired.
    Timer,
    /// A packet arrived; `sends` if it brought data or a connection.
    Network { sends: bool },
    /// A context without the right to wake left the wake-up to an interrupt: there is a message in the kernel's log, or
    /// data in a buffer of perf, BPF or ftrace.
    IrqWork,
    /// An interrupt or softirq of another kind.
    Context(WakeContext),
    /// The CPU that gets the task completes the wakeup. The waker's own record is missing.
    OtherCpu,
    /// The process ended and with it all of its threads.
    Exit,
    /// See [`TaskWaker::Untold`].
    Untold,
    /// See [`TaskWaker::Unrecorded`].
    Unrecorded,
}

/// The thing that a thread passes to the one that it wakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Passes {
    /// A lock, or room in a buffer.
    #[default]
    Nothing,
    /// Data, a request, an event or a connection.
    Message,
    /// A signal, which ends any wait.
    Signal,
    /// Its own end, or that of its process.
    End(Ending),
}

/// Facts from the kernel part of a waker's stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct WakePath {
    source: Option<Source>,
    passes: Passes,
    /// Whether a new connection arrived.
    connects: bool,
    exits: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Timer,
    Disk,
    /// `local` if the thread's own call sent the packet, over the loopback device or between namespaces.
    Network {
        local: bool,
    },
    OtherCpu,
    IrqWork,
}

/// Functions of the work of interrupts and softirqs.
const TIMERS: &[&str] = &[
    "hrtimer_wakeup",
    "__hrtimer_run_queues",
    "hrtimer_interrupt",
    "hrtimer_run_softirq",
    "run_timer_softirq",
    "run_timer_base",
    "__run_timers",
    "call_timer_fn",
];
const DISKS: &[&str] = &[
    "bio_endio",
    "blk_update_request",
    "blk_mq_end_request",
    "__blk_mq_end_request",
    "blk_mq_complete_request",
    "blk_done_softirq",
    "blk_complete_reqs",
];
const NETWORK: &[&str] = &["net_rx_action", "__napi_poll", "process_backlog", "net_tx_action"];
const OTHER_CPU: &[&str] = &["sched_ttwu_pending"];
/// Functions of wake-ups that contexts without the right to wake leave to an interrupt. The tick runs them if no other
/// interrupt does, without being their cause. The functions that they run, such as printk's, end in tail calls.
const IRQ_WORK: &[&str] = &["irq_work_single", "irq_work_run_list", "irq_work_run", "irq_work_tick"];
/// The poll function of packets that this machine sends to itself.
const BACKLOG: &str = "process_backlog";
/// A thread that enables softirqs runs the pending ones. An interrupt runs them when it ends.
const ENABLES: &[&str] = &["__local_bh_enable_ip", "do_softirq"];
const INTERRUPT_ENDS: &[&str] = &["irq_exit", "irq_exit_rcu", "__irq_exit_rcu", "run_ksoftirqd"];
/// Functions that pass data, an end of data or a connection to a reader.
const SENDS: &[&str] = &[
    "sock_def_readable",
    "sock_def_wakeup",
    "sock_def_error_report",
    "unix_dgram_sendmsg",
    "unix_stream_sendmsg",
    "pipe_write",
    "pipe_release",
    "anon_pipe_write",
    "eventfd_write",
    "n_tty_receive_buf_common",
    // Message queues of System V and POSIX.
    "do_msgsnd",
    "do_mq_timedsend",
    // Changes of files, for inotify and fanotify; of files in sysfs and cgroups, for poll.
    "fsnotify_insert_event",
    "fsnotify_add_event",
    "kernfs_notify_workfn",
    // Requests to a file system in user space.
    "fuse_dev_queue_req",
    "fuse_uring_queue_fuse_req",
    "queue_request_and_unlock",
];

/// Functions that send a signal on behalf of a thread. The kernel reports the end of a child by others.
const SIGNALS: &[&str] = &["do_send_sig_info"];

/// Functions that pass a new connection to the thread that accepts it.
const CONNECTS: &[&str] = &["unix_stream_connect", "tcp_child_process", "tcp_conn_request", "vsock_connect"];

/// Functions that end the other threads of a process, at its end or for exec.
const EXITS: &[&str] = &["zap_other_threads", "zap_process", "zap_threads"];

/// Functions that let a sender continue: there is room again, or its connection is established.
const MAKES_ROOM: &[&str] =
    &["sock_def_write_space", "sk_stream_write_space", "unix_write_space", "tcp_finish_connect"];

impl WakePath {
    fn of(frames: &[FrameName]) -> Self {
        let kernel: Vec<&str> = frames.iter().rev().take_while(|name| name.kind.is_kernel()).map(base).collect();
        let first = |list: &[&str]| kernel.iter().position(|name| list.contains(name));
        let innermost = [TIMERS, DISKS, NETWORK, OTHER_CPU, IRQ_WORK].map(first);
        let at = innermost.iter().flatten().min();
        let source = at.map(|at| {
            let is = |place: usize| innermost[place] == Some(*at);
            match () {
                () if is(0) => Source::Timer,
                () if is(1) => Source::Disk,
                () if is(2) => Source::Network { local: is_local(&kernel[*at..]) },
                () if is(3) => Source::OtherCpu,
                () => Source::IrqWork,
            }
        });
        let makes_room = first(MAKES_ROOM).is_some();
        let sends = matches!(source, Some(Source::Network { .. })) || first(SENDS).is_some();
        // An interrupt may hit a thread that ends.
        let is_interrupt = source.is_some_and(|source| !matches!(source, Source::Network { local: true }));
        let is_none = |ending: Ending| is_interrupt || makes_room && ending == Ending::Output;
        let passes = match Ending::of(frames, &kernel).filter(|ending| !is_none(*ending)) {
            Some(ending) => Passes::End(ending),
            None if makes_room => Passes::Nothing,
            None if sends => Passes::Message,
            None if first(SIGNALS).is_some() => Passes::Signal,
            None => Passes::Nothing,
        };
        let connects = first(CONNECTS).is_some();
        Self { source, passes, connects, exits: first(EXITS).is_some() }
    }
}

/// Whether the thread below a network softirq sent the packet itself: `kernel` is the stack from the softirq outwards.
fn is_local(kernel: &[&str]) -> bool {
    let below = kernel.iter().find(|name| ENABLES.contains(name) || INTERRUPT_ENDS.contains(name));
    kernel.contains(&BACKLOG) && below.is_some_and(|name| ENABLES.contains(name))
}

/// Returns a function's name without compiler suffixes.
fn base(name: &FrameName) -> &str {
    name.text.split('.').next().unwrap_or_default()
}

#[derive(Clone, Debug, Default)]
pub(crate) struct WakerStacks(ByStack<WakePath>);

impl WakerStacks {
    pub(crate) fn cause(&mut self, at: &Moment<'_>, waker: TaskWaker, stack: RetainedStack) -> Cause {
        cause(waker, self.path(at, stack))
    }

    /// Returns whether a new connection caused a wakeup, by its stack.
    pub(crate) fn connects(&mut self, at: &Moment<'_>, stack: RetainedStack) -> bool {
        self.path(at, stack).connects
    }

    fn path(&mut self, at: &Moment<'_>, stack: RetainedStack) -> WakePath {
        self.0.get(at, stack, || WakePath::of(&at.frames(stack)))
    }
}

/// The record's flags show whether a thread is the waker. The stack shows which interrupt or softirq.
fn cause(waker: TaskWaker, path: WakePath) -> Cause {
    let disk = match waker {
        TaskWaker::Task(_) if path.exits => return Cause::Exit,
        TaskWaker::Task(thread) => return Cause::Task { thread, passes: path.passes },
        TaskWaker::Untold => return Cause::Untold,
        TaskWaker::Unrecorded => return Cause::Unrecorded,
        TaskWaker::Softirq { disk, .. } | TaskWaker::Interrupt { disk } => disk,
    };
    match (path.source, waker) {
        (Some(Source::Network { local: true }), TaskWaker::Softirq { on, .. }) => {
            Cause::Task { thread: on, passes: path.passes }
        }
        (Some(Source::Network { .. }), _) => Cause::Network { sends: path.passes == Passes::Message },
        (Some(Source::Timer), _) => Cause::Timer,
        (Some(Source::Disk), _) => Cause::Disk(disk),
        (Some(Source::OtherCpu), _) => Cause::OtherCpu,
        (Some(Source::IrqWork), _) => Cause::IrqWork,
        (None, _) if disk.is_some() => Cause::Disk(disk),
        (None, _) => Cause::Context(waker.context()),
    }
}

#[cfg(test)]
mod tests;
