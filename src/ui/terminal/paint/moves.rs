//! Moved rows: the lines that a terminal deletes and inserts so that most rows reach their new place.

use std::hash::Hasher;
use std::io::Write;

use hashbrown::HashMap;
use ratatui::buffer::Cell;
use rustc_hash::FxHasher;

use super::Cells;

/// Returns a row's identity despite changing figures, a hash of its words. `None` for a row without words.
fn mark(row: &[Cell]) -> Option<u64> {
    let mut hasher = FxHasher::default();
    let mut words = false;
    for cell in row.iter().map(Cell::symbol) {
        if cell.bytes().any(|byte| byte.is_ascii_alphabetic()) {
            words = true;
            hasher.write(cell.as_bytes());
        }
    }
    words.then(|| hasher.finish())
}

/// Returns the output that moves rows to their places, and the resulting screen. `None` if it saves nothing.
pub(crate) fn find(shown: &Cells, next: &Cells) -> Option<(Vec<u8>, Cells)> {
    let marks = |cells: &Cells| -> Vec<Option<u64>> { (0..cells.size.height).map(|y| mark(cells.row(y))).collect() };
    let (old, new) = (marks(shown), marks(next));
    // Equal rows at both ends stay; lines in between are deleted and inserted.
    let top = (0..old.len()).find(|y| old[*y] != new[*y])?;
    let bottom = (0..old.len()).rfind(|y| old[*y] != new[*y])?;
    let stay = stay(&old[top..=bottom], &new[top..=bottom]);
    if stay.iter().all(|(from, to)| from == to) {
        return None;
    }
    let (mut bytes, mut between) = (Vec::new(), shown.clone());
    let _ = write!(bytes, "\x1b[{};{}r", top + 1, bottom + 1);
    let width = usize::from(shown.size.width);
    let end = (bottom + 1) * width;
    let gaps = gaps(&stay, bottom + 1 - top);
    // Deletions from the bottom up, so that lines above keep their old numbers; then insertions by new numbers.
    for (y, n) in gaps.iter().rev().filter(|gap| gap.old > gap.new).map(|gap| (gap.from + gap.new, gap.old - gap.new)) {
        let y = top + y;
        line(&mut bytes, y, n, 'M');
        between.cells[y * width..end].rotate_left(n * width);
        between.cells[end - n * width..end].fill(Cell::EMPTY);
    }
    for (y, n) in gaps.iter().filter(|gap| gap.new > gap.old).map(|gap| (gap.to + gap.old, gap.new - gap.old)) {
        let y = top + y;
        line(&mut bytes, y, n, 'L');
        between.cells[y * width..end].rotate_right(n * width);
        between.cells[y * width..(y + n) * width].fill(Cell::EMPTY);
    }
    bytes.extend(b"\x1b[r");
    Some((bytes, between))
}

fn line(bytes: &mut Vec<u8>, y: usize, n: usize, what: char) {
    let _ = match n {
        1 => write!(bytes, "\x1b[{}H\x1b[{what}", y + 1),
        n => write!(bytes, "\x1b[{}H\x1b[{n}{what}", y + 1),
    };
}

/// The lines between two rows that keep their order: their position, and their number before and after.
struct Gap {
    from: usize,
    to: usize,
    old: usize,
    new: usize,
}

fn gaps(stay: &[(usize, usize)], height: usize) -> Vec<Gap> {
    let mut at = (0, 0);
    let mut gaps = Vec::with_capacity(stay.len() + 1);
    for (from, to) in stay.iter().copied().chain([(height, height)]) {
        gaps.push(Gap { from: at.0, to: at.1, old: from - at.0, new: to - at.1 });
        at = (from + 1, to + 1);
    }
    gaps
}

/// Returns the largest set of rows that keep their order, as positions before and after.
fn stay(old: &[Option<u64>], new: &[Option<u64>]) -> Vec<(usize, usize)> {
    let mut places: HashMap<u64, Option<usize>> = HashMap::new();
    for (y, mark) in old.iter().enumerate().filter_map(|(y, mark)| Some((y, (*mark)?))) {
        // A hash of two rows identifies neither.
        places.entry(mark).and_modify(|place| *place = None).or_insert(Some(y));
    }
    // Longest increasing subsequence: the index in `rows` where the best one of each length ends, and the predecessors.
    let mut rows: Vec<(usize, usize, Option<usize>)> = Vec::new();
    let mut ends: Vec<usize> = Vec::new();
    for (to, mark) in new.iter().enumerate() {
        let Some(from) = mark.and_then(|mark| places.insert(mark, None).flatten()) else { continue };
        let length = ends.partition_point(|end| rows[*end].0 < from);
        let before = length.checked_sub(1).map(|before| ends[before]);
        match ends.get_mut(length) {
            Some(end) => *end = rows.len(),
            None => ends.push(rows.len()),
        }
        rows.push((from, to, before));
    }
    let mut stay = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some((from, to, before)) = at.map(|at| rows[at]) {
        stay.push((from, to));
        at = before;
    }
    stay.reverse();
    stay
}
