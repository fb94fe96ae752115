//! How many colours the terminal shows, from what speaks for it.

use ratatui::style::Color;
use termprofile::{DetectorSettings, TermProfile, TermVars};

/// The number of colours in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// No colours: bold, reversed and the like alone.
    None,
    /// The terminal's own sixteen.
    Ansi16,
    /// The cube of 256.
    Ansi256,
    /// 24 bits each.
    True,
}

impl Depth {
    /// Reads `--color`; `None` for `auto`. The error names what there is.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        Ok(Some(match text {
            "auto" => return Ok(None),
            "none" | "never" => Self::None,
            "16" => Self::Ansi16,
            "256" => Self::Ansi256,
            "true" | "always" => Self::True,
            other => return Err(format!("--color {other}: expected auto, true, 256, 16 or none")),
        }))
    }

    /// The terminal's colours by the environment (NO_COLOR, COLORTERM, TERM and others).
    pub fn detect() -> Self {
        let mut vars = TermVars::from_env(&std::io::stdout(), DetectorSettings::default());
        // Those of CI services are about logs, and decide before TERM does; a terminal is at hand here.
        let special = std::mem::take(&mut vars.special);
        vars.special.google_cloud_shell = special.google_cloud_shell;
        match TermProfile::detect_with_vars(vars) {
            TermProfile::TrueColor => Self::True,
            TermProfile::Ansi256 => Self::Ansi256,
            TermProfile::Ansi16 => Self::Ansi16,
            TermProfile::NoColor | TermProfile::NoTty => Self::None,
        }
    }

    /// The nearest colour that there is.
    pub fn adapt(self, color: Color) -> Option<Color> {
        let profile = match self {
            Self::None => return None,
            Self::Ansi16 => TermProfile::Ansi16,
            Self::Ansi256 => TermProfile::Ansi256,
            Self::True => TermProfile::TrueColor,
        };
        profile.adapt_color(color)
    }
}
