//! The grammar of the filter language: from tokens to a checked expression. `||` binds weaker than `&&`, `!` strongest.

use crate::lang::lex::{Cursor, Lexicon, Piece, Token};
use crate::lang::parse::{self as lang, Grammar};
use crate::lang::quantity::{self, Number};

use super::{Atom, Diagnostic, FIELDS, Field, FieldType, Filter, FilterExpr, KnownFields, MAX_ATOMS, Test, TraceField};

/// Words consist of the characters in names, globs and numbers.
pub(super) const LEXICON: Lexicon = Lexicon {
    marks: &["&&", "||", "==", "!=", "!~", "=~", "<=", ">=", "<", ">", "~", "!", "&", "(", ")", ","],
    begins: is_word,
    goes_on: is_word,
    hints: &[('=', "use == for equality"), ('|', "this is written ||")],
    ..Lexicon::WORDS
};

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || "_.:*?@+-/[]$#%{}".contains(c)
}

pub(super) fn parse(text: &str, known: KnownFields<'_>) -> Result<Filter, Diagnostic> {
    if text.trim().is_empty() {
        return Err(Diagnostic::new(text, 0, 1, "a filter is missing, such as comm == \"nginx\""));
    }
    let mut clauses = Clauses { known, atoms: Vec::new() };
    let node = lang::parse(&mut clauses, text)?;
    Ok(Filter { text: text.trim().to_owned(), atoms: clauses.atoms, expr: node.expr })
}

struct Clauses<'a> {
    known: KnownFields<'a>,
    atoms: Vec<Atom>,
}

/// A part of a filter. Without enclosing parentheses, the same operator can extend it.
struct Node {
    expr: FilterExpr,
    open: bool,
}

impl<'t> Grammar<'t> for Clauses<'_> {
    type Node = Node;
    const LEXICON: Lexicon = LEXICON;
    const INFIX: &'static [&'static [&'static str]] = &[&["||"], &["&&"]];
    const PREFIX: &'static [&'static str] = &["!"];
    const OPERAND: &'static str = "a field, ! or (";

    fn operand(&mut self, first: Piece<'t>, cursor: &mut Cursor<'t>) -> Result<Node, Diagnostic> {
        match first.token {
            Token::Word(name) => self.clause(name, first, cursor).map(|expr| Node { expr, open: false }),
            _ => Err(cursor.fault_at(first, "expected a field, ! or ( here")),
        }
    }

    fn prefix(&mut self, _: Piece<'t>, inner: Node, _: &Cursor<'t>) -> Result<Node, Diagnostic> {
        let expr = match inner.expr {
            FilterExpr::Not(denied) => *denied,
            expr => FilterExpr::Not(Box::new(expr)),
        };
        Ok(Node { expr, open: false })
    }

    fn infix(
        &mut self,
        op: &'static str,
        left: Node,
        level: usize,
        cursor: &mut Cursor<'t>,
    ) -> Result<Node, Diagnostic> {
        let right = lang::right(self, level, cursor)?.expr;
        let expr = match left {
            Node { expr: FilterExpr::Or(mut list), open: true } if op == "||" => {
                list.push(right);
                FilterExpr::Or(list)
            }
            Node { expr: FilterExpr::And(mut list), open: true } if op == "&&" => {
                list.push(right);
                FilterExpr::And(list)
            }
            Node { expr, .. } if op == "||" => FilterExpr::Or(vec![expr, right]),
            Node { expr, .. } => FilterExpr::And(vec![expr, right]),
        };
        Ok(Node { expr, open: true })
    }

    fn group(&mut self, inner: Node, _: &mut Cursor<'t>) -> Result<Node, Diagnostic> {
        Ok(Node { open: false, ..inner })
    }

    fn surplus(&self, piece: Piece<'t>) -> &'static str {
        match piece.token {
            Token::Mark("&") | Token::Word("and" | "AND") => "this is written &&",
            Token::Word("or" | "OR") => "this is written ||",
            _ => "expected && or || here",
        }
    }
}

type Value<'t> = (&'t str, Piece<'t>);

impl Clauses<'_> {
    fn clause<'t>(
        &mut self,
        name: &'t str,
        place: Piece<'t>,
        cursor: &mut Cursor<'t>,
    ) -> Result<FilterExpr, Diagnostic> {
        // In the kernel, a tracepoint's own field hides ours of the same name.
        let own = matches!(self.known, KnownFields::Kernel(fields) if fields.iter().any(|field| field.name == name));
        let row = self.known.rows().find(|row| row.name == name && !own);
        let (field, kind) = match row {
            Some(row) => (row.field, row.kind),
            None => self.traced(name, place, cursor)?,
        };
        if self.atoms.len() == MAX_ATOMS {
            return Err(cursor.fault_at(place, format!("too many clauses; the limit is {MAX_ATOMS}")));
        }
        let (test, negated) = self.test(name, field, kind, cursor)?;
        let name = if row.is_some() { "" } else { name };
        self.atoms.push(Atom { field, name: name.to_owned(), test });
        let expr = FilterExpr::Atom((self.atoms.len() - 1) as u8);
        Ok(if negated { FilterExpr::Not(Box::new(expr)) } else { expr })
    }

    /// Resolves a field of the session's tracepoints.
    fn traced(&self, name: &str, place: Piece<'_>, cursor: &Cursor<'_>) -> Result<(Field, FieldType), Diagnostic> {
        let as_field =
            |text| if text { (Field::TraceText, FieldType::Text) } else { (Field::TraceNumber, FieldType::Signed) };
        let known = match self.known {
            KnownFields::These(known) | KnownFields::Kernel(known) => known,
            KnownFields::Sampling => &[],
            // The operator or value determines the type, as far as possible.
            KnownFields::Any => {
                let is_number = |t: &str| signed(t.split(['-', ',']).find(|t| !t.is_empty()).unwrap_or(t)).is_some();
                let numeric = match [0, 1].map(|n| cursor.peek_at(n).map(|piece| piece.token)) {
                    [Some(Token::Mark("<" | "<=" | ">" | ">=" | "&")), _] => true,
                    [_, Some(Token::Word(value))] => is_number(value),
                    _ => false,
                };
                return Ok(as_field(!numeric));
            }
        };
        let found = known.iter().find(|field| field.name == name);
        found.map(|field| as_field(field.text)).ok_or_else(|| {
            if name == "not" {
                return cursor.fault_at(place, "this is written !");
            }
            if matches!(self.known, KnownFields::Sampling | KnownFields::Kernel(_))
                && FIELDS.iter().any(|row| row.name == name)
            {
                let why = format!("the kernel cannot evaluate {name}; use a view filter (f)");
                return cursor.fault_at(place, why);
            }
            let names = self.known.rows().map(|row| row.name).chain(known.iter().map(|field| field.name.as_str()));
            cursor.fault_at(place, format!("unknown field {name}")).offer(names)
        })
    }

    /// Returns the field of the session's tracepoints with a name.
    fn own_field(&self, name: &str) -> Option<&TraceField> {
        match self.known {
            KnownFields::These(known) | KnownFields::Kernel(known) => known.iter().find(|field| field.name == name),
            KnownFields::Any | KnownFields::Sampling => None,
        }
    }

    /// Parses the operator and the values of a clause. Also returns whether the clause is negated.
    fn test(
        &self,
        name: &str,
        field: Field,
        kind: FieldType,
        cursor: &mut Cursor<'_>,
    ) -> Result<(Test, bool), Diagnostic> {
        if kind == FieldType::Flag {
            return Ok((Test::Flag, false));
        }
        let piece = cursor.next("an operator")?;
        let op = match piece.token {
            Token::Mark(op) if field.operators().contains(&op) => op,
            Token::Word("in") => "in",
            _ => {
                let why = match piece.token {
                    Token::Word("contains" | "like" | "has" | "matches") if kind == FieldType::Text => {
                        format!("this is written {name} ~ \"*word*\"")
                    }
                    Token::Word("is" | "eq" | "equals") => format!("this is written {name} =="),
                    _ => format!("{name} supports the operators {}", field.operators().join(", ")),
                };
                return Err(cursor.fault_at(piece, why));
            }
        };
        let values = values(op == "in", cursor)?;
        match kind {
            FieldType::Text => text_test(op, &values, cursor),
            _ => {
                let numbers = FieldNumbers { kind, field: self.own_field(name).filter(|_| field.is_traced()) };
                number_test(op, &numbers, &values, cursor)
            }
        }
    }
}

/// Parses one value, or a comma-separated list for `in`. A list may be in parentheses.
fn values<'t>(list: bool, cursor: &mut Cursor<'t>) -> Result<Vec<Value<'t>>, Diagnostic> {
    let open = list && cursor.eat("(");
    let mut out = Vec::new();
    loop {
        let piece = cursor.next("a value")?;
        match piece.token {
            Token::Word(text) | Token::Quoted(text) => out.push((text, piece)),
            _ => return Err(cursor.fault_at(piece, "expected a value here")),
        }
        if !list || !cursor.eat(",") {
            break;
        }
    }
    if open && !cursor.eat(")") {
        return Err(Diagnostic::new(cursor.text, cursor.text.len(), 1, "expected ) after the list"));
    }
    Ok(out)
}

fn text_test(op: &str, values: &[Value<'_>], cursor: &Cursor<'_>) -> Result<(Test, bool), Diagnostic> {
    let (value, piece) = values[0];
    Ok(match op {
        "~" | "!~" => (Test::Glob(glob(value, piece, cursor)?), op == "!~"),
        "=~" => (Test::Regex(regex(value, piece, cursor)?), false),
        _ => (Test::Equals(values.iter().map(|(value, _)| (*value).to_owned()).collect()), op == "!="),
    })
}

/// Compiles a pattern with `*`, `?` and `[…]`; `*` also matches slashes.
pub(super) fn glob(text: &str, place: Piece<'_>, cursor: &Cursor<'_>) -> Result<globset::GlobMatcher, Diagnostic> {
    let glob = globset::GlobBuilder::new(text).literal_separator(false).backslash_escape(true).build();
    let glob = glob.map_err(|error| cursor.fault_at(place, format!("not a glob: {}", error.kind())))?;
    Ok(glob.compile_matcher())
}

/// Compiles a regular expression of limited size.
pub(super) fn regex(text: &str, place: Piece<'_>, cursor: &Cursor<'_>) -> Result<regex::Regex, Diagnostic> {
    regex::RegexBuilder::new(text).size_limit(1 << 20).build().map_err(|error| {
        let error = error.to_string();
        let why = error.lines().last().unwrap_or(&error).trim_start_matches("error: ");
        cursor.fault_at(place, format!("not a regular expression: {why}"))
    })
}

/// The numbers of a field; those of a tracepoint may have names.
struct FieldNumbers<'a> {
    kind: FieldType,
    field: Option<&'a TraceField>,
}

impl FieldNumbers<'_> {
    fn of(&self, (text, piece): Value<'_>, cursor: &Cursor<'_>) -> Result<Vec<i128>, Diagnostic> {
        if let Some(number) = number(text, self.kind) {
            return Ok(vec![number]);
        }
        let named = self.field.map_or_else(Vec::new, |field| field.numbers_of(text));
        if !named.is_empty() {
            return Ok(named.into_iter().map(i128::from).collect());
        }
        let what = match self.field {
            _ if self.kind == FieldType::Seconds => "seconds, such as 12.5 or 250ms".to_owned(),
            Some(field) => format!("a number, nor a name that {} has", field.name),
            None => "a number".to_owned(),
        };
        Err(cursor.fault_at(piece, format!("{text} is not {what}")))
    }

    fn one(&self, value: Value<'_>, cursor: &Cursor<'_>) -> Result<i128, Diagnostic> {
        match self.of(value, cursor)?[..] {
            [one] => Ok(one),
            _ => Err(cursor.fault_at(value.1, format!("{} has several numbers", value.0))),
        }
    }

    /// Parses `1-5`, `7` or a name in a list. The first character may be a sign, so the dash is searched after it.
    fn ranges(&self, value: Value<'_>, cursor: &Cursor<'_>) -> Result<Vec<(i128, i128)>, Diagnostic> {
        let (text, piece) = value;
        let dash = text.char_indices().skip(1).find(|(_, c)| *c == '-').map(|(dash, _)| dash);
        let whole = self.of(value, cursor);
        let (Some(dash), true) = (dash, whole.is_err()) else {
            return whole.map(|all| all.into_iter().map(|n| (n, n)).collect());
        };
        match (self.one((&text[..dash], piece), cursor)?, self.one((&text[dash + 1..], piece), cursor)?) {
            (from, to) if from > to => Err(cursor.fault_at(piece, "the range ends before it starts")),
            range => Ok(vec![range]),
        }
    }
}

fn number_test(
    op: &str,
    numbers: &FieldNumbers<'_>,
    values: &[Value<'_>],
    cursor: &Cursor<'_>,
) -> Result<(Test, bool), Diagnostic> {
    if op == "in" {
        let ranges = values.iter().map(|value| numbers.ranges(*value, cursor)).collect::<Result<Vec<_>, _>>()?;
        return Ok((Test::Ranges(ranges.into_iter().flatten().collect()), false));
    }
    if matches!(op, "==" | "!=") {
        let all = numbers.of(values[0], cursor)?;
        return Ok((Test::Ranges(all.into_iter().map(|n| (n, n)).collect()), op == "!="));
    }
    let (n, (least, most)) = (numbers.one(values[0], cursor)?, numbers.kind.limits());
    let (from, to) = match op {
        "&" => return Ok((Test::Bits(n as i64), false)),
        "<" => (least, n - 1),
        "<=" => (least, n),
        ">" => (n + 1, most),
        _ => (n, most),
    };
    Ok((Test::Ranges(Vec::from_iter((from <= to).then_some((from, to)))), false))
}

/// Parses a tracepoint's number, possibly negative or with a unit. A number beyond the signed range is taken as bits.
fn signed(text: &str) -> Option<i64> {
    let Ok(Number::Int(value)) = quantity::literal(text) else { return None };
    let bits = u64::try_from(value.unsigned_abs()).ok()? as i64;
    Some(if value < 0 { bits.wrapping_neg() } else { bits })
}

fn number(text: &str, kind: FieldType) -> Option<i128> {
    match kind {
        FieldType::Signed => signed(text).map(i128::from),
        FieldType::Seconds => quantity::time(text).ok().map(i128::from),
        _ => quantity::count::<u64>(text).ok().map(i128::from),
    }
}

#[cfg(test)]
mod tests;
