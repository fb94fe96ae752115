//! Answers of the engine, and the questions that follow from the view.

use std::sync::Arc;

use crate::engine::Request;
use crate::ingest::tracepoints;
use crate::query::{Age, Answer, Question};
use crate::session::Origin;
use crate::ui::app::{App, Effect};
use crate::ui::draw::layout;
use crate::ui::input::commands::general;
use crate::ui::screens::list::screen;
use crate::ui::screens::time::state::usual;
use crate::ui::state::environment::drawn_part;
use crate::ui::state::{StartupAction, Tab};

impl App {
    /// Sets the size of the terminal.
    pub fn resize(&mut self, width: u16, height: u16) {
        let drawn = drawn_part(width, height);
        if drawn != (width, height) {
            let (columns, rows) = drawn;
            self.say(format!("the terminal reports {width}×{height}; only {columns}×{rows} are drawn"));
        }
        self.frame.size = drawn;
        self.views.top.height = layout::table_height(self.scene());
        let answer = self.context.answer.clone();
        if answer.view.flame.is_none() && answer.view.heat.is_none() {
            self.views.top.follow(&answer);
        }
        self.ask(false);
    }

    /// Applies a new answer.
    pub fn set_answer(&mut self, answer: Arc<Answer>) {
        let had_nothing = self.context.samples_nothing();
        let before = std::mem::replace(&mut self.context.answer, answer.clone());
        if let Some(event) = self.context.sampled_event().filter(|_| had_nothing) {
            // Show the first event that is started in a session without samples.
            self.selection.event = event;
        }
        if answer.events.len() > before.events.len().max(self.context.info.events.len()) {
            let names: Vec<&str> = answer.events.iter().map(|e| e.name.as_str()).collect();
            self.context.fields = Arc::new(tracepoints::fields(&self.context.info, &names));
        }
        if answer.ended.is_some() && !std::mem::replace(&mut self.views.time.chosen, true) {
            self.views.time.length = usual(answer.elapsed_ns);
        }
        if answer.ended.is_some() && !self.selection.age_chosen {
            // Show all of an ended source.
            self.selection.age = Age::All;
        }
        self.selection.rows.offer_ipc(self.context.partner(self.selection.event).is_some());
        self.look_for_findings();
        self.views.top.height = layout::table_height(self.scene());
        self.follow_heat();
        self.follow_hits();
        if let Some(flame) = answer.view.flame.as_ref().filter(|flame| flame.found.is_some())
            && std::mem::take(&mut self.views.flame.seeks)
        {
            self.views.flame.seek_found(flame);
        }
        if let Some(flame) = &answer.view.flame {
            let rows = self.flame_area().height;
            self.views.flame.fit(flame, rows);
        }
        self.return_cursor();
        if answer.view.flame.is_none() && answer.view.heat.is_none() {
            self.views.top.follow(&answer);
        }
        let loaded = self.context.info.origin == Origin::Live || self.context.info.flows || answer.ended.is_some();
        if answer.question.generation == self.asked.generation
            && let Some(action) = self.startup.pop_front_if(|action| loaded || !needs_all(action))
        {
            self.step(|app| app.start_with(action));
        }
        self.ask(false);
    }

    fn start_with(&mut self, action: StartupAction) {
        match action {
            StartupAction::Command(command) => self.run(command),
            StartupAction::Range { range, typed } => self.go_to_clock_range(&range, &typed),
        }
    }

    /// Enables the PMU counters of the CPUs while their screen is visible.
    fn count_work(&mut self) {
        let wanted = self.frame.tab == Tab::Cpus && self.context.info.origin == Origin::Live;
        if std::mem::replace(&mut self.views.cpus.counts_work, wanted) != wanted {
            self.effects.push(Effect::CountWork(wanted));
        }
    }

    pub(crate) fn ask(&mut self, always: bool) {
        let screen = screen(self.frame.tab);
        screen.prepare(self);
        self.count_work();
        let unfolded = self.selection.rows.expand_all || !self.selection.rows.toggled.is_empty();
        let scene = self.scene();
        let question = Question {
            callers_of: self.row().map(|row| row.id).filter(|_| layout::beside_width(scene, self.frame.size.0) > 0),
            first_line: if unfolded { self.views.top.list.top } else { 0 },
            height: self.views.top.height.max(1),
            cpu: self.context.findings.first().and_then(|found| u16::try_from(found.cpu?).ok()),
            annotate: self.annotated().map(|screen| screen.target.clone()),
            ..self.selection.question(&self.context, self.frame.tab, &self.asked)
        };
        let question = screen.question(self, question);
        if always || question != self.asked {
            self.asked = Question { generation: self.asked.generation + 1, ..question };
            self.request(Request::Ask(Arc::new(self.asked.clone())));
        }
    }
}

/// Returns whether a recording must be loaded first: a range may be a share of it.
fn needs_all(action: &StartupAction) -> bool {
    match action {
        StartupAction::Command(command) => command.row.is(&general::RANGE),
        StartupAction::Range { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::time_range::TimeRange;
    use crate::ui::input::commands::table::parse;

    #[test]
    fn only_ranges_wait_for_the_whole_recording() {
        let waits = |text: &str| needs_all(&parse(text).expect("a command").into());
        assert!(waits("range 10%-20%") && !waits("range-back") && !waits("zoom-cpu 1"));
        let typed = "10%-20%".to_owned();
        assert!(needs_all(&StartupAction::Range { range: TimeRange::parse(&typed).expect("a range")[0], typed }));
    }
}
