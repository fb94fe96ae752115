//! The facts of a page: shares of processes, paths and CPUs.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::engine::offline::Offline;
use crate::filter::Filter;
use crate::machine::findings::{self, FindingInput};
use crate::machine::resources::ResourceHistory;
use crate::machine::sampler::HostView;
use crate::machine::triage::{self, MachineFinding, TriageInput};
use crate::panel::row_order::arrange_by_key;
use crate::perfdata::{EventDesc, EventUnit, SampleCount};
use crate::profile::{Acc, NodeId, SiteId};
use crate::query::cpus::context::VECTORS;
use crate::query::cpus::{self, CpuAnswer, CpuCounts};
use crate::query::rows::busiest::{ProcessSamples, busiest};
use crate::query::tree::symbol_stacks::{self, SymbolStacks};
use crate::query::unnamed::{UnnamedDso, name_remedy, process_of_jit, remedy_has_path};
use crate::query::{Aggregate, Data};
use crate::session::DsoKind;
use crate::source::Info;

use super::{Again, Digest, DigestCpu, DigestPath, DigestProcess, DigestUnnamed, MOST_ROWS};

/// The share of a caller's weight that the next function of a path has at least.
const MAIN: f64 = 0.5;
/// The minimum share of paths and of code without names, in percent.
const LEAST: f64 = 1.0;
/// The limit of processes that findings may be about.
const MOST_PROCESSES: usize = 300;

/// The subject of a page.
pub(crate) struct DigestSpec<'a> {
    pub(crate) event: usize,
    pub(crate) filter: Option<Arc<Filter>>,
    /// Whether all that the CPUs did is selected, so that missing samples are idle time.
    pub(crate) is_whole: bool,
    /// Whether only some processes are selected.
    pub(crate) is_narrowed: bool,
    /// The description of the source.
    pub(crate) info: &'a Info,
    /// Figures of /proc during the session, on the running machine.
    pub(crate) host: Option<&'a HostView>,
    /// The CPU time of this program, whose samples are left out, in percent of one CPU.
    pub(crate) own: f64,
    /// The range for which figures of /proc count, on their clock; all without it.
    pub(crate) range: Option<(u64, u64)>,
    /// The minimum difference of a CPU to the others, in points.
    pub(crate) points: f64,
    pub(crate) again: Again,
}

impl Digest {
    pub(crate) fn of(loaded: &Offline, spec: DigestSpec<'_>) -> Self {
        let data = loaded.data();
        let core = loaded.ingest.core();
        let fold = Aggregate::new(spec.event, spec.filter.clone()).over(data);
        let total = fold.total();
        let meaning = data.meaning(spec.event);
        let mut counts = CpuCounts::new(spec.event, false);
        counts.update(data, u64::MAX);
        let span = span(data, &spec);
        let cpus_of = |period: u64| {
            let is_time = data.unit(spec.event) == EventUnit::Nanoseconds && span > 0;
            is_time.then(|| period as f64 / span as f64)
        };
        let is_whole = spec.is_whole;
        let by_mode = counts.by_mode(&fold.by_site());
        let processes = processes(data, &fold, &counts, cpus_of);
        let (sampled, by_proc) = (cpus_of(by_mode.iter().sum()), busy_of_host(&spec));
        let missing = share_without_samples(sampled, by_proc);
        // Each CPU's figures of /proc are those of the present.
        let present = spec.host.filter(|_| missing.is_some() && spec.range.is_none());
        let mut notes = loaded.notes.clone();
        notes.extend(missing.map(|share| {
            format!(
                "{:.0} % of the busy time of the CPUs has no samples: interrupts of the clock are missing, or samples are \
                 lost; shares are of the samples that came",
                100.0 * share
            )
        }));
        let mut answer = |cpu| {
            let (frequency, sampled) = (spec.info.clock_rate(), spec.info.n_cpus);
            CpuAnswer { frequency, whole: is_whole, sampled, ..counts.answer(data, cpu) }
        };
        Self {
            machine: machine(spec.info),
            event: loaded.event_names.get(spec.event).cloned().unwrap_or_default(),
            seconds: span as f64 / 1e9,
            samples: total.counted(meaning.count).0,
            counts_stacks: meaning.count == SampleCount::Unknown,
            lost: core.profile.ledger.lost_of(spec.event),
            busy: by_proc.filter(|_| missing.is_some()).or(sampled),
            cpus: spec.info.n_cpus,
            findings: found(&spec, &busiest(data, &fold, MOST_PROCESSES), &mut answer),
            start: core.times.start,
            processes,
            paths: paths(data, &fold),
            by_cpu: if is_whole { by_cpu(&answer(None), present) } else { Vec::new() },
            unnamed: unnamed(data, &fold),
            notes,
            again: spec.again,
        }
    }
}

/// Returns the time between the first and the last selected sample in nanoseconds.
fn span(data: Data<'_>, spec: &DigestSpec<'_>) -> u64 {
    let (mut first, mut last) = (u64::MAX, 0);
    symbol_stacks::samples(data, spec.filter.clone(), |sample| {
        if usize::from(sample.event) == spec.event {
            (first, last) = (first.min(sample.time), last.max(sample.time));
        }
    });
    last.saturating_sub(first)
}

/// Returns how many CPUs were busy by /proc/stat on average, without this program.
fn busy_of_host(spec: &DigestSpec<'_>) -> Option<f64> {
    let host = spec.host.filter(|_| spec.is_whole && !spec.is_narrowed)?;
    let (busy, passed) = host
        .history
        .between(spec.range.unwrap_or((0, u64::MAX)))
        .iter()
        .fold((0, 0), |sum, one| (sum.0 + one.busy_ns, sum.1 + one.length));
    (passed > 0).then(|| (busy as f64 / passed as f64 - spec.own / 100.0).max(0.0))
}

/// Returns the share of the busy time that has no samples, if it is more than chance: a virtual machine can lose
/// interrupts of the clock, which must not look like idle time.
fn share_without_samples(sampled: Option<f64>, by_proc: Option<f64>) -> Option<f64> {
    let (sampled, busy) = (sampled?, by_proc?);
    Some(1.0 - sampled / busy).filter(|share| busy > 0.2 && *share > 0.1)
}

fn machine(info: &Info) -> String {
    let host = info.hosts.first();
    let mut parts: Vec<String> = Vec::new();
    if !info.hosts.are_many() {
        parts.extend([host.name.to_string(), host.kernel.clone()]);
    }
    parts.push(info.arch.clone());
    parts.extend((info.n_cpus > 0).then(|| crate::lang::counted(info.n_cpus as u64, "CPU")));
    parts.retain(|part| !part.is_empty());
    parts.join(", ")
}

/// Returns what is abnormal; each CPU's finding with the function responsible.
fn found(
    spec: &DigestSpec<'_>,
    processes: &[ProcessSamples],
    mut answer: impl FnMut(Option<u16>) -> CpuAnswer,
) -> Vec<MachineFinding> {
    let search = |samples: &CpuAnswer| {
        findings::findings(FindingInput {
            // A target's samples do not show how busy a CPU is.
            host: spec.host.filter(|_| spec.info.has_whole_cpus()),
            samples: Some(samples).filter(|samples| samples.whole),
            times: None,
            own: spec.own,
            points: spec.points,
            before: &[],
        })
    };
    let mut list = search(&answer(None));
    list.truncate(MOST_ROWS);
    for one in &mut list {
        let Some(cpu) = one.cpu.and_then(|cpu| u16::try_from(cpu).ok()) else { continue };
        let again = search(&answer(Some(cpu)));
        if let Some(again) = again.into_iter().find(|again| (again.cpu, again.kind) == (one.cpu, one.kind)) {
            *one = again;
        }
    }
    let none = ResourceHistory::default();
    let history = spec.host.map_or(&none, |host| &host.history);
    let range = spec.range.unwrap_or((history.start().unwrap_or(0), history.end().unwrap_or(0)));
    let (is_narrowed, target) = (spec.is_narrowed, spec.info.whom.process_ids());
    let target_groups = spec.info.whom.group_paths();
    let own_timer_hz = triage::own_timer_hz(spec.info.events.iter().map(EventDesc::unit).zip(&spec.info.states));
    triage::findings(&TriageInput {
        cpus: &list,
        processes,
        is_narrowed,
        target,
        target_groups: &target_groups,
        own_timer_hz,
        ..TriageInput::new(history, range)
    })
}

fn processes(
    data: Data<'_>,
    fold: &Aggregate,
    counts: &CpuCounts,
    cpus_of: impl Fn(u64) -> Option<f64>,
) -> Vec<DigestProcess> {
    let total = fold.total();
    let list = busiest(data, fold, MOST_ROWS);
    let mut by_site = vec![Acc::default(); data.profile.sites.len()];
    let one = |process: ProcessSamples| {
        process.sites.iter().for_each(|(site, acc)| by_site[*site as usize] += *acc);
        let modes = counts.by_mode(&by_site);
        process.sites.iter().for_each(|(site, _)| by_site[*site as usize] = Acc::default());
        let all: u64 = modes.iter().sum::<u64>().max(1);
        let (function, function_share) = process.function.unwrap_or_default();
        DigestProcess {
            comm: process.comm.to_string(),
            pid: process.pid,
            threads: process.threads,
            share: process.acc.percent_of(&total),
            cpus: cpus_of(process.acc.period),
            kernel: 100.0 * (all - modes[0].min(all)) as f64 / all as f64,
            function,
            function_share,
        }
    };
    list.into_iter().map(one).collect()
}

/// Returns the heaviest paths. Each follows the heaviest function below as long as it has most of its caller's weight;
/// its samples are in no other path.
fn paths(data: Data<'_>, fold: &Aggregate) -> Vec<DigestPath> {
    let named = SymbolStacks::build(data);
    let whole = fold.total();
    let mut below: FxHashMap<(Arc<str>, u32), Acc> = FxHashMap::default();
    let mut children: FxHashMap<(Arc<str>, u32), Vec<u32>> = FxHashMap::default();
    let mut comms: Vec<Arc<str>> = Vec::new();
    for (comm, node, acc) in symbol_stacks::stacks(data, &named, fold) {
        if comms.last() != Some(&comm) {
            comms.push(comm.clone());
        }
        let mut at = node;
        loop {
            let place = (comm.clone(), at.0);
            let is_new = !below.contains_key(&place);
            *below.entry(place).or_default() += acc;
            if at == NodeId::ROOT {
                break;
            }
            let parent = named.trie.parent(at);
            if is_new {
                children.entry((comm.clone(), parent.0)).or_default().push(at.0);
            }
            at = parent;
        }
    }
    // The first function of a path is always part of it, also below a marker of a cut stack.
    let is_start = |node: u32| {
        let parent = named.trie.parent(NodeId(node));
        let frame = || &named.names[named.trie.frame(NodeId(node)).0 as usize];
        node == 0 || parent == NodeId::ROOT && frame().kind == DsoKind::Cut
    };
    let mut out = Vec::new();
    while out.len() < MOST_ROWS {
        let weight = |comm: &Arc<str>, node: u32| below.get(&(comm.clone(), node)).copied().unwrap_or_default();
        let first = comms.iter().max_by_key(|comm| (weight(comm, 0).period, Reverse((*comm).clone())));
        let Some(comm) = first.cloned() else { break };
        let mut at = 0;
        loop {
            let here = weight(&comm, at);
            let next = children.get(&(comm.clone(), at)).into_iter().flatten();
            let next = next.copied().max_by_key(|node| (weight(&comm, *node).period, Reverse(*node)));
            match next {
                Some(node) if is_start(at) || weight(&comm, node).period as f64 > MAIN * here.period as f64 => {
                    at = node
                }
                _ => break,
            }
        }
        let acc = weight(&comm, at);
        if at == 0 || acc.percent_of(&whole) < LEAST {
            break;
        }
        let functions = named.path(NodeId(at)).into_iter().map(|name| named.names[name as usize].text.to_string());
        out.push(DigestPath { comm: comm.to_string(), share: acc.percent_of(&whole), functions: functions.collect() });
        let mut up = NodeId(at);
        while let Some(there) = below.get_mut(&(comm.clone(), up.0)) {
            *there -= acc;
            if up == NodeId::ROOT {
                break;
            }
            up = named.trie.parent(up);
        }
    }
    arrange_by_key(&mut out, |path| Reverse((path.share * 1e6) as u64));
    out
}

fn by_cpu(answer: &CpuAnswer, host: Option<&HostView>) -> Vec<DigestCpu> {
    let expected = answer.expected();
    if expected < 1.0 {
        return Vec::new();
    }
    let share = |samples: u64| (100.0 * samples as f64 / expected).min(100.0);
    let by_proc = |cpu: u16| host.and_then(|host| host.row(cpu.into())).map_or(0.0, |row| f64::from(row.busy()));
    let mut list: Vec<DigestCpu> = (answer.rows.iter())
        .map(|row| {
            let soft = row.softirqs() + row.counts[cpus::IRQ];
            let vector = row.vector().filter(|_| share(soft) >= LEAST);
            DigestCpu {
                cpu: row.cpu,
                // Without some of its samples, a CPU would look idle.
                busy: share(row.total() - row.counts[cpus::IDLE]).max(by_proc(row.cpu)),
                soft: share(soft),
                vector: vector.map(|vector| VECTORS[vector]),
            }
        })
        .collect();
    arrange_by_key(&mut list, |cpu| (Reverse((cpu.busy * 10.0) as u64), cpu.cpu));
    list.truncate(MOST_ROWS);
    list
}

fn unnamed(data: Data<'_>, fold: &Aggregate) -> Vec<DigestUnnamed> {
    let (whole, frames) = (fold.total(), &data.profile.frames);
    let mut list = BTreeMap::new();
    for (_, id, acc) in fold.sites() {
        let stack = data.profile.sites.get(SiteId(id)).stack;
        if stack == NodeId::ROOT {
            continue;
        }
        let sym = frames.sym(frames.sym_of(data.profile.trie.frame(stack)));
        if sym.is_unnamed() {
            list.entry(sym.dso).or_insert((sym.kind, Acc::default())).1 += acc;
        }
    }
    let one = |(dso, (kind, acc)): (_, (_, Acc))| {
        let dso = data.session.dsos.get(dso);
        let task = process_of_jit(&dso.path).and_then(|pid| data.session.tasks().iter().rfind(|task| task.pid == pid));
        let known = UnnamedDso { program: task.map(|task| &*task.program), ..UnnamedDso::default() };
        let remedy = name_remedy(kind, &dso.path, known);
        let (share, remedy_has_dso) = (acc.percent_of(&whole), remedy_has_path(kind));
        DigestUnnamed { dso: dso.path.to_string(), share, remedy, remedy_has_dso }
    };
    let mut list: Vec<DigestUnnamed> = list.into_iter().map(one).filter(|one| one.share >= LEAST).collect();
    arrange_by_key(&mut list, |one| Reverse((one.share * 1e6) as u64));
    list.truncate(MOST_ROWS);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_interrupts_of_the_clock_are_no_idle_time() {
        assert_eq!(share_without_samples(Some(1.5), Some(2.0)), Some(0.25));
        assert_eq!(share_without_samples(Some(1.95), Some(2.0)), None, "chance, or the time between two readings");
        assert_eq!(share_without_samples(Some(2.0), Some(1.5)), None);
        assert_eq!(share_without_samples(Some(0.01), Some(0.1)), None, "too little to judge");
        assert_eq!((share_without_samples(None, Some(2.0)), share_without_samples(Some(1.0), None)), (None, None));
    }
}
