//! Filters of each type. Tests cover precedence, values, operators, and errors with their positions.

use super::super::{FILTERS, TraceField};
use super::*;
use crate::damage;
use crate::lang::lex::MAX_DEPTH;

fn ok(text: &str) -> Filter {
    parse(text, KnownFields::These(&[])).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn fields_of_tracepoints() {
    let field = |name: &str, text| TraceField { name: name.into(), kind: "int".into(), text, ..TraceField::default() };
    let known = [field("prev_comm", true), field("prev_pid", false), field("common_flags", false)];
    let with = |text: &str| parse(text, KnownFields::These(&known));
    let f = with("prev_comm ~ \"kworker*\" && prev_pid in -3--1,7 || common_flags & 0x14 && prev_pid != -1")
        .expect("parses");
    let a = f.atoms();
    assert!(a[0].text("kworker/1") && !a[0].text("init") && f.needs_fields() && f.per_sample_mask() == 15);
    assert!(a[1].number(-2) && a[1].number(7) && !a[1].number(0));
    assert!(a[2].number(4) && a[2].number(16) && !a[2].number(8));
    for (text, words) in [
        ("prev_pidd == 1", "nearest: prev_pid"),
        ("prev_pid ~ x", "supports the operators"),
        ("prev_comm < 1", "supports the operators"),
        ("prev_pid == x", "not a number"),
        ("prev_pid in 3-1", "ends before"),
    ] {
        let fault = with(text).expect_err(text).line();
        assert!(fault.contains(words), "{text}: {fault}");
    }
    for text in ["prev_pid == 1", "a & 4", "comm == x && anything ~ \"a*\"", "b in 1-3", "c > -1"] {
        assert!(parse(text, KnownFields::Any).is_ok(), "{text}");
        assert!(parse(text, KnownFields::These(&[])).is_err(), "{text}");
    }
}

#[test]
fn precedence_and_negation() {
    let f = ok("pid == 1 || pid == 2 && !(user || kernel)");
    let (a, not, or) = (
        FilterExpr::Atom(0),
        FilterExpr::Not(Box::new(FilterExpr::Or(vec![FilterExpr::Atom(2), FilterExpr::Atom(3)]))),
        FilterExpr::Atom(1),
    );
    assert_eq!(f.expr, FilterExpr::Or(vec![a, FilterExpr::And(vec![or, not])]));
    assert_eq!(ok("comm != x").expr, FilterExpr::Not(Box::new(FilterExpr::Atom(0))));
}

#[test]
fn values_of_each_kind() {
    let f = ok(r#"cpu in 0-3,32 && stack ~ "*tcp_*" && comm in (nginx, 'a b') && sym =~ "^do_" && time >= 1.5"#);
    let a = f.atoms();
    assert!(a[0].number(3) && a[0].number(32) && !a[0].number(4));
    assert!(a[1].text("__tcp_push") && !a[1].text("udp"));
    assert!(a[2].text("a b") && !a[2].text("a"));
    assert!(a[3].text("do_idle") && !a[3].text("undo_x"));
    assert!(a[4].number(1_500_000_000) && !a[4].number(1_499_999_999));
    assert!(ok("time < 250ms").atoms()[0].number(249_999_999));
    assert!(ok("time == 2").atoms()[0].number(2_000_000_000));
    assert!(ok("stack ~ *a/b*").atoms()[0].text("x a/b/c"));
    assert!(!ok("cpu < 0").atoms()[0].number(0));
}

#[test]
fn faults_point_at_the_place() {
    for (text, at, words) in [
        ("", 0, "missing"),
        ("comn == x", 0, "nearest: comm"),
        ("comm = x", 5, "use =="),
        ("comm == x & pid == 1", 10, "written &&"),
        ("comm < x", 5, "supports the operators"),
        ("cpu ~ x", 4, "supports the operators"),
        ("pid == x", 7, "not a number"),
        ("cpu in 3-1", 7, "ends before"),
        ("(pid == 1", 0, "not closed"),
        ("pid == 1 pid == 2", 9, "&& or ||"),
        ("comm == \"x", 8, "not closed"),
        ("sym =~ \"(\"", 7, "not a regular expression: unclosed group"),
        ("pid ==", 6, "expected a value"),
        ("pid == 1 &&", 11, "expected a field"),
        ("time > soon", 7, "seconds"),
        ("pid == 7s", 7, "not a number"),
    ] {
        let fault = parse(text, KnownFields::These(&[])).expect_err(text);
        assert_eq!(fault.at, at, "{text}: {fault}");
        assert!(fault.line().contains(words), "{text}: {fault}");
    }
    assert!(parse(&"(".repeat(100_000), KnownFields::Any).is_err());
    assert!(parse(&["pid == 1"; 65].join(" && "), KnownFields::Any).is_err());
}

#[test]
fn each_operator_has_its_values() {
    // Returns which of 3, 4, 5, 6 match.
    let held = |text: &str| {
        let filter = ok(text);
        [3i64, 4, 5, 6].map(|n| filter.eval(u64::from(filter.atoms()[0].number(n))))
    };
    for (text, want) in [
        ("pid == 5", [false, false, true, false]),
        ("pid != 5", [true, true, false, true]),
        ("pid < 5", [true, true, false, false]),
        ("pid <= 5", [true, true, true, false]),
        ("pid > 5", [false, false, false, true]),
        ("pid >= 5", [false, false, true, true]),
        ("pid in 4-5", [false, true, true, false]),
        ("pid in (3, 5-5)", [true, false, true, false]),
    ] {
        assert_eq!(held(text), want, "{text}");
    }
    assert!(!ok("pid > 18446744073709551615").atoms()[0].number(u64::MAX));
    let known = [TraceField { name: "n".into(), kind: "int".into(), text: false, ..TraceField::default() }];
    let signed = |text: &str| {
        let filter = parse(text, KnownFields::These(&known)).expect(text);
        [-3i64, -2, -1, 0, 1, 2].map(|n| filter.eval(u64::from(filter.atoms()[0].number(n))))
    };
    for (text, want) in [
        ("n == -1", [false, false, true, false, false, false]),
        ("n != -1", [true, true, false, true, true, true]),
        ("n < -1", [true, true, false, false, false, false]),
        ("n <= -1", [true, true, true, false, false, false]),
        ("n > -1", [false, false, false, true, true, true]),
        ("n >= -1", [false, false, true, true, true, true]),
        ("n & 1", [true, false, true, false, true, false]),
        ("n & 0xfffffffffffffffe", [true, true, true, false, false, true]),
        ("n in -2--1,2", [false, true, true, false, false, true]),
        ("n in -1-1", [false, false, true, true, true, false]),
        ("n in 0-0", [false, false, false, true, false, false]),
        ("n == 0xffffffffffffffff", [false, false, true, false, false, false]),
        ("n < -0x8000000000000000", [false; 6]),
        ("n > 9223372036854775807", [false; 6]),
    ] {
        assert_eq!(signed(text), want, "{text}");
    }
    let texts = |text: &str| {
        let filter = ok(text);
        ["ab", "b", "abc"].map(|word| filter.eval(u64::from(filter.atoms()[0].text(word))))
    };
    for (text, want) in [
        ("comm == ab", [true, false, false]),
        ("comm != ab", [false, true, true]),
        ("comm ~ \"a*\"", [true, false, true]),
        ("comm !~ \"a*\"", [false, true, false]),
        ("comm =~ \"b$\"", [true, true, false]),
        ("comm in b,abc", [false, true, true]),
        ("comm in (\"ab\", b)", [true, true, false]),
    ] {
        assert_eq!(texts(text), want, "{text}");
    }
}

/// Without known tracepoint fields, the compared value determines a field's type.
#[test]
fn a_field_is_what_it_is_compared_with() {
    let field = |text: &str| parse(text, KnownFields::Any).expect(text).atoms()[0].field;
    for text in
        ["a == 1", "a in 1-3", "a in -3,4", "a & 4", "a < 5", "a > -1", "a <= 1", "a >= 1", "a == 0x10", "a != -7"]
    {
        assert_eq!(field(text), Field::TraceNumber, "{text}");
    }
    for text in ["a == x", "a ~ x", "a in b,c", "a == \"1\"", "a =~ \"1\"", "a in x-1"] {
        assert_eq!(field(text), Field::TraceText, "{text}");
    }
}

#[test]
fn as_deep_and_as_many_as_is_allowed() {
    let deep = |n: usize| format!("{}pid == 1{}", "(".repeat(n), ")".repeat(n));
    assert!(
        parse(&deep(MAX_DEPTH - 1), KnownFields::Any).is_ok() && parse(&deep(MAX_DEPTH), KnownFields::Any).is_err()
    );
    let many = |n: usize| vec!["(pid == 1)"; n].join(" || ");
    assert!(
        parse(&many(MAX_ATOMS), KnownFields::Any).is_ok() && parse(&many(MAX_ATOMS + 1), KnownFields::Any).is_err()
    );
}

#[test]
fn what_is_a_word_is_no_list_and_no_operator() {
    for (text, at, words) in [
        ("pid == 1, 2", 8, "&& or ||"),
        ("pid in (1, 2", 12, "expected ) after"),
        ("pid in 1,", 9, "expected a value"),
        ("pid in (&&)", 8, "expected a value"),
        ("pid is 1", 4, "this is written pid =="),
        ("pid by 1", 4, "supports the operators"),
        ("comm has x", 5, "this is written comm ~"),
        ("not idle", 0, "this is written !"),
        ("kernel and idle", 7, "this is written &&"),
        ("kernel or idle", 7, "this is written ||"),
        ("comm == (x)", 8, "expected a value"),
        ("&& pid == 1", 0, "expected a field"),
        ("pid == 1 | tid == 2", 9, "written ||"),
        ("pid == 1 ; x", 9, "no meaning"),
        ("irqs_off", 0, "unknown field irqs_off"),
    ] {
        let fault = parse(text, KnownFields::These(&[])).expect_err(text);
        assert!(fault.at == at && fault.line().contains(words), "{text}: {} {}", fault.at, fault.line());
    }
    let kernel = |text: &str| parse(text, KnownFields::Kernel(&[])).expect_err(text).line();
    assert!(kernel("stack ~ x").contains("use a view filter"));
    assert!(kernel("nothing == 1").contains("unknown field nothing"));
    assert!(parse("irqs_off && comm == x", KnownFields::Sampling).is_ok());
    // The kernel's own field hides ours of the same name.
    let own = [TraceField { name: "cpu".into(), kind: "char[]".into(), text: true, ..TraceField::default() }];
    assert_eq!(parse("cpu == x", KnownFields::Kernel(&own)).expect("parses").atoms()[0].field, Field::TraceText);
    assert!(parse("cpu == x", KnownFields::These(&own)).is_err());
}

/// The kernel's names of a field's numbers, which may differ between tracepoints.
#[test]
fn numbers_of_tracepoints_have_names() {
    use crate::event::format::Format;
    use crate::filter::trace_fields;
    let format = |name: &str, words: &str| {
        let text = format!(
            "name: {name}\nID: 1\nformat:\n\tfield:int vec;\toffset:0;\tsize:4;\tsigned:1;\n\nprint fmt: \"%s\", \
             __print_symbolic(REC->vec, {words})\n"
        );
        Format::parse("irq", &text, false).expect("a format")
    };
    let formats = [format("softirq_entry", "{ 1, \"TIMER\" }, { 9, \"RCU\" }"), format("other", "{ 4, \"RCU\" }")];
    let known = trace_fields(formats.iter());
    let holds = |text: &str| {
        let filter = parse(text, KnownFields::These(&known)).unwrap_or_else(|fault| panic!("{fault}"));
        [1i64, 4, 5, 9].map(|n| filter.eval(u64::from(filter.atoms()[0].number(n))))
    };
    assert_eq!(holds("vec == RCU"), [false, true, false, true]);
    assert_eq!(holds("vec != RCU"), [true, false, true, false]);
    assert_eq!(holds("vec in (TIMER, 4-5)"), [true, true, true, false]);
    assert_eq!(holds("vec in 4-5"), [false, true, true, false]);
    assert_eq!(holds("vec > 'TIMER'"), [false, true, true, true]);
    let fault = |text: &str| parse(text, KnownFields::These(&known)).expect_err(text).line();
    assert!(fault("vec == rcu").contains("rcu is not a number, nor a name that vec has"));
    assert!(fault("vec < RCU").contains("RCU has several numbers"));
    assert!(fault("pid == RCU").contains("RCU is not a number") && !fault("pid == RCU").contains("nor a name"));
}

#[test]
fn no_text_panics() {
    damage::reaching(512, 20, damage::texts(FILTERS), |text| {
        let _ = parse(&text, KnownFields::These(&[])).map_err(|f| f.to_string());
        parse(&text, KnownFields::Any).map_err(|f| f.to_string()).is_ok()
    });
}
