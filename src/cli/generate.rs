//! What packages carry beside the program: completions of shells and manual pages, made from the same
//! description as the help.

use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_complete::generate;

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
    std::fs::write(&path, page(command, name)?).with_context(|| format!("{}", path.display()))?;
    let mut n = 1;
    for own in command.get_subcommands().filter(|own| own.get_name() != "help" && own.get_name() != "unit") {
        n += pages(own, &format!("{name}-{}", own.get_name()), folder)?;
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
