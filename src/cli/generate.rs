//! Completions of shells and manual pages, made from the same description as the help.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_complete::generate;

use crate::kernel::files::{NewFile, unwritten};

use super::args::{Completions, Man, whole};
use super::output::print;

/// `perfprof-tui completions SHELL`.
pub fn completions(args: Completions) -> anyhow::Result<u8> {
    let mut out = Vec::new();
    generate(args.shell, &mut whole(), "perfprof-tui", &mut out);
    print(&String::from_utf8_lossy(&out))?;
    Ok(0)
}

/// `perfprof-tui man`: the page of the program or of one command, or all of them into a folder.
pub fn man(args: Man) -> anyhow::Result<u8> {
    let mut command = whole();
    command.build();
    if let Some(folder) = &args.folder {
        std::fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        let n = pages(&command, "perfprof-tui", folder)?;
        super::output::complain(&format!("{n} pages in {}", folder.display()));
        return Ok(0);
    }
    let page = match &args.command {
        None => page(&command, "perfprof-tui")?,
        Some(name) => {
            let own = command.find_subcommand(name);
            let own = own.ok_or_else(|| super::Usage(format!("no command is called {name}")))?;
            page(own, &format!("perfprof-tui-{name}"))?
        }
    };
    print(&page)?;
    Ok(0)
}

/// A page in roff.
fn page(command: &Command, name: &str) -> anyhow::Result<String> {
    let mut out = Vec::new();
    let version = env!("CARGO_PKG_VERSION");
    let titled = command.clone().version(version).name(name.to_owned()).bin_name(name.replacen(
        "perfprof-tui-",
        "perfprof-tui ",
        1,
    ));
    clap_mangen::Man::new(titled).manual("User Commands").render(&mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Writes the pages of a command and of those below it; how many there are.
fn pages(command: &Command, name: &str, folder: &Path) -> anyhow::Result<usize> {
    let path = folder.join(format!("{name}.1"));
    let page = page(command, name)?;
    // Pages are for everybody, wherever they are installed from here.
    let write = || -> std::io::Result<()> {
        let mut file = NewFile::with_mode(&path, 0o644)?;
        file.write_all(page.as_bytes())?;
        file.commit()
    };
    write().map_err(|error| anyhow::anyhow!("{}", unwritten(&path, &error)))?;
    let mut n = 1;
    for own in command.get_subcommands().filter(|own| own.get_name() != "help" && own.get_name() != "unit") {
        n += pages(own, &format!("{name}-{}", own.get_name()), folder)?;
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::units::own_options;
    use crate::units::registry::UNITS;

    #[test]
    fn every_command_has_a_page_and_every_shell_its_completions() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = whole();
        command.build();
        let n = pages(&command, "perfprof-tui", folder.path()).expect("written");
        assert!(n > 30, "{n}");
        let record = std::fs::read_to_string(folder.path().join("perfprof-tui-record.1")).expect("a page");
        assert!(record.contains("mmap") && record.contains(".SH OPTIONS"), "{record}");
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Zsh, clap_complete::Shell::Fish] {
            let mut out = Vec::new();
            generate(shell, &mut whole(), "perfprof-tui", &mut out);
            let text = String::from_utf8(out).expect("text");
            assert!(["rundelay", "kmemleak", "record", "call-graph"].iter().all(|word| text.contains(word)), "{shell}");
        }
    }

    /// Words of a page, however its lines are broken.
    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_unit_is_described_by_its_own_words() {
        let mut command = whole().term_width(0);
        command.build();
        let listed = words(&command.clone().render_help().to_string());
        for spec in UNITS {
            let own =
                ["unit", spec.name].iter().try_fold(&command, |at, name| at.find_subcommand(name)).expect("there");
            let (short, long) = (own.clone().render_help().to_string(), own.clone().render_long_help().to_string());
            assert!(words(&long.replace('\n', " ")).contains(&words(spec.help)), "{long}");
            assert!(words(&long).contains(&words(spec.example)), "{long}");
            for page in [&short, &long] {
                let first = page.lines().next().unwrap_or_default().trim_end_matches('.');
                assert!(first.eq_ignore_ascii_case(spec.about), "{}: {first}", spec.name);
            }
            for option in own_options(spec) {
                assert!(words(&short).contains(&words(option.help)), "{}: {}", spec.name, option.name);
            }
            let line = format!("{} {}", spec.name, short.lines().next().unwrap_or_default());
            // The command that stands for it by another name has a description of its own.
            assert!(listed.contains(&line) || spec.name == "stat", "{line}: {listed}");
        }
        let mut abouts: Vec<String> =
            command.get_subcommands().filter_map(|c| Some(c.get_about()?.to_string())).collect();
        let all = abouts.len();
        abouts.sort_unstable();
        abouts.dedup();
        assert_eq!(abouts.len(), all, "commands with one description");
    }
}
