//! Reads C expressions as `print fmt` has them.

use super::expr::Expr;

/// Nested deeper, an expression is not followed.
const MAX_DEPTH: usize = 64;

/// What is left to be read.
pub struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

/// Binary operators by binding strength, the weakest first.
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
    pub fn new(rest: &'a str) -> Self {
        Self { rest, depth: 0 }
    }

    /// Whether nothing is left.
    pub fn is_done(&mut self) -> bool {
        self.space();
        self.rest.is_empty()
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Steps over a token if it is next.
    pub fn eat(&mut self, token: &str) -> bool {
        self.space();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A string literal; neighbours join as in C.
    pub fn string(&mut self) -> Option<String> {
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

    /// The next expression; `None` for one that is not understood.
    pub fn expression(&mut self) -> Option<Expr> {
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
            Expr::Choice(Box::new(test), Box::new(yes), Box::new(self.expression()?))
        } else {
            test
        };
        self.depth -= 1;
        Some(out)
    }

    fn level(&mut self, level: usize) -> Option<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        'more: loop {
            self.space();
            for op in *operators {
                // A shorter operator must not take the beginning of a longer one.
                let longer = [">>", "<<", "||", "&&", "<=", ">=", "==", "!="]
                    .iter()
                    .any(|l| l.len() > op.len() && self.rest.starts_with(l));
                if !longer && self.eat(op) {
                    left = Expr::Binary(op, Box::new(left), Box::new(self.level(level + 1)?));
                    continue 'more;
                }
            }
            return Some(left);
        }
    }

    fn unary(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        let mut out = None;
        for op in ['!', '~', '-', '+', '&', '*'] {
            let text = op.to_string();
            if self.eat(&text) {
                let inner = self.unary()?;
                out = Some(if matches!(op, '&' | '*') { inner } else { Expr::Unary(op, Box::new(inner)) });
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

    fn postfix(&mut self) -> Option<Expr> {
        let mut out = self.primary()?;
        while self.eat("[") {
            let at = self.expression()?;
            if !self.eat("]") {
                return None;
            }
            out = Expr::Index(Box::new(out), Box::new(at));
        }
        Some(out)
    }

    fn primary(&mut self) -> Option<Expr> {
        self.space();
        if self.rest.starts_with('"') {
            return self.string().map(Expr::Text);
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number();
        }
        if self.rest.starts_with('\'') {
            let c = self.rest.chars().nth(1)?;
            self.rest = self.rest.get(1 + c.len_utf8()..)?.strip_prefix('\'')?;
            return Some(Expr::Number(c as i64));
        }
        if self.eat("(") {
            if let Some((size, signed)) = self.cast() {
                return Some(Expr::Cast(size, signed, Box::new(self.unary()?)));
            }
            let inner = self.expression()?;
            return self.eat(")").then_some(inner);
        }
        let word = self.word()?;
        if word == "REC" && self.eat("->") {
            return Some(Expr::Field(self.word()?.to_owned()));
        }
        if self.eat("(") { self.call(word) } else { None }
    }

    fn number(&mut self) -> Option<Expr> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
        let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
        let value = match hex {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(&digits[1..], 8).ok()?,
            None => digits.parse().ok()?,
        };
        Some(Expr::Number(value as i64))
    }

    /// A type in parentheses, its opening one eaten: size in bytes and sign. Nothing is eaten when
    /// it is none.
    fn cast(&mut self) -> Option<(u32, bool)> {
        let end = self.rest.find(')')?;
        let text = self.rest[..end].trim();
        let known = |w: &str| {
            matches!(
                w,
                "unsigned"
                    | "signed"
                    | "long"
                    | "int"
                    | "short"
                    | "char"
                    | "void"
                    | "const"
                    | "struct"
                    | "enum"
                    | "bool"
                    | "size_t"
                    | "u8"
                    | "u16"
                    | "u32"
                    | "u64"
                    | "s8"
                    | "s16"
                    | "s32"
                    | "s64"
                    | "__u8"
                    | "__u16"
                    | "__u32"
                    | "__u64"
                    | "__s32"
                    | "__s64"
                    | "dev_t"
                    | "gfp_t"
                    | "pid_t"
                    | "sector_t"
                    | "loff_t"
                    | "uint8_t"
                    | "uint16_t"
                    | "uint32_t"
                    | "uint64_t"
            )
        };
        let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c == '*').filter(|w| !w.is_empty()).collect();
        let pointer = text.contains('*');
        let first = *words.first()?;
        if !known(first) || !(pointer || words.iter().all(|w| known(w)) || matches!(first, "struct" | "enum")) {
            return None;
        }
        self.rest = &self.rest[end + 1..];
        let has = |w: &str| words.contains(&w);
        let any = |suffix: &str| words.iter().any(|w| w.ends_with(suffix));
        let size = if pointer
            || has("long")
            || any("64")
            || has("size_t")
            || has("sector_t")
            || has("loff_t")
            || any("64_t")
        {
            8
        } else if has("short") || any("16") || any("16_t") {
            2
        } else if has("char") || has("bool") || (any("8") || any("8_t")) {
            1
        } else {
            4
        };
        let signed = !has("unsigned")
            && !pointer
            && !words.iter().any(|w| {
                w.trim_start_matches('_').starts_with('u') || *w == "size_t" || *w == "gfp_t" || *w == "dev_t"
            });
        Some((size, signed))
    }

    fn call(&mut self, name: &str) -> Option<Expr> {
        let out = match name {
            "__get_str"
            | "__get_rel_str"
            | "__get_dynamic_array"
            | "__get_rel_dynamic_array"
            | "__get_bitmask"
            | "__get_cpumask"
            | "__get_sockaddr" => Expr::Field(self.word()?.to_owned()),
            "__get_dynamic_array_len" | "__get_rel_dynamic_array_len" => Expr::Length(self.word()?.to_owned()),
            "__print_symbolic" | "__print_symbolic_u64" => {
                let value = self.expression()?;
                Expr::Symbolic(Box::new(value), self.pairs()?)
            }
            "__print_flags" | "__print_flags_u64" => {
                let value = self.expression()?;
                let between = self.eat(",").then(|| self.string())??;
                Expr::Flags(Box::new(value), between, self.pairs()?)
            }
            "__print_hex" | "__print_hex_str" => {
                let bytes = self.expression()?;
                let len = if self.eat(",") { Some(Box::new(self.expression()?)) } else { None };
                Expr::Hex(Box::new(bytes), len, if name == "__print_hex" { " " } else { "" })
            }
            "__print_array" => {
                let bytes = self.expression()?;
                let count = self.eat(",").then(|| self.expression())??;
                let size = self.eat(",").then(|| self.expression())??;
                Expr::Array(Box::new(bytes), Box::new(count), Box::new(size))
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

    /// `, { value, "text" }, …`
    fn pairs(&mut self) -> Option<Vec<(Expr, String)>> {
        let mut list = Vec::new();
        while self.eat(",") {
            // Some headers end their lists with a comma.
            if !self.eat("{") {
                break;
            }
            let value = self.expression()?;
            let text = self.eat(",").then(|| self.string())??;
            if !self.eat("}") {
                return None;
            }
            list.push((value, text));
        }
        Some(list)
    }
}
