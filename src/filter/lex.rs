//! Splits a filter into tokens with their places.

use super::Fault;

/// A token; words and strings carry their text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Word(String),
    Quoted(String),
    Op(&'static str),
    Open,
    Close,
    Comma,
}

/// A token and where it stands: (token, byte offset, length).
pub type Placed = (Token, usize, usize);

/// Longest first, so that `!~` is not read as `!`.
const OPS: &[&str] = &["&&", "||", "==", "!=", "!~", "=~", "<=", ">=", "<", ">", "~", "!", "&"];

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "_.:*?@+-/[]$#%{}".contains(c)
}

/// All tokens of a text; the fault is the first character that starts none.
pub fn tokens(text: &str) -> Result<Vec<Placed>, Fault> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, len) = if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        } else if let Some(op) = OPS.iter().find(|op| rest.starts_with(**op)) {
            (Token::Op(op), op.len())
        } else if c == '"' || c == '\'' {
            let end = rest[1..].find(c).ok_or_else(|| Fault::new(text, at, rest.len(), "this string is not closed"))?;
            (Token::Quoted(rest[1..=end].to_owned()), end + 2)
        } else if is_word(c) {
            let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            (Token::Word(rest[..len].to_owned()), len)
        } else {
            match c {
                '(' => (Token::Open, 1),
                ')' => (Token::Close, 1),
                ',' => (Token::Comma, 1),
                '=' => return Err(Fault::new(text, at, 1, "equality is written ==")),
                '|' => return Err(Fault::new(text, at, 1, "this is written ||")),
                _ => return Err(Fault::new(text, at, c.len_utf8(), "this character has no meaning here")),
            }
        };
        out.push((token, at, len));
        at += len;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_with_their_places() {
        let word = |text: &str| Token::Word(text.into());
        let got = tokens("a!~ 'é b'&(c|| \"\" ,d<=1)").expect("tokens");
        let want = [
            (word("a"), 0, 1),
            (Token::Op("!~"), 1, 2),
            (Token::Quoted("é b".into()), 4, 6),
            (Token::Op("&"), 10, 1),
            (Token::Open, 11, 1),
            (word("c"), 12, 1),
            (Token::Op("||"), 13, 2),
            (Token::Quoted(String::new()), 16, 2),
            (Token::Comma, 19, 1),
            (word("d"), 20, 1),
            (Token::Op("<="), 21, 2),
            (word("1"), 23, 1),
            (Token::Close, 24, 1),
        ];
        assert_eq!(got, want);
        assert_eq!(tokens("_.:*?@+-/[]$#%{}é9"), Ok(vec![(word("_.:*?@+-/[]$#%{}é9"), 0, 19)]));
        for (text, at, len, words) in [
            ("a = b", 2, 1, "written =="),
            ("a | b", 2, 1, "written ||"),
            ("a ; b", 2, 1, "no meaning"),
            ("a € b", 2, 3, "no meaning"),
            ("a 'bc", 2, 3, "not closed"),
        ] {
            let fault = tokens(text).expect_err(text);
            assert!((fault.at, fault.len) == (at, len) && fault.message.contains(words), "{fault:?}");
        }
    }
}
