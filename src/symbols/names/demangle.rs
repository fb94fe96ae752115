//! Demangles names: Rust (v0 and legacy, without the hash) and C++. Other names stay unchanged.

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
        None => text.into_owned(),
    }
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
    ways.iter().find_map(|way| printed(what, &way.name, form).map(|name| Some(repaired(name?, way, form))))?
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
    let name = out.text;
    // The library writes a comma before an empty parameter pack.
    let mut name = if name.contains(", >") { name.replace(", >", ">") } else { name };
    if form != NameForm::Full {
        name.truncate(unqualified(&name).len());
    }
    Some(Some(if name.contains(')') { with_suffixes(&name) } else { name }))
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
mod tests {
    use super::*;
    use crate::damage;

    #[test]
    fn each_language() {
        for (raw, want) in [
            ("malloc", "malloc"),
            ("_ZN3std2io5Write9write_all17h0123456789abcdefE", "std::io::Write::write_all"),
            ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
            ("_ZN3foo3barEi", "foo::bar"),
            ("_ZN4llvm11PassManagerINS_8FunctionEJEE3runEv", "llvm::PassManager<llvm::Function>::run"),
            ("_ZNK3foo3barEv", "foo::bar"),
            ("_ZNKO3fooaNERKS_", "foo::operator&="),
            ("_ZNR3fooadEv", "foo::operator&"),
            ("_ZNK3fooaaEv", "foo::operator&&"),
            ("_Z", "_Z"),
            ("_ZN1AILm16EE1fEv", "A<16ul>::f"),
            ("_ZN1AILj3ELln4ELx5ELy6ELi7ELc97ELb1EE1fEv", "A<3u, -4l, 5ll, 6ull, 7, (char)97, true>::f"),
            ("_ZNSt6vectorIiSaIiEE9push_backERKi@plt", "std::vector<int, std::allocator<int> >::push_back@plt"),
            ("_ZN3foo3barEi@@VERS_1", "foo::bar@@VERS_1"),
            ("_ZThn8_N1X1fEv", "non-virtual thunk to X::f"),
            ("_ZThn16_N1a1bD0Ev", "non-virtual thunk to a::b::~b"),
            ("_ZTv0_n24_NK1X1fEv", "virtual thunk to X::f"),
            ("_ZTch0_v0_n24_N1X1fEv", "covariant return thunk to X::f"),
            // Names that c++filt demangles and the library does not.
            ("_ZN2mmW3modW4part1fIiEET_S3_", "mm::f@mod.part<int>"),
            ("_ZN2mmW3modW4part1S1hEv", "mm::S@mod.part::h"),
            ("_ZW3modW4part4userv", "user@mod.part"),
            ("_ZGIW3modW4part", "initializer for module mod.part"),
            ("_ZN3app2unIXtlNS_1UEdi1aLi1EEEEEiv", "app::un<app::U{1}>"),
            ("_ZN3app1DD5Ev", "app::D::~D"),
            ("_ZDC2x12x2E", "[x1, x2]"),
            ("_ZN2nsDC5alpha4betaEE", "ns::[alpha, beta]"),
            ("_GLOBAL__sub_I__ZDC2x12x2E", "global constructors keyed to [x1, x2]"),
            ("_ZNSaIiEC5Ev", "std::allocator<int>::allocator"),
            ("_ZN3fooawEv", "foo::operator co_await"),
            ("_Zli3_kmy", "operator\"\" _km"),
            ("_ZN3appli3_kmEy", "app::operator\"\" _km"),
            ("_ZZN3foo3barEvENKUlTyT_E_clIiEEDaS0_", "foo::bar()::{lambda(auto:1)#1}::operator()<int>"),
            ("_Z1gITkSt8integraliEvT_", "g<int>"),
            ("_ZN3foo1fINS_1TEEEvT_Q4testIS1_E", "foo::f<foo::T>"),
            (
                "_ZSt4swapIiENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21is_move_constructibleIS4_\
                 ESt18is_move_assignableIS4_EEE5valueEvE4typeERS4_SE_",
                "std::swap<int>",
            ),
            ("_GLOBAL__sub_I__ZN3foo3barEi", "global constructors keyed to foo::bar"),
            ("_GLOBAL__D__ZN3foo3barEi", "global destructors keyed to foo::bar"),
            ("_GLOBAL__sub_I_main.cpp", "_GLOBAL__sub_I_main.cpp"),
            ("_ZGA1fv", "hidden alias for f"),
            ("___Z3foov_block_invoke_2", "invocation function for block in foo"),
            ("___Z3foov_block_invoke_x", "___Z3foov_block_invoke_x"),
            // Suffixes that compilers append.
            ("_ZN3foo3barEi.part.0.isra.1.constprop.2.cold", "foo::bar"),
            ("_ZN3foo3barEi.llvm.1234567890", "foo::bar"),
            ("_ZN3foo3barB5cxx11Ev", "foo::bar[abi:cxx11]"),
            ("_RNCNvCsgStHSCytQ6I_7mycrate4main0B3_", "mycrate::main::{closure#0}"),
            ("_RNvCs1234_7mycrate3foo.llvm.123", "mycrate::foo"),
            ("_Z3fooGARBAGE", "_Z3fooGARBAGE"),
            ("_ZThn8_", "_ZThn8_"),
            ("_ZTh", "_ZTh"),
            ("_ZTcv0_", "_ZTcv0_"),
            ("memcpy@plt", "memcpy@plt"),
            ("__pfx_schedule", "__pfx_schedule"),
        ] {
            assert_eq!(demangle(raw.as_bytes(), NameForm::Plain), want);
        }
        assert_eq!(demangle(b"\xff\x00x", NameForm::Plain), "\u{fffd}\0x");
    }

    #[test]
    fn short_plain_full_and_raw() {
        let raw = b"_ZN4shop6EngineIiE4stepEif";
        let of = |form| demangle(raw, form);
        assert_eq!(of(NameForm::Short), "shop::Engine<…>::step");
        assert_eq!(of(NameForm::Plain), "shop::Engine<int>::step");
        assert_eq!(of(NameForm::Full), "shop::Engine<int>::step(int, float)");
        assert_eq!(of(NameForm::Raw).as_bytes(), raw);
        for (name, want) in [
            ("<ledger::Book<u32> as ledger::Post>::post", "<ledger::Book<…> as ledger::Post>::post"),
            ("std::map<int, std::vector<char>>::find", "std::map<…>::find"),
            ("Money::operator<", "Money::operator<"),
            ("Money::operator<< <char>", "Money::operator<< <…>"),
            ("a::operator->", "a::operator->"),
            ("f<&(a->b)>::g", "f<…>::g"),
            ("cut<short", "cut<short"),
        ] {
            assert_eq!(without_arguments(name), want);
        }
    }

    #[test]
    fn arguments_begin_outside_of_templates_and_lambdas() {
        for (name, want) in [
            ("f", "f"),
            ("f(int, char)", "f"),
            ("(anonymous namespace)::g(int)", "(anonymous namespace)::g"),
            ("A<(char)97>::f", "A<(char)97>::f"),
            ("A<void (int)>::g(int) const", "A<void (int)>::g"),
            ("Foo::operator()(int) const", "Foo::operator()"),
            ("main::{lambda(int)#1}::operator()(int) const", "main::{lambda(int)#1}::operator()"),
            ("f(int)::Local::g(char)", "f(int)::Local::g"),
            ("f(int) const::Local::g(char)", "f(int) const::Local::g"),
            ("operator<(A, B)", "operator<"),
            ("operator<< <char>(A, B)", "operator<< <char>"),
            ("my_operator()", "my_operator"),
            ("A::operator->()", "A::operator->"),
            ("f<&(a->b)>(int)", "f<&(a->b)>"),
            ("(unknown)", "(unknown)"),
            ("cut(short", "cut"),
        ] {
            assert_eq!(&name[..arguments(name).unwrap_or(name.len())], want);
        }
    }

    /// Short names whose readable form has hundreds of megabytes. Each type contains the last one twice.
    #[test]
    fn a_name_that_doubles_stays_as_it_is() {
        let mut cpp = "_Z1fI1aEvSt4pairIiiE".to_owned();
        let id = |n: usize| match n {
            0 => "S_".to_owned(),
            n => format!("S{}_", char::from_digit(n as u32 - 1, 36).expect("a digit").to_ascii_uppercase()),
        };
        (3..36).step_by(2).for_each(|n| cpp += &format!("St4pairI{0}{0}E", id(n)));
        // Nested arrays, `[[[T; 2]; 2]; 2]`, of back references.
        let rust = |depth: usize| {
            let mut name = "_RINvC1a1fTjjE".to_owned();
            let mut last = 7;
            for _ in 0..depth {
                let place = name.len() - 2;
                let back = |at: usize| format!("B{}", base_62(at));
                name += &format!("T{0}{0}E", back(last));
                last = place;
            }
            name + "E"
        };
        let from = std::time::Instant::now();
        for name in [cpp.clone(), rust(30)] {
            for form in [NameForm::Short, NameForm::Plain, NameForm::Full] {
                let shown = demangle(name.as_bytes(), form);
                assert!(shown.len() <= MAX_SHOWN, "{}", shown.len());
            }
        }
        assert_eq!(demangle(cpp.as_bytes(), NameForm::Full), cpp);
        assert!(demangle(rust(2).as_bytes(), NameForm::Plain).starts_with("a::f::<(usize, usize), ("), "{}", rust(2));
        assert_eq!(demangle(rust(30).as_bytes(), NameForm::Plain), rust(30));
        assert!(from.elapsed() < std::time::Duration::from_secs(10), "{:?}", from.elapsed());
        let short = demangle(b"_Z1fSt4pairIiiES_IS0_S0_E", NameForm::Full);
        assert!(short.starts_with("f("), "{short}");
        assert_eq!(demangle(&[b'x'; 1 << 20], NameForm::Plain).len(), MAX_SHOWN);
    }

    /// Encodes a number as Rust's names do: 0 is `_`, 1 is `0_`.
    fn base_62(n: usize) -> String {
        let digit = |d: usize| b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"[d] as char;
        match n {
            0 => "_".to_owned(),
            n if n <= 62 => format!("{}_", digit(n - 1)),
            n => format!("{}{}_", digit((n - 1) / 62), digit((n - 1) % 62)),
        }
    }

    #[test]
    fn no_name_panics() {
        const NAMES: &[&str] = &[
            "_ZN3std2io5Write9write_all17h0123456789abcdefE",
            "_RNvCskwGfYPst2Cb_3foo16example_function",
            "_RINvNtCs1234_7mycrate3foo3barNvYNtB4_3BazNtB4_4Quux3quxE",
            "_ZN4llvm11PassManagerINS_8FunctionEJEE3runEv",
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            "_ZZN4shop6EngineIiE4stepEifENKUlvE_clEv",
            "_ZNSt3mapISsSt6vectorIcSaIcEESt4lessISsEE4findERKSs",
            "_ZlsRSoRK5Money",
            "_ZThn16_N1a1bD0Ev",
            "_ZW3modW4part1fIiEET_S3_",
            "_ZN3foo1fINS_1TEEEvT_Q4testIS1_E",
            "_GLOBAL__sub_I__ZN3appli3_kmEy",
            "___Z3foov_block_invoke_2",
            "_ZGIW3modW4part",
        ];
        damage::reaching(512, 15, damage::texts(NAMES), |name| {
            for form in [NameForm::Short, NameForm::Full] {
                demangle(name.as_bytes(), form);
            }
            arguments(&name);
            demangle(name.as_bytes(), NameForm::Plain) != name
        });
    }
}
