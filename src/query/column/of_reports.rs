//! Columns only for reports. They depend on the stack, and require a pattern or line lookups, which screens do not do.

use super::{ColumnDef, ColumnInput, ColumnKey, ColumnValue, Data, of};
use crate::profile::frames::SymState;
use crate::profile::{FrameId, NodeId};
use crate::session::{DsoKind, MapId};
use crate::symbols::lines::SourceLine;

pub(crate) static OF_REPORTS: [ColumnDef; 7] = [
    of(&["parent"], "Parent symbol", |of, _| ColumnValue::Text(of.data.parent(of.stack)))
        .of_reports(ColumnKey::Parent)
        .wide(24),
    of(&["srcline"], "Source line", |of, _| line(of, SourceLine::short, place)).of_reports(ColumnKey::Srcline).wide(24),
    of(&["srcfile"], "Source file", |of, _| line(of, |line| line.file.to_string(), file))
        .of_reports(ColumnKey::Srcfile)
        .wide(24),
    of(&["socket"], "Socket", |of, _| socket(of)).of_reports(ColumnKey::Socket).number(6),
    of(&["symbol_size"], "Symbol size", |of, _| {
        size(of, |data, frame| data.profile.frames.sym(data.profile.frames.sym_of(frame)).size)
    })
    .of_reports(ColumnKey::SymbolSize)
    .number(11),
    of(&["dso_size"], "DSO size", |of, _| {
        size(of, |data, frame| data.session.dsos.map_of(data.profile.frames.get(frame).map).len)
    })
    .of_reports(ColumnKey::DsoSize)
    .number(11),
    of(&["time"], "Time", |of, _| of.values.map_or(ColumnValue::Text("".into()), |(met, number)| met.time(number)))
        .of_reports(ColumnKey::Time(100_000_000))
        .number(16),
];

/// Returns the socket of a sample's CPU. Empty if the recording does not contain it.
fn socket(of: &ColumnInput<'_>) -> ColumnValue {
    let known = of.data.session.sockets.get(usize::from(of.cpu)).and_then(|socket| i32::try_from(*socket).ok());
    known.map_or(ColumnValue::Text("".into()), ColumnValue::Id)
}

fn size(of: &ColumnInput<'_>, what: impl Fn(Data<'_>, FrameId) -> u64) -> ColumnValue {
    let stack = of.data.stack(of.stack);
    let size = if stack == NodeId::ROOT { 0 } else { what(of.data, of.data.profile.trie.frame(stack)) };
    match i64::try_from(size) {
        Ok(size) if size > 0 => ColumnValue::Number(size),
        _ => ColumnValue::Text("unknown".into()),
    }
}

/// Formats the line of a stack's last frame, else the frame.
fn line(
    of: &ColumnInput<'_>,
    what: impl Fn(&SourceLine) -> String,
    without: impl Fn(Data<'_>, FrameId) -> String,
) -> ColumnValue {
    let (profile, stack) = (of.data.profile, of.data.stack(of.stack));
    let frame = (stack != NodeId::ROOT).then(|| profile.trie.frame(stack));
    let text = frame.map(|frame| profile.frames.line(frame).map_or_else(|| without(of.data, frame), &what));
    ColumnValue::Text(text.unwrap_or_default().into())
}

/// Formats a location without a line as in perf. That is an offset into a function, or an address in a file. Frames of
/// texts and other tools' profiles have a number as their address; their offset is known only if the text has it.
fn place(data: Data<'_>, frame: FrameId) -> String {
    let frames = &data.profile.frames;
    let (sym, known) = (frames.sym(frames.sym_of(frame)), frames.get(frame));
    let (_, at) = known.place(&data.session.dsos);
    let (is_mapped, text_place) = (known.map != MapId::UNKNOWN, frames.text_place(frame));
    match (&sym.function, sym.state) {
        // The address of an interpreted function is only a number.
        _ if matches!(sym.kind, DsoKind::Interpreted(_)) => {
            sym.file_of_interpreted().unwrap_or(&sym.dso_name).to_owned()
        }
        (Some(name), SymState::Known) if is_mapped => format!("{name}+{}", sym.offset(at).unwrap_or_default()),
        (Some(name), SymState::Known) => match text_place.and_then(|place| place.offset) {
            Some(offset) => format!("{name}+{offset}"),
            None => name.to_string(),
        },
        _ => format!("{}[{:x}]", sym.dso_name, if is_mapped { at } else { sym.start }),
    }
}

/// Returns the file in an interpreted function's name; empty for others.
fn file(data: Data<'_>, frame: FrameId) -> String {
    let frames = &data.profile.frames;
    without_line(frames.sym(frames.sym_of(frame)).file_of_interpreted().unwrap_or_default()).to_owned()
}

fn without_line(place: &str) -> &str {
    let parts = place.rsplit_once(':').filter(|(_, line)| line.bytes().all(|byte| byte.is_ascii_digit()));
    parts.map_or(place, |(file, _)| file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_no_line() {
        assert_eq!(
            ["svc.py", "shop.js:12", "node:events", ""].map(without_line),
            ["svc.py", "shop.js", "node:events", ""]
        );
    }
}
