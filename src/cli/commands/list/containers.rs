//! `list containers`: prints the running containers, and reads such a list from another machine.

use std::path::Path;

use anyhow::Context;
use serde_json::Value;

use crate::kernel::cgroup;
use crate::panel::Table;
use crate::session::containers::{NamedContainer, Runtime, named};
use crate::source::live::containers::Scanner;

use crate::cli::Usage;
use crate::cli::args::OutputFormat;
use crate::cli::output::{complain, print_table};

/// Fields of a container in the order of [`named`], after the cgroup and the runtime.
const FIELDS: [&str; 5] = ["id", "container", "pod", "namespace", "image"];

/// Prints the running containers.
pub fn run(format: OutputFormat) -> anyhow::Result<u8> {
    let list: Vec<NamedContainer> = Scanner::here().look().came.into_iter().map(|running| running.named).collect();
    print_table(&table(&list), format)?;
    if list.is_empty() {
        complain(match cgroup::trees().is_empty() {
            true => "no cgroup hierarchy is mounted here; containers are found by /sys/fs/cgroup of the host",
            false => "no containers are running",
        });
    }
    Ok(0)
}

fn table<'a>(list: &'a [NamedContainer]) -> Table {
    let columns = [
        ("namespace", "Namespace"),
        ("pod", "Pod"),
        ("container", "Container"),
        ("image", "Image"),
        ("runtime", "Runtime"),
        ("id", "Id"),
        ("cgroup", "Cgroup"),
    ];
    let row = |NamedContainer { root, container: c }: &'a NamedContainer| {
        [&*c.namespace, &*c.pod, &*c.name, &*c.image, c.runtime.word(), &*c.id, &**root]
    };
    Table::of_texts(columns, list.iter().map(row))
}

fn parse(text: &str) -> Option<Vec<NamedContainer>> {
    let list: Vec<Value> = serde_json::from_str(text).ok()?;
    let one = |row: &Value| {
        let field = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
        named(field("cgroup"), Runtime::of_word(field("runtime"))?, FIELDS.map(field))
    };
    list.iter().map(one).collect()
}

pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<NamedContainer>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let what = "expected the output of `perfprof-tui list containers --format json`";
    Ok(parse(&text).ok_or_else(|| Usage(format!("--containers {}: {what}", path.display())))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::containers::{decode, encode};

    #[test]
    fn what_is_printed_is_read_again() {
        let fields = ["4f1c", "app", "cart-7d9", "shop", "reg.example/cart:1.4"];
        let list: Vec<NamedContainer> = [("/a/b", Runtime::Containerd), ("/c", Runtime::Crio)]
            .into_iter()
            .filter_map(|(root, runtime)| named(root, runtime, fields))
            .collect();
        assert_eq!(list.len(), 2);
        let printed = serde_json::to_string(&table(&list).to_json()).expect("JSON");
        assert_eq!(parse(&printed).as_deref(), Some(&list[..]));
        assert_eq!(decode(&encode(list.iter())), list);
        for odd in ["", "{}", "[5]", "[{\"cgroup\": \"a\", \"runtime\": \"docker\"}]", "[{\"cgroup\": \"/a\"}]"] {
            assert_eq!(parse(odd), None, "{odd}");
        }
    }
}
