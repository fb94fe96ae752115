//! The grammar of C expressions in a `print fmt`.

use super::expr::{IntType, PrintExpr, PrintNumber, PrintOperand};
use crate::lang::Diagnostic;
use crate::lang::expr::{self, Op};
use crate::lang::lex::{Cursor, Lexicon, Piece, Token};
use crate::lang::parse::{self as lang, Grammar};

const UNSUPPORTED: &str = "this is not supported";

pub(crate) struct PrintGrammar;

impl<'t> Grammar<'t> for PrintGrammar {
    type Node = PrintExpr;
    const LEXICON: Lexicon = Lexicon {
        marks: &[
            "->", "&&", "||", "==", "!=", "<=", ">=", "<<", ">>", "<", ">", "~", "!", "&", "|", "^", "+", "-", "*",
            "/", "%", "?", ":", "(", ")", ",", "[", "]", "{", "}",
        ],
        begins: is_word,
        goes_on: is_word,
        escapes: true,
        ..Lexicon::WORDS
    };
    const INFIX: &'static [&'static [&'static str]] = expr::INFIX;
    const PREFIX: &'static [&'static str] = &["!", "~", "-", "+", "&", "*"];
    const OPERAND: &'static str = "an expression";

    fn expression(&mut self, cursor: &mut Cursor<'t>) -> Result<PrintExpr, Diagnostic> {
        expr::choice(self, cursor)
    }

    fn operand(&mut self, first: Piece<'t>, cursor: &mut Cursor<'t>) -> Result<PrintExpr, Diagnostic> {
        let operand = self.primary(first, cursor).ok_or_else(|| cursor.fault_at(first, UNSUPPORTED))?;
        self.postfix(operand, cursor)
    }

    fn prefix(&mut self, op: Piece<'t>, inner: PrintExpr, _: &Cursor<'t>) -> Result<PrintExpr, Diagnostic> {
        let zero = || Box::new(PrintExpr::literal(0, IntType::INT));
        Ok(match op.token {
            Token::Mark("&") => inner,
            // Adding 0 promotes the type.
            Token::Mark("+") => PrintExpr::Binary(Op::Add, Box::new(inner), zero()),
            Token::Mark("*") => PrintExpr::Operand(PrintOperand::Index(Box::new(inner), zero())),
            _ => PrintExpr::unary(op, inner),
        })
    }

    fn infix(
        &mut self,
        op: &'static str,
        left: PrintExpr,
        level: usize,
        cursor: &mut Cursor<'t>,
    ) -> Result<PrintExpr, Diagnostic> {
        let op = Op::of(op).ok_or_else(|| cursor.fault(UNSUPPORTED))?;
        Ok(PrintExpr::Binary(op, Box::new(left), Box::new(lang::right(self, level, cursor)?)))
    }

    fn group(&mut self, inner: PrintExpr, cursor: &mut Cursor<'t>) -> Result<PrintExpr, Diagnostic> {
        self.postfix(inner, cursor)
    }

    fn cast(&mut self, cursor: &mut Cursor<'t>) -> Result<Option<PrintExpr>, Diagnostic> {
        let Some((kind, pointee)) = type_at(cursor) else { return Ok(None) };
        cursor.expect(")")?;
        let inner = Box::new(lang::unary(self, cursor)?);
        Ok(Some(PrintExpr::Operand(match pointee {
            Some(to) => PrintOperand::Pointer(to, inner),
            None => PrintOperand::Cast(kind, inner),
        })))
    }

    fn surplus(&self, _: Piece<'t>) -> &'static str {
        UNSUPPORTED
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Parses a string literal; adjacent literals are joined as in C.
pub(crate) fn string(cursor: &mut Cursor<'_>) -> Option<String> {
    let first = literal(cursor.peek()?, cursor)?;
    cursor.skip();
    Some(joined(first, cursor))
}

/// Returns the text of a token that is a string literal.
fn literal<'t>(piece: Piece<'t>, cursor: &Cursor<'t>) -> Option<&'t str> {
    let Token::Quoted(text) = piece.token else { return None };
    cursor.text[piece.at..].starts_with('"').then_some(text)
}

/// Unescapes a string literal and those that follow it.
fn joined<'t>(mut part: &'t str, cursor: &mut Cursor<'t>) -> String {
    let mut out = String::new();
    loop {
        let mut chars = part.chars();
        while let Some(c) = chars.next() {
            out.extend(if c == '\\' { chars.next().map(escaped) } else { Some(c) });
        }
        let Some(next) = cursor.peek().and_then(|piece| literal(piece, cursor)) else { return out };
        cursor.skip();
        part = next;
    }
}

fn escaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        c => c,
    }
}

fn name(cursor: &mut Cursor<'_>) -> Option<String> {
    let Token::Word(word) = cursor.peek()?.token else { return None };
    cursor.skip();
    (!word.starts_with(|c: char| c.is_ascii_digit())).then(|| word.to_owned())
}

impl PrintGrammar {
    fn postfix(&mut self, mut out: PrintExpr, cursor: &mut Cursor<'_>) -> Result<PrintExpr, Diagnostic> {
        loop {
            out = PrintExpr::Operand(if cursor.eat("[") {
                let at = self.expression(cursor)?;
                cursor.expect("]")?;
                PrintOperand::Index(Box::new(out), Box::new(at))
            } else if matches!(out, PrintExpr::Operand(PrintOperand::Record)) && cursor.eat("->") {
                PrintOperand::Field(name(cursor).ok_or_else(|| cursor.fault(UNSUPPORTED))?)
            } else {
                return Ok(out);
            });
        }
    }

    fn primary<'t>(&mut self, first: Piece<'t>, cursor: &mut Cursor<'t>) -> Option<PrintExpr> {
        Some(PrintExpr::Operand(match first.token {
            Token::Quoted(text) if literal(first, cursor).is_some() => PrintOperand::Text(joined(text, cursor)),
            Token::Quoted(text) => {
                let mut chars = text.chars();
                let c = chars.next().filter(|_| chars.next().is_none())?;
                return Some(PrintExpr::literal(c as i64, IntType::INT));
            }
            Token::Word(digits) if digits.starts_with(|c: char| c.is_ascii_digit()) => return number(digits),
            Token::Word("REC") => PrintOperand::Record,
            Token::Word(word) if cursor.eat("(") => return self.call(word, cursor),
            // Without a call, it is a constant that the kernel did not replace by its value.
            Token::Word(_) => PrintOperand::Unknown,
            _ => return None,
        }))
    }

    fn call(&mut self, function: &str, cursor: &mut Cursor<'_>) -> Option<PrintExpr> {
        let out = match function {
            "__get_str"
            | "__get_rel_str"
            | "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_sockaddr"
            | "__get_rel_sockaddr" => PrintOperand::Field(name(cursor)?),
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                PrintOperand::Bitmask(name(cursor)?)
            }
            "sizeof" => PrintOperand::Number(PrintNumber::new(type_at(cursor)?.0.size as i64, IntType::ULONG)),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => PrintOperand::Length(name(cursor)?),
            "__print_symbolic" | "__print_symbolic_u64" => {
                PrintOperand::Symbolic(self.argument(cursor)?, self.pairs(cursor)?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = self.argument(cursor)?;
                let between = cursor.eat(",").then(|| string(cursor))??;
                PrintOperand::Flags(value, between, self.pairs(cursor)?)
            }
            "__print_hex" | "__print_hex_str" => {
                let bytes = self.argument(cursor)?;
                let len = if cursor.eat(",") { Some(self.argument(cursor)?) } else { None };
                PrintOperand::Hex(bytes, len, if function == "__print_hex" { " " } else { "" })
            }
            "__print_array" => {
                PrintOperand::Array(self.argument(cursor)?, self.next_argument(cursor)?, self.next_argument(cursor)?)
            }
            "__builtin_expect" => {
                let value = self.argument(cursor)?;
                self.next_argument(cursor)?;
                return cursor.eat(")").then_some(*value);
            }
            _ => return None,
        };
        cursor.eat(")").then_some(PrintExpr::Operand(out))
    }

    fn argument(&mut self, cursor: &mut Cursor<'_>) -> Option<Box<PrintExpr>> {
        self.expression(cursor).ok().map(Box::new)
    }

    fn next_argument(&mut self, cursor: &mut Cursor<'_>) -> Option<Box<PrintExpr>> {
        cursor.eat(",").then(|| self.argument(cursor))?
    }

    /// Parses `, { value, "text" }, …`; an entry without text ends the list.
    fn pairs(&mut self, cursor: &mut Cursor<'_>) -> Option<Vec<(PrintExpr, String)>> {
        let mut list = Vec::new();
        let mut has_ended = false;
        while cursor.eat(",") {
            // Some headers end their lists with a comma.
            if !cursor.eat("{") {
                break;
            }
            if cursor.eat("}") {
                has_ended = true;
                continue;
            }
            let value = self.argument(cursor)?;
            let text = self.next_argument(cursor)?;
            if !cursor.eat("}") {
                return None;
            }
            match *text {
                PrintExpr::Operand(PrintOperand::Text(text)) if !has_ended => list.push((*value, text)),
                _ => has_ended = true,
            }
        }
        Some(list)
    }
}

fn number(digits: &str) -> Option<PrintExpr> {
    let bare = digits.trim_end_matches(['u', 'U', 'l', 'L']);
    let suffix = digits[bare.len()..].to_ascii_lowercase();
    let hex = bare.strip_prefix("0x").or_else(|| bare.strip_prefix("0X"));
    let value = match hex {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None if bare.len() > 1 && bare.starts_with('0') => u64::from_str_radix(&bare[1..], 8).ok()?,
        None => bare.parse().ok()?,
    };
    // The first type that fits; only non-decimal literals may be unsigned without a suffix.
    let (unsigned, wide) = (suffix.contains('u'), suffix.contains('l'));
    let may = unsigned || bare.starts_with('0');
    let kind = match value {
        _ if !wide && !unsigned && i32::try_from(value).is_ok() => IntType::INT,
        _ if !wide && may && u32::try_from(value).is_ok() => IntType { size: 4, signed: false },
        _ if !unsigned && i64::try_from(value).is_ok() => IntType::LONG,
        _ => IntType::ULONG,
    };
    Some(PrintExpr::literal(value as i64, kind))
}

/// Parses a type up to the closing parenthesis; for a pointer to numbers also the pointee. Skips nothing if it is not a
/// type.
fn type_at(cursor: &mut Cursor<'_>) -> Option<(IntType, Option<IntType>)> {
    let n = (0..).find(|n| cursor.peek_at(*n).is_none_or(|piece| piece.is(")")))?;
    let (first, end) = (cursor.peek()?, cursor.peek_at(n)?);
    let found = type_of(&cursor.text[first.at..end.at])?;
    (0..n).for_each(|_| cursor.skip());
    Some(found)
}

/// Words of type names: size in bytes, 0 if the word does not determine it, and whether the type is unsigned.
const TYPE_WORDS: &[(&str, usize, bool)] = &[
    ("unsigned", 0, true),
    ("signed", 0, false),
    ("long", 8, false),
    ("int", 0, false),
    ("short", 2, false),
    ("char", 1, false),
    ("void", 0, false),
    ("const", 0, false),
    ("bool", 1, true),
    ("size_t", 8, true),
    ("ssize_t", 8, false),
    ("dev_t", 0, true),
    ("gfp_t", 0, true),
    ("pid_t", 0, false),
    ("uid_t", 0, true),
    ("gid_t", 0, true),
    ("sector_t", 8, true),
    ("loff_t", 8, false),
    ("blkcnt_t", 8, true),
    ("uint", 0, true),
    ("ulong", 8, true),
    ("ushort", 2, true),
    ("uintptr_t", 8, true),
];

/// Parses a type name; for a pointer to numbers also the pointee. `None` if it is not a type.
fn type_of(text: &str) -> Option<(IntType, Option<IntType>)> {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == '*').filter(|w| !w.is_empty()).collect();
    let first = *words.first()?;
    let stars = text.matches('*').count();
    let is_named = |w: &str| matches!(w, "struct" | "enum" | "union");
    let fixed = words.iter().find_map(|w| fixed_size(w));
    let known = |w: &&str| TYPE_WORDS.iter().find(|row| row.0 == *w);
    let is_type = if is_named(first) {
        words.len() == 2 && words[1].bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    } else {
        words.iter().all(|w| known(w).is_some() || fixed_size(w).is_some())
            || first.starts_with("__") && first.ends_with("_t") && words.len() == 1
    };
    if !is_type {
        return None;
    }
    let rows = || words.iter().filter_map(known);
    let size = rows().map(|row| row.1).max().filter(|size| *size > 0).unwrap_or(4);
    let is_signed = first != "enum" && !rows().any(|row| row.2);
    let (size, signed) = fixed.unwrap_or((size, is_signed));
    let kind = IntType { size, signed };
    Some(match stars {
        0 => (kind, None),
        1 if !is_named(first) && !words.contains(&"void") => (IntType::ULONG, Some(kind)),
        _ => (IntType::ULONG, None),
    })
}

/// Parses `u8`, `__s32`, `uint64_t`, `__le16` to size and signedness.
fn fixed_size(word: &str) -> Option<(usize, bool)> {
    let word = word.trim_start_matches('_').trim_end_matches("_t");
    let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let signed = match &word[..word.len() - digits.len()] {
        "u" | "uint" | "le" | "be" => false,
        "s" | "int" => true,
        _ => return None,
    };
    matches!(digits, "8" | "16" | "32" | "64").then(|| (digits.parse::<usize>().unwrap_or(64) / 8, signed))
}
