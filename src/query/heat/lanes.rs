//! The rows of a map, and the row of each sample.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::filter::equals;
use crate::panel::row_order::{arrange, arrange_by_key};
use crate::profile::{NodeId, SiteId, SymId};
use crate::query::aggregate::Aggregate;
use crate::query::data::Data;

use super::{HeatBy, HeatSpec};

/// A row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeatLane {
    pub(crate) label: Arc<str>,
    /// The filter clause for its samples; `None` for the remainder.
    pub(crate) expression: Option<String>,
}

/// How the row of a sample is determined.
#[derive(Debug)]
pub(crate) enum LaneKind {
    /// By its offset inside a column.
    Offset,
    /// By its site.
    Site(Vec<u16>),
    /// By its CPU.
    Cpu(Vec<u16>),
    /// By its duration.
    Weight { lowest: u32, highest: u32 },
    /// The event does not have rows of this kind.
    None,
}

/// The name of the row for everything that does not fit.
const OTHERS: &str = "others";

/// Returns the half octave of a duration: 2·log2 of the nanoseconds, rounded down.
pub fn half_octave(ns: u64) -> u32 {
    let ns = ns.max(1);
    let whole = ns.ilog2();
    // √2 times the power of two below it, truncated to its number of bits.
    let upper = ns > SQRT_2 >> (63 - whole);
    2 * whole + u32::from(upper)
}

/// √2 · 2⁶³, rounded down.
const SQRT_2: u64 = 0xb504_f333_f9de_6484;

/// Returns the minimum nanoseconds of a half octave.
pub fn least_of(half: u32) -> u64 {
    let whole = (half / 2).min(63);
    if half.is_multiple_of(2) { 1 << whole } else { (SQRT_2 >> (63 - whole)) + 1 }
}

/// Returns the rows of a map and how to assign samples.
/// The order of the rows in the last map, `before`, is kept, so that rows do not move while shares change.
pub(crate) fn lanes(
    data: Data<'_>,
    event: usize,
    aggregate: &Aggregate,
    spec: &HeatSpec,
    before: &[HeatLane],
    leaves: &mut SiteLanes,
) -> (Vec<HeatLane>, LaneKind) {
    match spec.by {
        HeatBy::Offset => (Vec::new(), LaneKind::Offset),
        HeatBy::Cpu => by_cpu(data, spec.rows),
        HeatBy::Latency => by_weight(data, event, spec.rows),
        HeatBy::Process => by_process(data, aggregate, spec, before),
        HeatBy::Dso | HeatBy::Function => by_leaf(data, aggregate, spec, before, leaves),
    }
}

fn by_cpu(data: Data<'_>, room: usize) -> (Vec<HeatLane>, LaneKind) {
    let mut seen = vec![false; 1 << 16];
    for (chunk, range) in data.profile.between(data.profile.first(), u64::MAX) {
        chunk.cpu[range].iter().for_each(|cpu| seen[usize::from(*cpu)] = true);
    }
    let cpus: Vec<usize> = (0..seen.len()).filter(|cpu| seen[*cpu]).collect();
    // With more CPUs than rows, neighbors share one.
    let each = cpus.len().div_ceil(room.max(1)).max(1);
    let mut lane_of = vec![0; 1 << 16];
    let mut lanes = Vec::new();
    for (row, group) in cpus.chunks(each).enumerate() {
        let (first, last) = (group[0], group[group.len() - 1]);
        group.iter().for_each(|cpu| lane_of[*cpu] = row as u16);
        let name = if first == last { first.to_string() } else { format!("{first}-{last}") };
        let expression = Some(format!("cpu in {name}"));
        lanes.push(HeatLane { label: format!("CPU {name}").into(), expression });
    }
    (lanes, LaneKind::Cpu(lane_of))
}

fn by_weight(data: Data<'_>, event: usize, room: usize) -> (Vec<HeatLane>, LaneKind) {
    if !data.profile.has_durations(event as u16) {
        return (Vec::new(), LaneKind::None);
    }
    let (mut low, mut high) = (u64::MAX, 0);
    for (chunk, range) in data.profile.between(data.profile.first(), u64::MAX) {
        for i in range.filter(|i| usize::from(chunk.event[*i]) == event) {
            (low, high) = (low.min(chunk.weight[i]), high.max(chunk.weight[i]));
        }
    }
    let highest = half_octave(high);
    // Long durations matter most: if there is not enough room, the shortest share the last row.
    let lowest = half_octave(low.min(high)).max((highest + 1).saturating_sub(room.max(1) as u32));
    let lane = |half: u32| {
        // The last row includes shorter durations.
        let from = if half == lowest { 0 } else { least_of(half) };
        let clause = format!("period >= {from} && period < {}", least_of(half + 1));
        HeatLane { label: two_digits(least_of(half)).into(), expression: Some(clause) }
    };
    ((lowest..=highest).rev().map(lane).collect(), LaneKind::Weight { lowest, highest })
}

/// Formats `1.4 ms` with two digits, the precision of a half octave.
fn two_digits(ns: u64) -> String {
    let units = ["ns", "µs", "ms", "s"];
    let unit = (ns.max(1).ilog10() as usize / 3).min(units.len() - 1);
    let value = ns as f64 / 1000f64.powi(unit as i32);
    if value < 9.95 && unit > 0 { format!("{value:.1} {}", units[unit]) } else { format!("{value:.0} {}", units[unit]) }
}

/// A symbol or task without a known group.
const UNMET: u32 = u32::MAX;

/// The DSO or function of each site, cached between maps.
#[derive(Debug, Default)]
pub struct SiteLanes {
    /// The kind of rows, the version of names and the profile's epoch.
    of: Option<(HeatBy, u64, (u64, u32))>,
    of_site: Vec<u32>,
    of_sym: Vec<u32>,
    by_label: FxHashMap<Arc<str>, u32>,
    lanes: Vec<HeatLane>,
}

impl SiteLanes {
    fn update(&mut self, data: Data<'_>, by: HeatBy) {
        let of = Some((by, data.profile.frames.names(), data.profile.sums_epoch()));
        if self.of != of {
            *self = Self { of, ..Self::default() };
        }
        // The first one is for stacks without functions.
        self.of_sym.resize(data.profile.frames.n_syms() + 1, UNMET);
        for site in data.profile.sites.all().since(self.of_site.len()) {
            let sym = leaf(data, site.stack);
            let at = sym.map_or(0, |sym| sym.0 as usize + 1);
            if self.of_sym[at] == UNMET {
                let (label, field) = text_of(data, sym, by);
                let expression = Some(equals(field, &label)).filter(|_| sym.is_some());
                let lanes = &mut self.lanes;
                self.of_sym[at] = *self.by_label.entry(label.clone()).or_insert_with(|| {
                    lanes.push(HeatLane { label, expression });
                    lanes.len() as u32 - 1
                });
            }
            self.of_site.push(self.of_sym[at]);
        }
    }
}

fn by_leaf(
    data: Data<'_>,
    aggregate: &Aggregate,
    spec: &HeatSpec,
    before: &[HeatLane],
    leaves: &mut SiteLanes,
) -> (Vec<HeatLane>, LaneKind) {
    leaves.update(data, spec.by);
    let mut totals = vec![0; leaves.lanes.len()];
    for (at, weight) in leaves.of_site.iter().zip(aggregate.by_site().iter()) {
        totals[*at as usize] += weight.samples;
    }
    let some: Vec<usize> = (0..totals.len()).filter(|at| totals[*at] > 0).collect();
    let groups = some.iter().map(|at| (totals[*at], leaves.lanes[*at].clone())).collect();
    let (lanes, row_of) = choose(groups, spec.rows, before);
    // Groups without samples get row 0; nothing is counted there.
    let mut rows = vec![0; totals.len()];
    some.iter().zip(row_of).for_each(|(at, row)| rows[*at] = row);
    (lanes, LaneKind::Site(leaves.of_site.iter().map(|at| rows[*at as usize]).collect()))
}

fn by_process(
    data: Data<'_>,
    aggregate: &Aggregate,
    spec: &HeatSpec,
    before: &[HeatLane],
) -> (Vec<HeatLane>, LaneKind) {
    let weights = aggregate.by_site();
    let mut of_site = vec![None; data.profile.sites.len()];
    let mut of_task = vec![UNMET; data.session.tasks().len()];
    let mut of_pid: FxHashMap<i32, u32> = FxHashMap::default();
    let mut groups: Vec<(u64, HeatLane)> = Vec::new();
    for (site, weight) in weights.iter().enumerate().filter(|(_, weight)| !weight.is_zero()) {
        let task = data.profile.sites.get(SiteId(site as u32)).task.0 as usize;
        if of_task[task] == UNMET {
            let one = &data.session.tasks()[task];
            of_task[task] = *of_pid.entry(one.pid).or_insert_with(|| {
                groups.push((0, process(data, one.pid, &one.comm)));
                groups.len() as u32 - 1
            });
        }
        of_site[site] = Some(of_task[task]);
        groups[of_task[task] as usize].0 += weight.samples;
    }
    let (lanes, row_of) = choose(groups, spec.rows, before);
    let row = |at: &Option<u32>| at.map_or(0, |at| row_of[at as usize]);
    (lanes, LaneKind::Site(of_site.iter().map(row).collect()))
}

fn process(data: Data<'_>, pid: i32, comm: &Arc<str>) -> HeatLane {
    // The main thread's name is the process's name.
    let main = data.session.tasks().iter().rev().find(|task| task.pid == pid && task.tid == pid);
    let comm = main.map_or(comm, |task| &task.comm);
    let label = if pid == 0 { "swapper".into() } else { format!("{comm} {pid}").into() };
    HeatLane { label, expression: (pid >= 0).then(|| format!("pid == {pid}")) }
}

fn leaf(data: Data<'_>, stack: NodeId) -> Option<SymId> {
    let frame = data.profile.trie.frame(stack);
    (stack != NodeId::ROOT).then(|| data.profile.frames.sym_of(frame))
}

fn text_of(data: Data<'_>, sym: Option<SymId>, by: HeatBy) -> (Arc<str>, &'static str) {
    let Some(sym) = sym else { return ("[unknown]".into(), "dso") };
    let sym = data.profile.frames.sym(sym);
    if by == HeatBy::Dso { (sym.dso_name.clone(), "dso") } else { (sym.name().into(), "sym") }
}

/// Returns the rows with the most samples that fit, and the row of each group. Rows of the last map keep their places.
fn choose(groups: Vec<(u64, HeatLane)>, room: usize, before: &[HeatLane]) -> (Vec<HeatLane>, Vec<u16>) {
    let mut order: Vec<usize> = (0..groups.len()).collect();
    arrange(&mut order, |a, b| (groups[*b].0, &groups[*a].1.label).cmp(&(groups[*a].0, &groups[*b].1.label)));
    let room = room.max(1);
    let all = order.len() <= room;
    let own = if all { order.len() } else { room - 1 };
    let mut chosen: Vec<usize> = order[..own].to_vec();
    let place = |lane: &HeatLane| before.iter().position(|b| b == lane).unwrap_or(usize::MAX);
    arrange_by_key(&mut chosen, |at| place(&groups[*at].1));
    let mut row_of = vec![own as u16; groups.len()];
    chosen.iter().enumerate().for_each(|(row, at)| row_of[*at] = row as u16);
    let mut lanes: Vec<HeatLane> = chosen.iter().map(|at| groups[*at].1.clone()).collect();
    if !all {
        lanes.push(HeatLane { label: OTHERS.into(), expression: None });
    }
    (lanes, row_of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_octaves() {
        assert_eq!([1, 2, 3, 4, 5, 6, 1000, 1024, 1449].map(half_octave), [0, 2, 3, 4, 4, 5, 19, 20, 21]);
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn a_duration_is_inside_its_half_octave(ns in (any::<u64>(), 2u32..64).prop_map(|(n, by)| (n >> by).max(1))) {
            let half = half_octave(ns);
            prop_assert!(least_of(half) <= ns && ns < least_of(half + 1));
        }
    }

    #[test]
    fn a_half_octave_in_two_digits() {
        for (ns, want) in [
            (0, "0 ns"),
            (5, "5 ns"),
            (999, "999 ns"),
            (1000, "1.0 µs"),
            (9949, "9.9 µs"),
            (9950, "10 µs"),
            (47_000, "47 µs"),
            (1_400_000, "1.4 ms"),
            (2_000_000_000, "2.0 s"),
            (5_000_000_000_000, "5000 s"),
        ] {
            assert_eq!(two_digits(ns), want);
        }
        assert_eq!((least_of(126), least_of(128), least_of(u32::MAX - 1)), (1 << 63, 1 << 63, 1 << 63));
    }

    #[test]
    fn rows_stay_where_they_are_while_shares_change() {
        let lane = |name: &str| HeatLane { label: name.into(), expression: None };
        let groups = |counts: [u64; 4]| counts.into_iter().zip(["a", "b", "c", "d"].map(lane)).collect::<Vec<_>>();
        let labels = |lanes: &[HeatLane]| lanes.iter().map(|l| l.label.to_string()).collect::<Vec<_>>().join(" ");
        let (first, rows) = choose(groups([5, 9, 1, 3]), 3, &[]);
        assert_eq!((labels(&first).as_str(), rows), ("b a others", vec![1, 0, 2, 2]));
        let (then, _) = choose(groups([50, 9, 1, 3]), 3, &first);
        assert_eq!(labels(&then), "b a others");
        let (new, rows) = choose(groups([50, 9, 1, 30]), 3, &first);
        assert_eq!((labels(&new).as_str(), rows), ("a d others", vec![0, 2, 2, 1]));
        assert_eq!(labels(&choose(groups([1, 1, 1, 1]), 4, &[]).0), "a b c d");
    }
}
