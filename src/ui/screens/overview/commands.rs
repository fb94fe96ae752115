//! Commands of the overview.

use crate::ui::input::Hints;
use crate::ui::input::action::Action::Plain;
use crate::ui::input::action::commands;
use crate::ui::input::command::HintAction::Command;
use crate::ui::input::commands::{general, program};

commands! { GROUP "Overview" on Overview {
    ENTER "overview-enter" ["enter"] "go where the finding is examined: functions, CPUs, a unit"
        => Plain(|app| app.enter_finding());
}}

pub(crate) static FOOTER: Hints = &[
    (Command(&ENTER), "examine"),
    (Command(&general::BASELINE), "compare"),
    (Command(&general::FILTER), "filter"),
    (Command(&program::TIME), "time"),
    (Command(&general::UNIT), "units"),
];

/// The keys for recordings without findings.
pub(crate) static FOOTER_RECORDED: Hints = &[
    (Command(&program::TOP), "functions"),
    (Command(&general::FILTER), "filter"),
    (Command(&program::TIME), "time"),
    (Command(&general::UNIT), "units"),
];
