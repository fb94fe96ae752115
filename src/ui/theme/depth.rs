//! The number of colours of the terminal, from the environment.

use ratatui::style::Color;
use termprofile::{DetectorSettings, Env, EnvVarSource, TermProfile, TermVars};

/// The number of colours in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// No colours: only bold, reversed and similar styles.
    None,
    /// The terminal's own sixteen colours.
    Ansi16,
    /// The cube of 256 colours.
    Ansi256,
    /// 24-bit colours.
    True,
}

impl Depth {
    /// Parses `--color`; `None` for `auto`. The error lists the valid values.
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

    /// Detects the colour depth from the environment (NO_COLOR, COLORTERM, TERM and others).
    pub fn detect() -> Self {
        Self::of(Env)
    }

    fn of(environment: impl EnvVarSource) -> Self {
        let settings = DetectorSettings::default();
        let mut vars = TermVars::from_source(&KnownTerminals(environment), &std::io::stdout(), settings);
        // Variables of CI services refer to logs and would take precedence over TERM; here is a terminal.
        let special = std::mem::take(&mut vars.special);
        vars.special.google_cloud_shell = special.google_cloud_shell;
        match TermProfile::detect_with_vars(vars) {
            TermProfile::TrueColor => Self::True,
            TermProfile::Ansi256 => Self::Ansi256,
            TermProfile::Ansi16 => Self::Ansi16,
            TermProfile::NoColor | TermProfile::NoTty => Self::None,
        }
    }

    /// Returns the nearest available colour.
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

/// An environment that renames terminals without colours to one that the crate knows as such.
struct KnownTerminals<S>(S);

impl<S: EnvVarSource> EnvVarSource for KnownTerminals<S> {
    fn var(&self, key: &str) -> Option<String> {
        let value = self.0.var(key)?;
        Some(if key == "TERM" && is_monochrome(&value) { "dumb".to_owned() } else { value })
    }
}

/// Whether terminfo lists a terminal without colours: DEC terminals except the VT525, and names that end in `-mono` or
/// `-m` (terminfo's term(7), "Naming").
fn is_monochrome(term: &str) -> bool {
    let of_dec = term.strip_prefix("vt").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    of_dec && !term.starts_with("vt525") || term.ends_with("-mono") || term.ends_with("-m")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_environment_says_how_many_colours_there_are() {
        let of = |vars: &[(&str, &str)]| {
            let vars: BTreeMap<&str, &str> = vars.iter().copied().chain([("TTY_FORCE", "1")]).collect();
            Depth::of(vars)
        };
        for term in ["dumb", "vt100", "vt220-8bit", "vt52", "xterm-mono", "linux-m"] {
            assert_eq!(of(&[("TERM", term)]), Depth::None, "{term}");
            assert_eq!(of(&[("TERM", term), ("CLICOLOR_FORCE", "1")]), Depth::Ansi16, "{term}");
        }
        assert_eq!(of(&[("TERM", "linux")]), Depth::Ansi16);
        assert_eq!(of(&[("TERM", "vt525")]), Depth::Ansi16);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("CI", "true")]), Depth::Ansi256);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]), Depth::True);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), Depth::None);
    }
}
