//! The user's bindings of keys, over the keys that commands have by themselves.

use crate::ui::command::{Command, Invocation};
use crate::ui::tab::Tab;

/// The layers in which bindings hold, by its name in the configuration: everywhere, or on one screen.
pub(crate) const LAYERS: &[(&str, Option<Tab>)] = &[
    ("all", None),
    ("flame", Some(Tab::Flame)),
    ("time", Some(Tab::Time)),
    ("cpus", Some(Tab::Cpus)),
    ("events", Some(Tab::Events)),
    ("units", Some(Tab::Units)),
];

/// The state that conditions ask about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScreenState {
    pub(crate) live: bool,
    pub(crate) frozen: bool,
    pub(crate) filtered: bool,
    pub(crate) comparing: bool,
}

/// Names of conditions and what they look at.
pub(crate) type Fact = (&'static str, fn(&ScreenState) -> bool);
pub(crate) const FACTS: &[Fact] = &[
    ("live", |facts| facts.live),
    ("recorded", |facts| !facts.live),
    ("frozen", |facts| facts.frozen),
    ("filtered", |facts| facts.filtered),
    ("comparing", |facts| facts.comparing),
];

/// A binding of the user's; without a command the key means nothing there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) layer: Option<Tab>,
    pub(crate) keys: String,
    pub(crate) run: Option<Invocation>,
    /// Facts by their place in [`FACTS`], and whether each must hold.
    pub(crate) when: Vec<(usize, bool)>,
}

impl Binding {
    pub(crate) fn holds(&self, facts: &ScreenState) -> bool {
        self.when.iter().all(|(at, wanted)| FACTS[*at].1(facts) == *wanted)
    }
}

/// The table's keys and the user's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keymap {
    pub(crate) own: Vec<Binding>,
}

impl Keymap {
    /// The keys of a row of the table: the user's first. Those that mean something else by now are left out.
    pub(crate) fn keys_of(&self, row: &Command) -> Vec<&str> {
        let is_bare = |run: &Invocation| run.row.is(row) && run.argument.is_none();
        let mine = self.own.iter().filter(|own| own.run.as_ref().is_some_and(is_bare));
        let gone =
            |keys: &str| self.own.iter().any(|own| own.layer == row.tab && own.keys == keys && own.when.is_empty());
        let kept = row.keys.iter().copied().filter(|keys| !gone(keys));
        mine.map(|own| own.keys.as_str()).chain(kept).collect()
    }

    /// The first key of a command.
    pub(crate) fn key_of(&self, row: &Command) -> Option<&str> {
        self.keys_of(row).first().copied()
    }

    /// The user's bindings as they are written: layer, keys, command.
    pub(crate) fn own(&self) -> impl Iterator<Item = (&'static str, &str, String)> {
        self.own.iter().map(|own| {
            let layer = LAYERS.iter().find(|(_, tab)| *tab == own.layer).map_or("all", |(name, _)| *name);
            let run = own.run.as_ref().map_or_else(String::new, |Invocation { row, argument }| match argument {
                Some(argument) => format!("{} {argument}", row.name),
                None => row.name.to_owned(),
            });
            (layer, own.keys.as_str(), run)
        })
    }
}
