//! Expressions: the comparisons of the filter language with arithmetic. They are for `--key`, `--num` and `--than` of
//! analysis units. Examples are `bytes_alloc / 1024` and `latency > 4ms && comm ~ "nginx*"`.
//!
//! Operators and precedence are those of C, plus `~`, `=~` and `in` as in filters. Numbers are 128-bit integers, or
//! binary fractions once a fraction is involved. An undefined result (a division by zero, a field that the event lacks,
//! text instead of a number) is the empty value. It propagates, and compares as false.

mod parse;

use std::borrow::Cow;

use crate::lang::expr::{ExprTree, Op, UnaryOp};

use super::{Diagnostic, Test};

pub(crate) use parse::parse;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Empty,
    Int(i128),
    Float(f64),
    Text(Cow<'a, str>),
}

impl Value<'_> {
    /// Returns whether it is true: a nonzero number or a nonempty text.
    pub(crate) fn holds(&self) -> bool {
        match self {
            Self::Empty => false,
            Self::Int(n) => *n != 0,
            Self::Float(n) => *n != 0.0,
            Self::Text(text) => !text.is_empty(),
        }
    }

    pub(crate) fn int(&self) -> Option<i128> {
        match self {
            Self::Int(n) => Some(*n),
            Self::Float(n) if n.is_finite() => Some(*n as i128),
            _ => None,
        }
    }

    /// Converts to a count; `None` if it is negative or not a number.
    pub(crate) fn count(&self) -> Option<u64> {
        self.int().and_then(|n| u64::try_from(n).ok())
    }

    fn float(&self) -> Option<f64> {
        match self {
            Self::Int(n) => Some(*n as f64),
            Self::Float(n) => Some(*n),
            _ => None,
        }
    }
}

/// A function of numbers; `None` if the result is undefined.
pub(crate) type Function = fn(&[i128]) -> Option<i128>;

/// (name, function, number of arguments)
pub(crate) const CALLS: &[(&str, Function, usize)] = &[
    ("ntohs", |n| Some((n[0] as u16).swap_bytes().into()), 1),
    ("ntohl", |n| Some((n[0] as u32).swap_bytes().into()), 1),
    ("log2", |n| n[0].checked_ilog2().map(i128::from), 1),
    ("abs", |n| n[0].checked_abs(), 1),
    ("min", |n| n.iter().min().copied(), 2),
    ("max", |n| n.iter().max().copied(), 2),
];

#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Int(i128),
    Float(f64),
    Text(String),
    /// An index into [`Expr::names`].
    Name(usize),
    Call(Function, Vec<Node>),
    Matches(Box<Node>, Test, bool),
    /// Any of these inclusive ranges, or of these texts.
    In(Box<Node>, Vec<(i128, i128)>, Vec<String>),
}

pub(crate) type Node = ExprTree<Operand>;

/// A parsed expression over names.
#[derive(Clone, Debug)]
pub struct Expr {
    pub(crate) text: String,
    pub(crate) root: Node,
    pub(crate) names: Vec<NamedField>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedField {
    pub(crate) word: String,
    pub(crate) at: usize,
    /// Whether it is text if it is not a field: `comm == nginx`.
    pub(crate) loose: bool,
}

/// The values of names at one moment.
pub(crate) trait ExprScope {
    /// Returns the value of one of [`Expr::names`], by its index.
    fn value(&self, name: usize) -> Value<'_>;
}

impl Expr {
    pub(crate) fn eval<'a>(&'a self, scope: &'a dyn ExprScope) -> Value<'a> {
        eval(&self.root, scope)
    }

    /// Returns the error for an unknown name; `known` are the valid ones.
    pub(crate) fn unknown<'a>(&self, name: usize, known: impl IntoIterator<Item = &'a str>) -> Diagnostic {
        let NamedField { word, at, .. } = &self.names[name];
        let known: Vec<&str> = known.into_iter().collect();
        let message = format!("unknown field {word}; available: {}", known.join(", "));
        Diagnostic::new(&self.text, *at, word.len(), message).offer(known)
    }
}

fn truth<'a>(holds: bool) -> Value<'a> {
    Value::Int(i128::from(holds))
}

fn eval<'a>(node: &'a Node, scope: &'a dyn ExprScope) -> Value<'a> {
    match node {
        Node::Operand(operand) => operand.eval(scope),
        Node::Unary(UnaryOp::Not, inner) => truth(!eval(inner, scope).holds()),
        Node::Unary(UnaryOp::Minus, inner) => match eval(inner, scope) {
            Value::Int(n) => n.checked_neg().map_or(Value::Empty, Value::Int),
            Value::Float(n) => Value::Float(-n),
            _ => Value::Empty,
        },
        Node::Unary(UnaryOp::Invert, inner) => eval(inner, scope).int().map_or(Value::Empty, |n| Value::Int(!n)),
        Node::Binary(Op::And, a, b) => truth(eval(a, scope).holds() && eval(b, scope).holds()),
        Node::Binary(Op::Or, a, b) => truth(eval(a, scope).holds() || eval(b, scope).holds()),
        Node::Binary(op, a, b) => binary(*op, &eval(a, scope), &eval(b, scope)),
        Node::Choice(test, yes, no) => eval(if eval(test, scope).holds() { yes } else { no }, scope),
    }
}

impl Operand {
    fn eval<'a>(&'a self, scope: &'a dyn ExprScope) -> Value<'a> {
        match self {
            Self::Int(n) => Value::Int(*n),
            Self::Float(n) => Value::Float(*n),
            Self::Text(text) => Value::Text(Cow::Borrowed(text)),
            Self::Name(name) => scope.value(*name),
            Self::Call(call, arguments) => {
                let numbers: Option<Vec<i128>> = arguments.iter().map(|argument| eval(argument, scope).int()).collect();
                numbers.and_then(|numbers| call(&numbers)).map_or(Value::Empty, Value::Int)
            }
            Self::Matches(inner, test, yes) => match eval(inner, scope) {
                Value::Text(text) => truth(test.text(&text) == *yes),
                _ => Value::Empty,
            },
            Self::In(inner, ranges, texts) => match eval(inner, scope) {
                Value::Int(n) => truth(ranges.iter().any(|(from, to)| (*from..=*to).contains(&n))),
                Value::Text(text) => truth(texts.iter().any(|one| *one == text)),
                _ => Value::Empty,
            },
        }
    }
}

fn binary<'a>(op: Op, a: &Value<'_>, b: &Value<'_>) -> Value<'a> {
    match (a, b) {
        (Value::Empty, _) | (_, Value::Empty) => Value::Empty,
        (Value::Text(a), Value::Text(b)) => compare(op, Some(a.cmp(b))),
        (Value::Text(_), _) | (_, Value::Text(_)) => Value::Empty,
        (Value::Int(a), Value::Int(b)) => integers(op, *a, *b),
        _ => fractions(op, a.float().unwrap_or(0.0), b.float().unwrap_or(0.0)),
    }
}

fn compare<'a>(op: Op, order: Option<std::cmp::Ordering>) -> Value<'a> {
    order.and_then(|order| op.holds(order)).map_or(Value::Empty, truth)
}

fn integers<'a>(op: Op, a: i128, b: i128) -> Value<'a> {
    let shift = u32::try_from(b).ok().filter(|bits| *bits < 64);
    let result = match op {
        Op::BitOr => Some(a | b),
        Op::BitXor => Some(a ^ b),
        Op::BitAnd => Some(a & b),
        Op::Shl => shift.and_then(|bits| a.checked_mul(1i128 << bits)),
        Op::Shr => shift.map(|bits| a >> bits),
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        Op::Div => a.checked_div(b),
        Op::Rem => a.checked_rem(b),
        _ => return compare(op, Some(a.cmp(&b))),
    };
    result.map_or(Value::Empty, Value::Int)
}

fn fractions<'a>(op: Op, a: f64, b: f64) -> Value<'a> {
    let result = match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div => a / b,
        Op::Rem => a % b,
        _ => return compare(op, a.partial_cmp(&b)),
    };
    if result.is_finite() { Value::Float(result) } else { Value::Empty }
}

#[cfg(test)]
mod tests;
