//! Styles and colours by meaning. A theme is a TOML file of styles.

mod depth;
mod file;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use ratatui::style::{Color, Modifier, Style};

use crate::panel::charset::Charset;
use crate::query::diff::Verdict;
use crate::query::flame::Class;
use crate::session::DsoKind;

pub use depth::{Depth, detect_depth, parse_depth};
pub use file::{Background, ThemeFile};

macro_rules! themes {
    ($($name:literal,)+) => {
        /// The built-in themes: names and contents of the files in `themes`.
        pub const BUILT_IN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../themes/", $name, ".toml")))),+];
    };
}

themes! {
    "ansi",
    "ansi-light",
    "color-blind",
    "dark",
    "dracula",
    "gruvbox",
    "high-contrast",
    "light",
    "monochrome",
    "nord",
    "solarized-light",
}

/// Returns the default theme of a terminal; without other information, one with the terminal's own palette.
pub fn suited(depth: Depth, background: Option<Background>) -> &'static str {
    match (depth, background) {
        (Depth::NoColor, _) => "monochrome",
        (Depth::Ansi16, Some(Background::Light)) => "ansi-light",
        (Depth::Ansi16, _) | (_, None) => "ansi",
        (_, Some(Background::Dark)) => "dark",
        (_, Some(Background::Light)) => "light",
    }
}

/// Lists the styles of a theme with their scopes and descriptions, the blocks of flame graphs by class, and the theme's
/// other fields.
macro_rules! theme {
    (
        styles { $($(#[$about:meta])* $vis:vis $name:ident: $scope:literal, $what:literal;)+ }
        blocks { $($class:ident: $block:literal, $block_what:literal;)+ }
        styles { $($(#[$more_about:meta])* $more_vis:vis $more:ident: $more_scope:literal, $more_what:literal;)+ }
        others { $($others:tt)* }
    ) => {
        /// All scopes, for authors of themes.
        pub const SCOPES: &[(&str, &str)] =
            &[$(($scope, $what),)+ $(($block, $block_what),)+ $(($more_scope, $more_what),)+];

        /// Scopes of the blocks of a flame graph.
        const BLOCKS: &[(Class, &str)] = &[$((Class::$class, $block)),+];

        /// Styles by meaning. Colour is never the only carrier of a meaning.
        #[derive(Clone, Debug)]
        pub struct Theme {
            $($(#[$about])* $vis $name: Style,)+
            $($(#[$more_about])* $more_vis $more: Style,)+
            $($others)*
        }

        impl Theme {
            /// Creates a theme for a colour depth.
            pub fn of(file: &ThemeFile, depth: Depth) -> Self {
                let of = |scope: &str| file.style(scope);
                let blocks = BLOCKS.iter().map(|(_, scope)| of(scope));
                let mut theme = Self {
                    $($name: of($scope),)+
                    $($more: of($more_scope),)+
                    ground: of("text"),
                    heat: HeatColors {
                        cells: file.heat.unwrap_or(CELLS.map(Color::Indexed)),
                        highlight: file.highlight.unwrap_or(HIGHLIGHT.map(Color::Indexed)),
                    },
                    ipc: between(of("flame.softirq"), of("diff.same"), of("diff.shrank")),
                    shades: blocks.chain([of("diff.same")]).map(shades).collect(),
                    fine: depth >= Depth::Ansi256,
                    charset: Charset::Utf8,
                    hot_from: Themes::HOT,
                    warm_from: Themes::WARM,
                };
                theme.text.bg = None;
                theme.at(depth)
            }

            fn all(&mut self) -> impl Iterator<Item = &mut Style> {
                let shades = self.shades.iter_mut().flatten().chain(&mut self.ipc);
                [&mut self.ground, $(&mut self.$name,)+ $(&mut self.$more),+].into_iter().chain(shades)
            }
        }
    };
}

theme! {
    styles {
        pub(crate) text: "text", "all that is nothing else; its background fills the screen";
        pub(crate) title: "text.title", "names of screens and panels";
        pub(crate) dim: "text.dim", "what matters less";
        pub(crate) head: "text.head", "heads of tables";
        pub(crate) key: "text.key", "keys in the footer and the help";
        pub(crate) selected: "select", "the line under the cursor";
        pub(crate) found: "found", "matches of a search";
        pub(crate) bar: "bar", "bars of shares and courses";
        pub(crate) hot: "share.hot", "shares of 5 % and more";
        pub(crate) warm: "share.warm", "shares of 0.5 % and more";
        pub(crate) good: "say.good", "what is well";
        pub(crate) warning: "say.warning", "warnings, losses";
        pub(crate) error: "say.error", "errors";
        pub(crate) kernel: "code.kernel", "names of the kernel's functions";
        pub(crate) user: "code.user", "names of the program's functions";
        pub(crate) library: "code.library", "names of libraries' functions";
        pub(crate) jit: "code.jit", "names of functions compiled at run time";
        pub(crate) unknown: "code.unknown", "addresses without a name";
    }
    blocks {
        Thread: "flame.thread", "blocks of a flame graph: threads";
        Kernel: "flame.kernel", "kernel";
        Softirq: "flame.softirq", "softirqs";
        Irq: "flame.irq", "hardware interrupts";
        User: "flame.user", "the program";
        Library: "flame.library", "libraries";
        Jit: "flame.jit", "code compiled at run time";
        Unknown: "flame.unknown", "addresses without a name";
    }
    styles {
        pub(crate) others: "flame.others", "what is too narrow to be drawn, together";
        /// Off-CPU time.
        pub cold: "flame.off-cpu", "time off the CPUs";
        /// Comparison: growth, decrease, no change.
        pub grew: "diff.grew", "of a comparison: what grew";
        pub(crate) shrank: "diff.shrank", "what shrank";
        pub(crate) same: "diff.same", "what is as it was";
    }
    others {
        /// The background of the screen.
        pub ground: Style,
        /// Cells of heat maps.
        pub heat: HeatColors,
        /// Blocks by instructions per cycle, from the softirq red of the lowest to the blue of decrease.
        ipc: [Style; 5],
        /// Three shades of each class's block, in the order of [`BLOCKS`], then of `same`.
        shades: Vec<[Style; 3]>,
        /// Whether there are enough colours for edges inside a cell.
        pub fine: bool,
        /// The characters that the terminal supports.
        pub charset: Charset,
        hot_from: f64,
        warm_from: f64,
    }
}

/// Colours of heat map cells, from few samples to many, and of highlighted cells.
#[derive(Clone, Debug, Default)]
pub struct HeatColors {
    pub(crate) cells: [Color; 7],
    pub(crate) highlight: [Color; 7],
}

/// Ramps in the 256-colour palette, both of increasing lightness.
const CELLS: [u8; 7] = [52, 88, 124, 160, 202, 214, 226];
const HIGHLIGHT: [u8; 7] = [17, 18, 20, 26, 32, 38, 51];

fn scaled(color: Option<Color>, factor: f32) -> Option<Color> {
    match color {
        Some(Color::Rgb(r, g, b)) => {
            let one = |c: u8| (f32::from(c) * factor).min(255.0) as u8;
            Some(Color::Rgb(one(r), one(g), one(b)))
        }
        other => other,
    }
}

impl Theme {
    /// Creates a built-in theme at a colour depth. An unknown name gives one without colours.
    pub fn built_in(name: &str, depth: Depth) -> Self {
        let text = BUILT_IN.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text);
        Self::of(&ThemeFile::parse(text).unwrap_or_default(), depth)
    }

    /// Creates a theme with the terminal's own sixteen colours.
    pub fn new(depth: Depth) -> Self {
        Self::built_in(if depth == Depth::NoColor { "monochrome" } else { "ansi" }, depth)
    }

    fn at(mut self, depth: Depth) -> Self {
        for style in self.all() {
            let had_background = style.bg.is_some();
            (style.fg, style.bg) =
                (style.fg.and_then(|c| depth.adapt_color(c)), style.bg.and_then(|c| depth.adapt_color(c)));
            if depth == Depth::NoColor && had_background && !style.add_modifier.contains(Modifier::UNDERLINED) {
                *style = style.underlined();
            }
        }
        for color in self.heat.cells.iter_mut().chain(&mut self.heat.highlight) {
            *color = depth.adapt_color(*color).unwrap_or(Color::Reset);
        }
        if depth == Depth::NoColor {
            // A background that fills the screen is not a marker.
            self.ground = Style::new();
            // Bars must be visible; their signs show the direction.
            (self.grew, self.shrank, self.same) = (Style::new().reversed(), Style::new().reversed(), Style::new());
            self.ipc = [Style::new(); 5];
        }
        // The cursor and matches must be visible even if the theme lacks their styles.
        if self.selected == Style::new() || depth == Depth::NoColor {
            self.selected = Style::new().reversed();
        }
        if self.found == Style::new() {
            self.found = Style::new().underlined();
        }
        self
    }

    /// Returns the style of a flame graph's block. `shade` distinguishes functions of one class.
    pub fn block(&self, class: Class, shade: usize) -> Style {
        // An inlined function looks like the program, one of a language like a JIT's: their letters distinguish them.
        let class = match class {
            Class::Inlined => Class::User,
            Class::Interpreted => Class::Jit,
            other => other,
        };
        let at = BLOCKS.iter().position(|(known, _)| *known == class).unwrap_or(0);
        self.shades.get(at).map_or(self.text, |shades| shades[shade % 3])
    }

    /// Returns the block of a difference, and its text style outside of blocks.
    pub fn verdict(&self, verdict: Verdict) -> (Style, Style) {
        let block = match verdict {
            Verdict::Grew | Verdict::New => self.grew,
            Verdict::Shrank | Verdict::Gone => self.shrank,
            Verdict::Noise => return (self.same, self.dim),
        };
        (block, Style { fg: block.bg, ..Style::new() })
    }

    /// Returns the style of an unchanged block in a comparison.
    pub fn unchanged(&self, shade: usize) -> Style {
        self.shades.last().map_or(self.same, |shades| shades[shade % 3])
    }

    /// Returns the style of a block by its instructions per cycle.
    pub fn ipc(&self, ipc: f64) -> Style {
        self.ipc[((2.0 * ipc) as usize).min(4)]
    }

    /// Returns the style and letter of a kind of code. The letter works without colours.
    pub fn class(&self, kind: DsoKind, path: &str) -> (Style, char) {
        match kind {
            DsoKind::Kernel | DsoKind::Module => (self.kernel, 'k'),
            DsoKind::Bpf => (self.kernel, 'b'),
            DsoKind::Guest => (self.kernel, 'g'),
            DsoKind::Vdso => (self.library, 'l'),
            DsoKind::File if path.contains(".so") => (self.library, 'l'),
            DsoKind::File => (self.user, 'u'),
            DsoKind::Anon => (self.jit, 'j'),
            DsoKind::Interpreted(_) => (self.jit, 'p'),
            DsoKind::Unknown | DsoKind::Cut => (self.unknown, '?'),
        }
    }

    /// Returns the style of a share.
    pub fn share(&self, percent: f64) -> Style {
        match percent {
            p if p >= self.hot_from => self.hot,
            p if p >= self.warm_from => self.warm,
            _ => self.text,
        }
    }
}

/// All available themes.
#[derive(Clone, Debug)]
pub struct Themes {
    list: BTreeMap<String, ThemeFile>,
    pub(crate) depth: Depth,
    /// The characters that the terminal supports.
    pub charset: Charset,
    hot: f64,
    warm: f64,
}

impl Themes {
    /// Minimum shares in percent of hot and warm rows, as in perf.
    pub const HOT: f64 = 5.0;
    pub(crate) const WARM: f64 = 0.5;

    /// Creates the built-in themes.
    pub fn built_in(depth: Depth) -> Self {
        let file = |text: &str| ThemeFile::parse(text).unwrap_or_default();
        Self {
            list: BUILT_IN.iter().map(|(name, text)| ((*name).to_owned(), file(text))).collect(),
            depth,
            charset: Charset::Utf8,
            hot: Self::HOT,
            warm: Self::WARM,
        }
    }

    /// Whether there are enough colours and characters for edges inside a cell.
    pub(crate) fn are_fine(&self) -> bool {
        self.depth >= Depth::Ansi256 && self.charset == Charset::Utf8
    }

    /// Sets the minimum shares in percent of hot and warm rows.
    pub fn set_thresholds(&mut self, hot: Option<f64>, warm: Option<f64>) {
        (self.hot, self.warm) = (hot.unwrap_or(self.hot), warm.unwrap_or(self.warm));
    }

    /// Adds a user's theme, which replaces a built-in one of its name.
    pub fn add(&mut self, name: String, file: ThemeFile) {
        self.list.insert(name, file);
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.list.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &str) -> Option<Theme> {
        let theme = self.list.get(name).map(|file| Theme::of(file, self.depth))?;
        let (charset, fine) = (self.charset, self.are_fine());
        Some(Theme { hot_from: self.hot, warm_from: self.warm, charset, fine, ..theme })
    }
}

/// Interpolates five blocks through a middle one. Intermediate blocks have the text colour of the nearer end.
fn between(low: Style, middle: Style, high: Style) -> [Style; 5] {
    let half = |end: Style| match (end.bg, middle.bg) {
        (Some(Color::Rgb(r, g, b)), Some(Color::Rgb(mr, mg, mb))) => {
            let mean = |a: u8, b: u8| ((3 * u16::from(a) + u16::from(b)) / 4) as u8;
            Style { bg: Some(Color::Rgb(mean(r, mr), mean(g, mg), mean(b, mb))), ..end }
        }
        _ => end,
    };
    [low, half(low), middle, half(high), high]
}

/// Returns three shades of a block, which distinguish functions of one class.
fn shades(style: Style) -> [Style; 3] {
    [1.0, 0.88, 1.1].map(|factor| Style { bg: scaled(style.bg, factor), ..style })
}
