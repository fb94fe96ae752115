//! C expressions over a tracepoint's fields, and what they come to.

use super::super::format::{Format, Shape, number};

/// An expression.
#[derive(Clone, Debug)]
pub enum Expr {
    Number(i64),
    Text(String),
    Field(String),
    Index(Box<Expr>, Box<Expr>),
    Cast(u32, bool, Box<Expr>),
    Unary(char, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
    Symbolic(Box<Expr>, Vec<(Expr, String)>),
    Flags(Box<Expr>, String, Vec<(Expr, String)>),
    Hex(Box<Expr>, Option<Box<Expr>>, &'static str),
    Array(Box<Expr>, Box<Expr>, Box<Expr>),
    Length(String),
}

/// What an expression comes to.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    Number(i64),
    Bytes(&'a [u8]),
    Text(String),
}

impl Value<'_> {
    /// As a number: bytes by their first eight, text as nothing.
    pub fn number(&self) -> i64 {
        match self {
            Self::Number(n) => *n,
            Self::Bytes(b) => number(&b[..b.len().min(8)], false, false),
            Self::Text(_) => 0,
        }
    }
}

impl Expr {
    /// The value for a sample's bytes; `None` where those are too few or a field is missing.
    pub fn eval<'a>(&self, format: &Format, raw: &'a [u8]) -> Option<Value<'a>> {
        eval(self, format, raw)
    }
}

fn eval<'a>(e: &Expr, f: &Format, raw: &'a [u8]) -> Option<Value<'a>> {
    let num = |e: &Expr| Some(eval(e, f, raw)?.number());
    Some(match e {
        Expr::Number(n) => Value::Number(*n),
        Expr::Text(t) => Value::Text(t.clone()),
        Expr::Field(name) => {
            let field = f.field(name)?;
            match field.shape {
                Shape::Number => Value::Number(field.number(raw, f.big)?),
                _ => Value::Bytes(field.bytes(raw, f.big)?),
            }
        }
        Expr::Length(name) => Value::Number(f.field(name)?.bytes(raw, f.big)?.len() as i64),
        Expr::Index(base, at) => {
            let at = usize::try_from(num(at)?).ok()?;
            let Expr::Field(name) = &**base else { return None };
            let field = f.field(name)?;
            let element = match field.shape {
                Shape::Array(n) | Shape::Located { element: n, .. } => n.max(1),
                _ => 1,
            };
            let bytes = field.bytes(raw, f.big)?;
            let from = at.checked_mul(element)?;
            Value::Number(number(bytes.get(from..from.checked_add(element)?)?, field.signed, f.big))
        }
        Expr::Cast(size, signed, inner) => match eval(inner, f, raw)? {
            Value::Number(n) => Value::Number(number(&n.to_le_bytes()[..*size as usize], *signed, false)),
            other => other,
        },
        Expr::Unary(op, inner) => {
            let n = num(inner)?;
            Value::Number(match op {
                '!' => i64::from(n == 0),
                '~' => !n,
                '-' => n.wrapping_neg(),
                _ => n,
            })
        }
        Expr::Binary(op, a, b) => Value::Number(binary(op, num(a)?, num(b)?)?),
        Expr::Choice(test, yes, no) => {
            let holds = match eval(test, f, raw)? {
                Value::Number(n) => n != 0,
                _ => true,
            };
            return eval(if holds { yes } else { no }, f, raw);
        }
        Expr::Symbolic(value, list) => {
            let n = num(value)?;
            let found = list.iter().find(|(v, _)| num(v) == Some(n));
            Value::Text(found.map_or_else(|| format!("{n:#x}"), |(_, t)| t.clone()))
        }
        Expr::Flags(value, between, list) => Value::Text(flags(num(value)?, between, list, &num)),
        Expr::Hex(bytes, len, between) => {
            let Value::Bytes(b) = eval(bytes, f, raw)? else { return None };
            let n = match len {
                Some(len) => usize::try_from(num(len)?).ok()?.min(b.len()),
                None => b.len(),
            };
            Value::Text(b[..n].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(between))
        }
        Expr::Array(bytes, count, size) => {
            let Value::Bytes(b) = eval(bytes, f, raw)? else { return None };
            let (n, size) = (usize::try_from(num(count)?).ok()?, usize::try_from(num(size)?).ok()?.clamp(1, 8));
            let list: Vec<String> =
                b.chunks_exact(size).take(n).map(|b| format!("{:#x}", number(b, false, f.big))).collect();
            Value::Text(format!("{{{}}}", list.join(",")))
        }
    })
}

fn flags(mut n: i64, between: &str, list: &[(Expr, String)], num: &dyn Fn(&Expr) -> Option<i64>) -> String {
    let mut names = Vec::new();
    for (mask, name) in list {
        let mask = num(mask).unwrap_or(0);
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

fn binary(op: &str, a: i64, b: i64) -> Option<i64> {
    let shift = |n: i64| u32::try_from(n).ok().filter(|n| *n < 64);
    Some(match op {
        "||" => i64::from(a != 0 || b != 0),
        "&&" => i64::from(a != 0 && b != 0),
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "==" => i64::from(a == b),
        "!=" => i64::from(a != b),
        "<=" => i64::from(a <= b),
        ">=" => i64::from(a >= b),
        "<" => i64::from(a < b),
        ">" => i64::from(a > b),
        "<<" => a.wrapping_shl(shift(b)?),
        ">>" => ((a as u64) >> shift(b)?) as i64,
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" => a.checked_div(b)?,
        _ => a.checked_rem(b)?,
    })
}
