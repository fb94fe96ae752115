//! The filter language of views and capture.
//! An example is `comm == "nginx" && cpu in 0-3,32 && stack ~ "*tcp_*" && !idle`.
//!
//! A filter is a boolean expression over numbered atoms. The owner of the data evaluates each atom in its own way
//! (names once per name, processes once per process) and passes the bits to [`Filter::eval`].

pub mod capture;
pub(crate) mod complete;
pub(crate) mod expr;
mod field;
pub(crate) mod parse;
pub mod program;
pub(crate) mod show;

use globset::GlobMatcher;
use regex::Regex;

pub use crate::lang::Diagnostic;
pub use complete::{ExpectedToken, expected};
pub(crate) use field::{FIELDS, FieldType};
pub use field::{Field, KnownFields, TraceField, trace_fields};

#[derive(Clone, Debug)]
pub(crate) enum Test {
    Equals(Vec<String>),
    Glob(GlobMatcher),
    Regex(Regex),
    /// Inclusive ranges.
    Ranges(Vec<(i128, i128)>),
    /// Any of these bits.
    Bits(i64),
    Flag,
}

#[derive(Clone, Debug)]
pub(crate) struct Atom {
    pub(crate) field: Field,
    /// The name of a tracepoint field; empty for others.
    pub(crate) name: String,
    pub(crate) test: Test,
}

impl Test {
    fn text(&self, value: &str) -> bool {
        match self {
            Self::Equals(values) => values.iter().any(|v| v == value),
            Self::Glob(glob) => glob.is_match(value),
            Self::Regex(regex) => regex.is_match(value),
            _ => false,
        }
    }
}

impl Atom {
    pub(crate) fn text(&self, value: &str) -> bool {
        self.test.text(value)
    }

    pub(crate) fn number(&self, value: impl Into<i128>) -> bool {
        let value = value.into();
        match &self.test {
            Test::Ranges(ranges) => ranges.iter().any(|(from, to)| (*from..=*to).contains(&value)),
            Test::Bits(bits) => value as i64 & bits != 0,
            _ => false,
        }
    }
}

/// Writes a clause that compares a field with a text, which may contain quotes.
pub(crate) fn equals(field: &str, value: &str) -> String {
    compared(field, "==", value)
}

fn compared(field: &str, op: &str, value: &str) -> String {
    if !value.contains('"') {
        format!("{field} {op} \"{value}\"")
    } else if !value.contains('\'') {
        format!("{field} {op} '{value}'")
    } else {
        format!("{field} ~ \"{}\"", value.replace('"', "?"))
    }
}

/// Writes a condition for the sampled function, by its name or a glob. The name of an interpreted function may lack its
/// file. Braces are part of names, because a list of names is divided at commas.
pub(crate) fn is_function(name: &str) -> String {
    let escaped = name.replace('\\', r"\\");
    let glob: String =
        escaped.chars().map(|c| if matches!(c, '{' | '}') { format!("[{c}]") } else { c.into() }).collect();
    let glob = if globset::Glob::new(&glob).is_ok() { glob } else { globset::escape(&escaped) };
    let matches = compared("sym", "~", &format!("{{{glob},{glob} (*)}}"));
    // A name may have characters of globs: `operator[]`.
    if globset::escape(name) == name { matches } else { format!("{} || {matches}", equals("sym", name)) }
}

/// Names of functions, with the meaning of [`is_function`].
#[derive(Clone, Debug)]
pub(crate) struct ChosenFunctions(Vec<Filter>);

impl ChosenFunctions {
    /// Reads names that are separated by commas.
    pub(crate) fn of(list: &str) -> Self {
        Self(list.split(',').filter_map(|name| Filter::parse(&is_function(name.trim())).ok()).collect())
    }

    pub(crate) fn has(&self, function: &str) -> bool {
        self.0.iter().flat_map(Filter::atoms).any(|atom| atom.text(function))
    }
}

/// Joins the texts of filters to that of one that all of them must pass.
pub(crate) fn all_of(mut texts: Vec<String>) -> Option<String> {
    if texts.len() < 2 {
        return texts.pop();
    }
    Some(texts.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" && "))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilterExpr {
    Atom(u8),
    Not(Box<FilterExpr>),
    And(Vec<FilterExpr>),
    Or(Vec<FilterExpr>),
}

impl FilterExpr {
    fn shifted(&self, by: u8) -> Self {
        let list = |list: &[Self]| list.iter().map(|expr| expr.shifted(by)).collect();
        match self {
            Self::Atom(i) => Self::Atom(i.saturating_add(by)),
            Self::Not(expr) => Self::Not(Box::new(expr.shifted(by))),
            Self::And(all) => Self::And(list(all)),
            Self::Or(any) => Self::Or(list(any)),
        }
    }
}

/// The limit of clauses per filter: their results are bits of one word.
pub(crate) const MAX_ATOMS: usize = 64;

/// A checked filter.
#[derive(Clone, Debug)]
pub struct Filter {
    text: String,
    atoms: Vec<Atom>,
    expr: FilterExpr,
}

impl Eq for Filter {}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Filter {
    /// Parses and checks a filter.
    pub fn parse(text: &str) -> Result<Self, Diagnostic> {
        Self::parse_with(text, KnownFields::These(&[]))
    }

    /// Parses a filter that may use tracepoint fields.
    pub fn parse_with(text: &str, known: KnownFields<'_>) -> Result<Self, Diagnostic> {
        parse::parse(text, known)
    }

    /// Combines filters to one that all of them must pass. Returns `None` without any, or if they have too many clauses.
    pub(crate) fn all<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let (mut texts, mut atoms, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            all.push(part.expr.shifted(atoms.len() as u8));
            atoms.extend_from_slice(&part.atoms);
            texts.push(part.text.clone());
        }
        let text = all_of(texts)?;
        (atoms.len() <= MAX_ATOMS).then_some(Self { text, atoms, expr: FilterExpr::And(all) })
    }

    /// Returns the text as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the fields compared with a pattern without wildcards, and the patterns.
    pub(crate) fn plain_globs(&self) -> impl Iterator<Item = (Field, &str)> {
        self.atoms.iter().filter_map(|atom| match &atom.test {
            Test::Glob(glob) => {
                let text = glob.glob().glob();
                (!text.contains(['*', '?', '[', '{', '\\'])).then_some((atom.field, text))
            }
            _ => None,
        })
    }

    pub(crate) fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    pub(crate) fn per_sample_mask(&self) -> u64 {
        self.atoms.iter().enumerate().filter(|(_, a)| a.field.per_sample()).fold(0, |mask, (i, _)| mask | 1 << i)
    }

    pub(crate) fn needs_fields(&self) -> bool {
        self.atoms.iter().any(|a| a.field.is_traced())
    }

    pub(crate) fn needs_chains(&self) -> bool {
        self.atoms.iter().any(|a| matches!(a.field, Field::Stack | Field::Context | Field::Softirq))
    }

    /// Evaluates the filter, given one bit per atom.
    pub(crate) fn eval(&self, bits: u64) -> bool {
        eval(&self.expr, bits)
    }

    /// Evaluates the filter as far as the atoms in `known` determine it.
    pub(crate) fn partial(&self, bits: u64, known: u64) -> Option<bool> {
        partial(&self.expr, bits, known)
    }
}

fn eval(expr: &FilterExpr, bits: u64) -> bool {
    match expr {
        FilterExpr::Atom(i) => bits >> i & 1 == 1,
        FilterExpr::Not(e) => !eval(e, bits),
        FilterExpr::And(all) => all.iter().all(|e| eval(e, bits)),
        FilterExpr::Or(any) => any.iter().any(|e| eval(e, bits)),
    }
}

/// Kleene's three-valued logic.
fn partial(expr: &FilterExpr, bits: u64, known: u64) -> Option<bool> {
    let fold = |list: &[FilterExpr], decisive: bool| {
        let mut open = false;
        for e in list {
            match partial(e, bits, known) {
                Some(v) if v == decisive => return Some(decisive),
                Some(_) => {}
                None => open = true,
            }
        }
        (!open).then_some(!decisive)
    };
    match expr {
        FilterExpr::Atom(i) => (known >> i & 1 == 1).then(|| bits >> i & 1 == 1),
        FilterExpr::Not(e) => partial(e, bits, known).map(|v| !v),
        FilterExpr::And(all) => fold(all, false),
        FilterExpr::Or(any) => fold(any, true),
    }
}

/// Filters with each type of clause.
#[cfg(test)]
const FILTERS: &[&str] = &[
    "comm == \"nginx\" && cpu in 0-3,32 && stack ~ \"*tcp_*\" && !idle",
    "pid == 1 || pid == 2 && !(user || kernel)",
    "comm in (nginx, 'a b') && sym =~ \"^do_\" && time >= 1.5",
    "prev_comm ~ \"kworker*\" && prev_pid in -3--1,7 || common_flags & 0x14",
    "context == softirq && softirq in TIMER,NET_RX",
    "time < 250ms && host != web && dso !~ '*libc*'",
    "cgroup ~ */system.slice/* || é == 1",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expr() -> impl Strategy<Value = FilterExpr> {
        let leaf = (0u8..6).prop_map(FilterExpr::Atom);
        leaf.prop_recursive(4, 20, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|e| FilterExpr::Not(Box::new(e))),
                proptest::collection::vec(inner.clone(), 1..3).prop_map(FilterExpr::And),
                proptest::collection::vec(inner, 1..3).prop_map(FilterExpr::Or),
            ]
        })
    }

    #[test]
    fn what_a_filter_looks_at() {
        let of = |text: &str| Filter::parse_with(text, KnownFields::Any).expect(text);
        let about = |text: &str| (of(text).needs_chains(), of(text).needs_fields(), of(text).per_sample_mask());
        assert_eq!(about("comm == x && pid == 1"), (false, false, 0));
        assert_eq!(about("comm == x && cpu == 1 || time < 3"), (false, false, 0b110));
        assert_eq!(about("period > 1 && event == x"), (false, false, 0b11));
        assert_eq!(about("prev_pid == 1 || prev_comm == x || user"), (false, true, 0b011));
        for field in ["stack", "context", "softirq"] {
            assert_eq!(about(&format!("{field} == x")), (true, false, 0), "{field}");
        }
        assert!(of("comm == x") == of(" comm == x ") && of("comm == x") != of("comm == y"));
        assert_eq!(of(" pid == 1 ").text(), "pid == 1");
    }

    #[test]
    fn clauses_that_quote_any_text() {
        for text in ["plain", "with \"double\"", "with 'single'", "both \" and '"] {
            let clause = equals("comm", text);
            assert!(Filter::parse(&clause).expect(&clause).atoms()[0].text(text), "{clause}");
            assert!(!Filter::parse(&clause).expect(&clause).atoms()[0].text("other"), "{clause}");
        }
    }

    #[test]
    fn functions_by_name_without_their_file_and_by_glob() {
        let is = |word: &str, name: &str| ChosenFunctions::of(word).has(name);
        let name = "hot_compute (svc.py)";
        for word in ["hot_compute", "hot_compute (svc.py)", "hot*", "hot_compute*", "h?t_compute", "[gh]ot_compute"] {
            assert!(is(word, name), "{word}");
        }
        for word in ["hot_comput", "compute", "Hot_compute", "serve", ""] {
            assert!(!is(word, name), "{word}");
        }
        let names = [
            "operator[](int)",
            "a\\b{closure}",
            "main.F[...]",
            "say \"a\" 'b'",
            "foo(char*)",
            "]",
            "{",
            "[",
            "a[b",
            "{{closure}}",
        ];
        for name in names {
            assert!(is(name, name) && !is(name, "other"), "{name}");
            assert!(is(name, &format!("{name} (a.rb)")) || name.contains(['*', '[']), "{name}");
        }
        assert!(is("[]", "[] (a.rb)"));
        assert!(is("serve, hot*", name) && !is("serve,handle", name));
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        /// An early result equals the final one.
        #[test]
        fn partial_agrees_with_every_completion(e in expr(), bits in 0u64..64, known in 0u64..64) {
            if let Some(verdict) = partial(&e, bits, known) {
                for rest in 0..64u64 {
                    prop_assert_eq!(eval(&e, bits & known | rest & !known), verdict);
                }
            }
            prop_assert_eq!(partial(&e, bits, u64::MAX), Some(eval(&e, bits)));
        }
    }
}
