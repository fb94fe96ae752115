//! Commands of the heat map of time, and its overrides of common commands.

use crate::ui::input::action::Action::{Given, Plain};
use crate::ui::input::action::{Actions, commands};
use crate::ui::input::command::HintAction::Command;
use crate::ui::input::commands::general;
use crate::ui::input::{Argument, Hints};

commands! { GROUP "Time" on Time {
    LEFT "time-left" ["left"] "go one column back" => Plain(|app| app.views.time.step(&app.model, -1, 0));
    RIGHT "time-right" ["right"] "go one column on" => Plain(|app| app.views.time.step(&app.model, 1, 0));
    SELECT "time-select" ["v"] "select from cell to cell: in order of time, or a rectangle"
        => Plain(|app| app.views.time.select(&app.model, false));
    COLUMNS "time-columns" ["V"] "select whole columns: each from its first to its last row" => Plain(|app| app.views.time.select(&app.model, true));
    ENTER "time-enter" ["enter"] "show only the selection, on every screen" => Plain(|app| app.views.time.enter(&mut app.model));
    BASELINE "time-baseline" ["b", "m"] "compare with the selected time" => Plain(|app| app.views.time.mark_baseline(&mut app.model));
    ROWS "time-rows" ["tab"] "choose the rows" (Argument::named("offset|cpu|task|dso|function|latency"))
        => Given(|app, text| app.views.time.set_rows(&mut app.model, text.as_deref()));
    IN "time-in" ["+", "="] "make columns shorter" => Plain(|app| app.views.time.zoom_by(&app.model, -1));
    OUT "time-out" ["-"] "make columns longer" => Plain(|app| app.views.time.zoom_by(&app.model, 1));
    SCALE "time-scale" ["%"] "colour by rank, or by share of the highest cell" => Plain(|app| app.views.time.turn_scale(&mut app.model));
    HIGHLIGHT "time-highlight" ["*"] "end the highlight of a function's samples" => Plain(|app| app.views.time.drop_highlight(&mut app.model));
}}

pub(crate) static HERE: Actions =
    &[(&general::SEARCH, Given(|app, text| app.views.time.highlight_search(&mut app.model, text)))];

pub(crate) static FOOTER: Hints = &[
    (Command(&COLUMNS), "select"),
    (Command(&ENTER), "only this"),
    (Command(&BASELINE), "compare"),
    (Command(&ROWS), "rows"),
    (Command(&general::WALL), ""),
    (Command(&IN), "zoom"),
    (Command(&general::SEARCH), "highlight"),
];
