//! C expressions over a tracepoint's fields, and their evaluation.

use super::super::{Format, Shape, number};

#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Number(Number),
    Text(String),
    Field(String),
    /// A name whose value is only in the kernel's source.
    Unknown,
    Record,
    Index(Box<Self>, Box<Self>),
    Cast(IntType, Box<Self>),
    /// A dereferenced pointer to numbers of a type.
    Pointer(IntType, Box<Self>),
    Unary(char, Box<Self>),
    Binary(&'static str, Box<Self>, Box<Self>),
    Choice(Box<Self>, Box<Self>, Box<Self>),
    Symbolic(Box<Self>, Vec<(Self, String)>),
    Flags(Box<Self>, String, Vec<(Self, String)>),
    Hex(Box<Self>, Option<Box<Self>>, &'static str),
    Array(Box<Self>, Box<Self>, Box<Self>),
    Bitmask(String),
    Length(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntType {
    pub(crate) size: usize,
    pub(crate) signed: bool,
}

impl IntType {
    pub(crate) const INT: Self = Self { size: 4, signed: true };
    pub(crate) const LONG: Self = Self { size: 8, signed: true };
    pub(crate) const ULONG: Self = Self { size: 8, signed: false };

    /// Returns the type after integer promotion.
    fn promoted(self) -> Self {
        if self.size < 4 { Self::INT } else { self }
    }

    fn with(self, other: Self) -> Self {
        let (a, b) = (self.promoted(), other.promoted());
        match a.size.cmp(&b.size) {
            std::cmp::Ordering::Less => b,
            std::cmp::Ordering::Greater => a,
            std::cmp::Ordering::Equal => Self { size: a.size, signed: a.signed && b.signed },
        }
    }
}

/// A typed number; its bits are sign- or zero-extended according to its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) bits: i64,
    pub(crate) kind: IntType,
}

impl Number {
    pub(crate) fn new(bits: i64, kind: IntType) -> Self {
        let bytes = bits.to_le_bytes();
        Self { bits: number(&bytes[..kind.size.clamp(1, 8)], kind.signed, false), kind }
    }

    fn truth(holds: bool) -> Self {
        Self::new(holds.into(), IntType::INT)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Number(Number),
    Bytes(&'a [u8]),
    Text(String),
    /// The record does not contain it.
    Unknown,
}

impl Value<'_> {
    /// Converts to a number: bytes by their first eight, text to 0. `None` if it is unknown.
    pub(crate) fn number(&self) -> Option<Number> {
        Some(match self {
            Self::Number(n) => *n,
            Self::Bytes(b) => Number::new(number(&b[..b.len().min(8)], false, false), IntType::ULONG),
            Self::Text(_) => Number::truth(false),
            Self::Unknown => return None,
        })
    }
}

impl Expr {
    /// Evaluates on a sample's data. `None` if the data is too short or a field is missing.
    pub(crate) fn eval<'a>(&self, format: &Format, raw: &'a [u8]) -> Option<Value<'a>> {
        Context { format, raw }.eval(self)
    }

    pub(crate) fn literal(bits: i64, kind: IntType) -> Self {
        Self::Number(Number::new(bits, kind))
    }
}

struct Context<'f, 'a> {
    format: &'f Format,
    raw: &'a [u8],
}

impl<'a> Context<'_, 'a> {
    fn eval(&self, e: &Expr) -> Option<Value<'a>> {
        let format = self.format;
        Some(match e {
            Expr::Number(n) => Value::Number(*n),
            Expr::Text(t) => Value::Text(t.clone()),
            Expr::Unknown => Value::Unknown,
            Expr::Record => return None,
            Expr::Field(name) => self.field(name)?,
            Expr::Length(name) => {
                let len = format.field(name)?.bytes(self.raw, format.big)?.len();
                Value::Number(Number::new(len as i64, IntType::INT))
            }
            Expr::Bitmask(name) => Value::Text(bitmask(format.field(name)?.bytes(self.raw, format.big)?, format.big)),
            Expr::Pointer(_, inner) => self.eval(inner)?,
            Expr::Index(base, at) => return self.index(base, at),
            Expr::Cast(kind, inner) => match self.eval(inner)? {
                Value::Number(n) => Value::Number(Number::new(n.bits, *kind)),
                other => other,
            },
            Expr::Unary('*', inner) => return self.index(inner, &Expr::literal(0, IntType::INT)),
            Expr::Unary(op, inner) => {
                self.eval(inner)?.number().map_or(Value::Unknown, |n| Value::Number(unary(*op, n)))
            }
            Expr::Binary(op, a, b) => match (self.eval(a)?.number(), self.eval(b)?.number()) {
                (Some(a), Some(b)) => Value::Number(binary(op, a, b)?),
                _ => Value::Unknown,
            },
            Expr::Choice(test, yes, no) => match self.eval(test)? {
                Value::Unknown => Value::Unknown,
                Value::Number(Number { bits: 0, .. }) => return self.eval(no),
                _ => return self.eval(yes),
            },
            Expr::Symbolic(value, list) => self.eval(value)?.number().map_or(Value::Unknown, |n| {
                let found = list.iter().find(|(value, _)| self.bits(value) == Some(n.bits));
                Value::Text(found.map_or_else(|| format!("{:#x}", n.bits), |(_, text)| text.clone()))
            }),
            Expr::Flags(value, between, list) => {
                let n = self.eval(value)?.number();
                n.map_or(Value::Unknown, |n| Value::Text(self.flags(n.bits, between, list)))
            }
            Expr::Hex(bytes, len, between) => {
                let Value::Bytes(b) = self.eval(bytes)? else { return None };
                let n = match len {
                    Some(len) => usize::try_from(self.bits(len)?).ok()?.min(b.len()),
                    None => b.len(),
                };
                Value::Text(b[..n].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(between))
            }
            Expr::Array(bytes, count, size) => {
                let Value::Bytes(b) = self.eval(bytes)? else { return None };
                let n = usize::try_from(self.bits(count)?).ok()?;
                let size = usize::try_from(self.bits(size)?).ok()?.clamp(1, 8);
                let one = |b| format!("{:#x}", number(b, false, format.big));
                Value::Text(format!("{{{}}}", b.chunks_exact(size).take(n).map(one).collect::<Vec<_>>().join(",")))
            }
        })
    }

    fn bits(&self, e: &Expr) -> Option<i64> {
        self.eval(e)?.number().map(|n| n.bits)
    }

    fn field(&self, name: &str) -> Option<Value<'a>> {
        let field = self.format.field(name)?;
        Some(match field.shape {
            Shape::Number => {
                let kind = IntType { size: field.size, signed: field.signed };
                Value::Number(Number::new(field.number(self.raw, self.format.big)?, kind))
            }
            _ => Value::Bytes(field.bytes(self.raw, self.format.big)?),
        })
    }

    fn index(&self, base: &Expr, at: &Expr) -> Option<Value<'a>> {
        let Some(at) = self.eval(at)?.number() else { return Some(Value::Unknown) };
        let at = usize::try_from(at.bits).ok()?;
        let (kind, bytes) = match base {
            Expr::Field(name) => {
                let field = self.format.field(name)?;
                let size = match field.shape {
                    Shape::Array(n) | Shape::Located { element: n, .. } => n.clamp(1, 8),
                    Shape::Text => 1,
                    Shape::Number => return None,
                };
                (IntType { size, signed: field.signed }, field.bytes(self.raw, self.format.big)?)
            }
            Expr::Pointer(kind, inner) => match self.eval(inner)? {
                Value::Bytes(bytes) => (*kind, bytes),
                _ => return None,
            },
            _ => return None,
        };
        let from = at.checked_mul(kind.size)?;
        let bits = number(bytes.get(from..from.checked_add(kind.size)?)?, kind.signed, self.format.big);
        Some(Value::Number(Number::new(bits, kind)))
    }

    fn flags(&self, mut n: i64, between: &str, list: &[(Expr, String)]) -> String {
        let mut names = Vec::new();
        for (mask, name) in list {
            let Some(mask) = self.bits(mask) else { continue };
            if n & mask == mask && (mask != 0 || n == 0 && names.is_empty()) {
                names.push(name.clone());
                n &= !mask;
            }
        }
        if n != 0 {
            names.push(format!("{n:#x}"));
        }
        names.join(between)
    }
}

/// Formats a bitmask like the kernel. The highest bits come first, with a comma between 32-bit words.
fn bitmask(bytes: &[u8], big: bool) -> String {
    let mut words: Vec<String> =
        bytes.chunks(4).map(|b| format!("{:0width$x}", number(b, false, big), width = 2 * b.len())).collect();
    words.reverse();
    words.join(",")
}

fn unary(op: char, n: Number) -> Number {
    let kind = n.kind.promoted();
    match op {
        '!' => Number::truth(n.bits == 0),
        '~' => Number::new(!n.bits, kind),
        '-' => Number::new(n.bits.wrapping_neg(), kind),
        _ => Number::new(n.bits, kind),
    }
}

/// Computes like C; `None` if undefined in C.
fn binary(op: &str, a: Number, b: Number) -> Option<Number> {
    match op {
        "||" => return Some(Number::truth(a.bits != 0 || b.bits != 0)),
        "&&" => return Some(Number::truth(a.bits != 0 && b.bits != 0)),
        "<<" | ">>" => return shift(op, a, b),
        _ => {}
    }
    let kind = a.kind.with(b.kind);
    let (a, b) = (Number::new(a.bits, kind).bits, Number::new(b.bits, kind).bits);
    let order = if kind.signed { a.cmp(&b) } else { (a as u64).cmp(&(b as u64)) };
    let divided = |signed: fn(i64, i64) -> Option<i64>, unsigned: fn(u64, u64) -> Option<u64>| {
        if kind.signed { signed(a, b) } else { unsigned(a as u64, b as u64).map(|n| n as i64) }
    };
    let bits = match op {
        "==" => return Some(Number::truth(order.is_eq())),
        "!=" => return Some(Number::truth(order.is_ne())),
        "<=" => return Some(Number::truth(order.is_le())),
        ">=" => return Some(Number::truth(order.is_ge())),
        "<" => return Some(Number::truth(order.is_lt())),
        ">" => return Some(Number::truth(order.is_gt())),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => divided(i64::checked_div, u64::checked_div)?,
        _ => divided(i64::checked_rem, u64::checked_rem)?,
    };
    Some(Number::new(bits, kind))
}

/// Computes a shift, whose type is that of the left operand.
fn shift(op: &str, a: Number, b: Number) -> Option<Number> {
    let kind = a.kind.promoted();
    let by = u32::try_from(b.bits).ok().filter(|by| *by < 8 * kind.size as u32)?;
    let bits = match op {
        "<<" => a.bits << by,
        _ if kind.signed => a.bits >> by,
        _ => (a.bits as u64 >> by) as i64,
    };
    Some(Number::new(bits, kind))
}
