//! The grammar of expressions: C's operators, numbers with units, and words as text in comparisons with text.

use crate::lang::expr::{self, Op};
use crate::lang::lex::{Cursor, Lexicon, Piece, Token};
use crate::lang::parse::{self as lang, Grammar};
use crate::lang::quantity::Number;

use super::super::parse::{glob, regex};
use super::{CALLS, Diagnostic, Expr, NamedField, Node, Operand, Test};

const MAX_LENGTH: usize = 4096;

pub(crate) fn parse(text: &str) -> Result<Expr, Diagnostic> {
    if text.len() > MAX_LENGTH {
        return Err(Diagnostic::new(
            text,
            0,
            1,
            format!("the expression is too long; the limit is {MAX_LENGTH} bytes"),
        ));
    }
    let mut names = Names(Vec::new());
    let root = lang::parse(&mut names, text)?;
    Ok(Expr { text: text.trim().to_owned(), root, names: names.0 })
}

struct Names(Vec<NamedField>);

impl<'t> Grammar<'t> for Names {
    type Node = Node;
    const LEXICON: Lexicon = Lexicon {
        marks: &[
            "&&", "||", "==", "!=", "!~", "=~", "<=", ">=", "<<", ">>", "<", ">", "~", "!", "&", "|", "^", "+", "-",
            "*", "/", "%", "?", ":", "(", ")", ",",
        ],
        begins: |c| c.is_alphabetic() || c == '_' || c == '$',
        goes_on: |c| c.is_alphanumeric() || "_.$@[]".contains(c),
        numbers: true,
        hints: &[('=', "use == for equality")],
        ..Lexicon::WORDS
    };
    const INFIX: &'static [&'static [&'static str]] = expr::INFIX;
    const PREFIX: &'static [&'static str] = &["!", "-", "~"];
    const OPERAND: &'static str = "a number or a field";

    fn expression(&mut self, cursor: &mut Cursor<'t>) -> Result<Node, Diagnostic> {
        expr::choice(self, cursor)
    }

    fn operand(&mut self, first: Piece<'t>, cursor: &mut Cursor<'t>) -> Result<Node, Diagnostic> {
        Ok(Node::Operand(match first.token {
            Token::Number(Number::Int(n)) => Operand::Int(n),
            Token::Number(Number::Float(n)) => Operand::Float(n),
            Token::Quoted(text) => Operand::Text(text.to_owned()),
            Token::Word(word) if cursor.is_at("(") => self.call(word, first, cursor)?,
            Token::Word(word) => self.name(word, first.at, false),
            Token::Mark(_) => return Err(cursor.fault_at(first, "expected a number or a field here")),
        }))
    }

    fn prefix(&mut self, op: Piece<'t>, inner: Node, _: &Cursor<'t>) -> Result<Node, Diagnostic> {
        Ok(Node::unary(op, inner))
    }

    fn infix(
        &mut self,
        op: &'static str,
        left: Node,
        level: usize,
        cursor: &mut Cursor<'t>,
    ) -> Result<Node, Diagnostic> {
        let left = Box::new(left);
        match op {
            "in" => return list(left, cursor),
            "~" | "!~" | "=~" => {
                let place = cursor.peek();
                let Some((Token::Quoted(text) | Token::Word(text), piece)) = place.map(|piece| (piece.token, piece))
                else {
                    return Err(cursor.fault("expected a pattern here, such as \"nginx*\""));
                };
                cursor.skip();
                let test = match op {
                    "=~" => Test::Regex(regex(text, piece, cursor)?),
                    _ => Test::Glob(glob(text, piece, cursor)?),
                };
                return Ok(Node::Operand(Operand::Matches(left, test, op != "!~")));
            }
            _ => {}
        }
        let compares_words = matches!(op, "==" | "!=") && is_at_words(cursor);
        let right = if compares_words { self.name_or_text(cursor) } else { lang::right(self, level, cursor)? };
        Ok(Node::Binary(Op::of(op).unwrap_or(Op::Or), left, Box::new(right)))
    }

    fn surplus(&self, _: Piece<'t>) -> &'static str {
        "expected an operator here"
    }
}

/// Returns whether the next words may be a name's text, as in `comm == nginx`.
fn is_at_words(cursor: &Cursor<'_>) -> bool {
    let is_word = cursor.peek().is_some_and(|piece| matches!(piece.token, Token::Word(_)));
    is_word && !cursor.peek_at(1).is_some_and(|piece| piece.is("("))
}

/// Returns adjacent words as one text, as in `kworker/0-1`. Also returns its position and its number of tokens.
fn together<'t>(cursor: &mut Cursor<'t>) -> (&'t str, usize, usize) {
    let start = cursor.peek().map_or(cursor.text.len(), |piece| piece.at);
    let (mut end, mut n) = (start, 0);
    while let Some(piece) = cursor.peek() {
        let part = matches!(piece.token, Token::Word(_) | Token::Number(_) | Token::Mark("-" | "/" | ":" | "*" | "+"));
        if !part || piece.at != end {
            break;
        }
        end = piece.end();
        n += 1;
        cursor.skip();
    }
    (&cursor.text[start..end], start, n)
}

/// Parses `1-5,7` or `(a, b)`.
fn list(left: Box<Node>, cursor: &mut Cursor<'_>) -> Result<Node, Diagnostic> {
    let closed = cursor.eat("(");
    let (mut ranges, mut texts) = (Vec::new(), Vec::new());
    loop {
        match cursor.peek().map(|piece| piece.token) {
            Some(Token::Number(Number::Int(from))) => {
                cursor.skip();
                let to = cursor.peek_at(1).map(|piece| piece.token);
                let to = match to {
                    Some(Token::Number(Number::Int(to))) if cursor.eat("-") => {
                        cursor.skip();
                        to
                    }
                    _ => from,
                };
                ranges.push((from, to));
            }
            Some(Token::Quoted(text)) => {
                cursor.skip();
                texts.push(text.to_owned());
            }
            Some(Token::Word(_)) => texts.push(together(cursor).0.to_owned()),
            _ => return Err(cursor.fault("expected a value here, such as 1-5 or a name")),
        }
        if !cursor.eat(",") {
            break;
        }
    }
    if closed {
        cursor.expect(")")?;
    }
    Ok(Node::Operand(Operand::In(left, ranges, texts)))
}

impl Names {
    /// Parses a text; a single word may be a field.
    fn name_or_text(&mut self, cursor: &mut Cursor<'_>) -> Node {
        Node::Operand(match together(cursor) {
            (word, at, 1) => self.name(word, at, true),
            (text, ..) => Operand::Text(text.to_owned()),
        })
    }

    fn name(&mut self, word: &str, at: usize, loose: bool) -> Operand {
        let known = self.0.iter().position(|known| known.word == word && known.loose == loose);
        Operand::Name(known.unwrap_or_else(|| {
            self.0.push(NamedField { word: word.to_owned(), at, loose });
            self.0.len() - 1
        }))
    }

    fn call<'t>(&mut self, word: &str, place: Piece<'t>, cursor: &mut Cursor<'t>) -> Result<Operand, Diagnostic> {
        let Some((name, call, n)) = CALLS.iter().find(|(name, ..)| *name == word) else {
            let fault = cursor.fault_at(place, format!("unknown function {word}"));
            return Err(fault.offer(CALLS.iter().map(|(name, ..)| *name)));
        };
        cursor.skip();
        let mut arguments = Vec::new();
        if !cursor.eat(")") {
            loop {
                arguments.push(lang::nested(self, cursor)?);
                if !cursor.eat(",") {
                    break;
                }
            }
            cursor.expect(")")?;
        }
        if arguments.len() != *n {
            return Err(cursor.fault_at(place, format!("{name} takes {n} arguments")));
        }
        Ok(Operand::Call(*call, arguments))
    }
}
