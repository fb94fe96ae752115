//! The precedence parser of all small languages. A [`Grammar`] defines the operands and the result.

use super::Diagnostic;
use super::lex::{Cursor, Lexicon, Piece, Token};

pub(crate) trait Grammar<'t>: Sized {
    type Node;
    const LEXICON: Lexicon;
    /// Binary operators by precedence, lowest first, each row left-associative. An operator may be a word.
    const INFIX: &'static [&'static [&'static str]];
    /// Unary prefix operators; they bind strongest.
    const PREFIX: &'static [&'static str];
    /// The description of an operand, for the error if it is missing.
    const OPERAND: &'static str;

    /// Parses the operand that begins with a token. The token is neither a prefix nor a parenthesis.
    fn operand(&mut self, first: Piece<'t>, cursor: &mut Cursor<'t>) -> Result<Self::Node, Diagnostic>;

    fn prefix(&mut self, op: Piece<'t>, inner: Self::Node, cursor: &Cursor<'t>) -> Result<Self::Node, Diagnostic>;

    /// Builds the node of a binary operator. Parses its right side, with [`right`] of `level` if that is an expression.
    fn infix(
        &mut self,
        op: &'static str,
        left: Self::Node,
        level: usize,
        cursor: &mut Cursor<'t>,
    ) -> Result<Self::Node, Diagnostic>;

    /// Parses what may follow a closed parenthesis around a node.
    fn group(&mut self, inner: Self::Node, _cursor: &mut Cursor<'t>) -> Result<Self::Node, Diagnostic> {
        Ok(inner)
    }

    /// Parses what begins with a parenthesis but is not an expression in it, if the language has such a thing.
    fn cast(&mut self, _cursor: &mut Cursor<'t>) -> Result<Option<Self::Node>, Diagnostic> {
        Ok(None)
    }

    /// Parses an entire expression; override for syntax beyond operators.
    fn expression(&mut self, cursor: &mut Cursor<'t>) -> Result<Self::Node, Diagnostic> {
        operators(self, 0, cursor)
    }

    /// Returns the error for a token after the end of the expression.
    fn surplus(&self, piece: Piece<'t>) -> &'static str;
}

pub(crate) fn parse<'t, G: Grammar<'t>>(grammar: &mut G, text: &'t str) -> Result<G::Node, Diagnostic> {
    let mut cursor = Cursor::new(text, &G::LEXICON)?;
    let node = grammar.expression(&mut cursor)?;
    match cursor.peek() {
        Some(piece) => Err(cursor.fault_at(piece, grammar.surplus(piece))),
        None => Ok(node),
    }
}

pub(crate) fn nested<'t, G: Grammar<'t>>(grammar: &mut G, cursor: &mut Cursor<'t>) -> Result<G::Node, Diagnostic> {
    cursor.deeper()?;
    let node = grammar.expression(cursor)?;
    cursor.depth -= 1;
    Ok(node)
}

/// Parses the right side of an operator of a level.
pub(crate) fn right<'t, G: Grammar<'t>>(
    grammar: &mut G,
    level: usize,
    cursor: &mut Cursor<'t>,
) -> Result<G::Node, Diagnostic> {
    operators(grammar, level + 1, cursor)
}

/// Parses operands and operators that bind at least as strongly as a level's.
pub(crate) fn operators<'t, G: Grammar<'t>>(
    grammar: &mut G,
    least: usize,
    cursor: &mut Cursor<'t>,
) -> Result<G::Node, Diagnostic> {
    let mut left = unary(grammar, cursor)?;
    loop {
        let (Some(Token::Mark(next)) | Some(Token::Word(next))) = cursor.peek().map(|piece| piece.token) else {
            return Ok(left);
        };
        let found = G::INFIX.iter().enumerate().skip(least);
        let found = found.filter_map(|(level, ops)| Some((level, *ops.iter().find(|op| **op == next)?))).next();
        let Some((level, op)) = found else { return Ok(left) };
        cursor.skip();
        left = grammar.infix(op, left, level, cursor)?;
    }
}

/// Parses an operand with its prefix operators.
pub(crate) fn unary<'t, G: Grammar<'t>>(grammar: &mut G, cursor: &mut Cursor<'t>) -> Result<G::Node, Diagnostic> {
    cursor.deeper()?;
    let first = cursor.next(G::OPERAND)?;
    let node = match first.token {
        Token::Mark(op) if G::PREFIX.contains(&op) => {
            let inner = unary(grammar, cursor)?;
            grammar.prefix(first, inner, cursor)?
        }
        Token::Mark("(") => match grammar.cast(cursor)? {
            Some(cast) => cast,
            None => {
                let inner = grammar.expression(cursor)?;
                if !cursor.eat(")") {
                    return Err(cursor.fault_at(first, "this ( is not closed"));
                }
                grammar.group(inner, cursor)?
            }
        },
        _ => grammar.operand(first, cursor)?,
    };
    cursor.depth -= 1;
    Ok(node)
}

#[cfg(test)]
mod tests {
    use super::super::lex::MAX_DEPTH;
    use super::*;
    use proptest::prelude::*;

    struct Shown;

    impl<'t> Grammar<'t> for Shown {
        type Node = String;
        const LEXICON: Lexicon = Lexicon {
            marks: &["|", "&", "+", "-", "!", "(", ")"],
            begins: char::is_alphabetic,
            goes_on: char::is_alphabetic,
            ..Lexicon::WORDS
        };
        const INFIX: &'static [&'static [&'static str]] = &[&["|"], &["&", "and"], &["+", "-"]];
        const PREFIX: &'static [&'static str] = &["!", "-"];
        const OPERAND: &'static str = "a word";

        fn operand(&mut self, first: Piece<'t>, cursor: &mut Cursor<'t>) -> Result<String, Diagnostic> {
            match first.token {
                Token::Word(word) => Ok(word.to_owned()),
                _ => Err(cursor.fault_at(first, "expected a word here")),
            }
        }

        fn prefix(&mut self, op: Piece<'t>, inner: String, cursor: &Cursor<'t>) -> Result<String, Diagnostic> {
            Ok(format!("({}{inner})", &cursor.text[op.at..op.end()]))
        }

        fn infix(
            &mut self,
            op: &'static str,
            left: String,
            level: usize,
            cursor: &mut Cursor<'t>,
        ) -> Result<String, Diagnostic> {
            Ok(format!("({left} {op} {})", right(self, level, cursor)?))
        }

        fn surplus(&self, _: Piece<'t>) -> &'static str {
            "expected an operator here"
        }
    }

    fn shown(text: &str) -> Result<String, Diagnostic> {
        parse(&mut Shown, text)
    }

    #[derive(Clone, Debug)]
    enum Tree {
        Leaf,
        Prefix(&'static str, Box<Self>),
        Infix(&'static str, Box<Self>, Box<Self>),
    }

    impl Tree {
        fn level(&self) -> usize {
            match self {
                Self::Infix(op, ..) => Shown::INFIX.iter().position(|row| row.contains(op)).expect("an operator"),
                _ => Shown::INFIX.len(),
            }
        }

        fn text(&self) -> String {
            let inner = |tree: &Self, least| {
                if tree.level() < least { format!("({})", tree.text()) } else { tree.text() }
            };
            match self {
                Self::Leaf => "a".into(),
                Self::Prefix(op, of) => format!("{op}{}", inner(of, Shown::INFIX.len())),
                Self::Infix(op, a, b) => format!("{} {op} {}", inner(a, self.level()), inner(b, self.level() + 1)),
            }
        }

        fn whole(&self) -> String {
            match self {
                Self::Leaf => "a".into(),
                Self::Prefix(op, of) => format!("({op}{})", of.whole()),
                Self::Infix(op, a, b) => format!("({} {op} {})", a.whole(), b.whole()),
            }
        }
    }

    fn tree() -> impl Strategy<Value = Tree> {
        Just(Tree::Leaf).prop_recursive(6, 40, 2, |inner| {
            let infix = proptest::sample::select(vec!["|", "&", "and", "+", "-"]);
            prop_oneof![
                (proptest::sample::select(vec!["!", "-"]), inner.clone())
                    .prop_map(|(op, of)| Tree::Prefix(op, Box::new(of))),
                (infix, inner.clone(), inner).prop_map(|(op, a, b)| Tree::Infix(op, Box::new(a), Box::new(b))),
            ]
        })
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        /// A text with minimal parentheses parses to the same tree.
        #[test]
        fn printing_and_reading_agree(tree in tree()) {
            prop_assert_eq!(shown(&tree.text()), Ok(tree.whole()), "{}", tree.text());
        }

        #[test]
        fn no_text_panics(text in "[a|&+!() -]{0,40}|\\PC{0,20}") {
            let fault = shown(&text).err();
            prop_assert!(fault.is_none_or(|fault| fault.at <= text.len() && !fault.to_string().is_empty()));
        }
    }

    #[test]
    fn each_binds_as_its_row_says() {
        for (text, want) in [
            ("a | b & c + d", "(a | (b & (c + d)))"),
            ("a + b & c | d", "(((a + b) & c) | d)"),
            ("a - b + c - d", "(((a - b) + c) - d)"),
            ("a and b & c", "((a and b) & c)"),
            ("a - (b - c)", "(a - (b - c))"),
            ("!a + -b", "((!a) + (-b))"),
            ("!-a", "(!(-a))"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(want), "{text}");
        }
        for (text, at, words) in [
            ("", 0, "expected a word"),
            ("a |", 3, "expected a word"),
            ("a | &", 4, "expected a word"),
            ("a + (b", 4, "this ( is not closed"),
            ("a b", 2, "expected an operator"),
            ("a )", 2, "expected an operator"),
            ("a ? b", 2, "no meaning"),
        ] {
            let fault = shown(text).expect_err(text);
            assert!(fault.at == at && fault.message.contains(words), "{text}: {fault}");
        }
        let deep = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
        assert!(shown(&deep(MAX_DEPTH - 1)).is_ok() && shown(&deep(MAX_DEPTH)).is_err());
        assert!(shown(&["(a)"; 500].join("+")).is_ok(), "closed parentheses do not nest");
    }
}
