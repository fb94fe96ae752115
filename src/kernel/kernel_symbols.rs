//! Addresses of the running kernel's symbols, from /proc/kallsyms.

use std::fs;
use std::io;
use std::ops::Range;

/// Reads the first bytes of the running kernel's symbols: reading all of them takes 30 ms.
pub(crate) fn head(bytes: &mut [u8]) -> io::Result<usize> {
    io::Read::read(&mut fs::File::open("/proc/kallsyms")?, bytes)
}

/// Returns the address of a kernel symbol; `None` if it does not exist or addresses are hidden.
pub(crate) fn address(name: &str) -> Option<u64> {
    symbol_in(&fs::read_to_string("/proc/kallsyms").ok()?, name)
}

fn symbol_in(kallsyms: &str, name: &str) -> Option<u64> {
    addresses_in(kallsyms, |known| known == name).next().map(|(_, address)| address)
}

/// Returns the names and addresses of the kernel symbols whose names are chosen; empty if addresses are hidden.
pub(crate) fn addresses(is_chosen: impl Fn(&str) -> bool) -> Vec<(String, u64)> {
    let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    addresses_in(&text, is_chosen).map(|(name, address)| (name.to_owned(), address)).collect()
}

fn addresses_in(kallsyms: &str, is_chosen: impl Fn(&str) -> bool) -> impl Iterator<Item = (&str, u64)> {
    kallsyms.lines().filter_map(move |line| {
        let mut words = line.split_ascii_whitespace();
        let (address, name) = (words.next()?, words.nth(1).filter(|name| is_chosen(name))?);
        let address = u64::from_str_radix(address, 16).ok().filter(|address| *address != 0)?;
        Some((name, address))
    })
}

/// Returns the addresses of a kernel function, up to the next symbol; `None` if it does not exist or addresses are
/// hidden.
pub(crate) fn function(name: &str) -> Option<Range<u64>> {
    let open = || fs::File::open("/proc/kallsyms").map(|file| io::BufReader::with_capacity(1 << 16, file)).ok();
    function_in([open()?, open()?], name)
}

/// Does the same in two copies of the symbols, because a line does not say where a function ends.
fn function_in([first, second]: [impl io::BufRead; 2], name: &str) -> Option<Range<u64>> {
    let of = |line: &[u8]| {
        let mut words = line.split(u8::is_ascii_whitespace);
        let address = u64::from_str_radix(std::str::from_utf8(words.next()?).ok()?, 16).ok()?;
        Some((address, words.nth(1)? == name.as_bytes()))
    };
    let mut symbols = first.split(b'\n').map_while(Result::ok).filter_map(|line| of(&line));
    let (start, _) = symbols.find(|(_, is_named)| *is_named)?;
    let end = second.split(b'\n').map_while(Result::ok).filter_map(|line| Some(of(&line)?.0));
    (start != 0).then_some(start..end.filter(|at| *at > start).min()?)
}

/// Returns the addresses of kernel functions whose names begin with `prefix`, sorted; empty if addresses are hidden.
pub(crate) fn functions(prefix: &str) -> Vec<Range<u64>> {
    let Ok(file) = fs::File::open("/proc/kallsyms") else { return Vec::new() };
    functions_in(io::BufReader::with_capacity(1 << 16, file), prefix)
}

fn functions_in(mut kallsyms: impl io::BufRead, prefix: &str) -> Vec<Range<u64>> {
    /// The end of a function that is not followed by another one.
    const SIZE: u64 = 128;
    let (mut found, mut line): (Vec<Range<u64>>, _) = (Vec::new(), Vec::new());
    let mut is_last = false;
    while kallsyms.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let mut words = line.split(u8::is_ascii_whitespace);
        let address = words.next().and_then(|word| u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
        let address = address.filter(|address| *address != 0);
        if let (true, Some(address), Some(last)) = (is_last, address, found.last_mut())
            && (last.start + 1..last.end).contains(&address)
        {
            last.end = address;
        }
        is_last = words.nth(1).is_some_and(|name| name.starts_with(prefix.as_bytes()));
        found.extend(address.filter(|_| is_last).map(|address| address..address.saturating_add(SIZE)));
        line.clear();
    }
    found.sort_unstable_by_key(|range| range.start);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_function_ends_at_the_next_symbol() {
        let text = b"ffffffff81000100 T __schedule\nffffffff81003140 T schedule\nffffffff81000000 t a [m]\n\
                     0000000000000000 T hidden\nbad";
        let of = |name| function_in([&text[..], &text[..]], name).map(|r| (r.start & 0xffff, r.end & 0xffff));
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
        let of = |name| symbol_in(text, name);
        assert_eq!((of("do_one"), of("hidden"), of("nobody")), (Some(0xffff_ffff_8100_0010), None, None));
    }
}
