//! The most useful keys of the visible screen or popup, shown in the footer as clickable hints.

use crossterm::event::KeyCode;

use crate::panel::text::width;
use crate::query::Direction;
use crate::session::Origin;
use crate::ui::input::commands::{general, program};
use crate::ui::input::{Command, HintAction, Hints, shown};
use crate::ui::popups::Popup;
use crate::ui::screens::{Views, top, units};
use crate::ui::state::Model;

#[derive(Clone, Debug)]
pub(crate) struct Hint {
    pub(crate) key: String,
    /// Empty where there is room for the key alone.
    pub(crate) word: &'static str,
    pub(crate) press: HintAction,
    /// Other hints give way to this one in a narrow line.
    stays: bool,
}

impl Hint {
    fn width(&self) -> u16 {
        let word = if self.word.is_empty() { 0 } else { 1 + width(self.word) };
        (width(&self.key) + word) as u16
    }
}

const GAP: u16 = 2;

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
static EVERYWHERE: Hints = &[
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

pub(crate) fn hints(model: &Model, views: &Views) -> Vec<Hint> {
    if let Some(popup) = model.frame.popups.last() {
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
        // The last key leaves the popup.
        let one = |(i, (key, word, code)): (usize, &(&str, &'static str, KeyCode))| Hint {
            key: model.context.charset.key_names(key).into_owned(),
            word,
            press: HintAction::Key(*code),
            stays: i + 1 == keys.len(),
        };
        return keys.iter().enumerate().map(one).collect();
    }
    let own = views.screen(model.frame.tab).hints(model.context.info.origin);
    let applies = |press: &HintAction| match press {
        HintAction::Command(row) if row.is(&units::commands::NEXT) => views.units.answers.len() > 1,
        _ => true,
    };
    own.iter()
        .chain(EVERYWHERE)
        .filter(|(press, _)| applies(press))
        .filter_map(|(press, word)| hint(model, *press, word))
        .collect()
}

fn hint(model: &Model, press: HintAction, mut word: &'static str) -> Option<Hint> {
    let row = match press {
        HintAction::Command(row) => row,
        HintAction::Chord(begun) => {
            let key = model.context.charset.key_names(&shown(begun)).into_owned();
            return Some(Hint { key, word, press, stays: false });
        }
        HintAction::Key(_) => return None,
    };
    let is_live = model.context.info.origin == Origin::Live;
    if row.is(&general::WALL) && (!is_live || model.context.off_cpu_event().is_none()) {
        return None;
    }
    let mut key = shown(model.context.keymap.key_of(row)?);
    if row.is(&general::WALL) {
        word = model.next_time();
    } else if row.is(&top::commands::SPLIT) {
        word = model.next_split();
    } else if row.is(&top::commands::ORDER_RIGHT) {
        "< >".clone_into(&mut key);
    } else if row.is(&top::commands::TOGGLE) && !model.rows_are_functions() {
        word = "functions";
    } else if row.is(&top::commands::TOGGLE) && model.selection.rows.direction == Direction::Callees {
        word = "callees";
    }
    let stays = STAYING.iter().any(|staying| row.is(staying));
    Some(Hint { key: model.context.charset.key_names(&key).into_owned(), word, press, stays })
}

/// The commands of [`EVERYWHERE`] whose keys every screen shows, however narrow it is.
static STAYING: &[&Command] = &[&program::HELP, &program::PALETTE, &general::SAVE, &program::QUIT];

/// Places the hints that fit into a line.
pub(crate) fn laid(model: &Model, views: &Views, room: u16) -> Vec<PlacedHint> {
    let mut x = 1;
    let place = |hint: Hint| {
        let laid = PlacedHint { x, width: hint.width(), hint };
        x += laid.width + GAP;
        laid
    };
    fitting(hints(model, views), room).into_iter().map(place).collect()
}

/// The hints that fit into a line. Where there is no room for all, those that stay have it before the others, and
/// leave at least half of it to these: their words go first.
fn fitting(mut list: Vec<Hint>, room: u16) -> Vec<Hint> {
    // Every hint has a gap at one of its sides, but the first.
    let room = (room + GAP).saturating_sub(1);
    let takes = |hint: &Hint| hint.width() + GAP;
    let staying = |list: &[Hint]| list.iter().filter(|hint| hint.stays).map(takes).sum::<u16>();
    if list.iter().map(takes).sum::<u16>() <= room {
        return list;
    }
    let are_wide = 2 * staying(&list) > room;
    // The first one, help, says where the words are.
    list.iter_mut().filter(|hint| are_wide && hint.stays).skip(1).for_each(|hint| hint.word = "");
    let mut left = room.saturating_sub(staying(&list));
    let mut is_full = false;
    list.retain(|hint| {
        is_full |= !hint.stays && takes(hint) > left;
        left = if hint.stays || is_full { left } else { left - takes(hint) };
        hint.stays || !is_full
    });
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(list: &[(&'static str, &'static str, bool)], room: u16) -> String {
        let hint = |(key, word, stays): &(&str, &'static str, bool)| Hint {
            key: (*key).to_owned(),
            word,
            press: HintAction::Key(KeyCode::Null),
            stays: *stays,
        };
        let words = |hint: &Hint| format!("{} {}", hint.key, hint.word).trim_end().to_owned();
        fitting(list.iter().map(hint).collect(), room).iter().map(words).collect::<Vec<_>>().join("  ")
    }

    #[test]
    fn hints_of_every_screen_stay() {
        let list = [
            ("⏎", "callers", false),
            ("f", "filter", false),
            ("Space", "freeze", false),
            ("?", "help", true),
            ("⌫", "undo", false),
            (":", "commands", true),
            ("q", "quit", true),
        ];
        let at = |room: u16| line(&list, room);
        assert_eq!(at(100), "⏎ callers  f filter  Space freeze  ? help  ⌫ undo  : commands  q quit");
        assert_eq!(at(62), "⏎ callers  f filter  Space freeze  ? help  : commands  q quit");
        assert_eq!(at(56), "⏎ callers  f filter  ? help  : commands  q quit");
        assert_eq!(at(50), "⏎ callers  f filter  Space freeze  ? help  :  q");
        assert_eq!(at(20), "? help  :  q");
    }

    #[test]
    fn no_line_is_too_long() {
        let list = [("⏎", "callers", false), ("?", "help", true), ("⌫", "undo", false), (":", "commands", true)];
        for room in 12..60 {
            assert!(width(&line(&list, room)) < usize::from(room), "{room}: {}", line(&list, room));
        }
    }
}
