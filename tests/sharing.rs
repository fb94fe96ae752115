//! Processes that have the same files at other addresses: counted together, and told apart again when they are saved.

mod common;

use std::path::Path;

use common::{data, program, run};
use perfprof_tui::engine::{Wants, offline};
use perfprof_tui::export::perfdata;
use perfprof_tui::source::recording;
use perfprof_tui::symbols::resolver::Options;

fn load(file: &Path, addresses: bool) -> offline::Loaded {
    let mut source = recording::open(&[file.to_owned()]).expect("opens");
    let symbols = Options { live: false, kallsyms: None, ..Options::live() };
    offline::load(&mut *source, symbols, Wants { addresses, ..Wants::default() }).expect("loads")
}

fn script(file: &Path) -> Vec<String> {
    let output = run(program().arg("script").arg(file).args(["-F", "comm,pid,tid,time,ip", "--kallsyms=/nonexistent"]));
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

#[test]
fn a_snapshot_has_the_addresses_of_each_process() {
    // Hundreds of short processes of the same few programs, at random addresses, started by fork and exec.
    let file = data("forker-g.data");
    let (shared, apart) = (load(&file, false), load(&file, true));
    let counts = |loaded: &offline::Loaded| {
        let profile = &loaded.ingest.core().profile;
        (profile.len(), profile.frames.len(), profile.trie.len())
    };
    let (with, without) = (counts(&shared), counts(&apart));
    assert_eq!(with.0, without.0);
    assert!(with.1 * 3 < without.1 * 2 && with.2 < without.2, "frames and stacks are shared: {with:?} {without:?}");
    let dir = tempfile::tempdir().expect("dir");
    let saved = dir.path().join("saved.data");
    perfdata::save(&shared.ingest.core().moment(), &saved, &[], None).expect("saved");
    let (before, after) = (script(&file), script(&saved));
    assert!(before.len() > with.0);
    for (line, (a, b)) in before.iter().zip(&after).enumerate() {
        assert_eq!(a, b, "line {line}");
    }
    assert_eq!(before.len(), after.len());
}

#[test]
fn what_nobody_has_any_more_is_forgotten() {
    let loaded = load(&data("forker-g.data"), false);
    let mut ingest = loaded.ingest;
    let core = ingest.core_mut();
    let tasks = core.session.tasks().len();
    core.profile.clear(&mut core.session);
    assert!(tasks > 20 && core.session.tasks().is_empty());
}
