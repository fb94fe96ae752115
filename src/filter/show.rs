//! Converts a filter back to text, in this language or in the kernel's for tracepoints.

use std::fmt::{Display, Formatter, Result as Shown};

use super::{Atom, Field, FieldType, Filter, FilterExpr, Test};

#[derive(Clone, Copy)]
pub(crate) struct ShownExpr<'a>(pub(crate) &'a FilterExpr, pub(crate) &'a [Atom]);

impl Display for Filter {
    fn fmt(&self, f: &mut Formatter<'_>) -> Shown {
        ShownExpr(&self.expr, &self.atoms).fmt(f)
    }
}

impl Display for ShownExpr<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Shown {
        let expr = self.0;
        let join = |f: &mut Formatter<'_>, list: &[FilterExpr], between: &str| {
            for (i, part) in list.iter().enumerate() {
                if i > 0 {
                    f.write_str(between)?;
                }
                // `&&` binds stronger than `||`. Adds no more parentheses than were typed, because nesting is limited.
                match (expr, part) {
                    (FilterExpr::And(_), FilterExpr::And(_) | FilterExpr::Or(_)) | (_, FilterExpr::Or(_)) => {
                        write!(f, "({})", ShownExpr(part, self.1))?
                    }
                    _ => ShownExpr(part, self.1).fmt(f)?,
                }
            }
            Ok(())
        };
        match expr {
            FilterExpr::Atom(i) => self.1[usize::from(*i)].fmt(f),
            FilterExpr::Not(inner) => write!(f, "!({})", ShownExpr(inner, self.1)),
            FilterExpr::And(all) => join(f, all, " && "),
            FilterExpr::Or(any) => join(f, any, " || "),
        }
    }
}

/// Quotes a text with the quotes that it does not contain.
fn quoted(text: &str) -> String {
    if text.contains('"') { format!("'{text}'") } else { format!("\"{text}\"") }
}

impl Atom {
    /// Returns the field's name as typed.
    pub(crate) fn field_name(&self) -> &str {
        self.field.row().map_or(&self.name, |row| row.name)
    }
}

impl Display for Atom {
    fn fmt(&self, f: &mut Formatter<'_>) -> Shown {
        let name = self.field_name();
        let unit = if self.field.kind() == FieldType::Seconds { "ns" } else { "" };
        let list = |ranges: Vec<String>| ranges.join(",");
        match &self.test {
            Test::Flag => f.write_str(name),
            Test::Equals(values) if values.len() == 1 => write!(f, "{name} == {}", quoted(&values[0])),
            Test::Equals(values) => write!(f, "{name} in {}", list(values.iter().map(|v| quoted(v)).collect())),
            Test::Glob(glob) => write!(f, "{name} ~ {}", quoted(glob.glob().glob())),
            Test::Regex(regex) => write!(f, "{name} =~ {}", quoted(regex.as_str())),
            Test::Bits(bits) => write!(f, "{name} & {bits}"),
            Test::Ranges(ranges) => match (ranges.as_slice(), self.field.kind().limits()) {
                ([], (least, _)) => write!(f, "{name} < {least}{unit}"),
                ([(from, to)], (least @ ..0, _)) if *from == least => write!(f, "{name} <= {to}"),
                ([(from, to)], (_, most)) if *to == most => write!(f, "{name} >= {from}{unit}"),
                ([(from, to)], _) if from == to => write!(f, "{name} == {from}{unit}"),
                (ranges, _) => {
                    let one = |(from, to): &(i128, i128)| format!("{from}{unit}-{to}{unit}");
                    write!(f, "{name} in {}", list(ranges.iter().map(one).collect()))
                }
            },
        }
    }
}

/// Translates the expression to the kernel's filter syntax for tracepoints. See Documentation/trace/events.rst, "Event
/// filtering". The error has the atom that the syntax does not support, and why.
pub(crate) fn for_kernel(expr: &FilterExpr, atoms: &[Atom]) -> Result<String, (u8, String)> {
    let join = |list: &[FilterExpr], between: &str| -> Result<String, (u8, String)> {
        let parts: Vec<String> = list.iter().map(|part| for_kernel(part, atoms)).collect::<Result<_, _>>()?;
        Ok(format!("({})", parts.join(between)))
    };
    match expr {
        FilterExpr::Atom(i) => clause(&atoms[usize::from(*i)]).map_err(|why| (*i, why)),
        FilterExpr::Not(inner) => Ok(format!("!({})", for_kernel(inner, atoms)?)),
        FilterExpr::And(all) => join(all, " && "),
        FilterExpr::Or(any) => join(any, " || "),
    }
}

/// Bits of `common_flags` (`enum trace_flag_type` in include/linux/trace_events.h).
const IRQS_OFF: u32 = 1;
const NEED_RESCHED: u32 = 4;
const HARDIRQ: u32 = 8;
const SOFTIRQ: u32 = 16;

/// Returns a bound as the kernel compares it: signed, in 64 bits.
pub(super) fn in_kernel(bound: i128) -> i64 {
    bound.min(i64::MAX.into()) as i64
}

fn clause(atom: &Atom) -> Result<String, String> {
    let flag = |bits: u32| Ok(format!("common_flags & {bits}"));
    let name = match atom.field {
        Field::IrqsOff => return flag(IRQS_OFF),
        Field::NeedResched => return flag(NEED_RESCHED),
        Field::Context => return context(atom),
        // common_pid is the current thread (trace_event_get_offsets: current->pid).
        Field::Tid => "common_pid",
        Field::Cpu => "CPU",
        Field::Comm => "COMM",
        Field::TraceText | Field::TraceNumber => &atom.name,
        Field::Pid => return Err("the kernel knows only threads here; use tid".to_owned()),
        _ => return Err("the kernel cannot evaluate it; use a view filter (f)".to_owned()),
    };
    let any = |list: Vec<String>| match list.as_slice() {
        [one] => one.clone(),
        list => format!("({})", list.join(" || ")),
    };
    let range = |(from, to): &(i128, i128)| match (in_kernel(*from), in_kernel(*to)) {
        (from, to) if from == to => format!("{name} == {from}"),
        (i64::MIN, to) => format!("{name} <= {to}"),
        (from, i64::MAX) => format!("{name} >= {from}"),
        (from, to) => format!("({name} >= {from} && {name} <= {to})"),
    };
    let text = |value: &str| match value.contains('"') {
        true => Err("the kernel does not support quotes in text".to_owned()),
        false => Ok(format!("\"{value}\"")),
    };
    Ok(match &atom.test {
        Test::Bits(bits) => format!("{name} & {bits}"),
        Test::Ranges(list) if !list.is_empty() => any(list.iter().map(range).collect()),
        Test::Equals(values) => {
            let each = values.iter().map(|value| Ok(format!("{name} == {}", text(value)?)));
            any(each.collect::<Result<_, String>>()?)
        }
        Test::Glob(glob) if !glob.glob().glob().contains(['{', '\\']) => {
            format!("{name} ~ {}", text(glob.glob().glob())?)
        }
        _ => return Err("the kernel does not support regular expressions; use ~ with * ? and [a-z]".to_owned()),
    })
}

/// Returns a context in terms of the interrupted code's flags.
fn context(atom: &Atom) -> Result<String, String> {
    let known = [
        ("task", format!("!(common_flags & {})", HARDIRQ | SOFTIRQ)),
        ("softirq", format!("common_flags & {SOFTIRQ}")),
        ("irq", format!("common_flags & {HARDIRQ}")),
    ];
    let chosen: Vec<String> = known.into_iter().filter(|(word, _)| atom.text(word)).map(|(_, text)| text).collect();
    match chosen.len() {
        0 => Err("the kernel knows only the contexts task, softirq and irq".to_owned()),
        _ => Ok(format!("({})", chosen.join(" || "))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{KnownFields, TraceField};
    use super::*;
    use proptest::prelude::*;

    fn fields() -> Vec<TraceField> {
        let field =
            |name: &str, text| TraceField { name: name.into(), kind: "int".into(), text, ..TraceField::default() };
        vec![field("prev_comm", true), field("prev_pid", false)]
    }

    #[test]
    fn each_clause_in_our_words() {
        let known = fields();
        for (text, shown) in [
            ("user", "user"),
            ("irqs_off", "irqs_off"),
            ("comm == x", "comm == \"x\""),
            ("comm == 'a\"b'", "comm == 'a\"b'"),
            ("comm in x,y", "comm in \"x\",\"y\""),
            ("comm ~ a*", "comm ~ \"a*\""),
            ("comm =~ '^a'", "comm =~ \"^a\""),
            ("comm !~ a*", "!(comm ~ \"a*\")"),
            ("pid == 7", "pid == 7"),
            ("pid in 7-9", "pid in 7-9"),
            ("pid in 7,9", "pid in 7-7,9-9"),
            ("pid < 5", "pid in 0-4"),
            ("pid >= 5", "pid >= 5"),
            ("pid < 0", "pid < 0"),
            ("time > 1ms", "time >= 1000001ns"),
            ("time in 1ms-2ms", "time in 1000000ns-2000000ns"),
            ("time == 1ms", "time == 1000000ns"),
            ("time < 0", "time < 0ns"),
            ("prev_pid == -1", "prev_pid == -1"),
            ("prev_pid < 5", "prev_pid <= 4"),
            ("prev_pid > 5", "prev_pid >= 6"),
            ("prev_pid in -3--1,7", "prev_pid in -3--1,7-7"),
            ("prev_pid & 6", "prev_pid & 6"),
            ("prev_pid < -0x8000000000000000", "prev_pid < -9223372036854775808"),
            ("user && (kernel || idle)", "user && (kernel || idle)"),
            ("user || kernel && idle", "user || kernel && idle"),
            ("(user || kernel) || idle", "(user || kernel) || idle"),
            ("user && (kernel && idle)", "user && (kernel && idle)"),
            ("!(!user)", "user"),
            ("!(!(!user))", "!(user)"),
            ("!(user && kernel)", "!(user && kernel)"),
        ] {
            let known = if text == "irqs_off" { KnownFields::Sampling } else { KnownFields::These(&known) };
            assert_eq!(Filter::parse_with(text, known).expect(text).to_string(), shown, "{text}");
        }
    }

    #[test]
    fn each_clause_in_the_kernels() {
        let known = fields();
        let kernel = |text: &str| {
            let filter = Filter::parse_with(text, KnownFields::Kernel(&known)).expect(text);
            for_kernel(&filter.expr, &filter.atoms)
        };
        for (text, want) in [
            ("prev_pid == -1", "prev_pid == -1"),
            ("prev_pid < 5", "prev_pid <= 4"),
            ("prev_pid > 5", "prev_pid >= 6"),
            ("prev_pid in 1-2", "(prev_pid >= 1 && prev_pid <= 2)"),
            ("prev_pid & 6", "prev_pid & 6"),
            ("tid >= 5", "common_pid >= 5"),
            ("tid <= 5", "(common_pid >= 0 && common_pid <= 5)"),
            ("cpu == 3", "CPU == 3"),
            ("comm == x", "COMM == \"x\""),
            ("comm ~ \"x*\"", "COMM ~ \"x*\""),
            ("need_resched", "common_flags & 4"),
            ("irqs_off", "common_flags & 1"),
            ("context == irq", "(common_flags & 8)"),
            ("context == task", "(!(common_flags & 24))"),
            ("cpu == 1 && cpu == 2", "(CPU == 1 && CPU == 2)"),
            ("!(cpu == 1 || cpu == 2)", "!((CPU == 1 || CPU == 2))"),
            (
                "prev_pid in 1-3,7 && !irqs_off",
                "(((prev_pid >= 1 && prev_pid <= 3) || prev_pid == 7) && !(common_flags & 1))",
            ),
            ("tid == 5 || cpu in 0-1", "(common_pid == 5 || (CPU >= 0 && CPU <= 1))"),
            ("prev_comm !~ \"k*\"", "!(prev_comm ~ \"k*\")"),
            ("context == softirq", "(common_flags & 16)"),
            ("context in task,irq", "(!(common_flags & 24) || common_flags & 8)"),
            ("prev_comm in a,b", "(prev_comm == \"a\" || prev_comm == \"b\")"),
        ] {
            assert_eq!(kernel(text).as_deref(), Ok(want), "{text}");
        }
        for (text, atom, words) in [
            ("context == idle", 0, "task, softirq and irq"),
            ("cpu == 1 && prev_comm == 'a\"b'", 1, "support quotes"),
            ("prev_comm ~ \"{a,b}\"", 0, "regular"),
            ("prev_pid < -0x8000000000000000", 0, "regular"),
            ("cpu < 0", 0, "regular"),
            ("prev_comm =~ \"x\"", 0, "regular"),
            ("pid == 1", 0, "tid"),
            ("prev_pid in 1-2 && pid == 3", 1, "threads"),
        ] {
            let (at, why) = kernel(text).expect_err(text);
            assert!(at == atom && why.contains(words), "{text}: {at} {why}");
        }
    }

    #[test]
    fn nothing_shown_is_nested_deeper_than_it_was() {
        for text in ["!".repeat(62) + "comm ~ p", "(".repeat(98) + "pid == 1 || pid == 2 && user" + &")".repeat(98)] {
            let shown = Filter::parse(&text).expect("parses").to_string();
            assert!(Filter::parse(&shown).is_ok(), "{shown}");
        }
    }

    #[test]
    fn what_is_denied_twice_keeps_its_parentheses() {
        let shown = |text: &str| Filter::parse(text).expect("parses").to_string();
        assert_eq!(
            shown(r#"comm != "a" && !(!(pid == 1 || pid == 2))"#),
            r#"!(comm == "a") && (pid == 1 || pid == 2)"#
        );
        assert_eq!(shown("pid == 3 || !(!(!(!(pid == 1 && pid == 2))))"), "pid == 3 || pid == 1 && pid == 2");
    }

    fn any_filter() -> impl Strategy<Value = String> {
        let number = || (0u64..1000).prop_map(|n| n.to_string());
        let leaf = prop_oneof![
            number().prop_map(|n| format!("pid == {n}")),
            (0u64..9, 9u64..20).prop_map(|(a, b)| format!("cpu in {a}-{b},{b}")),
            number().prop_map(|n| format!("time > {n}ms")),
            number().prop_map(|n| format!("tid <= {n}")),
            "[a-z/_.]{1,8}".prop_map(|w| format!("comm != \"{w}\"")),
            "[a-z*?]{1,8}".prop_map(|w| format!("stack ~ \"{w}\"")),
            "[a-z.]{1,8}".prop_map(|w| format!("sym =~ '{w}'")),
            Just("user".to_owned()),
            (-9i64..9, 9i64..20).prop_map(|(a, b)| format!("prev_pid in {a}-{b}")),
            (-9i64..9).prop_map(|a| format!("prev_pid < {a}")),
            (1i64..99).prop_map(|a| format!("prev_pid & {a}")),
        ];
        leaf.prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|e| format!("!({e})")),
                proptest::collection::vec(inner.clone(), 1..4).prop_map(|l| format!("({})", l.join(" && "))),
                proptest::collection::vec(inner, 1..4).prop_map(|l| format!("({})", l.join(" || "))),
            ]
        })
    }

    proptest! {
        #![proptest_config(crate::damage::kept())]

        #[test]
        fn shown_and_read_again_is_the_same(text in any_filter()) {
            let known = fields();
            let first = Filter::parse_with(&text, KnownFields::These(&known)).expect("generated");
            let shown = first.to_string();
            let again = Filter::parse_with(&shown, KnownFields::These(&known)).map_err(|f| f.to_string());
            prop_assert!(again.is_ok(), "{} became {}: {:?}", text, shown, again);
            let again = again.expect("checked");
            prop_assert_eq!(again.to_string(), shown);
            prop_assert_eq!(first.atoms.len(), again.atoms.len());
            for bits in [0, 1, 2, 3, 5, 0x55, 0xaa, u64::MAX] {
                prop_assert_eq!(first.eval(bits), again.eval(bits));
            }
        }
    }
}
