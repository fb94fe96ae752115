//! The search pattern of all screens.

use regex::{Regex, RegexBuilder};

/// Compiles a search pattern: a regular expression. It is case-insensitive unless it contains capitals.
pub(crate) fn pattern(text: &str) -> Result<Regex, String> {
    let ignore = !text.chars().any(char::is_uppercase);
    let regex = RegexBuilder::new(text).case_insensitive(ignore).size_limit(1 << 20).build();
    regex.map_err(|e| format!("not a regular expression: {}", e.to_string().lines().last().unwrap_or_default()))
}

/// The prefix of a case-sensitive pattern.
const STRICT: &str = "(?-i)";

pub(crate) fn exactly(name: &str) -> String {
    format!("{STRICT}^{}$", regex::escape(name))
}

/// Returns a pattern for display.
pub fn shown(text: &str) -> &str {
    text.strip_prefix(STRICT).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capitals_decide_about_case_and_a_name_is_itself_alone() {
        let finds = |text: &str, name: &str| pattern(text).is_ok_and(|p| p.is_match(name));
        assert!(finds("tcp", "TCP_send") && !finds("TCP", "tcp_send"));
        let name = "f<a.b>(int)";
        assert!(finds(&exactly(name), name) && !finds(&exactly(name), "F<a.b>(int)") && !finds(&exactly("a.c"), "abc"));
        assert_eq!(shown(&exactly("main")), "^main$");
    }
}
