//! The state of the CPU screen: cursor, order, and visible columns.

use crate::machine::sampler::HostView;
use crate::machine::table::{CpuColumn, CpuFacts, SHOWN};
use crate::panel::row_order::{arrange, arrange_by_key};
use crate::session::machine::Ticks;
use crate::ui::state::ListCursor;

/// A set of columns after the common ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnPage {
    Sampled,
    /// Measured time by softirq vector.
    Timed,
    /// Softirqs per second.
    Rates,
    Lines,
    Net,
    /// Topology and frequency.
    Place,
    /// PMU counters.
    Work,
}

impl ColumnPage {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Sampled => "softirq vectors, % of samples",
            Self::Timed => "softirq vectors, % of time (tracepoints)",
            Self::Rates => "softirqs per second",
            Self::Lines => "interrupts per second, by line",
            Self::Net => "network, per second",
            Self::Place => "place and frequency",
            Self::Work => "cycles per second, instructions per cycle, GHz while busy (PMU)",
        }
    }
}

/// The CPU screen.
#[derive(Clone, Debug, Default)]
pub struct CpusState {
    /// The cursor by CPU; it rests on the first row.
    pub(crate) list: ListCursor<u32>,
    pub(crate) column: CpuColumn,
    /// The selected page; `None` for the most informative one.
    pub(crate) page: Option<ColumnPage>,
    pub(crate) order: CpuColumn,
    pub(crate) reversed: bool,
    /// Whether the PMUs count for this screen: only while it is visible.
    pub(crate) counts_work: bool,
    /// Columns that had a visible value: they stay visible, so that columns do not come and go.
    active: Vec<CpuColumn>,
}

/// Maximum number of interrupt lines, the busiest ones.
const MAX_LINES: usize = 64;

impl CpusState {
    /// Returns the pages that have data.
    pub(crate) fn pages(facts: &CpuFacts<'_>) -> Vec<ColumnPage> {
        let mut pages = Vec::new();
        if facts.times.is_some() {
            pages.push(ColumnPage::Timed);
        }
        if facts.samples.is_some() {
            pages.push(ColumnPage::Sampled);
        }
        if facts.host.is_some() {
            pages.extend([ColumnPage::Rates, ColumnPage::Lines, ColumnPage::Net, ColumnPage::Place]);
            pages.extend(counts_work(facts).then_some(ColumnPage::Work));
        }
        pages
    }

    pub(crate) fn page(&self, facts: &CpuFacts<'_>) -> ColumnPage {
        let pages = Self::pages(facts);
        let chosen = self.page.filter(|page| pages.contains(page));
        chosen.or(pages.first().copied()).unwrap_or(ColumnPage::Sampled)
    }

    /// Returns the common columns for a screen width.
    pub(crate) fn common(&self, facts: &CpuFacts<'_>, width: u16) -> Vec<CpuColumn> {
        use CpuColumn::{Given, Ksoftirqd, Missing, Peak, Samples, Share};
        let (wide, host) = (width >= 120, facts.host.is_some());
        // On a narrow screen, the vectors get the room of zero columns.
        let has = |column: &CpuColumn| width >= 100 || self.active.contains(column);
        let mut out = vec![CpuColumn::Cpu, Share(Ticks::USER), Share(Ticks::SYSTEM)];
        out.extend([Share(Ticks::IRQ), Share(Ticks::SOFTIRQ)].into_iter().filter(has));
        if host {
            // Hide these columns while they are zero, to leave room for vectors.
            let rare = [Share(Ticks::IOWAIT), Share(Ticks::STEAL), Share(Ticks::GUEST)];
            out.extend(rare.into_iter().filter(|column| self.active.contains(column)));
        }
        out.push(Share(Ticks::IDLE));
        if host {
            out.extend(Some(Missing).filter(has));
            out.extend((facts.samples.is_some() && (wide || self.active.contains(&Given))).then_some(Given));
        }
        out.extend(Some(Peak).filter(has));
        out.extend((host && self.active.contains(&Ksoftirqd)).then_some(Ksoftirqd));
        out.extend((!host || width >= 140).then_some(Samples));
        // On a wide screen, in addition to the page; otherwise they are on their own page.
        let work = width >= 140 && counts_work(facts) && self.page(facts) != ColumnPage::Work;
        out.extend(work.then_some([CpuColumn::Ipc, CpuColumn::Ghz]).into_iter().flatten());
        out
    }

    /// Updates the columns that have a visible value.
    pub(crate) fn note(&mut self, facts: &CpuFacts<'_>) {
        let cpus = facts.cpus();
        let shares = [Ticks::IRQ, Ticks::SOFTIRQ, Ticks::IOWAIT, Ticks::STEAL, Ticks::GUEST].map(CpuColumn::Share);
        let vectors = SHOWN.into_iter().flat_map(|v| [CpuColumn::Sampled(v), CpuColumn::Timed(v)]);
        let others = [CpuColumn::Ksoftirqd, CpuColumn::Missing, CpuColumn::Peak];
        for column in shares.into_iter().chain(others).chain(vectors) {
            // A value that rounds to zero is not visible.
            let is_whole = matches!(column, CpuColumn::Share(_) | CpuColumn::Missing | CpuColumn::Peak);
            let least = if is_whole { 0.5 } else { 0.05 };
            let is_seen = |cpu: &u32| facts.value(column, *cpu).is_some_and(|value| value >= least);
            if !self.active.contains(&column) && cpus.iter().any(is_seen) {
                self.active.push(column);
            }
        }
    }

    /// Returns the vectors with a visible value; all vectors if there are none.
    fn vectors(&self, of: fn(usize) -> CpuColumn) -> Vec<CpuColumn> {
        let all: Vec<CpuColumn> = SHOWN.into_iter().map(of).collect();
        let active: Vec<CpuColumn> = all.iter().copied().filter(|column| self.active.contains(column)).collect();
        if active.is_empty() { all } else { active }
    }

    pub(crate) fn own(&self, facts: &CpuFacts<'_>) -> Vec<CpuColumn> {
        match self.page(facts) {
            ColumnPage::Sampled => self.vectors(CpuColumn::Sampled),
            ColumnPage::Timed => [vec![CpuColumn::IrqTimed], self.vectors(CpuColumn::Timed)].concat(),
            ColumnPage::Rates => {
                let n = facts.host.map_or(0, |h| h.vectors.len());
                let known = SHOWN.into_iter().filter(|v| *v < n);
                known.chain(SHOWN.len()..n).map(CpuColumn::Rate).collect()
            }
            ColumnPage::Lines => lines(facts),
            ColumnPage::Net => {
                vec![CpuColumn::NetProcessed, CpuColumn::NetDropped, CpuColumn::NetSqueezed, CpuColumn::NetRps]
            }
            ColumnPage::Place => vec![
                CpuColumn::Mhz,
                CpuColumn::Throttled,
                CpuColumn::Node,
                CpuColumn::Package,
                CpuColumn::Core,
                CpuColumn::Siblings,
                CpuColumn::Marks,
            ],
            ColumnPage::Work => vec![CpuColumn::Cycles, CpuColumn::Ipc, CpuColumn::Ghz],
        }
    }

    pub(crate) fn rows(&self, facts: &CpuFacts<'_>) -> Vec<u32> {
        let mut cpus = facts.cpus();
        if self.order != CpuColumn::Cpu {
            let mut keyed: Vec<(f64, u32)> =
                cpus.iter().map(|cpu| (facts.value(self.order, *cpu).unwrap_or(-1.0), *cpu)).collect();
            arrange(&mut keyed, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            cpus = keyed.into_iter().map(|(_, cpu)| cpu).collect();
        }
        if self.reversed {
            cpus.reverse();
        }
        cpus
    }

    pub(crate) fn selected(&self, rows: &[u32]) -> usize {
        self.list.id.and_then(|cpu| rows.iter().position(|c| *c == cpu)).unwrap_or(0)
    }

    pub(crate) fn under_cursor(&self, facts: &CpuFacts<'_>) -> Option<u32> {
        let rows = self.rows(facts);
        rows.get(self.selected(&rows)).copied()
    }

    /// Scrolls so that the cursor's row is visible.
    pub(crate) fn follow(&mut self, rows: &[u32], height: usize) {
        self.list.show(self.selected(rows), rows.len(), height);
    }
}

/// Whether a PMU counts for this screen.
fn counts_work(facts: &CpuFacts<'_>) -> bool {
    facts.host.is_some_and(HostView::counts_work)
}

/// Returns the interrupt lines used since boot, the busiest first: an order that hardly ever changes.
fn lines(facts: &CpuFacts<'_>) -> Vec<CpuColumn> {
    let Some(host) = facts.host else { return Vec::new() };
    let mut shown: Vec<usize> = (0..host.lines.len()).filter(|i| host.lines[*i].total > 0).collect();
    arrange_by_key(&mut shown, |i| (std::cmp::Reverse(host.lines[*i].total), *i));
    shown.truncate(MAX_LINES);
    shown.into_iter().map(CpuColumn::Line).collect()
}
