//! A profile made by hand for tests: samples whose stacks, tasks and weights are in the test's own words.

use crate::profile::{NodeId, Profile, Site, SiteId};
use crate::record::Record;
use crate::session::{Dso, DsoKind, MapId, Origin, Session};
use crate::symbols::lines::InlinedFrame;

use super::aggregate::Aggregate;
use super::data::Data;
use super::question::TopSpec;
use super::top::{RowLimit, Top};

/// A session and its profile.
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
    /// A file by its name.
    pub(crate) fn dso(&mut self, name: &str) -> Dso {
        if let Some(map) = [("kernel", MapId::KERNEL), ("[unknown]", MapId::UNKNOWN)].iter().find(|(of, _)| *of == name)
        {
            return self.session.dsos.of_map(map.1).clone();
        }
        let path = format!("/usr/lib/{name}");
        let known = self.session.dsos.all().iter().find(|dso| *dso.path == *path).cloned();
        known.unwrap_or_else(|| self.session.dsos.named(&path, DsoKind::File))
    }

    /// A stack of functions, root first, each by its name, or as `file:name` where it is not of `app`;
    /// the kernel's as `kernel:name`.
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

    /// A stack of functions of one file.
    pub(crate) fn stack_in(&mut self, file: &str, functions: &[&str]) -> NodeId {
        let functions: Vec<String> = functions.iter().map(|name| format!("{file}:{name}")).collect();
        self.stack(&functions.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Says what a thread is called.
    pub(crate) fn comm(&mut self, pid: i32, tid: i32, exec: bool, name: &str) {
        self.session.apply(&Record::Comm { pid, tid, exec, name: name.as_bytes() }, 0);
    }

    /// Who was where.
    pub(crate) fn site(&mut self, pid: i32, functions: &[&str]) -> SiteId {
        let stack = self.stack(functions);
        self.site_at(pid, stack)
    }

    /// A process's first thread at a stack.
    pub(crate) fn site_at(&mut self, pid: i32, stack: NodeId) -> SiteId {
        let task = self.session.task(pid, pid);
        self.profile.sites.intern(Site { task, stack, trace: Default::default() })
    }

    /// A sample of the first event, on CPU 0.
    pub(crate) fn sample(&mut self, time: u64, pid: i32, functions: &[&str], weight: u64) {
        let site = self.site(pid, functions);
        self.profile.push(time, site, weight, 0, 0);
    }

    /// What was inlined into a function, outermost first.
    pub(crate) fn inline(&mut self, function: &str, inlined: &[&str]) {
        let node = self.stack(&[function]);
        let (file, function) = function.split_once(':').unwrap_or(("app", function));
        let place = |name: &&str| InlinedFrame { function: Some((*name).into()), line: None };
        let places: Vec<InlinedFrame> = inlined.iter().rev().chain([&function]).map(place).collect();
        let dso = self.dso(file);
        self.profile.frames.set_places(self.profile.trie.frame(node), &dso, &places);
    }

    /// All samples of the first event.
    pub(crate) fn fold(&self) -> Aggregate {
        let mut fold = Aggregate::new(0, None);
        fold.update(self.data(), 0..u64::MAX);
        fold
    }

    /// All rows of them.
    pub(crate) fn top(&self, spec: &TopSpec) -> Top {
        Top::build(self.data(), &self.fold(), None, spec, RowLimit::All { sorted: usize::MAX })
    }

    pub(crate) fn data(&self) -> Data<'_> {
        Data { events: &self.events, ..Data::new(&self.session, &self.profile) }
    }
}
