//! Flame graphs as SVG, drawn with the inferno crate.

use std::io::{self, Write};

use inferno::flamegraph::{Options, from_lines};

use crate::panel::printable::EscapeForm;
use crate::panel::text::clean;

use super::{ExportFormat, ExportInput, FormatWriter};

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "svg",
    about: "A flame graph for browsers",
    writer: FormatWriter::Profile(Some(EscapeForm::Text), write),
};

fn write(input: &ExportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut lines = Vec::new();
    super::folded::lines(input.data, input.event, input.filter.clone(), true, |line, n| {
        lines.push(format!("{line} {n}"));
        Ok(())
    })?;
    if lines.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no samples to draw"));
    }
    // Counts with decimals are drawn as whole numbers of their smallest part.
    let (event, scale) = (&input.data.events[input.event], input.data.unit(input.event).scale());
    let event = if scale > 1.0 { format!("{event}/{scale}") } else { event.clone() };
    write_lines(&lines, input.title, &event, out)
}

/// Draws folded lines. Lines with two weights become a differential graph: red for growth, blue for decline.
pub(crate) fn write_lines(lines: &[String], title: &str, event: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut options = Options::default();
    options.title = clean(title).into_owned();
    options.count_name = clean(event).into_owned();
    options.deterministic = true;
    options.colors = inferno::flamegraph::color::Palette::Multi(inferno::flamegraph::color::MultiPalette::Perl);
    from_lines(&mut options, lines.iter().map(String::as_str), out)
}
