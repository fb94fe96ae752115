//! The rules of the source tree: dependencies between folders, places of `unsafe` code, and texts that match the
//! program.

mod circles;
mod folders;
mod keys;
mod messages;
mod words;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

/// The folders in the order of a sample's life: each may use those before it.
const ORDER: &[&str] = &[
    "perf_abi", "kernel", "record", "lang", "perfdata", "event", "filter", "session", "symbols", "source", "profile",
    "panel", "query", "units", "ingest", "machine", "engine", "ui", "report", "export", "cli",
];

/// Dependencies that the order permits but the design forbids.
const FORBIDDEN: &[(&str, &str)] = &[
    ("record", "kernel"),
    ("lang", "kernel"),
    ("lang", "record"),
    ("ui", "kernel"),
    ("report", "ui"),
    ("export", "ui"),
    ("units", "kernel"),
    ("query", "source"),
    ("panel", "source"),
];

/// Returns a source file without the test modules at its end. `mod tests;`, a module in another file, has code after it.
fn without_tests(code: &str) -> &str {
    static BEGIN: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"#\[cfg\(test\)\]\s+(?:pub(?:\(\w+\))? )?mod \w+ \{").expect("a pattern"));
    BEGIN.splitn(code, 2).next().unwrap_or_default()
}

#[test]
fn code_after_test_modules_of_other_files_is_read() {
    assert_eq!(without_tests("#[cfg(test)]\nmod tests;\n\ncode"), "#[cfg(test)]\nmod tests;\n\ncode");
    assert_eq!(without_tests("code\n#[cfg(test)]\nmod tests {\n}"), "code\n");
    assert_eq!(without_tests("code\n#[cfg(test)]\npub(crate) mod fake {\n}"), "code\n");
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("dir").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn folder(path: &Path) -> Option<String> {
    let below = path.strip_prefix(root().join("src")).ok()?;
    let first = below.components().next()?.as_os_str().to_str()?.to_owned();
    (!first.ends_with(".rs")).then_some(first)
}

#[test]
fn arrows_run_downwards_only() {
    let mut wrong = Vec::new();
    for path in sources(&root().join("src")) {
        let Some(from) = folder(&path) else { continue };
        let at = ORDER.iter().position(|f| *f == from).unwrap_or_else(|| panic!("{from} is missing from the order"));
        let text = std::fs::read_to_string(&path).expect("read");
        for piece in text.split("crate::").skip(1) {
            let to: String = piece.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let Some(target) = ORDER.iter().position(|f| *f == to) else { continue };
            let forbidden = FORBIDDEN.iter().any(|(a, b)| *a == from && *b == to);
            if target > at || forbidden {
                wrong.push(format!("{}: {from} uses {to}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Drawing code receives the state that it shows, and cannot change it.
#[test]
fn drawing_never_sees_the_app() {
    let ui = root().join("src/ui");
    let draws = |path: &Path| {
        let inside = path.strip_prefix(&ui).expect("below ui");
        ["draw", "popups", "widgets"].iter().any(|folder| inside.starts_with(folder)) || path.ends_with("draw.rs")
    };
    let files: Vec<PathBuf> = sources(&ui).into_iter().filter(|path| draws(path)).collect();
    assert!(files.len() > 15, "{files:?}");
    for path in files {
        let text = std::fs::read_to_string(&path).expect("read");
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        assert!(!words.into_iter().any(|word| word == "App"), "{} uses App", path.display());
    }
}

#[test]
fn every_folder_has_its_floor() {
    for name in ORDER {
        let module = root().join("src").join(name).join("mod.rs");
        assert!(module.is_file(), "{} is missing", module.display());
    }
}

#[test]
fn unsafe_lives_in_kernel_only_and_gives_its_reason() {
    for path in sources(&root().join("src")) {
        let text = std::fs::read_to_string(&path).expect("read");
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            if !(code.contains("unsafe {") || code.contains("unsafe impl") || code.contains("unsafe fn")) {
                continue;
            }
            assert_eq!(folder(&path).as_deref(), Some("kernel"), "{}:{}", path.display(), i + 1);
            let above = &lines[i.saturating_sub(6)..i];
            assert!(above.iter().any(|l| l.contains("SAFETY:")), "{}:{} lacks a SAFETY comment", path.display(), i + 1);
        }
    }
}

/// All decompression of file contents goes through one module, which checks the size first.
#[test]
fn what_is_packed_goes_through_one_door() {
    for path in sources(&root().join("src")).iter().filter(|path| !path.ends_with("perfdata/unpack.rs")) {
        let text = std::fs::read_to_string(path).expect("read");
        for other in ["uncompressed_data(", ".decompress()", "bulk::decompress", "XzReader", "decompress_vec"] {
            assert!(!text.contains(other), "{}: {other}", path.display());
        }
    }
}

/// One module opens all files that a profiled process or a recording names.
#[test]
fn files_that_others_name_go_through_the_door() {
    const OPENS: &[&str] = &["File::open", "File::options", "OpenOptions", "fs::read(", "fs::read_to_string", "openat"];
    let mut doors = 0;
    for path in sources(&root().join("src")) {
        if !matches!(folder(&path).as_deref(), Some("symbols" | "source")) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("read");
        let tests = path.ends_with("tests.rs");
        let code = if tests { "" } else { without_tests(&text) };
        let opens: Vec<&str> = code.lines().filter(|line| OPENS.iter().any(|word| line.contains(word))).collect();
        if path.ends_with("symbols/trust/door.rs") {
            doors += usize::from(!opens.is_empty());
        } else {
            assert!(opens.is_empty(), "{} opens files: {opens:#?}", path.display());
        }
    }
    assert_eq!(doors, 1);
}

/// One module reads environment variables that contain paths and programs; it decides whether to trust them.
#[test]
fn the_environment_is_asked_in_one_place() {
    for path in sources(&root().join("src")) {
        // The interface reads the type of its terminal.
        if path.ends_with("kernel/process/privilege.rs") || path.ends_with("ui/terminal/term_query.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("read");
        let code = without_tests(&text);
        assert!(!code.contains("env::var"), "{}", path.display());
    }
}

#[test]
fn every_file_says_what_it_owns_and_is_one_idea() {
    for path in sources(&root().join("src")) {
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.starts_with("//!"), "{} lacks a module comment", path.display());
        let code = without_tests(&text).lines().count();
        assert!(code <= 620, "{} has {code} lines", path.display());
    }
}

#[test]
fn the_terminal_is_known_to_the_interface_only_and_printing_to_the_command_line() {
    for path in sources(&root().join("src")) {
        let folder = folder(&path).unwrap_or_default();
        let text = std::fs::read_to_string(&path).expect("read");
        let code = || text.lines().filter(|l| !l.trim_start().starts_with("//"));
        if folder != "ui" {
            assert!(!code().any(|l| l.contains("ratatui") || l.contains("crossterm")), "{}", path.display());
        }
        let prints = |l: &str| {
            ["println!", "eprintln!", "print!(", "dbg!", "todo!", "unimplemented!"].iter().any(|w| l.contains(w))
        };
        assert!(!code().any(prints), "{} prints", path.display());
    }
}

/// All output goes through one sink, which removes control characters, and one module creates files, without following
/// links of other users.
#[test]
fn output_has_one_sink_and_files_have_one_maker() {
    const STREAMS: &[&str] = &["cli/output.rs", "ui/terminal/term.rs", "ui/terminal/term_query.rs", "kernel/tty.rs"];
    const MAKERS: &[&str] = &[
        "File::create",
        "fs::write(",
        "create_new(",
        "OpenOptions::new",
        "File::options",
        "create_dir",
        "fs::rename(",
    ];
    for path in sources(&root().join("src")) {
        let name = path.strip_prefix(root().join("src")).expect("below src").display().to_string();
        let text = std::fs::read_to_string(&path).expect("read");
        let code = if name.ends_with("tests.rs") { "" } else { without_tests(&text) };
        for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let asks = ["is_terminal()", "TermVars::from_source"].iter().any(|word| line.contains(word));
            let streams = ["stdout()", "stderr()"].iter().any(|word| line.contains(&format!("io::{word}")));
            assert!(!streams || asks || STREAMS.contains(&&*name), "{name}: {line}");
            let line = line.replace("NewFile::", "");
            let makes = MAKERS.iter().any(|word| line.contains(word));
            assert!(!makes || WRITERS.contains(&&*name) || line.contains(".read(true)"), "{name}: {line}");
        }
    }
}

/// An I/O error does not name its file, so where a file is opened its error gets the path: by `file_error::at`, `map_err` or
/// `with_context`.
#[test]
fn errors_of_files_name_them() {
    let mut passed_on = Vec::new();
    for path in sources(&root().join("src")) {
        let name = path.strip_prefix(root().join("src")).expect("below src").display().to_string();
        let text = std::fs::read_to_string(&path).expect("read");
        let code = if name.ends_with("tests.rs") { "" } else { without_tests(&text) };
        passed_on.extend(
            code.lines()
                .filter(|line| passes_a_bare_error(line))
                .map(|line| (name.clone(), line.trim()))
                .map(|(name, line)| (name, line.to_owned())),
        );
    }
    let unnamed: Vec<_> = passed_on.iter().filter(|(name, _)| !NAMED_BY_CALLERS.contains(&&**name)).collect();
    assert!(unnamed.is_empty(), "errors without their file: {unnamed:#?}");
    let needless = NAMED_BY_CALLERS.iter().find(|name| !passed_on.iter().any(|(passed, _)| passed == *name));
    assert_eq!(needless, None, "passes no such error on");
    assert!(passes_a_bare_error("let text = std::fs::read_to_string(root.join(name))?;"));
    assert!(passes_a_bare_error("File::options().append(true).open(path)?.sync_all()"));
    for fine in [
        "fs::read(&path).map_err(at(&path))?",
        "fs::read(path).ok()?",
        "procfs::read(x)?",
        "dir.open(name)?",
        "f(fs::read(path).is_ok())?",
    ] {
        assert!(!passes_a_bare_error(fine), "{fine}");
    }
}

/// True of a line in which `?` follows at once what opens or reads a file.
fn passes_a_bare_error(line: &str) -> bool {
    const OPENS: &[&str] = &[
        "fs::read(",
        "fs::read_to_string(",
        "fs::read_dir(",
        "fs::read_link(",
        "fs::metadata(",
        "fs::symlink_metadata(",
        "fs::canonicalize(",
        "fs::remove_file(",
        "fs::create_dir(",
        "fs::create_dir_all(",
        "File::open(",
        "NewFile::create(",
    ];
    let ends_in_question = |from: usize| {
        let mut depth = 0;
        let end = line[from..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        });
        end.is_some_and(|(end, _)| line[from + end + 1..].starts_with('?'))
    };
    let options = line.find("options()").and_then(|at| Some(at + line[at..].find(".open(")? + ".open".len()));
    let calls = OPENS.iter().flat_map(|word| line.match_indices(word).map(move |(at, _)| (at, at + word.len() - 1)));
    let own = calls.filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'));
    !line.trim_start().starts_with("//") && own.map(|(_, paren)| paren).chain(options).any(ends_in_question)
}

/// Modules that pass the errors of files on as they are: their callers name the file, or read the error's number.
const NAMED_BY_CALLERS: &[&str] = &[
    // `unwritten` names the file.
    "cli/commands/record/record_file.rs",
    // A probe's line is refused with a number that says why.
    "event/probe/tracefs.rs",
    "export/copy.rs",
    "export/perfdata.rs",
    "kernel/files/mod.rs",
    // Files in /proc of the machine, or of a process that may have ended: the process is named.
    "kernel/kernel_symbols.rs",
    "kernel/machine/host.rs",
    "kernel/procfs.rs",
    "kernel/procfs/mappings.rs",
    // The recording is named.
    "source/recording/open.rs",
    // The file of symbols is named.
    "symbols/trust/door.rs",
];

/// Modules other than `kernel/files/mod.rs` that write files or folders: they only open files of the kernel, or create
/// folders that the user names.
const WRITERS: &[&str] = &[
    "kernel/files/mod.rs",
    "event/probe/tracefs.rs",
    "event/tracepoint/filter_error.rs",
    "event/tracepoint/instance.rs",
    "cli/commands/completions.rs",
    "symbols/trust/find_file.rs",
];

/// Hand-written texts by path.
fn texts() -> Vec<(String, String)> {
    let manual = std::fs::read_dir(root().join("src/cli/manual")).expect("the manual").flatten();
    let manual = manual.map(|entry| format!("src/cli/manual/{}", entry.file_name().to_string_lossy()));
    let manual = manual.filter(|name| !name.ends_with(".rs"));
    let own = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benches/README.md"];
    let mut names: Vec<String> = own.into_iter().map(str::to_owned).chain(manual).collect();
    names.sort();
    let read = |name: String| (std::fs::read_to_string(root().join(&name)).expect("read"), name);
    names.into_iter().map(read).map(|(text, name)| (name, text)).collect()
}

fn text(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// New users read only the README.
#[test]
fn the_readme_is_short_and_names_all_there_is() {
    let readme = text("README.md");
    assert!(readme.lines().count() < 280, "{} lines", readme.lines().count());
    for command in perfprof_tui::cli::args::whole().get_subcommands() {
        let name = command.get_name();
        let unit = perfprof_tui::units::find(name).is_some() || name == "unit";
        assert!(unit || readme.contains(&format!("`perfprof-tui {name}")), "README.md names no command {name}");
    }
    for (name, _) in texts().iter().filter(|(name, _)| name.contains("/manual/")) {
        // Pages of commands are found with the command's help.
        let topic = text(name).lines().next().is_some_and(|line| line.contains(" - "));
        assert!(!topic || readme.contains(&format!("({name})")), "README.md has no link to {name}");
    }
}

/// `.ci/run` takes the commands from there, and refuses any other order.
#[test]
fn the_readme_begins_with_the_commands_that_run_and_test() {
    let readme = text("README.md");
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("    ")).take(2).collect();
    assert_eq!(commands, ["cargo run --release", "cargo test"]);
}

/// All links in texts are valid: pictures, other texts, files of the program.
#[test]
fn links_lead_somewhere() {
    let mut links = 0;
    for (name, text) in texts() {
        let folder = root().join(&name).parent().expect("a folder").to_owned();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if path.is_empty() {
                let title = |line: &str| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
                let is_there = text.lines().any(|line| line.starts_with('#') && title(line) == link[1..]);
                assert!(is_there, "{name}: no chapter {link}");
            } else if !link.contains("://") {
                assert!(folder.join(path).exists(), "{name}: {link} does not exist");
            }
            links += 1;
        }
    }
    assert!(links > 40, "{links}");
}

/// An unlisted file is not compiled; and `cargo fmt` does not see modules that a macro declares.
#[test]
fn every_file_of_a_list_has_its_line_and_is_formatted() {
    for (list, item, begin) in [
        ("units/mod.rs", "SPEC", "\nunits! {"),
        ("export/mod.rs", "FORMAT", " = FORMAT of"),
        ("ingest/derived.rs", "FIND", " = FIND of"),
    ] {
        let code = text(&format!("src/{list}"));
        let (_, names) = code.split_once(begin).unwrap_or_else(|| panic!("{list} has no{begin}"));
        let names = names.split("\n}").next().unwrap_or_default();
        let names: Vec<&str> = names.split([',', ';', '\n']).map(str::trim).collect();
        let dir = root().join("src").join(list.trim_end_matches("/mod.rs").trim_end_matches(".rs"));
        let own = format!(" const {item}: ");
        let has = |path: &&PathBuf| std::fs::read_to_string(path).expect("read").contains(&own);
        let found = sources(&dir);
        let files: Vec<&PathBuf> = found.iter().filter(has).collect();
        assert!(files.len() > 2, "{files:?}");
        for path in &files {
            let name = path.file_stem().expect("a name").to_string_lossy();
            assert!(names.contains(&&*name), "src/{list} does not list {name}: add it to{begin}");
        }
        let output = std::process::Command::new("rustfmt").arg("--check").args(&files).output().expect("rustfmt");
        assert!(output.status.success(), "rustfmt {files:?}\n{}", String::from_utf8_lossy(&output.stdout));
    }
    let themes = std::fs::read_dir(root().join("themes")).expect("themes").flatten();
    let (list, manual) = (text("src/ui/theme/mod.rs"), text("src/cli/manual/config.md"));
    for name in themes.map(|entry| entry.path().file_stem().expect("a name").to_string_lossy().into_owned()) {
        assert!(list.contains(&format!("    \"{name}\"")), "src/ui/theme/mod.rs does not list {name}");
        assert!(manual.contains(&format!("`{name}`")), "src/cli/manual/config.md does not name the theme {name}");
    }
}

/// The unit that CONTRIBUTING.md recommends as a template is complete and short.
#[test]
fn the_unit_to_begin_from_is_there() {
    let contributing = text("CONTRIBUTING.md");
    let named = contributing.split('`').find(|code| code.ends_with("forks.rs")).expect("a unit to begin from");
    assert!(text(named).lines().count() < 100, "{named} is long");
    let paths = contributing.split('`').skip(1).step_by(2).filter(|code| code.starts_with("src/"));
    for path in paths {
        assert!(root().join(path).exists(), "CONTRIBUTING.md: {path} does not exist");
    }
}

/// Every proof that SECURITY.md names exists: a test, a file or a fuzz target.
#[test]
fn what_is_named_as_proof_is_there() {
    let security = text("SECURITY.md");
    let (_, trust) = security.split_once("\n## What it trusts\n").expect("the chapter");
    let trust = trust.split("\n## ").next().unwrap_or_default();
    let mut code = String::new();
    for path in ["src", "tests"].iter().flat_map(|dir| sources(&root().join(dir))) {
        code.push_str(&std::fs::read_to_string(path).expect("read"));
    }
    let is_test = |name: &str| code.contains(&format!("    fn {name}(")) || code.contains(&format!("\nfn {name}("));
    let is_target = |name: &str| root().join(format!("fuzz/fuzz_targets/{name}.rs")).is_file();
    let rows: Vec<&str> = trust.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    assert!(rows.len() > 12, "{rows:?}");
    for row in &rows {
        let proof = row.trim_end_matches([' ', '|']).rsplit(" | ").next().unwrap_or_default();
        let names: Vec<&str> = proof.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "nothing proves: {row}");
        for name in names {
            assert!(is_test(name) || is_target(name) || root().join(name).is_file(), "{name} does not exist: {row}");
        }
    }
    for target in std::fs::read_dir(root().join("fuzz/fuzz_targets")).expect("targets").flatten() {
        let name = target.path().file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(trust.contains(&format!("`{name}`")), "SECURITY.md does not say what fuzz target {name} is for");
    }
}

/// Licences that are compatible with ours, as configured for cargo-deny.
fn licences() -> Vec<String> {
    let table: toml::Table = text("deny.toml").parse().expect("deny.toml");
    let allowed = table["licenses"]["allow"].as_array().expect("a list");
    allowed.iter().map(|licence| licence.as_str().expect("a name").to_owned()).collect()
}

/// Evaluates an SPDX expression without nested parentheses; one alternative of OR suffices.
fn is_free(expression: &str, allowed: &[String]) -> bool {
    let one = |part: &str| {
        let part = part.trim_matches(|c| matches!(c, '(' | ')'));
        part.replace('/', " OR ").split(" OR ").any(|licence| allowed.iter().any(|one| one == licence.trim()))
    };
    expression.split(" AND ").all(one)
}

#[test]
fn dependencies_are_published_and_free() {
    // Only dependencies of the program: cargo has fetched them for this test, but no others.
    let mut command = std::process::Command::new(env!("CARGO"));
    command.current_dir(root()).args(["tree", "--offline", "--locked", "--package", "perfprof-tui"]);
    command.args(["--edges", "no-dev", "--target", "x86_64-unknown-linux-gnu", "--prefix", "none"]);
    let output = command.args(["--format", "{p}|{l}|"]).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).expect("text");
    let packages: std::collections::BTreeSet<&str> = tree.lines().skip(1).collect();
    assert!(packages.len() > 50, "{tree}");
    let allowed = licences();
    for line in packages {
        let [package, licence, ..] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
        assert!(is_free(licence, &allowed), "{package}: {licence}");
        // A package from outside the registry has its location after its version.
        let place = package.trim_end_matches(" (proc-macro)");
        assert!(!place.contains('('), "{package} is not from the registry");
    }
    let free = |expression| is_free(expression, &allowed);
    assert!(free("(MIT OR GPL-2.0-only) AND NCSA") && !free("MIT AND GPL-2.0-only") && !free("none"));
}

/// The program accepts every command line in a text or a unit.
#[test]
fn command_lines_that_are_shown_are_taken() {
    let mut lines: Vec<String> = Vec::new();
    for (name, text) in texts() {
        let shown = text.lines().filter_map(|line| line.strip_prefix("    "));
        let shown = shown.filter_map(|line| line.trim_start_matches("$ ").strip_prefix("perfprof-tui "));
        let recipes = text.split('`').filter_map(|code| code.strip_prefix("perfprof-tui "));
        let before = lines.len();
        lines.extend(shown.chain(recipes).map(|line| line.replace('\n', " ")));
        assert!(name != "README.md" || lines.len() > before + 20, "{lines:?}");
    }
    for spec in perfprof_tui::units::UNITS {
        let run = spec.output.replace("\\\n", " ");
        let run = run.lines().next().unwrap_or_default().trim_start_matches("$ ").to_owned();
        let own = |line: &str| line.starts_with(&format!("{} ", spec.name)) || line.starts_with("unit ");
        for line in [spec.example.to_owned(), run].into_iter().filter(|line| !line.is_empty()) {
            let line = line.strip_prefix("perfprof-tui ").unwrap_or_else(|| panic!("{line}"));
            assert!(own(&format!("{line} ")), "{}: {line}", spec.name);
            lines.push(line.to_owned());
        }
    }
    // Lines with an ellipsis or brackets are descriptions, not command lines.
    let whole = |line: &String| !line.contains('…') && (!line.contains(['[', '|']) || line.contains('\''));
    lines.retain(whole);
    assert!(lines.len() > 100, "{lines:?}");
    for line in &lines {
        let line = line.split(" | ").next().unwrap_or(line).split(" > ").next().unwrap_or(line);
        // Words in capitals are placeholders.
        let line = line.replace("SHELL", "bash").replace("help UNIT", "help rundelay").replace("UNIT", "rundelay");
        let line = line.replace("man TOPIC", "man filter").replace("COMMAND", "report");
        let mut shell = std::process::Command::new("sh");
        let words = shell.arg("-c").arg(format!("printf '%s\\0' {line}")).output().expect("sh").stdout;
        let words = String::from_utf8(words).expect("text");
        let words = ["perfprof-tui"].into_iter().chain(words.split_terminator('\0')).map(Into::into).collect();
        let parser = perfprof_tui::cli::args::whole();
        let words =
            perfprof_tui::cli::args::arrange::arranged(words, &parser).unwrap_or_else(|why| panic!("{line}: {why}"));
        if let Err(error) = parser.try_get_matches_from(words) {
            assert!(!error.use_stderr(), "{line}: {error}");
        }
    }
}

/// All JSON fields are documented and keep their names: fields by path, table columns separately.
#[test]
fn fields_of_json_are_documented() {
    let page = text("src/cli/manual/json.md");
    let data = |name: &str| root().join("tests/data").join(name).display().to_string();
    let recording = data("fp-spin.data");
    // Instructions come from the program at its original path.
    let files = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(files.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("readable");
    let folder = files.path().join("tmp/research/perf-tui/w/a");
    std::fs::create_dir_all(&folder).expect("made");
    std::fs::copy(data("bin/spin"), folder.join("spin")).expect("copied");
    let symfs = files.path().display().to_string();
    let runs: &[&[&str]] = &[
        &["report", &recording, "-s", "cpu,comm,pid,tid,dso,sym"],
        &["annotate", &recording, "--symfs", &symfs],
        &["diff", &recording, &data("fp-sysmix.data")],
        &["digest", &data("fp-sysmix.data")],
        &["rundelay", &data("units/sched.data")],
        &["cpus", "-i", "0.1", "-n", "1"],
        &["stat", "-e", "task-clock", "--", "true"],
        &["stat", "-e", "task-clock", "-r", "2", "--", "true"],
        &["stat", "-e", "task-clock", "-I", "50", "--", "sleep", "0.1"],
        &["list", "cpu-clock"],
        &["doctor"],
    ];
    for words in runs {
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_perfprof-tui"));
        let output = program.args(&words[..1]).args(["--format", "json"]).args(&words[1..]).output().expect("runs");
        let printed = String::from_utf8(output.stdout).expect("text");
        let mut fields = Vec::new();
        for value in serde_json::Deserializer::from_str(&printed).into_iter::<serde_json::Value>() {
            fields_of(&value.expect("JSON"), &mut fields);
        }
        assert!(fields.len() > 2, "{words:?}: {printed}{}", String::from_utf8_lossy(&output.stderr));
        for field in fields {
            let named = [format!("`{field}`"), format!("\"{field}\"")];
            assert!(named.iter().any(|name| page.contains(name)), "{words:?}: json.md does not document {field}");
        }
    }
}

/// Collects the names of all fields.
///
/// In rows of figures, only fields that are not columns, because columns are named by their headings.
fn fields_of(value: &serde_json::Value, into: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(object) => {
            let figures = object.contains_key("kind") || object.contains_key("findings");
            for (name, value) in object {
                into.push(name.clone());
                if !(figures && matches!(name.as_str(), "rows" | "cpus")) {
                    fields_of(value, into);
                }
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| fields_of(value, into)),
        _ => {}
    }
}

/// Failures found by property tests are stored next to their source files: no test has settings for another place.
#[test]
fn what_properties_found_is_kept_beside_them() {
    let mut kept = 0;
    for path in sources(&root().join("src")) {
        let text = std::fs::read_to_string(&path).expect("read");
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line.ends_with("proptest! {") {
                let settings = lines.next().unwrap_or_default();
                assert!(settings.contains("crate::damage::kept()"), "{}: {line} has other settings", path.display());
                kept += 1;
            }
        }
    }
    assert!(kept > 30, "{kept}");
    assert!(!root().join("proptest-regressions").exists());
}

/// Tests that need the machine or the process to themselves take the lock first.
#[test]
fn tests_that_run_alone_say_so() {
    let mut tests = 0;
    for path in sources(&root().join("tests/alone")) {
        let text = std::fs::read_to_string(&path).expect("read");
        for test in text.split("\n#[test]\n").skip(1) {
            let (head, body) = test.split_once("{\n").expect("a body");
            let first = body.lines().find(|line| !line.trim_start().starts_with("const ")).unwrap_or_default();
            let name = format!("{}: {}", path.display(), head.trim());
            assert_eq!(first.trim(), "let _alone = alone();", "{name}");
            tests += 1;
        }
    }
    assert!(tests > 15, "{tests}");
}
