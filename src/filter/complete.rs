//! Completion of a partly typed filter: what may follow at its end.

use crate::lang::lex::Token;

use super::parse::LEXICON;
use super::{FIELDS, Field, FieldType, TraceField};

/// The type of token that the grammar allows next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExpectedToken {
    /// The name of a field, or another start of a clause.
    Field,
    /// A comparison operator of the field.
    Operator(Field),
    /// A value of the field.
    Value(Field),
    /// `&&`, `||` or similar, after a complete clause.
    Connective,
}

/// Returns the type of token at the end of `text`, and the start of the piece that a completion replaces.
pub fn expected(text: &str, traced: &[TraceField]) -> (ExpectedToken, usize) {
    let pieces = match LEXICON.pieces(text) {
        Ok(pieces) => pieces,
        // The invalid piece, such as an unterminated string, is being typed.
        Err(fault) => return (expected(text.get(..fault.at).unwrap_or_default(), traced).0, fault.at),
    };
    if let Some(last) = pieces.last().filter(|last| last.is("&"))
        && let (ExpectedToken::Connective, _) = expected(&format!("{} ", &text[..last.at]), traced)
    {
        return (ExpectedToken::Connective, last.at);
    }
    let trailing_space = text.ends_with(char::is_whitespace);
    let (settled, start) = match pieces.split_last() {
        Some((last, before)) if !trailing_space && !matches!(last.token, Token::Mark(_)) => (before, last.at),
        _ => (&pieces[..], text.len()),
    };
    let (mut state, mut compared) = (ExpectedToken::Field, None);
    for token in settled.iter().map(|piece| piece.token) {
        if let ExpectedToken::Value(field) = state {
            compared = Some(field);
        }
        state = match (&state, token) {
            (ExpectedToken::Field, Token::Word(name)) => match FIELDS.iter().find(|row| row.name == name) {
                Some(row) if row.kind == FieldType::Flag => ExpectedToken::Connective,
                Some(row) => ExpectedToken::Operator(row.field),
                None => match traced.iter().find(|field| field.name == name) {
                    Some(field) if field.text => ExpectedToken::Operator(Field::TraceText),
                    Some(_) => ExpectedToken::Operator(Field::TraceNumber),
                    None => ExpectedToken::Field,
                },
            },
            (ExpectedToken::Operator(field), _) => ExpectedToken::Value(*field),
            (ExpectedToken::Value(field), Token::Mark("(" | ",")) => ExpectedToken::Value(*field),
            (ExpectedToken::Value(_), _) => ExpectedToken::Connective,
            (ExpectedToken::Connective, Token::Mark(",")) => {
                compared.map_or(ExpectedToken::Connective, ExpectedToken::Value)
            }
            (ExpectedToken::Connective, Token::Mark("&&" | "||")) => ExpectedToken::Field,
            (other, _) => (*other).clone(),
        };
    }
    (state, start)
}

#[cfg(test)]
mod tests {
    use super::super::FILTERS;
    use super::*;
    use crate::damage;

    #[test]
    fn each_place() {
        for (text, want, start) in [
            ("", ExpectedToken::Field, 0),
            ("co", ExpectedToken::Field, 0),
            ("comm ", ExpectedToken::Operator(Field::Comm), 5),
            ("comm == ", ExpectedToken::Value(Field::Comm), 8),
            ("comm == ng", ExpectedToken::Value(Field::Comm), 8),
            ("comm == \"ng", ExpectedToken::Value(Field::Comm), 8),
            ("comm == x ", ExpectedToken::Connective, 10),
            ("comm == x && pi", ExpectedToken::Field, 13),
            ("user ", ExpectedToken::Connective, 5),
            ("(user || !id", ExpectedToken::Field, 10),
            ("comm =", ExpectedToken::Operator(Field::Comm), 5),
            ("comm == x &", ExpectedToken::Connective, 10),
            ("comm == x && pid == 1 &", ExpectedToken::Connective, 22),
            ("comm in (", ExpectedToken::Value(Field::Comm), 9),
            ("comm in (a, ", ExpectedToken::Value(Field::Comm), 12),
            ("comm in (a, b", ExpectedToken::Value(Field::Comm), 12),
            ("comm == x || ", ExpectedToken::Field, 13),
            ("nothing ", ExpectedToken::Field, 8),
            ("text ", ExpectedToken::Operator(Field::TraceText), 5),
            ("number > ", ExpectedToken::Value(Field::TraceNumber), 9),
            ("number &", ExpectedToken::Value(Field::TraceNumber), 8),
        ] {
            let field =
                |name: &str, text| TraceField { name: name.into(), kind: "int".into(), text, ..TraceField::default() };
            assert_eq!(expected(text, &[field("text", true), field("number", false)]), (want, start), "{text}");
        }
    }

    #[test]
    fn every_beginning_of_a_filter_can_be_completed() {
        damage::reaching(512, 5, damage::texts(FILTERS), |text| {
            for (at, _) in text.char_indices() {
                let (_, start) = expected(&text[..at], &[]);
                assert!(start <= at && text.is_char_boundary(start));
            }
            matches!(expected(&text, &[]).0, ExpectedToken::Connective | ExpectedToken::Value(_))
        });
    }
}
