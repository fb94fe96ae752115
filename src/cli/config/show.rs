//! `perfprof-tui config`: prints the effective configuration or its errors.

use std::fmt::Write;

use clap::Command;

use crate::cli::args;
use crate::cli::output::{charset, complain, print};
use crate::panel::charset::Charset;
use crate::query::rows::top_table::TopField;
use crate::ui::theme::{SCOPES, Themes};

use super::file::column_name;
use super::{Config, folder, get, own_themes, path};

/// Prints or checks the configuration. Errors go to standard error and give exit code 1.
pub(crate) fn run(args: args::ConfigArgs) -> anyhow::Result<u8> {
    let config = get();
    if args.path {
        let path = path().ok_or_else(|| anyhow::anyhow!("no home directory: set HOME or XDG_CONFIG_HOME"))?;
        print(&format!("{}\n", path.display()))?;
        return Ok(0);
    }
    if args.scopes {
        let lines: String = SCOPES.iter().map(|(scope, about)| format!("{scope:16} {about}\n")).collect();
        print(&lines)?;
        return Ok(0);
    }
    let mut faults = config.faults.clone();
    faults.extend(own_themes().into_iter().filter_map(|(_, file)| file.err()));
    let depth = crate::ui::theme::Depth::TrueColor;
    if let Some(name) = config.theme.as_ref().filter(|name| *name != "auto" && super::themes(depth).get(name).is_none())
    {
        faults.push(format!("theme: unknown theme {name}"));
    }
    if !args.check {
        print(&text(config))?;
    }
    faults.iter().for_each(|fault| complain(fault));
    Ok(if faults.is_empty() { 0 } else { 1 })
}

/// Returns the effective configuration in its own format; built-in values are commented out.
fn text(config: &Config) -> String {
    let mut out = String::new();
    let _ = match path() {
        Some(path) if path.exists() => writeln!(out, "# {}", path.display()),
        Some(path) => writeln!(out, "# {} does not exist: all values are defaults", path.display()),
        None => writeln!(out, "# no home directory, no file: all values are defaults"),
    };
    let line = |out: &mut String, own: bool, text: String| {
        let _ = writeln!(out, "{}{text}", if own { "" } else { "# " });
    };
    let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
    line(&mut out, config.theme.is_some(), format!("theme = {}", quoted(config.theme.as_deref().unwrap_or("auto"))));
    line(&mut out, config.color.is_some(), format!("color = {}", quoted(config.color.as_deref().unwrap_or("auto"))));
    line(&mut out, config.mouse.is_some(), format!("mouse = {}", config.mouse.unwrap_or(true)));
    let ascii = config.ascii.unwrap_or_else(|| charset() == Charset::Ascii);
    line(&mut out, config.ascii.is_some(), format!("ascii = {ascii}"));
    let columns: Vec<String> =
        config.columns.as_deref().unwrap_or(TopField::FIRST).iter().map(|field| quoted(&column_name(*field))).collect();
    line(&mut out, config.columns.is_some(), format!("columns = [{}]", columns.join(", ")));
    let _ = writeln!(out, "\n[thresholds]");
    line(&mut out, config.hot.is_some(), format!("hot = {:?}", config.hot.unwrap_or(Themes::HOT)));
    line(&mut out, config.warm.is_some(), format!("warm = {:?}", config.warm.unwrap_or(Themes::WARM)));
    let _ = writeln!(out, "\n[options]");
    options(&mut out, &args::whole(), None, config);
    for command in args::whole().get_subcommands() {
        let name = command.get_name();
        if config.options.iter().any(|option| option.command.as_deref() == Some(name)) {
            let _ = writeln!(out, "\n[options.{name}]");
            options(&mut out, command, Some(name), config);
        }
    }
    let mut layer = "";
    for (own, keys, run) in config.keymap.own() {
        if own != layer {
            let _ = writeln!(out, "\n[keys.{own}]");
            layer = own;
        }
        let _ = writeln!(out, "{} = {}", quoted(keys), quoted(&run));
    }
    if !config.filters.is_empty() {
        let _ = writeln!(out, "\n[filters]");
        for (name, filter) in &config.filters {
            let _ = writeln!(out, "{} = {}", quoted(name), quoted(filter));
        }
    }
    if let Some(folder) = folder() {
        let _ = writeln!(out, "\n# your own themes: {}/themes/NAME.toml", folder.display());
    }
    out
}

/// Writes the options of a command: configured values, and the defaults of the others.
fn options(out: &mut String, command: &Command, of: Option<&str>, config: &Config) {
    for arg in command.get_arguments() {
        let Some(name) = arg.get_long() else { continue };
        let own = config.options.iter().rev().find(|option| option.name == name && option.command.as_deref() == of);
        let values: Vec<String> = match own {
            Some(option) => option.values.clone(),
            None => arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect(),
        };
        let value = match values.as_slice() {
            [] => continue,
            [one] => written(one),
            many => format!("[{}]", many.iter().map(|one| written(one)).collect::<Vec<_>>().join(", ")),
        };
        let _ = writeln!(out, "{}{name} = {value}", if own.is_some() { "" } else { "# " });
    }
}

fn written(value: &str) -> String {
    let plain = value == "true" || value == "false" || value.parse::<i64>().is_ok();
    if plain { value.to_owned() } else { toml::Value::String(value.to_owned()).to_string() }
}
