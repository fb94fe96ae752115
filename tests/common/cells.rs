//! Tables on screens and in printed reports, cell by cell.

/// Returns the cells of a line: they are separated by two spaces or more.
///
/// The cursor and the marks of trees are not part of a cell.
pub fn cells(line: &str) -> Vec<&str> {
    const BEFORE: [char; 6] = [' ', '›', '▸', '▾', '·', '│'];
    let parts = line.split("  ").map(|part| part.trim_start_matches(BEFORE).trim_end_matches([' ', '▐', '│']));
    parts.filter(|part| !part.is_empty()).collect()
}

/// Returns the cells of the first line that has this cell.
///
/// # Panics
/// If no line has it.
pub fn row<'a>(text: &'a str, cell: &str) -> Vec<&'a str> {
    rows(text, cell).into_iter().next().unwrap_or_else(|| panic!("no cell {cell} in\n{text}"))
}

/// Returns the cells of all lines that have this cell.
pub fn rows<'a>(text: &'a str, cell: &str) -> Vec<Vec<&'a str>> {
    text.lines().map(cells).filter(|cells| cells.contains(&cell)).collect()
}
