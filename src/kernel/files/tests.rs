//! Tests of files that replace others, among those of other users.

use super::*;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

fn written(target: &Path) -> io::Result<()> {
    let mut new = NewFile::create(target)?;
    new.write_all(b"new")?;
    new.commit()
}

fn listed(dir: &Path) -> Vec<String> {
    let list = std::fs::read_dir(dir).expect("dir").flatten();
    let mut names: Vec<String> = list.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn links_of_ours_lead_to_the_file_and_stay() {
    let dir = tempfile::tempdir().expect("dir");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("big")).expect("made");
    // Relative to the link's own directory, through another link, to a file that does or does not exist.
    symlink("big/second", at("first")).expect("linked");
    symlink(at("big/p.data"), at("big/second")).expect("linked");
    for text in ["one", "two"] {
        let mut new = NewFile::create(&at("first")).expect("created");
        new.write_all(text.as_bytes()).expect("written");
        new.call(OsStr::new("first"));
        new.commit_beside_old().expect("put");
        assert_eq!(std::fs::read_to_string(at("big/p.data")).expect("there"), text);
    }
    assert_eq!(listed(&at("big")), ["p.data", "p.data.old", "second"]);
    assert!(["first", "big/second"].iter().all(|name| at(name).is_symlink()));
    // Parts of a series are stored next to the link's target under their own names.
    let mut part = NewFile::create(&at("first")).expect("created");
    part.call(OsStr::new("first.1"));
    part.commit().expect("put");
    assert_eq!(listed(&at("big")), ["first.1", "p.data", "p.data.old", "second"]);
    symlink("round", at("round")).expect("linked");
    assert_eq!(written(&at("round")).expect_err("a circle").raw_os_error(), Some(libc::ELOOP));
    symlink("nowhere/p.data", at("lost")).expect("linked");
    assert_eq!(written(&at("lost")).expect_err("no folder").kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_link_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let (victim, target, own) = (dir.path().join("victim"), dir.path().join("p.data"), dir.path().join("own"));
    std::fs::write(&victim, "kept").expect("written");
    symlink(&victim, &target).expect("planted");
    std::os::unix::fs::lchown(&target, Some(12_345), None).expect("given away");
    // A link of our own that leads to it does not help.
    symlink(&target, &own).expect("linked");
    for name in [&target, &own] {
        let why = written(name).expect_err("not followed").to_string();
        assert!(why.contains("a link of another user") && why.contains("remove it"), "{why}");
    }
    assert_eq!(std::fs::read_to_string(&victim).expect("there"), "kept");
    assert!(target.is_symlink());
}

#[test]
fn a_planted_link_is_replaced_and_not_followed() {
    let dir = tempfile::tempdir().expect("dir");
    let (victim, target) = (dir.path().join("victim"), dir.path().join("perf.data"));
    std::fs::write(&victim, "kept").expect("written");
    let mut new = NewFile::create(&target).expect("created");
    new.write_all(b"new").expect("written");
    // Links planted during the write, and where the old file goes.
    symlink(&victim, dir.path().join("perf.data.old")).expect("planted");
    new.commit_beside_old().expect("put");
    assert_eq!(std::fs::read_to_string(&victim).expect("there"), "kept");
    let meta = std::fs::symlink_metadata(&target).expect("there");
    assert!(meta.is_file() && meta.permissions().mode() & 0o777 == PRIVATE);
    // The previous ordinary file is kept, in place of the planted link.
    let mut next = NewFile::create(&target).expect("created");
    next.write_all(b"next").expect("written");
    next.commit_beside_old().expect("put");
    let old = dir.path().join("perf.data.old");
    assert!(std::fs::symlink_metadata(&old).expect("there").is_file());
    assert_eq!([&victim, &target, &old].map(|p| std::fs::read_to_string(p).expect("text")), ["kept", "next", "new"]);
}

#[test]
fn what_is_given_up_leaves_nothing_and_what_is_kept_says_where() {
    let dir = tempfile::tempdir().expect("dir");
    let target = dir.path().join("x");
    drop(NewFile::create(&target).expect("created"));
    assert!(listed(dir.path()).is_empty());
    let mut new = NewFile::create(&target).expect("created");
    new.write_all(b"part").expect("written");
    let kept = new.keep().expect("kept");
    assert!(kept.display().to_string().contains("x.part-"), "{}", kept.display());
    assert_eq!(std::fs::read(&kept).expect("there"), b"part");
    // A directory in its place: the data is kept, and the message says where.
    let mut new = NewFile::create(&target).expect("created");
    std::fs::create_dir(&target).expect("made");
    let why = new.commit().expect_err("a folder is there").to_string();
    let kept = why.split("kept as ").nth(1).expect("where");
    assert!(Path::new(kept).is_file(), "{why}");
    assert!(written(&target).is_err());
}

#[test]
fn devices_and_pipes_are_written_as_they_are() {
    let dir = tempfile::tempdir().expect("dir");
    written(Path::new("/dev/null")).expect("written");
    assert!(std::fs::metadata("/dev/null").expect("there").file_type().is_char_device());
    let full = written(Path::new("/dev/full")).expect_err("full");
    assert!(unwritten(Path::new("/dev/full"), &full).starts_with("/dev/full was not written: No space left"));
    let link = dir.path().join("link");
    symlink("/dev/null", &link).expect("made");
    written(&link).expect("written");
    assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // A pipe of another user is not written.
    let pipe = dir.path().join("pipe");
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(CWD, &pipe, fifo, Mode::from_raw_mode(0o666), 0).expect("made");
    chown(&pipe, Some(12_345), None).expect("given away");
    written(&pipe).expect("written");
    assert!(std::fs::symlink_metadata(&pipe).expect("there").is_file());
}

#[test]
fn no_link_below_the_home_is_followed() {
    let dir = tempfile::tempdir().expect("dir");
    let (home, victim) = (dir.path().join("home"), dir.path().join("victim"));
    std::fs::create_dir_all(&victim).expect("made");
    let put = || OwnPlace::new(&home, ".config/perfprof-tui").create("filters.toml")?.commit();
    // Nothing exists yet, not even the home.
    put().expect("written");
    assert_eq!(listed(&home.join(".config/perfprof-tui")), ["filters.toml"]);
    // The last component, then one above it.
    for part in [".config/perfprof-tui", ".config"] {
        std::fs::remove_dir_all(home.join(part)).expect("gone");
        symlink(&victim, home.join(part)).expect("planted");
        let why = put().expect_err("a link").to_string();
        assert!(why.contains("links are not followed"), "{why}");
        std::fs::remove_file(home.join(part)).expect("gone");
        std::fs::create_dir(home.join(part)).expect("made");
    }
    assert!(listed(&victim).is_empty());
    put().expect("written");
    let file = home.join(".config/perfprof-tui/filters.toml");
    std::fs::remove_file(&file).expect("gone");
    std::fs::write(victim.join("shadow"), "kept").expect("written");
    symlink(victim.join("shadow"), &file).expect("planted");
    put().expect("written");
    assert!(std::fs::symlink_metadata(&file).expect("there").is_file());
    assert_eq!(std::fs::read_to_string(victim.join("shadow")).expect("there"), "kept");
}

#[test]
fn nothing_is_written_in_a_folder_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let dir = tempfile::tempdir().expect("dir");
    let home = dir.path().join("home");
    for (part, strange) in [("", true), (".config", true), (".config/perfprof-tui", true), ("", false)] {
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(home.join(part)).expect("made");
        chown(home.join(part), strange.then_some(12_345), None).expect("given away");
        let put = OwnPlace::new(&home, ".config/perfprof-tui").create("filters.toml");
        assert_eq!(put.is_err(), strange, "{part}");
        if let Err(why) = put {
            assert!(why.to_string().contains("belongs to another user"), "{why}");
        }
    }
}
