//! The meaning of keys on a screen, and the parsing of key bindings.

use crate::lang::Diagnostic;
use crate::lang::lex::{Cursor, Lexicon, Token};
use crate::ui::input::Invocation;
use crate::ui::input::commands::table;
use crate::ui::input::keymap::{FACTS, KeyBinding, Keymap, ScreenState, layers};
use crate::ui::input::keys;
use crate::ui::state::Tab;

/// The meaning of a key after the keys of an unfinished chord.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    Run(Invocation),
    /// More keys may follow.
    Prefix,
    Nothing,
}

impl Keymap {
    /// Binds keys on a layer to a command line under conditions (`live && !frozen`). An empty command unbinds the keys.
    /// The error names the invalid part.
    pub(crate) fn bind(&mut self, layer: &str, typed: &str, run: &str, when: &str) -> Result<(), String> {
        let names = || layers().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
        let found = layers().find(|(name, _)| *name == layer);
        let (_, layer) = found.ok_or_else(|| format!("unknown layer {layer}; available: {}", names()))?;
        let keys = keys::parse(typed)?;
        if keys.split(' ').next() == Some("'") || keys == "ctrl-c" || keys == "esc" {
            return Err(format!("{typed} cannot be bound"));
        }
        let command = match run.trim() {
            "" => None,
            text => Some(table::parse(text)?),
        };
        let when = conditions(when).map_err(|fault| format!("{when}: {}", fault.line()))?;
        let taken = self.own.iter().find(|own| {
            own.layer == layer && own.run.is_some() && (continues(&own.keys, &keys) || continues(&keys, &own.keys))
        });
        if let Some(other) = taken.filter(|_| command.is_some()) {
            return Err(format!("{typed}: {} is bound, and one is the start of the other", other.keys));
        }
        self.own.push(KeyBinding { layer, keys, run: command, when });
        Ok(())
    }

    pub(crate) fn lookup(&self, typed: &str, tab: Tab, facts: &ScreenState) -> Lookup {
        let mut prefix = false;
        for layer in [Some(tab), None] {
            for own in self.own.iter().rev().filter(|own| own.layer == layer && own.holds(facts)) {
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
            for row in table::rows().filter(|row| row.tab == layer) {
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

    /// Returns the keys that complete a chord, with their functions.
    pub(crate) fn continuations(&self, begun: &str, tab: Tab, facts: &ScreenState) -> Vec<(String, String)> {
        let rest = |keys: &str| keys.strip_prefix(begun)?.strip_prefix(' ').map(str::to_owned);
        let mut out: Vec<(String, String)> = Vec::new();
        for own in self.own.iter().rev().filter(|own| own.layer.is_none_or(|own| own == tab) && own.holds(facts)) {
            if let (Some(key), Some(Invocation { row, argument })) = (rest(&own.keys), &own.run) {
                let words = argument.as_ref().map_or(row.doc.to_owned(), |arg| format!("{} {arg}", row.name));
                out.push((key, words));
            }
        }
        for row in table::rows().filter(|row| row.tab.is_none_or(|own| own == tab)) {
            for key in self.keys_of(row).into_iter().filter_map(rest) {
                if !out.iter().any(|(known, _)| *known == key) {
                    out.push((key, row.doc.to_owned()));
                }
            }
        }
        out
    }
}

fn continues(keys: &str, typed: &str) -> bool {
    keys.strip_prefix(typed).is_some_and(|rest| rest.starts_with(' '))
}

const LEXICON: Lexicon = Lexicon {
    marks: &["&&", "!"],
    begins: char::is_alphabetic,
    goes_on: char::is_alphabetic,
    hints: &[('&', "conditions are joined by &&"), ('|', "bind the keys twice for or")],
    ..Lexicon::WORDS
};

/// Parses `live && !frozen`.
fn conditions(text: &str) -> Result<Vec<(usize, bool)>, Diagnostic> {
    let mut cursor = Cursor::new(text, &LEXICON)?;
    let mut list = Vec::new();
    while cursor.peek().is_some() || !list.is_empty() {
        let wanted = !cursor.eat("!");
        let piece = cursor.next("a condition")?;
        let at = FACTS.iter().position(|(known, _)| piece.token == Token::Word(known)).ok_or_else(|| {
            let names = FACTS.iter().map(|(name, _)| *name);
            let why = format!("unknown condition; available: {}", names.clone().collect::<Vec<_>>().join(", "));
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
    use crate::ui::input::commands::general;
    use crate::ui::screens::flame;
    use proptest::prelude::*;
    use proptest::sample::select;

    const NO_FACTS: ScreenState = ScreenState { live: false, frozen: false, filtered: false, comparing: false };

    #[test]
    fn the_users_keys_come_before_the_tables() {
        let mut map = Keymap::default();
        map.bind("all", "ctrl-t", "freq 4999", "live && !frozen").expect("bound");
        map.bind("flame", "w", "", "").expect("taken away");
        map.bind("all", "g g", "home", "").expect("bound");
        let live = ScreenState { live: true, ..NO_FACTS };
        let frozen = ScreenState { frozen: true, ..live };
        assert_eq!(map.lookup("ctrl-t", Tab::Top, &live), Lookup::Run(general::FREQ.with("4999")));
        assert_eq!(map.lookup("ctrl-t", Tab::Top, &frozen), Lookup::Nothing);
        assert_eq!(map.lookup("w", Tab::Flame, &live), Lookup::Nothing);
        assert_eq!(map.lookup("i", Tab::Top, &live), Lookup::Run((&general::IDLE).into()));
        // A chord replaces the binding of its first key.
        assert_eq!(map.lookup("g", Tab::Top, &live), Lookup::Prefix);
        assert_eq!(map.lookup("g g", Tab::Top, &live), Lookup::Run((&general::HOME).into()));
        assert_eq!(
            map.continuations("g", Tab::Top, &live),
            [("g".to_owned(), "go to the hottest line, and stay there".to_owned())]
        );
        assert_eq!(map.key_of(&general::HOME), Some("g g"));
        assert_eq!(map.key_of(&flame::commands::AROUND), None);
    }

    #[test]
    fn the_table_alone() {
        let map = Keymap::default();
        assert_eq!(map.lookup("r", Tab::Top, &NO_FACTS), Lookup::Prefix);
        assert_eq!(map.lookup("r +", Tab::Top, &NO_FACTS), Lookup::Run((&general::FASTER).into()));
        assert_eq!(map.lookup("r x", Tab::Top, &NO_FACTS), Lookup::Nothing);
        assert_eq!(map.lookup("R", Tab::Flame, &NO_FACTS), Lookup::Run((&flame::commands::LEAVES).into()));
        assert_eq!(map.continuations("r", Tab::Top, &NO_FACTS).len(), 8);
        for row in table::rows() {
            assert_eq!(map.keys_of(row), row.keys.to_vec(), "{}", row.name);
        }
    }

    #[test]
    fn faults_say_what_is_wrong() {
        let fault = |layer: &str, keys: &str, run: &str, when: &str| {
            Keymap::default().bind(layer, keys, run, when).expect_err("a fault")
        };
        assert!(fault("graph", "x", "quit", "").contains("available: all, overview, top, flame"));
        assert!(fault("all", "ctrl-alt-shift-x", "quit", "").contains("ctrl-alt-shift-x"));
        assert!(fault("all", "x", "qiut", "").contains("nearest: quit"));
        assert!(fault("all", "x", "quit", "alive").contains("available: live"));
        assert!(fault("all", "ctrl-c", "top", "").contains("cannot be bound"));
    }

    #[test]
    fn any_binding_is_taken_or_refused() {
        let part = |whole: &'static [&'static str]| prop_oneof![3 => select(whole).prop_map(str::to_owned), 1 => damage::texts(whole)];
        let layer = part(&["all", "top", "flame", "time", "cpus", "events", "units"]);
        let keys = part(&["ctrl-t", "g g", "x", "alt-m", "f5", "space", "ctrl-c", "shift-tab", "r x y"]);
        let run = part(&["quit", "freq 4999", "home", "", "where comm == nginx", "theme nord", "range 1,2"]);
        let when = part(&["", "live", "live && !frozen", "!filtered", "comparing && live && frozen"]);
        damage::reaching(512, 10, (layer, keys, run, when), |(layer, keys, run, when)| {
            let mut map = Keymap::default();
            let bound = map.bind(&layer, &keys, &run, &when).is_ok();
            assert_eq!(map.own().count(), usize::from(bound));
            let _ = map.lookup(&keys, Tab::Flame, &NO_FACTS);
            bound
        });
    }
}
