//! Commands of the CPU screen, and its overrides of common commands.

use crate::ui::input::Hints;
use crate::ui::input::action::Action::Plain;
use crate::ui::input::action::{Actions, commands};
use crate::ui::input::command::HintAction::Command;
use crate::ui::input::commands::program;
use crate::ui::screens::top;

commands! { GROUP "CPUs" on Cpus {
    LEFT "cpu-left" ["left"] "go to the column on the left" => Plain(|app| app.views.cpus.move_column(&app.model, -1));
    RIGHT "cpu-right" ["right"] "go to the column on the right" => Plain(|app| app.views.cpus.move_column(&app.model, 1));
    ENTER "cpu-enter" ["enter"] "show only the samples of this cell, on every screen"
        => Plain(|app| app.views.cpus.enter_cell(&mut app.model));
    SOFTIRQ_TIME "softirq-time" ["t"] "measure the time in softirqs and interrupts, or stop measuring it"
        => Plain(|app| app.views.cpus.toggle_tracing(&mut app.model));
    PAGE "cpu-page" ["tab"] "switch columns: vectors, rates, interrupts, network, topology, cycles" => Plain(|app| app.views.cpus.turn_page(&mut app.model));
    ORDER "cpu-order" ["s"] "sort by the column under the cursor"
        => Plain(|app| app.views.cpus.order_by(&app.model, app.views.cpus.column));
    CAPTURE "cpu-capture" ["F"] "sample only the CPU under the cursor from now on" => Plain(|app| app.views.cpus.capture(&mut app.model));
}}

pub(crate) static HERE: Actions =
    &[(&top::commands::REVERSE, Plain(|app| app.views.cpus.reversed = !app.views.cpus.reversed))];

pub(crate) static FOOTER: Hints = &[
    (Command(&ENTER), "functions"),
    (Command(&program::FINDING), "anomaly"),
    (Command(&SOFTIRQ_TIME), "time softirqs"),
    (Command(&PAGE), "columns"),
    (Command(&ORDER), "order"),
    (Command(&CAPTURE), "only this CPU"),
];

/// The hints for a recording, for which nothing else can be measured.
pub(crate) static FOOTER_RECORDED: Hints = &[
    (Command(&ENTER), "functions"),
    (Command(&program::FINDING), "anomaly"),
    (Command(&PAGE), "columns"),
    (Command(&ORDER), "order"),
    (Command(&program::FLAME), "flame"),
    (Command(&program::TIME), "time"),
];
