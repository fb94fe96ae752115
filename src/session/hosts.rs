//! The machines of a session, where records of several come together: a number for each, and the one at hand.

use std::ops::{Index, IndexMut};
use std::sync::Arc;

use super::host::{Host, LINGER_NS};
use super::{MapId, Session, Task};

/// One of the machines whose records come together; the first, where there is but one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostId(pub(super) u16);

/// Something of each machine, of one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PerHost<T>(Vec<T>);

impl<T> PerHost<T> {
    /// Of one machine alone.
    pub fn one(first: T) -> Self {
        Self(vec![first])
    }

    /// Of one more.
    pub(crate) fn push(&mut self, one: T) -> HostId {
        self.0.push(one);
        HostId((self.0.len() - 1) as u16)
    }

    pub(crate) fn are_many(&self) -> bool {
        self.0.len() > 1
    }

    /// The only one's, or the first's.
    pub fn first(&self) -> &T {
        &self.0[0]
    }

    pub(crate) fn get(&self, id: HostId) -> Option<&T> {
        self.0.get(usize::from(id.0))
    }

    /// Each machine's, in the order of their ids.
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
    /// Gives its machines their names; more than one are counted side by side.
    pub(crate) fn name_hosts(&mut self, names: impl IntoIterator<Item = Arc<str>>) {
        let mut names = names.into_iter();
        self.here_mut().name = names.next().unwrap_or_default();
        for name in names {
            self.generation += 1;
            let id = self.hosts.push(Host::new(name, MapId::KERNEL, self.generation));
            self.hosts[id].kernel_text = self.dsos.kernel_of(id);
        }
    }

    /// True if records are of a machine of this one's name.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        let uname = rustix::system::uname();
        self.hosts.iter().all(|(_, host)| *host.name == *uname.nodename().to_string_lossy())
    }

    /// The state of each machine that records are of; of one machine there is just that.
    pub fn hosts(&self) -> &PerHost<Host> {
        &self.hosts
    }

    /// The name of the machine that a task runs on.
    pub(crate) fn host(&self, task: &Task) -> Arc<str> {
        self.hosts[task.host].name.clone()
    }

    /// From now on what is told and asked is of this machine.
    pub(crate) fn turn_to(&mut self, host: HostId) {
        (self.at, self.dsos.host) = (host, host);
    }

    /// The machine that is turned to.
    pub(crate) fn at(&self) -> HostId {
        self.at
    }

    pub(super) fn here(&self) -> &Host {
        &self.hosts[self.at]
    }

    pub(super) fn here_mut(&mut self) -> &mut Host {
        &mut self.hosts[self.at]
    }

    /// Bytes that threads, processes and mappings take, with their history.
    pub(crate) fn memory(&self) -> usize {
        let logs: usize = self.hosts.iter().map(|(_, host)| host.log.memory()).sum();
        logs + self.tasks.memory() + self.dsos.maps.memory()
    }

    /// Forgets the history that no kept sample can need, where `oldest` is the time of the first that is kept: that of
    /// processes which have ended, and before it or without any sample.
    pub(crate) fn trim_log(&mut self, oldest: u64) {
        // What comes of a process in its last moments is sampled after its end is told.
        let before = oldest.saturating_sub(LINGER_NS);
        self.hosts.values_mut().for_each(|host| host.log.trim(before));
    }

    /// True if it is worth its time to forget mappings that nothing has any more.
    pub(crate) fn maps_are_ripe(&self) -> bool {
        self.dsos.maps.are_ripe()
    }
}
