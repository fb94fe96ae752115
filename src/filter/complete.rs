//! The completion of a half-typed filter: what may follow at its end.

use crate::lang::lex::Token;

use super::parse::LEXICON;
use super::{FIELDS, Field, FieldType, TraceField};

/// The kind of token that the grammar allows next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    Field,
    Operator(Field),
    Value(Field),
    Connective,
}

/// What is being typed at the end of `text`: what may stand there, and the start of the piece
/// that a completion would replace.
pub fn expected(text: &str, traced: &[TraceField]) -> (Expect, usize) {
    let pieces = match LEXICON.pieces(text) {
        Ok(pieces) => pieces,
        // The faulty piece, such as a string that is still open, is what is being typed.
        Err(fault) => return (expected(text.get(..fault.at).unwrap_or_default(), traced).0, fault.at),
    };
    if let Some(last) = pieces.last().filter(|last| last.is("&"))
        && let (Expect::Connective, _) = expected(&format!("{} ", &text[..last.at]), traced)
    {
        // Half of what joins two clauses.
        return (Expect::Connective, last.at);
    }
    let trailing_space = text.ends_with(char::is_whitespace);
    let (settled, start) = match pieces.split_last() {
        Some((last, before)) if !trailing_space && !matches!(last.token, Token::Mark(_)) => (before, last.at),
        _ => (&pieces[..], text.len()),
    };
    let (mut state, mut compared) = (Expect::Field, None);
    for token in settled.iter().map(|piece| piece.token) {
        if let Expect::Value(field) = state {
            compared = Some(field);
        }
        state = match (&state, token) {
            (Expect::Field, Token::Word(name)) => match FIELDS.iter().find(|row| row.1 == name) {
                Some((_, _, FieldType::Flag, _)) => Expect::Connective,
                Some((field, ..)) => Expect::Operator(*field),
                None => match traced.iter().find(|field| field.name == name) {
                    Some(field) if field.text => Expect::Operator(Field::TraceText),
                    Some(_) => Expect::Operator(Field::TraceNumber),
                    None => Expect::Field,
                },
            },
            (Expect::Operator(field), _) => Expect::Value(*field),
            (Expect::Value(field), Token::Mark("(" | ",")) => Expect::Value(*field),
            (Expect::Value(_), _) => Expect::Connective,
            (Expect::Connective, Token::Mark(",")) => compared.map_or(Expect::Connective, Expect::Value),
            (Expect::Connective, Token::Mark("&&" | "||")) => Expect::Field,
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
            ("", Expect::Field, 0),
            ("co", Expect::Field, 0),
            ("comm ", Expect::Operator(Field::Comm), 5),
            ("comm == ", Expect::Value(Field::Comm), 8),
            ("comm == ng", Expect::Value(Field::Comm), 8),
            ("comm == \"ng", Expect::Value(Field::Comm), 8),
            ("comm == x ", Expect::Connective, 10),
            ("comm == x && pi", Expect::Field, 13),
            ("user ", Expect::Connective, 5),
            ("(user || !id", Expect::Field, 10),
            ("comm =", Expect::Operator(Field::Comm), 5),
            ("comm == x &", Expect::Connective, 10),
            ("comm == x && pid == 1 &", Expect::Connective, 22),
            ("comm in (", Expect::Value(Field::Comm), 9),
            ("comm in (a, ", Expect::Value(Field::Comm), 12),
            ("comm in (a, b", Expect::Value(Field::Comm), 12),
            ("comm == x || ", Expect::Field, 13),
            ("nothing ", Expect::Field, 8),
            ("text ", Expect::Operator(Field::TraceText), 5),
            ("number > ", Expect::Value(Field::TraceNumber), 9),
            ("number &", Expect::Value(Field::TraceNumber), 8),
        ] {
            let field = |name: &str, text| TraceField { name: name.into(), kind: "int".into(), text };
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
            matches!(expected(&text, &[]).0, Expect::Connective | Expect::Value(_))
        });
    }
}
