//! Saved filters: one TOML file in the configuration directory.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;

use crate::kernel::files::unwritten;
use crate::ui::state::context::SavedFilters;

use crate::cli::config;
use crate::cli::output::complain;

const NAME: &str = "filters.toml";

pub(crate) fn path() -> Option<PathBuf> {
    config::folder().map(|folder| folder.join(NAME))
}

/// Reads the filters of the file and of the configuration. Reports a file that cannot be read.
pub(crate) fn read() -> SavedFilters {
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

pub(crate) fn write(filters: &SavedFilters) -> Result<String, String> {
    let place = config::place().ok_or("no home directory to save it in; set HOME or XDG_CONFIG_HOME")?;
    let path = place.path().join(NAME);
    let text = toml::to_string(filters).map_err(|error| error.to_string())?;
    let put = || -> std::io::Result<()> {
        let mut file = place.create(NAME)?;
        file.write_all(text.as_bytes())?;
        file.commit()
    };
    put().map_err(|error| unwritten(&path, &error))?;
    Ok(format!("saved in {}", path.display()))
}
