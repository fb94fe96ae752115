//! Names, inlined functions and lines of frames: requests to the threads that look them up, and their results.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::engine::Notice;
use crate::engine::fetch::Fetched;
use crate::engine::symbolizer::{FoundLines, ListJob, LookedUp, LookupJob, WantedName};
use crate::kernel::monotonic_ns;
use crate::profile::{FrameId, NodeId, Profile, SiteId, SymId};
use crate::query::annotate::{self, AnnotatedFunction};
use crate::query::answer::{Answer, BrokenStacks};
use crate::record::kinds::BuildId;
use crate::session::{Dso, DsoId, DsoKind};
use crate::symbols::debug_image::NameSource;
use crate::symbols::resolver::Findings;
use crate::symbols::{NameForm, Problem, ProblemKind};

use super::Aggregator;
use super::answer_clock::MIN_INTERVAL_NS;

/// The interval and the number of retries for frames of JIT code that was not described yet.
const RETRY_NS: u64 = 1_000_000_000;
const RETRIES: u8 = 5;
const LINES_AT_ONCE: usize = 4096;

/// The maximum number of functions that are remembered as shown.
const MAX_SEEN: usize = 1 << 16;

#[derive(Debug, Default)]
pub(super) struct NameRequests {
    pub(crate) sought: usize,
    /// How many of the next results may have names in a former form.
    outdated: usize,
    dsos: Vec<Option<Arc<Dso>>>,
    /// The DSOs with a result: their files have been read.
    answered: Vec<bool>,
    /// Unnamed frames of JIT code, with their number of requests.
    jitted: FxHashMap<FrameId, u8>,
    next_retry: u64,
    /// The source of each DSO's names.
    pub(crate) sources: Arc<BTreeMap<Arc<str>, NameSource>>,
    pub(crate) hide_inlined: bool,
    /// Functions that were on the screen, by name and DSO; and by symbol, for one numbering of them.
    seen: FxHashSet<(Arc<str>, Arc<str>)>,
    seen_syms: (u64, usize, Vec<bool>),
    /// How many frames, with how many names, were searched for those functions; `None` to search all.
    looked: Option<(u32, u64)>,
    lines_asked: usize,
    /// The profile's epoch of these numbers.
    epoch: u64,
    /// Build ids that were requested from servers, which happens only once.
    fetched: FxHashSet<BuildId>,
    /// The DSO of the function that was last annotated.
    listed: Option<DsoId>,
}

impl NameRequests {
    /// Requests the names of JIT frames again, as if they were new.
    pub(super) fn retry(&mut self, frames: Vec<FrameId>) {
        self.jitted.extend(frames.into_iter().map(|frame| (frame, 0)));
    }

    fn has_answered(&self, dso: DsoId) -> bool {
        self.answered.get(dso.0 as usize).is_some_and(|answered| *answered)
    }

    fn note_answered(&mut self, dso: DsoId) {
        let slot = dso.0 as usize;
        if self.answered.len() <= slot {
            self.answered.resize(slot + 1, false);
        }
        self.answered[slot] = true;
    }
}

fn unlooked(profile: &Profile, since: Option<(u32, u64)>) -> Vec<u32> {
    let len = profile.frames.len() as u32;
    match since.and_then(|(upto, names)| Some((upto, profile.renamed_since(names)?))) {
        None => (0..len).collect(),
        Some((upto, renamed)) => {
            let mut list: Vec<u32> = renamed.before.into_keys().filter(|frame| *frame < upto).collect();
            list.sort_unstable();
            list.extend(upto..len);
            list
        }
    }
}

impl Aggregator {
    pub(super) fn seek_names(&mut self) {
        let core = self.ingest.core_mut();
        let (session, profile) = (&core.session, &mut core.profile);
        let frames = profile.wanted(&session.dsos);
        self.ask(&frames);
        self.retry();
    }

    fn ask(&mut self, frames: &[FrameId]) {
        if frames.is_empty() {
            return;
        }
        let mut frames: Vec<WantedName> = frames.iter().map(|frame| self.wanted(*frame)).collect();
        // Samples decide which file is read first.
        if frames.iter().any(|wanted| !self.names.has_answered(wanted.dso.id)) {
            let samples = self.newest_samples();
            for wanted in &mut frames {
                wanted.samples = samples.get(&wanted.dso.id).copied().unwrap_or(0);
            }
        }
        self.names.sought += frames.len();
        let epoch = self.ingest.core().profile.epoch();
        let _ = self.links.symbolizer.jobs.send(LookupJob { epoch, frames, ..LookupJob::default() });
    }

    /// Returns how many of the newest samples were in each DSO.
    fn newest_samples(&self) -> FxHashMap<DsoId, u32> {
        const NEWEST: u64 = 2048;
        let core = self.ingest.core();
        let (profile, dsos) = (&core.profile, &core.session.dsos);
        let mut samples = FxHashMap::default();
        for (chunk, range) in profile.between(profile.end().saturating_sub(NEWEST), profile.end()) {
            let stacks = chunk.site[range].iter().map(|site| profile.sites.get(SiteId(*site)).stack);
            for stack in stacks.filter(|stack| *stack != NodeId::ROOT) {
                let map = profile.frames.get(profile.trie.frame(stack)).map;
                *samples.entry(dsos.map_of(map).dso).or_default() += 1;
            }
        }
        samples
    }

    fn wanted(&mut self, frame: FrameId) -> WantedName {
        let core = self.ingest.core();
        let one = core.profile.frames.get(frame);
        let (id, at) = one.place(&core.session.dsos);
        let now = core.session.dsos.get(id);
        let (dsos, slot) = (&mut self.names.dsos, id.0 as usize);
        if dsos.len() <= slot {
            dsos.resize(slot + 1, None);
        }
        // The file may now be accessible through another process.
        let known = dsos[slot].take().filter(|dso| dso.via == now.via && dso.dump == now.dump);
        let dso = known.unwrap_or_else(|| Arc::new(now.clone()));
        dsos[slot] = Some(dso.clone());
        WantedName { frame, dso, at, samples: 0 }
    }

    /// Requests names again that a JIT may have published in the meantime.
    fn retry(&mut self) {
        let now = monotonic_ns();
        if self.names.jitted.is_empty() || now < self.names.next_retry {
            return;
        }
        self.names.next_retry = now + RETRY_NS;
        if self.names.epoch != self.ingest.core().profile.epoch() {
            return self.names.jitted.clear();
        }
        let frames: Vec<FrameId> = self.names.jitted.keys().copied().collect();
        self.ask(&frames);
    }

    pub(super) fn names(&mut self, named: LookedUp) {
        self.names.sought = self.names.sought.saturating_sub(named.frames.len());
        self.names.outdated = self.names.outdated.saturating_sub(named.frames.len());
        let core = self.ingest.core_mut();
        let path = |dso: DsoId| core.session.dsos.get(dso).path.clone();
        let Findings { problems, sources, stripped, identified } = named.found;
        let problems: Vec<(Arc<str>, Problem)> = problems.into_iter().map(|(dso, why)| (path(dso), why)).collect();
        let sources: Vec<(Arc<str>, NameSource)> = sources.into_iter().map(|(dso, from)| (path(dso), from)).collect();
        identified.into_iter().for_each(|(dso, id)| core.session.dsos.identify(dso, id));
        for (dso, change) in named.changes {
            let of = core.session.dsos.get(dso);
            let Some((pid, ..)) = of.via.filter(|_| self.live) else { continue };
            let host = of.host;
            core.session.recode(host, pid, (change.start, change.end), change.at);
        }
        if named.epoch == core.profile.epoch() {
            if std::mem::replace(&mut self.names.epoch, named.epoch) != named.epoch {
                self.names.jitted.clear();
            }
            for (frame, dso, at, found) in named.frames {
                self.names.note_answered(dso);
                let dso = core.session.dsos.get(dso);
                if dso.kind == DsoKind::Anon && self.live {
                    let tried = self.names.jitted.remove(&frame).unwrap_or(0);
                    // A file that has not been read completely does not count as a try.
                    let tried = if named.behind.contains(&dso.id) { tried } else { tried + 1 };
                    if found.is_none() && tried <= RETRIES {
                        self.names.jitted.insert(frame, tried);
                    }
                }
                core.profile.frames.set(frame, dso, at, found);
            }
            let same = if self.names.outdated == 0 { named.same } else { Vec::new() };
            for (frame, range) in same {
                core.profile.frames.know_same(&core.session.dsos, frame, range);
            }
        }
        if !problems.is_empty() || !sources.is_empty() {
            let all = Arc::make_mut(&mut self.names.sources);
            all.extend(sources);
            let lacking = problems.iter().filter(|(_, why)| why.kind != ProblemKind::Unproven);
            all.extend(lacking.map(|(path, why)| (path.clone(), NameSource::unusual(format!("none: {why}")))));
        }
        if let Some((fetcher, _)) = &self.links.fetcher {
            for (dso, id) in stripped.into_iter().filter(|(_, id)| self.names.fetched.insert(*id)) {
                let _ = fetcher.send((dso, id));
            }
        }
        problems.into_iter().for_each(|(path, why)| {
            let what = if why.kind == ProblemKind::Unproven { "" } else { "no names for " };
            self.note(format!("{what}{path}: {why}"));
        });
        self.fresh.data = true;
        if self.live || self.due.is_young(monotonic_ns()) {
            self.tell_within(MIN_INTERVAL_NS);
        }
    }

    /// Shows names within `time`, unless the next answer is due earlier.
    fn tell_within(&mut self, time: u64) {
        let now = monotonic_ns();
        if !self.live || self.frozen_at.is_some() || self.due.is_young(now) {
            self.due.within(now, time);
        }
    }

    /// Requests the annotation of a function.
    pub(super) fn list(&mut self, target: AnnotatedFunction, at: Option<u64>) {
        let place = match at {
            Some(at) => self.names.listed.map(|dso| (dso, at)),
            None => annotate::locate(self.data(), &target, None),
        };
        let Some((dso, at)) = place else {
            let why = Err(format!("{} has no code to show", target.function));
            let _ = self.links.notices.send(Notice::Listing(target, why));
            return;
        };
        self.names.listed = Some(dso);
        let dso = Arc::new(self.ingest.core().session.dsos.get(dso).clone());
        let job = ListJob { target, dso, at, reply: self.links.notices.clone() };
        let _ = self.links.symbolizer.lists.send(job);
    }

    pub(super) fn fetched(&mut self, fetched: Fetched) {
        let core = self.ingest.core_mut();
        let dso = Arc::new(core.session.dsos.get(fetched.dso).clone());
        if let Err(why) = fetched.result {
            return self.note(format!("no debug file for {}: {why}", dso.path));
        }
        let epoch = core.profile.epoch();
        let job = LookupJob { epoch, anew: Some(dso.clone()), ..LookupJob::default() };
        let _ = self.links.symbolizer.jobs.send(job.clone());
        let _ = self.links.symbolizer.line_jobs.send(job);
        let dsos = &core.session.dsos;
        let frames = core.profile.frames.of_dso(|map| dsos.map_of(map).dso == fetched.dso);
        self.names.looked = None;
        self.ask(&frames);
    }

    pub(super) fn rename(&mut self, form: NameForm) {
        let epoch = self.ingest.core().profile.epoch();
        let job = LookupJob { epoch, form: Some(form), ..LookupJob::default() };
        let _ = self.links.symbolizer.jobs.send(job.clone());
        let _ = self.links.symbolizer.line_jobs.send(job);
        self.ingest.core_mut().rename_texts(form);
        self.ingest.core_mut().profile.frames.rename();
        self.names.outdated = self.names.sought;
        self.names.looked = None;
        self.seek_names();
    }

    pub(super) fn seek_lines(&mut self, answer: &Answer) {
        if self.names.hide_inlined || self.options.no_inline || self.names.lines_asked > 0 {
            return;
        }
        let seen = &mut self.names.seen;
        if seen.len() > MAX_SEEN {
            seen.clear();
        }
        let before = seen.len();
        let unfolded = answer.view.lines.windows(2).filter(|pair| pair[0].depth > 0 || pair[1].depth > 0);
        seen.extend(unfolded.map(|pair| (pair[0].sym.clone(), pair[0].dso.clone())));
        let blocks = answer.view.flame.iter().flat_map(|flame| &flame.blocks).filter(|block| block.pooled == 0);
        seen.extend(blocks.map(|block| (block.name.clone(), block.dso.clone())));
        if seen.is_empty() {
            return;
        }
        let grown = seen.len() != before;
        let core = self.ingest.core_mut();
        let epoch = core.profile.epoch();
        let (of_epoch, upto, syms) = &mut self.names.seen_syms;
        if grown || *of_epoch != epoch || *upto > core.profile.frames.n_syms() {
            (*of_epoch, *upto, self.names.looked) = (epoch, 0, None);
            syms.clear();
        }
        let of = unlooked(&core.profile, self.names.looked);
        let frames = &mut core.profile.frames;
        self.names.looked = Some((frames.len() as u32, frames.names()));
        syms.extend((*upto..frames.n_syms()).map(|sym| {
            let of = frames.sym(SymId(sym as u32));
            let has_lines = matches!(of.kind, DsoKind::File | DsoKind::Vdso | DsoKind::Interpreted(_));
            has_lines && self.names.seen.contains(&(of.shared_name(), of.dso_name.clone()))
        }));
        *upto = frames.n_syms();
        let list = frames.lineless(of.into_iter(), |sym| syms[sym.0 as usize]);
        if list.is_empty() {
            return;
        }
        let frames: Vec<WantedName> = list.into_iter().map(|frame| self.wanted(frame)).collect();
        for part in frames.chunks(LINES_AT_ONCE) {
            self.names.lines_asked += 1;
            let job = LookupJob { epoch, frames: part.to_vec(), ..LookupJob::default() };
            let _ = self.links.symbolizer.line_jobs.send(job);
        }
    }

    pub(super) fn lines(&mut self, lined: FoundLines) {
        self.names.lines_asked = self.names.lines_asked.saturating_sub(1);
        let core = self.ingest.core_mut();
        let path = |dso: DsoId| core.session.dsos.get(dso).path.clone();
        let problems: Vec<(Arc<str>, Problem)> =
            lined.problems.iter().map(|(dso, why)| (path(*dso), why.clone())).collect();
        if lined.epoch == core.profile.epoch() {
            for (frame, dso, places) in &lined.frames {
                core.profile.frames.set_places(*frame, core.session.dsos.get(*dso), places);
            }
            self.fresh.data = true;
            self.tell_within(3 * MIN_INTERVAL_NS);
        } else {
            // Frames have been renumbered: the results are invalid, and are requested again.
            core.profile.frames.forget_asked_lines();
            self.names.looked = None;
        }
        problems.into_iter().for_each(|(path, why)| self.note(format!("{path}: {why}")));
    }

    /// Returns the DSO with the most samples among those whose user stacks seem to lack frame pointers.
    pub(super) fn broken_stacks(&self) -> Option<BrokenStacks> {
        let core = self.ingest.core();
        let (dso, percent) = core.chains.as_ref()?.broken()?;
        Some(BrokenStacks { dso: core.session.dsos.get(dso).short.clone(), percent })
    }

    /// Returns the percentage of copied stacks that were longer than the copy.
    pub(super) fn cut_percent(&self) -> f64 {
        let chains = self.ingest.core().chains.as_ref();
        chains.map_or(0.0, |c| 100.0 * c.cut as f64 / c.unwound.max(1) as f64)
    }
}
