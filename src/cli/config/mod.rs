//! The user's configuration: `config.toml`, themes and saved filters in one directory of the XDG Base Directory
//! Specification. Errors are reported with file and line, and never keep the program from starting.

mod file;
mod folder;
mod options;
pub(crate) mod saved_filters;
mod show;

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::query::rows::top_table::TopField;
use crate::ui::input::keymap::Keymap;
use crate::ui::state::context::SavedFilters;
use crate::ui::theme::{Depth, ThemeFile, Themes};

use super::output::complain;

pub(crate) use folder::{folder, place, private_file};
pub(crate) use options::{apply, live_args};
pub(crate) use show::run;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionDefault {
    /// Command of the option; `None` for the live screen and all commands that have the option.
    pub(crate) command: Option<String>,
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub(crate) theme: Option<String>,
    pub(crate) color: Option<String>,
    pub(crate) mouse: Option<bool>,
    /// True for plain ASCII output; `None` follows the locale.
    pub(crate) ascii: Option<bool>,
    pub(crate) columns: Option<Vec<TopField>>,
    /// Shares in percent from which rows are hot and warm.
    pub(crate) hot: Option<f64>,
    pub(crate) warm: Option<f64>,
    pub(crate) keymap: Keymap,
    pub(crate) filters: SavedFilters,
    pub(crate) options: Vec<OptionDefault>,
    /// Errors in the file, each with its line.
    pub faults: Vec<String>,
}

/// Returns the path of the configuration, which need not exist; `None` without a home directory.
pub(crate) fn path() -> Option<PathBuf> {
    folder().map(|folder| folder.join("config.toml"))
}

pub(crate) fn get() -> &'static Config {
    static CONFIG: OnceLock<Config> = OnceLock::new();
    CONFIG.get_or_init(|| {
        let Some(path) = path() else { return Config::default() };
        match private_file(&path) {
            Ok(Some(text)) => Config::parse(&text).at(&path.display().to_string()),
            Ok(None) => Config::default(),
            Err(why) => Config { faults: vec![why], ..Config::default() },
        }
    })
}

pub(crate) fn themes(depth: Depth) -> Themes {
    let mut themes = Themes::built_in(depth);
    for (name, file) in own_themes() {
        match file {
            Ok(file) => themes.add(name, file),
            Err(why) => complain(&why),
        }
    }
    let config = get();
    themes.set_thresholds(config.hot, config.warm);
    themes
}

/// Returns the user's themes: each file's name, and its contents or error.
fn own_themes() -> Vec<(String, Result<ThemeFile, String>)> {
    let list = folder().and_then(|folder| std::fs::read_dir(folder.join("themes")).ok());
    let mut paths: Vec<PathBuf> = list.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let one = |path: PathBuf| {
        let name = path.file_stem()?.to_str().filter(|name| !name.contains(char::is_control))?.to_owned();
        let shown = path.display().to_string();
        let text = private_file(&path).transpose()?;
        let file = text.and_then(|text| ThemeFile::parse(&text).map_err(|why| format!("{shown}: {why}")));
        Some((name, file))
    };
    paths.into_iter().filter_map(one).collect()
}
