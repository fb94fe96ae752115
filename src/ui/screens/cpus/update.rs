//! Updates of the CPU screen: cursor, drill-down, findings, softirq time.

use crate::lang::quantity;
use crate::machine::findings::{self, FindingInput, FindingKind};
use crate::machine::table::CpuColumn;
use crate::query::Order;
use crate::query::cpus::of_vector;
use crate::source::Control;
use crate::ui::screens::cpus::commands::{FOOTER, FOOTER_RECORDED};
use crate::ui::screens::cpus::draw::{self as drawn, CpusHit};
use crate::ui::screens::cpus::state::{ColumnPage, CpusState};
use crate::ui::screens::screen::{Canvas, Command, CursorStep, Hints, Model, Origin, Question, Screen};
use crate::ui::state::{Effect, Tab, ZoomTarget};

impl Screen for CpusState {
    fn draw(&self, model: &Model, on: &mut Canvas<'_>) {
        drawn::draw(model, self, on);
    }

    fn hints(&self, origin: Origin) -> Hints {
        if origin == Origin::Recorded { FOOTER_RECORDED } else { FOOTER }
    }

    fn text(&self, model: &Model) -> Option<String> {
        Some(drawn::text(model, self))
    }

    fn add_commands(&self, _model: &Model, commands: &mut Vec<String>) {
        commands.push("cpu-screen".to_owned());
    }

    fn click(&mut self, model: &mut Model, x: u16, y: u16) -> Option<&'static Command> {
        match drawn::hit(model, self, x, y)? {
            CpusHit::Head(column) => self.order_by(model, column),
            CpusHit::Cell(cpu, column) => {
                let again = self.cpu(model) == Some(cpu) && self.column == column;
                (self.list.id, self.column) = (Some(cpu), column);
                if again {
                    self.enter_cell(model);
                }
            }
        }
        None
    }

    fn move_cursor(&mut self, model: &mut Model, step: CursorStep) {
        self.step(model, step.lines(self.height(model)));
    }

    /// Asks for the CPU under the cursor, instead of that of the worst anomaly.
    fn question(&self, model: &Model, question: Question) -> Question {
        Question { cpu: self.cpu(model).and_then(|cpu| u16::try_from(cpu).ok()), ..question }
    }
}

impl CpusState {
    /// Shows the CPU screen, initially with the cursor on an anomaly.
    pub(crate) fn show(&mut self, model: &mut Model) {
        model.frame.tab = Tab::Cpus;
        if self.list.id.is_none()
            && let Some(found) = model.context.findings.first()
        {
            self.list.id = found.cpu;
            self.step(model, 0);
        }
    }

    /// Shows the CPU screen with the cursor on a CPU.
    pub(crate) fn show_one(&mut self, model: &mut Model, cpu: u32) {
        model.frame.tab = Tab::Cpus;
        self.list.id = Some(cpu);
        self.step(model, 0);
    }

    pub(crate) fn look_for_findings(&mut self, model: &mut Model) {
        let known = model.context.facts();
        // Samples of a single process do not show how busy a CPU is.
        let samples = known.samples.filter(|samples| samples.whole);
        let facts = FindingInput {
            host: known.host,
            samples,
            times: known.times.filter(|_| model.context.tracing),
            own: model.context.answer.cost.own_percent,
            points: model.selection.points,
            before: &model.context.findings,
        };
        model.context.findings = findings::findings(facts);
        self.note(&model.context.facts());
    }

    fn cpu(&self, model: &Model) -> Option<u32> {
        self.under_cursor(&model.context.facts())
    }

    fn height(&self, model: &Model) -> usize {
        drawn::plan(model, self).rows
    }

    fn step(&mut self, model: &Model, by: isize) {
        let facts = model.context.facts();
        let rows = self.rows(&facts);
        let at = self.selected(&rows).saturating_add_signed(by).min(rows.len().saturating_sub(1));
        let cpu = rows.get(at).copied();
        let height = self.height(model);
        self.list.id = cpu;
        self.follow(&rows, height);
    }

    fn columns(&self, model: &Model) -> Vec<CpuColumn> {
        let facts = model.context.facts();
        let mut columns = self.common(&facts, model.frame.size.0);
        columns.extend(self.own(&facts));
        columns
    }

    pub(crate) fn move_column(&mut self, model: &Model, by: isize) {
        let columns = self.columns(model);
        let at = columns.iter().position(|c| *c == self.column).unwrap_or(0);
        let at = at.saturating_add_signed(by).min(columns.len().saturating_sub(1));
        if let Some(column) = columns.get(at) {
            self.column = *column;
        }
    }

    pub(crate) fn turn_page(&mut self, model: &mut Model) {
        let facts = model.context.facts();
        let (pages, now) = (CpusState::pages(&facts), self.page(&facts));
        let at = pages.iter().position(|p| *p == now).unwrap_or(0);
        let Some(next) = pages.get((at + 1) % pages.len().max(1)) else { return };
        self.page = Some(*next);
        if !self.columns(model).contains(&self.column) {
            self.column = CpuColumn::Cpu;
        }
        model.say(next.title());
    }

    pub(crate) fn order_by(&mut self, model: &Model, column: CpuColumn) {
        self.reversed = self.order == column && !self.reversed;
        self.order = column;
        self.list.top = 0;
        let facts = model.context.facts();
        let rows = self.rows(&facts);
        let height = self.height(model);
        self.follow(&rows, height);
    }

    /// Filters by the cell, and shows its functions with their callees.
    pub(crate) fn enter_cell(&self, model: &mut Model) {
        let Some(cpu) = self.cpu(model) else { return };
        let (label, expression) = self.column.drill(cpu);
        self.enter(model, label, expression);
        // Functions that only dispatch the vector's function have larger shares, but are not informative.
        if let CpuColumn::Sampled(vector) = self.column {
            let behind = model.context.answer.by_cpu.behind(cpu, of_vector(vector)).map(|behind| behind.name.clone());
            model.top.seek = behind;
        }
    }

    fn enter(&self, model: &mut Model, label: String, expression: String) {
        // A CPU replaces the previous one, because they exclude each other.
        model.selection.zooms.retain(|zoom| !matches!(zoom.to, ZoomTarget::Cpu(_)));
        if let Some(zoom) = model.zoom_of(label, &expression, ZoomTarget::Cpu) {
            model.push(zoom);
        }
        model.frame.tab = Tab::Top;
        if model.selection.rows.children {
            model.selection.rows.set_order(Order::Children);
        }
    }

    pub(crate) fn capture(&self, model: &mut Model) {
        if let Some(cpu) = self.cpu(model) {
            model.control(Control::Cpus(vec![cpu]));
        }
    }

    /// Goes to the worst anomaly: its CPU and vector.
    pub(crate) fn go_to_finding(&mut self, model: &mut Model) {
        let Some(first) = model.context.findings.first().cloned() else {
            return model.say("no CPU stands out");
        };
        // Repeated at the same place, it goes to the next anomaly.
        let here = (model.frame.tab == Tab::Cpus).then(|| self.cpu(model)).flatten();
        let at = here.and_then(|cpu| model.context.findings.iter().position(|f| f.cpu == Some(cpu)));
        let next = at.and_then(|at| model.context.findings[at..].iter().find(|f| f.cpu != here)).cloned();
        let finding = next.unwrap_or(first);
        model.frame.tab = Tab::Cpus;
        if finding.cpu.is_none() {
            return model.say(format!("{}: {}", finding.text, finding.kind.keys(true)));
        }
        self.list.id = finding.cpu;
        self.step(model, 0);
        let facts = model.context.facts();
        self.column = match (finding.kind, finding.vector) {
            (FindingKind::MissingTicks, _) if facts.times.is_none() => CpuColumn::Missing,
            (FindingKind::MissingSamples, _) => CpuColumn::Given,
            (_, Some(v)) if self.page(&facts) == ColumnPage::Timed => CpuColumn::Timed(v),
            (_, Some(v)) => {
                self.page = Some(ColumnPage::Sampled);
                CpuColumn::Sampled(v)
            }
            _ => CpuColumn::Share(crate::session::machine::Ticks::SOFTIRQ),
        };
    }

    pub(crate) fn toggle_tracing(&mut self, model: &mut Model) {
        if model.context.host.is_none() {
            return model.say(match model.context.times {
                Some(_) => "this recording holds the softirqs' tracepoints: their times are shown",
                None => "not in this recording: irq:softirq_entry, irq:softirq_exit",
            });
        }
        model.context.tracing = !model.context.tracing;
        model.effects.push(Effect::Softirqs(model.context.tracing));
        self.page = model.context.tracing.then_some(ColumnPage::Timed);
        self.column = match (model.context.tracing, self.column) {
            (true, CpuColumn::Sampled(v)) => CpuColumn::Timed(v),
            (false, CpuColumn::Timed(v)) => CpuColumn::Sampled(v),
            (false, CpuColumn::IrqTimed) => CpuColumn::Cpu,
            (_, column) => column,
        };
        if !model.context.tracing {
            model.context.times = None;
            return model.say("stopped measuring the time in softirqs");
        }
        model.say("measuring the time in softirqs and interrupts: irq:softirq_*, irq:irq_handler_*; t ends it");
    }

    pub(crate) fn set_threshold(&mut self, model: &mut Model, text: Option<String>) {
        let value = text.as_deref().map(quantity::share);
        match value {
            None => model.say(format!("a CPU stands out from {} points above the others", model.selection.points)),
            Some(Ok(points)) if (0.5..100.0).contains(&points) => {
                model.selection.points = points;
                self.look_for_findings(model);
            }
            Some(_) => model.error("expected points from 0.5 to 100, e.g. :threshold 10"),
        }
    }
}
