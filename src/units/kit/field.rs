//! Fields of tracepoints by name, and expressions over them.

use std::borrow::Cow;
use std::sync::Arc;

use crate::event::format::{Field, Format, until_nul};
use crate::filter::expr::{self, Expr, ExprScope, NamedField, Node, Operand, Value};
use crate::lang::expr::Op;

use super::{ThreadNames, UnitSample};

/// A numeric field of a tracepoint.
#[derive(Clone, Debug)]
pub(crate) struct Num(Field);

impl Num {
    pub(crate) fn of(format: Option<&Arc<Format>>, name: &str) -> Result<Self, String> {
        let format = format.ok_or_else(|| format!("the fields of the event with {name} are unknown"))?;
        let field = format.field(name).ok_or_else(|| {
            let known: Vec<&str> = format.fields.iter().map(|f| f.name.as_str()).collect();
            format!(
                "{}:{} has no field {name} on this kernel; available: {}",
                format.system,
                format.name,
                known.join(" ")
            )
        })?;
        Ok(Self(field.clone()))
    }

    /// Finds the first of some fields that exists.
    pub(crate) fn any(format: Option<&Arc<Format>>, names: &[&str]) -> Result<Self, String> {
        let found = names.iter().find_map(|name| Self::of(format, name).ok());
        found.map_or_else(|| Self::of(format, names[0]), Ok)
    }

    /// Returns the value; 0 if the record is too short.
    pub(crate) fn get(&self, raw: &[u8]) -> i64 {
        self.0.number(raw).unwrap_or(0)
    }

    /// Returns the bytes of a field that is an array.
    pub(crate) fn bytes<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        self.0.bytes(raw).unwrap_or_default()
    }

    pub(crate) fn tid(&self, raw: &[u8]) -> i32 {
        self.get(raw) as i32
    }
}

/// A text field of a tracepoint.
#[derive(Clone, Debug)]
pub(crate) struct Text(Num);

impl Text {
    pub(crate) fn of(format: Option<&Arc<Format>>, name: &str) -> Result<Self, String> {
        Num::of(format, name).map(Self)
    }

    /// Returns the bytes up to the first NUL.
    pub(crate) fn bytes<'a>(&self, raw: &'a [u8]) -> &'a [u8] {
        until_nul(self.0.bytes(raw))
    }
}

/// Values in addition to a tracepoint's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Common {
    Tid,
    Pid,
    Cpu,
    Time,
    Period,
    Addr,
    Ip,
    Comm,
    Latency,
}

/// Names and meanings; perf-prof's spellings begin with an underscore.
const COMMON: &[(&str, Common)] = &[
    ("tid", Common::Tid),
    ("pid", Common::Pid),
    ("cpu", Common::Cpu),
    ("time", Common::Time),
    ("period", Common::Period),
    ("addr", Common::Addr),
    ("ip", Common::Ip),
    ("comm", Common::Comm),
    ("latency", Common::Latency),
    ("_pid", Common::Pid),
    ("_tid", Common::Tid),
    ("_cpu", Common::Cpu),
    ("_time", Common::Time),
    ("_period", Common::Period),
];

#[derive(Clone, Debug)]
enum Slot {
    Number(Field),
    Text(Field),
    Common(Common),
    /// An unresolved word, which is text.
    Word,
}

#[derive(Clone, Debug)]
pub(crate) struct BoundExpr {
    expr: Expr,
    slots: Vec<Slot>,
}

impl BoundExpr {
    pub(crate) fn parse(text: &str, format: Option<&Arc<Format>>) -> Result<Self, String> {
        let expr = expr::parse(text).map_err(|fault| fault.to_string())?;
        Self::new(&expr, format)
    }

    /// Binds the names of an expression. A tracepoint's field takes precedence over a common value of that name.
    pub(crate) fn new(expr: &Expr, format: Option<&Arc<Format>>) -> Result<Self, String> {
        let mut slots = Vec::new();
        for (i, name) in expr.names.iter().enumerate() {
            let own = format.and_then(|format| format.field(&name.word));
            let common = COMMON.iter().find(|(known, _)| *known == name.word);
            slots.push(match (own, common) {
                (Some(field), _) if field.is_text() => Slot::Text(field.clone()),
                (Some(field), _) => Slot::Number(field.clone()),
                (None, Some((_, common))) => Slot::Common(*common),
                (None, None) if name.loose => Slot::Word,
                (None, None) => {
                    let fields = format.iter().flat_map(|format| &format.fields).map(|field| field.name.as_str());
                    let known = fields.chain(COMMON.iter().map(|(name, _)| *name).filter(|n| !n.starts_with('_')));
                    return Err(expr.unknown(i, known).to_string());
                }
            });
        }
        let mut expr = expr.clone();
        if let Some(format) = format {
            name_numbers(&mut expr.root, (&slots, &expr.names), format)?;
        }
        Ok(Self { expr, slots })
    }

    /// Returns the numeric field that is the whole expression.
    pub(crate) fn field(&self) -> Option<&str> {
        let Node::Operand(Operand::Name(name)) = &self.expr.root else { return None };
        let Slot::Number(field) = &self.slots[*name] else { return None };
        Some(&field.name)
    }

    /// Evaluates the expression for a hit and passes the value to `then`.
    pub(crate) fn with<T>(
        &self,
        hit: &UnitSample<'_>,
        names: &ThreadNames,
        latency: Option<u64>,
        then: impl FnOnce(Value<'_>) -> T,
    ) -> T {
        let scope = At { bound: self, hit, names, latency };
        then(self.expr.eval(&scope))
    }

    pub(crate) fn holds(&self, hit: &UnitSample<'_>, names: &ThreadNames, latency: Option<u64>) -> bool {
        self.with(hit, names, latency, |value| value.holds())
    }

    pub(crate) fn count(&self, hit: &UnitSample<'_>, names: &ThreadNames) -> Option<u64> {
        self.with(hit, names, None, |value| value.count())
    }
}

/// Replaces names of a field's numbers by the numbers: `vec == RCU`, `prev_state in (S, D)`.
fn name_numbers(node: &mut Node, names: (&[Slot], &[NamedField]), format: &Format) -> Result<(), String> {
    let field_of = |node: &Node| match node {
        Node::Operand(Operand::Name(name)) => match &names.0[*name] {
            Slot::Number(field) => Some(field.name.clone()),
            _ => None,
        },
        _ => None,
    };
    let number = |field: &str, word: &str| {
        let number = format.number_of(field, word).map(i128::from);
        number.ok_or_else(|| format!("{word} is not a number, nor a name that {field} has"))
    };
    match node {
        Node::Binary(op, field, value) => {
            let word = match &**value {
                Node::Operand(Operand::Text(text)) => Some(text.clone()),
                Node::Operand(Operand::Name(name)) if matches!(names.0[*name], Slot::Word) => {
                    Some(names.1[*name].word.clone())
                }
                _ => None,
            };
            if let (Some(of), Some(word), Op::Eq | Op::Ne) = (field_of(field), word, op) {
                **value = Node::Operand(Operand::Int(number(&of, &word)?));
                return Ok(());
            }
            name_numbers(field, names, format)?;
            name_numbers(value, names, format)
        }
        Node::Operand(Operand::In(field, ranges, words)) => {
            let Some(of) = field_of(field) else { return Ok(()) };
            for word in words.drain(..) {
                let number = number(&of, &word)?;
                ranges.push((number, number));
            }
            Ok(())
        }
        Node::Operand(_) => Ok(()),
        Node::Unary(_, inner) => name_numbers(inner, names, format),
        Node::Choice(test, yes, no) => {
            [test, yes, no].into_iter().try_for_each(|node| name_numbers(node, names, format))
        }
    }
}

struct At<'a> {
    bound: &'a BoundExpr,
    hit: &'a UnitSample<'a>,
    names: &'a ThreadNames,
    latency: Option<u64>,
}

impl ExprScope for At<'_> {
    fn value(&self, name: usize) -> Value<'_> {
        let hit = self.hit;
        let int = |n: u64| Value::Int(i128::from(n));
        match &self.bound.slots[name] {
            Slot::Number(field) => match field.number(hit.raw) {
                Some(n) if field.signed => Value::Int(i128::from(n)),
                Some(n) => int(n as u64),
                None => Value::Empty,
            },
            Slot::Text(field) => {
                Value::Text(String::from_utf8_lossy(until_nul(field.bytes(hit.raw).unwrap_or_default())))
            }
            Slot::Common(common) => match common {
                Common::Tid => Value::Int(hit.tid.into()),
                Common::Pid => Value::Int(hit.pid.into()),
                Common::Cpu => Value::Int(hit.cpu.into()),
                Common::Time => int(hit.time),
                Common::Period => int(hit.period),
                Common::Addr => int(hit.addr),
                Common::Ip => int(hit.ip),
                Common::Comm => Value::Text(self.names.get(hit.tid).map_or(Cow::Borrowed(""), Cow::Borrowed)),
                Common::Latency => self.latency.map_or(Value::Empty, int),
            },
            Slot::Word => Value::Text(Cow::Borrowed(&self.bound.expr.names[name].word)),
        }
    }
}

/// Parses a threshold: `4ms`, or an expression such as `latency > 4ms && cpu == 3`.
pub(crate) fn than(text: &str) -> Result<Expr, String> {
    let parsed = expr::parse(text).map_err(|fault| format!("--than: {fault}"))?;
    if parsed.names.is_empty() {
        return expr::parse(&format!("latency > {text}")).map_err(|fault| format!("--than: {fault}"));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: softirq_entry\nID: 4\nformat:\n\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:char name[4];\toffset:12;\tsize:4;\tsigned:0;\n\nprint fmt: \"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 7, \"SCHED\" }, { 9, \"RCU\" })\n";

    #[test]
    fn expressions_take_the_names_of_numbers() {
        let format = Arc::new(Format::parse("irq", FORMAT, false).expect("a format"));
        let raw = [&[0; 8][..], &9u32.to_le_bytes(), b"RCU\0"].concat();
        let hit = UnitSample { raw: &raw, ..UnitSample::default() };
        for (text, holds) in [
            ("vec == RCU", true),
            ("vec != \"SCHED\"", true),
            ("vec == SCHED", false),
            ("!(vec in (SCHED, 3)) && vec in (1-2, RCU)", true),
            ("vec == RCU && name == RCU", true),
        ] {
            let bound = BoundExpr::parse(text, Some(&format)).expect(text);
            assert_eq!(bound.holds(&hit, &ThreadNames::default(), None), holds, "{text}");
        }
        let fault = BoundExpr::parse("vec == TIMER", Some(&format)).expect_err("unknown");
        assert!(fault.starts_with("TIMER is not a number"), "{fault}");
    }
}
