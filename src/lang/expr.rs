//! Expressions with C's operators over the operands of a language.

use super::Diagnostic;
use super::lex::{Cursor, Piece, Token};
use super::parse::{self, Grammar};

#[derive(Clone, Debug)]
pub(crate) enum ExprTree<T> {
    Operand(T),
    Unary(UnaryOp, Box<Self>),
    Binary(Op, Box<Self>, Box<Self>),
    Choice(Box<Self>, Box<Self>, Box<Self>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    Not,
    Minus,
    Invert,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Or,
    And,
    BitOr,
    BitXor,
    BitAnd,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Shl,
    Shr,
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

const OPS: &[(&str, Op)] = &[
    ("||", Op::Or),
    ("&&", Op::And),
    ("|", Op::BitOr),
    ("^", Op::BitXor),
    ("&", Op::BitAnd),
    ("==", Op::Eq),
    ("!=", Op::Ne),
    ("<", Op::Lt),
    ("<=", Op::Le),
    (">", Op::Gt),
    (">=", Op::Ge),
    ("<<", Op::Shl),
    (">>", Op::Shr),
    ("+", Op::Add),
    ("-", Op::Sub),
    ("*", Op::Mul),
    ("/", Op::Div),
    ("%", Op::Rem),
];

/// The precedence of C's binary operators, and of the filter language's among the equalities.
pub(crate) const INFIX: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!=", "~", "!~", "=~", "in"],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl Op {
    pub(crate) fn of(mark: &str) -> Option<Self> {
        OPS.iter().find(|(known, _)| *known == mark).map(|(_, op)| *op)
    }

    /// Returns whether a comparison is true for two values in this order. `None` if the operator is not a comparison.
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> Option<bool> {
        Some(match self {
            Self::Eq => order.is_eq(),
            Self::Ne => order.is_ne(),
            Self::Lt => order.is_lt(),
            Self::Le => order.is_le(),
            Self::Gt => order.is_gt(),
            Self::Ge => order.is_ge(),
            _ => return None,
        })
    }
}

impl<T> ExprTree<T> {
    /// Applies one of the prefix operators `!`, `-` and `~`.
    pub(crate) fn unary(op: Piece<'_>, inner: Self) -> Self {
        let op = match op.token {
            Token::Mark("!") => UnaryOp::Not,
            Token::Mark("-") => UnaryOp::Minus,
            _ => UnaryOp::Invert,
        };
        Self::Unary(op, Box::new(inner))
    }
}

/// Parses `test ? yes : no`, or an expression without `?`.
pub(crate) fn choice<'t, T, G>(grammar: &mut G, cursor: &mut Cursor<'t>) -> Result<ExprTree<T>, Diagnostic>
where
    G: Grammar<'t, Node = ExprTree<T>>,
{
    let test = parse::operators(grammar, 0, cursor)?;
    if !cursor.eat("?") {
        return Ok(test);
    }
    let yes = parse::nested(grammar, cursor)?;
    cursor.expect(":")?;
    Ok(ExprTree::Choice(Box::new(test), Box::new(yes), Box::new(parse::nested(grammar, cursor)?)))
}
