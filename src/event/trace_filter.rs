//! Filters that the kernel applies to a tracepoint's fields before a sample is taken
//! (Documentation/trace/events.rst, "Event filtering"): checked here, so that what is wrong is said
//! with its place; the kernel only says that something is.

use super::format::{Format, Shape};
use crate::lang::Fault;

/// The longest text that the kernel takes (`PAGE_SIZE`).
const MAX_LENGTH: usize = 4095;
const MAX_DEPTH: usize = 100;

/// What a field is compared as.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Number,
    Text,
}

/// Checks a filter against a tracepoint's format and puts quotes around texts, as the kernel wants
/// them.
pub fn check(text: &str, format: &Format) -> Result<String, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::new(text, 0, 1, "a filter is missing, such as prev_pid == 1"));
    }
    if text.len() > MAX_LENGTH || text.contains('\0') {
        return Err(Fault::new(text, 0, 1, format!("the kernel takes {MAX_LENGTH} bytes at most, and no NUL")));
    }
    let mut parser = Parser { text, at: 0, format, depth: 0, bare: Vec::new() };
    parser.or()?;
    match parser.peek() {
        None => Ok(parser.quoted()),
        Some(_) => Err(parser.fault(1, "expected && or || here")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    format: &'a Format,
    depth: usize,
    /// Where texts stand without quotes.
    bare: Vec<std::ops::Range<usize>>,
}

impl Parser<'_> {
    fn quoted(&self) -> String {
        let mut out = self.text.trim_end().to_owned();
        for range in self.bare.iter().rev() {
            out.insert(range.end, '"');
            out.insert(range.start, '"');
        }
        out.trim_start().to_owned()
    }

    /// The rest after blanks.
    fn rest(&mut self) -> &str {
        self.at += self.text[self.at..].len() - self.text[self.at..].trim_start().len();
        &self.text[self.at..]
    }

    fn peek(&mut self) -> Option<char> {
        self.rest().chars().next()
    }

    fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn fault(&self, len: usize, message: impl Into<String>) -> Fault {
        Fault::new(self.text, self.at, len, message)
    }

    fn or(&mut self) -> Result<(), Fault> {
        self.and()?;
        while self.eat("||") {
            self.and()?;
        }
        Ok(())
    }

    fn and(&mut self) -> Result<(), Fault> {
        self.unary()?;
        while self.eat("&&") {
            self.unary()?;
        }
        Ok(())
    }

    fn unary(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.fault(1, "this is nested too deeply"));
        }
        let open = self.at;
        if self.eat("!") {
            if self.peek() != Some('(') {
                return Err(self.fault(1, "! stands before parentheses only"));
            }
            self.unary()?;
        } else if self.eat("(") {
            self.or()?;
            if !self.eat(")") {
                return Err(Fault::new(self.text, open, 1, "this ( is not closed"));
            }
        } else {
            self.comparison()?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn comparison(&mut self) -> Result<(), Fault> {
        let len = self.rest().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').count();
        if len == 0 {
            return Err(self.fault(1, "expected a field, ! or ( here"));
        }
        let name = &self.text[self.at..self.at + len];
        let Some(class) = self.class(name) else {
            let fields = self.format.fields.iter().map(|f| f.name.as_str());
            let fault = self.fault(len, format!("{}:{} has no field {name}", self.format.system, self.format.name));
            return Err(fault.offer(fields.chain(["CPU", "COMM"])));
        };
        self.at += len;
        let name = name.to_owned();
        self.rest();
        let ops: &[&str] = match class {
            Class::Number => &["==", "!=", "<=", ">=", "<", ">", "&"],
            Class::Text => &["==", "!=", "~"],
        };
        // && is no operator of a number.
        let op =
            ops.iter().find(|op| self.text[self.at..].starts_with(**op) && !self.text[self.at..].starts_with("&&"));
        let Some(op) = op else {
            return Err(self.fault(1, format!("{name} is compared by {}", ops.join(" "))));
        };
        self.at += op.len();
        self.value(class)
    }

    fn class(&self, name: &str) -> Option<Class> {
        match name {
            "COMM" | "comm" if !self.format.fields.iter().any(|f| f.name == name) => return Some(Class::Text),
            "CPU" | "cpu" if !self.format.fields.iter().any(|f| f.name == name) => return Some(Class::Number),
            _ => {}
        }
        let field = self.format.fields.iter().find(|f| f.name == name)?;
        Some(match field.shape {
            Shape::Text | Shape::Located { text: true, .. } => Class::Text,
            _ => Class::Number,
        })
    }

    fn value(&mut self, class: Class) -> Result<(), Fault> {
        let rest = self.rest();
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            let Some(end) = rest[1..].find(quote) else { return Err(self.fault(1, "this quote is not closed")) };
            if class == Class::Number {
                return Err(self.fault(end + 2, "expected a number"));
            }
            self.at += end + 2;
            return Ok(());
        }
        let len = rest.find(|c: char| c.is_whitespace() || "()&|!".contains(c)).unwrap_or(rest.len());
        let word = rest[..len].to_owned();
        let number = {
            let digits = word.strip_prefix('-').unwrap_or(&word);
            match digits.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).is_ok(),
                None => digits.parse::<u64>().is_ok(),
            }
        };
        let cpus = word.starts_with("CPUS{") && word.ends_with('}');
        match class {
            _ if word.is_empty() => Err(self.fault(1, "expected a value here")),
            Class::Number if !number && !cpus => Err(self.fault(len, format!("{word} is no number"))),
            Class::Text if !word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_*?[]-./:".contains(&b)) => {
                Err(self.fault(len, "quote this text"))
            }
            _ => {
                if class == Class::Text {
                    self.bare.push(self.at..self.at + len);
                }
                self.at += len;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;

    fn format() -> Format {
        let field = |line: &str| format!("\tfield:{line};\toffset:8;\tsize:4;\tsigned:1;\n");
        let text = format!(
            "name: sched_switch\nID: 3\nformat:\n{}{}{}",
            field("int common_pid"),
            field("pid_t prev_pid"),
            "\tfield:char prev_comm[16];\toffset:12;\tsize:16;\tsigned:0;\n"
        );
        Format::parse("sched", &text, false).expect("format")
    }

    #[test]
    fn what_the_kernel_takes() {
        for text in [
            "prev_pid == 1",
            "prev_pid != -1 && (prev_comm ~ \"ng*\" || common_pid & 0xff)",
            "!(prev_pid < 3) && COMM == 'a b' && CPU & CPUS{0-1}",
            "prev_comm == nginx",
        ] {
            assert!(check(text, &format()).is_ok(), "{text}");
        }
    }

    #[test]
    fn texts_are_quoted_for_the_kernel() {
        let quoted = check(" prev_comm == nginx && (COMM ~ a* || prev_comm != 'x') ", &format());
        assert_eq!(quoted.as_deref(), Ok("prev_comm == \"nginx\" && (COMM ~ \"a*\" || prev_comm != 'x')"));
    }

    #[test]
    fn faults_point_at_the_place() {
        for (text, at, words) in [
            ("", 0, "missing"),
            ("prev_pidd == 1", 0, "nearest: prev_pid"),
            ("prev_pid ~ 1", 9, "compared by == != <="),
            ("prev_comm < x", 10, "compared by == != ~"),
            ("prev_pid == x", 12, "no number"),
            ("prev_pid == \"1\"", 12, "a number"),
            ("prev_pid == 1 &&", 16, "expected a field"),
            ("prev_pid == 1 and", 14, "&& or ||"),
            ("(prev_pid == 1", 0, "not closed"),
            ("!prev_pid == 1", 1, "before parentheses"),
            ("prev_comm == \"a", 13, "not closed"),
            ("prev_pid && 1", 9, "compared by"),
        ] {
            let fault = check(text, &format()).expect_err(text);
            assert!(fault.line().contains(words), "{text}: {fault}");
            assert_eq!(fault.at, at, "{text}: {fault}");
        }
        assert!(check(&"(".repeat(100_000), &format()).is_err());
    }

    #[test]
    fn no_text_panics() {
        const TEXTS: &[&str] = &[
            "prev_pid == 1",
            "prev_pid != -1 && (prev_comm ~ \"ng*\" || common_pid & 0xff)",
            "!(prev_pid < 3) && COMM == 'a b' && CPU & CPUS{0-1}",
            "prev_comm == nginx",
        ];
        damage::reaching(512, 20, damage::texts(TEXTS), |text| {
            check(&text, &format()).map_err(|f| f.to_string()).is_ok()
        });
    }
}
