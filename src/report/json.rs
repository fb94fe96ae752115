//! The documented, stable JSON form of a report: one object, events with their rows.

use serde_json::{Map, Value, json};

use crate::query::{ColumnKey, Data, Top, column};

/// One event's part of a report.
pub fn event(data: Data<'_>, name: &str, lost: u64, top: &Top, keys: &[ColumnKey], limit: usize) -> Value {
    let rows: Vec<Value> =
        top.rows.iter().take(limit).map(|row| Value::Object(row_object(data, top, row, keys))).collect();
    json!({ "name": name, "samples": top.total.samples, "period": top.total.period, "lost": lost, "rows": rows })
}

fn row_object(data: Data<'_>, top: &Top, row: &crate::query::TopRow, keys: &[ColumnKey]) -> Map<String, Value> {
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
            key => match group.get(*key) {
                Some(column::ColumnValue::Id(id)) => json!(id),
                Some(column::ColumnValue::Text(text)) => json!(**text),
                Some(column::ColumnValue::Number(n)) => json!(n),
                None => Value::Null,
            },
        };
        out.insert(key.name().into(), value);
    }
    out.insert("samples".into(), json!(row.own.samples));
    out.insert("period".into(), json!(row.own.period));
    out.insert("self_pct".into(), json!(round(row.own.percent_of(&top.total))));
    if top.partner.is_some() {
        out.insert("ipc".into(), json!(top.ipc(row, false).map(round)));
        out.insert("children_ipc".into(), json!(top.ipc(row, true).map(round)));
    }
    out.insert("children_pct".into(), json!(round(row.children.percent_of(&top.total))));
    out
}

/// Four decimals: more than the samples can carry, and short to read.
pub(super) fn round(percent: f64) -> f64 {
    (percent * 1e4).round() / 1e4
}

/// The whole report.
pub fn report(file: &str, events: Vec<Value>) -> Value {
    json!({ "file": file, "events": events })
}
