//! A query of a store: `TYPE{LABEL="VALUE",…}`, whose selector is in the store's own language.

/// The profiles to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProfileQuery {
    /// A profile type of the store, or the beginning of one: `process_cpu:cpu`.
    pub(super) kind: String,
    /// The condition on labels, with its braces.
    pub(super) selector: String,
}

/// A condition on a label, to explain an empty result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LabelCondition {
    pub(super) label: String,
    /// The value, if it must be equal.
    pub(super) value: Option<String>,
}

/// The end of an incomplete query.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConditionPart<'a> {
    /// After a whole condition.
    End,
    /// The beginning of a label.
    Label(&'a str),
    /// The beginning of a value within its quotes.
    Value { label: &'a str, begun: &'a str },
}

impl ProfileQuery {
    /// Splits a query; `None` if it has another form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (kind, selector) = text.split_at(text.find('{').unwrap_or(text.len()));
        let kind = kind.trim();
        let is_closed = selector.is_empty() || selector.ends_with('}');
        let selector = if selector.is_empty() { "{}" } else { selector };
        let is_kind = !kind.is_empty() && !kind.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
        (is_kind && is_closed).then(|| Self { kind: kind.to_owned(), selector: selector.to_owned() })
    }

    /// Returns the store's types that it may mean: the type itself, or all that begin with it.
    pub(super) fn matches<'a>(&self, types: &'a [String]) -> Vec<&'a String> {
        if let Some(same) = types.iter().find(|one| **one == self.kind) {
            return vec![same];
        }
        let kind = self.kind.trim_end_matches(':');
        let begins = |one: &&String| one.strip_prefix(kind).is_some_and(|rest| rest.starts_with(':'));
        types.iter().filter(begins).collect()
    }

    /// Returns the conditions of the selector, up to the first that has another form.
    pub(super) fn conditions(&self) -> Vec<LabelCondition> {
        let mut found = Vec::new();
        let mut rest = self.selector.trim_start_matches('{');
        while let Some((condition, after)) = condition(rest.trim_start_matches([' ', ',', '\t'])) {
            found.push(condition);
            rest = after;
        }
        found
    }
}

/// Returns what is incomplete at the end of an open selector, and the text before it; `None` for another form.
pub(super) fn last_condition(text: &str) -> Option<(String, ConditionPart<'_>)> {
    let mut rest = &text[text.find('{')? + 1..];
    let mut is_first = true;
    loop {
        let after = rest.trim_start();
        // Conditions are separated by commas.
        let next = match after.strip_prefix(',') {
            _ if is_first => after,
            Some(next) => next.trim_start(),
            None => return after.is_empty().then(|| (text.to_owned(), ConditionPart::End)),
        };
        if let Some((_, after)) = condition(next) {
            (rest, is_first) = (after, false);
            continue;
        }
        let part = match begun(next) {
            Some((label, _, value)) => ConditionPart::Value { label, begun: value },
            None if next.chars().all(is_of_label) => ConditionPart::Label(next),
            None => return None,
        };
        let typed = if let ConditionPart::Value { begun, .. } = part { begun } else { next };
        return Some((text[..text.len() - typed.len()].to_owned(), part));
    }
}

fn is_of_label(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.'
}

/// Splits `LABEL OPERATOR "…`.
fn begun(text: &str) -> Option<(&str, &'static str, &str)> {
    let end = text.find(|c: char| !is_of_label(c)).filter(|end| *end > 0)?;
    let (label, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let operator = ["=~", "!~", "!=", "="].into_iter().find(|operator| rest.starts_with(operator))?;
    let quoted = rest[operator.len()..].trim_start().strip_prefix('"')?;
    Some((label, operator, quoted))
}

/// Parses `LABEL OPERATOR "VALUE"`; also returns the text after it.
fn condition(text: &str) -> Option<(LabelCondition, &str)> {
    let (label, operator, quoted) = begun(text)?;
    let (mut value, mut is_escaped) = (String::new(), false);
    for (at, c) in quoted.char_indices() {
        match c {
            '"' if !is_escaped => {
                let value = (operator == "=").then_some(value);
                return Some((LabelCondition { label: label.to_owned(), value }, &quoted[at + 1..]));
            }
            '\\' if !is_escaped => is_escaped = true,
            c => {
                value.push(c);
                is_escaped = false;
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_a_type_and_conditions() {
        let query = ProfileQuery::parse(" process_cpu:cpu{service=\"a,\\\"b\", pod =~ \"x.*\"} ").expect("a query");
        assert_eq!((&*query.kind, &*query.selector), ("process_cpu:cpu", "{service=\"a,\\\"b\", pod =~ \"x.*\"}"));
        let condition = |label: &str, value: Option<&str>| LabelCondition {
            label: label.to_owned(),
            value: value.map(str::to_owned),
        };
        assert_eq!(query.conditions(), [condition("service", Some("a,\"b")), condition("pod", None)]);
        assert_eq!(ProfileQuery::parse("memory").map(|query| query.selector).as_deref(), Some("{}"));
        for bad in ["", "{a=\"b\"}", "cpu{a=\"b\"", "cpu b{}", "cpu\u{1b}"] {
            assert_eq!(ProfileQuery::parse(bad), None, "{bad}");
        }
        assert_eq!(last_condition("cpu{a=\"b\" "), Some(("cpu{a=\"b\" ".to_owned(), ConditionPart::End)));
        assert_eq!(last_condition("cpu{a=\"b\",c"), Some(("cpu{a=\"b\",".to_owned(), ConditionPart::Label("c"))));
        let value = ConditionPart::Value { label: "a", begun: "b" };
        assert_eq!(last_condition("cpu{a =~ \"b"), Some(("cpu{a =~ \"".to_owned(), value)));
        for other in ["cpu", "cpu{a=\"b\"}", "cpu{a=\"b\" c", "cpu{a=", "cpu{?"] {
            assert_eq!(last_condition(other), None, "{other}");
        }
        for unknown in ["c{}", "c{a}", "c{a=}", "c{=\"b\"}", "c{a=\"b}", "c{ä=\"", "c{a\u{301}"] {
            let query = ProfileQuery { kind: String::new(), selector: unknown[1..].to_owned() };
            assert_eq!(query.conditions(), [], "{unknown}");
        }
    }

    #[test]
    fn a_type_may_be_shortened_at_its_colons() {
        let types = ["cpu:cpu:ns:cpu:ns", "cpu:samples:count:cpu:ns", "cpux:y", "cpu:cpu"].map(str::to_owned);
        let of = |kind: &str| {
            let query = ProfileQuery { kind: kind.to_owned(), selector: String::new() };
            query.matches(&types).into_iter().map(String::as_str).collect::<Vec<_>>()
        };
        assert_eq!(of("cpu:samples"), ["cpu:samples:count:cpu:ns"]);
        assert_eq!(of("cpu:cpu"), ["cpu:cpu"]);
        assert_eq!((of("cpu:").len(), of("cp").len(), of("cpux:y")), (3, 0, vec!["cpux:y"]));
    }
}
