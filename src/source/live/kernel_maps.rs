//! The kernel's own mappings as records: its text and its modules, as perf writes them at the
//! start of a recording.

use crate::kernel::limits::Rights;
use crate::kernel::{privilege, procfs};
use crate::perfdata::EventDesc;
use crate::record::kinds::{FileId, Mmap};
use crate::record::{Layout, SampleId};
use crate::symbols::kallsyms;

/// Appends MMAP records for the kernel and its modules; says so when addresses are hidden.
pub(crate) fn records(out: &mut Vec<u8>, events: &[EventDesc], notes: &mut Vec<String>) {
    let layout = events.first().map_or_else(Layout::default, EventDesc::layout);
    let trailer = layout.encode_trailer(&SampleId::default());
    let modules = kallsyms::modules();
    let Some(text) = text_start() else {
        let (why, remedy) = privilege::names_hidden(&Rights::read());
        notes.push(format!("kernel functions have no names: {why}; {remedy}"));
        return;
    };
    let first_module = modules.iter().map(|m| m.start).filter(|s| *s > text).min();
    let end = first_module.unwrap_or(MODULES_VADDR.max(text));
    map(text, end - text, "[kernel.kallsyms]_text").encode(out, &trailer);
    for module in &modules {
        map(module.start, module.len, &format!("[{}]", module.name)).encode(out, &trailer);
    }
}

/// The address from which x86-64 puts modules and BPF programs, above the kernel's text (Documentation/arch/x86/
/// x86_64/mm.rst). On other machines the first module, if any, bounds the text.
const MODULES_VADDR: u64 = 0xffff_ffff_c000_0000;

fn map(start: u64, len: u64, name: &str) -> Mmap<'_> {
    Mmap { pid: -1, tid: 0, start, len, pgoff: start, file: FileId::None, prot: 4, flags: 0, name: name.as_bytes() }
}

/// The address of `_text`, from the first lines of kallsyms where it stands there.
fn text_start() -> Option<u64> {
    let mut head = vec![0; 64 << 10];
    let n = procfs::kallsyms_head(&mut head).ok()?;
    let known = kallsyms::Kallsyms::parse(&head[..n]);
    known
        .text
        .or_else(|| kallsyms::Kallsyms::read(std::path::Path::new("/proc/kallsyms")).ok()?.text)
        .filter(|t| *t != 0)
}
