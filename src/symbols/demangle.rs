//! Readable names: Rust (v0 and legacy, hash hidden) and C++. Other names stay as they are.

/// Names longer than this stay mangled: demangling can expand hostile input without end.
const MAX: usize = 4096;

/// How readable names are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As they stand in the symbol table.
    Raw,
    /// Without parameter lists, and `<…>` for what a template or generic function was made of.
    Short,
    /// Without parameter lists, as perf prints them.
    #[default]
    Plain,
    /// With parameter lists and return types.
    Full,
}

impl Form {
    /// The next one on the screen; raw names stay raw.
    pub fn next(self) -> Self {
        match self {
            Self::Raw => Self::Raw,
            Self::Short => Self::Plain,
            Self::Plain => Self::Full,
            Self::Full => Self::Short,
        }
    }
}

/// The readable form of a symbol name.
pub fn demangle(raw: &[u8], form: Form) -> String {
    let text = String::from_utf8_lossy(raw);
    if form == Form::Raw || raw.len() > MAX {
        return text.into_owned();
    }
    let name = rust(&text).or_else(|| cpp(&text, form));
    match name {
        Some(name) if form == Form::Short => without_arguments(&name),
        Some(name) => name,
        None => text.into_owned(),
    }
}

fn rust(text: &str) -> Option<String> {
    let name = rustc_demangle::try_demangle(text).ok()?;
    limited(format_args!("{name:#}"))
}

fn cpp(text: &str, form: Form) -> Option<String> {
    if !text.starts_with("_Z") && !text.starts_with("__Z") {
        return None;
    }
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(256);
    let symbol = cpp_demangle::Symbol::new_with_options(text.as_bytes(), &parse).ok()?;
    let options = cpp_demangle::DemangleOptions::new();
    let options = if form == Form::Full { options } else { options.no_params().no_return_type() };
    let name = symbol.demangle_with_options(&options).ok().filter(|name| name.len() <= 4 * MAX)?;
    // The library writes a comma before an empty parameter pack.
    Some(if name.contains(", >") { name.replace(", >", ">") } else { name })
}

/// `<…>` for each outermost pair of angle brackets that does not begin a part of the path: `<T as Trait>::f`
/// keeps its beginning, operators keep theirs.
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
                    // What stands first is the type itself, not what it was made of.
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

/// Formats into at most 16 KiB; `None` when it would be more.
fn limited(args: std::fmt::Arguments<'_>) -> Option<String> {
    struct Limited(String);
    impl std::fmt::Write for Limited {
        fn write_str(&mut self, s: &str) -> std::fmt::Result {
            if self.0.len() + s.len() > 4 * MAX {
                return Err(std::fmt::Error);
            }
            self.0.push_str(s);
            Ok(())
        }
    }
    let mut out = Limited(String::new());
    std::fmt::write(&mut out, args).ok()?;
    Some(out.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_language() {
        for (raw, want) in [
            ("malloc", "malloc"),
            ("_ZN3std2io5Write9write_all17h0123456789abcdefE", "std::io::Write::write_all"),
            ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
            ("_ZN3foo3barEi", "foo::bar"),
            ("_ZN4llvm11PassManagerINS_8FunctionEJEE3runEv", "llvm::PassManager<llvm::Function>::run"),
            ("_Z", "_Z"),
            ("__pfx_schedule", "__pfx_schedule"),
        ] {
            assert_eq!(demangle(raw.as_bytes(), Form::Plain), want);
        }
        assert_eq!(demangle(b"\xff\x00x", Form::Plain), "\u{fffd}\0x");
    }

    #[test]
    fn short_plain_full_and_raw() {
        let raw = b"_ZN4shop6EngineIiE4stepEif";
        let of = |form| demangle(raw, form);
        assert_eq!(of(Form::Short), "shop::Engine<…>::step");
        assert_eq!(of(Form::Plain), "shop::Engine<int>::step");
        assert_eq!(of(Form::Full), "shop::Engine<int>::step(int, float)");
        assert_eq!(of(Form::Raw).as_bytes(), raw);
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

    proptest! {
        #[test]
        fn no_name_panics(tail in "[A-Za-z0-9_$.]{0,60}") {
            for head in ["_Z", "_ZN", "_R", ""] {
                for form in [Form::Short, Form::Plain, Form::Full] {
                    demangle(format!("{head}{tail}").as_bytes(), form);
                }
            }
        }
    }
}
