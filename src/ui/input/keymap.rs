//! The user's key bindings on top of the default ones.

use crate::ui::input::{Command, Invocation};
use crate::ui::state::Tab;

/// The layer of all screens in the configuration.
const ALL_SCREENS: &str = "all";

/// Returns the layers of bindings by name in the configuration: all screens, or one.
pub(crate) fn layers() -> impl Iterator<Item = (&'static str, Option<Tab>)> {
    std::iter::once((ALL_SCREENS, None)).chain(Tab::ALL.iter().map(|tab| (tab.layer(), Some(*tab))))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenState {
    pub(crate) live: bool,
    pub(crate) frozen: bool,
    pub(crate) filtered: bool,
    pub(crate) comparing: bool,
}

/// Names of conditions with their tests.
pub(crate) type Fact = (&'static str, fn(&ScreenState) -> bool);
pub(crate) const FACTS: &[Fact] = &[
    ("live", |facts| facts.live),
    ("recorded", |facts| !facts.live),
    ("frozen", |facts| facts.frozen),
    ("filtered", |facts| facts.filtered),
    ("comparing", |facts| facts.comparing),
];

/// A user's binding; without a command, the keys are unbound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyBinding {
    pub(crate) layer: Option<Tab>,
    pub(crate) keys: String,
    pub(crate) run: Option<Invocation>,
    /// Indexes into [`FACTS`] with the required values.
    pub(crate) when: Vec<(usize, bool)>,
}

impl KeyBinding {
    pub(crate) fn holds(&self, facts: &ScreenState) -> bool {
        self.when.iter().all(|(at, wanted)| FACTS[*at].1(facts) == *wanted)
    }
}

/// The default bindings and the user's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keymap {
    pub(crate) own: Vec<KeyBinding>,
}

impl Keymap {
    /// Returns the keys of a command, the user's first, without those that are bound to something else.
    pub(crate) fn keys_of(&self, row: &Command) -> Vec<&str> {
        let is_bare = |run: &Invocation| run.row.is(row) && run.argument.is_none();
        let mine = self.own.iter().filter(|own| own.run.as_ref().is_some_and(is_bare));
        let gone =
            |keys: &str| self.own.iter().any(|own| own.layer == row.tab && own.keys == keys && own.when.is_empty());
        let kept = row.keys.iter().copied().filter(|keys| !gone(keys));
        mine.map(|own| own.keys.as_str()).chain(kept).collect()
    }

    pub(crate) fn key_of(&self, row: &Command) -> Option<&str> {
        self.keys_of(row).first().copied()
    }

    /// Returns the user's bindings as configured: layer, keys, command.
    pub(crate) fn own(&self) -> impl Iterator<Item = (&'static str, &str, String)> {
        self.own.iter().map(|own| {
            let layer = own.layer.map_or(ALL_SCREENS, Tab::layer);
            let run = own.run.as_ref().map_or_else(String::new, |Invocation { row, argument }| match argument {
                Some(argument) => format!("{} {argument}", row.name),
                None => row.name.to_owned(),
            });
            (layer, own.keys.as_str(), run)
        })
    }
}
