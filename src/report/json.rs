//! The documented, stable JSON form of a report: an object with events and their rows.

use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

use crate::lang::counted;
use crate::panel::text::clean;
use crate::panel::unit::thousands;
use crate::perfdata::PeriodMeaning;
use crate::profile::{Acc, SymId};
use crate::query::rows::top_table::{TopField, TopTable};
use crate::query::tree::chains::CallTree;
use crate::query::{ColumnKey, Data, Direction, Top, TopRow, column};
use crate::report::chain_spec::{ChainForm, ChainSpec};

/// Formatted call chains, by the keys of their rows.
pub(crate) type ChainsByRow<R> = FxHashMap<(u32, u32), R>;

/// Returns a row, with its chains if requested.
pub(super) fn row(
    table: &TopTable<'_>,
    row: &TopRow,
    keys: &[ColumnKey],
    chains: Option<&(ChainSpec, ChainsByRow<Value>)>,
) -> Value {
    let mut out = row_object(table.data, table.top, row, keys);
    out.insert("samples".into(), json!(table.samples(row)));
    out.insert("period".into(), json!(row.own.period));
    out.insert("self_pct".into(), json!(round(row.own.percent_of(&table.whole))));
    if table.top.partner.is_some() {
        out.insert("ipc".into(), json!(table.top.ipc(row, false).map(round)));
        out.insert("children_ipc".into(), json!(table.top.ipc(row, true).map(round)));
    }
    out.insert("children_pct".into(), json!(round(row.children.percent_of(&table.whole))));
    for field in table.fields {
        let share = match field {
            TopField::Mode(mode) => table.weight(row, *mode).percent_of(&table.whole),
            TopField::Latency => table.latency.of_row(row).percent_of(&table.latency.whole),
            _ => continue,
        };
        out.insert(field.column().name.into_owned(), json!(round(share)));
    }
    if let Some((spec, chains)) = chains {
        let name = if spec.direction == Direction::Callers { "callers" } else { "callees" };
        out.insert(name.into(), chains.get(&row.place()).cloned().unwrap_or_else(|| json!([])));
    }
    Value::Object(out)
}

/// Returns a row's call tree. Its entries are in tree order, each with its depth below the row.
pub(crate) fn chain(data: Data<'_>, spec: &ChainSpec, heavy: &CallTree, whole: &Acc, meaning: PeriodMeaning) -> Value {
    let nodes = &heavy.nodes;
    let mut out = Vec::new();
    let mut open: Vec<(u32, u32, usize)> = nodes[0].children.iter().rev().map(|node| (*node, 0, 0)).collect();
    while let Some((node, above, depth)) = open.pop() {
        let entry = &nodes[node as usize];
        let sym = data.profile.frames.sym(SymId(entry.sym));
        let whole = if spec.form == ChainForm::Fractal { &nodes[above as usize].acc } else { whole };
        let place = heavy.nodes[node as usize].frame;
        let mut object = json!({
            "depth": depth, "sym": sym.name(), "dso": &*sym.dso_name, "samples": entry.acc.counted(meaning.count).0,
            "period": entry.acc.period, "pct": round(entry.acc.percent_of(whole)),
        });
        if let Some(frame) = place {
            object["line"] = json!(data.profile.frames.line(frame).map(|line| line.short()));
        }
        out.push(object);
        open.extend(entry.children.iter().rev().map(|below| (*below, node, depth + 1)));
    }
    Value::Array(out)
}

fn row_object(data: Data<'_>, top: &Top, row: &TopRow, keys: &[ColumnKey]) -> Map<String, Value> {
    let group = &top.groups[row.group as usize];
    let sym = top.symbol(data, row.label);
    let mut out = Map::new();
    for key in keys {
        let value = match key {
            ColumnKey::Dso => {
                out.insert("dso".into(), json!(sym.map(|s| &*s.dso_name)));
                out.insert("dso_path".into(), json!(sym.map(|s| &*data.session.dsos.get(s.dso).path)));
                continue;
            }
            ColumnKey::Sym => {
                out.insert("sym".into(), json!(sym.map(|s| s.name())));
                out.insert("sym_from".into(), json!(sym.map(|s| s.state.word())));
                continue;
            }
            ColumnKey::SymbolSize if top.is_by_function() => match sym.map_or(0, |sym| sym.size) {
                0 => json!("unknown"),
                size => json!(size),
            },
            key => match group.get(*key) {
                Some(column::ColumnValue::Id(id)) => json!(id),
                Some(column::ColumnValue::Text(text)) => json!(**text),
                Some(column::ColumnValue::Number(n)) => json!(n),
                None => Value::Null,
            },
        };
        out.insert(key.name().into(), value);
    }
    out
}

/// Rounds to four decimals: more than the samples' precision, and short to read.
pub(super) fn round(percent: f64) -> f64 {
    (percent * 1e4).round() / 1e4
}

/// Returns one event's part of a report, for any type of rows.
pub(crate) fn event(name: &str, meaning: PeriodMeaning, total: &Acc, lost: u64, rows: Vec<Value>) -> Value {
    let (samples, unit) = (total.counted(meaning.count).0, meaning.unit.name());
    json!({ "name": name, "unit": unit, "samples": samples, "period": total.period, "lost": lost, "rows": rows })
}

/// Formats the line before an event's table; `what` is the noun of samples.
pub(crate) fn event_line(name: &str, what: &str, meaning: PeriodMeaning, total: &Acc, lost: u64) -> String {
    let (n, noun) = total.counted(meaning.count);
    let samples = counted(n, if noun == "sample" { what } else { noun });
    let weight = match meaning.is_value {
        true => format!("total {}", meaning.unit.total(total.period, thousands)),
        false => format!("period {}", thousands(total.period)),
    };
    format!("# event {}: {samples}, {weight}, lost {}\n", clean(name), thousands(lost))
}

/// Returns the entire report.
pub fn report(file: &str, events: Vec<Value>) -> Value {
    json!({ "file": file, "events": events })
}
