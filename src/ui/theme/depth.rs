//! The number of colours of the terminal, from the environment.

use termprofile::{DetectorSettings, Env, EnvVarSource, TermVars};

/// The number of colours in use.
pub use termprofile::TermProfile as Depth;

/// Parses `--color`; `None` for `auto`. The error lists the valid values.
pub fn parse_depth(text: &str) -> Result<Option<Depth>, String> {
    Ok(Some(match text {
        "auto" => return Ok(None),
        "none" | "never" => Depth::NoColor,
        "16" => Depth::Ansi16,
        "256" => Depth::Ansi256,
        "true" | "always" => Depth::TrueColor,
        other => return Err(format!("color {other}: expected auto, true, 256, 16 or none")),
    }))
}

/// Detects the colour depth from the environment (NO_COLOR, COLORTERM, TERM and others).
pub fn detect_depth() -> Depth {
    depth_of(Env)
}

fn depth_of(environment: impl EnvVarSource) -> Depth {
    let settings = DetectorSettings::default();
    let mut vars = TermVars::from_source(&KnownTerminals(environment), &std::io::stdout(), settings);
    // Variables of CI services refer to logs and would take precedence over TERM; here is a terminal.
    let special = std::mem::take(&mut vars.special);
    vars.special.google_cloud_shell = special.google_cloud_shell;
    Depth::detect_with_vars(vars).max(Depth::NoColor)
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
            depth_of(vars)
        };
        for term in ["dumb", "vt100", "vt220-8bit", "vt52", "xterm-mono", "linux-m"] {
            assert_eq!(of(&[("TERM", term)]), Depth::NoColor, "{term}");
            assert_eq!(of(&[("TERM", term), ("CLICOLOR_FORCE", "1")]), Depth::Ansi16, "{term}");
        }
        assert_eq!(of(&[("TERM", "linux")]), Depth::Ansi16);
        assert_eq!(of(&[("TERM", "vt525")]), Depth::Ansi16);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("CI", "true")]), Depth::Ansi256);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]), Depth::TrueColor);
        assert_eq!(of(&[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), Depth::NoColor);
    }
}
