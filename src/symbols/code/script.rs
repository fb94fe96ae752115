//! The lines of an interpreted function, from its script.

use super::{Instruction, Listing, read_source};
use crate::kernel::machine::identity::Identity;
use crate::record::interpreted::{FUNCTION_LEN, FunctionSource, at_line};
use crate::session::Dso;
use crate::symbols::SymbolOptions;
use crate::symbols::lines::SourceLine;
use crate::symbols::trust::find_file::FileSearch;

/// Returns the lines of the function at an address, or the reason why they are not known.
pub(super) fn list(dso: &Dso, at: u64, options: &SymbolOptions) -> Result<Listing, String> {
    let function = dso.functions.find(at).ok_or("no known function at this address")?;
    let Some(source) = function.source else {
        return Err(
            "the lines of this function are not known; --interp both adds the interpreter's own functions".to_owned()
        );
    };
    let start = at & !(FUNCTION_LEN - 1);
    let mut notes = Vec::new();
    let text = text(dso, &source, options).unwrap_or_else(|why| {
        notes.push(format!("no source text: {why}"));
        Vec::new()
    });
    // Samples without a line have the address of the function itself.
    let mut instructions =
        vec![Instruction { at: start, text: "(line not known)".to_owned(), ..Instruction::default() }];
    for line in source.first..=source.last {
        let at = at_line(start, source.first, line);
        if at == start {
            notes.push("only the first lines are shown".to_owned());
            break;
        }
        let text = text.get(line as usize - 1).map(|text| text.trim_end().replace('\t', "    "));
        let line = Some(SourceLine { file: source.file.clone(), line });
        instructions.push(Instruction { at, text: text.unwrap_or_default(), line, ..Instruction::default() });
    }
    let end = instructions.last().map_or(start, |last| last.at) + 2;
    let sources = vec![(source.file.clone(), text)];
    let (function, dso) = (function.name, dso.path.clone());
    Ok(Listing { function, dso, start, end, is_script: true, instructions, sources, notes, ..Listing::default() })
}

/// Reads the script. The user whose process named it must be allowed to read it.
fn text(dso: &Dso, source: &FunctionSource, options: &SymbolOptions) -> Result<Vec<String>, String> {
    if !source.file.starts_with('/') {
        return Err(format!("{} is not the path of a file", source.file));
    }
    // Scripts have no build id: a file of the same path on this machine may be another one.
    if !options.live && options.symfs.is_none() && !options.is_own_kernel(dso) {
        return Err("the recording is of another machine; --symfs DIR is the root of its files".to_owned());
    }
    let dso = Dso { via: Some((source.pid, 0, 0)), ..dso.clone() };
    let mut places = FileSearch::new(&dso, options).map_err(|error| error.to_string())?;
    let namers = Identity::of_user(source.uid).into();
    read_source(&mut places, &source.file, &namers).map_err(|error| format!("{}: {error}", source.file))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::record::interpreted::{Language, line_at, to_dso};
    use crate::session::dso::NamedFunction;
    use crate::session::{DsoKind, Dsos};

    fn listed(file: &str, last: u32) -> Listing {
        listed_for(rustix::process::getuid().as_raw(), file, last, &SymbolOptions::live())
    }

    fn listed_for(uid: u32, file: &str, last: u32, options: &SymbolOptions) -> Listing {
        let mut dso = Dsos::default().named("[python]", DsoKind::Interpreted(Language::Python));
        let pid = std::process::id() as i32;
        let source = FunctionSource { file: file.into(), first: 2, last, pid, uid };
        let at = to_dso(Language::Python.address(2));
        dso.functions.learn(at, NamedFunction { name: "spin (app.py)".into(), source: Some(Arc::new(source)) });
        list(&dso, at, options).expect("a listing")
    }

    #[test]
    fn a_function_of_a_script_has_its_lines() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("app.py");
        std::fs::write(&file, "import sys\ndef spin():\n\treturn 1  \n").expect("written");
        let listing = listed(file.to_str().expect("text"), 3);
        assert_eq!((&*listing.function, &listing.notes[..]), ("spin (app.py)", &[][..]));
        let lines = |one: &Instruction| (one.line.as_ref().map_or(0, |line| line.line), one.text.clone());
        let lines: Vec<(u32, String)> = listing.instructions.iter().map(lines).collect();
        let expected = [(0, "(line not known)"), (2, "def spin():"), (3, "    return 1")];
        assert_eq!(lines, expected.map(|(line, text)| (line, text.to_owned())));
        for one in &listing.instructions {
            assert_eq!(line_at(one.at, 2), one.line.as_ref().map(|line| line.line));
        }
        assert!(listing.instructions.is_sorted_by_key(|one| one.at) && listing.end > listing.instructions[2].at);
    }

    /// A process of an ordinary user names a file of root as its script.
    #[test]
    fn a_script_that_its_user_may_not_read_is_not_shown() {
        use std::os::unix::fs::PermissionsExt;
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("secret.py");
        std::fs::write(&file, "secret\nsecret\nsecret\n").expect("written");
        let name = file.to_str().expect("text");
        for (mode, is_shown) in [(0o600, false), (0o644, true)] {
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("its owner");
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).expect("its owner");
            let listing = listed_for(Identity::nobody().uid, name, 3, &SymbolOptions::live());
            let is_there = listing.instructions.iter().any(|one| one.text == "secret");
            assert_eq!((is_there, listing.notes.is_empty()), (is_shown, is_shown), "{:?}", listing.notes);
        }
    }

    #[test]
    fn without_its_file_a_function_has_the_numbers_of_its_lines() {
        for (file, why) in [("<string>", "is not the path of a file"), ("/nowhere/app.py", "/nowhere/app.py: ")] {
            let listing = listed(file, 4);
            assert!(listing.notes[0].contains(why), "{:?}", listing.notes);
            assert_eq!(listing.instructions.iter().filter_map(|one| one.line.as_ref()).count(), 3);
        }
        let other = SymbolOptions { live: false, same_kernel: false, ..SymbolOptions::live() };
        let listing = listed_for(0, "/etc/passwd", 4, &other);
        assert!(listing.notes[0].contains("another machine"), "{:?}", listing.notes);
        let listing = listed("/nowhere/app.py", u32::MAX);
        assert_eq!((listing.instructions.len(), listing.notes.len()), (1 << 15, 2));
    }
}
