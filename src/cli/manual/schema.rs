//! JSON Schema of all JSON output.

use serde_json::{Map, Value, json};

use crate::lang::nearest_hint;
use crate::units::UNITS;

const ALL: &str = include_str!("json.schema.json");

/// Commands whose definitions have other names.
const OTHERS: &[(&str, &[&str])] = &[
    ("report", &["report", "report_list"]),
    ("stat", &["stat", "stat_interval"]),
    ("list", &["list", "list_containers"]),
    ("usdt", &["unit", "probe"]),
];
const SAME: &[&str] = &["annotate", "diff", "digest", "cpus", "probe", "doctor", "unit"];

/// Returns the schema of all commands, or of one; an error if no command of this name prints JSON.
pub(crate) fn of(command: &str) -> Result<Value, String> {
    let mut all: Value = serde_json::from_str(ALL).map_err(|error| format!("the schema: {error}"))?;
    if command.is_empty() {
        return Ok(all);
    }
    let names = definitions(command).ok_or_else(|| {
        let known = OTHERS.iter().map(|(name, _)| *name).chain(SAME.iter().copied());
        let hint = nearest_hint(command, known.chain(UNITS.iter().map(|spec| spec.name)));
        format!("help json {command}: no command of this name prints JSON{hint}")
    })?;
    let refs: Vec<Value> = names.iter().map(|name| reference(name)).collect();
    let known = all["$defs"].take();
    let mut used = Map::new();
    refs.iter().for_each(|one| keep(one, &known, &mut used));
    all["anyOf"] = refs.into();
    all["$defs"] = used.into();
    Ok(all)
}

fn definitions(command: &str) -> Option<Vec<&str>> {
    if let Some((_, names)) = OTHERS.iter().find(|(name, _)| *name == command) {
        return Some(names.to_vec());
    }
    match SAME.contains(&command) {
        true => Some(vec![command]),
        false => UNITS.iter().any(|spec| spec.name == command).then(|| vec!["unit"]),
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{PREFIX}{name}") })
}

const PREFIX: &str = "#/$defs/";

fn keep(schema: &Value, known: &Value, used: &mut Map<String, Value>) {
    match schema {
        Value::Object(fields) => {
            let name = fields.get("$ref").and_then(Value::as_str).and_then(|to| to.strip_prefix(PREFIX));
            if let Some(name) = name.filter(|name| !used.contains_key(*name)) {
                used.insert(name.to_owned(), known[name].clone());
                keep(&known[name], known, used);
            }
            fields.values().for_each(|value| keep(value, known, used));
        }
        Value::Array(list) => list.iter().for_each(|value| keep(value, known, used)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_command_has_what_it_leads_to_and_nothing_else() {
        let names = |command: &str| {
            let schema = of(command).expect(command);
            let names: Vec<String> = schema["$defs"].as_object().expect("definitions").keys().cloned().collect();
            names
        };
        assert_eq!(names("report"), ["chain_entry", "count", "report", "report_list", "report_row"]);
        assert_eq!(names("rundelay"), ["bars", "count", "course", "figures", "measure", "panel", "unit"]);
        assert_eq!(of("stat").expect("stat")["anyOf"].as_array().map(Vec::len), Some(2));
        assert!(of("repot").expect_err("no command").contains("nearest: report"));
        // Each definition is used, and its references exist.
        let all = of("").expect("all");
        let commands = OTHERS.iter().map(|(name, _)| *name).chain(SAME.iter().copied());
        let mut used: Vec<String> = commands.flat_map(names).collect();
        used.sort();
        used.dedup();
        let known: Vec<&String> = all["$defs"].as_object().expect("definitions").keys().collect();
        assert_eq!(used.iter().collect::<Vec<_>>(), known);
        assert!(all["$defs"].as_object().expect("definitions").values().all(Value::is_object));
    }
}
