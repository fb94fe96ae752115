//! An annotated function as text.

use crate::lang::counted;
use crate::panel::text::clean;
use crate::panel::unit::{percent, thousands};
use crate::query::annotate::{Hits, ListingRow};
use crate::symbols::code::{Flow, Listing};

/// Optional columns of a listing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListingColumns {
    /// The bytes of instructions.
    pub bytes: bool,
    /// The periods of samples.
    pub periods: bool,
}

/// Formats a line per instruction, after the source lines it was compiled from.
pub fn text(listing: &Listing, hits: &Hits, rows: &[ListingRow], event: &str, columns: ListingColumns) -> String {
    // The columns of a row's own samples. They are empty for rows without samples.
    let cells = |share: &str, samples: &str, period: &str| {
        let period = if columns.periods { format!("  {period:>15}") } else { String::new() };
        format!("{share:>7}  {samples:>7}{period}")
    };

    let (own, noun) = hits.samples(hits.own);
    let mut out = format!(
        "{}  {}\n{}: {} of the function itself, {} of {}\n",
        clean(&listing.function),
        clean(&listing.dso),
        clean(event),
        counted(own, noun),
        percent(hits.own.percent_of(&hits.total)),
        thousands(hits.samples(hits.total).0),
    );
    for note in &listing.notes {
        out.push_str(&format!("note: {note}\n"));
    }
    let titles = cells("Percent", if noun == "stack" { "Stacks" } else { "Samples" }, "Period");
    let indent = titles.len() + 13;
    let (place, what) = if listing.is_script { ("Line", "Source") } else { ("Address", "Instruction") };
    out.push_str(&format!("{titles} {place:>10}  {what}\n"));
    for row in rows {
        match row {
            ListingRow::Source { line, text, .. } => {
                let text = text.as_deref().map(|text| format!("  {}", source(text))).unwrap_or_default();
                out.push_str(&format!("{:indent$}{}{text}\n", "", clean(&line.short())));
            }
            ListingRow::Code { index, own, percent } => {
                let one = &listing.instructions[*index];
                let own = match own.samples {
                    0 => cells("", "", ""),
                    _ => {
                        let (samples, period) = (hits.samples(*own).0, hits.meaning.unit.figure(own.period, thousands));
                        cells(&format!("{percent:.2}"), &thousands(samples), &period)
                    }
                };
                let bytes = if columns.bytes { format!("{:32}", hex(&one.bytes)) } else { String::new() };
                let text = format!("{own} {:>10}  {bytes}{}", listing.place(*index), instruction(listing, *index));
                out.push_str(text.trim_end());
                out.push('\n');
            }
        }
    }
    out
}

/// Formats a source line with tabs expanded.
pub fn source(text: &str) -> String {
    clean(text.trim_end().replace('\t', "    ").as_str()).into_owned()
}

/// Formats bytes as two hexadecimal digits each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ")
}

/// Formats an instruction with the function it calls, or the direction of its jump.
pub fn instruction(listing: &Listing, index: usize) -> String {
    let one = &listing.instructions[index];
    let text = clean(&one.text).into_owned();
    match (&one.callee, one.flow) {
        (Some(callee), _) => format!("{text}  <{}>", clean(callee)),
        (None, Flow::Jump(to)) if to <= one.at => format!("{text}  ↑ {:x}", listing.linked(to)),
        (None, Flow::Jump(to)) => format!("{text}  ↓ {:x}", listing.linked(to)),
        _ => text,
    }
}
