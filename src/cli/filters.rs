//! Filters that were saved under a name: one TOML file in the user's configuration folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::ui::app::SavedFilters;

use super::output::complain;

/// Where they are kept (XDG Base Directory Specification); `None` without a home.
pub fn path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")))?;
    Some(config.join("perfprof-tui").join("filters.toml"))
}

/// Those that are there. A file that cannot be read is said, and left as it is.
pub fn read() -> SavedFilters {
    let Some(path) = path() else { return SavedFilters::new() };
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return SavedFilters::new(),
        Err(error) => {
            complain(&format!("{}: {error}", path.display()));
            return SavedFilters::new();
        }
    };
    toml::from_str::<BTreeMap<String, String>>(&text).unwrap_or_else(|error| {
        complain(&format!("{}: {}", path.display(), error.message()));
        SavedFilters::new()
    })
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
