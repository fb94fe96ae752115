//! From a text to an expression: C's precedence, numbers with units, words as texts where a text is compared.

use globset::GlobBuilder;
use regex::Regex;

use super::super::parse::last_line;
use super::{CALLS, Expr, Fault, Named, Node, Op};

/// Nesting beyond this is refused, so that no text can exhaust the stack.
const MAX_DEPTH: usize = 64;
/// So is a text longer than anybody types.
const MAX_LENGTH: usize = 4096;

/// What a number's unit multiplies it by: times are nanoseconds, sizes bytes.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("K", 1000),
    ("KB", 1000),
    ("kB", 1000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Int(i128),
    Float(f64),
    Word(String),
    Quoted(String),
    Op(&'static str),
}

/// Longest first.
const OPS: &[&str] = &[
    "&&", "||", "==", "!=", "!~", "=~", "<=", ">=", "<<", ">>", "<", ">", "~", "!", "&", "|", "^", "+", "-", "*", "/",
    "%", "?", ":", "(", ")", ",",
];

/// Binary operators by how strongly they bind.
const LEVELS: &[&[(&str, Op)]] = &[
    &[("||", Op::Or)],
    &[("&&", Op::And)],
    &[("|", Op::BitOr)],
    &[("^", Op::BitXor)],
    &[("&", Op::BitAnd)],
    &[("==", Op::Eq), ("!=", Op::Ne)],
    &[("<", Op::Lt), ("<=", Op::Le), (">", Op::Gt), (">=", Op::Ge)],
    &[("<<", Op::Shl), (">>", Op::Shr)],
    &[("+", Op::Add), ("-", Op::Sub)],
    &[("*", Op::Mul), ("/", Op::Div), ("%", Op::Rem)],
];
/// The level at which texts are matched.
const EQUALITY: usize = 5;

type Placed = (Token, usize, usize);

/// Parses an expression.
pub fn parse(text: &str) -> Result<Expr, Fault> {
    if text.len() > MAX_LENGTH {
        return Err(Fault::new(text, 0, 1, format!("an expression has at most {MAX_LENGTH} bytes")));
    }
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, names: Vec::new(), depth: 0 };
    let root = parser.choice()?;
    if let Some((_, at, len)) = parser.tokens.get(parser.at) {
        return Err(Fault::new(text, *at, *len, "expected an operator here"));
    }
    Ok(Expr { text: text.trim().to_owned(), root, names: parser.names })
}

fn tokens(text: &str) -> Result<Vec<Placed>, Fault> {
    let mut out: Vec<Placed> = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (token, len) = if let Some(op) = OPS.iter().find(|op| rest.starts_with(**op)) {
            (Token::Op(op), op.len())
        } else if c == '"' || c == '\'' {
            let end = rest[1..].find(c).ok_or_else(|| Fault::new(text, at, rest.len(), "this string is not closed"))?;
            (Token::Quoted(rest[1..=end].to_owned()), end + 2)
        } else if c.is_ascii_digit() {
            number(text, at)?
        } else if c.is_alphabetic() || c == '_' || c == '$' {
            let part = |c: char| c.is_alphanumeric() || "_.$@[]".contains(c);
            let len = rest.find(|c| !part(c)).unwrap_or(rest.len());
            (Token::Word(rest[..len].to_owned()), len)
        } else {
            let why = if c == '=' { "equality is written ==" } else { "this character has no meaning here" };
            return Err(Fault::new(text, at, c.len_utf8(), why));
        };
        out.push((token, at, len));
        at += len;
    }
    Ok(out)
}

/// A number with its unit: `0x1f`, `12`, `1.5ms`, `4KiB`.
fn number(text: &str, at: usize) -> Result<(Token, usize), Fault> {
    let rest = &text[at..];
    let len = rest.find(|c: char| !(c.is_alphanumeric() || c == '.' || c == '_')).unwrap_or(rest.len());
    let word = rest[..len].replace('_', "");
    let fault = || Fault::new(text, at, len, "this is no number; units are ns us ms s m, K KB MB GB, KiB MiB GiB");
    if let Some(hex) = word.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map(|n| (Token::Int(n.into()), len)).map_err(|_| fault());
    }
    let split = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
    let (digits, unit) = word.split_at(split);
    let factor = match unit {
        "" => 1,
        unit => UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(fault)?.1,
    };
    if !digits.contains('.') {
        let n: u64 = digits.parse().map_err(|_| fault())?;
        return Ok((Token::Int(i128::from(n) * i128::from(factor)), len));
    }
    let n: f64 = digits.parse().map_err(|_| fault())?;
    // A time is whole nanoseconds, a size whole bytes.
    let token = if unit.is_empty() { Token::Float(n) } else { Token::Int((n * factor as f64).round() as i128) };
    Ok((token, len))
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Placed>,
    at: usize,
    names: Vec<Named>,
    depth: usize,
}

impl Parser<'_> {
    fn op(&self) -> Option<&'static str> {
        match self.tokens.get(self.at) {
            Some((Token::Op(op), ..)) => Some(op),
            _ => None,
        }
    }

    fn eat(&mut self, op: &str) -> bool {
        let found = self.op() == Some(op);
        self.at += usize::from(found);
        found
    }

    fn place(&self) -> (usize, usize) {
        self.tokens.get(self.at).map_or((self.text.len(), 1), |(_, at, len)| (*at, *len))
    }

    fn fault(&self, message: impl Into<String>) -> Fault {
        let (at, len) = self.place();
        Fault::new(self.text, at, len, message)
    }

    fn deeper(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.fault("this is nested too deeply")) } else { Ok(()) }
    }

    fn choice(&mut self) -> Result<Node, Fault> {
        self.deeper()?;
        let test = self.level(0)?;
        let node = if self.eat("?") {
            let yes = self.choice()?;
            if !self.eat(":") {
                return Err(self.fault("expected : here"));
            }
            Node::Choice(Box::new(test), Box::new(yes), Box::new(self.choice()?))
        } else {
            test
        };
        self.depth -= 1;
        Ok(node)
    }

    fn level(&mut self, level: usize) -> Result<Node, Fault> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        loop {
            if level == EQUALITY {
                match self.matching(left)? {
                    (node, true) => {
                        left = node;
                        continue;
                    }
                    (node, false) => left = node,
                }
            }
            let Some(op) = self.op().and_then(|op| operators.iter().find(|(name, _)| *name == op)) else {
                return Ok(left);
            };
            self.at += 1;
            let compares_words = level == EQUALITY && self.is_at_words();
            let right = if compares_words { self.words(true) } else { self.level(level + 1)? };
            left = Node::Binary(op.1, Box::new(left), Box::new(right));
        }
    }

    /// Whether words stand here that may be the name of something, as in `comm == nginx`.
    fn is_at_words(&self) -> bool {
        matches!(self.tokens.get(self.at), Some((Token::Word(_), ..)))
            && !matches!(self.tokens.get(self.at + 1), Some((Token::Op("("), ..)))
    }

    /// Words that stand together, as `kworker/0-1` does, are a text; one alone may be a field.
    fn words(&mut self, or_field: bool) -> Node {
        let (start, _) = self.place();
        let (mut end, first) = (start, self.at);
        while let Some((token, at, len)) = self.tokens.get(self.at) {
            let part = matches!(token, Token::Word(_) | Token::Int(_) | Token::Op("-" | "/" | ":" | "*" | "+"));
            if !part || *at != end && end != start {
                break;
            }
            end = at + len;
            self.at += 1;
        }
        let text = self.text[start..end].to_owned();
        if or_field && self.at == first + 1 { Node::Name(self.name(text, start, true)) } else { Node::Text(text) }
    }

    /// `~`, `=~`, `in` and their opposites after a value.
    fn matching(&mut self, left: Node) -> Result<(Node, bool), Fault> {
        let (yes, regex) = match self.tokens.get(self.at) {
            Some((Token::Op("~"), ..)) => (true, false),
            Some((Token::Op("=~"), ..)) => (true, true),
            Some((Token::Op("!~"), ..)) => (false, false),
            Some((Token::Word(word), ..)) if word == "in" => {
                self.at += 1;
                return Ok((self.list(left)?, true));
            }
            _ => return Ok((left, false)),
        };
        self.at += 1;
        let (at, len) = self.place();
        let pattern = match self.tokens.get(self.at) {
            Some((Token::Quoted(text) | Token::Word(text), ..)) => text.clone(),
            _ => return Err(self.fault("expected a pattern here, such as \"nginx*\"")),
        };
        self.at += 1;
        let left = Box::new(left);
        let wrong = |why: String| Fault::new(self.text, at, len, format!("this is no pattern: {why}"));
        Ok(if regex {
            (
                Node::Regex(left, Regex::new(&pattern).map_err(|e| wrong(last_line(&e.to_string()).to_owned()))?, yes),
                true,
            )
        } else {
            let glob = GlobBuilder::new(&pattern).literal_separator(false).build();
            (Node::Glob(left, glob.map_err(|e| wrong(e.kind().to_string()))?.compile_matcher(), yes), true)
        })
    }

    /// `1-5,7` or `(a, b)`.
    fn list(&mut self, left: Node) -> Result<Node, Fault> {
        let closed = self.eat("(");
        let (mut ranges, mut texts) = (Vec::new(), Vec::new());
        loop {
            match self.tokens.get(self.at) {
                Some((Token::Int(from), ..)) => {
                    let from = *from;
                    self.at += 1;
                    let to = match (self.op(), self.tokens.get(self.at + 1)) {
                        (Some("-"), Some((Token::Int(to), ..))) => {
                            let to = *to;
                            self.at += 2;
                            to
                        }
                        _ => from,
                    };
                    ranges.push((from, to));
                }
                Some((Token::Quoted(text), ..)) => {
                    texts.push(text.clone());
                    self.at += 1;
                }
                Some((Token::Word(_), ..)) => match self.words(false) {
                    Node::Text(text) => texts.push(text),
                    _ => return Err(self.fault("expected a value here")),
                },
                _ => return Err(self.fault("expected a value here, such as 1-5 or a name")),
            }
            if !self.eat(",") {
                break;
            }
        }
        if closed && !self.eat(")") {
            return Err(self.fault("expected ) here"));
        }
        Ok(Node::In(Box::new(left), ranges, texts))
    }

    fn unary(&mut self) -> Result<Node, Fault> {
        self.deeper()?;
        let node = if self.eat("!") {
            Node::Not(Box::new(self.unary()?))
        } else if self.eat("-") {
            Node::Minus(Box::new(self.unary()?))
        } else if self.eat("~") {
            Node::Invert(Box::new(self.unary()?))
        } else {
            self.primary()?
        };
        self.depth -= 1;
        Ok(node)
    }

    fn primary(&mut self) -> Result<Node, Fault> {
        let Some((token, at, len)) = self.tokens.get(self.at).cloned() else {
            return Err(self.fault("expected a number or a field here"));
        };
        self.at += 1;
        match token {
            Token::Int(n) => Ok(Node::Int(n)),
            Token::Float(n) => Ok(Node::Float(n)),
            Token::Quoted(text) => Ok(Node::Text(text)),
            Token::Op("(") => {
                let inner = self.choice()?;
                if self.eat(")") { Ok(inner) } else { Err(Fault::new(self.text, at, len, "this ( is not closed")) }
            }
            Token::Word(word) if self.op() == Some("(") => self.call(&word, at, len),
            Token::Word(word) => Ok(Node::Name(self.name(word, at, false))),
            Token::Op(_) => Err(Fault::new(self.text, at, len, "expected a number or a field here")),
        }
    }

    fn name(&mut self, word: String, at: usize, loose: bool) -> usize {
        self.names.iter().position(|known| known.word == word && known.loose == loose).unwrap_or_else(|| {
            self.names.push(Named { word, at, loose });
            self.names.len() - 1
        })
    }

    fn call(&mut self, word: &str, at: usize, len: usize) -> Result<Node, Fault> {
        let Some((name, call, n)) = CALLS.iter().find(|(name, ..)| *name == word) else {
            let fault = Fault::new(self.text, at, len, format!("there is no function {word}"));
            return Err(fault.offer(CALLS.iter().map(|(name, ..)| *name)));
        };
        self.at += 1;
        let mut arguments = Vec::new();
        if !self.eat(")") {
            loop {
                arguments.push(self.choice()?);
                if !self.eat(",") {
                    break;
                }
            }
            if !self.eat(")") {
                return Err(self.fault("expected ) here"));
            }
        }
        if arguments.len() != *n {
            return Err(Fault::new(self.text, at, len, format!("{name} takes {n} arguments")));
        }
        Ok(Node::Call(*call, arguments))
    }
}
