//! Commands of the event screen, and its overrides of common commands.

use crate::source::{Change, RunState};
use crate::ui::input::action::Action::{Given, Plain};
use crate::ui::input::action::{Actions, commands};
use crate::ui::input::command::HintAction::{Chord, Command};
use crate::ui::input::commands::general;
use crate::ui::input::{Argument, ArgumentKind, Hints};

commands! { GROUP "Events" on Events {
    ENTER "event-enter" ["enter"] "start the event under the cursor, or show its samples"
        => Plain(|app| app.views.events.enter(&mut app.model));
    STOP "event-stop" ["del", "x"] "stop the event; its samples stay" => Plain(|app| app.views.events.change(&mut app.model, |_| Ok(Change::Stop)));
    PAUSE "event-pause" ["e p"] "pause or resume the event" => Plain(|app| app.views.events.change(&mut app.model, |meter| Ok(Change::Pause(meter.state.run == RunState::Running))));
    RATE "event-rate" ["e r"] "change its rate: 999 Hz, 1/100 of its hits, or 0 to count only"
        (Argument::of("hz|1/n", "Hz, or 1/N", ArgumentKind::Rate)) => Given(|app, text| app.views.events.set_rate(&mut app.model, text));
    MODIFIERS "event-modifiers" ["e m"] "change its modifiers: u, k, I and others"
        (Argument::of("letters", "modifiers", ArgumentKind::Modifiers).or_nothing())
        => Given(|app, text| app.views.events.set_modifiers(&mut app.model, text));
    CHAINS "event-chains" ["e g"] "record its call chains, or stop recording them" => Plain(|app| app.views.events.change(&mut app.model, |meter| Ok(Change::Chains(!meter.state.chains.is_on()))));
    CPUS "event-cpus" ["e c"] "measure the event on these CPUs only" (Argument::of("cpus", "on CPUs", ArgumentKind::Text).or_nothing())
        => Given(|app, text| app.views.events.set_cpus(&mut app.model, text));
}}

/// The argument of a search on this screen.
pub(crate) static SEARCHED: Argument = Argument::of("regex", "search events", ArgumentKind::Events).or_nothing();

pub(crate) static HERE: Actions = &[
    (&general::SEARCH, Given(|app, text| app.views.events.ask_or_search(&mut app.model, text))),
    (&general::CAPTURE, Given(|app, text| app.views.events.capture(&mut app.model, text))),
];

pub(crate) static FOOTER: Hints = &[
    (Command(&ENTER), "start/show"),
    (Command(&STOP), "stop"),
    (Command(&general::SEARCH), "search"),
    (Chord("e"), "edit"),
    (Command(&general::CAPTURE), "filter"),
    (Command(&general::EVENT), "add by name"),
];

/// The hints for a recording, which cannot be changed.
pub(crate) static FOOTER_RECORDED: Hints = &[
    (Command(&ENTER), "its samples"),
    (Command(&general::INFO), "recording"),
    (Command(&general::FILTER), "filter"),
    (Command(&general::UNIT), "add unit"),
    (Command(&general::LOSSES), "losses"),
];
