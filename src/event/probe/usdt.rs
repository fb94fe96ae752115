//! Static probes in programs (section `.note.stapsdt`, systemtap's sdt.h), and operands in the kernel's fetch syntax.

use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::NoteIterator;

use super::{Probe, ProbePoint, as_name};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Usdt {
    pub(crate) provider: String,
    pub(crate) name: String,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// File offset of the counter that enables the preparation of arguments.
    pub(crate) semaphore: Option<u64>,
    /// As written by the compiler: `-4@%edi 8@-16(%rbp)`.
    pub(crate) operands: Vec<String>,
}

const NOTE_TYPE: u32 = 3;
/// Larger numbers mean damaged data.
const MAX_PROBES: usize = 100_000;

/// Parses the notes. Addresses move with the base section if a file was prelinked.
/// A semaphore without file content is dropped: writing there would change something else.
pub fn parse(notes: &[u8], base: Option<u64>, is_64: bool, to_offset: &dyn Fn(u64) -> Option<u64>) -> Vec<Usdt> {
    let notes = NoteIterator::<FileHeader64<LittleEndian>>::new(LittleEndian, 4, notes);
    let ours = notes.into_iter().flatten().map_while(Result::ok).filter(|note| note.name_bytes() == b"stapsdt\0");
    let ours = ours.filter(|note| note.n_type(LittleEndian).0 == NOTE_TYPE);
    ours.filter_map(|note| probe(note.desc(), base, is_64, to_offset)).take(MAX_PROBES).collect()
}

fn probe(desc: &[u8], base: Option<u64>, is_64: bool, to_offset: &dyn Fn(u64) -> Option<u64>) -> Option<Usdt> {
    let size = if is_64 { 8 } else { 4 };
    let address = |i: usize| -> Option<u64> {
        let bytes = desc.get(size * i..size * (i + 1))?;
        Some(bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
    };
    let (pc, old_base, counter) = (address(0)?, address(1)?, address(2)?);
    let moved = base.map_or(0, |base| base.wrapping_sub(old_base));
    let mut texts = desc.get(3 * size..)?.split(|b| *b == 0).map(|t| String::from_utf8_lossy(t).into_owned());
    let (provider, name, operands) = (texts.next()?, texts.next()?, texts.next()?);
    let counter = (counter != 0).then(|| counter.wrapping_add(moved)).and_then(to_offset);
    let operands = each_operand(&operands);
    Some(Usdt { provider, name, offset: to_offset(pc.wrapping_add(moved))?, semaphore: counter, operands })
}

impl Usdt {
    pub(crate) fn event(&self) -> String {
        format!("{}:{}", self.provider, self.name)
    }

    pub(crate) fn probe(&self, path: &std::path::Path, group: &str) -> Probe {
        let args = (1..).zip(&self.operands).filter_map(|(n, text)| Some(format!("arg{n}={}", operand(text)?)));
        Probe {
            group: group.to_owned(),
            name: as_name(&self.name),
            place: ProbePoint::File { path: path.to_owned(), offset: self.offset, semaphore: self.semaphore },
            on_return: false,
            args: args.collect(),
        }
    }
}

/// Splits operands; those of AArch64 contain blanks in brackets.
fn each_operand(text: &str) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match out.last_mut().filter(|last| last.contains('[') && !last.contains(']')) {
            Some(open) => open.push_str(word),
            None => out.push(word.to_owned()),
        }
    }
    out
}

/// Translates an operand of the x86-64 or AArch64 assembler. x86-64: `-4@%edi` to `%di:s32`, `8@-16(%rbp)` to
/// `-16(%bp):u64`, `4@$7` to `\7:u32`; AArch64: `8@x0` to `%x0:u64`, `8@[sp,16]` to `+16(%sp):u64`, `4@7` to `\7:u32`.
fn operand(text: &str) -> Option<String> {
    let (size, place) = text.split_once('@')?;
    let (sign, size) = size.strip_prefix('-').map_or(('u', size), |size| ('s', size));
    let bits = size.parse::<u32>().ok().filter(|n| [1, 2, 4, 8].contains(n))? * 8;
    let number = place.strip_prefix(['$', '#']).unwrap_or(place);
    let fetch = if let Ok(number) = number.parse::<i64>() {
        format!("\\{number}")
    } else if let Some(inner) = place.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let (register, offset) = inner.split_once(',').unwrap_or((inner, "0"));
        let offset: i64 = offset.strip_prefix('#').unwrap_or(offset).parse().ok()?;
        format!("{offset:+}(%{})", register_name(register)?)
    } else if let Some(inner) = place.strip_suffix(')') {
        let (offset, register) = inner.split_once('(')?;
        let offset: i64 = if offset.is_empty() { 0 } else { offset.parse().ok()? };
        format!("{offset:+}(%{})", register_name(register)?)
    } else {
        format!("%{}", register_name(place)?)
    };
    Some(format!("{fetch}:{sign}{bits}"))
}

/// Returns the kernel's name of the full register that contains a register.
fn register_name(name: &str) -> Option<String> {
    match name.strip_prefix('%') {
        Some(name) => x86_register(name),
        None if name == "sp" => Some(name.to_owned()),
        None => {
            let n: u8 = name.strip_prefix(['x', 'w'])?.parse().ok()?;
            (n < 31).then(|| format!("x{n}"))
        }
    }
}

fn x86_register(name: &str) -> Option<String> {
    const WHOLE: [&str; 8] = ["ax", "bx", "cx", "dx", "si", "di", "bp", "sp"];
    if let Some(n) = name.strip_prefix('r').filter(|n| n.starts_with(|c: char| c.is_ascii_digit())) {
        let n: u8 = n.trim_end_matches(['b', 'w', 'd']).parse().ok()?;
        return (8..16).contains(&n).then(|| format!("r{n}"));
    }
    let stem = name.strip_prefix(['r', 'e']).unwrap_or(name);
    let of_part = |whole: &&&str| {
        let is_low = whole.ends_with('x') && stem.strip_suffix('l') == Some(&whole[..1]);
        stem == **whole || stem.strip_suffix('l') == Some(whole) || is_low
    };
    WHOLE.iter().find(of_part).map(|whole| (*whole).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::damage;
    use proptest::prelude::*;

    fn note(pc: u64, base: u64, counter: u64, texts: &[u8]) -> Vec<u8> {
        let mut desc: Vec<u8> = [pc, base, counter].iter().flat_map(|w| w.to_le_bytes()).collect();
        desc.extend(texts);
        let mut out: Vec<u8> = [8, desc.len() as u32, NOTE_TYPE].iter().flat_map(|w| w.to_le_bytes()).collect();
        out.extend(b"stapsdt\0");
        out.extend(&desc);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn probes_move_with_their_base() {
        let mut bytes = note(0x1010, 0x5000, 0x6000, b"app\0start\0-4@%edi 8@-16(%rbp)\0");
        bytes.extend(note(0x1020, 0x5000, 0, b"app\0stop\0\0"));
        let to_offset = |address: u64| (address < 0x7000).then_some(address);
        let found = parse(&bytes, Some(0x5100), true, &to_offset);
        assert_eq!((found.len(), found[0].event(), found[0].offset), (2, "app:start".into(), 0x1110));
        assert_eq!((found[0].semaphore, found[1].semaphore), (Some(0x6100), None));
        let line = found[0].probe("/bin/app".as_ref(), "sdt_app").line();
        assert_eq!(line, "p:sdt_app/start /bin/app:0x1110(0x6100) arg1=%di:s32 arg2=-16(%bp):u64");
    }

    #[test]
    fn operands_in_the_words_of_the_kernel() {
        for (text, want) in [
            ("8@%rdi", Some("%di:u64")),
            ("-4@$7", Some("\\7:s32")),
            ("1@%al", Some("%ax:u8")),
            ("-2@%r12w", Some("%r12:s16")),
            ("4@(%rax)", Some("+0(%ax):u32")),
            ("8@%dil", Some("%di:u64")),
            ("8@x0", Some("%x0:u64")),
            ("-4@w30", Some("%x30:s32")),
            ("8@[sp,16]", Some("+16(%sp):u64")),
            ("-4@[x29,-8]", Some("-8(%x29):s32")),
            ("1@[x1]", Some("+0(%x1):u8")),
            ("4@-7", Some("\\-7:u32")),
            ("8@x31", None),
            ("8@[x1,x2]", None),
            ("8@foo(%rip)", None),
            ("3@%rax", None),
            ("nonsense", None),
        ] {
            assert_eq!(operand(text).as_deref(), want, "{text}");
        }
        assert_eq!(each_operand("8@[sp, 16] -4@w1  8@-16(%rbp)"), ["8@[sp,16]", "-4@w1", "8@-16(%rbp)"]);
        assert_eq!(each_operand("8@[sp, "), ["8@[sp,"]);
    }

    #[test]
    fn damaged_notes_are_no_panic() {
        let mut two = note(0x1010, 0x5000, 0x6000, b"app\0start\0-4@%edi 8@-16(%rbp)\0");
        two.extend(note(0x1020, 0x5000, 0, b"app\0stop\0\0"));
        damage::reaching(512, 40, damage::bytes(4, Just(two)), |bytes| {
            !parse(&bytes, Some(0x5100), true, &Some).is_empty()
        });
    }
}
