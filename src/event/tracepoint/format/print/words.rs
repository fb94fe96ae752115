//! A field's number in the words of the print format: names of flags and states, and functions by address.

use super::super::{Field, Format};
use super::expr::{PrintExpr, PrintOperand, PrintValue};
use super::{FunctionAt, Piece, Width, convert, pointer};

/// Returns the words for a field's number. `None` if the format prints it only as a number, or with other fields.
pub(crate) fn of(format: &Format, field: &Field, number: i64, function: &FunctionAt<'_>) -> Option<String> {
    let raw = record_with(format, field, number)?;
    labelled_words(format, field, &raw, function).or_else(|| own_name(format, field, &raw))
}

/// Returns the words in the place of a field's number; `None` if the format prints it as a number.
pub(crate) fn printed(format: &Format, field: &Field, number: i64) -> Option<String> {
    labelled_words(format, field, &record_with(format, field, number)?, &|_| None)
}

/// Returns the words after the field's label: `prev_state=S`.
fn labelled_words(format: &Format, field: &Field, raw: &[u8], function: &FunctionAt<'_>) -> Option<String> {
    let printer = &format.printer;
    let labels = ["=", ": "].map(|end| format!("{}{end}", field.name));
    let (mut out, mut tells): (Option<String>, bool) = (None, false);
    let mut args = printer.args.iter();
    for piece in printer.pieces.iter().filter(|_| printer.usable) {
        match (piece, &mut out) {
            (Piece::Text(text), None) => {
                let Some(at) = labels.iter().find_map(|label| labelled(text, label)) else { continue };
                let rest = &text[at..];
                out = Some(rest.to_owned()).filter(|_| !rest.contains(ends_value));
                out.as_ref()?;
            }
            // The value continues to the next blank.
            (Piece::Text(text), Some(said)) => {
                said.push_str(text.split(ends_value).next().unwrap_or_default());
                if text.contains(ends_value) {
                    break;
                }
            }
            (Piece::Conversion(how), said) => {
                let sized = [how.width, how.precision].iter().filter(|width| **width == Width::Argument).count();
                let arg = args.nth(sized)?;
                let Some(said) = said else { continue };
                if sized > 0 || !is_of(arg, &field.name) {
                    return None;
                }
                let value = arg.eval(format, raw)?;
                tells |= matches!(value, PrintValue::Text(_)) || how.letter == 'p';
                match how.letter {
                    'p' => said.push_str(&pointer::text(&value, &how.pointer, None, format.big, function)),
                    _ => said.push_str(&convert(&value, how, None, &format.strings)),
                }
            }
        }
    }
    out.filter(|_| tells)
}

/// Returns the name that the format adds to the number: `vec=7 [action=SCHED]`. A name of a part of the number is not
/// the number's.
fn own_name(format: &Format, field: &Field, raw: &[u8]) -> Option<String> {
    let printer = &format.printer;
    let names = printer.args.iter().filter(|_| printer.usable).filter(|arg| names_all_of(arg, &field.name));
    names.filter_map(|arg| arg.eval(format, raw)).find_map(|value| match value {
        // Numbers without a name are printed in base 16.
        PrintValue::Text(text) if !text.starts_with("0x") => Some(text),
        _ => None,
    })
}

fn names_all_of(expr: &PrintExpr, name: &str) -> bool {
    match expr {
        PrintExpr::Operand(PrintOperand::Symbolic(value, list) | PrintOperand::Flags(value, _, list)) => {
            is_field(value, name) && list.iter().all(|(mask, _)| is_of(mask, name))
        }
        PrintExpr::Operand(PrintOperand::Cast(_, inner)) => names_all_of(inner, name),
        _ => false,
    }
}

fn is_field(expr: &PrintExpr, name: &str) -> bool {
    match expr {
        PrintExpr::Operand(PrintOperand::Field(field)) => field == name,
        PrintExpr::Operand(PrintOperand::Cast(_, inner)) => is_field(inner, name),
        _ => false,
    }
}

fn ends_value(c: char) -> bool {
    c.is_whitespace() || matches!(c, ',' | ')' | ']')
}

/// Returns where a value begins after its label. The label must not be the end of a longer name.
fn labelled(text: &str, label: &str) -> Option<usize> {
    let ends_name = |at: usize| text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    let at = text.match_indices(label).map(|(at, _)| at).find(|at| !ends_name(*at))?;
    Some(at + label.len())
}

fn record_with(format: &Format, field: &Field, number: i64) -> Option<Vec<u8>> {
    const MOST: usize = 1 << 16;
    let end = field.offset.checked_add(field.size).filter(|end| *end <= MOST && (1..=8).contains(&field.size))?;
    let mut raw = vec![0; end];
    let bytes = if format.big { number.to_be_bytes() } else { number.to_le_bytes() };
    let own = if format.big { &bytes[8 - field.size..] } else { &bytes[..field.size] };
    raw[field.offset..].copy_from_slice(own);
    Some(raw)
}

fn is_of(expr: &PrintExpr, name: &str) -> bool {
    let of = |expr: &PrintExpr| is_of(expr, name);
    match expr {
        PrintExpr::Operand(PrintOperand::Number(_) | PrintOperand::Text(_)) => true,
        PrintExpr::Operand(PrintOperand::Field(field)) => field == name,
        PrintExpr::Operand(PrintOperand::Cast(_, inner)) | PrintExpr::Unary(_, inner) => of(inner),
        PrintExpr::Binary(_, a, b) => of(a) && of(b),
        PrintExpr::Choice(test, yes, no) => of(test) && of(yes) && of(no),
        PrintExpr::Operand(PrintOperand::Symbolic(value, list) | PrintOperand::Flags(value, _, list)) => {
            of(value) && list.iter().all(|(mask, _)| of(mask))
        }
        PrintExpr::Operand(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: switch\nID: 1\nformat:\n\tfield:long prev_state;\toffset:8;\tsize:8;\tsigned:1;\n\tfield:int state;\toffset:16;\tsize:4;\tsigned:1;\n\tfield:u32 flags;\toffset:20;\tsize:4;\tsigned:0;\n\tfield:unsigned long ip;\toffset:24;\tsize:8;\tsigned:0;\n\tfield:int pid;\toffset:32;\tsize:4;\tsigned:1;\n\nprint fmt: \"pid=%d prev_state=%s%s ==> state=%s, flags=%s ip=%pS\", REC->pid, (REC->prev_state & 0xff) ? __print_flags(REC->prev_state & 0xff, \"|\", { 1, \"S\" }, { 2, \"D\" }) : \"R\", REC->prev_state & 0x100 ? \"+\" : \"\", __print_symbolic(REC->state, { 0, \"off\" }, { 1, \"on\" }), __print_flags(REC->flags, \"|\", { 1, \"A\" }, { 4, \"B\" }), (void *)REC->ip\n";

    fn words(format: &str, field: &str, number: i64, big: bool) -> Option<String> {
        let format = Format::parse("sched", format, big).expect("a format");
        of(&format, format.field(field).expect("a field"), number, &|at| (at == 0x1234).then(|| ("f".into(), 4)))
    }

    #[test]
    fn states_and_flags_have_names() {
        for big in [false, true] {
            for (field, number, want) in [
                ("prev_state", 0, "R"),
                ("prev_state", 0x100, "R+"),
                ("prev_state", 3, "S|D"),
                ("state", 1, "on"),
                ("state", 7, "0x7"),
                ("flags", 5, "A|B"),
                ("flags", 9, "A|0x8"),
                ("ip", -2, "0xfffffffffffffffe"),
                ("ip", 0x1234, "f+0x4"),
            ] {
                assert_eq!(words(FORMAT, field, number, big).as_deref(), Some(want), "{field} {number}");
            }
        }
        assert_eq!(words(FORMAT, "pid", 7, false), None, "it is also printed as a number");
    }

    #[test]
    fn a_number_may_have_its_name_next_to_it() {
        let numbered = FORMAT.replace("flags=%s ip", "flags=%s on=%d [name=%s] ip");
        let both = |name: &str| {
            let args = format!("REC->pid, {name}, (void *)REC->ip");
            numbered.replace("(void *)REC->ip", &args)
        };
        let own = both("__print_symbolic(REC->pid, { 7, \"SCHED\" })");
        assert_eq!(words(&own, "pid", 7, false).as_deref(), Some("SCHED"));
        let part = both("__print_symbolic(REC->pid >> 2, { 1, \"odd\" })");
        assert_eq!(words(&part, "pid", 7, false), None, "several numbers have this name");
        let bracketed = FORMAT.replace("flags=%s ip", "(flags=%s) ip");
        assert_eq!(words(&bracketed, "flags", 4, false).as_deref(), Some("B"));
    }

    #[test]
    fn words_are_of_one_field() {
        let mixed = FORMAT.replace("__print_symbolic(REC->state,", "__print_symbolic(REC->state + REC->pid,");
        assert_eq!(words(&mixed, "state", 1, false), None);
        let starred = FORMAT.replace("state=%s,", "state=%*s,");
        let shifted = FORMAT.replace("print fmt: \"", "print fmt: \"%");
        for unplaced in [starred, shifted] {
            let format = Format::parse("sched", &unplaced, false).expect("a format");
            assert_eq!(printed(&format, format.field("state").expect("a field"), 1), None);
            assert_eq!(words(&unplaced, "state", 1, false).as_deref(), Some("on"), "the format names all its numbers");
        }
        assert_eq!(words(&FORMAT.replace("offset:16", "offset:99999999"), "state", 1, false), None);
    }
}
