//! The user's configuration: `config.toml`, themes and saved filters in one folder of the XDG Base Directory
//! Specification. What is wrong in it is said with file and line, and never keeps the program from working.

mod file;
mod folder;
mod options;
mod show;

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::panel::top::Field;
use crate::ui::context::SavedFilters;
use crate::ui::keymap::Keymap;
use crate::ui::theme::{Depth, ThemeFile, Themes};

use super::output::complain;

pub(crate) use folder::{folder, place, private_file};
pub(crate) use options::{apply, live_args};
pub(crate) use show::run;

/// A default for an option, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionDefault {
    /// The command that it is for; `None` for the live screen and whatever else has it.
    pub(crate) command: Option<String>,
    /// The option's long name.
    pub(crate) name: String,
    pub(crate) values: Vec<String>,
}

/// The configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    pub(crate) theme: Option<String>,
    pub(crate) color: Option<String>,
    pub(crate) mouse: Option<bool>,
    /// Whether only plain ASCII is written for people; as the locale has it when `None`.
    pub(crate) ascii: Option<bool>,
    pub(crate) columns: Option<Vec<Field>>,
    /// From which share on, in percent, rows are hot and warm.
    pub(crate) hot: Option<f64>,
    pub(crate) warm: Option<f64>,
    pub(crate) keymap: Keymap,
    pub(crate) filters: SavedFilters,
    pub(crate) options: Vec<OptionDefault>,
    /// What is wrong with the file, each with its line.
    pub faults: Vec<String>,
}

/// The file of the configuration, which need not be there; `None` without a home.
pub(crate) fn path() -> Option<PathBuf> {
    folder().map(|folder| folder.join("config.toml"))
}

/// The configuration, read once.
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

/// The themes that there are: the built-in ones and the user's.
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

/// The user's own themes: each file's name, and what is in it or wrong with it.
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
