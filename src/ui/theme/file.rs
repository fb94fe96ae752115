//! Theme files: TOML with styles by scope. A missing scope has the style of its parent: `code.kernel` that of `code`.

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};
use serde::Deserialize;

use super::{BUILT_IN, SCOPES};

/// The background that a theme is designed for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Background {
    /// Light text on a dark background.
    #[default]
    Dark,
    /// Dark text on a light background.
    Light,
}

/// A style in a file; a single colour is the text colour.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "a colour, or a table of fg, bg, bold, dim, italic, underlined, reversed")]
enum Look {
    Color(String),
    Style(Written),
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    fg: Option<String>,
    bg: Option<String>,
    #[serde(default)]
    bold: bool,
    #[serde(default)]
    dim: bool,
    #[serde(default)]
    italic: bool,
    #[serde(default)]
    underlined: bool,
    #[serde(default)]
    reversed: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Heat {
    cells: Option<Vec<String>>,
    #[serde(rename = "lit")]
    highlight: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    inherits: Option<String>,
    background: Option<Background>,
    #[serde(default)]
    palette: BTreeMap<String, String>,
    #[serde(default)]
    styles: BTreeMap<String, toml::Spanned<Look>>,
    #[serde(default)]
    heat: Heat,
}

/// A parsed theme file.
#[derive(Clone, Debug, Default)]
pub struct ThemeFile {
    pub(crate) background: Background,
    styles: BTreeMap<String, Style>,
    /// Seven colours of heat maps, from few samples to many, and seven of highlighted cells.
    pub heat: Option<[Color; 7]>,
    pub(crate) highlight: Option<[Color; 7]>,
}

impl ThemeFile {
    /// Parses a theme; an error contains the line number.
    pub fn parse(text: &str) -> Result<Self, String> {
        let at = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
        let raw: Raw = toml::from_str(text).map_err(|error| match error.span() {
            Some(span) => format!("line {}: {}", at(span.start), error.message()),
            None => error.message().to_owned(),
        })?;
        let mut theme = match &raw.inherits {
            Some(name) => match BUILT_IN.iter().find(|(built_in, _)| built_in == name) {
                Some((_, base)) if *base != text => Self::parse(base)?,
                _ => return Err(format!("inherits: unknown built-in theme {name}")),
            },
            None => Self::default(),
        };
        theme.background = raw.background.unwrap_or(theme.background);
        for (scope, look) in &raw.styles {
            let line = at(look.span().start);
            if !SCOPES.iter().any(|(known, _)| known == scope || known.starts_with(&format!("{scope}."))) {
                let near = crate::lang::nearest(scope, SCOPES.iter().map(|(name, _)| *name));
                return Err(format!("line {line}: unknown scope {scope}; nearest: {}", near.join(", ")));
            }
            let style = style(look.get_ref(), &raw.palette).map_err(|why| format!("line {line}: {scope}: {why}"))?;
            theme.styles.insert(scope.clone(), style);
        }
        theme.heat = ramp(raw.heat.cells.as_deref(), &raw.palette)?.or(theme.heat);
        theme.highlight = ramp(raw.heat.highlight.as_deref(), &raw.palette)?.or(theme.highlight);
        Ok(theme)
    }

    /// Returns the style of a scope, or that of its nearest parent.
    pub fn style(&self, scope: &str) -> Style {
        let mut scope = scope;
        loop {
            if let Some(style) = self.styles.get(scope) {
                return *style;
            }
            match scope.rsplit_once('.') {
                Some((above, _)) => scope = above,
                None => return Style::new(),
            }
        }
    }
}

fn style(look: &Look, palette: &BTreeMap<String, String>) -> Result<Style, String> {
    let written = match look {
        Look::Color(fg) => Written { fg: Some(fg.clone()), ..Written::default() },
        Look::Style(written) => written.clone(),
    };
    let one = |text: Option<String>| text.map(|text| color(&text, palette)).transpose();
    let mut style = Style { fg: one(written.fg)?, bg: one(written.bg)?, ..Style::new() };
    let modifiers = [
        (written.bold, Modifier::BOLD),
        (written.dim, Modifier::DIM),
        (written.italic, Modifier::ITALIC),
        (written.underlined, Modifier::UNDERLINED),
        (written.reversed, Modifier::REVERSED),
    ];
    for (_, modifier) in modifiers.into_iter().filter(|(on, _)| *on) {
        style = style.add_modifier(modifier);
    }
    Ok(style)
}

/// Parses a palette name, `#rrggbb`, a number of the 256, or one of the sixteen names.
fn color(text: &str, palette: &BTreeMap<String, String>) -> Result<Color, String> {
    let text = palette.get(text).map_or(text, String::as_str);
    text.parse().map_err(|_| {
        format!("unknown colour {text}: expected #rrggbb, 0 to 255, a name of [palette], or red, light-blue, reset…")
    })
}

fn ramp(list: Option<&[String]>, palette: &BTreeMap<String, String>) -> Result<Option<[Color; 7]>, String> {
    let Some(list) = list else { return Ok(None) };
    let colors = list.iter().map(|text| color(text, palette)).collect::<Result<Vec<Color>, String>>()?;
    let n = colors.len();
    colors.try_into().map(Some).map_err(|_| format!("[heat]: expected seven colours, found {n}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;

    #[test]
    fn scopes_fall_back_to_those_above_and_to_a_theme() {
        let theme = ThemeFile::parse(
            "[palette]\nink = '#102030'\n[styles]\ncode = 'ink'\n'code.jit' = { bg = '17', bold = true }",
        );
        let theme = theme.expect("valid");
        assert_eq!(theme.style("code.kernel").fg, Some(Color::Rgb(16, 32, 48)));
        assert_eq!((theme.style("code.jit").fg, theme.style("code.jit").bg), (None, Some(Color::Indexed(17))));
        assert_eq!(theme.style("select"), Style::new());
        let other = ThemeFile::parse("inherits = 'light'\n[styles]\n'say.error' = 'magenta'").expect("valid");
        assert_eq!(other.background, Background::Light);
        assert_eq!(other.style("say.error").fg, Some(Color::Magenta));
        assert!(other.style("flame.kernel").bg.is_some() && other.heat.is_some());
    }

    #[test]
    fn faults_name_line_and_reason() {
        let fault = |text: &str| ThemeFile::parse(text).expect_err("a fault");
        assert!(
            fault("[styles]\n\n'code.kernl' = 'red'")
                .contains("line 3: unknown scope code.kernl; nearest: code.kernel")
        );
        assert!(fault("[styles]\ntext = 'reddish'").contains("line 2: text: unknown colour reddish"));
        assert!(fault("[styles]\ntext = { fgg = 'red' }").contains("line 2"));
        assert!(fault("[heat]\ncells = ['1']").contains("seven"));
        assert!(fault("inherits = 'nothing'").contains("unknown built-in theme"));
        assert!(fault("=").contains("line 1"));
    }

    #[test]
    fn any_text_is_a_theme_or_a_fault() {
        const FILES: &[&str] = &[
            "inherits = 'dark'\n[palette]\nink = '#102030'\n[styles]\ntext = { bg = 'ink' }\n'share.hot' = 'magenta'",
            "background = 'light'\n[styles]\ncode = '17'\n'say.error' = { fg = 'red', bold = true, reversed = true }",
            "[heat]\ncells = ['1', '2', '3', '4', '5', '6', '#070707']",
        ];
        damage::reaching(256, 15, damage::texts(FILES), |text| ThemeFile::parse(&text).is_ok());
    }
}
