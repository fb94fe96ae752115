//! The kernel's `print fmt` of a tracepoint: a printf format and C expressions over its fields
//! (Documentation/trace/events.rst; the helpers are those of include/trace/stages/stage3_*.h).

mod expr;
mod parse;

use super::format::{Format, text};
use expr::{Expr, Value};
use parse::Parser;

/// A parsed `print fmt`; empty when it uses what is not understood.
#[derive(Clone, Debug, Default)]
pub struct Printer {
    pieces: Vec<Piece>,
    args: Vec<Expr>,
    usable: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    /// A conversion: flags, width, precision, the letter.
    Conversion {
        left: bool,
        zero: bool,
        alternate: bool,
        plus: bool,
        width: Width,
        precision: Width,
        letter: char,
        size: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Width {
    None,
    Fixed(usize),
    Argument,
}

impl Printer {
    /// Parses what follows `print fmt: `.
    pub fn parse(source: &str) -> Self {
        let mut p = Parser::new(source);
        let read = |p: &mut Parser<'_>| -> Option<(String, Vec<Expr>)> {
            let format = p.string()?;
            let mut args = Vec::new();
            while p.eat(",") {
                args.push(p.expression()?);
            }
            p.is_done().then_some((format, args))
        };
        let Some((format, args)) = read(&mut p) else { return Self::default() };
        match pieces(&format) {
            Some(pieces) => Self { pieces, args, usable: true },
            None => Self::default(),
        }
    }

    /// The text; `None` when the format is not understood or the bytes are too few.
    pub fn print(&self, format: &Format, raw: &[u8]) -> Option<String> {
        if !self.usable {
            return None;
        }
        let mut out = String::new();
        let mut args = self.args.iter().map(|a| a.eval(format, raw));
        for piece in &self.pieces {
            match piece {
                Piece::Text(t) => out.push_str(t),
                Piece::Conversion { left, zero, alternate, plus, width, precision, letter, size } => {
                    let mut sized = |w: &Width| -> Option<Option<usize>> {
                        Some(match w {
                            Width::None => None,
                            Width::Fixed(n) => Some(*n),
                            Width::Argument => Some(args.next()??.number().clamp(0, 4096) as usize),
                        })
                    };
                    let (width, precision) = (sized(width)?, sized(precision)?);
                    let value = args.next()??;
                    let body = convert(&value, *letter, *size, precision, *alternate, *plus, format.big);
                    pad(&mut out, &body, width.unwrap_or(0), *left, *zero);
                }
            }
        }
        Some(out)
    }
}

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

fn convert(
    value: &Value<'_>,
    letter: char,
    size: u32,
    precision: Option<usize>,
    alternate: bool,
    plus: bool,
    big: bool,
) -> String {
    let narrow = |n: i64| if size == 4 { i64::from(n as i32) } else { n };
    let wide = |n: i64| if size == 4 { u64::from(n as u32) } else { n as u64 };
    match letter {
        'd' | 'i' => {
            let n = narrow(value.number());
            if plus && n >= 0 { format!("+{n}") } else { n.to_string() }
        }
        'u' => wide(value.number()).to_string(),
        'x' if alternate => format!("{:#x}", wide(value.number())),
        'x' => format!("{:x}", wide(value.number())),
        'X' => format!("{:X}", wide(value.number())),
        'o' => format!("{:o}", wide(value.number())),
        'c' => char::from(value.number() as u8).to_string(),
        'p' => format!("{:#x}", value.number() as u64),
        'I' => match value {
            // %pI4: an address of four bytes.
            Value::Bytes(b) if b.len() >= 4 => format!("{}.{}.{}.{}", b[0], b[1], b[2], b[3]),
            _ => String::new(),
        },
        'J' => match value {
            // %pI6: sixteen bytes, shortened as people write them.
            Value::Bytes(b) => {
                b.first_chunk::<16>().map_or_else(String::new, |a| std::net::Ipv6Addr::from(*a).to_string())
            }
            _ => String::new(),
        },
        'M' => match value {
            Value::Bytes(b) => b.iter().take(6).map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":"),
            _ => String::new(),
        },
        _ => {
            let t = match value {
                Value::Text(t) => t.clone(),
                Value::Bytes(b) => text(b),
                Value::Number(0) => "(null)".to_owned(),
                Value::Number(n) => format!("{n:#x}"),
            };
            let _ = big;
            match precision {
                Some(n) => t.chars().take(n).collect(),
                None => t,
            }
        }
    }
}

/// Splits a printf format; `None` when a conversion is not understood.
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
        let (mut left, mut zero, mut alternate, mut plus) = (false, false, false, false);
        while let Some(flag) = chars.next_if(|c| "-0#+ ".contains(*c)) {
            match flag {
                '-' => left = true,
                '0' => zero = true,
                '#' => alternate = true,
                '+' => plus = true,
                _ => {}
            }
        }
        let size_of = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            if chars.next_if_eq(&'*').is_some() {
                return Width::Argument;
            }
            let mut n = None;
            while let Some(d) = chars.next_if(char::is_ascii_digit) {
                n = Some((n.unwrap_or(0) * 10 + d as usize - '0' as usize).min(4096));
            }
            n.map_or(Width::None, Width::Fixed)
        };
        let width = size_of(&mut chars);
        let precision = if chars.next_if_eq(&'.').is_some() { size_of(&mut chars) } else { Width::None };
        let mut size = 4;
        while let Some(modifier) = chars.next_if(|c| "hlLqjzt".contains(*c)) {
            if modifier != 'h' {
                size = 8;
            }
        }
        let mut letter = chars.next()?;
        if letter == 'p' {
            // Extended pointers: addresses of the network, and symbols, which are shown as addresses.
            letter = match chars.peek() {
                Some('I') => {
                    chars.next();
                    let six = chars.next_if(|c| *c == '6').is_some() || chars.next_if_eq(&'4').is_none();
                    chars.next_if_eq(&'c');
                    if six { 'J' } else { 'I' }
                }
                Some('M') => {
                    chars.next();
                    'M'
                }
                Some('S' | 's' | 'f' | 'F' | 'B' | 'K' | 'x') => {
                    chars.next();
                    'p'
                }
                _ => 'p',
            };
        }
        if !"diuxXocspIJM".contains(letter) {
            return None;
        }
        if !plain.is_empty() {
            out.push(Piece::Text(std::mem::take(&mut plain)));
        }
        out.push(Piece::Conversion { left, zero, alternate, plus, width, precision, letter, size });
    }
    if !plain.is_empty() {
        out.push(Piece::Text(plain));
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(fmt: &str) -> Option<String> {
        let head = "name: t\nID: 1\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n\tfield:char comm[8];\toffset:4;\tsize:8;\tsigned:0;\n\tfield:u8 mac[6];\toffset:12;\tsize:6;\tsigned:0;\n\nprint fmt: ";
        let format = Format::parse("s", &format!("{head}{fmt}\n"), false)?;
        let raw = [&(-2i32).to_le_bytes()[..], b"nginx\0\0\0", &[1, 2, 3, 4, 5, 255]].concat();
        format.printer.print(&format, &raw)
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
            (r#""%d", ((REC->a) >> 1 == 0x7fffffffffffffff)"#, "1"),
            (r#""x" "y %c", 'z'"#, "xy z"),
            (r#""%d", REC->mac[5]"#, "255"),
            (r#""%.3s", REC->comm"#, "ngi"),
        ] {
            assert_eq!(print(fmt).as_deref(), Some(want), "{fmt}");
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
