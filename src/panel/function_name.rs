//! Names of functions in a few cells: they lose what tells least, and their own part last.

use std::borrow::Cow;

use super::text::{fit, width};
use crate::symbols::names::demangle::arguments;

/// Fits a function's name into some cells. A C++ or Rust name loses its arguments, then those of its templates, then its
/// namespaces and classes, the outermost first; a Java method its signature, package and class. Only what is left, and
/// other names, lose their middle.
pub(crate) fn fit_function(name: &str, cells: usize) -> Cow<'_, str> {
    if width(name) <= cells {
        return Cow::Borrowed(name);
    }
    let forms = match java_method(name) {
        Some(method) => java_forms(method),
        None if name.contains("::") => scoped_forms(name),
        None => return fit(name, cells),
    };
    let last = forms.last().cloned().unwrap_or_default();
    let form = forms.into_iter().find(|form| width(form) <= cells).unwrap_or(last);
    Cow::Owned(fit(&form, cells).into_owned())
}

fn java_forms(method: &str) -> Vec<String> {
    let last = |n: usize| method.rmatch_indices('.').nth(n).map_or(method, |(at, _)| &method[at + 1..]);
    [method, last(1), last(0)].map(str::to_owned).into()
}

/// The package, class and name of a method in a signature such as `long shop.Cart.price(int, java.lang.String)`.
fn java_method(signature: &str) -> Option<&str> {
    let (head, parameters) = signature.split_once('(')?;
    let method = head.rsplit(' ').next()?;
    (parameters.ends_with(')') && method.contains('.') && !signature.contains("::")).then_some(method)
}

/// Returns the forms of a name with `::`, in order of decreasing length.
fn scoped_forms(name: &str) -> Vec<String> {
    // The file of an interpreted function is behind a blank.
    let end = arguments(name).filter(|at| !name[..*at].ends_with(' '));
    let head = &name[..end.unwrap_or(name.len())];
    let plain = without_templates(head);
    let mut forms = vec![head.to_owned(), plain.clone()];
    forms.extend(scopes(&plain).into_iter().map(|at| plain[at..].to_owned()));
    let own = forms.last().and_then(|last| last.strip_suffix(CUT)).map(str::to_owned);
    forms.extend(own.filter(|own| !own.is_empty()));
    forms
}

/// The arguments of a template that were omitted.
const CUT: &str = "<…>";

/// Replaces the arguments of templates, except for the signs of operators.
fn without_templates(name: &str) -> String {
    let (mut out, mut depth, mut at) = (String::new(), 0usize, 0);
    while let Some(c) = name[at..].chars().next() {
        let (before, rest) = name.split_at(at);
        let is_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if let Some(sign) = rest.strip_prefix("operator").filter(|_| depth == 0 && !is_word) {
            let sign = sign.find(|c| !"<>=-".contains(c)).unwrap_or(sign.len());
            let end = "operator".len() + sign;
            out.push_str(&rest[..end]);
            at += end;
            continue;
        }
        match c {
            '<' => {
                out.push_str(if depth == 0 { CUT } else { "" });
                depth += 1;
            }
            '>' if depth > 0 => depth -= usize::from(!before.ends_with('-')),
            c if depth == 0 => out.push(c),
            _ => {}
        }
        at += c.len_utf8();
    }
    out
}

/// Returns where the parts of a path begin, without the first.
fn scopes(name: &str) -> Vec<usize> {
    let mut depth = 0usize;
    let mut starts = Vec::new();
    for (at, c) in name.char_indices() {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && name[..at].ends_with(':') => starts.push(at + 1),
            _ => {}
        }
    }
    starts.retain(|at| *at < name.len());
    starts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn java_methods_keep_their_names() {
        let signature = "long com.shop.Svc.priceBasket(int, java.lang.String)";
        let fitted = |cells| fit_function(signature, cells);
        assert_eq!(fitted(99), signature);
        assert_eq!(fitted(30), "com.shop.Svc.priceBasket");
        assert_eq!(fitted(15), "Svc.priceBasket");
        assert_eq!(fitted(12), "priceBasket");
        assert_eq!(fitted(6), "pr…ket");
    }

    #[test]
    fn the_own_name_of_a_function_is_cut_last() {
        let name = "v8::internal::LookupIterator::LookupInRegularHolder<true>(v8::internal::Map)";
        let fitted = |cells| fit_function(name, cells);
        assert_eq!(fitted(62), "v8::internal::LookupIterator::LookupInRegularHolder<true>");
        assert_eq!(fitted(56), "v8::internal::LookupIterator::LookupInRegularHolder<…>");
        assert_eq!(fitted(45), "LookupIterator::LookupInRegularHolder<…>");
        assert_eq!(fitted(30), "LookupInRegularHolder<…>");
        assert_eq!(fitted(22), "LookupInRegularHolder");
        assert_eq!(fitted(9), "Look…lder");
        for (name, cells, want) in [
            ("<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend", 20, "<…>::extend"),
            ("a::b::operator<< <char>(A, B)", 14, "operator<< <…>"),
            ("a::b::operator->", 12, "operator->"),
            ("main::{lambda(a::b)#1}::operator()(int) const", 30, "{lambda(a::b)#1}::operator()"),
            ("Shop::Cart::hot_compute (shop.pl)", 24, "hot_compute (shop.pl)"),
            ("(anonymous namespace)::parse(int)", 10, "parse"),
            ("do_syscall_64_with_a_long_name", 9, "do_s…name"),
        ] {
            assert_eq!(fit_function(name, cells), want, "{name}");
        }
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn no_name_is_too_wide(name in "([a-c漢.]{0,3}|::|<|>|\\(|\\)|operator| |\\{|\\}|->){0,12}", cells in 0usize..20) {
            prop_assert!(width(&fit_function(&name, cells)) <= cells);
        }
    }
}
