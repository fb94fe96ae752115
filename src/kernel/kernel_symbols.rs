//! Addresses of the running kernel's symbols, from /proc/kallsyms.

use std::fs;
use std::io;
use std::ops::{ControlFlow, Range};

/// Reads the first bytes of the running kernel's symbols: reading all of them takes 30 ms.
pub(crate) fn head(bytes: &mut [u8]) -> io::Result<usize> {
    io::Read::read(&mut fs::File::open("/proc/kallsyms")?, bytes)
}

/// Opens the running kernel's symbols.
fn open() -> io::Result<impl io::BufRead> {
    Ok(io::BufReader::with_capacity(1 << 16, fs::File::open("/proc/kallsyms")?))
}

/// Passes address and name of each symbol to `each`, in the kernel's order, until it breaks. Hidden addresses, which read
/// as zero, are left out.
fn walk(mut kallsyms: impl io::BufRead, mut each: impl FnMut(u64, &[u8]) -> ControlFlow<()>) {
    let mut line = Vec::new();
    while kallsyms.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let mut words = line.split(u8::is_ascii_whitespace);
        let address = words.next().and_then(|word| u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
        if let Some((address, name)) = address.filter(|address| *address != 0).zip(words.nth(1))
            && each(address, name).is_break()
        {
            return;
        }
        line.clear();
    }
}

/// Returns the address of a kernel symbol; `None` if it does not exist or addresses are hidden.
pub(crate) fn address(name: &str) -> Option<u64> {
    address_in(open().ok()?, name)
}

fn address_in(kallsyms: impl io::BufRead, name: &str) -> Option<u64> {
    let mut found = None;
    walk(kallsyms, |address, known| match known == name.as_bytes() {
        true => {
            found = Some(address);
            ControlFlow::Break(())
        }
        false => ControlFlow::Continue(()),
    });
    found
}

/// Returns the names and addresses of the kernel symbols whose names are chosen; empty if addresses are hidden.
pub(crate) fn addresses(is_chosen: impl Fn(&[u8]) -> bool) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    if let Ok(kallsyms) = open() {
        walk(kallsyms, |address, name| {
            if is_chosen(name) {
                found.push((String::from_utf8_lossy(name).into_owned(), address));
            }
            ControlFlow::Continue(())
        });
    }
    found
}

/// Returns the addresses of a kernel function, up to the next symbol; `None` if it does not exist or addresses are
/// hidden.
pub(crate) fn function(name: &str) -> Option<Range<u64>> {
    function_in(open().ok()?, name)
}

/// The kernel lists its own symbols by address, with several names of one address next to each other.
fn function_in(kallsyms: impl io::BufRead, name: &str) -> Option<Range<u64>> {
    let (mut start, mut end) = (None, None);
    walk(kallsyms, |address, known| {
        match start {
            Some(start) => end = Some(address).filter(|end| *end > start),
            None => start = Some(address).filter(|_| known == name.as_bytes()),
        }
        if end.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    Some(start?..end?)
}

/// Returns the addresses of kernel functions whose names begin with `prefix`, sorted; empty if addresses are hidden.
pub(crate) fn functions(prefix: &str) -> Vec<Range<u64>> {
    open().map(|kallsyms| functions_in(kallsyms, prefix)).unwrap_or_default()
}

fn functions_in(kallsyms: impl io::BufRead, prefix: &str) -> Vec<Range<u64>> {
    /// The end of a function that is not followed by another one.
    const SIZE: u64 = 128;
    let (mut found, mut is_last): (Vec<Range<u64>>, bool) = (Vec::new(), false);
    walk(kallsyms, |address, name| {
        if let (true, Some(last)) = (is_last, found.last_mut())
            && (last.start + 1..last.end).contains(&address)
        {
            last.end = address;
        }
        is_last = name.starts_with(prefix.as_bytes());
        found.extend(is_last.then_some(address..address.saturating_add(SIZE)));
        ControlFlow::Continue(())
    });
    found.sort_unstable_by_key(|range| range.start);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_function_ends_at_the_next_symbol() {
        let text = b"ffffffff81000100 t alias\nffffffff81000100 T __schedule\nffffffff81000100 T __schedule_end\n\
                     ffffffff81003140 T schedule\nffffffff81000000 t a [m]\n0000000000000000 T hidden\nbad";
        let of = |name| function_in(&text[..], name).map(|r| (r.start & 0xffff, r.end & 0xffff));
        assert_eq!(
            (of("__schedule"), of("schedule"), of("hidden"), of("x")),
            (Some((0x100, 0x3140)), None, None, None)
        );
    }

    #[test]
    fn kernel_functions_by_the_beginning_of_their_names() {
        let text = b"ffffffff81000100 T __trace_b\nffffffff81000140 T other\nffffffff81000000 t __trace_a [m]\n\
                     0000000000000000 T __trace_hidden\nffffffff81000900 T __trace_c\nffffffff81000900 T __trace_c2\nbad";
        let ranges: Vec<_> =
            functions_in(&text[..], "__trace_").into_iter().map(|r| (r.start & 0xfff, r.end & 0xfff)).collect();
        assert_eq!(ranges, [(0, 0x80), (0x100, 0x140), (0x900, 0x980), (0x900, 0x980)]);
        assert!(functions_in(&b""[..], "").is_empty());
    }

    #[test]
    fn kernel_symbols_by_name() {
        let text = "ffffffff81000000 T _text\nffffffff81000010 t do_one\t[mod]\n0000000000000000 D hidden\n";
        let of = |name| address_in(text.as_bytes(), name);
        assert_eq!((of("do_one"), of("hidden"), of("nobody")), (Some(0xffff_ffff_8100_0010), None, None));
    }
}
