//! A screen as a picture in DejaVu Sans Mono, and as text.

use std::collections::HashMap;

use fontdue::{Font, FontSettings, Metrics};
use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

type Rgb = [u8; 3];

/// Pixels of a cell, of the border, and from a cell's top to the baseline.
const CELL: (usize, usize) = (9, 18);
const EDGE: usize = 9;
const BASE: i32 = 14;
/// The font size at which a glyph is as wide as a cell.
const SIZE: f32 = 14.95;
const BACK: Rgb = [0x16, 0x18, 0x1d];
const FORE: Rgb = [0xd4, 0xd7, 0xdd];

fn colour(color: Color, default: Rgb) -> Rgb {
    match color {
        Color::Rgb(r, g, b) => [r, g, b],
        // The colour cube of xterm.
        Color::Indexed(n @ 16..=231) => {
            let one = |part: u8| if part == 0 { 0 } else { 55 + 40 * part };
            [one((n - 16) / 36), one((n - 16) / 6 % 6), one((n - 16) % 6)]
        }
        Color::Red => [0xf2, 0x68, 0x6a],
        Color::Green => [0x7f, 0xc7, 0x7a],
        Color::Yellow => [0xe3, 0xb9, 0x5c],
        Color::Blue => [0x5b, 0x93, 0xd8],
        Color::Magenta => [0xc7, 0x92, 0xea],
        Color::Cyan => [0x5f, 0xc1, 0xc9],
        Color::DarkGray => [0x7d, 0x82, 0x8c],
        Color::Black => BACK,
        _ => default,
    }
}

/// Foreground and background of a cell.
fn colours(cell: &Cell) -> (Rgb, Rgb) {
    let (fore, back) = (colour(cell.fg, FORE), colour(cell.bg, BACK));
    if cell.modifier.contains(Modifier::REVERSED) { (back, fore) } else { (fore, back) }
}

struct Canvas {
    wide: usize,
    pixels: Vec<Rgb>,
}

impl Canvas {
    fn mix(&mut self, x: usize, y: usize, color: Rgb, cover: u8) {
        let Some(pixel) = self.pixels.get_mut(y * self.wide + x) else { return };
        let part = |old: u8, new: u8| {
            let (old, new, cover) = (u32::from(old), u32::from(new), u32::from(cover));
            ((old * (255 - cover) + new * cover) / 255) as u8
        };
        *pixel = std::array::from_fn(|i| part(pixel[i], color[i]));
    }

    fn fill(&mut self, x: usize, y: usize, wide: usize, high: usize, color: Rgb) {
        for row in y..y + high {
            (x..x + wide).for_each(|column| self.mix(column, row, color, 255));
        }
    }
}

/// The part of a cell that a block character fills: left, top, width and height in eighths.
///
/// Drawn as rectangles, so that the result does not depend on the font.
fn block(symbol: char) -> Option<(usize, usize, usize, usize)> {
    Some(match symbol {
        '█' => (0, 0, 8, 8),
        '▀' => (0, 0, 8, 4),
        '▁'..='▇' => {
            let high = symbol as usize - '▁' as usize + 1;
            (0, 8 - high, 8, high)
        }
        '▉'..='▏' => (0, 0, 8 - (symbol as usize - '█' as usize), 8),
        '▐' => (4, 0, 4, 8),
        _ => return None,
    })
}

/// Renders the picture as PNG.
pub fn png(buffer: &Buffer) -> Vec<u8> {
    let fonts = [dejavu::sans_mono::regular(), dejavu::sans_mono::bold()];
    let fonts = fonts.map(|bytes| Font::from_bytes(bytes, FontSettings::default()).expect("a font"));
    let mut glyphs: HashMap<(char, bool), (Metrics, Vec<u8>)> = HashMap::new();
    let (wide, high) = (usize::from(buffer.area.width), usize::from(buffer.area.height));
    let (wide, high) = (wide * CELL.0 + 2 * EDGE, high * CELL.1 + 2 * EDGE);
    let mut canvas = Canvas { wide, pixels: vec![BACK; wide * high] };
    for y in 0..buffer.area.height {
        for x in 0..buffer.area.width {
            let cell = &buffer[(x, y)];
            let ((fore, back), bold) = (colours(cell), cell.modifier.contains(Modifier::BOLD));
            let (left, top) = (EDGE + usize::from(x) * CELL.0, EDGE + usize::from(y) * CELL.1);
            canvas.fill(left, top, CELL.0, CELL.1, back);
            if cell.modifier.contains(Modifier::UNDERLINED) {
                canvas.fill(left, top + CELL.1 - 2, CELL.0, 1, fore);
            }
            let Some(symbol) = cell.symbol().chars().next().filter(|c| *c != ' ') else { continue };
            if let Some((bx, by, bw, bh)) = block(symbol) {
                let part = |size: usize, eighths: usize| size * eighths / 8;
                let (x0, y0) = (part(CELL.0, bx), part(CELL.1, by));
                let (x1, y1) = (part(CELL.0, bx + bw), part(CELL.1, by + bh));
                canvas.fill(left + x0, top + y0, x1 - x0, y1 - y0, fore);
                continue;
            }
            let font = &fonts[usize::from(bold)];
            let (metrics, cover) = glyphs.entry((symbol, bold)).or_insert_with(|| font.rasterize(symbol, SIZE));
            for (i, cover) in cover.iter().enumerate() {
                let (gx, gy) = ((i % metrics.width) as i32 + metrics.xmin, (i / metrics.width) as i32);
                let (gx, gy) = (left as i32 + gx, top as i32 + BASE - metrics.height as i32 - metrics.ymin + gy);
                canvas.mix(gx.max(0) as usize, gy.max(0) as usize, fore, *cover);
            }
        }
    }
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, wide as u32, high as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_compression(png::Compression::High);
    let mut writer = encoder.write_header().expect("a head");
    writer.write_image_data(canvas.pixels.as_flattened()).expect("pixels");
    writer.finish().expect("an end");
    out
}

/// Decodes a PNG, because two encoders may compress the same picture differently.
pub fn pixels(bytes: &[u8]) -> Option<(u32, u32, Vec<u8>)> {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().ok()?;
    let mut pixels = vec![0; reader.output_buffer_size()?];
    let info = reader.next_frame(&mut pixels).ok()?;
    Some((info.width, info.height, pixels))
}

/// Returns the text of a screen.
pub fn text(buffer: &Buffer) -> String {
    let line = |y: u16| -> String { (0..buffer.area.width).map(|x| buffer[(x, y)].symbol()).collect() };
    (0..buffer.area.height).map(|y| format!("{}\n", line(y).trim_end())).collect()
}
