//! The program's JSON schema, and a validator for the part of JSON Schema that it uses.

use std::cell::RefCell;
use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

use super::{program, run};

/// Returns the schema of all commands.
pub fn printed() -> Value {
    let output = run(program().args(["help", "json"]));
    serde_json::from_slice(&output.stdout).expect("a schema")
}

/// Panics unless a value conforms to a definition of the schema.
pub fn assert_keeps_to(all: &Value, definition: &str, value: &Value) {
    let schema = &all["$defs"][definition];
    assert!(schema.is_object(), "no definition {definition}");
    if let Err(why) = keeps(all, schema, value, definition) {
        panic!("{why}");
    }
}

fn keeps(all: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let fault = |why: String| Err(format!("{at}: {why}: {}", value.to_string().chars().take(200).collect::<String>()));
    let Some(rules) = schema.as_object() else { return fault("no schema".into()) };
    for (rule, of) in rules {
        match rule.as_str() {
            "description" | "title" => {}
            "$ref" => {
                let name = of.as_str().and_then(|to| to.strip_prefix("#/$defs/")).expect("a definition");
                keeps(all, &all["$defs"][name], value, at)?;
            }
            "type" => {
                let types: Vec<&Value> = of.as_array().map_or_else(|| vec![of], |list| list.iter().collect());
                let types = types.into_iter().map(|name| name.as_str().expect("a type"));
                if !types.clone().any(|name| is_of(name, value)) {
                    return fault(format!("expected {}", types.collect::<Vec<_>>().join(" or ")));
                }
            }
            "const" if of != value => return fault(format!("expected {of}")),
            "const" => {}
            "enum" if !of.as_array().expect("values").contains(value) => return fault(format!("expected one of {of}")),
            "enum" => {}
            "anyOf" => {
                let tries = of.as_array().expect("schemas").iter().map(|one| keeps(all, one, value, at));
                let faults: Vec<String> = tries.filter_map(Result::err).collect();
                if faults.len() == of.as_array().map_or(0, Vec::len) {
                    return fault(faults.join("\n  or "));
                }
            }
            "required" => {
                let names = of.as_array().expect("names").iter().map(|name| name.as_str().expect("a name"));
                if let Some(missing) = names.clone().find(|name| value.get(name).is_none()) {
                    return fault(format!("{missing} is missing"));
                }
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    keeps(all, of, item, &format!("{at}[{i}]"))?;
                }
            }
            "properties" | "patternProperties" | "additionalProperties" => {}
            other => panic!("{at}: unknown rule {other}"),
        }
    }
    for (name, field) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        let own = rules.get("properties").and_then(|known| known.get(name));
        let patterns = rules.get("patternProperties").and_then(Value::as_object);
        let matching = patterns.into_iter().flatten();
        let matching = matching.filter(|(pattern, _)| is_match(pattern, name));
        let mut rules_of: Vec<&Value> = own.into_iter().chain(matching.map(|(_, rules)| rules)).collect();
        match rules.get("additionalProperties") {
            Some(Value::Bool(false)) if rules_of.is_empty() => return Err(format!("{at}: not in the schema")),
            Some(more) if rules_of.is_empty() && more.is_object() => rules_of.push(more),
            _ => {}
        }
        rules_of.into_iter().try_for_each(|rules| keeps(all, rules, field, &at))?;
    }
    Ok(())
}

/// Whether a name matches a pattern.
///
/// The compiled patterns are cached: they are few.
fn is_match(pattern: &str, name: &str) -> bool {
    thread_local! {
        static PATTERNS: RefCell<BTreeMap<String, Regex>> = RefCell::default();
    }
    PATTERNS.with_borrow_mut(|known| {
        if !known.contains_key(pattern) {
            known.insert(pattern.to_owned(), Regex::new(pattern).expect("a pattern"));
        }
        known[pattern].is_match(name)
    })
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("unknown type {other}"),
    }
}
