//! The parser of C expressions in a `print fmt`.

use super::expr::{IntType, PrintExpr};

const MAX_DEPTH: usize = 64;

pub(crate) struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

/// Binary operators by precedence, the lowest first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

impl<'a> Parser<'a> {
    pub(crate) fn new(rest: &'a str) -> Self {
        Self { rest, depth: 0 }
    }

    pub(crate) fn is_done(&mut self) -> bool {
        self.space();
        self.rest.is_empty()
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    pub(crate) fn eat(&mut self, token: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Parses a string literal; adjacent literals are joined as in C.
    pub(crate) fn string(&mut self) -> Option<String> {
        let mut out = String::new();
        let mut any = false;
        while self.eat("\"") {
            any = true;
            let mut chars = self.rest.char_indices();
            loop {
                match chars.next()? {
                    (i, '"') => {
                        self.rest = &self.rest[i + 1..];
                        break;
                    }
                    (_, '\\') => match chars.next()?.1 {
                        'n' => out.push('\n'),
                        't' => out.push('\t'),
                        c => out.push(c),
                    },
                    (_, c) => out.push(c),
                }
            }
        }
        any.then_some(out)
    }

    fn word(&mut self) -> Option<&'a str> {
        self.space();
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() || word.as_bytes()[0].is_ascii_digit() {
            return None;
        }
        self.rest = rest;
        Some(word)
    }

    /// Parses the next expression; `None` if it is unsupported.
    pub(crate) fn expression(&mut self) -> Option<PrintExpr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let test = self.level(0)?;
        let out = if self.eat("?") {
            let yes = self.expression()?;
            if !self.eat(":") {
                return None;
            }
            PrintExpr::Choice(Box::new(test), Box::new(yes), Box::new(self.expression()?))
        } else {
            test
        };
        self.depth -= 1;
        Some(out)
    }

    fn level(&mut self, level: usize) -> Option<PrintExpr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        'more: loop {
            self.space();
            for op in *operators {
                // Must not match the beginning of a longer operator.
                let longer = [">>", "<<", "||", "&&", "<=", ">=", "==", "!="]
                    .iter()
                    .any(|l| l.len() > op.len() && self.rest.starts_with(l));
                if !longer && self.eat(op) {
                    left = PrintExpr::Binary(op, Box::new(left), Box::new(self.level(level + 1)?));
                    continue 'more;
                }
            }
            return Some(left);
        }
    }

    fn unary(&mut self) -> Option<PrintExpr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut out = None;
        for op in ['!', '~', '-', '+', '&', '*'] {
            let text = op.to_string();
            if self.eat(&text) {
                let inner = self.unary()?;
                out = Some(if op == '&' { inner } else { PrintExpr::Unary(op, Box::new(inner)) });
                break;
            }
        }
        let out = match out {
            Some(out) => out,
            None => self.postfix()?,
        };
        self.depth -= 1;
        Some(out)
    }

    fn postfix(&mut self) -> Option<PrintExpr> {
        let mut out = self.primary()?;
        loop {
            out = if self.eat("[") {
                let at = self.expression()?;
                if !self.eat("]") {
                    return None;
                }
                PrintExpr::Index(Box::new(out), Box::new(at))
            } else if matches!(out, PrintExpr::Record) && self.eat("->") {
                PrintExpr::Field(self.word()?.to_owned())
            } else {
                return Some(out);
            };
        }
    }

    fn primary(&mut self) -> Option<PrintExpr> {
        self.space();
        if self.rest.starts_with('"') {
            return self.string().map(PrintExpr::Text);
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        if self.rest.starts_with('\'') {
            let c = self.rest.chars().nth(1)?;
            self.rest = self.rest.get(1 + c.len_utf8()..)?.strip_prefix('\'')?;
            return Some(PrintExpr::literal(c as i64, IntType::INT));
        }
        if self.eat("(") {
            if let Some((kind, pointed)) = self.cast() {
                let inner = Box::new(self.unary()?);
                return Some(if let Some(to) = pointed {
                    PrintExpr::Pointer(to, inner)
                } else {
                    PrintExpr::Cast(kind, inner)
                });
            }
            let inner = self.expression()?;
            return self.eat(")").then_some(inner);
        }
        let word = self.word()?;
        if word == "REC" {
            return Some(PrintExpr::Record);
        }
        // Without a call, it is a constant that the kernel did not replace by its value.
        if self.eat("(") { self.call(word) } else { Some(PrintExpr::Unknown) }
    }

    fn number(&mut self) -> Option<PrintExpr> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
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

    /// Parses a type after `(`, and for a pointer to numbers the pointee. Consumes nothing if it is not a type.
    fn cast(&mut self) -> Option<(IntType, Option<IntType>)> {
        let end = self.rest.find(')')?;
        let found = type_of(&self.rest[..end])?;
        self.rest = &self.rest[end + 1..];
        Some(found)
    }

    fn call(&mut self, name: &str) -> Option<PrintExpr> {
        let out = match name {
            "__get_str"
            | "__get_rel_str"
            | "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_sockaddr"
            | "__get_rel_sockaddr" => PrintExpr::Field(self.word()?.to_owned()),
            "__get_bitmask" | "__get_rel_bitmask" | "__get_cpumask" | "__get_rel_cpumask" => {
                PrintExpr::Bitmask(self.word()?.to_owned())
            }
            "sizeof" => {
                // The closing parenthesis remains.
                let end = self.rest.find(')')?;
                let (kind, _) = type_of(&self.rest[..end])?;
                self.rest = &self.rest[end..];
                PrintExpr::literal(kind.size as i64, IntType::ULONG)
            }
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => PrintExpr::Length(self.word()?.to_owned()),
            "__print_symbolic" | "__print_symbolic_u64" => {
                let value = self.expression()?;
                PrintExpr::Symbolic(Box::new(value), self.pairs()?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = self.expression()?;
                let between = self.eat(",").then(|| self.string())??;
                PrintExpr::Flags(Box::new(value), between, self.pairs()?)
            }
            "__print_hex" | "__print_hex_str" => {
                let bytes = self.expression()?;
                let len = if self.eat(",") { Some(Box::new(self.expression()?)) } else { None };
                PrintExpr::Hex(Box::new(bytes), len, if name == "__print_hex" { " " } else { "" })
            }
            "__print_array" => {
                let bytes = self.expression()?;
                let count = self.eat(",").then(|| self.expression())??;
                let size = self.eat(",").then(|| self.expression())??;
                PrintExpr::Array(Box::new(bytes), Box::new(count), Box::new(size))
            }
            "__builtin_expect" => {
                let value = self.expression()?;
                self.eat(",").then(|| self.expression())??;
                value
            }
            _ => return None,
        };
        self.eat(")").then_some(out)
    }

    /// Parses `, { value, "text" }, …`; an entry without text ends the list.
    fn pairs(&mut self) -> Option<Vec<(PrintExpr, String)>> {
        let mut list = Vec::new();
        let mut has_ended = false;
        while self.eat(",") {
            // Some headers end their lists with a comma.
            if !self.eat("{") {
                break;
            }
            if self.eat("}") {
                has_ended = true;
                continue;
            }
            let value = self.expression()?;
            let text = self.eat(",").then(|| self.expression())??;
            if !self.eat("}") {
                return None;
            }
            match text {
                PrintExpr::Text(text) if !has_ended => list.push((value, text)),
                _ => has_ended = true,
            }
        }
        Some(list)
    }
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
