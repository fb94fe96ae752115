//! Notes about stacks: missing functions of languages, missing callers, and their remedies.

use crate::kernel::walk::WalkEnd;
use crate::panel::unit::percent;
use crate::profile::{Chunk, NodeId};
use crate::session::{MapId, TaskId};
use crate::symbols::languages::NotWalked;
use crate::symbols::spaces::{TableOutcome, Tables, WalkFigures};

use super::Data;

/// Stacks that are enough for a note, and the percentage of them that is broken.
const ENOUGH: u64 = 50;
const MOST: f64 = 50.0;
/// Processes that have a note.
const LISTED: usize = 3;

/// Returns a note for each version of an interpreter whose functions are not frames, unless that may still change.
pub(crate) fn of_interpreters(tables: &Tables) -> impl Iterator<Item = String> {
    tables.interpreters.iter().filter_map(|one| {
        let why = one.walked.err()?;
        let is_final = !matches!(why, NotWalked::NotBegun | NotWalked::Delayed);
        let remedy = why.remedy(one.version.language, None);
        is_final.then(|| format!("{}: native frames instead of functions: {why}. {remedy}", one.version))
    })
}

/// Returns a note if most stacks that were walked by tables are broken: the most frequent reason, and a remedy. Tables
/// exist for other processes, too; `is_mapped` returns whether a recorded process has mapped a file.
pub(crate) fn of_walks(walks: &WalkFigures, is_mapped: impl Fn(&str) -> bool) -> Option<String> {
    let share = walks.ends.broken_percent();
    if walks.ends.all() < ENOUGH || share <= MOST {
        return None;
    }
    let broken = walks.ends.percents().filter(|(why, _)| why.is_broken());
    let (why, _) = broken.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
    let of =
        |is: fn(&TableOutcome) -> bool| walks.tables.files.iter().find(|file| is(&file.made) && is_mapped(&file.name));
    let remedy = if why != WalkEnd::NoFrame {
        "I on the live screen lists the reasons; --call-graph dwarf copies the stacks".to_owned()
    } else if let Some(file) = of(|made| matches!(made, TableOutcome::Coming)) {
        format!("the table of {} is not complete yet: record for longer", file.name)
    } else if let Some(file) = of(|made| matches!(made, TableOutcome::Full(_))) {
        format!("no room for the table of {}: use a larger --memory, or --call-graph dwarf", file.name)
    } else {
        "code without a table and without frame pointers: --call-graph dwarf copies the stacks".to_owned()
    };
    Some(format!("{} of stacks lack callers and end in [broken] ({}); {remedy}", percent(share), why.cause()))
}

/// Returns notes about processes whose stacks are mostly broken, sorted by samples, highest first.
pub(crate) fn of_processes(data: Data<'_>) -> Vec<String> {
    let trie = &data.profile.trie;
    let mut is_broken = vec![false; trie.len()];
    // A parent's number is lower than its children's.
    for node in (1..trie.len() as u32).map(NodeId) {
        let parent = trie.parent(node);
        let is_root = parent == NodeId::ROOT;
        is_broken[node.0 as usize] = if is_root {
            data.profile.frames.get(trie.frame(node)).map == MapId::BROKEN
        } else {
            is_broken[parent.0 as usize]
        };
    }
    let mut processes = std::collections::BTreeMap::<i32, (u64, u64, TaskId)>::new();
    let sites = data.profile.sites.all();
    let mut count = |chunk: &Chunk, row: usize| {
        let site = sites[chunk.site[row] as usize];
        let pid = data.session.tasks()[site.task.0 as usize].pid;
        let (broken, all, _) = processes.entry(pid).or_insert((0, 0, site.task));
        *broken += u64::from(is_broken[site.stack.0 as usize]);
        *all += 1;
    };
    for (chunk, range) in data.profile.between(0, u64::MAX) {
        range.for_each(|row| count(chunk, row));
    }
    let share = |broken: u64, all: u64| 100.0 * broken as f64 / all.max(1) as f64;
    let mut cut: Vec<_> =
        processes.into_iter().filter(|(_, (broken, all, _))| *all >= ENOUGH && share(*broken, *all) > MOST).collect();
    cut.sort_by_key(|(pid, (_, all, _))| (std::cmp::Reverse(*all), *pid));
    let note = |(pid, (broken, all, task)): (i32, (u64, u64, TaskId))| {
        format!(
            "{} of the stacks of {} ({pid}) lack callers and end in [broken]: code without an unwind table and without \
             frame pointers, or a table that was not complete; record for longer, or with --call-graph dwarf",
            percent(share(broken, all)),
            data.session.tasks()[task.0 as usize].program,
        )
    };
    cut.into_iter().take(LISTED).map(note).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::kernel::walk::WalkEnds;
    use crate::profile::Frame;
    use crate::query::staged::Staged;
    use crate::record::interpreted::Language;
    use crate::symbols::languages::runtime_file::LanguageVersion;
    use crate::symbols::spaces::{FileTable, InterpreterFigures};

    fn walks(whole: u64, broken: u64, files: Vec<FileTable>) -> WalkFigures {
        let mut ends = WalkEnds::default();
        (0..whole).for_each(|_| ends.count(WalkEnd::Complete));
        (0..broken).for_each(|_| ends.count(WalkEnd::NoFrame));
        WalkFigures { tables: Arc::new(Tables { files, ..Tables::default() }), ends, ..WalkFigures::default() }
    }

    #[test]
    fn most_stacks_are_broken_for_a_reason() {
        let coming = || vec![FileTable { name: "/usr/bin/node".into(), made: TableOutcome::Coming, processes: 1 }];
        assert_eq!(of_walks(&walks(60, 40, coming()), |_| true), None);
        assert_eq!(of_walks(&walks(0, 40, coming()), |_| true), None, "a few stacks are not judged");
        assert_eq!(
            of_walks(&walks(10, 90, coming()), |_| true).as_deref(),
            Some(
                "90.0 % of stacks lack callers and end in [broken] (no table, no frame pointer); the table of \
                 /usr/bin/node is not complete yet: record for longer"
            )
        );
        let without = [walks(10, 90, Vec::new()), walks(10, 90, coming())].map(|walks| of_walks(&walks, |_| false));
        assert!(
            without.iter().flatten().filter(|note| note.contains("code without a table")).count() == 2,
            "{without:?}"
        );
    }

    #[test]
    fn processes_with_mostly_broken_stacks_have_notes() {
        let mut staged = Staged::default();
        let root = staged.profile.frames.intern(Frame { map: MapId::BROKEN, caller: false, ip: 0 });
        let root = staged.profile.trie.child(NodeId::ROOT, root);
        let leaf = staged.stack(&["leaf"]);
        let leaf = staged.profile.trie.frame(leaf);
        let broken = staged.profile.trie.child(root, leaf);
        for (pid, cut, all) in [(1, 60, 100), (2, 40, 100), (3, 40, 40)] {
            let site = staged.site_at(pid, broken);
            for time in 0..all {
                if time < cut {
                    staged.profile.push(time, site, 1, 0, 0);
                } else {
                    staged.sample(time, pid, &["main", "leaf"], 1);
                }
            }
        }
        let notes = of_processes(staged.data());
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("60.0 % of the stacks of ") && notes[0].contains("(1)"), "{notes:?}");
    }

    #[test]
    fn an_interpreter_without_functions_has_a_note() {
        let one = |minor, walked| InterpreterFigures {
            version: LanguageVersion { language: Language::Python, major: 3, minor },
            walked,
            processes: 1,
        };
        let interpreters = vec![one(11, Ok(())), one(6, Err(NotWalked::Version)), one(10, Err(NotWalked::NotBegun))];
        let notes: Vec<String> = of_interpreters(&Tables { interpreters, ..Tables::default() }).collect();
        assert_eq!(notes.len(), 1);
        assert!(notes[0].starts_with("python 3.6: native frames instead of functions: this version is not supported"));
    }
}
