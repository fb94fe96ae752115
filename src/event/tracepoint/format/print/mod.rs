//! The kernel's `print fmt` of a tracepoint: a printf format and C expressions over the fields
//! (Documentation/trace/events.rst; helpers from include/trace/stages/stage3_*.h).

pub(crate) mod call;
mod expr;
mod parse;
mod pointer;
mod words;

use std::iter::Peekable;
use std::str::Chars;
use std::sync::Arc;

use super::{Format, StringAddresses, text};
use crate::lang::lex::Cursor;
use crate::lang::parse::Grammar;
use expr::{IntType, PrintExpr, PrintNumber, PrintValue};
use parse::PrintGrammar;
pub(super) use words::{of as words, printed};

/// A parsed `print fmt`; empty if it uses unsupported syntax.
#[derive(Clone, Debug, Default)]
pub struct Printer {
    pieces: Vec<Piece>,
    args: Vec<PrintExpr>,
    usable: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Conversion(Conversion),
}

#[derive(Clone, Debug, Default)]
struct Conversion {
    left: bool,
    zero: bool,
    alternate: bool,
    plus: bool,
    width: Width,
    precision: Width,
    letter: char,
    /// Bytes of the number.
    size: usize,
    pointer: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Width {
    #[default]
    None,
    Fixed(usize),
    Argument,
}

/// Looks up the kernel function at an address: its name, and the offset into it.
pub(crate) type FunctionAt<'a> = dyn Fn(u64) -> Option<(Arc<str>, u64)> + 'a;

impl Printer {
    /// Parses the text after `print fmt: `.
    pub fn parse(source: &str) -> Self {
        let read = || {
            let mut cursor = Cursor::new(source, &PrintGrammar::LEXICON).ok()?;
            let pieces = pieces(&parse::string(&mut cursor)?)?;
            let mut args = Vec::new();
            while cursor.eat(",") {
                args.push(PrintGrammar.expression(&mut cursor).ok()?);
            }
            cursor.peek().is_none().then_some(Self { pieces, args, usable: true })
        };
        read().unwrap_or_default()
    }

    /// Returns whether it prints functions by their addresses.
    pub(crate) fn names_functions(&self) -> bool {
        let is_function = |how: &Conversion| how.letter == 'p' && how.pointer.starts_with(['S', 's', 'F', 'f']);
        self.pieces.iter().any(|piece| matches!(piece, Piece::Conversion(how) if is_function(how)))
    }

    /// Returns whether the format is supported.
    pub fn is_understood(&self) -> bool {
        self.usable
    }

    /// Formats a sample; `None` if the format is unsupported or the data is too short.
    pub fn print(&self, format: &Format, raw: &[u8], function: &FunctionAt<'_>) -> Option<String> {
        if !self.usable {
            return None;
        }
        let mut out = String::new();
        let mut args = self.args.iter().map(|a| a.eval(format, raw));
        for piece in &self.pieces {
            match piece {
                Piece::Text(t) => out.push_str(t),
                Piece::Conversion(how) => {
                    let mut sized = |w: &Width| -> Option<Option<usize>> {
                        Some(match w {
                            Width::None => None,
                            Width::Fixed(n) => Some(*n),
                            Width::Argument => args.next()??.number().map(|n| n.bits.clamp(0, MAX_WIDTH) as usize),
                        })
                    };
                    let (width, precision) = (sized(&how.width)?, sized(&how.precision)?);
                    let body = match args.next()?? {
                        // Values missing in the record are shown as unknown.
                        PrintValue::Unknown => "?".to_owned(),
                        value if how.letter == 'p' => pointer::text(&value, &how.pointer, width, format.big, function),
                        value => convert(&value, how, precision, &format.strings),
                    };
                    // In `%*pb` the width is the number of bits.
                    let width = width.filter(|_| !how.pointer.starts_with('b')).unwrap_or(0);
                    pad(&mut out, &body, width, how.left, how.zero);
                }
            }
        }
        Some(out)
    }
}

const MAX_WIDTH: i64 = 4096;

fn pad(out: &mut String, body: &str, width: usize, left: bool, zero: bool) {
    let n = width.saturating_sub(body.chars().count());
    if left {
        out.push_str(body);
        out.extend(std::iter::repeat_n(' ', n));
    } else if zero {
        let (prefix, digits) =
            if body.starts_with("0x") { body.split_at(2) } else { body.split_at(usize::from(body.starts_with('-'))) };
        out.push_str(prefix);
        out.extend(std::iter::repeat_n('0', n));
        out.push_str(digits);
    } else {
        out.extend(std::iter::repeat_n(' ', n));
        out.push_str(body);
    }
}

fn convert(value: &PrintValue<'_>, how: &Conversion, precision: Option<usize>, strings: &StringAddresses) -> String {
    let bits = value.number().map_or(0, |n| n.bits);
    let of = |signed| PrintNumber::new(bits, IntType { size: how.size, signed }).bits;
    let wide = of(false) as u64;
    match how.letter {
        'd' | 'i' if how.plus && of(true) >= 0 => format!("+{}", of(true)),
        'd' | 'i' => of(true).to_string(),
        'u' => wide.to_string(),
        // C does not prefix a zero.
        'x' if how.alternate && wide != 0 => format!("{wide:#x}"),
        'X' if how.alternate && wide != 0 => format!("0X{wide:X}"),
        'o' if how.alternate && wide != 0 => format!("0{wide:o}"),
        'x' => format!("{wide:x}"),
        'X' => format!("{wide:X}"),
        'o' => format!("{wide:o}"),
        'c' => char::from(bits as u8).to_string(),
        _ => {
            let t = match value {
                PrintValue::Text(t) => t.clone(),
                PrintValue::Bytes(b) => text(b),
                // The address of a kernel string.
                PrintValue::Number(n) => {
                    strings.get(&(n.bits as u64)).map_or_else(|| format!("{:x}", n.bits), |s| s.to_string())
                }
                PrintValue::Unknown => String::new(),
            };
            match precision {
                Some(n) => t.chars().take(n).collect(),
                None => t,
            }
        }
    }
}

fn pieces(format: &str) -> Option<Vec<Piece>> {
    let mut out = Vec::new();
    let mut plain = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            plain.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            plain.push('%');
            continue;
        }
        let how = conversion(&mut chars)?;
        if !plain.is_empty() {
            out.push(Piece::Text(std::mem::take(&mut plain)));
        }
        out.push(Piece::Conversion(how));
    }
    if !plain.is_empty() {
        out.push(Piece::Text(plain));
    }
    Some(out)
}

fn conversion(chars: &mut Peekable<Chars<'_>>) -> Option<Conversion> {
    let mut how = Conversion { size: 4, ..Conversion::default() };
    while let Some(flag) = chars.next_if(|c| "-0#+ ".contains(*c)) {
        match flag {
            '-' => how.left = true,
            '0' => how.zero = true,
            '#' => how.alternate = true,
            '+' => how.plus = true,
            _ => {}
        }
    }
    let size_of = |chars: &mut Peekable<Chars<'_>>| {
        if chars.next_if_eq(&'*').is_some() {
            return Width::Argument;
        }
        let mut n = None;
        while let Some(d) = chars.next_if(char::is_ascii_digit) {
            n = Some((n.unwrap_or(0) * 10 + d as usize - '0' as usize).min(MAX_WIDTH as usize));
        }
        n.map_or(Width::None, Width::Fixed)
    };
    how.width = size_of(chars);
    if chars.next_if_eq(&'.').is_some() {
        how.precision = size_of(chars);
    }
    while let Some(modifier) = chars.next_if(|c| "hlLqjzt".contains(*c)) {
        how.size = if modifier == 'h' { how.size / 2 } else { 8 };
    }
    how.letter = chars.next()?;
    if how.letter == 'p' {
        how.size = 8;
        while let Some(c) = chars.next_if(char::is_ascii_alphanumeric) {
            how.pointer.push(c);
        }
    }
    ("diuxXocsp".contains(how.letter) && how.size > 0).then_some(how)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(fmt: &str) -> Option<String> {
        let head = "name: t\nID: 1\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n\tfield:char comm[8];\toffset:4;\tsize:8;\tsigned:0;\n\tfield:u8 mac[6];\toffset:12;\tsize:6;\tsigned:0;\n\nprint fmt: ";
        let format = Format::parse("s", &format!("{head}{fmt}\n"), false)?;
        let raw = [&(-2i32).to_le_bytes()[..], b"nginx\0\0\0", &[1, 2, 3, 4, 5, 255]].concat();
        format.printer.print(&format, &raw, &|at| (at >> 12 == 1).then(|| ("do_it".into(), at & 0xfff)))
    }

    #[test]
    fn expressions_as_c_has_them() {
        for (fmt, want) in [
            (r#""a=%d %s", REC->a, REC->comm"#, "a=-2 nginx"),
            (r#""%08x %u %lu", REC->a, (u8)REC->a, (unsigned long)3"#, "fffffffe 254 3"),
            (r#""%-7s|%5d|%%", REC->comm, 1 + 2 * 3"#, "nginx  |    7|%"),
            (r#""%s", REC->a & 2 ? "yes" : "no""#, "yes"),
            (r#""%s", __print_symbolic(REC->a + 3, { 0, "zero" }, { 1, "one" })"#, "one"),
            (r#""%s", __print_flags(5, "|", { 1, "S" }, { 2, "D" })"#, "S|0x4"),
            (r#""%s %pM", __print_hex(REC->mac, 2), REC->mac"#, "01 02 01:02:03:04:05:ff"),
            (r#""%d", ((unsigned long)(REC->a) >> 1 == 0x7fffffffffffffff)"#, "1"),
            (r#""x" "y %c", 'z'"#, "xy z"),
            (r#""%d", REC->mac[5]"#, "255"),
            (r#""%.3s", REC->comm"#, "ngi"),
            // Unsigned as in C, also for operands of different types.
            (r#""%d", (unsigned long)(-1) >= (unsigned long)-4095"#, "1"),
            (r#""%d%d", REC->a < 1, REC->a < 1U"#, "10"),
            (r#""%d %u", REC->a >> 1, (u32)REC->a / 2"#, "-1 2147483647"),
            (r#""%d", REC->a / 2"#, "-1"),
            (r#""%#x %#lx %#o", 0, 16, 8"#, "0 0x10 010"),
            (r#""%hhu %hd", REC->a, 65535"#, "254 -1"),
            (r#""%p %p", 0, 16"#, "(nil) 0x10"),
            // List terminators, empty lists, names without a value.
            (r#""%s", __print_flags(2, "|", { 2, "B" }, { 0, ((void *)0) })"#, "B"),
            (r#""%s", __print_symbolic(3, { })"#, "0x3"),
            (r#""%s", __print_symbolic(1, { SOME_NAME, "no" }, { 1, "one" })"#, "one"),
            (r#""%d %s", jiffies - 5, jiffies ? "a" : "b""#, "? ?"),
            (r#""%d", (int)(5 * sizeof(u32))"#, "20"),
            (r#""%d", *(u8 *)REC->mac + ((u16 *)REC->mac)[2]"#, "65286"),
            (r#""%d", (REC)->a"#, "-2"),
            (r#""%s", REC->a"#, "fffffffffffffffe"),
            (r#""%pS %ps %pS", 0x1005, 0x1005, 5"#, "do_it+0x5 do_it 0x5"),
        ] {
            assert_eq!(print(fmt).as_deref(), Some(want), "{fmt}");
        }
    }

    #[test]
    fn formats_that_name_functions_are_known() {
        for (fmt, names) in [(r#""%p %pS", 1, 2"#, true), (r#""%-5ps", 1"#, true), (r#""%p %pI4 %s", 1, 2, 3"#, false)]
        {
            assert_eq!(Printer::parse(fmt).names_functions(), names, "{fmt}");
        }
    }

    #[test]
    fn what_is_not_understood_is_left_to_the_fields() {
        for fmt in [
            r#""%d", unheard_of(REC->a)"#,
            r#""%d", REC->nothing"#,
            r#""%d""#,
            "",
            r#""%y", 1"#,
            &format!("\"%d\", {}1", "(".repeat(1000)),
        ] {
            assert_eq!(print(fmt), None, "{fmt}");
        }
    }
}
