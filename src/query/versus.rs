//! A table against its baseline: every row with what it was, and rows that are there no more.

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash, Hasher};

use rustc_hash::FxHashMap;

use crate::profile::{Acc, Sym};

use super::Data;
use super::diff::{Per, Side, Verdict, verdict};
use super::lines::MAX_ROWS;
use super::question::{Order, TopSpec};
use super::top::{Row, Top};

/// One side: its rows, and what they are measured against.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    pub data: Data<'a>,
    pub top: &'a Top,
    pub side: Side,
}

/// What a row has become. Values are in the unit of the comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Versus {
    pub old: f64,
    pub new: f64,
    pub verdict: Verdict,
    pub per: Per,
}

impl Versus {
    pub fn delta(&self) -> f64 {
        self.new - self.old
    }
}

/// A row of either side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Index into the new table's rows.
    New(u32),
    /// Index into the baseline's: there is nothing of it now.
    Gone(u32),
}

/// Both tables' rows in the order of the new one; ordered by difference, the largest first. Only as many as are
/// ever shown are in order.
pub fn compare(new: Table<'_>, old: Table<'_>, spec: &TopSpec, per: Per) -> Vec<(Place, Versus)> {
    let weight = |row: &Row| if spec.order == Order::Children { row.children } else { row.own };
    let mut left: FxHashMap<u64, VecDeque<u32>> = FxHashMap::default();
    for (i, row) in (0..).zip(&old.top.rows) {
        left.entry(key(&old, row)).or_default().push_back(i);
    }
    let versus = |then: Acc, now: Acc| Versus {
        old: old.side.value(then, per),
        new: new.side.value(now, per),
        verdict: verdict((then, old.side.total), (now, new.side.total)),
        per,
    };
    let mut out = Vec::with_capacity(new.top.rows.len());
    for (i, row) in (0..).zip(&new.top.rows) {
        let then = left.get_mut(&key(&new, row)).and_then(VecDeque::pop_front);
        let then = then.map_or_else(Acc::default, |at| weight(&old.top.rows[at as usize]));
        out.push((Place::New(i), versus(then, weight(row))));
    }
    let mut gone: Vec<u32> = left.into_values().flatten().collect();
    gone.sort_unstable();
    out.extend(gone.into_iter().filter_map(|i| {
        let then = weight(&old.top.rows[i as usize]);
        (!then.is_zero()).then(|| (Place::Gone(i), versus(then, Acc::default())))
    }));
    if spec.order == Order::Delta {
        let order = |(at_a, a): &(Place, Versus), (at_b, b): &(Place, Versus)| {
            let by = b.delta().abs().total_cmp(&a.delta().abs());
            (if spec.reversed { by.reverse() } else { by }).then_with(|| at_a.cmp(at_b))
        };
        if MAX_ROWS < out.len() {
            out.select_nth_unstable_by(MAX_ROWS, order);
        }
        let shown = MAX_ROWS.min(out.len());
        out[..shown].sort_unstable_by(order);
    }
    out
}

/// The same for the same row of either side, whatever ids and addresses it has there.
fn key(table: &Table<'_>, row: &Row) -> u64 {
    let mut hasher = rustc_hash::FxBuildHasher.build_hasher();
    table.top.groups[row.group as usize].hash(&mut hasher);
    let sym: Option<&Sym> = table.top.symbol(table.data, row.label);
    sym.map(|sym| (&sym.dso_name, sym.name())).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Frame, NodeId, Profile, Site};
    use crate::query::{Fold, Keep, Key};
    use crate::session::{MapId, Origin, Session};

    /// A session with a sample of each function, one letter each.
    fn recorded(functions: &str) -> (Session, Profile) {
        let (mut session, mut profile) = (Session::new(Origin::Recorded), Profile::default());
        session.apply(&crate::record::Record::Comm { pid: 1, tid: 1, exec: false, name: b"t" }, 0);
        let dso = session.dsos.of_map(MapId::UNKNOWN).clone();
        for c in functions.chars() {
            let frame = profile.frames.intern(Frame { map: MapId::UNKNOWN, caller: false, ip: c as u64 });
            profile.frames.set_named(frame, &dso, c.to_string().into());
            let stack = profile.trie.child(NodeId::ROOT, frame);
            let site = profile.sites.intern(Site { task: session.task(1, 1), stack, trace: Default::default() });
            profile.push(1, site, 10, 0, 0);
        }
        (session, profile)
    }

    #[test]
    fn rows_find_what_they_were() {
        let (then, now) = (recorded(&"aab".repeat(50)), recorded(&"bcc".repeat(50)));
        let spec = TopSpec { keys: vec![Key::Sym], children: false, order: Order::Delta, reversed: false };
        let names = ["e".to_owned()];
        let data = |(session, profile): &'_ (Session, Profile)| -> (Fold, Top) {
            let data = Data { session, profile, events: &names, start: 0 };
            let mut fold = Fold::new(0, None, false);
            fold.update(data, 0..u64::MAX);
            let top = Top::build(data, &fold, &spec, Keep::First(usize::MAX));
            (fold, top)
        };
        let ((fold, old), (fold_now, new)) = (data(&then), data(&now));
        let table = |(session, profile), top, fold: &Fold| Table {
            data: Data { session, profile, events: &names, start: 0 },
            top,
            side: Side { total: fold.total(), seconds: 1.0 },
        };
        let new_table = table((&now.0, &now.1), &new, &fold_now);
        let old_table = table((&then.0, &then.1), &old, &fold);
        let rows = compare(new_table, old_table, &spec, Per::Total);
        let shown: Vec<String> = rows
            .iter()
            .map(|(place, versus)| {
                let sym = match place {
                    Place::New(i) => new.symbol(new_table.data, new.rows[*i as usize].label),
                    Place::Gone(i) => old.symbol(old_table.data, old.rows[*i as usize].label),
                };
                let name = sym.map(|s| s.name().to_string()).unwrap_or_default();
                format!("{} {name} {:+.0}", versus.verdict.sign(), versus.delta())
            })
            .collect();
        assert_eq!(shown, ["+ c +67", "- a -67", "~ b +0"]);
    }
}
