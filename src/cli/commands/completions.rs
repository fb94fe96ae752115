//! Shell completions and manual pages, generated from the same command tree as the help.

mod scripts;

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use clap::Command;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::kernel::files::NewFile;
use crate::lang::nearest_hint;
use crate::ui::input::commands::table::rows;
use crate::units;
use crate::units::kit::Spec;

use crate::cli::args::{CompletionsArgs, ManArgs, whole};
use crate::cli::input::store::candidates;
use crate::cli::manual::schema;
use crate::cli::output::{failed, print, print_json};
use crate::cli::{NAME, manual, usage};

pub(crate) fn completions(args: CompletionsArgs) -> anyhow::Result<u8> {
    let text: String = match &args.line {
        Some(line) => candidates(args.shell, line).iter().map(|text| format!("{text}\n")).collect(),
        None => scripts::script(args.shell),
    };
    print(&text)?;
    Ok(0)
}

/// `perfprof-tui man`: prints the page of the program, a command or a topic, or writes all pages to a directory.
pub(crate) fn man(args: ManArgs) -> anyhow::Result<u8> {
    if let Some(of) = &args.schema {
        return print_json(&schema::of(of).map_err(usage)?).map(|()| 0);
    }
    let mut command = whole();
    command.build();
    if let Some(folder) = &args.folder {
        let n = pages(&command, NAME, folder)?;
        crate::cli::output::complain(&format!("wrote {n} pages to {}", folder.display()));
        return Ok(0);
    }
    let help = |own: &Command| own.clone().render_long_help().to_string();
    let page = match args.topic.as_deref() {
        None | Some(NAME) if args.text => help(&command),
        None | Some(NAME) => page(&command, NAME)?,
        Some(name) => match (command.find_subcommand(name), manual::topic(name)) {
            (Some(own), _) if args.text => help(own),
            (Some(own), _) => page(own, &format!("{NAME}-{name}"))?,
            (None, Some(topic)) if args.text => topic.text(),
            (None, Some(topic)) => topic.roff(),
            (None, None) => return Err(usage(unknown(&command, name))),
        },
    };
    print(&page)?;
    Ok(0)
}

fn unknown(command: &Command, name: &str) -> String {
    let topics: Vec<manual::Page> = manual::pages().filter(|page| page.about.is_some()).collect();
    let names = command.get_subcommands().map(|own| own.get_name()).chain(topics.iter().map(|page| page.short()));
    let near = nearest_hint(name, names);
    // A bare name means the command, so a topic of the same name needs its section.
    let called = |page: &manual::Page| match command.find_subcommand(page.short()) {
        Some(_) => format!("{}.{}", page.short(), page.section),
        None => page.short().to_owned(),
    };
    let list: Vec<String> = topics.iter().map(called).collect();
    format!("no command or topic is named {name}{near}; topics: {}", list.join(", "))
}

fn page(command: &Command, name: &str) -> anyhow::Result<String> {
    let spec = name.strip_prefix("perfprof-tui-").and_then(units::find).filter(|_| command.get_name() != "help");
    let titled = command.clone().version(env!("CARGO_PKG_VERSION")).name(name.to_owned());
    let titled = titled.bin_name(name.replacen("perfprof-tui-", "perfprof-tui ", 1));
    let titled = titled.subcommand_help_heading("COMMANDS");
    let titled = if name == NAME { without_pages(titled) } else { titled };
    let titled = match spec {
        // The example has a section of its own.
        Some(spec) => titled.long_about(spec.story()),
        None => titled,
    };
    let has_commands = titled.get_subcommands().next().is_some();
    let man = clap_mangen::Man::new(titled).title(name).source(concat!("perfprof-tui ", env!("CARGO_PKG_VERSION")));
    let man = man.manual(NAME).date(manual::NO_DATE);
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    man.render_name_section(&mut out)?;
    man.render_synopsis_section(&mut out)?;
    man.render_description_section(&mut out)?;
    if let Some(spec) = spec {
        let mut roff = Roff::new();
        example(&mut roff, spec);
        out.extend(manual::rendered(&roff).into_bytes());
    }
    man.render_options_section(&mut out)?;
    if has_commands {
        man.render_subcommands_section(&mut out)?;
    }
    let mut roff = Roff::new();
    manual::pages().filter(|page| page.about.is_none() && page.name == name).for_each(|page| page.write(&mut roff));
    if name == NAME {
        keys(&mut roff);
    }
    see_also(&mut roff, name);
    let text = String::from_utf8_lossy(&out);
    Ok(manual::literal(&text) + &manual::rendered(&roff))
}

/// Hides commands that only group others, because they have no page.
fn without_pages(command: Command) -> Command {
    command.mut_subcommands(|own| {
        let leads = matches!(own.get_name(), "help" | "unit");
        own.hide(leads)
    })
}

fn example(roff: &mut Roff, spec: &Spec) {
    roff.control("SH", ["EXAMPLE"]);
    manual::verbatim(roff, spec.example);
    if !spec.output.is_empty() {
        roff.control("PP", []);
        manual::verbatim(roff, spec.output);
    }
}

fn keys(roff: &mut Roff) {
    roff.control("SH", ["KEYS"]);
    roff.text([roman("A key has the same meaning on all screens where it is used. ")]);
    let mut group = "";
    for row in rows() {
        if row.group != group {
            group = row.group;
            roff.control("SS", [group]);
        }
        let mut head = Vec::new();
        row.keys.iter().for_each(|key| head.extend([bold(*key), roman("  ")]));
        head.extend([roman(format!(":{}", row.name)), italic(row.noun())]);
        manual::entry(roff, head, vec![roman(row.doc)]);
    }
}

fn see_also(roff: &mut Roff, name: &str) {
    roff.control("SH", ["SEE ALSO"]);
    let others = manual::pages().filter(|page| page.about.is_some());
    let mut list: Vec<String> = others.map(|page| format!("{}({})", page.name, page.section)).collect();
    if name != NAME {
        list.insert(0, format!("{NAME}(1)"));
    }
    list.push("perf(1)".to_owned());
    roff.text([roman(list.join(", "))]);
}

/// Writes the pages of a command and its subcommands, and the program's topics. Returns the number of pages.
fn pages(command: &Command, name: &str, folder: &Path) -> anyhow::Result<usize> {
    write(folder, name, "1", &page(command, name)?)?;
    let mut n = 1;
    for own in command.get_subcommands().filter(|own| own.get_name() != "help" && own.get_name() != "unit") {
        n += pages(own, &format!("{name}-{}", own.get_name()), folder)?;
    }
    if name == NAME {
        for topic in manual::pages().filter(|page| page.about.is_some()) {
            write(folder, topic.name, topic.section, &topic.roff())?;
            n += 1;
        }
    }
    Ok(n)
}

/// Writes a page that all users may read.
fn write(folder: &Path, name: &str, section: &str, page: &str) -> anyhow::Result<()> {
    let folder = folder.join(format!("man{section}"));
    std::fs::create_dir_all(&folder).with_context(|| format!("{}", folder.display()))?;
    let path = &folder.join(format!("{name}.{section}"));
    let whole = || -> std::io::Result<()> {
        let mut file = NewFile::with_mode(path, 0o644)?;
        file.write_all(page.as_bytes())?;
        file.commit()
    };
    whole().map_err(|error| failed(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::args::unit_args::options_of;
    use crate::units::UNITS;

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = whole();
        command.build();
        let n = pages(&command, "perfprof-tui", folder.path()).expect("written");
        assert!(n > 30, "{n}");
        let record = std::fs::read_to_string(folder.path().join("man1/perfprof-tui-record.1")).expect("a page");
        assert!(record.contains("mmap") && record.contains(".SH OPTIONS"), "{record}");
    }

    fn read(roff: &str) -> String {
        let plain = [(r"\(ti", "~"), (r"\(ha", "^"), (r"\(ga", "`"), (r"\*(Aq", "'"), (r"\-", "-"), (r"\fB", "")];
        let plain = plain.iter().chain(&[(r"\fI", ""), (r"\fR", ""), (r"\&", ""), (r"\\", r"\")]);
        joined(&plain.fold(roff.to_owned(), |text, (sign, letter)| text.replace(sign, letter)))
    }

    #[test]
    fn the_programs_page_has_the_table_of_keys() {
        let mut command = whole();
        command.build();
        let page = read(&page(&command, NAME).expect("a page"));
        for row in rows() {
            let keys: String = row.keys.iter().map(|key| format!("{key} ")).collect();
            let entry = joined(&format!(".TP {keys}:{}{} {}", row.name, row.noun(), row.doc));
            assert!(page.contains(&entry), "{entry}");
        }
        assert!(
            page.contains("SEE ALSO")
                && page.contains("perfprof-tui-json(5)")
                && !page.contains("perfprof-tui-help(1)"),
            "{page}"
        );
    }

    #[test]
    fn every_units_page_has_its_example_and_what_that_prints() {
        let mut command = whole();
        command.build();
        let mut shown = 0;
        for spec in units::UNITS {
            let own = command.find_subcommand("unit").and_then(|all| all.find_subcommand(spec.name)).expect("there");
            let page = read(&page(own, &format!("{NAME}-{}", spec.name)).expect("a page"));
            for part in [spec.story().as_str(), spec.example, spec.output] {
                assert!(page.contains(&joined(part)), "{}: {part}: {page}", spec.name);
            }
            assert!(spec.output.is_empty() || spec.output.starts_with("$ perfprof-tui "), "{}", spec.output);
            assert!(spec.output.lines().count() <= 10, "{}", spec.output);
            for line in spec.output.lines() {
                assert!(unicode_width::UnicodeWidthStr::width(line) <= 70, "{}: {line}", spec.name);
            }
            shown += usize::from(!spec.output.is_empty());
        }
        assert!(shown > 20, "{shown}");
    }

    /// Each page has its title and no remains of Markdown.
    #[test]
    fn every_topic_has_a_page_that_man_reads() {
        let topics: Vec<manual::Page> = manual::pages().collect();
        assert!(topics.len() > 10, "{topics:?}");
        let mut command = whole();
        command.build();
        for topic in topics {
            let text = match topic.about {
                Some(_) => topic.roff(),
                None if topic.name == NAME => page(&command, NAME).expect("a page"),
                None => {
                    let own = topic.name.strip_prefix("perfprof-tui-").and_then(|name| command.find_subcommand(name));
                    page(own.unwrap_or_else(|| panic!("no command {}", topic.name)), topic.name).expect("a page")
                }
            };
            assert!(text.contains(&format!("\n.TH {} {} ", topic.name, topic.section)), "{text}");
            for left in ["](", "**", "\n| ", "\n#", "```"] {
                assert!(!text.contains(left), "{}: {left}: {text}", topic.name);
            }
        }
        assert_eq!(manual::topic("json").map(|page| page.section), Some("5"));
        assert!(manual::topic("record").is_none());
        // A command has the same name.
        assert_eq!(manual::topic("config.5").map(|page| page.name), Some("perfprof-tui-config"));
        assert!(unknown(&whole(), "none").ends_with(", config.5"));
    }

    #[test]
    fn the_manual_names_each_theme() {
        let page = manual::topic("config.5").expect("a page").roff();
        for (name, _) in crate::ui::theme::BUILT_IN {
            let bold = format!(r"\fB{}\fR", name.replace('-', r"\-"));
            assert!(page.contains(&bold), "{name}: {page}");
        }
    }

    fn joined(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn every_unit_is_described_by_its_own_words() {
        let mut command = whole().term_width(0);
        command.build();
        let listed = joined(&command.clone().render_help().to_string());
        for spec in UNITS {
            let own =
                ["unit", spec.name].iter().try_fold(&command, |at, name| at.find_subcommand(name)).expect("there");
            let (short, long) = (own.clone().render_help().to_string(), own.clone().render_long_help().to_string());
            assert!(joined(&long.replace('\n', " ")).contains(&joined(&spec.story())), "{long}");
            assert!(joined(&long).contains(&joined(spec.example)), "{long}");
            for page in [&short, &long] {
                let first = page.lines().next().unwrap_or_default().trim_end_matches('.');
                assert!(first.eq_ignore_ascii_case(spec.about), "{}: {first}", spec.name);
            }
            for option in options_of(spec).filter(|option| !option.is_shared()) {
                assert!(joined(&short).contains(&joined(option.help)), "{}: {}", spec.name, option.name);
            }
            let line = format!("{} {}", spec.name, short.lines().next().unwrap_or_default());
            // `stat` is also a command, with its own description.
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
