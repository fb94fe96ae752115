//! The machines of a session that combines records of several: an id for each, and the current one.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::host::{Host, LINGER_NS};
use super::{MapId, Session, Task};

/// A machine whose records are combined; the first if there is only one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub(super) u16);

/// A value per machine, of at least one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerHost<T>(Vec<T>);

impl<T> PerHost<T> {
    /// Returns the value of a single machine.
    pub fn one(first: T) -> Self {
        Self(vec![first])
    }

    pub(crate) fn push(&mut self, one: T) -> HostId {
        self.0.push(one);
        HostId((self.0.len() - 1) as u16)
    }

    pub(crate) fn are_many(&self) -> bool {
        self.0.len() > 1
    }

    /// Returns the value of the first machine, which may be the only one.
    pub fn first(&self) -> &T {
        &self.0[0]
    }

    pub(crate) fn get(&self, id: HostId) -> Option<&T> {
        self.0.get(usize::from(id.0))
    }

    /// Returns each machine's value, in the order of their ids.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (HostId, &T)> {
        self.0.iter().enumerate().map(|(at, one)| (HostId(at as u16), one))
    }

    pub(crate) fn values_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }

    pub(crate) fn map<U>(&self, mut of: impl FnMut(HostId, &T) -> U) -> PerHost<U> {
        PerHost(self.iter().map(|(id, one)| of(id, one)).collect())
    }
}

impl<T: Default> Default for PerHost<T> {
    fn default() -> Self {
        Self::one(T::default())
    }
}

impl<T> Index<HostId> for PerHost<T> {
    type Output = T;

    fn index(&self, id: HostId) -> &T {
        &self.0[usize::from(id.0)]
    }
}

impl<T> IndexMut<HostId> for PerHost<T> {
    fn index_mut(&mut self, id: HostId) -> &mut T {
        &mut self.0[usize::from(id.0)]
    }
}

impl Session {
    pub(crate) fn name_hosts(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        let mut names = names.into_iter();
        self.here_mut().name = names.next().unwrap_or_default();
        for name in names {
            self.generation += 1;
            let id = self.hosts.push(Host::new(name, MapId::KERNEL, self.generation));
            self.hosts[id].kernel_text = self.dsos.kernel_of(id);
        }
    }

    /// Returns whether all machines have the host name of this one.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        let uname = rustix::system::uname();
        self.hosts.iter().all(|(_, host)| *host.name == *uname.nodename().to_string_lossy())
    }

    /// Returns the state of each machine.
    pub fn hosts(&self) -> &PerHost<Host> {
        &self.hosts
    }

    pub(crate) fn host(&self, task: &Task) -> Arc<str> {
        self.hosts[task.host].name.clone()
    }

    /// Selects the machine that later calls refer to.
    pub(crate) fn turn_to(&mut self, host: HostId) {
        (self.at, self.dsos.host) = (host, host);
    }

    pub(crate) fn at(&self) -> HostId {
        self.at
    }

    pub(super) fn here(&self) -> &Host {
        &self.hosts[self.at]
    }

    pub(super) fn here_mut(&mut self) -> &mut Host {
        &mut self.hosts[self.at]
    }

    pub(crate) fn memory(&self) -> usize {
        let logs: usize = self.hosts.iter().map(|(_, host)| host.log.memory()).sum();
        logs + self.tasks.memory() + self.dsos.maps.memory()
    }

    /// Drops the history of exited processes that no kept sample can need: those without samples, and those that exited
    /// before `oldest`, the time of the oldest kept sample.
    pub(crate) fn trim_log(&mut self, oldest: u64) {
        // The last samples of a process arrive after its exit is reported.
        let before = oldest.saturating_sub(LINGER_NS);
        self.hosts.values_mut().for_each(|host| host.log.trim(before));
    }

    /// Returns whether there are enough unused mappings to justify their removal.
    pub(crate) fn maps_are_ripe(&self) -> bool {
        self.dsos.maps.are_ripe()
    }
}
