//! Colours and theme of a session, from the options, the configuration and the terminal.

use crate::panel::charset::Charset;
use crate::ui::terminal::term;
use crate::ui::theme::{Themes, detect_depth, parse_depth};

use crate::cli::args::ViewArgs;
use crate::cli::output::{charset, complain};
use crate::cli::{Usage, config, usage};

/// Returns the themes of a session and the name of the first one; `auto` adapts to the terminal.
pub(crate) fn choose(view: &ViewArgs) -> anyhow::Result<(Themes, String)> {
    let asked = view.color.as_ref().or(config::get().color.as_ref());
    let depth = asked.map(|text| parse_depth(text)).transpose().map_err(|why| Usage(format!("--{why}")))?.flatten();
    let depth = depth.unwrap_or_else(detect_depth);
    term::own_colors();
    let mut themes = config::themes(depth);
    themes.charset = if view.ascii { Charset::Ascii } else { charset() };
    let names = || themes.names().collect::<Vec<_>>().join(", ");
    let none = |name: &str| format!("unknown theme {name}; available: auto, {}", names());
    // A wrong option is an error, a wrong configuration only a warning.
    let configured = config::get().theme.as_ref().filter(|name| {
        let known = *name == "auto" || themes.get(name).is_some();
        if !known && view.theme.is_none() {
            complain(&format!("config.toml: theme: {}", none(name)));
        }
        known
    });
    let name = match view.theme.as_ref().or(configured).filter(|name| *name != "auto") {
        Some(name) if themes.get(name).is_some() => name.clone(),
        Some(name) => return Err(usage(none(name))),
        None => "auto".to_owned(),
    };
    Ok((themes, name))
}
