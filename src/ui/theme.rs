//! What things look like, by meaning. A theme is a TOML file of styles.

use ratatui::style::{Color, Style};
use serde::Deserialize;
use termprofile::{DetectorSettings, TermProfile};

use crate::query::diff::Verdict;
use crate::query::flame::Class;
use crate::session::DsoKind;

/// Styles by meaning; none of them carries a meaning alone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Theme {
    pub title: Style,
    pub text: Style,
    pub dim: Style,
    pub head: Style,
    pub selected: Style,
    pub hot: Style,
    pub warm: Style,
    pub bar: Style,
    pub good: Style,
    pub warning: Style,
    pub error: Style,
    pub found: Style,
    pub key: Style,
    pub kernel: Style,
    pub user: Style,
    pub library: Style,
    pub jit: Style,
    pub unknown: Style,
    pub others: Style,
    /// Of a comparison: what grew, what shrank, and what is as it was.
    pub grew: Style,
    pub shrank: Style,
    pub same: Style,
    /// Time off the CPUs.
    pub cold: Style,
    /// Cells of maps of time.
    pub heat: HeatColors,
    /// Blocks of a flame graph by class.
    pub flame: FlameStyles,
    /// Three lightnesses of each class's block, in the order of [`FlameStyles::of`], then of `same`.
    #[serde(skip)]
    shades: Vec<[Style; 3]>,
    /// Whether there are colours enough for edges inside a cell.
    #[serde(skip)]
    pub fine: bool,
}

/// Cells of maps of time, from few samples to many; and of those that have samples which are lit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatColors {
    pub cells: [Color; 7],
    pub lit: [Color; 7],
}

/// Blocks of a flame graph.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlameStyles {
    pub thread: Style,
    pub kernel: Style,
    pub softirq: Style,
    pub irq: Style,
    pub user: Style,
    pub library: Style,
    pub jit: Style,
    pub unknown: Style,
}

impl FlameStyles {
    fn of(&self) -> [Style; 8] {
        [self.thread, self.kernel, self.softirq, self.irq, self.user, self.library, self.jit, self.unknown]
    }
}

/// A colour, darker or lighter.
fn scaled(color: Option<Color>, factor: f32) -> Option<Color> {
    match color {
        Some(Color::Rgb(r, g, b)) => {
            let one = |c: u8| (f32::from(c) * factor).min(255.0) as u8;
            Some(Color::Rgb(one(r), one(g), one(b)))
        }
        other => other,
    }
}

const DEFAULT: &str = include_str!("../../themes/default.toml");

/// How many colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    None,
    Ansi16,
    Ansi256,
    True,
}

impl Depth {
    /// Reads `--color`; the error names what there is.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "none" | "never" => Ok(Self::None),
            "16" => Ok(Self::Ansi16),
            "256" => Ok(Self::Ansi256),
            "true" | "always" => Ok(Self::True),
            other => Err(format!("--color {other}: expected true, 256, 16 or none")),
        }
    }

    /// What the environment says of the terminal (NO_COLOR, COLORTERM, TERM and others).
    pub fn detect() -> Self {
        match TermProfile::detect(&std::io::stdout(), DetectorSettings::default()) {
            TermProfile::TrueColor => Self::True,
            TermProfile::Ansi256 => Self::Ansi256,
            TermProfile::Ansi16 => Self::Ansi16,
            TermProfile::NoColor | TermProfile::NoTty => Self::None,
        }
    }
}

impl Theme {
    /// The built-in theme at a colour depth.
    pub fn new(depth: Depth) -> Self {
        let theme: Self = toml::from_str(DEFAULT).unwrap_or_else(|_| Self::plain());
        theme.at(depth)
    }

    fn plain() -> Self {
        let s = Style::new();
        Self {
            title: s,
            text: s,
            dim: s,
            head: s,
            selected: s.reversed(),
            hot: s,
            warm: s,
            bar: s,
            good: s,
            warning: s,
            error: s,
            found: s.underlined(),
            key: s,
            kernel: s,
            user: s,
            library: s,
            jit: s,
            unknown: s,
            others: s,
            grew: s.reversed(),
            shrank: s.reversed(),
            same: s,
            cold: s,
            heat: HeatColors::default(),
            flame: FlameStyles::default(),
            shades: Vec::new(),
            fine: false,
        }
    }

    fn at(mut self, depth: Depth) -> Self {
        let profile = match depth {
            Depth::None => TermProfile::NoColor,
            Depth::Ansi16 => TermProfile::Ansi16,
            Depth::Ansi256 => TermProfile::Ansi256,
            Depth::True => TermProfile::TrueColor,
        };
        self.fine = matches!(depth, Depth::True | Depth::Ansi256);
        let blocks = self.flame.of().into_iter().chain([self.same]);
        self.shades = blocks.map(|s| [1.0, 0.88, 1.1].map(|f| Style { bg: scaled(s.bg, f), ..s })).collect();
        for style in self.all() {
            if depth == Depth::None {
                let had_background = style.bg.is_some();
                (style.fg, style.bg) = (None, None);
                if had_background && !style.add_modifier.contains(ratatui::style::Modifier::UNDERLINED) {
                    *style = style.underlined();
                }
            } else {
                let adapt = |c: Option<Color>| c.and_then(|c| profile.adapt_color(c));
                (style.fg, style.bg) = (adapt(style.fg), adapt(style.bg));
            }
        }
        for color in self.heat.cells.iter_mut().chain(&mut self.heat.lit) {
            let adapted = if depth == Depth::None { None } else { profile.adapt_color(*color) };
            *color = adapted.unwrap_or(Color::Reset);
        }
        if depth == Depth::None {
            // Bars need to be seen; their signs say which way they go.
            (self.grew, self.shrank, self.same) = (Style::new().reversed(), Style::new().reversed(), Style::new());
        }
        self
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Style> {
        let shades = self.shades.iter_mut().flatten();
        let named = [
            &mut self.title,
            &mut self.text,
            &mut self.dim,
            &mut self.head,
            &mut self.selected,
            &mut self.hot,
            &mut self.warm,
            &mut self.bar,
            &mut self.good,
            &mut self.warning,
            &mut self.error,
            &mut self.found,
            &mut self.key,
            &mut self.kernel,
            &mut self.user,
            &mut self.library,
            &mut self.jit,
            &mut self.unknown,
            &mut self.others,
            &mut self.grew,
            &mut self.shrank,
            &mut self.same,
            &mut self.cold,
        ];
        named.into_iter().chain(shades)
    }

    /// The style of a flame graph's block; `shade` tells functions of one class apart.
    pub fn block(&self, class: Class, shade: usize) -> Style {
        let at = match class {
            Class::Thread => 0,
            Class::Kernel => 1,
            Class::Softirq => 2,
            Class::Irq => 3,
            Class::User => 4,
            Class::Library => 5,
            Class::Jit => 6,
            // As what it is inlined into; the letter tells it.
            Class::Inlined => 4,
            Class::Unknown => 7,
        };
        self.shades.get(at).map_or(self.text, |shades| shades[shade % 3])
    }

    /// The block of a difference, and its text outside of blocks.
    pub fn verdict(&self, verdict: Verdict) -> (Style, Style) {
        let block = match verdict {
            Verdict::Grew | Verdict::New => self.grew,
            Verdict::Shrank | Verdict::Gone => self.shrank,
            Verdict::Noise => return (self.same, self.dim),
        };
        (block, Style { fg: block.bg, ..Style::new() })
    }

    /// The style of a compared block where it is as it was.
    pub fn unchanged(&self, shade: usize) -> Style {
        self.shades.last().map_or(self.same, |shades| shades[shade % 3])
    }

    /// The style and letter of a kind of code; the letter says it without colour.
    pub fn class(&self, kind: DsoKind, path: &str) -> (Style, char) {
        match kind {
            DsoKind::Kernel | DsoKind::Module => (self.kernel, 'k'),
            DsoKind::Bpf => (self.kernel, 'b'),
            DsoKind::Guest => (self.kernel, 'g'),
            DsoKind::Vdso => (self.library, 'l'),
            DsoKind::File if path.contains(".so") => (self.library, 'l'),
            DsoKind::File => (self.user, 'u'),
            DsoKind::Anon => (self.jit, 'j'),
            DsoKind::Unknown | DsoKind::Cut => (self.unknown, '?'),
        }
    }

    /// The style of a share: perf's thresholds, 5 % and 0.5 %.
    pub fn share(&self, percent: f64) -> Style {
        match percent {
            p if p >= 5.0 => self.hot,
            p if p >= 0.5 => self.warm,
            _ => self.text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_theme_is_valid_and_the_selection_needs_no_colour() {
        toml::from_str::<Theme>(DEFAULT).expect("valid");
        let mut none = Theme::new(Depth::None);
        assert_eq!(none.selected.add_modifier, ratatui::style::Modifier::REVERSED);
        assert!(none.all().all(|s| s.fg.is_none() && s.bg.is_none()));
        assert!(!none.found.add_modifier.is_empty(), "a match is still seen");
    }
}
