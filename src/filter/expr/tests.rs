//! Expressions with known values.

use super::*;
use crate::damage;

struct Words<'a>(&'a Expr);

impl ExprScope for Words<'_> {
    fn value(&self, name: usize) -> Value<'_> {
        let name = &self.0.names[name];
        match name.word.as_str() {
            "bytes" | "same" => Value::Int(4096),
            "zero" => Value::Int(0),
            "comm" => Value::Text(Cow::Borrowed("nginx-worker")),
            word if name.loose => Value::Text(Cow::Borrowed(word)),
            _ => Value::Empty,
        }
    }
}

fn of(text: &str) -> Value<'static> {
    let expr = parse(text).unwrap_or_else(|fault| panic!("{fault}"));
    match expr.eval(&Words(&expr)) {
        Value::Text(text) => Value::Text(text.into_owned().into()),
        Value::Int(n) => Value::Int(n),
        Value::Float(n) => Value::Float(n),
        Value::Empty => Value::Empty,
    }
}

#[test]
fn names_begin_as_in_c_and_in_a_shell() {
    for text in ["_a == 1", "$a == 1", "a_$1.b@c[2] == 1"] {
        assert_eq!(parse(text).map(|expr| expr.names.len()), Ok(1), "{text}");
    }
    assert!(parse("#a == 1").is_err());
    let fault = parse("comm =~ \"(\"").expect_err("a group that is not closed");
    assert!(fault.to_string().contains("unclosed group"), "{fault}");
}

#[test]
fn what_cannot_be_computed_is_empty() {
    for text in ["1 / zero", "1 % 0", "nothing + 1", "comm + 1", "1 << 99", "log2(0)", "1.0 / 0", "comm < 3"] {
        assert_eq!(of(text), Value::Empty, "{text}");
    }
    assert!(!of("1 / zero > 0").holds());
}

#[test]
fn texts_compare_as_in_filters() {
    for text in [
        "comm ~ \"nginx*\"",
        "comm =~ \"^ng.*er$\"",
        "comm !~ \"apache*\"",
        "comm == nginx-worker",
        "comm in (a, nginx-worker)",
        "bytes in 1-5,4096",
        "bytes > 4KB && comm != x",
        "bytes == same",
    ] {
        assert!(of(text).holds(), "{text}");
    }
}

#[test]
fn no_text_panics() {
    const TEXTS: &[&str] = &[
        "(1 + 2) * 3",
        "bytes >> 10 & 3 | 8",
        "-7 / 2 % 4 - -1",
        "bytes == 4096 ? 5 : 6",
        "!bytes || 0x10 == 16 && ~0 == -1",
        "1.5ms + 2KiB",
        "max(3, min(9, 5)) ^ log2(bytes)",
        "comm ~ \"nginx*\" && comm =~ \"^ng.*er$\"",
        "comm in (a, nginx-worker)",
        "bytes in 1-5,4096",
        "1 << 99 >> 7 / zero",
    ];
    damage::reaching(512, 30, damage::texts(TEXTS), |text| {
        let expr = parse(&text);
        expr.is_ok_and(|expr| {
            let _ = expr.eval(&Words(&expr));
            true
        })
    });
}

#[test]
fn every_operator_by_hand() {
    for (text, value) in [
        ("bytes >> 10 & 3 | 8", 8),
        ("-7 / 2", -3),
        ("7 % 4 - -1", 4),
        ("bytes == 4096 ? 5 : 6", 5),
        ("max(3, min(9, 5))", 5),
        ("log2(bytes)", 12),
        ("6 | 3", 7),
        ("6 ^ 3", 5),
        ("6 & 3", 2),
        ("5 == 5", 1),
        ("5 == 6", 0),
        ("5 != 5", 0),
        ("5 != 6", 1),
        ("5 < 5", 0),
        ("4 < 5", 1),
        ("6 < 5", 0),
        ("5 <= 5", 1),
        ("6 <= 5", 0),
        ("5 > 5", 0),
        ("6 > 5", 1),
        ("4 > 5", 0),
        ("5 >= 5", 1),
        ("4 >= 5", 0),
        ("3 << 4", 48),
        ("1 << 63", 1 << 63),
        ("48 >> 4", 3),
        ("-9 >> 1", -5),
        ("1 >> 63", 0),
        ("5 + 6", 11),
        ("5 - 6", -1),
        ("5 * 6", 30),
        ("17 / 5", 3),
        ("17 % 5", 2),
        ("!5", 0),
        ("!0", 1),
        ("!!5", 1),
        ("~5", -6),
        ("-(-5)", 5),
        ("0 || 0", 0),
        ("0 || 7", 1),
        ("7 || 0", 1),
        ("3 && 0", 0),
        ("0 && 3", 0),
        ("3 && 7", 1),
        ("ntohl(0x01020304)", 0x0403_0201),
        ("ntohs(0x1234)", 0x3412),
        ("ntohs(ntohs(513))", 513),
        ("abs(-5)", 5),
        ("abs(5)", 5),
        ("min(2, 3)", 2),
        ("min(3, 2)", 2),
        ("max(2, 3)", 3),
        ("log2(1)", 0),
        ("log2(7)", 2),
        ("log2(8)", 3),
        ("0 ? 5 : 6", 6),
        ("1 ? 2 : 0 ? 3 : 4", 2),
        ("0 ? 2 : 0 ? 3 : 4", 4),
        ("1.5 < 2", 1),
        ("2 < 1.5", 0),
        ("1.5 == 1.5", 1),
        ("1.5 >= 1.6", 0),
        ("!0.5", 0),
        ("!0.0", 1),
        ("~2.9", -3),
        ("abs(-2.9)", 2),
        ("bytes in 4096", 1),
        ("bytes in 4095", 0),
        ("bytes in 1-4095,4097-9999", 0),
        ("bytes in (1,4000-5000)", 1),
        ("comm in nginx", 0),
        ("comm in (\"nginx-worker\")", 1),
        ("comm ~ \"nginx\"", 0),
        ("comm !~ \"nginx*\"", 0),
        ("comm =~ \"apache\"", 0),
        ("comm < \"nginy\"", 1),
        ("comm >= \"nginy\"", 0),
        ("comm == \"nginx-worker\"", 1),
        ("!comm", 0),
        ("!\"\"", 1),
    ] {
        assert_eq!(of(text), Value::Int(value), "{text}");
    }
    for (text, value) in [
        ("1.5 + 2", 3.5),
        ("1.5 - 2", -0.5),
        ("1.5 * 2", 3.0),
        ("3 / 2.0", 1.5),
        ("5.5 % 2", 1.5),
        ("-1.5", -1.5),
        ("2.5", 2.5),
    ] {
        assert_eq!(of(text), Value::Float(value), "{text}");
    }
}

#[test]
fn numbers_and_their_units() {
    for (text, value) in [
        ("1_000", 1000),
        ("0x1F", 31),
        ("3µs", 3_000),
        ("2kB", 2000),
        ("1.5KiB", 1536),
        ("0.0000000016s", 2),
        ("18446744073709551615s", u64::MAX as i128 * 1_000_000_000),
    ] {
        assert_eq!(of(text), Value::Int(value), "{text}");
    }
    for (text, at, words) in [
        ("0xg", 0, "units:"),
        ("1 + 5x", 4, "units:"),
        ("1.2.3", 0, "not a number"),
        ("18446744073709551616", 0, "not a number"),
        ("1 @ 2", 2, "no meaning"),
        ("1 = 2", 2, "use =="),
        ("\"a", 0, "not closed"),
        ("a 'b", 2, "not closed"),
        ("a ~ 5", 4, "a pattern"),
        ("a ~", 3, "a pattern"),
        ("a ~ \"[\"", 4, "not a glob"),
        ("a =~ \"(\"", 5, "not a regular expression"),
        ("a in", 4, "a value"),
        ("a in (1, 2", 10, "expected )"),
        ("a in 1, +", 8, "a value"),
        ("1 ? 2", 5, "expected :"),
        ("", 0, "a number or a field"),
        ("1 +", 3, "a number or a field"),
        ("1 2", 2, "an operator"),
        ("min(1, 2", 8, "expected )"),
        ("min(1, 2, 3)", 0, "takes 2"),
        ("abs()", 0, "takes 1"),
        ("mix(1)", 0, "unknown function mix"),
        ("1 + *", 4, "a number or a field"),
        ("(1 + 2", 0, "not closed"),
    ] {
        let fault = parse(text).expect_err(text);
        assert!(fault.at == at && fault.line().contains(words), "{text}: {} {}", fault.at, fault.line());
    }
    assert!(parse(&format!("1{}", " ".repeat(4095))).is_ok());
    assert!(parse(&format!("1{}", " ".repeat(4096))).is_err());
    assert!(parse(&format!("{}1", "-".repeat(99))).is_ok() && parse(&format!("{}1", "-".repeat(100))).is_err());
    let wide = vec!["(1)"; 500].join("+");
    assert!(parse(&wide).is_ok(), "closed parentheses do not nest");
}

#[test]
fn what_overflows_or_fits_nowhere_is_empty() {
    let large = "(0xffffffffffffffff * 0xffffffffffffffff)";
    for text in [
        format!("{large} * {large}"),
        format!("-{large} * 9 - {large}  * {large}"),
        format!("{large} << 1"),
        "1 << 64".into(),
        "1 >> 64".into(),
        "1 << -1".into(),
        "1 >> -1".into(),
        "5 % 0".into(),
        "1.5 | 2".into(),
        "\"a\" + \"b\"".into(),
        "\"a\" == 5".into(),
        "5 == \"a\"".into(),
        "-comm".into(),
        "~comm".into(),
        "bytes ~ \"4*\"".into(),
        "nothing in 1-2".into(),
        "1.5 in 1-2".into(),
        "log2(-1)".into(),
        "min(comm, 1)".into(),
        "nothing == nothing".into(),
        "1.0 % 0".into(),
    ] {
        assert_eq!(of(&text), Value::Empty, "{text}");
    }
}

#[test]
fn values_as_numbers() {
    assert_eq!((Value::Float(2.9).int(), Value::Float(-2.9).int(), Value::Int(7).int()), (Some(2), Some(-2), Some(7)));
    assert_eq!((Value::Float(f64::NAN).int(), Value::Empty.int(), Value::Text("7".into()).int()), (None, None, None));
    assert_eq!((Value::Int(7).count(), Value::Int(-1).count(), Value::Int(0).count()), (Some(7), None, Some(0)));
    let holds =
        [Value::Empty, Value::Int(0), Value::Int(-1), Value::Float(0.0), Value::Float(0.1), Value::Text("".into())];
    assert_eq!(holds.map(|value| value.holds()), [false, false, true, false, true, false]);
}

/// C's precedence levels, the lowest first.
const C: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

#[test]
fn each_pair_of_operators_binds_as_in_c() {
    let all: Vec<(usize, &str)> =
        (0..).zip(C).flat_map(|(level, ops)| ops.iter().map(move |op| (level, *op))).collect();
    let mut group_by = 0;
    for (a, first) in &all {
        for (b, second) in &all {
            for [x, y, z] in [[1, 2, 3], [7, 2, 1], [0, 5, 2], [6, 3, 3]] {
                let left = of(&format!("({x} {first} {y}) {second} {z}"));
                let right = of(&format!("{x} {first} ({y} {second} {z})"));
                group_by += usize::from(left != right);
                let want = if a >= b { left } else { right };
                assert_eq!(of(&format!("{x} {first} {y} {second} {z}")), want, "{x} {first} {y} {second} {z}");
            }
        }
    }
    assert!(group_by > 300, "{group_by}");
}

#[test]
fn words_are_fields_where_they_may_be_and_texts_where_they_stand_together() {
    let names = |text: &str| -> Vec<(String, usize, bool)> {
        let names = parse(text).expect(text).names;
        names.into_iter().map(|name| (name.word, name.at, name.loose)).collect()
    };
    assert_eq!(names("comm == nginx"), [("comm".into(), 0, false), ("nginx".into(), 8, true)]);
    assert_eq!(names("comm == kworker/0-1"), [("comm".into(), 0, false)]);
    assert_eq!(names("a + a * b"), [("a".into(), 0, false), ("b".into(), 8, false)]);
    assert_eq!(names("a == b && b > 1"), [("a".into(), 0, false), ("b".into(), 5, true), ("b".into(), 10, false)]);
    assert_eq!(names("a != min(b, 1)"), [("a".into(), 0, false), ("b".into(), 9, false)]);
    assert!(of("comm != kworker/0:1").holds() && !of("comm == nginx").holds());
    assert!(of("comm in (kworker/0:1, nginx-worker)").holds());
    let expr = parse("a + byts").expect("parses");
    let fault = expr.unknown(1, ["bytes", "comm"]);
    assert_eq!((fault.at, fault.len), (4, 4));
    assert!(fault.line().contains("nearest: bytes"), "{fault}");
}
