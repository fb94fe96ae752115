//! A frame of a call chain as a line of text.

use crate::panel::text::clean;
use crate::profile::frames::SymState;
use crate::profile::{FrameId, SymId};
use crate::query::Data;
use crate::session::DsoKind;

use super::{AddressForm, ScriptField, Shape};

/// The frame that perf prints at the end of a cut stack.
const CUT: &str = "ffffffffffffffff [unknown] ([unknown])";

/// Formats `ip sym+0xoff (dso)`.
/// As in perf, the address is the sampled one for single samples, and inside the file for call chains.
pub(super) fn describe(data: Data<'_>, frame: FrameId, shape: &Shape) -> String {
    let one = data.profile.frames.get(frame);
    let map = data.session.dsos.map_of(one.map);
    let sym = data.profile.frames.sym(data.profile.frames.sym_of(frame));
    let dso = data.session.dsos.get(sym.dso);
    let text_place = data.profile.frames.text_place(frame);
    if sym.kind == DsoKind::Cut && text_place.is_none() {
        return CUT.to_owned();
    }
    let is_file = matches!(sym.kind, DsoKind::File | DsoKind::Vdso);
    let ip = one.ip.wrapping_sub(u64::from(shape.way == AddressForm::Call && one.caller && !sym.kind.is_kernel()));
    let at = map.to_dso(ip);
    let shown = match text_place {
        Some(place) => place.ip,
        None if shape.way != AddressForm::Sampled && is_file => at,
        None => ip,
    };
    // The bounds of BPF programs are in the event that reported them.
    let start = if sym.kind == DsoKind::Bpf { map.start } else { sym.start };
    let mut out = String::new();
    for sym in data.profile.frames.inlined(frame.0).iter().rev().filter(|_| shape.set.has(ScriptField::Sym)) {
        let name = data.profile.frames.sym(SymId(*sym)).name();
        out.push_str(&format!("{shown:16x} {}\n\t", clean(&name)));
    }
    out.push_str(&format!("{shown:16x}"));
    if shape.set.has(ScriptField::Sym) {
        out.push(' ');
        match sym.function.as_ref().filter(|_| sym.state != SymState::Bounded) {
            Some(name) => {
                out.push_str(&clean(name));
                let offset = text_place.map_or(at.checked_sub(start), |place| place.offset);
                if let Some(offset) = offset.filter(|_| shape.set.has(ScriptField::Symoff)) {
                    out.push_str(&format!("+{offset:#x}"));
                }
            }
            None => out.push_str("[unknown]"),
        }
    }
    if shape.set.has(ScriptField::Dso) {
        // perf prints modules with their name in `lsmod`.
        let path = if sym.kind == DsoKind::Module { &dso.short } else { &dso.path };
        out.push_str(&format!(" ({})", clean(path)));
    }
    if let Some(line) = data.profile.frames.line(frame).filter(|_| shape.set.has(ScriptField::Srcline)) {
        out.push_str(&format!("\n  {}", clean(&line.short())));
    }
    out
}
