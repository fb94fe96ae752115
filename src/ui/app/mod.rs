//! The interface without terminal and engine. External actions are returned as effects.

pub(crate) mod input;
pub(crate) mod steps;
pub(crate) mod update;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::Clock;
use crate::ingest::tracepoints;
use crate::query::Question;
use crate::source::Info;
use crate::ui::screens::Views;
use crate::ui::screens::top::state::TopState;
use crate::ui::state::{Environment, Model, Selection, SessionContext, Start, StartupAction};

/// The interface.
#[derive(Debug)]
pub struct App {
    /// The state that all screens share.
    pub model: Model,
    /// The state of each screen.
    pub views: Views,
    pub(crate) steps: steps::Steps,
    pub(crate) asked: Question,
    pub(crate) startup: VecDeque<StartupAction>,
}

impl App {
    /// Creates the initial state; its first effect is its first question.
    pub fn new(info: Info, start: Start) -> Self {
        let fields = Arc::new(tracepoints::first_fields(&info));
        let model = Model {
            selection: Selection::new(&info, &start, &fields),
            frame: Environment::new(start.theme, start.tour),
            context: SessionContext {
                fields,
                info,
                keymap: Arc::new(start.keymap),
                themes: start.themes,
                saved: start.saved,
                invocation: start.invocation,
                fine: true,
                charset: start.charset,
                slow: start.slow,
                ..SessionContext::default()
            },
            top: TopState::default(),
            effects: Vec::new(),
        };
        let mut app = Self {
            model,
            views: Views::default(),
            steps: steps::Steps::default(),
            asked: Question { generation: 0, ..Question::default() },
            startup: start.actions.into(),
        };
        app.ask(true);
        app
    }

    /// Updates the session's clock when a frame is drawn.
    pub fn tick(&mut self, clock: Option<Clock>) {
        let Model { context, selection, .. } = &mut self.model;
        context.behind.tick(clock.filter(|_| !selection.frozen && context.answer.ended.is_none()));
    }

    /// Handles a request that the engine rejected; a pending unit is cancelled.
    pub fn engine_refused(&mut self, why: String) {
        self.views.units.pending = false;
        self.model.error(why);
    }
}
