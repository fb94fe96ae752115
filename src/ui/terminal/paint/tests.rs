//! Draws on a terminal emulator: it must show the intended frame after any previous content.

use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::*;

const SIZE: Size = Size { width: 24, height: 10 };

/// A terminal, one behind a console that adds a carriage return to each line feed, the painter, and the last frame.
struct Drawn {
    terminal: vt100::Parser,
    behind_console: vt100::Parser,
    painter: Painter,
    before: Buffer,
}

fn cells(n: u16) -> std::num::NonZero<u16> {
    std::num::NonZero::new(n).expect("not empty")
}

impl Drawn {
    fn new(size: Size) -> Self {
        Self {
            terminal: vt100::Parser::new(cells(size.height), cells(size.width), 0),
            behind_console: vt100::Parser::new(cells(size.height), cells(size.width), 0),
            painter: Painter::empty(size),
            before: Buffer::empty(Rect::new(0, 0, size.width, size.height)),
        }
    }

    fn draw(&mut self, frame: Buffer) -> Vec<u8> {
        let bytes = self.painter.paint(self.before.diff_iter(&frame));
        self.terminal.process(&bytes);
        self.behind_console.process(String::from_utf8_lossy(&bytes).replace('\n', "\r\n").as_bytes());
        self.before = frame;
        bytes
    }

    fn wrong(&self) -> Option<String> {
        [&self.terminal, &self.behind_console].into_iter().find_map(|terminal| self.wrong_on(terminal.screen()))
    }

    fn wrong_on(&self, screen: &vt100::Screen) -> Option<String> {
        let area = self.before.area;
        let mut hidden = 0;
        for (x, y) in (0..area.height).flat_map(|y| (0..area.width).map(move |x| (x, y))) {
            let (meant, seen) = (&self.before[(x, y)], screen.cell(y, x).expect("inside"));
            if hidden > 0 {
                hidden -= 1;
                continue;
            }
            hidden = meant.cell_width().saturating_sub(1);
            let symbol = if seen.has_contents() { seen.contents() } else { " " };
            let blank = symbol == " ";
            let shape = |m: Modifier| [Modifier::REVERSED, Modifier::UNDERLINED].map(|one| m.contains(one));
            // The emulator cannot represent both bold and dim.
            let heavy = [seen.bold(), seen.dim()];
            let heavy = match [Modifier::BOLD, Modifier::DIM].map(|one| meant.modifier.contains(one)) {
                [true, true] => heavy[0] != heavy[1],
                one => one == heavy,
            };
            let slanted = meant.modifier.contains(Modifier::ITALIC) == seen.italic();
            let fine = symbol == meant.symbol()
                && shape(meant.modifier) == [seen.inverse(), seen.underline()]
                && (blank || heavy && slanted)
                && (blank && !seen.inverse() || color(meant.fg) == seen.fgcolor())
                && color(meant.bg) == seen.bgcolor();
            if !fine {
                return Some(format!("at {x}, {y}: {meant:?} is {seen:?}"));
            }
        }
        None
    }
}

fn color(color: Color) -> vt100::Color {
    match color {
        Color::Reset => vt100::Color::Default,
        Color::Red => vt100::Color::Idx(1),
        Color::DarkGray => vt100::Color::Idx(8),
        Color::Indexed(n) => vt100::Color::Idx(n),
        Color::Rgb(r, g, b) => vt100::Color::Rgb(r, g, b),
        other => unreachable!("{other} is not drawn here"),
    }
}

type Piece = (u16, u16, &'static str, Style);

fn frames() -> impl Strategy<Value = Vec<Buffer>> {
    let colors = || {
        prop_oneof![
            4 => Just(Color::Reset),
            2 => Just(Color::Red),
            1 => Just(Color::DarkGray),
            1 => Just(Color::Indexed(123)),
            1 => Just(Color::Rgb(1, 2, 3))
        ]
    };
    let modifiers = prop_oneof![
        3 => Just(Modifier::empty()),
        1 => Just(Modifier::BOLD),
        1 => Just(Modifier::DIM),
        1 => Just(Modifier::ITALIC | Modifier::UNDERLINED),
        1 => Just(Modifier::REVERSED)
    ];
    let look = (colors(), colors(), modifiers).prop_map(|(fg, bg, m)| Style::new().fg(fg).bg(bg).add_modifier(m));
    let word = prop_oneof![
        Just("a"),
        Just("bb  c"),
        Just("      "),
        Just("7"),
        Just("コ"),
        Just("語x"),
        Just("▸ long enough")
    ];
    let piece = (0..SIZE.width, 0..SIZE.height, word, look);
    let rows = Just((0..SIZE.height - 2).collect::<Vec<_>>()).prop_shuffle();
    let frame = (proptest::collection::vec(piece, 0..6), rows, 0u32..100, any::<bool>());
    proptest::collection::vec(frame, 1..6).prop_map(|frames| {
        let draw = |(pieces, rows, figure, table): (Vec<Piece>, Vec<u16>, u32, bool)| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, SIZE.width, SIZE.height));
            for (y, row) in rows.into_iter().enumerate().filter(|_| table) {
                let name = ["alpha", "beta", "gamma", "delta", "eps", "zeta", "eta", "theta"][usize::from(row)];
                buffer.set_string(0, y as u16 + 1, format!("{:4} {name}", figure * u32::from(row)), Style::new());
            }
            for (x, y, text, look) in pieces {
                buffer.set_stringn(x, y, text, usize::from(SIZE.width - x), look);
            }
            buffer
        };
        frames.into_iter().map(draw).collect()
    })
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    fn a_terminal_shows_what_was_meant(frames in frames()) {
        let mut drawn = Drawn::new(SIZE);
        for frame in frames {
            drawn.draw(frame);
            prop_assert_eq!(drawn.wrong(), None);
        }
    }
}

const TABLE: Size = Size { width: 140, height: 40 };

/// A table like the first screen's: growing figures, rows sorted by weight.
fn table(rows: &[(u32, u32)]) -> Buffer {
    let mut buffer = Buffer::empty(Rect::new(0, 0, TABLE.width, TABLE.height));
    for (y, (name, samples)) in (4u16..).zip(rows) {
        let share = f64::from(*samples) / 100.0;
        buffer.set_string(0, y, format!("  {share:6.1} %          {share:6.1} %   {samples:7} "), Style::new());
        buffer.set_string(37, y, format!("cc1plus         {:7}", 21_000 + name), Style::new().fg(Color::Red));
        let letters = [b'a' + (name / 26) as u8, b'a' + (name % 26) as u8];
        let letters = str::from_utf8(&letters).expect("ASCII");
        buffer.set_string(62, y, format!("libc.so.6          ▸ function_{letters}_of_some_length"), Style::new());
    }
    buffer
}

#[test]
fn a_tick_of_a_table_takes_few_bytes() {
    let mut rows: Vec<(u32, u32)> = (0..34).map(|name| (name, 900 - 25 * name)).collect();
    let mut drawn = Drawn::new(TABLE);
    assert!(drawn.draw(table(&rows)).len() < 4000);
    assert_eq!(drawn.draw(table(&rows)), b"", "nothing changes");
    // All figures grow by one or two: two digits per row, and short cursor movements.
    rows.iter_mut().for_each(|(_, samples)| *samples += 2);
    let bytes = drawn.draw(table(&rows)).len();
    assert!(bytes < 34 * 12, "{bytes}");
    // The tenth row rises to the third place, six rows move down by one.
    let climber = rows.remove(9);
    rows.insert(2, (climber.0, rows[2].1 + 1));
    let bytes = drawn.draw(table(&rows));
    assert!(bytes.len() < 160, "{} {}", bytes.len(), bytes.escape_ascii());
    assert_eq!(drawn.wrong(), None);
    // A row is inserted at the tenth place, and the last one disappears.
    rows.pop();
    rows.insert(9, (99, rows[9].1));
    let bytes = drawn.draw(table(&rows));
    assert!(bytes.len() < 160, "{} {}", bytes.len(), bytes.escape_ascii());
    assert_eq!(drawn.wrong(), None);
}

#[test]
fn what_ends_is_wiped_out_to_the_edge() {
    let mut drawn = Drawn::new(TABLE);
    drawn.draw(table(&[(1, 100), (2, 90)]));
    let bytes = drawn.draw(table(&[(1, 100)]));
    assert!(bytes.len() < 16, "{}", bytes.escape_ascii());
    assert_eq!(drawn.wrong(), None);
}

#[test]
fn a_look_is_told_by_what_changes() {
    let look = |fg, bg, modifier| Look { fg, bg, line: Color::Reset, modifier };
    let none = Modifier::empty();
    let check = |from: Look, to: Look, told: &str| {
        let mut pen = Pen { look: from, ..Pen::default() };
        pen.wear(to);
        assert_eq!(pen.bytes.escape_ascii().to_string(), told);
    };
    let red = look(Color::Red, Color::Reset, none);
    check(red, red, "");
    check(Look::default(), red, "\\x1b[31m");
    check(red, Look::default(), "\\x1b[m");
    check(red, look(Color::LightBlue, Color::Indexed(7), Modifier::BOLD), "\\x1b[1;94;48;5;7m");
    check(
        look(Color::Red, Color::Reset, Modifier::BOLD | Modifier::DIM),
        look(Color::Red, Color::Reset, Modifier::DIM),
        "\\x1b[22;2m",
    );
    check(
        look(Color::Rgb(1, 2, 3), Color::Red, Modifier::ITALIC),
        look(Color::Reset, Color::Reset, Modifier::BOLD),
        "\\x1b[0;1m",
    );
}
