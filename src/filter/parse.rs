//! The filter language as a grammar: from tokens to a checked expression. `||` binds weaker than `&&`, `!` strongest.

use crate::lang::lex::{Cursor, Lexicon, Piece, Token};
use crate::lang::parse::{self as lang, Grammar};
use crate::lang::quantity::{self, Number};

use super::{Atom, Diagnostic, Expr, FIELDS, Field, FieldType, Filter, Known, MAX_ATOMS, Test};

/// Words are whatever names, globs and numbers are made of.
pub(super) const LEXICON: Lexicon = Lexicon {
    marks: &["&&", "||", "==", "!=", "!~", "=~", "<=", ">=", "<", ">", "~", "!", "&", "(", ")", ","],
    begins: is_word,
    goes_on: is_word,
    numbers: false,
    hints: &[('=', "equality is written =="), ('|', "this is written ||")],
};

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "_.:*?@+-/[]$#%{}".contains(c)
}

pub(super) fn parse(text: &str, known: Known<'_>) -> Result<Filter, Diagnostic> {
    if text.trim().is_empty() {
        return Err(Diagnostic::new(text, 0, 1, "a filter is missing, such as comm == \"nginx\""));
    }
    let mut clauses = Clauses { known, atoms: Vec::new() };
    let node = lang::parse(&mut clauses, text)?;
    Ok(Filter { text: text.trim().to_owned(), atoms: clauses.atoms, expr: node.expr })
}

struct Clauses<'a> {
    known: Known<'a>,
    atoms: Vec<Atom>,
}

/// A part of a filter. What no parentheses enclose can be joined by more of the same operator.
struct Node {
    expr: Expr,
    open: bool,
}

impl<'t> Grammar<'t> for Clauses<'_> {
    type Node = Node;
    const LEXICON: Lexicon = LEXICON;
    const INFIX: &'static [&'static [&'static str]] = &[&["||"], &["&&"]];
    const PREFIX: &'static [&'static str] = &["!"];
    const OPERAND: &'static str = "a field, ! or (";

    fn operand(&mut self, first: Piece<'t>, cursor: &mut Cursor<'t>) -> Result<Node, Diagnostic> {
        match first.token {
            Token::Word(name) => self.clause(name, first, cursor).map(|expr| Node { expr, open: false }),
            _ => Err(cursor.fault_at(first, "expected a field, ! or ( here")),
        }
    }

    fn prefix(&mut self, _: Piece<'t>, inner: Node, _: &Cursor<'t>) -> Result<Node, Diagnostic> {
        Ok(Node { expr: Expr::Not(Box::new(inner.expr)), open: false })
    }

    fn infix(
        &mut self,
        op: &'static str,
        left: Node,
        level: usize,
        cursor: &mut Cursor<'t>,
    ) -> Result<Node, Diagnostic> {
        let right = lang::right(self, level, cursor)?.expr;
        let expr = match left {
            Node { expr: Expr::Or(mut list), open: true } if op == "||" => {
                list.push(right);
                Expr::Or(list)
            }
            Node { expr: Expr::And(mut list), open: true } if op == "&&" => {
                list.push(right);
                Expr::And(list)
            }
            Node { expr, .. } if op == "||" => Expr::Or(vec![expr, right]),
            Node { expr, .. } => Expr::And(vec![expr, right]),
        };
        Ok(Node { expr, open: true })
    }

    fn group(&mut self, inner: Node) -> Node {
        Node { open: false, ..inner }
    }

    fn surplus(&self, piece: Piece<'t>) -> &'static str {
        if piece.is("&") { "this is written &&" } else { "expected && or || here" }
    }
}

/// A value and where it stands.
type Value<'t> = (&'t str, Piece<'t>);

impl Clauses<'_> {
    fn clause<'t>(&mut self, name: &'t str, place: Piece<'t>, cursor: &mut Cursor<'t>) -> Result<Expr, Diagnostic> {
        // A tracepoint's own field goes before ours of that name where the kernel decides.
        let own = matches!(self.known, Known::Kernel(fields) if fields.iter().any(|field| field.name == name));
        let row = self.known.rows().find(|row| row.1 == name && !own);
        let (field, kind) = match row {
            Some(row) => (row.0, row.2),
            None => self.traced(name, place, cursor)?,
        };
        if kind == FieldType::Flag {
            return self.atom(field, "", Test::Flag, false, place, cursor);
        }
        let piece = cursor.next("an operator")?;
        let op = match piece.token {
            Token::Mark(op) if field.operators().contains(&op) => op,
            Token::Word("in") => "in",
            _ => {
                let ops = field.operators().join(", ");
                return Err(cursor.fault_at(piece, format!("{name} is compared by {ops}")));
            }
        };
        let values = values(op == "in", cursor)?;
        let (test, negated) = match kind {
            FieldType::Text => text_test(op, &values, cursor)?,
            FieldType::Signed => signed_test(op, &values, cursor)?,
            _ => number_test(op, kind, &values, cursor)?,
        };
        self.atom(field, if row.is_some() { "" } else { name }, test, negated, place, cursor)
    }

    /// A field of the session's tracepoints.
    fn traced(&self, name: &str, place: Piece<'_>, cursor: &Cursor<'_>) -> Result<(Field, FieldType), Diagnostic> {
        let as_field =
            |text| if text { (Field::TraceText, FieldType::Text) } else { (Field::TraceNumber, FieldType::Signed) };
        let known = match self.known {
            Known::These(known) | Known::Kernel(known) => known,
            Known::Sampling => &[],
            // What is compared with says what it is, as far as that can be known.
            Known::Any => {
                let is_number = |t: &str| signed(t.split(['-', ',']).find(|t| !t.is_empty()).unwrap_or(t)).is_some();
                let numeric = match [0, 1].map(|n| cursor.peek_at(n).map(|piece| piece.token)) {
                    [Some(Token::Mark("<" | "<=" | ">" | ">=" | "&")), _] => true,
                    [_, Some(Token::Word(value))] => is_number(value),
                    _ => false,
                };
                return Ok(as_field(!numeric));
            }
        };
        let found = known.iter().find(|field| field.name == name);
        found.map(|field| as_field(field.text)).ok_or_else(|| {
            if matches!(self.known, Known::Sampling | Known::Kernel(_)) && FIELDS.iter().any(|row| row.1 == name) {
                let why = format!("the kernel cannot decide {name}: f filters what is shown by it");
                return cursor.fault_at(place, why);
            }
            let names = self.known.rows().map(|row| row.1).chain(known.iter().map(|field| field.name.as_str()));
            cursor.fault_at(place, format!("no field is called {name}")).offer(names)
        })
    }

    fn atom(
        &mut self,
        field: Field,
        name: &str,
        test: Test,
        negated: bool,
        place: Piece<'_>,
        cursor: &Cursor<'_>,
    ) -> Result<Expr, Diagnostic> {
        if self.atoms.len() == MAX_ATOMS {
            return Err(cursor.fault_at(place, format!("a filter has at most {MAX_ATOMS} clauses")));
        }
        self.atoms.push(Atom { field, name: name.to_owned(), test });
        let expr = Expr::Atom((self.atoms.len() - 1) as u8);
        Ok(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }
}

/// One value, or for `in` a comma-separated list with or without parentheses.
fn values<'t>(list: bool, cursor: &mut Cursor<'t>) -> Result<Vec<Value<'t>>, Diagnostic> {
    let open = list && cursor.eat("(");
    let mut out = Vec::new();
    loop {
        let piece = cursor.next("a value")?;
        match piece.token {
            Token::Word(text) | Token::Quoted(text) => out.push((text, piece)),
            _ => return Err(cursor.fault_at(piece, "expected a value here")),
        }
        if !list || !cursor.eat(",") {
            break;
        }
    }
    if open && !cursor.eat(")") {
        return Err(Diagnostic::new(cursor.text, cursor.text.len(), 1, "expected ) after the list"));
    }
    Ok(out)
}

fn text_test(op: &str, values: &[Value<'_>], cursor: &Cursor<'_>) -> Result<(Test, bool), Diagnostic> {
    let (value, piece) = values[0];
    Ok(match op {
        "~" | "!~" => (Test::Glob(glob(value, piece, cursor)?), op == "!~"),
        "=~" => (Test::Regex(regex(value, piece, cursor)?), false),
        _ => (Test::Equals(values.iter().map(|(value, _)| (*value).to_owned()).collect()), op == "!="),
    })
}

/// A pattern with `*`, `?` and `[…]`, which may match anything between.
pub(super) fn glob(text: &str, place: Piece<'_>, cursor: &Cursor<'_>) -> Result<globset::GlobMatcher, Diagnostic> {
    let glob = globset::GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build();
    let glob = glob.map_err(|error| cursor.fault_at(place, format!("not a glob: {}", error.kind())))?;
    Ok(glob.compile_matcher())
}

/// A regular expression of bounded size.
pub(super) fn regex(text: &str, place: Piece<'_>, cursor: &Cursor<'_>) -> Result<regex::Regex, Diagnostic> {
    regex::RegexBuilder::new(text).size_limit(1 << 20).build().map_err(|error| {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or(&error).trim_start_matches("error: ");
        cursor.fault_at(place, format!("not a regular expression: {why}"))
    })
}

/// `1-5` or `7` among the values of a list; the dash is sought behind the first character, which may be a sign.
fn range<T: PartialOrd + Copy>(
    (text, piece): Value<'_>,
    cursor: &Cursor<'_>,
    one: impl Fn(&str) -> Result<T, Diagnostic>,
) -> Result<(T, T), Diagnostic> {
    match text.char_indices().skip(1).find(|(_, c)| *c == '-') {
        Some((dash, _)) => match (one(&text[..dash])?, one(&text[dash + 1..])?) {
            (from, to) if from > to => Err(cursor.fault_at(piece, "this range ends before it starts")),
            range => Ok(range),
        },
        None => one(text).map(|n| (n, n)),
    }
}

fn signed_test(op: &str, values: &[Value<'_>], cursor: &Cursor<'_>) -> Result<(Test, bool), Diagnostic> {
    let one = |text: &str, piece| signed(text).ok_or_else(|| cursor.fault_at(piece, format!("{text} is not a number")));
    if op == "in" {
        let ranges = values.iter().map(|value| range(*value, cursor, |text| one(text, value.1)));
        return Ok((Test::Signed(ranges.collect::<Result<_, _>>()?), false));
    }
    let n = one(values[0].0, values[0].1)?;
    let ranges = match op {
        "&" => return Ok((Test::Bits(n), false)),
        "<" => n.checked_sub(1).map(|m| (i64::MIN, m)).into_iter().collect(),
        "<=" => vec![(i64::MIN, n)],
        ">" => n.checked_add(1).map(|m| (m, i64::MAX)).into_iter().collect(),
        ">=" => vec![(n, i64::MAX)],
        _ => vec![(n, n)],
    };
    Ok((Test::Signed(ranges), op == "!="))
}

fn number_test(
    op: &str,
    kind: FieldType,
    values: &[Value<'_>],
    cursor: &Cursor<'_>,
) -> Result<(Test, bool), Diagnostic> {
    let one = |text: &str, piece| {
        let what = if kind == FieldType::Seconds { "seconds, such as 12.5 or 250ms" } else { "a number" };
        number(text, kind).ok_or_else(|| cursor.fault_at(piece, format!("{text} is not {what}")))
    };
    if op == "in" {
        let ranges = values.iter().map(|value| range(*value, cursor, |text| one(text, value.1)));
        return Ok((Test::Ranges(ranges.collect::<Result<_, _>>()?), false));
    }
    let n = one(values[0].0, values[0].1)?;
    let below = n.checked_sub(1).map(|m| (0, m));
    let above = n.checked_add(1).map(|m| (m, u64::MAX));
    let ranges = match op {
        "<" => below.into_iter().collect(),
        "<=" => vec![(0, n)],
        ">" => above.into_iter().collect(),
        ">=" => vec![(n, u64::MAX)],
        _ => vec![(n, n)],
    };
    Ok((Test::Ranges(ranges), op == "!="))
}

/// A number as tracepoints have them, perhaps below zero or with a unit; what does not fit is taken by its bits, as the
/// field is.
fn signed(text: &str) -> Option<i64> {
    let Ok(Number::Int(value)) = quantity::literal(text) else { return None };
    let bits = u64::try_from(value.unsigned_abs()).ok()? as i64;
    Some(if value < 0 { bits.wrapping_neg() } else { bits })
}

/// A number, or a time in nanoseconds.
fn number(text: &str, kind: FieldType) -> Option<u64> {
    if kind == FieldType::Seconds { quantity::time(text).ok() } else { quantity::count(text).ok() }
}

#[cfg(test)]
mod tests {
    use super::super::{FILTERS, TraceField};
    use super::*;
    use crate::damage;
    use crate::lang::lex::MAX_DEPTH;

    fn ok(text: &str) -> Filter {
        parse(text, Known::These(&[])).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn fields_of_tracepoints() {
        let field = |name: &str, text| TraceField { name: name.into(), kind: "int".into(), text };
        let known = [field("prev_comm", true), field("prev_pid", false), field("common_flags", false)];
        let with = |text: &str| parse(text, Known::These(&known));
        let f = with("prev_comm ~ \"kworker*\" && prev_pid in -3--1,7 || common_flags & 0x14 && prev_pid != -1")
            .expect("parses");
        let a = f.atoms();
        assert!(a[0].text("kworker/1") && !a[0].text("init") && f.needs_fields() && f.per_sample_mask() == 15);
        assert!(a[1].signed(-2) && a[1].signed(7) && !a[1].signed(0));
        assert!(a[2].signed(4) && a[2].signed(16) && !a[2].signed(8));
        for (text, words) in [
            ("prev_pidd == 1", "nearest: prev_pid"),
            ("prev_pid ~ x", "compared by"),
            ("prev_comm < 1", "compared by"),
            ("prev_pid == x", "not a number"),
            ("prev_pid in 3-1", "ends before"),
        ] {
            let fault = with(text).expect_err(text).line();
            assert!(fault.contains(words), "{text}: {fault}");
        }
        for text in ["prev_pid == 1", "a & 4", "comm == x && whatever ~ \"a*\"", "b in 1-3", "c > -1"] {
            assert!(parse(text, Known::Any).is_ok(), "{text}");
            assert!(parse(text, Known::These(&[])).is_err(), "{text}");
        }
    }

    #[test]
    fn precedence_and_negation() {
        let f = ok("pid == 1 || pid == 2 && !(user || kernel)");
        let (a, not, or) =
            (Expr::Atom(0), Expr::Not(Box::new(Expr::Or(vec![Expr::Atom(2), Expr::Atom(3)]))), Expr::Atom(1));
        assert_eq!(f.expr, Expr::Or(vec![a, Expr::And(vec![or, not])]));
        assert_eq!(ok("comm != x").expr, Expr::Not(Box::new(Expr::Atom(0))));
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
        assert!(ok("stack ~ *a/b*").atoms()[0].text("x a/b/c"));
        assert!(!ok("cpu < 0").atoms()[0].number(0));
    }

    #[test]
    fn faults_point_at_the_place() {
        for (text, at, words) in [
            ("", 0, "missing"),
            ("comn == x", 0, "nearest: comm"),
            ("comm = x", 5, "written =="),
            ("comm == x & pid == 1", 10, "written &&"),
            ("comm < x", 5, "compared by"),
            ("cpu ~ x", 4, "compared by"),
            ("pid == x", 7, "not a number"),
            ("cpu in 3-1", 7, "ends before"),
            ("(pid == 1", 0, "not closed"),
            ("pid == 1 pid == 2", 9, "&& or ||"),
            ("comm == \"x", 8, "not closed"),
            ("sym =~ \"(\"", 7, "not a regular expression: unclosed group"),
            ("pid ==", 6, "expected a value"),
            ("pid == 1 &&", 11, "expected a field"),
            ("time > soon", 7, "seconds"),
        ] {
            let fault = parse(text, Known::These(&[])).expect_err(text);
            assert_eq!(fault.at, at, "{text}: {fault}");
            assert!(fault.line().contains(words), "{text}: {fault}");
        }
        assert!(parse(&"(".repeat(100_000), Known::Any).is_err());
        assert!(parse(&["pid == 1"; 65].join(" && "), Known::Any).is_err());
    }

    #[test]
    fn each_operator_has_its_values() {
        // What of 3, 4, 5, 6 holds.
        let held = |text: &str| {
            let filter = ok(text);
            [3u64, 4, 5, 6].map(|n| filter.eval(u64::from(filter.atoms()[0].number(n))))
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
        let known = [TraceField { name: "n".into(), kind: "int".into(), text: false }];
        let signed = |text: &str| {
            let filter = parse(text, Known::These(&known)).expect(text);
            [-3i64, -2, -1, 0, 1, 2].map(|n| filter.eval(u64::from(filter.atoms()[0].signed(n))))
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

    #[test]
    fn times_have_units() {
        for (text, ns) in [
            ("2", 2_000_000_000),
            ("2s", 2_000_000_000),
            ("1.5s", 1_500_000_000),
            ("250ms", 250_000_000),
            ("7us", 7_000),
            ("9ns", 9),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1d", 86_400_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(number(text, FieldType::Seconds), Some(ns), "{text}");
        }
        for text in ["-1", "inf", "NaN", "1x", "", "s"] {
            assert_eq!(number(text, FieldType::Seconds), None, "{text}");
        }
        assert_eq!((number("7", FieldType::Number), number("7s", FieldType::Number)), (Some(7), None));
    }

    /// Where the fields of tracepoints are not known yet, what is compared with says what a field is.
    #[test]
    fn a_field_is_what_it_is_compared_with() {
        let field = |text: &str| parse(text, Known::Any).expect(text).atoms()[0].field;
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
        assert!(parse(&deep(MAX_DEPTH - 1), Known::Any).is_ok() && parse(&deep(MAX_DEPTH), Known::Any).is_err());
        let many = |n: usize| vec!["(pid == 1)"; n].join(" || ");
        assert!(parse(&many(MAX_ATOMS), Known::Any).is_ok() && parse(&many(MAX_ATOMS + 1), Known::Any).is_err());
    }

    #[test]
    fn what_is_a_word_is_no_list_and_no_operator() {
        for (text, at, words) in [
            ("pid == 1, 2", 8, "&& or ||"),
            ("pid in (1, 2", 12, "expected ) after"),
            ("pid in 1,", 9, "expected a value"),
            ("pid in (&&)", 8, "expected a value"),
            ("pid is 1", 4, "compared by"),
            ("comm == (x)", 8, "expected a value"),
            ("&& pid == 1", 0, "expected a field"),
            ("pid == 1 | tid == 2", 9, "written ||"),
            ("pid == 1 ; x", 9, "no meaning"),
            ("irqs_off", 0, "no field is called irqs_off"),
        ] {
            let fault = parse(text, Known::These(&[])).expect_err(text);
            assert!(fault.at == at && fault.line().contains(words), "{text}: {} {}", fault.at, fault.line());
        }
        let kernel = |text: &str| parse(text, Known::Kernel(&[])).expect_err(text).line();
        assert!(kernel("stack ~ x").contains("f filters what is shown by it"));
        assert!(kernel("nothing == 1").contains("no field is called nothing"));
        assert!(parse("irqs_off && comm == x", Known::Sampling).is_ok());
        // The kernel's own field of a name goes before ours.
        let own = [TraceField { name: "cpu".into(), kind: "char[]".into(), text: true }];
        assert_eq!(parse("cpu == x", Known::Kernel(&own)).expect("parses").atoms()[0].field, Field::TraceText);
        assert!(parse("cpu == x", Known::These(&own)).is_err());
    }

    #[test]
    fn no_text_panics() {
        damage::reaching(512, 20, damage::texts(FILTERS), |text| {
            let _ = parse(&text, Known::These(&[])).map_err(|f| f.to_string());
            parse(&text, Known::Any).map_err(|f| f.to_string()).is_ok()
        });
    }
}
