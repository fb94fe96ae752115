//! From tokens to a checked expression. `||` binds weaker than `&&`, `!` strongest.

use super::complete::operators;
use super::lex::{Placed, Token, tokens};
use super::{Atom, Expr, FIELDS, Fault, Field, Filter, Kind, Known, MAX_ATOMS, Test};

/// Nesting beyond this is refused, so that no text can exhaust the stack.
const MAX_DEPTH: usize = 100;

pub(super) fn parse(text: &str, known: Known<'_>) -> Result<Filter, Fault> {
    let mut p = Parser { text, known, tokens: tokens(text)?, at: 0, atoms: Vec::new(), depth: 0 };
    if p.tokens.is_empty() {
        return Err(Fault::new(text, 0, 1, "a filter is missing, such as comm == \"nginx\""));
    }
    let expr = p.or()?;
    if let Some((Token::Op("&"), at, len)) = p.peek() {
        return Err(Fault::new(text, *at, *len, "this is written &&"));
    }
    if let Some((_, at, len)) = p.peek() {
        return Err(Fault::new(text, *at, *len, "expected && or || here"));
    }
    Ok(Filter { text: text.trim().to_owned(), atoms: p.atoms, expr })
}

struct Parser<'a> {
    text: &'a str,
    known: Known<'a>,
    tokens: Vec<Placed>,
    at: usize,
    atoms: Vec<Atom>,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Placed> {
        self.tokens.get(self.at)
    }

    fn eat(&mut self, want: &Token) -> bool {
        let found = self.peek().is_some_and(|(t, _, _)| t == want);
        self.at += usize::from(found);
        found
    }

    fn next(&mut self, expected: &str) -> Result<Placed, Fault> {
        let token = self
            .peek()
            .cloned()
            .ok_or_else(|| Fault::new(self.text, self.text.len(), 1, format!("expected {expected} here")))?;
        self.at += 1;
        Ok(token)
    }

    fn or(&mut self) -> Result<Expr, Fault> {
        self.chain("||", Self::and, Expr::Or)
    }

    fn and(&mut self) -> Result<Expr, Fault> {
        self.chain("&&", Self::unary, Expr::And)
    }

    fn chain(
        &mut self,
        op: &'static str,
        inner: fn(&mut Self) -> Result<Expr, Fault>,
        join: fn(Vec<Expr>) -> Expr,
    ) -> Result<Expr, Fault> {
        let mut list = vec![inner(self)?];
        while self.eat(&Token::Op(op)) {
            list.push(inner(self)?);
        }
        Ok(if list.len() == 1 { list.remove(0) } else { join(list) })
    }

    fn unary(&mut self) -> Result<Expr, Fault> {
        let (token, at, len) = self.next("a field, ! or (")?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Fault::new(self.text, at, len, "this is nested too deeply"));
        }
        let expr = match token {
            Token::Op("!") => Expr::Not(Box::new(self.unary()?)),
            Token::Open => {
                let inner = self.or()?;
                if !self.eat(&Token::Close) {
                    return Err(Fault::new(self.text, at, 1, "this ( is not closed"));
                }
                inner
            }
            Token::Word(name) => self.clause(&name, at, len)?,
            _ => return Err(Fault::new(self.text, at, len, "expected a field, ! or ( here")),
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn clause(&mut self, name: &str, at: usize, len: usize) -> Result<Expr, Fault> {
        // A tracepoint's own field goes before ours of that name where the kernel decides.
        let own = matches!(self.known, Known::Kernel(fields) if fields.iter().any(|field| field.name == name));
        let row = self.known.rows().find(|row| row.1 == name && !own);
        let (field, kind) = match row {
            Some(row) => (row.0, row.2),
            None => self.traced(name, at, len)?,
        };
        if kind == Kind::Flag {
            return self.atom(field, "", Test::Flag, false, at);
        }
        let (op, op_at, op_len) = self.next("an operator")?;
        let op = match op {
            Token::Op(op) if operators(field).contains(&op) => op,
            Token::Word(word) if word == "in" => "in",
            _ => {
                let ops = operators(field).join(", ");
                return Err(Fault::new(self.text, op_at, op_len, format!("{name} is compared by {ops}")));
            }
        };
        let (test, negated) = match kind {
            Kind::Text => self.text_test(op)?,
            Kind::Signed => self.signed_test(op)?,
            _ => self.number_test(op, kind)?,
        };
        self.atom(field, if row.is_some() { "" } else { name }, test, negated, at)
    }

    /// A field of the session's tracepoints.
    fn traced(&self, name: &str, at: usize, len: usize) -> Result<(Field, Kind), Fault> {
        let as_field = |text| if text { (Field::TraceText, Kind::Text) } else { (Field::TraceNumber, Kind::Signed) };
        let known = match self.known {
            Known::These(known) | Known::Kernel(known) => known,
            Known::Sampling => &[],
            // What is compared with says what it is, as far as that can be known.
            Known::Any => {
                let next = (self.peek().map(|t| &t.0), self.tokens.get(self.at + 1).map(|t| &t.0));
                let is_number = |t: &str| signed(t.split(['-', ',']).find(|t| !t.is_empty()).unwrap_or(t)).is_some();
                let numeric = match next {
                    (Some(Token::Op("<" | "<=" | ">" | ">=" | "&")), _) => true,
                    (_, Some(Token::Word(value))) => is_number(value),
                    _ => false,
                };
                return Ok(as_field(!numeric));
            }
        };
        let found = known.iter().find(|field| field.name == name);
        found.map(|field| as_field(field.text)).ok_or_else(|| {
            if matches!(self.known, Known::Sampling | Known::Kernel(_)) && FIELDS.iter().any(|row| row.1 == name) {
                let why = format!("the kernel cannot decide {name}: f filters what is shown by it");
                return Fault::new(self.text, at, len, why);
            }
            let names = self.known.rows().map(|row| row.1).chain(known.iter().map(|field| field.name.as_str()));
            Fault::new(self.text, at, len, format!("no field is called {name}")).offer(names)
        })
    }

    fn atom(&mut self, field: Field, name: &str, test: Test, negated: bool, at: usize) -> Result<Expr, Fault> {
        if self.atoms.len() == MAX_ATOMS {
            return Err(Fault::new(self.text, at, 1, format!("a filter has at most {MAX_ATOMS} clauses")));
        }
        self.atoms.push(Atom { field, name: name.to_owned(), test });
        let expr = Expr::Atom((self.atoms.len() - 1) as u8);
        Ok(if negated { Expr::Not(Box::new(expr)) } else { expr })
    }

    /// One value, or for `in` a comma-separated list with or without parentheses.
    fn values(&mut self, list: bool) -> Result<Vec<(String, usize, usize)>, Fault> {
        let open = list && self.eat(&Token::Open);
        let mut out = Vec::new();
        loop {
            match self.next("a value")? {
                (Token::Word(text) | Token::Quoted(text), at, len) => out.push((text, at, len)),
                (_, at, len) => return Err(Fault::new(self.text, at, len, "expected a value here")),
            }
            if !list || !self.eat(&Token::Comma) {
                break;
            }
        }
        if open && !self.eat(&Token::Close) {
            return Err(Fault::new(self.text, self.text.len(), 1, "expected ) after the list"));
        }
        Ok(out)
    }

    fn text_test(&mut self, op: &str) -> Result<(Test, bool), Fault> {
        let values = self.values(op == "in")?;
        let (value, at, len) = values[0].clone();
        let fault = |message: String| Fault::new(self.text, at, len, message);
        Ok(match op {
            "~" | "!~" => {
                let glob = globset::GlobBuilder::new(&value).literal_separator(false).backslash_escape(true).build();
                let glob = glob.map_err(|e| fault(format!("not a glob: {}", e.kind())))?;
                (Test::Glob(glob.compile_matcher()), op == "!~")
            }
            "=~" => {
                let regex = regex::RegexBuilder::new(&value).size_limit(1 << 20).build();
                (
                    Test::Regex(
                        regex.map_err(|e| fault(format!("not a regular expression: {}", last_line(&e.to_string()))))?,
                    ),
                    false,
                )
            }
            _ => (Test::Equals(values.into_iter().map(|(v, _, _)| v).collect()), op == "!="),
        })
    }

    fn signed_test(&mut self, op: &str) -> Result<(Test, bool), Fault> {
        let values = self.values(op == "in")?;
        let one = |text: &str, v: &(String, usize, usize)| {
            signed(text).ok_or_else(|| Fault::new(self.text, v.1, v.2, format!("{} is not a number", v.0)))
        };
        if op == "in" {
            let range = |v: &(String, usize, usize)| match v.0.get(1..).and_then(|rest| rest.find('-')) {
                Some(dash) => {
                    let (from, to) = (one(&v.0[..=dash], v)?, one(&v.0[dash + 2..], v)?);
                    let turned = || Fault::new(self.text, v.1, v.2, "this range ends before it starts");
                    if from > to { Err(turned()) } else { Ok((from, to)) }
                }
                None => one(&v.0, v).map(|n| (n, n)),
            };
            return Ok((Test::Signed(values.iter().map(range).collect::<Result<_, _>>()?), false));
        }
        let n = one(&values[0].0, &values[0])?;
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

    fn number_test(&mut self, op: &str, kind: Kind) -> Result<(Test, bool), Fault> {
        let values = self.values(op == "in")?;
        let one = |(text, at, len): &(String, usize, usize)| {
            let what = if kind == Kind::Seconds { "seconds, such as 12.5 or 250ms" } else { "a number" };
            number(text, kind).ok_or_else(|| Fault::new(self.text, *at, *len, format!("{text} is not {what}")))
        };
        if op == "in" {
            let range = |v: &(String, usize, usize)| match v.0.split_once('-') {
                Some((from, to)) => {
                    let (from, to) = (one(&(from.to_owned(), v.1, v.2))?, one(&(to.to_owned(), v.1, v.2))?);
                    if from > to {
                        Err(Fault::new(self.text, v.1, v.2, "this range ends before it starts"))
                    } else {
                        Ok((from, to))
                    }
                }
                None => one(v).map(|n| (n, n)),
            };
            return Ok((Test::Ranges(values.iter().map(range).collect::<Result<_, _>>()?), false));
        }
        let n = one(&values[0])?;
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
}

/// A number as tracepoints have them: decimal or hexadecimal, perhaps below zero; what does not fit is
/// taken by its bits, as the field is.
fn signed(text: &str) -> Option<i64> {
    let (digits, negative) = text.strip_prefix('-').map_or((text, false), |digits| (digits, true));
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse().ok()?,
    } as i64;
    Some(if negative { value.wrapping_neg() } else { value })
}

/// A number, or a time in nanoseconds.
fn number(text: &str, kind: Kind) -> Option<u64> {
    if kind != Kind::Seconds {
        return text.parse().ok();
    }
    let units = [("ms", 1e6), ("us", 1e3), ("ns", 1.0), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let (digits, unit) =
        units.iter().find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit))).unwrap_or((text, 1e9));
    let value: f64 = digits.parse().ok()?;
    (value >= 0.0 && value.is_finite()).then_some((value * unit) as u64)
}

/// What a regular expression's error ends with: why.
pub(super) fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ")
}

#[cfg(test)]
mod tests {
    use super::super::{FILTERS, TraceField};
    use super::*;
    use crate::damage;

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
            ("0", 0),
        ] {
            assert_eq!(number(text, Kind::Seconds), Some(ns), "{text}");
        }
        for text in ["-1", "inf", "NaN", "1d", "", "s"] {
            assert_eq!(number(text, Kind::Seconds), None, "{text}");
        }
        assert_eq!((number("7", Kind::Number), number("7s", Kind::Number)), (Some(7), None));
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
