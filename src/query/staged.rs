//! A handmade profile for tests: stacks, tasks and weights are given in the test.

use crate::profile::{NodeId, Profile, Site, SiteId};
use crate::record::Record;
use crate::session::{Dso, DsoKind, MapId, Origin, Session};
use crate::symbols::lines::InlinedFrame;

use super::aggregate::Aggregate;
use super::data::Data;
use super::question::TopSpec;
use super::rows::top::{RowLimit, Top};

pub(crate) struct Staged {
    pub(crate) session: Session,
    pub(crate) profile: Profile,
    pub(crate) events: Vec<String>,
}

impl Default for Staged {
    fn default() -> Self {
        let events = vec!["cycles".to_owned(), "faults".to_owned()];
        Self { session: Session::new(Origin::Recorded), profile: Profile::default(), events }
    }
}

impl Staged {
    pub(crate) fn dso(&mut self, name: &str) -> Dso {
        if let Some(map) = [("kernel", MapId::KERNEL), ("[unknown]", MapId::UNKNOWN)].iter().find(|(of, _)| *of == name)
        {
            return self.session.dsos.of_map(map.1).clone();
        }
        let path = format!("/usr/lib/{name}");
        let known = self.session.dsos.all().iter().find(|dso| *dso.path == *path).cloned();
        known.unwrap_or_else(|| self.session.dsos.named(&path, DsoKind::File))
    }

    /// Returns a stack of functions, root first: `name` in `app`, else `file:name`; in the kernel `kernel:name`.
    pub(crate) fn stack(&mut self, functions: &[&str]) -> NodeId {
        functions.iter().fold(NodeId::ROOT, |node, function| {
            let (file, name) = function.split_once(':').unwrap_or(("app", function));
            let dso = self.dso(file);
            let ip = function.bytes().fold(7u64, |n, b| n.wrapping_mul(131).wrapping_add(u64::from(b)));
            let frame = self.profile.frames.intern_named(ip);
            self.profile.frames.set_named(frame, &dso, name.into());
            self.profile.trie.child(node, frame)
        })
    }

    pub(crate) fn stack_in(&mut self, file: &str, functions: &[&str]) -> NodeId {
        let functions: Vec<String> = functions.iter().map(|name| format!("{file}:{name}")).collect();
        self.stack(&functions.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn comm(&mut self, pid: i32, tid: i32, exec: bool, name: &str) {
        self.session.apply(&Record::Comm { pid, tid, exec, name: name.as_bytes() }, 0);
    }

    /// Returns the site of a process's first thread in a stack of functions.
    pub(crate) fn site(&mut self, pid: i32, functions: &[&str]) -> SiteId {
        let stack = self.stack(functions);
        self.site_at(pid, stack)
    }

    pub(crate) fn site_at(&mut self, pid: i32, stack: NodeId) -> SiteId {
        let task = self.session.task(pid, pid);
        self.profile.sites.intern(Site { task, stack, trace: Default::default() })
    }

    /// Adds a sample of the first event, on CPU 0.
    pub(crate) fn sample(&mut self, time: u64, pid: i32, functions: &[&str], weight: u64) {
        let site = self.site(pid, functions);
        self.profile.push(time, site, weight, 0, 0);
    }

    /// Sets the functions inlined into a function, outermost first.
    pub(crate) fn inline(&mut self, function: &str, inlined: &[&str]) {
        let node = self.stack(&[function]);
        let (file, function) = function.split_once(':').unwrap_or(("app", function));
        let place = |name: &&str| InlinedFrame { function: Some((*name).into()), line: None };
        let places: Vec<InlinedFrame> = inlined.iter().rev().chain([&function]).map(place).collect();
        let dso = self.dso(file);
        self.profile.frames.set_places(self.profile.trie.frame(node), &dso, &places);
    }

    pub(crate) fn fold(&self) -> Aggregate {
        let mut fold = Aggregate::new(0, None);
        fold.update(self.data(), 0..u64::MAX);
        fold
    }

    pub(crate) fn top(&self, spec: &TopSpec) -> Top {
        Top::build(self.data(), &self.fold(), None, spec, RowLimit::All { sorted: usize::MAX })
    }

    pub(crate) fn data(&self) -> Data<'_> {
        Data { events: &self.events, ..Data::new(&self.session, &self.profile) }
    }
}
