//! Rewrites or drops the parts of C++ names that the library cannot parse: modules, `operator co_await`, structured
//! bindings, template parameters of lambdas, constraints, named fields of unions in arguments, unified constructors,
//! and class members in the expression of a return type (as GCC writes them). Most of these follow the function's name.

/// Prefixes that replace what the library cannot print. [`restored`] replaces them again.
const MODULE: &str = "__pf_module_";
const PARTITION: &str = "__pf_partition_";
const LITERAL: &str = "__pf_literal_";
const AWAIT: &str = "__pf_await_";
const BINDING: &str = "__pf_binding_";
const FIELD: &str = "__pf_field_";
/// Between the names of a structured binding.
const AND: &str = "__pf_and_";

/// How many possible ends of a name are tried when its parameters are dropped.
const TRIALS: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repair {
    pub(super) name: String,
    pub(super) lacks_parameters: bool,
}

/// Returns whether the library misreads a literal operator instead of failing.
pub(super) fn is_misread(name: &str) -> bool {
    let has_literal = |(at, _): (usize, &str)| name[at + 2..].starts_with(|c: char| c.is_ascii_digit());
    name.is_ascii() && name.match_indices("li").any(has_literal)
}

/// Returns other spellings of a name, the most faithful first.
pub(super) fn ways(name: &str) -> Vec<Repair> {
    if !name.is_ascii() {
        return Vec::new();
    }
    let whole = |name: String| Repair { name, lacks_parameters: false };
    // `di1a` may also be a double, an int and a class `a`.
    let mut named: Vec<String> = Vec::new();
    for has_fields in [true, false] {
        let (rewritten, is_bare) = rewritten(name, has_fields);
        named.extend(if is_bare { nested(&rewritten) } else { vec![rewritten] });
    }
    named.dedup();
    let mut out: Vec<Repair> = named.iter().cloned().map(whole).collect();
    for name in &named {
        // A constraint is at the end.
        out.extend(before(name, "Q").map(|end| whole(name[..end].to_owned())));
    }
    for name in &named {
        // A return type whose expression names a class member: the function's own name ends before it.
        let ends = before(name, "E").map(|at| at + 1).filter(|end| name[*end..].contains("sr"));
        out.extend(ends.map(|end| Repair { name: name[..end].to_owned(), lacks_parameters: true }));
    }
    out
}

/// Returns the last positions of a letter.
fn before<'a>(name: &'a str, letter: &'a str) -> impl Iterator<Item = usize> + 'a {
    name.rmatch_indices(letter).take(TRIALS).map(|(at, _)| at).filter(|at| *at > 3)
}

/// Splits a length-prefixed name off a text. Returns the name and the rest.
fn source_name(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let length: usize = text.get(..digits)?.parse().ok()?;
    let rest = &text[digits..];
    Some((rest.get(..length)?, rest.get(length..)?))
}

/// Splits the names of a structured binding off a text that begins with it.
fn binding(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut names, mut rest) = (Vec::new(), text.strip_prefix("DC")?);
    while let Some((name, behind)) = source_name(rest) {
        names.push(name);
        rest = behind;
    }
    let rest = rest.strip_prefix('E').filter(|_| !names.is_empty())?;
    Some((names, rest))
}

/// Splits a substitution off a text: `St`, `S_`, `S0_`. Returns the rest.
fn substitution(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('S')?;
    let end = inner.find(|c: char| !c.is_ascii_digit() && !c.is_ascii_uppercase()).unwrap_or(inner.len());
    inner[end..].strip_prefix(['_', 't'])
}

/// Splits a nested name without template arguments off a text that begins after its `N`. Returns what follows its `E`.
fn nested_name(text: &str) -> Option<&str> {
    let mut rest = text;
    loop {
        match source_name(rest).map(|(_, behind)| behind).or_else(|| substitution(rest)) {
            Some(behind) => rest = behind,
            None => return rest.strip_prefix('E'),
        }
    }
}

/// Splits the constraint of a template parameter off a text that begins with it: a concept's name without arguments.
fn constraint(text: &str) -> Option<&str> {
    nested_name(text.strip_prefix("TkN")?)
}

/// Splits a literal off a text that begins with it: its type, and a number, whose digits are not the length of a name.
fn literal(text: &str) -> Option<(&str, &str)> {
    let of_type = text.strip_prefix('L')?.trim_start_matches(['P', 'R', 'O', 'K']);
    let number = if let Some(inner) = of_type.strip_prefix('N') {
        nested_name(inner)?
    } else if let Some((_, behind)) = source_name(of_type) {
        behind
    } else if let Some(behind) = substitution(of_type) {
        source_name(behind).map_or(behind, |(_, behind)| behind)
    } else {
        let builtin = of_type.strip_prefix('D').unwrap_or(of_type);
        builtin.strip_prefix(|c: char| c.is_ascii_lowercase())?
    };
    // Floating-point numbers are hexadecimal.
    let digits = number.strip_prefix('n').unwrap_or(number);
    let behind = digits.trim_start_matches(|c: char| c.is_ascii_digit() || ('a'..='f').contains(&c));
    let behind = behind.strip_prefix('E').filter(|behind| behind.len() + 1 < digits.len())?;
    Some((&text[..text.len() - behind.len()], behind))
}

/// Rewrites the parts of a name that the library does not support. Fields of unions become assignments, or are dropped.
/// Also returns whether the name is that of a module's function without a namespace, which must become a nested name.
fn rewritten(name: &str, has_fields: bool) -> (String, bool) {
    let mut out = String::with_capacity(name.len() + 32);
    let put = |out: &mut String, prefix: &str, name: &str| {
        out.push_str(&format!("{}{prefix}{name}", prefix.len() + name.len()));
    };
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        if let Some((own, behind)) = source_name(rest) {
            put(&mut out, "", own);
            rest = behind;
            continue;
        }
        if let Some((own, behind)) = literal(rest) {
            out.push_str(own);
            rest = behind;
            continue;
        }
        let named = |mark: &str| rest.strip_prefix(mark).and_then(source_name);
        let in_lambda = out.ends_with("Ul") || out.ends_with("UlT_");
        if let Some((own, behind)) = named("WP") {
            put(&mut out, PARTITION, own);
            rest = behind;
        } else if let Some((own, behind)) = named("W") {
            put(&mut out, MODULE, own);
            rest = behind;
        } else if let Some((own, behind)) = named("li") {
            put(&mut out, LITERAL, own);
            rest = behind;
        } else if let Some((own, behind)) = named("di") {
            // The active field of a union.
            if has_fields {
                out.push_str("aS");
                put(&mut out, FIELD, own);
            }
            rest = behind;
        } else if let Some((_, behind)) = named("Tk").or_else(|| named("TkSt")) {
            // The concept of a parameter.
            rest = behind;
        } else if let Some((names, behind)) = binding(rest) {
            put(&mut out, BINDING, &names.join(AND));
            rest = behind;
        } else if let Some(behind) = constraint(rest) {
            rest = behind;
        } else if rest.starts_with("awE") || rest.starts_with("awI") {
            put(&mut out, AWAIT, "");
            rest = &rest[2..];
        } else if in_lambda && ["Ty", "Tn", "Tp"].iter().any(|mark| rest.starts_with(mark)) {
            // The type of a value follows.
            let is_value = rest.starts_with("Tn") && rest[2..].starts_with(|c: char| c.is_ascii_lowercase());
            rest = &rest[if is_value { 3 } else { 2 }..];
        } else if let Some(kind) = ["C4", "C5", "D4", "D5"].iter().find(|kind| rest.starts_with(**kind)) {
            out.push_str(&format!("{}1", &kind[..1]));
            rest = &rest[2..];
        } else if rest.starts_with("CI4") || rest.starts_with("CI5") {
            out.push_str("CI1");
            rest = &rest[3..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    (out, name.strip_prefix("_ZW").is_some_and(|rest| rest.starts_with(|c: char| c == 'P' || c.is_ascii_digit())))
}

/// Returns a name that begins with its module as nested names, which end after the name or its template arguments.
fn nested(name: &str) -> Vec<String> {
    let Some(parts) = name.strip_prefix("_Z") else { return Vec::new() };
    let mut rest = parts;
    while let Some((own, behind)) = source_name(rest) {
        rest = behind;
        if !own.starts_with(MODULE) && !own.starts_with(PARTITION) {
            break;
        }
    }
    let at = parts.len() - rest.len();
    let ends: Vec<usize> = match rest.starts_with('I') {
        true => rest.match_indices('E').take(TRIALS).map(|(end, _)| at + end + 1).collect(),
        false => vec![at],
    };
    ends.into_iter().map(|end| format!("_ZN{}E{}", &parts[..end], &parts[end..])).collect()
}

/// Returns the length of the parentheses that a text begins with.
fn parentheses(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Writes the assignments to fields like c++filt: `.a=(1)`, `.b=B{1}`.
fn with_fields(mut name: String) -> String {
    let mark = format!("({FIELD}");
    // From the end, because a field's value may have fields.
    while let Some(at) = name.rfind(&mark) {
        let Some(value) = name[at..].find(")=(").map(|end| at + end + 2) else { return name };
        let Some(end) = parentheses(&name[value..]).map(|len| value + len) else { return name };
        let inner = &name[value + 1..end - 1];
        let inner = if inner.ends_with('}') { inner } else { &name[value..end] };
        name = format!("{}.{}={inner}{}", &name[..at], &name[at + mark.len()..value - 2], &name[end..]);
    }
    name
}

/// Returns whether nothing that was rewritten is left in a readable name. Damaged names may have it inside of others.
pub(super) fn is_restored(name: &str) -> bool {
    !name.contains(FIELD)
}

/// Restores what was rewritten in a readable name. Results are like `mm::f@mod.part`, `operator"" _km`.
pub(super) fn restored(name: String) -> String {
    if !name.contains("__pf_") {
        return name;
    }
    let is_own = |c: char| c.is_alphanumeric() || "_~$".contains(c);
    let name = with_fields(name).replace(AWAIT, "operator co_await").replace(LITERAL, "operator\"\" ");
    let (mut out, mut module) = (String::new(), String::new());
    let mut rest = name.as_str();
    while !rest.is_empty() {
        let end = rest.find(|c| !is_own(c)).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        let part = word.strip_prefix(MODULE).map(|part| (part, ".")).or(word.strip_prefix(PARTITION).map(|p| (p, ":")));
        match part {
            Some((part, mark)) => {
                module.push_str(if module.is_empty() { "@" } else { mark });
                module.push_str(part);
                rest = behind.strip_prefix("::").unwrap_or(behind);
            }
            None => {
                match word.strip_prefix(BINDING) {
                    Some(names) => out.push_str(&format!("[{}]", names.replace(AND, ", "))),
                    None => out.push_str(word),
                }
                if !word.is_empty() {
                    out.push_str(&std::mem::take(&mut module));
                }
                let mark = behind.chars().next();
                out.extend(mark);
                rest = &behind[mark.map_or(0, char::len_utf8)..];
            }
        }
    }
    out + &module
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_written_another_way() {
        for (name, want) in [
            ("_ZN2mmW3modW4part1S1hEv", "_ZN2mm15__pf_module_mod16__pf_module_part1S1hEv"),
            ("_ZN1AC5Ev", "_ZN1AC1Ev"),
            ("_ZN2C5D5Ev", "_ZN2C5D1Ev"),
            ("_Z3fooILi1EEvv", "_Z3fooILi1EEvv"),
            ("_ZNK3fooUlTyT_E_clIiEEDaS0_", "_ZNK3fooUlT_E_clIiEEDaS0_"),
            ("_Z99short", "_Z99short"),
            ("_Z1fITkSt8integraliEvT_", "_Z1fIiEvT_"),
            ("_Z1fITkN2ns1CEiEvT_", "_Z1fIiEvT_"),
            ("_Z1fITkNSt1CEiEvT_", "_Z1fIiEvT_"),
            ("_Z1fITkN2nsI", "_Z1fITkN2nsI"),
            ("_ZNK3fooUlTniTyT0_E_clILi3EiEEDaS0_", "_ZNK3fooUlT0_E_clILi3EiEEDaS0_"),
            ("_ZN2nsDC1a2bcEE", "_ZN2ns25__pf_binding_a__pf_and_bcE"),
            ("_ZDCE", "_ZDCE"),
        ] {
            assert_eq!(rewritten(name, true).0, want);
        }
        for (name, rest) in [
            ("Lf3fc00000E1x", Some("1x")),
            ("Lin12EE", Some("E")),
            ("LN2ns1KE10E", Some("")),
            ("LNSt2ns1KE10E", Some("")),
            ("LS0_10E1x", Some("1x")),
            ("LSt4byte10E", Some("")),
            ("LDn0E", Some("")),
            ("LPKi0E", Some("")),
            ("LiE", None),
            ("L4glob", None),
            ("L_Z4globE", None),
            ("L", None),
        ] {
            assert_eq!(literal(name).map(|(_, rest)| rest), rest, "{name}");
        }
        let fields = [true, false].map(|has_fields| rewritten("_Z1fIXtl1Udi1aLi1EEEEvv", has_fields).0);
        assert_eq!(fields, ["_Z1fIXtl1UaS12__pf_field_aLi1EEEEvv", "_Z1fIXtl1ULi1EEEEvv"]);
        assert_eq!(nested("_Z15__pf_module_mod4userv"), ["_ZN15__pf_module_mod4userEv"]);
        assert!(ways("_Zü").is_empty() && ways("").len() == 1 && ways("_Z").len() == 1);
    }

    #[test]
    fn what_was_written_another_way_is_put_back() {
        for (name, want) in [
            ("f(int)", "f(int)"),
            ("mm::__pf_module_mod::__pf_module_part::S::h()", "mm::S@mod.part::h()"),
            ("__pf_module_a::__pf_partition_b::f(x)", "f@a:b(x)"),
            ("__pf_literal__km(unsigned long long)", "operator\"\" _km(unsigned long long)"),
            ("foo::__pf_await_()", "foo::operator co_await()"),
            ("__pf_module_", "@"),
            ("ns::__pf_binding_a__pf_and_bc", "ns::[a, bc]"),
            ("f<U{(__pf_field_a)=(3)}>", "f<U{.a=(3)}>"),
            ("f<U{(__pf_field_a)=(V{(__pf_field_b)=((float)[0])})}>", "f<U{.a=V{.b=((float)[0])}}>"),
            ("f<U{(__pf_field_a)=(3", "f<U{(__pf_field_a)=(3"),
            ("f<U{(__pf_field_", "f<U{(__pf_field_"),
        ] {
            assert_eq!(restored(name.to_owned()), want);
        }
    }
}
