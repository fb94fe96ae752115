//! Counters: events that are counted without samples, and read on request. They need no ring and no thread.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use crate::event::Event;
use crate::kernel::attr::{Attr, Flag, read_format};
use crate::kernel::limits::Rights;
use crate::kernel::procfs;
use crate::kernel::sys::{Counts, Errno, Ioctl, Sys};

use super::attr::Exclude;
use super::capture;
use super::error::OpenError;
use super::target::Target;
use super::target::family::Family;

#[derive(Debug)]
pub(crate) struct CountConfig {
    pub(crate) events: Vec<Event>,
    pub(crate) target: Target,
    /// The CPUs, for the whole machine and for cgroups.
    pub(crate) cpus: Vec<u32>,
    pub(crate) exclude: Exclude,
    pub(crate) inherit: bool,
    /// Counting begins with the exec of the only task.
    pub(crate) on_exec: bool,
    /// Each cgroup of the target is counted separately, on all CPUs together.
    pub(crate) by_cgroup: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CountedOn {
    Cpu(u32),
    Thread(i32),
    Cgroup(usize),
}

#[derive(Debug)]
struct Open {
    fd: OwnedFd,
    event: usize,
    place: CountedOn,
}

pub(crate) struct Counters {
    sys: Box<dyn Sys>,
    rights: Rights,
    config: CountConfig,
    open: Vec<Open>,
    /// For each event, why it is not counted.
    pub(crate) refused: Vec<Option<String>>,
    /// Why the kernel is left out, if that was not requested.
    pub(crate) note: Option<String>,
    pub(crate) comms: BTreeMap<i32, String>,
}

/// Returns whether an error means that this machine cannot count an event for any user.
fn is_lacking(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV)
}

const FORMAT: u64 = read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING;

impl Counters {
    /// Opens all counters. As in `perf stat`, an event that this machine cannot count is left out, with the reason in
    /// [`Self::refused`]. The error is any other failure that prevents all counting.
    pub(crate) fn open(config: CountConfig, sys: Box<dyn Sys>, rights: Rights) -> Result<Self, OpenError> {
        let n = config.events.len();
        let mut counters =
            Self { sys, rights, config, open: Vec::new(), refused: vec![None; n], note: None, comms: BTreeMap::new() };
        let groups = counters.config.target.open_cgroups()?;
        let places = counters.places(&groups);
        OpenError::room_for(places.len() * n + 32, 0)?;
        let mut last = None;
        for (pid, cpu, group, place) in &places {
            let mut leaders: BTreeMap<u32, usize> = BTreeMap::new();
            for event in 0..n {
                let opened = counters.open_one(event, (*pid, *cpu), group.map(|g| &groups[g]), *place, &mut leaders);
                last = opened.err().or(last);
            }
        }
        if let Some(error) = last.filter(|_| counters.open.is_empty()) {
            return Err(error);
        }
        // Nothing runs yet, so no hit is counted without its filter.
        for open in &counters.open {
            capture::set_text(&*counters.sys, &open.fd, &counters.config.events[open.event])?;
        }
        Ok(counters)
    }

    /// Returns (pid, CPU, cgroup, place) of everything that is counted separately.
    fn places(&mut self, groups: &[OwnedFd]) -> Vec<(i32, i32, Option<usize>, CountedOn)> {
        let cpus = self.config.cpus.iter();
        if self.config.target.is_tasks() {
            let mut family = Family::default();
            let tasks = self.config.target.tasks(self.config.inherit.then_some(&mut family));
            let comm = |tid: i32| {
                let name = procfs::tgid(tid).and_then(|pid| procfs::comm(pid, tid)).unwrap_or_default();
                (tid, String::from_utf8_lossy(&name).into_owned())
            };
            self.comms = tasks.iter().map(|tid| comm(*tid)).collect();
            return tasks.into_iter().map(|tid| (tid, -1, None, CountedOn::Thread(tid))).collect();
        }
        let place = |cpu: u32, group: usize| match self.config.by_cgroup {
            true => CountedOn::Cgroup(group),
            false => CountedOn::Cpu(cpu),
        };
        match groups.len() {
            0 => cpus.map(|cpu| (-1, *cpu as i32, None, CountedOn::Cpu(*cpu))).collect(),
            n => cpus.flat_map(|cpu| (0..n).map(|g| (-1, *cpu as i32, Some(g), place(*cpu, g)))).collect(),
        }
    }

    fn open_one(
        &mut self,
        event: usize,
        (pid, cpu): (i32, i32),
        cgroup: Option<&OwnedFd>,
        place: CountedOn,
        leaders: &mut BTreeMap<u32, usize>,
    ) -> Result<(), OpenError> {
        let group = self.config.events[event].group;
        let leader = group.and_then(|g| leaders.get(&g)).copied();
        loop {
            let attr = self.attr(event, leader.is_some());
            let leader = leader.and_then(|at| self.open.get(at)).map(|o| o.fd.as_fd());
            match self.sys.open(&attr, pid, cpu, leader, cgroup.map(|fd| fd.as_fd())) {
                Ok(fd) => {
                    self.open.push(Open { fd, event, place });
                    break;
                }
                Err(errno) if OpenError::is_gone(errno, cpu) => return Ok(()),
                Err(Errno::ACCESS | Errno::PERM)
                    if !self.config.exclude.kernel && !self.rights.kernel() && !attr.has(Flag::ExcludeUser) =>
                {
                    self.config.exclude.kernel = true;
                    self.config.events.iter_mut().for_each(|event| event.name = event.user_only());
                    let level = self.rights.paranoid;
                    self.note = Some(format!(
                        "user code only: kernel.perf_event_paranoid is {level} (run as root{} to count the kernel)",
                        if self.rights.is_namespaced { " of the machine" } else { "" }
                    ));
                }
                Err(errno) => {
                    let error = OpenError::open(&self.config.events[event].name, &attr, errno, &self.rights);
                    self.refused[event].get_or_insert_with(|| error.reason.clone());
                    // The event's row reports that the machine cannot count it.
                    return if is_lacking(errno) { Ok(()) } else { Err(error) };
                }
            }
        }
        if let Some(group) = group {
            leaders.entry(group).or_insert(self.open.len() - 1);
        }
        Ok(())
    }

    fn attr(&self, event: usize, member: bool) -> Attr {
        let own = &self.config.events[event].attr;
        let mut attr = Attr { read_format: FORMAT, sample_type: 0, period_or_freq: 0, ..own.clone() };
        (attr.branch_sample_type, attr.stack_user, attr.max_stack) = (0, 0, 0);
        attr.set(Flag::Freq, false);
        let inherits = self.config.events[event].inherits(self.config.inherit);
        attr.set(Flag::Inherit, inherits && self.config.target.is_tasks());
        self.config.exclude.apply(&mut attr);
        // A group starts with its leader.
        attr.set(Flag::Disabled, !member);
        attr.set(Flag::EnableOnExec, self.config.on_exec && !member);
        attr
    }

    /// Starts counting, unless the exec does.
    pub(crate) fn enable(&self) {
        for open in self.open.iter().filter(|_| !self.config.on_exec) {
            // The request does not fail on an open descriptor.
            let _ = self.sys.ioctl(open.fd.as_fd(), Ioctl::Enable);
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.config.target.is_gone()
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.config.events
    }

    /// Returns the name of a cgroup of the target in perf's spelling: the root is `/`.
    pub(crate) fn cgroup(&self, at: usize) -> &str {
        let Target::Cgroups(groups) = &self.config.target else { return "" };
        groups.get(at).map_or("", |(name, _)| if name.is_empty() { "/" } else { name })
    }

    pub(crate) fn read(&self) -> BTreeMap<(usize, CountedOn), Counts> {
        let mut counts: BTreeMap<(usize, CountedOn), Counts> = BTreeMap::new();
        for open in &self.open {
            let read = self.sys.counts(open.fd.as_fd(), FORMAT, 0).unwrap_or_default();
            counts.entry((open.event, open.place)).or_default().add(&read);
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::spec::Capture;
    use crate::kernel::attr::TYPE_HARDWARE;
    use crate::kernel::fake::FakeSys;

    fn config(events: Vec<Event>) -> CountConfig {
        let (target, exclude) = (Target::System, Exclude::default());
        CountConfig { events, target, cpus: vec![0, 3], exclude, inherit: true, on_exec: false, by_cgroup: false }
    }

    #[test]
    fn what_cannot_be_counted_is_left_out_and_said() {
        let open = |events, errno: Errno| {
            let sys = FakeSys::new(move |attr, _, _| if attr.kind == TYPE_HARDWARE { Err(errno) } else { Ok(()) });
            Counters::open(config(events), Box::new(sys), Rights::read())
        };
        let counters = open(vec![Event::cpu_clock(), Event::cycles()], Errno::NOENT).expect("one of them");
        assert!(
            counters.refused[0].is_none() && counters.refused[1].as_ref().is_some_and(|w| w.contains("cannot count"))
        );
        let places: Vec<_> = counters.read().into_keys().collect();
        assert_eq!(places, [(0, CountedOn::Cpu(0)), (0, CountedOn::Cpu(3))]);
        // Events that the machine lacks are not an error; an error with a remedy is one.
        assert!(open(vec![Event::cycles()], Errno::NOENT).is_ok_and(|none| none.read().is_empty()));
        assert!(open(vec![Event::cycles()], Errno::MFILE).is_err());
    }

    #[test]
    fn what_a_refused_filter_would_keep_is_not_counted() {
        let filter = Capture { text: "a == 1".into(), trace: Some("a == 1".into()), ..Capture::default() };
        let filtered = Event { name: "sched:x".into(), filter: Some(filter), ..Event::cpu_clock() };
        for events in [vec![filtered.clone()], vec![Event::cpu_clock(), filtered]] {
            let sys = FakeSys::new(|_, _, _| Ok(())).refuse_filters(Errno::PERM);
            let error =
                Counters::open(config(events), Box::new(sys), Rights::read()).err().expect("refused").to_string();
            assert!(error.contains("too many terms") && error.contains("a == 1"), "{error}");
        }
    }
}
