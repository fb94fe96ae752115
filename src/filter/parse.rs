//! From tokens to a checked expression. `||` binds weaker than `&&`, `!` strongest.

use super::lex::{Placed, Token, tokens};
use super::{Atom, Expr, FIELDS, Fault, Field, Filter, Kind, MAX_ATOMS, Test};

/// Nesting beyond this is refused, so that no text can exhaust the stack.
const MAX_DEPTH: usize = 100;

pub(super) fn parse(text: &str) -> Result<Filter, Fault> {
    let mut p = Parser { text, tokens: tokens(text)?, at: 0, atoms: Vec::new(), depth: 0 };
    if p.tokens.is_empty() {
        return Err(Fault::new(text, 0, 1, "a filter is missing, such as comm == \"nginx\""));
    }
    let expr = p.or()?;
    if let Some((_, at, len)) = p.peek() {
        return Err(Fault::new(text, *at, *len, "expected && or || here"));
    }
    Ok(Filter { text: text.trim().to_owned(), atoms: p.atoms, expr })
}

struct Parser<'a> {
    text: &'a str,
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
        let row = FIELDS.iter().find(|row| row.1 == name);
        let (field, kind) = row.map(|row| (row.0, row.2)).ok_or_else(|| {
            Fault::new(self.text, at, len, format!("no field is called {name}")).offer(FIELDS.iter().map(|row| row.1))
        })?;
        if kind == Kind::Flag {
            return self.atom(field, Test::Flag, false, at);
        }
        let (op, op_at, op_len) = self.next("an operator")?;
        let wrong = |text: &str| {
            let ops = if kind == Kind::Text { "==, !=, ~, !~, =~ or in" } else { "==, !=, <, <=, >, >= or in" };
            Fault::new(text, op_at, op_len, format!("{name} is compared by {ops}"))
        };
        let op = match op {
            Token::Op(op @ ("==" | "!=")) => op,
            Token::Op(op @ ("~" | "!~" | "=~")) if kind == Kind::Text => op,
            Token::Op(op @ ("<" | "<=" | ">" | ">=")) if kind != Kind::Text => op,
            Token::Word(word) if word == "in" => "in",
            _ => return Err(wrong(self.text)),
        };
        let (test, negated) = match kind {
            Kind::Text => self.text_test(op)?,
            _ => self.number_test(op, kind)?,
        };
        self.atom(field, test, negated, at)
    }

    fn atom(&mut self, field: Field, test: Test, negated: bool, at: usize) -> Result<Expr, Fault> {
        if self.atoms.len() == MAX_ATOMS {
            return Err(Fault::new(self.text, at, 1, format!("a filter has at most {MAX_ATOMS} clauses")));
        }
        self.atoms.push(Atom { field, test });
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

fn last_line(text: &str) -> &str {
    text.lines().last().unwrap_or(text).trim_start_matches("error: ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ok(text: &str) -> Filter {
        parse(text).unwrap_or_else(|e| panic!("{e}"))
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
            ("sym =~ \"(\"", 7, "not a regular expression"),
            ("pid ==", 6, "expected a value"),
            ("pid == 1 &&", 11, "expected a field"),
            ("time > soon", 7, "seconds"),
        ] {
            let fault = parse(text).expect_err(text);
            assert_eq!(fault.at, at, "{text}: {fault}");
            assert!(fault.line().contains(words), "{text}: {fault}");
        }
        assert!(parse(&"(".repeat(100_000)).is_err());
        assert!(parse(&["pid == 1"; 65].join(" && ")).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z ()!&|=~<>\"',0-9é*\\[\\]-]{0,60}") {
            let _ = parse(&text).map_err(|f| f.to_string());
        }
    }
}
