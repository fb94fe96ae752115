//! String arguments of system calls. The kernel records only their addresses; a live session reads the strings in the
//! kernel and writes records in the layout of Linux 6.19 and later: next to `filename`, a field `__filename_val` has
//! the text. The words of a futex, socket addresses and the structures of clone3 and openat2 are read likewise.

use crate::kernel::strings::UserBytes;

use super::format::{Format, text_of};

/// The limit of strings per record: `mount` and `request_key` have the most.
pub(crate) const MOST: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Strings {
    /// Offsets of the addresses of strings in the record.
    pub(crate) addresses: Vec<usize>,
    /// Offset of the location words of the texts, four bytes each; the bytes follow.
    pub(crate) at: usize,
    /// Bytes that are read at another address, whose offset in the record is first.
    pub(crate) bytes: Option<(usize, UserBytes)>,
}

/// The words at the address of a futex: its own, and those that glibc's mutexes have behind it. Fields of four bytes.
pub(crate) const FUTEX_WORDS: [&str; 3] = ["uaddr_val", "uaddr_count", "uaddr_owner"];

/// The calls with a socket address or a structure, and the fields of its address and length.
type WithBytes = (&'static str, &'static str, &'static str, fn(usize) -> UserBytes);
const WITH_BYTES: [WithBytes; 4] = [
    ("sys_enter_connect", "uservaddr", "addrlen", UserBytes::socket_address),
    ("sys_enter_bind", "umyaddr", "addrlen", UserBytes::socket_address),
    ("sys_enter_openat2", "how", "usize", UserBytes::open_how),
    ("sys_enter_clone3", "uargs", "size", UserBytes::clone_args),
];

impl Strings {
    /// Finds the strings of a tracepoint. `None` if it does not have any, or the kernel records their text.
    pub(crate) fn of(format: &Format) -> Option<Self> {
        let is_call = format.system == "syscalls" && format.name.starts_with("sys_enter_");
        if !is_call || format.fields.iter().any(|field| field.name.ends_with("_val")) {
            return None;
        }
        let ends_in_nul = |kind: &str, name: &str| match kind {
            "const char *" => !matches!(name, "buf" | "u_msg_ptr"),
            "char *" if name == "name" => format.name == "sys_enter_umount",
            "char *" => matches!(name, "filename" | "dev_name" | "dir_name" | "type"),
            _ => false,
        };
        let strings = format.fields.iter().filter(|field| ends_in_nul(&field.kind, &field.name) && field.size == 8);
        let addresses: Vec<usize> = strings.map(|field| field.offset).take(MOST).collect();
        let offset = |name: &str| format.field(name).filter(|field| field.size == 8).map(|field| field.offset);
        let with_bytes = WITH_BYTES.iter().find(|(call, ..)| *call == format.name);
        let bytes = match with_bytes {
            Some((_, address, len, of)) => offset(address).zip(offset(len).map(of)),
            None => offset("uaddr").filter(|_| format.name == "sys_enter_futex").map(|at| (at, UserBytes::FUTEX)),
        };
        let at = format.fields.iter().map(|field| field.offset + field.size).max()?;
        (!addresses.is_empty() || bytes.is_some()).then_some(Self { addresses, at, bytes })
    }
}

pub(crate) fn described(system: &str, text: &str) -> String {
    let Some(format) = Format::parse(system, text, false) else { return text.to_owned() };
    let Some(strings) = Strings::of(&format) else { return text.to_owned() };
    let (head, print) = text.split_once("\nprint fmt: ").unwrap_or((text, ""));
    let (mut head, mut print) = (head.trim_end().to_owned() + "\n", print.to_owned());
    let fields = strings.addresses.iter().filter_map(|at| format.fields.iter().find(|field| field.offset == *at));
    for (i, field) in fields.enumerate() {
        let (name, own, at) = (&field.name, text_of(&field.name), strings.at + 4 * i);
        head += &format!("\tfield:__data_loc char[] {own};\toffset:{at};\tsize:4;\tsigned:0;\n");
        for before in ['"', ' '] {
            let said = format!("{before}{name}: 0x%08lx");
            print = print.replacen(&said, &format!("{said} \\\"%s\\\""), 1);
        }
        let given = format!("(REC->{name}))");
        print = print.replacen(&given, &format!("{given}, __get_str({own})"), 1);
    }
    if let Some((address, bytes)) = strings.bytes {
        head += &bytes_described(&format, strings.at + 4 * strings.addresses.len(), address, bytes);
    }
    format!("{head}\nprint fmt: {print}")
}

fn bytes_described(format: &Format, at: usize, address: usize, bytes: UserBytes) -> String {
    if bytes == UserBytes::FUTEX {
        let word =
            |(i, name): (usize, &&str)| format!("\tfield:u32 {name};\toffset:{};\tsize:4;\tsigned:0;\n", at + 4 * i);
        return FUTEX_WORDS.iter().enumerate().map(word).collect();
    }
    let named = format.fields.iter().find(|field| field.offset == address);
    let (name, most) = (named.map_or("address", |field| field.name.as_str()), bytes.most);
    format!("\tfield:u8 {name}_val[{most}];\toffset:{at};\tsize:{most};\tsigned:0;\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENAME: &str = "name: sys_enter_rename\nID: 7\nformat:\n\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:const char * oldname;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:const char * newname;\toffset:24;\tsize:8;\tsigned:0;\n\nprint fmt: \"oldname: 0x%08lx, newname: 0x%08lx\", ((unsigned long)(REC->oldname)), ((unsigned long)(REC->newname))\n";

    #[test]
    fn a_record_is_described_with_its_strings() {
        let text = described("syscalls", RENAME);
        let format = Format::parse("syscalls", &text, false).expect("format");
        let mut raw = vec![0; 16];
        for address in [0x1000u64, 0x2000] {
            raw.extend(address.to_le_bytes());
        }
        for (offset, len) in [(40u32, 2u32), (42, 3)] {
            raw.extend((offset | len << 16).to_le_bytes());
        }
        raw.extend(b"a\0bc\0");
        assert_eq!(format.text(&raw), r#"oldname: 0x00001000 "a", newname: 0x00002000 "bc""#);
        assert_eq!(described("syscalls", &text), text);
        assert_eq!(described("sched", RENAME), RENAME);
    }

    #[test]
    fn a_futex_has_its_words() {
        let call = RENAME.replace("rename", "futex").replace("const char * oldname", "u32 * uaddr");
        let call = call.replace("const char * newname", "int op");
        let text = described("syscalls", &call);
        let format = Format::parse("syscalls", &text, false).expect("format");
        let mut raw = vec![0; 32];
        raw.extend([2u32, 1, 77].into_iter().flat_map(u32::to_le_bytes));
        let words = FUTEX_WORDS.map(|name| format.field(name).and_then(|field| field.number(&raw)));
        assert_eq!(words, [Some(2), Some(1), Some(77)]);
        assert_eq!(described("syscalls", &text), text);
        let other =
            Strings::of(&Format::parse("syscalls", &call.replace("sys_enter", "sys_exit"), false).expect("format"));
        assert_eq!(other, None);
    }

    /// The structure follows the location of the path.
    #[test]
    fn an_openat2_has_its_path_and_structure() {
        let call = RENAME.replace("rename", "openat2").replace("const char * oldname", "const char * filename");
        let call = call
            .replace("const char * newname", "struct open_how * how")
            .replace("\n\nprint fmt", "\n\tfield:size_t usize;\toffset:32;\tsize:8;\tsigned:0;\n\nprint fmt");
        let format = Format::parse("syscalls", &described("syscalls", &call), false).expect("format");
        let [path, how] = ["__filename_val", "how_val"].map(|name| format.field(name).expect("a field"));
        assert_eq!((path.offset, how.offset, how.size), (40, 44, 24));
        let strings = Strings::of(&Format::parse("syscalls", &call, false).expect("format"));
        let bytes = Some((24, UserBytes::open_how(32)));
        assert_eq!(strings, Some(Strings { addresses: vec![16], at: 40, bytes }));
    }

    #[test]
    fn only_what_ends_in_nul_is_a_string() {
        let of = |declaration: &str| {
            let text = RENAME.replace("const char * oldname", declaration);
            Strings::of(&Format::parse("syscalls", &text, false).expect("format")).map(|s| (s.addresses, s.at))
        };
        assert_eq!(of("const char * path"), Some((vec![16, 24], 32)));
        assert_eq!(of("char * type"), Some((vec![16, 24], 32)));
        // gethostname(2) writes there.
        assert_eq!(of("char * name"), Some((vec![24], 32)));
        let unmount = RENAME.replace("rename", "umount").replace("const char * oldname", "char * name");
        let unmount = Format::parse("syscalls", &unmount, false).expect("format");
        assert_eq!(Strings::of(&unmount).map(|strings| strings.addresses), Some(vec![16, 24]));
        for other in ["const char * buf", "char * buf", "const char *const * argv", "unsigned long addr"] {
            assert_eq!(of(other), Some((vec![24], 32)), "{other}");
        }
    }
}
