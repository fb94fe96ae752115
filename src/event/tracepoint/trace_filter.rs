//! Filters that the kernel applies to a tracepoint's fields before a sample. See Documentation/trace/events.rst, "Event
//! filtering". They are checked here to report the position of errors; the kernel reports only that there is one.

use super::format::{FieldShape, Format};
use crate::lang::Diagnostic;
use crate::lang::lex::{Cursor, Lexicon, Piece, Token};
use crate::lang::parse::{self as lang, Grammar};
use crate::lang::quantity::{self, Number};

/// The kernel's limit for the text (`PAGE_SIZE`).
const MAX_LENGTH: usize = 4095;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Number,
    Text,
    /// An address in a kernel function (`call_site.function`, kernels since 6.4).
    Function,
}

/// Checks a filter against a format, and translates it to the kernel's syntax: quoted texts, numbers without units.
pub fn check(text: &str, format: &Format) -> Result<String, Diagnostic> {
    if text.trim().is_empty() {
        return Err(Diagnostic::new(text, 0, 1, "a filter is missing, such as prev_pid == 1"));
    }
    let too_long = |text: &str| text.len() > MAX_LENGTH || text.contains('\0');
    let fault = || Diagnostic::new(text, 0, 1, format!("the kernel accepts up to {MAX_LENGTH} bytes without NUL"));
    if too_long(text) {
        return Err(fault());
    }
    let mut fields = Fields { format, edits: Vec::new() };
    lang::parse(&mut fields, text)?;
    let mut out = text.trim_end().to_owned();
    for (piece, value) in fields.edits.iter().rev() {
        out.replace_range(piece.at..piece.end(), value);
    }
    if too_long(&out) { Err(fault()) } else { Ok(out.trim_start().to_owned()) }
}

struct Fields<'a, 't> {
    format: &'a Format,
    /// Values that the kernel expects in another notation.
    edits: Vec<(Piece<'t>, String)>,
}

/// A comparison, or parentheses around one. The kernel accepts `!` only before parentheses.
#[derive(Clone, Copy, PartialEq)]
enum Node {
    Bare,
    Group,
}

impl<'t> Grammar<'t> for Fields<'_, 't> {
    type Node = Node;
    const LEXICON: Lexicon = Lexicon {
        marks: &["&&", "||", "==", "!=", "<=", ">=", "<", ">", "~", "!", "&", "(", ")"],
        begins: is_word,
        goes_on: is_word,
        hints: &[('=', "use == for equality; quote text that contains ="), ('|', "this is written ||")],
        ..Lexicon::WORDS
    };
    const INFIX: &'static [&'static [&'static str]] = &[&["||"], &["&&"]];
    const PREFIX: &'static [&'static str] = &["!"];
    const OPERAND: &'static str = "a field, ! or (";

    fn operand(&mut self, first: Piece<'t>, cursor: &mut Cursor<'t>) -> Result<Node, Diagnostic> {
        let is_name = |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        let Token::Word(name) = first.token else {
            return Err(cursor.fault_at(first, "expected a field, ! or ( here"));
        };
        let (field, suffix) = name.split_once('.').map_or((name, None), |(field, suffix)| (field, Some(suffix)));
        let class = Some(field).filter(|field| is_name(field)).and_then(|field| self.class(field, suffix));
        let class = class.ok_or_else(|| {
            let fields = self.format.fields.iter().map(|f| f.name.as_str());
            let why = format!("{}:{} has no field {name}", self.format.system, self.format.name);
            cursor.fault_at(first, why).offer(fields.chain(["CPU", "COMM"]))
        })?;
        let ops: &[&str] = match class {
            Class::Number => &["==", "!=", "<=", ">=", "<", ">", "&"],
            Class::Text => &["==", "!=", "~"],
            Class::Function => &["==", "!="],
        };
        if !ops.iter().any(|op| cursor.eat(op)) {
            return Err(cursor.fault(format!("{name} supports the operators {}", ops.join(" "))));
        }
        let value = cursor.next("a value")?;
        self.value(field, class, value).map_err(|why| cursor.fault_at(value, why))?;
        Ok(Node::Bare)
    }

    fn prefix(&mut self, op: Piece<'t>, inner: Node, cursor: &Cursor<'t>) -> Result<Node, Diagnostic> {
        match inner {
            Node::Group => Ok(Node::Bare),
            Node::Bare => Err(Diagnostic::new(cursor.text, op.end(), 1, "! requires parentheses")),
        }
    }

    fn infix(&mut self, _: &'static str, _: Node, level: usize, cursor: &mut Cursor<'t>) -> Result<Node, Diagnostic> {
        lang::right(self, level, cursor).map(|_| Node::Bare)
    }

    fn group(&mut self, _: Node, _: &mut Cursor<'t>) -> Result<Node, Diagnostic> {
        Ok(Node::Group)
    }

    fn surplus(&self, _: Piece<'t>) -> &'static str {
        "expected && or || here"
    }
}

/// Returns whether a character is part of a field, number, CPUS{…} or text: not a blank, operator or quote.
fn is_word(c: char) -> bool {
    !c.is_whitespace() && !"&|=!<>~()\"'".contains(c)
}

impl<'t> Fields<'_, 't> {
    fn class(&self, name: &str, suffix: Option<&str>) -> Option<Class> {
        let Some(field) = self.format.fields.iter().find(|field| field.name == name) else {
            return match name {
                _ if suffix.is_some() => None,
                "COMM" | "comm" => Some(Class::Text),
                "CPU" | "cpu" => Some(Class::Number),
                _ => None,
            };
        };
        let is_address = field.shape == FieldShape::Number && field.size == 8;
        match suffix {
            Some("function") => return is_address.then_some(Class::Function),
            // The user-space string that a pointer refers to.
            Some("ustring") => return (is_address && field.kind.contains("char")).then_some(Class::Text),
            Some(_) => return None,
            None => {}
        }
        Some(match field.shape {
            FieldShape::Text | FieldShape::Located { text: true, .. } => Class::Text,
            _ => Class::Number,
        })
    }

    fn value(&mut self, field: &str, class: Class, piece: Piece<'t>) -> Result<(), String> {
        match (class, piece.token) {
            (Class::Text, Token::Quoted(_)) => {}
            (Class::Function, Token::Word(name) | Token::Quoted(name)) => {
                if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b)) {
                    return Err("expected a kernel function".to_owned());
                }
                // The kernel accepts it only without quotes.
                self.edits.push((piece, name.to_owned()));
            }
            (Class::Number, Token::Quoted(name)) => self.named(field, name, piece)?,
            (Class::Text, Token::Word(word)) => {
                if !word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_*?[]-./:".contains(&b)) {
                    return Err("this text requires quotes".to_owned());
                }
                self.edits.push((piece, format!("\"{word}\"")));
            }
            (Class::Number, Token::Word(word)) if word.starts_with("CPUS{") && word.ends_with('}') => {}
            (Class::Number, Token::Word(word)) => match quantity::literal(word) {
                Ok(Number::Int(n)) if i128::from(i64::MIN) <= n && n <= i128::from(u64::MAX) => {
                    if !word.bytes().all(|b| b.is_ascii_hexdigit() || b"-x".contains(&b)) {
                        self.edits.push((piece, n.to_string()));
                    }
                }
                _ => self.named(field, word, piece)?,
            },
            _ => return Err("expected a value here".to_owned()),
        }
        Ok(())
    }

    /// Writes a name of a field's number as the number: the kernel knows the names only for printing.
    fn named(&mut self, field: &str, name: &str, piece: Piece<'t>) -> Result<(), String> {
        let number = self.format.number_of(field, name);
        let number = number.ok_or_else(|| format!("{name} is not a number, nor a name that {field} has"))?;
        self.edits.push((piece, number.to_string()));
        Ok(())
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
            "\tfield:char prev_comm[16];\toffset:12;\tsize:16;\tsigned:0;\n\tfield:unsigned long ip;\toffset:32;\t\
             size:8;\tsigned:0;\n\tfield:const char * path;\toffset:40;\tsize:8;\tsigned:0;\n"
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
            "prev_pid > 4ms && prev_pid < 64KiB",
        ] {
            assert!(check(text, &format()).is_ok(), "{text}");
        }
    }

    #[test]
    fn names_of_numbers_are_numbers_for_the_kernel() {
        let text = "name: softirq_entry\nID: 4\nformat:\n\tfield:unsigned int vec;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \
                    \"vec=%u [action=%s]\", REC->vec, __print_symbolic(REC->vec, { 7, \"SCHED\" }, { 9, \"RCU\" })\n";
        let format = Format::parse("irq", text, false).expect("format");
        assert_eq!(check("vec == RCU || vec != \"SCHED\"", &format).as_deref(), Ok("vec == 9 || vec != 7"));
        assert!(
            check("vec == TIMER", &format).is_err_and(|fault| fault.to_string().contains("nor a name that vec has"))
        );
    }

    #[test]
    fn texts_are_quoted_for_the_kernel() {
        let quoted = check(" prev_comm == nginx && (COMM ~ a* || prev_comm != 'x') ", &format());
        assert_eq!(quoted.as_deref(), Ok("prev_comm == \"nginx\" && (COMM ~ \"a*\" || prev_comm != 'x')"));
        let function =
            check("ip.function == \"vfs_read\" || ip.function!=vfs_write && path.ustring ~ /etc/*", &format());
        assert_eq!(
            function.as_deref(),
            Ok("ip.function == vfs_read || ip.function!=vfs_write && path.ustring ~ \"/etc/*\"")
        );
        let plain = check("prev_pid > 4ms&&prev_pid<64KiB || prev_pid == 0x1f", &format());
        assert_eq!(plain.as_deref(), Ok("prev_pid > 4000000&&prev_pid<65536 || prev_pid == 0x1f"));
    }

    #[test]
    fn faults_point_at_the_place() {
        for (text, at, words) in [
            ("", 0, "missing"),
            ("prev_pidd == 1", 0, "nearest: prev_pid"),
            ("prev_pid ~ 1", 9, "operators == != <="),
            ("prev_comm < x", 10, "operators == != ~"),
            ("prev_pid == x", 12, "not a number"),
            ("prev_pid == \"1\"", 12, "a number"),
            ("prev_pid == 1 &&", 16, "expected a field"),
            ("prev_pid == 1 and", 14, "&& or ||"),
            ("(prev_pid == 1", 0, "not closed"),
            ("!prev_pid == 1", 1, "requires parentheses"),
            ("prev_comm == \"a", 13, "not closed"),
            ("prev_pid && 1", 9, "supports the operators"),
            ("prev_pid.function == main", 0, "no field prev_pid.function"),
            ("ip.ustring == x", 0, "no field ip.ustring"),
            ("comm.function == x", 0, "no field comm.function"),
            ("ip.function < main", 12, "operators == !="),
            ("ip.function == \"a b\"", 15, "a kernel function"),
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
