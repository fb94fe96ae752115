//! The kernel's own mappings as records: its text and its modules, like perf writes them at the start of a recording.

use crate::kernel::limits::Rights;
use crate::kernel::{kernel_symbols, privilege};
use crate::perfdata::EventDesc;
use crate::record::kinds::{FileId, Mmap};
use crate::record::{Layout, SampleId};
use crate::symbols::kallsyms;

/// Appends MMAP records for the kernel and its modules; adds a note if addresses are hidden.
pub(crate) fn records(out: &mut Vec<u8>, events: &[EventDesc], notes: &mut Vec<String>) {
    let layout = events.first().map_or_else(Layout::default, EventDesc::layout);
    let trailer = layout.encode_trailer(&SampleId::default());
    let modules = kallsyms::modules();
    let Some((text, end_of_text, symbol)) = text() else {
        let (why, remedy) = privilege::names_hidden(&Rights::read());
        notes.push(format!("kernel functions have no names: {why}. {remedy}"));
        return;
    };
    let first_module = modules.iter().map(|m| m.start).filter(|s| *s > text).min();
    let end = first_module.unwrap_or(if cfg!(target_arch = "x86_64") { MODULES_VADDR.max(text) } else { end_of_text });
    map(text, end - text, &format!("[kernel.kallsyms]{symbol}")).encode(out, &trailer);
    for module in &modules {
        map(module.start, module.len, &format!("[{}]", module.name)).encode(out, &trailer);
    }
}

/// The lowest address of modules and BPF programs on x86-64, above the kernel's text (Documentation/arch/x86/
/// x86_64/mm.rst). On other architectures modules are below, and the text's end comes from its symbols.
const MODULES_VADDR: u64 = 0xffff_ffff_c000_0000;

fn map(start: u64, len: u64, name: &str) -> Mmap<'_> {
    Mmap { pid: -1, tid: 0, start, len, pgoff: start, file: FileId::None, prot: 4, flags: 0, name: name.as_bytes() }
}

fn text() -> Option<(u64, u64, &'static str)> {
    // The start is in the first lines; the end is needed only where modules do not bound the text.
    let mut head = vec![0; 64 << 10];
    let n = kernel_symbols::head(&mut head).ok()?;
    let mut known = kallsyms::Kallsyms::parse(&head[..n]);
    if known.text.is_none() || cfg!(not(target_arch = "x86_64")) {
        known = kallsyms::Kallsyms::read(std::path::Path::new("/proc/kallsyms")).ok()?;
    }
    let text = known.text.filter(|text| *text != 0)?;
    Some((text, known.end.filter(|end| *end > text).unwrap_or(u64::MAX), known.text_symbol))
}
