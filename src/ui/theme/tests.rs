//! Checks that the built-in themes are readable: contrasts, colour vision deficiencies, and without colours.

use ratatui::style::{Color, Modifier, Style};

use super::{BLOCKS, BUILT_IN, Background, Depth, Theme, ThemeFile};

type Rgb = [f64; 3];

/// xterm's default sixteen colours.
const XTERM: [u32; 16] = [
    0x00_0000, 0xcd_0000, 0x00_cd00, 0xcd_cd00, 0x00_00ee, 0xcd_00cd, 0x00_cdcd, 0xe5_e5e5, 0x7f_7f7f, 0xff_0000,
    0x00_ff00, 0xff_ff00, 0x5c_5cff, 0xff_00ff, 0x00_ffff, 0xff_ffff,
];

fn hex(value: u32) -> Rgb {
    [16, 8, 0].map(|shift| f64::from(value >> shift & 0xff) / 255.0)
}

fn indexed(n: u8) -> Rgb {
    match n {
        0..16 => hex(XTERM[usize::from(n)]),
        16..232 => {
            let one = |part: u8| if part == 0 { 0.0 } else { f64::from(55 + 40 * u16::from(part)) / 255.0 };
            let n = n - 16;
            [one(n / 36), one(n / 6 % 6), one(n % 6)]
        }
        _ => [f64::from(8 + 10 * u16::from(n - 232)) / 255.0; 3],
    }
}

/// Red, green and blue of a colour; `None` for the terminal's default.
fn rgb(color: Option<Color>) -> Option<Rgb> {
    Some(match color? {
        Color::Reset => return None,
        Color::Rgb(r, g, b) => [r, g, b].map(|c| f64::from(c) / 255.0),
        Color::Indexed(n) => indexed(n),
        named => indexed(crate::ui::terminal::paint::number(named)?),
    })
}

/// sRGB to linear light (IEC 61966-2-1).
fn linear(color: Rgb) -> Rgb {
    color.map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) })
}

/// Relative luminance (WCAG 2.2).
fn luminance(color: Rgb) -> f64 {
    let [r, g, b] = linear(color);
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

/// Contrast ratio (WCAG 2.2).
fn contrast(a: Rgb, b: Rgb) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// Colour vision: normal, and without the long, the middle, the short wavelengths (Machado, Oliveira and Fernandes, "A
/// Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1).
const EYES: [(&str, [[f64; 3]; 3]); 4] = [
    ("all", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ("protanopia", [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    ("deuteranopia", [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]),
    ("tritanopia", [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]]),
];

/// CIE 1976 L*a*b* of linear light, white D65.
fn lab([r, g, b]: Rgb) -> Rgb {
    let [r, g, b] = [r, g, b].map(|c| c.clamp(0.0, 1.0));
    let x = (0.4124564 * r + 0.3575761 * g + 0.1804375 * b) / 0.95047;
    let y = 0.2126729 * r + 0.7151522 * g + 0.072175 * b;
    let z = (0.0193339 * r + 0.119192 * g + 0.9503041 * b) / 1.08883;
    let f = |t: f64| if t > 216.0 / 24389.0 { t.cbrt() } else { (24389.0 / 27.0 * t + 16.0) / 116.0 };
    [116.0 * f(y) - 16.0, 500.0 * (f(x) - f(y)), 200.0 * (f(y) - f(z))]
}

/// Returns the minimum distance (ΔE*ab) of two colours over all kinds of vision, and the kind.
fn distance(a: Rgb, b: Rgb) -> (f64, &'static str) {
    let seen = |color: Rgb, eye: &[[f64; 3]; 3]| {
        let light = linear(color);
        lab(eye.map(|row| row.iter().zip(light).map(|(m, c)| m * c).sum()))
    };
    let of = |(name, eye): &(&'static str, [[f64; 3]; 3])| {
        let (a, b) = (seen(a, eye), seen(b, eye));
        (a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt(), *name)
    };
    EYES.iter().map(of).min_by(|a, b| a.0.total_cmp(&b.0)).expect("four")
}

fn themes() -> impl Iterator<Item = (&'static str, Background, Theme)> {
    BUILT_IN.iter().map(|(name, text)| {
        let file = ThemeFile::parse(text).expect(name);
        (*name, file.background, Theme::of(&file, Depth::TrueColor))
    })
}

/// The possible backgrounds of a theme: its own, or typical ones of terminals.
fn grounds(theme: &Theme, background: Background) -> Vec<Rgb> {
    match (rgb(theme.ground.bg), background) {
        (Some(own), _) => vec![own],
        (None, Background::Dark) => vec![hex(0x00_0000), hex(0x1e_1e1e)],
        (None, Background::Light) => vec![hex(0xff_ffff), hex(0xf5_f5f5)],
    }
}

fn texts(theme: &Theme) -> Vec<(&'static str, Style, f64)> {
    vec![
        ("text", theme.text, 4.5),
        ("title", theme.title, 4.5),
        ("key", theme.key, 4.5),
        ("hot", theme.hot, 4.5),
        ("warm", theme.warm, 4.5),
        ("good", theme.good, 4.5),
        ("warning", theme.warning, 4.5),
        ("error", theme.error, 4.5),
        ("kernel", theme.kernel, 4.5),
        ("user", theme.user, 4.5),
        ("library", theme.library, 4.5),
        ("jit", theme.jit, 4.5),
        ("dim", theme.dim, 4.5),
        ("unknown", theme.unknown, 4.5),
        ("bar", theme.bar, 3.0),
    ]
}

#[test]
fn texts_stand_out_from_their_background() {
    for (name, background, theme) in themes() {
        // The terminal's own palette determines the sixteen colours; xterm's, one of the worst, is assumed.
        let (factor, named) = if name.starts_with("ansi") { (0.45, true) } else { (1.0, false) };
        let factor = if name == "high-contrast" { 7.0 / 4.5 } else { factor };
        for ground in grounds(&theme, background) {
            for (what, style, need) in texts(&theme) {
                let Some(fore) = rgb(style.fg.filter(|_| !style.add_modifier.contains(Modifier::REVERSED))) else {
                    continue;
                };
                let got = contrast(fore, rgb(style.bg).unwrap_or(ground));
                assert!(got >= need * factor, "{name}: {what} has a contrast of {got:.2}");
                assert!(
                    !named || !matches!(style.fg, Some(Color::Rgb(..))),
                    "{name}: {what} is not one of the sixteen colours"
                );
            }
        }
    }
}

#[test]
fn texts_on_blocks_can_be_read() {
    for (name, _, theme) in themes() {
        let need = if name == "high-contrast" { 6.9 } else { 4.5 };
        let blocks = theme.shades.iter().flatten().map(|style| ("block", *style));
        let others = [
            ("found", theme.found),
            ("others", theme.others),
            ("off-cpu", theme.cold),
            ("grew", theme.grew),
            ("shrank", theme.shrank),
        ];
        for (what, style) in blocks.chain(others) {
            let (Some(fore), Some(back)) = (rgb(style.fg), rgb(style.bg)) else {
                assert!(!style.add_modifier.is_empty() || name == "monochrome", "{name}: {what} looks like nothing");
                continue;
            };
            let got = contrast(fore, back);
            assert!(got >= need, "{name}: {what} {style:?} has a contrast of {got:.2}");
        }
        // The cursor line keeps text colours if its style is only a background.
        if let (Some(back), None) = (rgb(theme.selected.bg), theme.selected.fg) {
            for (what, style, _) in texts(&theme) {
                let got = rgb(style.fg).map_or(21.0, |fore| contrast(fore, back));
                assert!(got >= 3.0, "{name}: {what} under the cursor has a contrast of {got:.2}");
            }
        }
    }
}

/// Required distances: 2.3 is just noticeable; each class also has its letter.
#[test]
fn classes_are_told_apart_by_all_eyes() {
    for (name, _, theme) in themes().filter(|(name, ..)| *name != "monochrome") {
        let need = if name == "color-blind" { 20.0 } else { 10.0 };
        let blocks: Vec<(&str, Option<Rgb>)> =
            BLOCKS.iter().zip(&theme.shades).map(|((_, scope), shades)| (*scope, rgb(shades[0].bg))).collect();
        let codes =
            [("kernel", theme.kernel), ("library", theme.library), ("jit", theme.jit), ("unknown", theme.unknown)];
        let codes: Vec<(&str, Option<Rgb>)> = codes.iter().map(|(what, style)| (*what, rgb(style.fg))).collect();
        let diff = vec![("grew", rgb(theme.grew.bg)), ("shrank", rgb(theme.shrank.bg)), ("same", rgb(theme.same.bg))];
        for (list, need) in [(blocks, need), (codes, 6.0), (diff, need)] {
            for (i, (what, a)) in list.iter().enumerate() {
                for (other, b) in &list[i + 1..] {
                    let (got, eye) = distance(a.expect("coloured"), b.expect("coloured"));
                    assert!(got >= need, "{name}: {what} and {other} are {got:.1} apart ({eye})");
                }
            }
        }
    }
}

#[test]
fn maps_rise_step_by_step() {
    for (name, background, theme) in themes().filter(|(name, ..)| *name != "monochrome") {
        for ramp in [theme.heat.cells, theme.heat.highlight] {
            let light: Vec<f64> = ramp.iter().map(|c| lab(linear(rgb(Some(*c)).expect("coloured")))[0]).collect();
            let rises = |pair: &[f64]| match background {
                Background::Dark => pair[1] > pair[0] + 2.0,
                Background::Light => pair[1] + 2.0 < pair[0],
            };
            assert!(light.windows(2).all(rises), "{name}: {light:?}");
        }
        for (cell, lit) in theme.heat.cells.iter().zip(&theme.heat.highlight) {
            let (got, eye) = distance(rgb(Some(*cell)).expect("coloured"), rgb(Some(*lit)).expect("coloured"));
            assert!(got >= 15.0, "{name}: {cell:?} and {lit:?} are {got:.1} apart ({eye})");
        }
    }
}

#[test]
fn without_colours_all_marks_are_left() {
    for (name, text) in BUILT_IN {
        let mut none = Theme::of(&ThemeFile::parse(text).expect("valid"), Depth::NoColor);
        assert_eq!(none.selected.add_modifier, Modifier::REVERSED, "{name}");
        assert!(none.all().all(|style| style.fg.is_none() && style.bg.is_none()), "{name}");
        assert!(!none.found.add_modifier.is_empty(), "{name}: a match is still seen");
        assert!(!none.block(crate::query::flame::Class::Kernel, 0).add_modifier.is_empty(), "{name}");
    }
}

/// With 256 colours, neighbouring classes may be more similar, but not equal.
#[test]
fn fewer_colours_keep_classes_apart() {
    for (name, text) in BUILT_IN.iter().filter(|(name, _)| *name != "monochrome") {
        let theme = Theme::of(&ThemeFile::parse(text).expect("valid"), Depth::Ansi256);
        let blocks: Vec<Option<Color>> = theme.shades[..BLOCKS.len()].iter().map(|shades| shades[0].bg).collect();
        for (i, a) in blocks.iter().enumerate() {
            assert!(!blocks[i + 1..].contains(a), "{name}: {} is another's", BLOCKS[i].1);
        }
    }
}
