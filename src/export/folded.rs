//! Folded stacks: `comm;root;…;leaf PERIOD`, sorted, like those of FlameGraph's stackcollapse scripts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use crate::filter::Filter;
use crate::panel::printable::EscapeForm;
use crate::panel::stacks::FrameName;
use crate::panel::text::clean;
use crate::profile::frames::INLINED;
use crate::query::tree::symbol_stacks::{SymbolStacks, stacks};
use crate::query::{Aggregate, Data};
use crate::session::DsoKind;
use crate::symbols::names::demangle::arguments;

use super::{ExportFormat, ExportInput, FormatWriter};

pub(super) const FORMAT: ExportFormat = ExportFormat {
    name: "folded",
    about: "Folded stacks, for FlameGraph and similar tools",
    writer: FormatWriter::Profile(Some(EscapeForm::Text), write),
};

/// Calls `each` with every line's stack and weight, sorted by stack.
pub fn lines(
    data: Data<'_>,
    event: usize,
    filter: Option<Arc<Filter>>,
    annotate: bool,
    mut each: impl FnMut(&str, u64) -> io::Result<()>,
) -> io::Result<()> {
    let fold = Aggregate::new(event, filter).over(data);
    let named = SymbolStacks::build(data);
    let texts: Vec<String> = named.names.iter().map(|name| frame(name, annotate)).collect();
    let of_java: Vec<&str> = texts.iter().map(|text| without_descriptor(text)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    // Different names may have the same text, so equal lines are merged.
    let mut merged: BTreeMap<String, u64> = BTreeMap::new();
    let mut comm_now: Option<Arc<str>> = None;
    for (comm, node, acc) in stacks(data, &named, &fold) {
        if comm_now.as_ref().is_some_and(|now| *now != comm) {
            std::mem::take(&mut merged).iter().try_for_each(|(line, n)| each(line, *n))?;
        }
        let mut line = clean(&comm).replace(';', ":").replace(' ', "_");
        let texts = if &*comm == JAVA { &of_java } else { &texts };
        named.path(node).into_iter().for_each(|frame| line.extend([";", texts[frame as usize]]));
        let sum = merged.entry(line).or_default();
        *sum = sum.saturating_add(acc.period);
        comm_now = Some(comm);
    }
    merged.iter().try_for_each(|(line, n)| each(line, *n))
}

/// The comm of programs whose frames have Java names.
const JAVA: &str = "java";

/// Removes the marks of a class descriptor. `Ljava/lang/Thread:.run` becomes `java/lang/Thread:.run`.
fn without_descriptor(text: &str) -> &str {
    text.strip_prefix('L').filter(|_| text.contains('/')).unwrap_or(text)
}

/// Formats a frame without separators, quotes and arguments; `(anonymous namespace)` and Go's receivers stay.
fn frame(name: &FrameName, annotate: bool) -> String {
    let inlined = name.text.strip_suffix(INLINED);
    let whole = clean(inlined.unwrap_or(&name.text));
    // An interpreted function has its file there, not arguments.
    let is_interpreted = matches!(name.kind, DsoKind::Interpreted(_));
    let mut text = if is_interpreted { whole.replace(';', ":") } else { tidy(&whole).into_owned() };
    if annotate {
        text.push_str(match name.kind {
            _ if inlined.is_some() => "_[i]",
            kind if kind.is_kernel() => "_[k]",
            DsoKind::Anon => "_[j]",
            _ => "",
        });
    }
    text
}

fn tidy(name: &str) -> Cow<'_, str> {
    if !name.contains(['(', ';', '"', '\'']) {
        return Cow::Borrowed(name);
    }
    let name = name.replace(';', ":").replace(['"', '\''], "");
    let is_go = name.find(".(").is_some_and(|at| name[at..].contains(")."));
    let end = if is_go { None } else { arguments(&name) };
    Cow::Owned(name[..end.unwrap_or(name.len())].trim_end().to_owned())
}

fn write(input: &ExportInput<'_>, out: &mut dyn Write) -> io::Result<()> {
    let unit = input.data.unit(input.event);
    lines(input.data, input.event, input.filter.clone(), input.annotate, |line, n| {
        writeln!(out, "{line} {}", unit.written(n))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_java_have_their_names_alone() {
        assert_eq!(without_descriptor("Ljava/lang/Thread:.run"), "java/lang/Thread:.run");
        assert_eq!(["Lookup", "a/L", "[unknown]"].map(without_descriptor), ["Lookup", "a/L", "[unknown]"]);
    }

    #[test]
    fn names_that_would_break_a_line() {
        for (name, want) in [
            ("main", "main"),
            ("f(int, char)", "f"),
            ("a;b", "a:b"),
            ("Foo.bar (Bar)(I)V", "Foo.bar"),
            ("A<(char)97, 16ul>::f(int)", "A<(char)97, 16ul>::f"),
            ("std::function<void (int)>::operator()(int) const", "std::function<void (int)>::operator()"),
            ("(anonymous namespace)::g(int)", "(anonymous namespace)::g"),
            ("net/http.(*Client).Do", "net/http.(*Client).Do"),
            ("operator\"\" _s", "operator _s"),
        ] {
            assert_eq!(tidy(name), want);
        }
    }
}
