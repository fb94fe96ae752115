//! The cells on the terminal, and the minimal output that changes them into the next frame.
//!
//! Unchanged cells are skipped or rewritten, whichever is shorter; colours are set only when they change. Rows that
//! moved within a table are scrolled by the terminal (insert and delete line inside a scrolling region, supported
//! since the VT102) if that takes fewer bytes than rewriting them.

mod moves;

use std::io::Write;

use ratatui::buffer::{Cell, CellWidth};
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};
use termprofile::AdaptableColor;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    fg: Color,
    bg: Color,
    line: Color,
    modifier: Modifier,
}

/// The modifiers that are visible on blanks.
const SEEN_ON_BLANKS: Modifier = Modifier::REVERSED.union(Modifier::UNDERLINED).union(Modifier::CROSSED_OUT);

impl Look {
    fn of(cell: &Cell) -> Self {
        Self { fg: cell.fg, bg: cell.bg, line: cell.underline_color, modifier: cell.modifier }
    }

    /// Whether a cell written with this style looks as required.
    fn serves(&self, cell: &Cell) -> bool {
        let own = Self::of(cell);
        *self == own
            || cell.symbol() == " " && !(self.modifier | own.modifier).intersects(SEEN_ON_BLANKS) && self.bg == own.bg
    }
}

fn same(a: &Cell, b: &Cell) -> bool {
    a.symbol() == b.symbol() && Look::of(a).serves(b)
}

/// Cells of a screen, row by row. The right half of a wide character has an empty symbol.
#[derive(Clone, Debug, Default)]
struct Cells {
    size: Size,
    cells: Vec<Cell>,
}

impl Cells {
    fn blank(size: Size) -> Self {
        Self { size, cells: vec![Cell::default(); usize::from(size.width) * usize::from(size.height)] }
    }

    fn places(&self, y: u16) -> std::ops::Range<usize> {
        let width = usize::from(self.size.width);
        usize::from(y) * width..(usize::from(y) + 1) * width
    }

    fn row(&self, y: u16) -> &[Cell] {
        &self.cells[self.places(y)]
    }

    fn set(&mut self, x: u16, y: u16, cell: &Cell) {
        if x >= self.size.width || y >= self.size.height {
            return;
        }
        let at = usize::from(y) * usize::from(self.size.width) + usize::from(x);
        let wide = cell.cell_width().clamp(1, self.size.width - x);
        self.cells[at] = cell.clone();
        for half in &mut self.cells[at + 1..at + usize::from(wide)] {
            *half = cell.clone();
            half.set_symbol("");
        }
        // Reset the remains of a wider character.
        let row = at - usize::from(x)..at - usize::from(x) + usize::from(self.size.width);
        let orphans = self.cells[at + usize::from(wide)..row.end].iter_mut();
        orphans.take_while(|cell| cell.symbol().is_empty()).for_each(Cell::reset);
    }
}

/// Smaller frames are not searched for moved rows.
const WORTH: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Painter {
    shown: Cells,
    next: Cells,
}

impl Painter {
    pub(crate) fn empty(size: Size) -> Self {
        Self { shown: Cells::blank(size), next: Cells::blank(size) }
    }

    pub(crate) fn paint<'a>(&mut self, changes: impl Iterator<Item = (u16, u16, &'a Cell)>) -> Vec<u8> {
        let Self { shown, next } = self;
        let mut rows = 0..0;
        for (x, y, cell) in changes {
            rows = if rows.is_empty() { y..y + 1 } else { rows.start.min(y)..rows.end.max(y + 1) };
            next.set(x, y, cell);
        }
        let rows = rows.start..rows.end.min(next.size.height);
        let mut bytes = Pen::default().frame(shown, next, rows.clone());
        if bytes.len() > WORTH
            && let Some((mut moved, between)) = moves::find(shown, next)
        {
            moved.extend(Pen::default().frame(&between, next, 0..next.size.height));
            if moved.len() < bytes.len() {
                bytes = moved;
            }
        }
        for y in rows {
            let row = next.places(y);
            shown.cells[row.clone()].clone_from_slice(&next.cells[row]);
        }
        bytes
    }
}

#[derive(Debug, Default)]
struct Pen {
    bytes: Vec<u8>,
    /// The cursor position, if known.
    at: Option<(u16, u16)>,
    look: Look,
}

impl Pen {
    fn frame(mut self, shown: &Cells, next: &Cells, rows: std::ops::Range<u16>) -> Vec<u8> {
        for y in rows {
            let (old, new) = (shown.row(y), next.row(y));
            let end = new.iter().rposition(|cell| !same(cell, &Cell::EMPTY)).map_or(0, |last| last + 1);
            for (x, cell) in new.iter().enumerate().filter(|(x, cell)| !same(&old[*x], cell)) {
                if x >= end {
                    let same_there = old[x..].iter().filter(|cell| same(cell, &Cell::EMPTY)).count();
                    if old.len() - x - same_there > 3 {
                        self.go(x as u16, y, new);
                        self.wear(Look::default());
                        self.bytes.extend(b"\x1b[K");
                        break;
                    }
                }
                if cell.symbol().is_empty() {
                    continue;
                }
                self.go(x as u16, y, new);
                self.put(cell, next.size.width);
            }
        }
        self.wear(Look::default());
        self.bytes
    }

    fn put(&mut self, cell: &Cell, width: u16) {
        if !self.look.serves(cell) {
            self.wear(Look::of(cell));
        }
        self.bytes.extend(cell.symbol().as_bytes());
        // After the last column, the cursor position depends on the terminal.
        self.at = self.at.map(|(x, y)| (x + cell.cell_width().max(1), y)).filter(|(x, _)| *x < width);
    }

    /// Moves the cursor, possibly by rewriting cells of this row.
    fn go(&mut self, x: u16, y: u16, row: &[Cell]) {
        if self.at == Some((x, y)) {
            return;
        }
        let mut best = format!("\x1b[{};{}H", y + 1, x + 1).into_bytes();
        let mut shorter = |bytes: Vec<u8>| {
            if bytes.len() < best.len() {
                best = bytes;
            }
        };
        if let Some((from, own)) = self.at
            && (own..=own + 3).contains(&y)
        {
            // A line feed keeps its column only in raw output mode. The consoles of runc, ctr and older Docker add a
            // carriage return, so one precedes it here.
            let down = usize::from(y - own);
            let straight = if down == 0 { String::new() } else { format!("\x1b[{down}B") };
            shorter(format!("{straight}{}", sideways(from, x)).into_bytes());
            shorter(format!("\r{}{}", "\n".repeat(down), sideways(0, x)).into_bytes());
            if own == y && from < x && row[usize::from(from)..usize::from(x)].iter().all(|cell| self.look.serves(cell))
            {
                shorter(row[usize::from(from)..usize::from(x)].iter().flat_map(|cell| cell.symbol().bytes()).collect());
            }
        }
        self.bytes.extend(best);
        self.at = Some((x, y));
    }

    fn wear(&mut self, look: Look) {
        if self.look == look {
            return;
        }
        let whole = parameters(Look::default(), look);
        let changed = parameters(self.look, look);
        let text = match () {
            () if look == Look::default() => String::new(),
            () if changed.len() <= whole.len() + 2 => changed,
            () => format!("0;{whole}"),
        };
        let _ = write!(self.bytes, "\x1b[{text}m");
        self.look = look;
    }
}

fn sideways(from: u16, to: u16) -> String {
    match i32::from(to) - i32::from(from) {
        0 => String::new(),
        1 => "\x1b[C".to_owned(),
        n @ 2.. => format!("\x1b[{n}C"),
        n @ -4..0 => "\x08".repeat(n.unsigned_abs() as usize),
        n => format!("\x1b[{}D", -n),
    }
}

/// Modifiers with the parameters that set and reset them (ECMA-48, SGR).
const MODIFIERS: [(Modifier, u8, u8); 9] = [
    (Modifier::BOLD, 1, 22),
    (Modifier::DIM, 2, 22),
    (Modifier::ITALIC, 3, 23),
    (Modifier::UNDERLINED, 4, 24),
    (Modifier::SLOW_BLINK, 5, 25),
    (Modifier::RAPID_BLINK, 6, 25),
    (Modifier::REVERSED, 7, 27),
    (Modifier::HIDDEN, 8, 28),
    (Modifier::CROSSED_OUT, 9, 29),
];

/// Returns the parameters that change one style into another (ECMA-48, SGR).
fn parameters(from: Look, to: Look) -> String {
    let mut list: Vec<String> = Vec::new();
    let gone = from.modifier - to.modifier;
    let mut fresh = to.modifier - from.modifier;
    for group in MODIFIERS.chunk_by(|a, b| a.2 == b.2) {
        let modifiers = group.iter().fold(Modifier::empty(), |all, (modifier, ..)| all | *modifier);
        if gone.intersects(modifiers) {
            list.push(group[0].2.to_string());
            // One parameter resets two modifiers.
            fresh |= to.modifier & modifiers;
        }
    }
    list.extend(MODIFIERS.iter().filter(|(modifier, ..)| fresh.contains(*modifier)).map(|(_, on, _)| on.to_string()));
    if from.fg != to.fg {
        list.push(color(to.fg, 30));
    }
    if from.bg != to.bg {
        list.push(color(to.bg, 40));
    }
    if from.line != to.line {
        list.push(color(to.line, 50));
    }
    list.join(";")
}

/// A colour of the foreground (30), background (40) or underline (50).
fn color(color: Color, base: u8) -> String {
    match (color, number(color)) {
        (Color::Indexed(n), _) => format!("{};5;{n}", base + 8),
        (Color::Rgb(r, g, b), _) => format!("{};2;{r};{g};{b}", base + 8),
        (_, None) => (base + 9).to_string(),
        (_, Some(n)) if base == 50 => format!("58;5;{n}"),
        (_, Some(n @ 0..8)) => (base + n).to_string(),
        (_, Some(n)) => (base + 60 + n - 8).to_string(),
    }
}

/// Returns the number of one of the sixteen colours.
pub(crate) fn number(color: Color) -> Option<u8> {
    color.as_ansi_16().map(|named| named as u8)
}

#[cfg(test)]
mod tests;
