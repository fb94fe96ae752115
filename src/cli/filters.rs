//! Filters that were saved under a name: one TOML file in the user's configuration folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::ui::app::SavedFilters;

use super::config;
use super::output::complain;

/// Where they are kept; `None` without a home.
pub fn path() -> Option<PathBuf> {
    config::folder().map(|folder| folder.join("filters.toml"))
}

/// Those that are there, and those of the configuration. A file that cannot be read is said, and left as it is.
pub fn read() -> SavedFilters {
    let mut all = config::get().filters.clone();
    let Some(path) = path() else { return all };
    let text = config::private_file(&path).unwrap_or_else(|why| {
        complain(&why);
        None
    });
    let own = toml::from_str::<BTreeMap<String, String>>(&text.unwrap_or_default());
    match own {
        Ok(own) => all.extend(own),
        Err(error) => complain(&format!("{}: {}", path.display(), error.message())),
    }
    all
}

/// Writes them all; the outcome in words.
pub fn write(filters: &SavedFilters) -> Result<String, String> {
    let path = path().ok_or("there is no home to save it in (HOME, XDG_CONFIG_HOME)")?;
    let text = toml::to_string(filters).map_err(|error| error.to_string())?;
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fail)?;
    }
    std::fs::write(&path, text).map_err(fail)?;
    Ok(format!("kept in {}", path.display()))
}
