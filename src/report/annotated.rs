//! An annotated function as JSON.

use serde_json::{Value, json};

use super::json::round;
use crate::query::annotate::listing::hex;
use crate::query::annotate::{Hits, ListingRow};
use crate::symbols::code::Listing;

/// The documented, stable JSON form.
pub fn json(listing: &Listing, hits: &Hits, rows: &[ListingRow], event: &str) -> Value {
    let instructions: Vec<Value> = rows
        .iter()
        .filter_map(|row| match row {
            ListingRow::Code { index, own, percent } => {
                let one = &listing.instructions[*index];
                Some(json!({
                    "address": (!listing.is_script).then(|| listing.linked(one.at)),
                    "text": one.text,
                    "bytes": hex(&one.bytes),
                    "samples": hits.samples(*own).0,
                    "period": own.period,
                    "percent": round(*percent),
                    "callee": one.callee.as_deref(),
                    "file": one.line.as_ref().map(|l| &*l.file),
                    "line": one.line.as_ref().map(|l| l.line),
                }))
            }
            ListingRow::Source { .. } => None,
        })
        .collect();
    json!({
        "function": &*listing.function,
        "dso": &*listing.dso,
        "event": event,
        "unit": hits.meaning.unit.name(),
        "samples": hits.samples(hits.own).0,
        "period": hits.own.period,
        "total_samples": hits.samples(hits.total).0,
        "notes": listing.notes,
        "instructions": instructions,
    })
}
