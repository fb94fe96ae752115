//! Updates of the CPU screen: cursor, drill-down, findings, softirq time.

use std::sync::Arc;

use crate::ingest::derived::softirq_times::HandlerTimes;
use crate::lang::quantity;
use crate::machine::findings;
use crate::machine::findings::{FindingInput, FindingKind};
use crate::machine::sampler::HostView;
use crate::machine::table::CpuColumn;
use crate::query::Order;
use crate::query::cpus::of_vector;
use crate::source::Control;
use crate::ui::app::{App, Effect};
use crate::ui::screens::cpus::draw as drawn;
use crate::ui::screens::cpus::state::{ColumnPage, CpusState};
use crate::ui::state::{Tab, ZoomTarget};

impl App {
    /// Applies new figures of the machine's CPUs.
    pub fn set_host(&mut self, host: Option<Arc<HostView>>) {
        if !self.selection.frozen || self.context.host.is_none() {
            self.context.host = host;
        }
        self.look_for_findings();
        self.ask(false);
    }

    /// Applies new softirq times.
    pub fn set_times(&mut self, times: Option<Arc<HandlerTimes>>) {
        if !self.selection.frozen {
            self.context.times = times;
        }
    }

    pub(crate) fn tracing_failed(&mut self, why: &str) {
        self.context.tracing = false;
        self.error(format!("the time in softirqs cannot be measured: {why}"));
    }

    /// Shows the CPU screen, initially with the cursor on an anomaly.
    pub(crate) fn show_cpus(&mut self) {
        self.frame.tab = Tab::Cpus;
        if self.views.cpus.list.id.is_none()
            && let Some(found) = self.context.findings.first()
        {
            self.views.cpus.list.id = found.cpu;
            self.move_cpu(0);
        }
    }

    pub(crate) fn look_for_findings(&mut self) {
        let known = self.context.facts();
        // Samples of a single process do not show how busy a CPU is.
        let samples = known.samples.filter(|samples| samples.whole);
        let facts = FindingInput {
            host: known.host,
            samples,
            times: known.times.filter(|_| self.context.tracing),
            own: self.context.answer.cost.own_percent,
            points: self.selection.points,
            before: &self.context.findings,
        };
        self.context.findings = findings::findings(facts);
        self.views.cpus.note(&self.context.facts());
    }

    pub(crate) fn cpu(&self) -> Option<u32> {
        self.views.cpus.under_cursor(&self.context.facts())
    }

    pub(crate) fn cpu_rows(&self) -> usize {
        drawn::plan(self.scene(), &self.views.cpus).rows
    }

    pub(crate) fn move_cpu(&mut self, by: isize) {
        let facts = self.context.facts();
        let rows = self.views.cpus.rows(&facts);
        let at = self.views.cpus.selected(&rows).saturating_add_signed(by).min(rows.len().saturating_sub(1));
        let cpu = rows.get(at).copied();
        let height = self.cpu_rows();
        self.views.cpus.list.id = cpu;
        self.views.cpus.follow(&rows, height);
    }

    fn cpu_columns(&self) -> Vec<CpuColumn> {
        let facts = self.context.facts();
        let mut columns = self.views.cpus.common(&facts, self.frame.size.0);
        columns.extend(self.views.cpus.own(&facts));
        columns
    }

    pub(crate) fn move_column(&mut self, by: isize) {
        let columns = self.cpu_columns();
        let at = columns.iter().position(|c| *c == self.views.cpus.column).unwrap_or(0);
        let at = at.saturating_add_signed(by).min(columns.len().saturating_sub(1));
        if let Some(column) = columns.get(at) {
            self.views.cpus.column = *column;
        }
    }

    pub(crate) fn turn_page(&mut self) {
        let facts = self.context.facts();
        let (pages, now) = (CpusState::pages(&facts), self.views.cpus.page(&facts));
        let at = pages.iter().position(|p| *p == now).unwrap_or(0);
        let Some(next) = pages.get((at + 1) % pages.len().max(1)) else { return };
        self.set_page(*next);
        self.say(next.title());
    }

    fn set_page(&mut self, page: ColumnPage) {
        self.views.cpus.page = Some(page);
        if !self.cpu_columns().contains(&self.views.cpus.column) {
            self.views.cpus.column = CpuColumn::Cpu;
        }
    }

    pub(crate) fn order_cpus(&mut self, column: CpuColumn) {
        self.views.cpus.reversed = self.views.cpus.order == column && !self.views.cpus.reversed;
        self.views.cpus.order = column;
        self.views.cpus.list.top = 0;
        let facts = self.context.facts();
        let rows = self.views.cpus.rows(&facts);
        let height = self.cpu_rows();
        self.views.cpus.follow(&rows, height);
    }

    /// Filters by the cell, and shows its functions with their callees.
    pub(crate) fn enter_cell(&mut self) {
        let Some(cpu) = self.cpu() else { return };
        let (label, expression) = self.views.cpus.column.drill(cpu);
        self.enter(label, expression);
        // Functions that only dispatch the vector's function have larger shares, but are not informative.
        if let CpuColumn::Sampled(vector) = self.views.cpus.column {
            let behind = self.context.answer.by_cpu.behind(cpu, of_vector(vector)).map(|behind| behind.name.clone());
            self.views.top.seek = behind;
        }
    }

    fn enter(&mut self, label: String, expression: String) {
        // A CPU replaces the previous one, because they exclude each other.
        self.selection.zooms.retain(|zoom| !matches!(zoom.to, ZoomTarget::Cpu(_)));
        if let Some(zoom) = self.zoom_of(label, &expression, ZoomTarget::Cpu) {
            self.push(zoom);
        }
        self.frame.tab = Tab::Top;
        if self.selection.rows.children {
            self.selection.rows.set_order(Order::Children);
        }
    }

    pub(crate) fn capture_cpu(&mut self) {
        if let Some(cpu) = self.cpu() {
            self.control(Control::Cpus(vec![cpu]));
        }
    }

    /// Goes to the worst anomaly: its CPU and vector.
    pub(crate) fn go_to_finding(&mut self) {
        let Some(first) = self.context.findings.first().cloned() else {
            return self.say("no CPU stands out");
        };
        // Repeated at the same place, it goes to the next anomaly.
        let here = (self.frame.tab == Tab::Cpus).then(|| self.cpu()).flatten();
        let at = here.and_then(|cpu| self.context.findings.iter().position(|f| f.cpu == Some(cpu)));
        let next = at.and_then(|at| self.context.findings[at..].iter().find(|f| f.cpu != here)).cloned();
        let finding = next.unwrap_or(first);
        self.frame.tab = Tab::Cpus;
        if finding.cpu.is_none() {
            return self.say(format!("{}: {}", finding.text, finding.kind.keys(true)));
        }
        self.views.cpus.list.id = finding.cpu;
        self.move_cpu(0);
        let facts = self.context.facts();
        self.views.cpus.column = match (finding.kind, finding.vector) {
            (FindingKind::MissingTicks, _) if facts.times.is_none() => CpuColumn::Missing,
            (FindingKind::MissingSamples, _) => CpuColumn::Given,
            (_, Some(v)) if self.views.cpus.page(&facts) == ColumnPage::Timed => CpuColumn::Timed(v),
            (_, Some(v)) => {
                self.views.cpus.page = Some(ColumnPage::Sampled);
                CpuColumn::Sampled(v)
            }
            _ => CpuColumn::Share(crate::session::machine::Ticks::SOFTIRQ),
        };
    }

    pub(crate) fn toggle_tracing(&mut self) {
        if self.context.host.is_none() {
            return self.say(match self.context.times {
                Some(_) => "this recording holds the softirqs' tracepoints: their times are shown",
                None => "not in this recording: irq:softirq_entry, irq:softirq_exit",
            });
        }
        self.context.tracing = !self.context.tracing;
        self.effects.push(Effect::Softirqs(self.context.tracing));
        self.views.cpus.page = self.context.tracing.then_some(ColumnPage::Timed);
        self.views.cpus.column = match (self.context.tracing, self.views.cpus.column) {
            (true, CpuColumn::Sampled(v)) => CpuColumn::Timed(v),
            (false, CpuColumn::Timed(v)) => CpuColumn::Sampled(v),
            (false, CpuColumn::IrqTimed) => CpuColumn::Cpu,
            (_, column) => column,
        };
        if !self.context.tracing {
            self.context.times = None;
            return self.say("stopped measuring the time in softirqs");
        }
        self.say("measuring the time in softirqs and interrupts: irq:softirq_*, irq:irq_handler_*; t ends it");
    }

    pub(crate) fn set_threshold(&mut self, text: Option<String>) {
        let value = text.as_deref().map(quantity::share);
        match value {
            None => self.say(format!("a CPU stands out from {} points above the others", self.selection.points)),
            Some(Ok(points)) if (0.5..100.0).contains(&points) => {
                self.selection.points = points;
                self.look_for_findings();
            }
            Some(_) => self.error("expected points from 0.5 to 100, e.g. :threshold 10"),
        }
    }
}
