//! Commands of the unit screen, and its overrides of common commands.

use crate::ui::input::Hints;
use crate::ui::input::action::Action::{Given, Plain};
use crate::ui::input::action::{Actions, commands};
use crate::ui::input::command::HintAction::Command;
use crate::ui::input::commands::general;
use crate::ui::screens::top;

commands! { GROUP "Units" on Units {
    PANEL "unit-panel" ["tab"] "go to the unit's next panel" => Plain(|app| app.views.units.step_panel(1));
    PANEL_BACK "unit-panel-back" ["backtab"] "go to the previous panel" => Plain(|app| app.views.units.step_panel(-1));
    LEFT "unit-left" ["left"] "go to the previous panel; in a flame graph, to the frame on the left"
        => Plain(|app| app.views.units.sideways(&app.model, -1));
    RIGHT "unit-right" ["right"] "go to the next panel; in a flame graph, to the frame on the right"
        => Plain(|app| app.views.units.sideways(&app.model, 1));
    NEXT "unit-next" ["}"] "go to the next unit" => Plain(|app| app.views.units.step_unit(1));
    PREVIOUS "unit-previous" ["{"] "go to the previous unit" => Plain(|app| app.views.units.step_unit(-1));
    ENTER "unit-enter" ["enter"] "show the subject of the row; fold a row of a tree; zoom into a frame"
        => Plain(|app| match app.views.units.working_cpu(&app.model) {
            Some(cpu) => app.views.cpus.show_one(&mut app.model, cpu),
            None => app.views.units.enter_row(&mut app.model),
        });
    BASELINE "unit-baseline" ["b", "m"] "compare with this moment, or stop comparing"
        => Plain(|app| app.views.units.toggle_baseline(&mut app.model));
    RESET "unit-reset" ["Z"] "reset the figures of all units; undo brings them back" => Plain(|app| app.views.units.reset(&mut app.model));
    STOP "unit-stop" ["del", "x"] "end the unit; undo brings it back with its figures" => Plain(|app| app.views.units.stop(&mut app.model));
}}

pub(crate) static HERE: Actions = &[
    (&general::SEARCH, Given(|app, text| app.views.units.ask_or_filter_rows(&mut app.model, text))),
    (
        &general::FILTER,
        Given(|app, text| match text {
            None => app.views.units.ask_or_filter_rows(&mut app.model, None),
            Some(text) => app.model.set_filter(text),
        }),
    ),
    (&top::commands::ORDER_RIGHT, Plain(|app| app.views.units.order_rows(&mut app.model, 1))),
    (&top::commands::ORDER_LEFT, Plain(|app| app.views.units.order_rows(&mut app.model, -1))),
    (&top::commands::REVERSE, Plain(|app| app.views.units.turn_rows(&mut app.model, None))),
];

pub(crate) static FOOTER: Hints = &[
    (Command(&general::UNIT), "add unit"),
    (Command(&PANEL), "panel"),
    (Command(&NEXT), "unit"),
    (Command(&ENTER), "enter"),
    (Command(&general::SEARCH), "filter"),
    (Command(&top::commands::ORDER_RIGHT), "order"),
    (Command(&STOP), "end unit"),
];
