//! Readable names: Rust (v0 and legacy, hash hidden) and C++ (without parameter lists, as perf
//! prints them). Other names stay as they are.

/// Names longer than this stay mangled: demangling can expand hostile input without end.
const MAX: usize = 4096;

/// The readable form of a symbol name.
pub fn demangle(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    if raw.len() > MAX {
        return text.into_owned();
    }
    if let Ok(name) = rustc_demangle::try_demangle(&text) {
        let out = limited(format_args!("{name:#}"));
        return out.unwrap_or_else(|| text.into_owned());
    }
    if text.starts_with("_Z") || text.starts_with("__Z") {
        let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
        let parse = cpp_demangle::ParseOptions::default().recursion_limit(256);
        if let Ok(symbol) = cpp_demangle::Symbol::new_with_options(text.as_bytes(), &parse)
            && let Ok(name) = symbol.demangle_with_options(&options)
        {
            return name;
        }
    }
    text.into_owned()
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
            ("_Z", "_Z"),
            ("__pfx_schedule", "__pfx_schedule"),
        ] {
            assert_eq!(demangle(raw.as_bytes()), want);
        }
        assert_eq!(demangle(b"\xff\x00x"), "\u{fffd}\0x");
    }

    proptest! {
        #[test]
        fn no_name_panics(tail in "[A-Za-z0-9_$.]{0,60}") {
            for head in ["_Z", "_ZN", "_R", ""] {
                demangle(format!("{head}{tail}").as_bytes());
            }
        }
    }
}
