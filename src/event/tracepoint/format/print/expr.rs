//! C expressions over a tracepoint's fields, and their evaluation.

use super::super::{FieldShape, Format, number};
use crate::lang::expr::{ExprTree, Op, UnaryOp};

pub(crate) type PrintExpr = ExprTree<PrintOperand>;

#[derive(Clone, Debug)]
pub(crate) enum PrintOperand {
    Number(PrintNumber),
    Text(String),
    Field(String),
    /// A name whose value is only in the kernel's source.
    Unknown,
    Record,
    Index(Box<PrintExpr>, Box<PrintExpr>),
    Cast(IntType, Box<PrintExpr>),
    /// A dereferenced pointer to numbers of a type.
    Pointer(IntType, Box<PrintExpr>),
    Symbolic(Box<PrintExpr>, Vec<(PrintExpr, String)>),
    Flags(Box<PrintExpr>, String, Vec<(PrintExpr, String)>),
    Hex(Box<PrintExpr>, Option<Box<PrintExpr>>, &'static str),
    Array(Box<PrintExpr>, Box<PrintExpr>, Box<PrintExpr>),
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
pub(crate) struct PrintNumber {
    pub(crate) bits: i64,
    pub(crate) kind: IntType,
}

impl PrintNumber {
    pub(crate) fn new(bits: i64, kind: IntType) -> Self {
        let bytes = bits.to_le_bytes();
        Self { bits: number(&bytes[..kind.size.clamp(1, 8)], kind.signed, false), kind }
    }

    fn truth(holds: bool) -> Self {
        Self::new(holds.into(), IntType::INT)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum PrintValue<'a> {
    Number(PrintNumber),
    Bytes(&'a [u8]),
    Text(String),
    /// The record does not contain it.
    Unknown,
}

impl PrintValue<'_> {
    /// Converts to a number: bytes by their first eight, text to 0. `None` if it is unknown.
    pub(crate) fn number(&self) -> Option<PrintNumber> {
        Some(match self {
            Self::Number(n) => *n,
            Self::Bytes(b) => PrintNumber::new(number(&b[..b.len().min(8)], false, false), IntType::ULONG),
            Self::Text(_) => PrintNumber::truth(false),
            Self::Unknown => return None,
        })
    }
}

impl PrintExpr {
    /// Evaluates on a sample's data. `None` if the data is too short or a field is missing.
    pub(crate) fn eval<'a>(&self, format: &Format, raw: &'a [u8]) -> Option<PrintValue<'a>> {
        Context { format, raw }.eval(self)
    }

    pub(crate) fn literal(bits: i64, kind: IntType) -> Self {
        Self::Operand(PrintOperand::Number(PrintNumber::new(bits, kind)))
    }
}

struct Context<'f, 'a> {
    format: &'f Format,
    raw: &'a [u8],
}

impl<'a> Context<'_, 'a> {
    fn eval(&self, e: &PrintExpr) -> Option<PrintValue<'a>> {
        Some(match e {
            PrintExpr::Operand(operand) => return self.operand(operand),
            PrintExpr::Unary(op, inner) => {
                self.eval(inner)?.number().map_or(PrintValue::Unknown, |n| PrintValue::Number(unary(*op, n)))
            }
            PrintExpr::Binary(op, a, b) => match (self.eval(a)?.number(), self.eval(b)?.number()) {
                (Some(a), Some(b)) => PrintValue::Number(binary(*op, a, b)?),
                _ => PrintValue::Unknown,
            },
            PrintExpr::Choice(test, yes, no) => match self.eval(test)? {
                PrintValue::Unknown => PrintValue::Unknown,
                PrintValue::Number(PrintNumber { bits: 0, .. }) => return self.eval(no),
                _ => return self.eval(yes),
            },
        })
    }

    fn operand(&self, operand: &PrintOperand) -> Option<PrintValue<'a>> {
        let format = self.format;
        Some(match operand {
            PrintOperand::Number(n) => PrintValue::Number(*n),
            PrintOperand::Text(t) => PrintValue::Text(t.clone()),
            PrintOperand::Unknown => PrintValue::Unknown,
            PrintOperand::Record => return None,
            PrintOperand::Field(name) => self.field(name)?,
            PrintOperand::Length(name) => {
                let len = format.field(name)?.bytes(self.raw)?.len();
                PrintValue::Number(PrintNumber::new(len as i64, IntType::INT))
            }
            PrintOperand::Bitmask(name) => PrintValue::Text(bitmask(format.field(name)?.bytes(self.raw)?, format.big)),
            PrintOperand::Pointer(_, inner) => self.eval(inner)?,
            PrintOperand::Index(base, at) => return self.index(base, at),
            PrintOperand::Cast(kind, inner) => match self.eval(inner)? {
                PrintValue::Number(n) => PrintValue::Number(PrintNumber::new(n.bits, *kind)),
                other => other,
            },
            PrintOperand::Symbolic(value, list) => self.eval(value)?.number().map_or(PrintValue::Unknown, |n| {
                let found = list.iter().find(|(value, _)| self.bits(value) == Some(n.bits));
                PrintValue::Text(found.map_or_else(|| format!("{:#x}", n.bits), |(_, text)| text.clone()))
            }),
            PrintOperand::Flags(value, between, list) => {
                let n = self.eval(value)?.number();
                n.map_or(PrintValue::Unknown, |n| PrintValue::Text(self.flags(n.bits, between, list)))
            }
            PrintOperand::Hex(bytes, len, between) => {
                let PrintValue::Bytes(b) = self.eval(bytes)? else { return None };
                let n = match len {
                    Some(len) => usize::try_from(self.bits(len)?).ok()?.min(b.len()),
                    None => b.len(),
                };
                PrintValue::Text(b[..n].iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(between))
            }
            PrintOperand::Array(bytes, count, size) => {
                let PrintValue::Bytes(b) = self.eval(bytes)? else { return None };
                let n = usize::try_from(self.bits(count)?).ok()?;
                let size = usize::try_from(self.bits(size)?).ok()?.clamp(1, 8);
                let one = |b| format!("{:#x}", number(b, false, format.big));
                PrintValue::Text(format!("{{{}}}", b.chunks_exact(size).take(n).map(one).collect::<Vec<_>>().join(",")))
            }
        })
    }

    fn bits(&self, e: &PrintExpr) -> Option<i64> {
        self.eval(e)?.number().map(|n| n.bits)
    }

    fn field(&self, name: &str) -> Option<PrintValue<'a>> {
        let field = self.format.field(name)?;
        Some(match field.shape {
            FieldShape::Number => {
                let kind = IntType { size: field.size, signed: field.signed };
                PrintValue::Number(PrintNumber::new(field.number(self.raw)?, kind))
            }
            _ => PrintValue::Bytes(field.bytes(self.raw)?),
        })
    }

    fn index(&self, base: &PrintExpr, at: &PrintExpr) -> Option<PrintValue<'a>> {
        let Some(at) = self.eval(at)?.number() else { return Some(PrintValue::Unknown) };
        let at = usize::try_from(at.bits).ok()?;
        let (kind, bytes) = match base {
            PrintExpr::Operand(PrintOperand::Field(name)) => {
                let field = self.format.field(name)?;
                let size = match field.shape {
                    FieldShape::Array(n) | FieldShape::Located { element: n, .. } => n.clamp(1, 8),
                    FieldShape::Text => 1,
                    FieldShape::Number => return None,
                };
                (IntType { size, signed: field.signed }, field.bytes(self.raw)?)
            }
            PrintExpr::Operand(PrintOperand::Pointer(kind, inner)) => match self.eval(inner)? {
                PrintValue::Bytes(bytes) => (*kind, bytes),
                _ => return None,
            },
            _ => return None,
        };
        let from = at.checked_mul(kind.size)?;
        let bits = number(bytes.get(from..from.checked_add(kind.size)?)?, kind.signed, self.format.big);
        Some(PrintValue::Number(PrintNumber::new(bits, kind)))
    }

    fn flags(&self, mut n: i64, between: &str, list: &[(PrintExpr, String)]) -> String {
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

fn unary(op: UnaryOp, n: PrintNumber) -> PrintNumber {
    let kind = n.kind.promoted();
    match op {
        UnaryOp::Not => PrintNumber::truth(n.bits == 0),
        UnaryOp::Invert => PrintNumber::new(!n.bits, kind),
        UnaryOp::Minus => PrintNumber::new(n.bits.wrapping_neg(), kind),
    }
}

/// Computes like C; `None` if undefined in C.
fn binary(op: Op, a: PrintNumber, b: PrintNumber) -> Option<PrintNumber> {
    // The type of a shift is that of the left operand.
    let kind = if matches!(op, Op::Shl | Op::Shr) { a.kind.promoted() } else { a.kind.with(b.kind) };
    let by = u32::try_from(b.bits).ok().filter(|by| *by < 8 * kind.size as u32);
    let (a, b) = (PrintNumber::new(a.bits, kind).bits, PrintNumber::new(b.bits, kind).bits);
    let order = if kind.signed { a.cmp(&b) } else { (a as u64).cmp(&(b as u64)) };
    let truth = match op {
        Op::Or => Some(a != 0 || b != 0),
        Op::And => Some(a != 0 && b != 0),
        _ => op.holds(order),
    };
    if let Some(holds) = truth {
        return Some(PrintNumber::truth(holds));
    }
    let bits = match (op, kind.signed) {
        (Op::BitOr, _) => a | b,
        (Op::BitXor, _) => a ^ b,
        (Op::BitAnd, _) => a & b,
        (Op::Shl, _) => a << by?,
        (Op::Shr, true) => a >> by?,
        (Op::Shr, false) => (a as u64 >> by?) as i64,
        (Op::Add, _) => a.wrapping_add(b),
        (Op::Sub, _) => a.wrapping_sub(b),
        (Op::Mul, _) => a.wrapping_mul(b),
        (Op::Div, true) => a.checked_div(b)?,
        (Op::Div, false) => (a as u64).checked_div(b as u64)? as i64,
        (_, true) => a.checked_rem(b)?,
        (_, false) => (a as u64).checked_rem(b as u64)? as i64,
    };
    Some(PrintNumber::new(bits, kind))
}
