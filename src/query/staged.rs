//! A profile made by hand for tests: samples whose stacks, tasks and weights are in the test's own words.

use crate::profile::{Frame, NodeId, Profile, Site, SiteId};
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
        if name == "kernel" {
            return self.session.dsos.of_map(MapId::KERNEL).clone();
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
            let frame = self.profile.frames.intern(Frame { map: MapId::UNKNOWN, caller: false, ip });
            self.profile.frames.set_named(frame, &dso, name.into());
            self.profile.trie.child(node, frame)
        })
    }

    /// Who was where.
    pub(crate) fn site(&mut self, pid: i32, functions: &[&str]) -> SiteId {
        let (task, stack) = (self.session.task(pid, pid), self.stack(functions));
        self.profile.sites.intern(Site { task, stack, trace: Default::default() })
    }

    /// A sample of the first event, on CPU 0.
    pub(crate) fn sample(&mut self, time: u64, pid: i32, functions: &[&str], weight: u64) {
        let site = self.site(pid, functions);
        self.profile.push(time, site, weight, 0, 0);
    }

    /// What was inlined into a function of `app`, outermost first.
    pub(crate) fn inline(&mut self, function: &str, inlined: &[&str]) {
        let node = self.stack(&[function]);
        let place = |name: &&str| InlinedFrame { function: Some((*name).into()), line: None };
        let places: Vec<InlinedFrame> = inlined.iter().rev().chain([&function]).map(place).collect();
        let dso = self.dso("app");
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
        Top::build(self.data(), &self.fold(), spec, RowLimit::All { sorted: usize::MAX })
    }

    pub(crate) fn data(&self) -> Data<'_> {
        Data { events: &self.events, ..Data::new(&self.session, &self.profile) }
    }
}
