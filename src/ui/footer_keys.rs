//! The most useful keys of the visible screen or popup, shown in the footer as clickable hints.

use crossterm::event::KeyCode;

use crate::panel::text::width;
use crate::query::Direction;
use crate::session::Origin;
use crate::ui::command::HintAction;
use crate::ui::commands::{general, program};
use crate::ui::keys::shown;
use crate::ui::popup::Popup;
use crate::ui::scene::Scene;
use crate::ui::tab::Tab;
use crate::ui::view::{cpus, events, flame, time, top, units};

/// A key and its function.
#[derive(Clone, Debug)]
pub(crate) struct Hint {
    pub(crate) key: String,
    pub(crate) word: &'static str,
    pub(crate) press: HintAction,
}

/// A hint and its place.
#[derive(Clone, Debug)]
pub(crate) struct PlacedHint {
    pub(crate) x: u16,
    pub(crate) width: u16,
    pub(crate) hint: Hint,
}

impl PlacedHint {
    pub(crate) fn holds(&self, column: u16) -> bool {
        (self.x..self.x + self.width).contains(&column)
    }
}

/// The hints of all screens, the most important first.
static EVERYWHERE: &[(HintAction, &str)] = &[
    (HintAction::Command(&program::HELP), "help"),
    (HintAction::Command(&general::UNDO), "undo"),
    (HintAction::Command(&program::PALETTE), "commands"),
    (HintAction::Command(&general::SAVE), "save"),
    (HintAction::Command(&program::QUIT), "quit"),
];

/// Keys of popups: display text, function, and the key that a click sends.
type Keys = &'static [(&'static str, &'static str, KeyCode)];

const HELP: Keys = &[
    ("a-z", "search", KeyCode::Null),
    ("↑↓", "scroll", KeyCode::Down),
    ("PgDn", "page", KeyCode::PageDown),
    ("Home", "top", KeyCode::Home),
    ("End", "end", KeyCode::End),
    ("Esc", "close", KeyCode::Esc),
];
const TEXT: Keys = &[
    ("j k", "scroll", KeyCode::Down),
    ("Space", "page", KeyCode::PageDown),
    ("g", "top", KeyCode::Home),
    ("G", "end", KeyCode::End),
    ("Esc", "close", KeyCode::Esc),
];
const PALETTE: Keys = &[
    ("a-z", "words", KeyCode::Null),
    ("⏎", "run", KeyCode::Enter),
    ("↑↓", "choose", KeyCode::Down),
    ("Tab", "complete", KeyCode::Tab),
    ("Esc", "close", KeyCode::Esc),
];
const CHOOSER: Keys = &[
    ("a-z", "words", KeyCode::Null),
    ("⏎", "start", KeyCode::Enter),
    ("↑↓", "choose", KeyCode::Down),
    ("Tab", "options", KeyCode::Tab),
    ("Esc", "close", KeyCode::Esc),
];
const COLUMNS: Keys = &[
    ("Space", "show/hide", KeyCode::Char(' ')),
    ("← →", "move", KeyCode::Right),
    ("j k", "choose", KeyCode::Down),
    ("⏎", "done", KeyCode::Enter),
];
const MARKS: Keys = &[
    ("⏎", "go there", KeyCode::Enter),
    ("x", "forget", KeyCode::Char('x')),
    ("j k", "choose", KeyCode::Down),
    ("Esc", "close", KeyCode::Esc),
];
const NOT_ANNOTATED: Keys = &[("⌫", "back", KeyCode::Backspace), ("Esc", "close", KeyCode::Esc)];
const ANNOTATE: Keys = &[
    ("n N", "hot spots", KeyCode::Char('n')),
    ("⏎", "follow", KeyCode::Enter),
    ("⌫", "back", KeyCode::Backspace),
    ("Tab", "sources", KeyCode::Tab),
    (".", "bytes", KeyCode::Char('.')),
    ("y", "copy", KeyCode::Char('y')),
    ("Esc", "close", KeyCode::Esc),
];

/// Returns the hints for the visible screen or popup.
fn hints(scene: Scene<'_>) -> Vec<Hint> {
    if let Some(popup) = scene.frame.popups.last() {
        let keys = match popup {
            Popup::Help(_) => HELP,
            Popup::Losses { .. } | Popup::Info { .. } => TEXT,
            Popup::Palette(_) => PALETTE,
            Popup::Units(_) => CHOOSER,
            Popup::Columns { .. } => COLUMNS,
            Popup::Marks { .. } => MARKS,
            Popup::Annotate(screen) if matches!(screen.listing, Some(Ok(_))) => ANNOTATE,
            Popup::Annotate(_) => NOT_ANNOTATED,
        };
        let one = |(key, word, code): &(&str, &'static str, KeyCode)| Hint {
            key: scene.context.charset.key_names(key).into_owned(),
            word,
            press: HintAction::Key(*code),
        };
        return keys.iter().map(one).collect();
    }
    let recorded = scene.context.info.origin == Origin::Recorded;
    let own = match scene.frame.tab {
        Tab::Cpus if recorded => cpus::commands::FOOTER_RECORDED,
        Tab::Events if recorded => events::commands::FOOTER_RECORDED,
        Tab::Top => top::commands::FOOTER,
        Tab::Flame => flame::commands::FOOTER,
        Tab::Time => time::commands::FOOTER,
        Tab::Cpus => cpus::commands::FOOTER,
        Tab::Events => events::commands::FOOTER,
        Tab::Units => units::commands::FOOTER,
    };
    own.iter().chain(EVERYWHERE).filter_map(|(press, word)| hint(scene, *press, word)).collect()
}

fn hint(scene: Scene<'_>, press: HintAction, mut word: &'static str) -> Option<Hint> {
    let row = match press {
        HintAction::Command(row) => row,
        HintAction::Chord(begun) => {
            return Some(Hint { key: scene.context.charset.key_names(&shown(begun)).into_owned(), word, press });
        }
        HintAction::Key(_) => return None,
    };
    let mut key = shown(scene.context.keymap.key_of(row)?);
    if row.is(&top::commands::SPLIT) {
        word = scene.next_split();
    } else if row.is(&top::commands::ORDER_RIGHT) {
        "< >".clone_into(&mut key);
    } else if row.is(&top::commands::TOGGLE) && scene.selection.rows.direction == Direction::Callees {
        word = "callees";
    }
    Some(Hint { key: scene.context.charset.key_names(&key).into_owned(), word, press })
}

/// Places the hints that fit into a line; help is always included.
pub(crate) fn laid(scene: Scene<'_>, room: u16) -> Vec<PlacedHint> {
    let mut list = hints(scene);
    let takes = |hint: &Hint| (width(&hint.key) + 1 + width(hint.word)) as u16;
    let is_help = |hint: &Hint| matches!(hint.press, HintAction::Command(row) if row.is(&program::HELP));
    let help = list.iter().find(|hint| is_help(hint)).map_or(0, |hint| takes(hint) + 2);
    let all: u16 = list.iter().map(|hint| takes(hint) + 2).sum();
    if all + 1 > room {
        let mut used = 1 + help;
        let mut full = false;
        list.retain(|hint| {
            let fits = is_help(hint) || !full && used + takes(hint) <= room;
            if !is_help(hint) {
                full |= !fits;
                used += takes(hint) + 2;
            }
            fits
        });
    }
    let mut x = 1;
    let place = |hint: Hint| {
        let laid = PlacedHint { x, width: takes(&hint), hint };
        x += laid.width + 2;
        laid
    };
    list.into_iter().map(place).collect()
}
