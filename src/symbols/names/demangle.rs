//! Demangles names: Rust (v0 and legacy, without the hash), C++, and Go's calling conventions. Other names stay
//! unchanged.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::symbols::trust::isolated::run_isolated;
use repair::Repair;

mod repair;

/// Names longer than this stay mangled.
const MAX: usize = 4096;
/// The limit of demangled names; other names are cut here. Hostile names double in length every few letters.
pub(crate) const MAX_SHOWN: usize = 4 * MAX;
/// The limit of demangled parts of one C++ name: parts without letters double, too.
const MAX_PARTS: usize = 1 << 16;
/// Suffixes of functions with two calling conventions in the symbols of Go programs (cmd/link, mangleABIName). Go's
/// table of functions, its profiles and its stack traces lack them.
const GO_ABIS: [&str; 2] = [".abi0", ".abiinternal"];

/// The form of readable names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameForm {
    /// As in the symbol table.
    Raw,
    /// Without parameter lists, and with `<…>` for template and generic arguments.
    Short,
    /// Without parameter lists, as perf prints them.
    #[default]
    Plain,
    /// With parameter lists and return types.
    Full,
}

impl NameForm {
    /// Returns the next form to show on the screen; raw names stay raw.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Raw => Self::Raw,
            Self::Short => Self::Plain,
            Self::Plain => Self::Full,
            Self::Full => Self::Short,
        }
    }
}

pub(crate) fn demangle(raw: &[u8], form: NameForm) -> String {
    let text = String::from_utf8_lossy(&raw[..raw.len().min(MAX_SHOWN)]);
    if form == NameForm::Raw || raw.len() > MAX {
        return text.into_owned();
    }
    // A suffix `@plt` or `@version` follows the mangled name.
    let (mangled, rest) = text.split_at(text.find('@').unwrap_or(text.len()));
    let name = is_mangled(mangled.as_bytes()).then(|| readable(mangled.to_owned(), form)).flatten();
    match name {
        Some(name) if form == NameForm::Short => without_arguments(&name) + rest,
        Some(name) => name + rest,
        None => without_go_abi(&text).to_owned(),
    }
}

/// Returns a Go function's name without its calling convention.
pub(crate) fn without_go_abi(name: &str) -> &str {
    GO_ABIS.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

pub(crate) fn is_mangled(raw: &[u8]) -> bool {
    let starts = [&b"_Z"[..], b"__Z", b"_R", b"__R", b"___Z"];
    let is = |raw: &[u8]| starts.iter().any(|start| raw.starts_with(start));
    is(raw) || raw.starts_with(b"_GLOBAL__") && GLOBALS.iter().any(|(mark, _)| raw.strip_prefix(*mark).is_some_and(is))
}

/// Functions that run before and after main for a file's variables. Their symbol names one of them.
const GLOBALS: [(&[u8], &str); 4] = [
    (b"_GLOBAL__sub_I_", CONSTRUCTORS),
    (b"_GLOBAL__I_", CONSTRUCTORS),
    (b"_GLOBAL__sub_D_", DESTRUCTORS),
    (b"_GLOBAL__D_", DESTRUCTORS),
];
/// The object of a template argument of class type, and how the library writes the name that [`target`] has for it.
const OBJECT: &str = "template parameter object for ";
const WRITTEN_OBJECT: &str = "typeinfo name for decltype (";
const CONSTRUCTORS: &str = "global constructors keyed to ";
const DESTRUCTORS: &str = "global destructors keyed to ";

/// Returns `None` if the name is not mangled, or its parser fails.
fn readable(mangled: String, form: NameForm) -> Option<String> {
    run_isolated(move || rust(&mangled).or_else(|| cpp(&mangled, form))).ok().flatten()
}

fn rust(text: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(text).ok()?;
    let mut out = Written::default();
    std::fmt::write(&mut out, format_args!("{name:#}")).ok()?;
    Some(out.0.text)
}

fn cpp(text: &str, form: NameForm) -> Option<String> {
    let (what, name) = target(text)?;
    if !repair::is_misread(&name)
        && let Some(read) = printed(what, &name, form)
    {
        return read;
    }
    let ways = repair::ways(&name);
    let read = |way: &Repair| printed(what, &way.name, form).map(|name| Some(repaired(name?, way, form)));
    ways.iter().filter_map(read).find(|name| name.as_deref().is_none_or(repair::is_restored))?
}

/// Splits a name into the description of a special function, and the mangled name that the function belongs to.
fn target(text: &str) -> Option<(&'static str, Cow<'_, str>)> {
    let global =
        GLOBALS.iter().find_map(|(mark, what)| Some((*what, text.strip_prefix(std::str::from_utf8(mark).ok()?)?)));
    if let Some((what, name)) = global {
        return Some((what, name.into()));
    }
    // Blocks of Objective-C and of clang's C end with a number.
    let block = text.strip_prefix("___Z").and_then(|name| name.rsplit_once("_block_invoke"));
    if let Some((name, number)) = block {
        let is_number = number.trim_start_matches('_').bytes().all(|c| c.is_ascii_digit());
        return is_number.then(|| ("invocation function for block in ", format!("_Z{name}").into()));
    }
    if !text.starts_with("_Z") && !text.starts_with("__Z") {
        return None;
    }
    let special = text.trim_start_matches('_');
    if let Some(alias) = special.strip_prefix("ZGA") {
        return Some(("hidden alias for ", format!("_Z{alias}").into()));
    }
    if let Some(module) = special.strip_prefix("ZGI").filter(|module| module.starts_with('W')) {
        return Some(("initializer for module ", format!("_Z{module}4self").into()));
    }
    if let Some(argument) = special.strip_prefix("ZTA") {
        // The library has no such objects. In a decltype, back references have the same numbers.
        let expression = argument.strip_prefix('X').map(Cow::Borrowed);
        let literal = || argument.starts_with('L').then(|| format!("{argument}E").into());
        return expression.or_else(literal).map(|argument| (OBJECT, format!("_ZTSDT{argument}").into()));
    }
    Some(match special.strip_prefix("ZT").and_then(thunk) {
        Some((what, target)) => (what, format!("_Z{target}").into()),
        None => ("", Cow::Borrowed(text)),
    })
}

/// Restores the parts of a readable name that were rewritten for the parser.
fn repaired(name: String, way: &Repair, form: NameForm) -> String {
    let name = repair::restored(name);
    let name = match name.split_once("for module self@") {
        Some((what, module)) => format!("{what}for module {module}"),
        None => name,
    };
    if way.lacks_parameters && form == NameForm::Full { name + "(…)" } else { name }
}

/// Demangles a name with the library. `None` if it fails, an empty name if the result would be too long.
fn printed(what: &str, name: &str, form: NameForm) -> Option<Option<String>> {
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(256);
    let symbol = cpp_demangle::Symbol::new_with_options(name.as_bytes(), &parse).ok()?;
    let options = cpp_demangle::DemangleOptions::new();
    let options = if form == NameForm::Full { options } else { options.no_params().no_return_type() };
    let mut out = Limited { text: what.to_owned(), parts: 0 };
    if symbol.structured_demangle(&mut out, &options).is_err() {
        return Some(None);
    }
    let name = table_name(out.text);
    // The library writes a comma before an empty parameter pack.
    let mut name = if name.contains(", >") { name.replace(", >", ">") } else { name };
    if form != NameForm::Full {
        name.truncate(unqualified(&name).len());
    }
    Some(Some(if name.contains(')') { with_suffixes(&name) } else { name }))
}

/// Writes the names of tables and objects like c++filt. The library has braces around tables, and swaps the classes of
/// a construction table.
fn table_name(name: String) -> String {
    for (word, title) in [("{vtable(", "vtable for "), ("{vtt(", "VTT for ")] {
        if let Some(class) = name.strip_prefix(word).and_then(|rest| rest.strip_suffix(")}")) {
            return format!("{title}{class}");
        }
    }
    let object = name.strip_prefix(OBJECT).and_then(|rest| rest.strip_prefix(WRITTEN_OBJECT));
    if let Some(value) = object.and_then(|rest| rest.strip_suffix(')')) {
        return format!("{OBJECT}{value}");
    }
    const CONSTRUCTION: &str = "construction vtable for ";
    match name.strip_prefix(CONSTRUCTION).and_then(|classes| classes.split_once("-in-")) {
        Some((complete, base)) => format!("{CONSTRUCTION}{base}-in-{complete}"),
        None => name,
    }
}

/// Returns the kind of a thunk, and the mangled name of the function that it calls.
/// The library has other words for thunks. After the letter of the kind follow the offsets of `this` and of the result.
fn thunk(special: &str) -> Option<(&'static str, &str)> {
    let number = |text: &'_ str| -> Option<usize> {
        let digits = text.strip_prefix('n').unwrap_or(text);
        let end = digits.find('_')?;
        let is_number = end > 0 && digits[..end].bytes().all(|c| c.is_ascii_digit());
        is_number.then_some(text.len() - digits.len() + end + 1)
    };
    let offset = |text: &str| -> Option<usize> {
        let first = 1 + number(&text[1..])?;
        match text.as_bytes()[0] {
            b'h' => Some(first),
            b'v' => Some(first + number(&text[first..])?),
            _ => None,
        }
    };
    let offset = |text: &str| if text.is_ascii() && !text.is_empty() { offset(text) } else { None };
    match special.as_bytes().first()? {
        b'h' => Some(("non-virtual thunk to ", &special[offset(special)?..])),
        b'v' => Some(("virtual thunk to ", &special[offset(special)?..])),
        b'c' => {
            let moved = &special[1..];
            let moved = &moved[offset(moved)?..];
            Some(("covariant return thunk to ", &moved[offset(moved)?..]))
        }
        _ => None,
    }
}

/// Returns a method's name without the qualifiers after its parameters.
fn unqualified(name: &str) -> &str {
    let mut rest = name;
    while let Some(shorter) = [" const", " volatile", " &&", " &"].iter().find_map(|word| rest.strip_suffix(word)) {
        rest = shorter;
    }
    if rest.ends_with("operator") { name } else { rest }
}

/// Writes `16ul` for the library's `(unsigned long)16`. Only literals have a digit after the parenthesis.
fn with_suffixes(name: &str) -> String {
    const LITERAL: &str = r"\((unsigned int|(?:unsigned )?long(?: long)?)\)(-?[0-9]+)";
    static FOUND: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(LITERAL).ok());
    let suffixed = |found: &Captures<'_>| {
        let unsigned = if found[1].starts_with('u') { "u" } else { "" };
        format!("{}{unsigned}{}", &found[2], "l".repeat(found[1].matches("long").count()))
    };
    FOUND.as_ref().map_or_else(|| name.to_owned(), |literal| literal.replace_all(name, suffixed).into_owned())
}

/// Returns where a function's own arguments begin in a name, after those of templates, lambdas and outer functions.
pub(crate) fn arguments(name: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(c) = name[at..].chars().next() {
        let rest = &name[at..];
        let is_word = name[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if let Some(operator) = rest.strip_prefix("operator").filter(|_| !is_word) {
            let symbol = operator.find(|c| !"<>=-".contains(c)).unwrap_or(operator.len());
            at += "operator".len() + if operator.starts_with("()") { 2 } else { symbol };
            continue;
        }
        match c {
            '(' if depth == 0 && at > 0 && !rest.starts_with(NAMELESS) && !is_scope(rest) => return Some(at),
            '<' | '(' | '{' => depth += 1,
            '>' if name[..at].ends_with('-') => {}
            '>' | ')' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += c.len_utf8();
    }
    None
}

const NAMELESS: &str = "(anonymous namespace)";

/// Returns whether more of the path follows the first parentheses.
fn is_scope(text: &str) -> bool {
    let mut depth = 0usize;
    let end = text.find(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    end.is_some_and(|end| text[end + 1..].trim_start_matches(" const").starts_with("::"))
}

/// Writes `<…>` for each outermost pair of angle brackets, except as in `<T as Trait>::f` and in operators.
fn without_arguments(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let (mut depth, mut from) = (0usize, 0);
    let bytes = name.as_bytes();
    for (at, c) in name.char_indices() {
        let after_operator = name[..at].trim_end_matches(['<', '>', '-', '=']).ends_with("operator");
        match c {
            '<' if after_operator && depth == 0 => out.push(c),
            '<' => {
                if at == 0 {
                    // The first name is the type itself, not one of its arguments.
                    out.push(c);
                    continue;
                }
                if depth == 0 {
                    from = at;
                }
                depth += 1;
            }
            '>' if depth > 0 && at > 0 && bytes[at - 1] != b'-' => {
                depth -= 1;
                if depth == 0 {
                    out.push_str(if at == from + 1 { "<>" } else { "<…>" });
                }
            }
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    if depth > 0 { name.to_owned() } else { out }
}

/// An output that fails when the name gets too long or has too many parts.
#[derive(Default)]
struct Limited {
    text: String,
    parts: usize,
}

impl cpp_demangle::DemangleWrite for Limited {
    fn push_demangle_node(&mut self, _: cpp_demangle::DemangleNodeType) {
        self.parts += 1;
    }

    fn write_string(&mut self, s: &str) -> std::fmt::Result {
        if self.text.len() + s.len() > MAX_SHOWN || self.parts > MAX_PARTS {
            return Err(std::fmt::Error);
        }
        self.text.push_str(s);
        Ok(())
    }
}

#[derive(Default)]
struct Written(Limited);

impl std::fmt::Write for Written {
    fn write_str(&mut self, s: &str) -> std::fmt::Result {
        cpp_demangle::DemangleWrite::write_string(&mut self.0, s)
    }
}

#[cfg(test)]
mod tests;
