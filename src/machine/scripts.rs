//! The scripts that interpreters run: a name like `sh` says nothing about the work.

/// Shells, whose first words may be options, and other interpreters.
const SHELLS: &[&str] = &["sh", "ash", "bash", "dash", "ksh", "mksh", "zsh"];
const OTHERS: &[&str] = &["node", "perl", "php", "ruby", "fish"];
/// The options of shells that are followed by a word or by a command.
const WITH_WORD: [char; 4] = ['c', 'o', 'O', 's'];
/// The limit of a name in bytes.
const MAX_NAME: usize = 64;

/// Returns the name of the file that an interpreter runs, given its name and its command line as in /proc: words that end
/// with NULs. `None` for other programs, commands (`sh -c`), modules and standard input.
pub(super) fn script(comm: &str, cmdline: impl FnOnce() -> Option<Vec<u8>>) -> Option<String> {
    let is_shell = SHELLS.contains(&comm);
    if !is_shell && !OTHERS.contains(&comm) && !comm.starts_with("python") {
        return None;
    }
    let line = cmdline()?;
    let mut words = line.split(|byte| *byte == 0).skip(1).map(String::from_utf8_lossy);
    let is_flags = |word: &str| {
        let flags = word.strip_prefix(['-', '+']).unwrap_or_default();
        !flags.is_empty() && flags.chars().all(|flag| flag.is_ascii_alphabetic() && !WITH_WORD.contains(&flag))
    };
    let first = words.find(|word| !(is_shell && is_flags(word)))?;
    let file = if first == "--" { words.next()? } else { first };
    let name = file.rsplit('/').next().unwrap_or_default();
    let is_name = !name.is_empty() && !name.starts_with(['-', '+']) && name.len() <= MAX_NAME;
    is_name.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_interpreter_is_its_script() {
        let of = |line: &str| {
            let comm = line.split([' ', '/']).next().unwrap_or_default().trim_start_matches('-');
            script(comm, || Some(format!("{line} ").replace(' ', "\0").into_bytes()))
        };
        for (line, name) in [
            ("sh deploy.sh", Some("deploy.sh")),
            ("bash -eu -x ./ci/build.sh --all", Some("build.sh")),
            ("bash +e -- run", Some("run")),
            ("python3.11 /srv/app.py -v", Some("app.py")),
            ("sh -c make", None),
            ("bash -o pipefail x.sh", None),
            ("bash --norc x.sh", None),
            ("python3 -m http.server", None),
            ("perl -e 1", None),
            ("sh /srv/", None),
            ("-bash", None),
            ("make deploy.sh", None),
        ] {
            assert_eq!(of(line).as_deref(), name, "{line}");
        }
        assert_eq!(of(&format!("sh {}", "x".repeat(MAX_NAME + 1))), None);
        assert_eq!(script("sh", || None), None);
        assert_eq!(script("sh", || Some(Vec::new())), None);
        assert_eq!(script("make", || panic!("not needed")), None);
    }
}
