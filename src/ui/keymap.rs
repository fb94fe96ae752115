//! Which keys mean what: the table of commands, and over it what the user has bound.

use crate::lang::Diagnostic;
use crate::lang::lex::{Cursor, Lexicon, Token};
use crate::ui::command::{Command, Invocation};
use crate::ui::commands;
use crate::ui::frame::Tab;
use crate::ui::keys;

/// Where a binding holds: its name in the configuration, and the screen; the table's keys hold everywhere.
const LAYERS: &[(&str, Tab)] = &[
    ("all", Tab::Top),
    ("flame", Tab::Flame),
    ("time", Tab::Time),
    ("cpus", Tab::Cpus),
    ("events", Tab::Events),
    ("units", Tab::Units),
];

/// The layers with the groups of commands that live there only.
fn layers() -> impl Iterator<Item = (&'static str, Option<&'static str>)> {
    LAYERS.iter().map(|(name, tab)| (*name, tab.group()))
}

/// What conditions ask about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub live: bool,
    pub frozen: bool,
    pub filtered: bool,
    pub comparing: bool,
}

/// Names of conditions and what they look at.
type Fact = (&'static str, fn(&Facts) -> bool);
const FACTS: &[Fact] = &[
    ("live", |facts| facts.live),
    ("recorded", |facts| !facts.live),
    ("frozen", |facts| facts.frozen),
    ("filtered", |facts| facts.filtered),
    ("comparing", |facts| facts.comparing),
];

/// A binding of the user's; without a command the key means nothing there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Binding {
    layer: Option<&'static str>,
    keys: String,
    run: Option<Invocation>,
    /// Facts by their place in [`FACTS`], and whether each must hold.
    when: Vec<(usize, bool)>,
}

impl Binding {
    fn holds(&self, facts: &Facts) -> bool {
        self.when.iter().all(|(at, wanted)| FACTS[*at].1(facts) == *wanted)
    }
}

/// What a key means, given the keys of an unfinished chord before it.
#[derive(Debug, PartialEq, Eq)]
pub enum Lookup {
    Run(Invocation),
    /// More keys may follow.
    Prefix,
    Nothing,
}

/// The table's keys and the user's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keymap {
    own: Vec<Binding>,
}

impl Keymap {
    /// Binds keys on a layer to a command as it is typed after `:`, under conditions (`live && !frozen`). An empty
    /// command takes the keys' meaning away. The error says what is wrong with which of them.
    pub fn bind(&mut self, layer: &str, typed: &str, run: &str, when: &str) -> Result<(), String> {
        let names = || layers().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        let found = layers().find(|(name, _)| *name == layer);
        let (_, group) = found.ok_or_else(|| format!("no layer is called {layer}: there are {}", names()))?;
        let keys = keys::parse(typed)?;
        if keys.split(' ').next() == Some("'") || keys == "ctrl-c" || keys == "esc" {
            return Err(format!("{typed} keeps its meaning"));
        }
        let command = match run.trim() {
            "" => None,
            text => Some(commands::parse(text)?),
        };
        let when = conditions(when).map_err(|fault| format!("{when}: {}", fault.line()))?;
        let begins = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with(' '));
        let taken = self.own.iter().find(|own| {
            own.layer == group && own.run.is_some() && (begins(&own.keys, &keys) || begins(&keys, &own.keys))
        });
        if let Some(other) = taken.filter(|_| command.is_some()) {
            return Err(format!("{typed}: {} is bound, and one begins like the other", other.keys));
        }
        self.own.push(Binding { layer: group, keys, run: command, when });
        Ok(())
    }

    /// What keys mean on the screen whose group of commands is `group`.
    pub fn lookup(&self, typed: &str, group: Option<&str>, facts: &Facts) -> Lookup {
        let mut prefix = false;
        let layers: &[Option<&str>] = if group.is_some() { &[group, None] } else { &[None] };
        for layer in layers {
            // What was bound last counts.
            for own in self.own.iter().rev().filter(|own| own.layer == *layer && own.holds(facts)) {
                if own.keys == typed {
                    match &own.run {
                        Some(command) => return Lookup::Run(command.clone()),
                        None => return Lookup::Nothing,
                    }
                }
                prefix |= own.run.is_some() && continues(&own.keys, typed);
            }
            if prefix {
                return Lookup::Prefix;
            }
            for row in commands::rows().filter(|row| commands::layer(row) == *layer) {
                for keys in row.keys {
                    if *keys == typed {
                        return Lookup::Run(row.into());
                    }
                    prefix |= continues(keys, typed);
                }
            }
        }
        if prefix { Lookup::Prefix } else { Lookup::Nothing }
    }

    /// The keys of a row of the table: the user's first. Those that mean something else by now are left out.
    pub fn keys_of(&self, row: &Command) -> Vec<&str> {
        let layer = commands::layer(row);
        let is_bare = |run: &Invocation| run.row.is(row) && run.argument.is_none();
        let mine = self.own.iter().filter(|own| own.run.as_ref().is_some_and(is_bare));
        let gone =
            |keys: &str| self.own.iter().any(|own| own.layer == layer && own.keys == keys && own.when.is_empty());
        let kept = row.keys.iter().copied().filter(|keys| !gone(keys));
        mine.map(|own| own.keys.as_str()).chain(kept).collect()
    }

    /// The first key of a command.
    pub fn key_of(&self, row: &Command) -> Option<&str> {
        self.keys_of(row).first().copied()
    }

    /// The keys that can end a begun chord, and what they do.
    pub fn continuations(&self, begun: &str, group: Option<&str>, facts: &Facts) -> Vec<(String, String)> {
        let rest = |keys: &str| keys.strip_prefix(begun)?.strip_prefix(' ').map(str::to_owned);
        let mut out: Vec<(String, String)> = Vec::new();
        for own in self.own.iter().rev().filter(|own| (own.layer.is_none() || own.layer == group) && own.holds(facts)) {
            if let (Some(key), Some(Invocation { row, argument })) = (rest(&own.keys), &own.run) {
                let words = argument.as_ref().map_or(row.doc.to_owned(), |arg| format!("{} {arg}", row.name));
                out.push((key, words));
            }
        }
        for row in commands::rows().filter(|row| commands::layer(row).is_none_or(|layer| Some(layer) == group)) {
            for key in self.keys_of(row).into_iter().filter_map(rest) {
                if !out.iter().any(|(known, _)| *known == key) {
                    out.push((key, row.doc.to_owned()));
                }
            }
        }
        out
    }

    /// The user's bindings as they are written: layer, keys, command.
    pub fn own(&self) -> impl Iterator<Item = (&'static str, &str, String)> {
        self.own.iter().map(|own| {
            let layer = layers().find(|(_, group)| *group == own.layer).map_or("all", |(name, _)| name);
            let run = own.run.as_ref().map_or_else(String::new, |Invocation { row, argument }| match argument {
                Some(argument) => format!("{} {argument}", row.name),
                None => row.name.to_owned(),
            });
            (layer, own.keys.as_str(), run)
        })
    }
}

fn continues(keys: &str, typed: &str) -> bool {
    keys.strip_prefix(typed).is_some_and(|rest| rest.starts_with(' '))
}

/// What conditions are made of.
const LEXICON: Lexicon = Lexicon {
    marks: &["&&", "!"],
    begins: char::is_alphabetic,
    goes_on: char::is_alphabetic,
    numbers: false,
    hints: &[('&', "conditions are joined by &&"), ('|', "bind the keys twice for or")],
};

/// `live && !frozen`.
fn conditions(text: &str) -> Result<Vec<(usize, bool)>, Diagnostic> {
    let mut cursor = Cursor::new(text, &LEXICON)?;
    let mut list = Vec::new();
    while cursor.peek().is_some() || !list.is_empty() {
        let wanted = !cursor.eat("!");
        let piece = cursor.next("a condition")?;
        let at = FACTS.iter().position(|(known, _)| piece.token == Token::Word(known)).ok_or_else(|| {
            let names = FACTS.iter().map(|(name, _)| *name);
            let why = format!("no condition is called so: there are {}", names.clone().collect::<Vec<_>>().join(", "));
            cursor.fault_at(piece, why).offer(names)
        })?;
        list.push((at, wanted));
        if cursor.peek().is_none() {
            break;
        }
        cursor.expect("&&")?;
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;
    use crate::ui::commands::general;
    use crate::ui::view::flame;
    use proptest::prelude::*;
    use proptest::sample::select;

    const NO_FACTS: Facts = Facts { live: false, frozen: false, filtered: false, comparing: false };

    #[test]
    fn the_users_keys_come_before_the_tables() {
        let mut map = Keymap::default();
        map.bind("all", "ctrl-t", "freq 4999", "live && !frozen").expect("bound");
        map.bind("flame", "w", "", "").expect("taken away");
        map.bind("all", "g g", "home", "").expect("bound");
        let live = Facts { live: true, ..NO_FACTS };
        let frozen = Facts { frozen: true, ..live };
        assert_eq!(map.lookup("ctrl-t", None, &live), Lookup::Run(general::FREQ.with("4999")));
        assert_eq!(map.lookup("ctrl-t", None, &frozen), Lookup::Nothing);
        assert_eq!(map.lookup("w", Tab::Flame.group(), &live), Lookup::Nothing);
        assert_eq!(map.lookup("i", None, &live), Lookup::Run((&general::IDLE).into()));
        // A chord takes the place of the key that it begins with.
        assert_eq!(map.lookup("g", None, &live), Lookup::Prefix);
        assert_eq!(map.lookup("g g", None, &live), Lookup::Run((&general::HOME).into()));
        assert_eq!(
            map.continuations("g", None, &live),
            [("g".to_owned(), "to the hottest line, and stay there".to_owned())]
        );
        assert_eq!(map.key_of(&general::HOME), Some("g g"));
        assert_eq!(map.key_of(&flame::commands::AROUND), None);
    }

    #[test]
    fn the_table_alone() {
        let map = Keymap::default();
        assert_eq!(map.lookup("r", None, &NO_FACTS), Lookup::Prefix);
        assert_eq!(map.lookup("r +", None, &NO_FACTS), Lookup::Run((&general::FASTER).into()));
        assert_eq!(map.lookup("r x", None, &NO_FACTS), Lookup::Nothing);
        assert_eq!(map.lookup("R", Tab::Flame.group(), &NO_FACTS), Lookup::Run((&flame::commands::LEAVES).into()));
        assert_eq!(map.continuations("r", None, &NO_FACTS).len(), 8);
        for row in commands::rows() {
            assert_eq!(map.keys_of(row), row.keys.to_vec(), "{}", row.name);
        }
    }

    #[test]
    fn faults_say_what_is_wrong() {
        let fault = |layer: &str, keys: &str, run: &str, when: &str| {
            Keymap::default().bind(layer, keys, run, when).expect_err("a fault")
        };
        assert!(fault("graph", "x", "quit", "").contains("there are all, flame"));
        assert!(fault("all", "ctrl-alt-shift-x", "quit", "").contains("ctrl-alt-shift-x"));
        assert!(fault("all", "x", "qiut", "").contains("nearest: quit"));
        assert!(fault("all", "x", "quit", "alive").contains("there are live"));
        assert!(fault("all", "ctrl-c", "top", "").contains("keeps its meaning"));
    }

    #[test]
    fn any_binding_is_taken_or_refused() {
        let part = |whole: &'static [&'static str]| prop_oneof![3 => select(whole).prop_map(str::to_owned), 1 => damage::texts(whole)];
        let layer = part(&["all", "flame", "time", "cpus", "events", "units"]);
        let keys = part(&["ctrl-t", "g g", "x", "alt-m", "f5", "space", "ctrl-c", "shift-tab", "r x y"]);
        let run = part(&["quit", "freq 4999", "home", "", "where comm == nginx", "theme nord", "range 1,2"]);
        let when = part(&["", "live", "live && !frozen", "!filtered", "comparing && live && frozen"]);
        damage::reaching(512, 10, (layer, keys, run, when), |(layer, keys, run, when)| {
            let mut map = Keymap::default();
            let bound = map.bind(&layer, &keys, &run, &when).is_ok();
            assert_eq!(map.own().count(), usize::from(bound));
            let _ = map.lookup(&keys, Tab::Flame.group(), &NO_FACTS);
            bound
        });
    }
}
