//! System calls in call syntax. An example is `openat(dfd: CWD, filename: "/etc/hosts", flags: RDONLY|CLOEXEC)`.

use super::super::{Field, Format, text_of};

/// Formats the entry or exit of a system call; `None` for other records.
pub(crate) fn text(format: &Format, raw: &[u8]) -> Option<String> {
    if format.system != "syscalls" {
        return None;
    }
    if let Some(name) = format.name.strip_prefix("sys_exit_") {
        let result = format.field("ret")?.number(raw)?;
        return Some(format!("{name} = {result}"));
    }
    let name = format.name.strip_prefix("sys_enter_")?;
    let mut arguments = Vec::new();
    for field in format.own_fields().filter(|field| !field.name.starts_with("__")) {
        let value = field.number(raw)?;
        let is_said = value != 0 || !["flags", "flag", "mode", "prot"].contains(&&*field.name);
        if is_said {
            arguments.push(format!("{}: {}", field.name, argument(format, field, value, raw)));
        }
    }
    Some(format!("{name}({})", arguments.join(", ")))
}

fn argument(format: &Format, field: &Field, value: i64, raw: &[u8]) -> String {
    let string = format.field(&text_of(&field.name)).and_then(|text| text.bytes(raw));
    if let Some(bytes) = string.filter(|bytes| !bytes.is_empty()) {
        return format!("{:?}", super::super::text(bytes));
    }
    let opens = ["sys_enter_open", "sys_enter_openat", "sys_enter_open_by_handle_at"].contains(&&*format.name);
    let kind = &*field.kind;
    match &*field.name {
        "dfd" | "olddfd" | "newdfd" | "dirfd" if value as i32 == libc::AT_FDCWD => "CWD".to_owned(),
        "flags" if opens => open_flags(value as i32),
        "mode" => format!("0{:o}", value as u32),
        "prot" => names(value as i32, "NONE", &[(1, "READ"), (2, "WRITE"), (4, "EXEC")]),
        _ if kind.ends_with('*') && value == 0 => "NULL".to_owned(),
        name if kind.ends_with('*') || name.contains("flag") || name.contains("mask") || name.contains("addr") => {
            format!("{value:#x}")
        }
        _ if matches!(kind, "int" | "pid_t" | "clockid_t" | "const clockid_t" | "key_serial_t") => {
            (value as i32).to_string()
        }
        _ if kind == "long" || kind == "off_t" || kind == "loff_t" => value.to_string(),
        _ => (value as u64).to_string(),
    }
}

/// Formats the flags of open(2). The access mode is in the two lowest bits, and RDONLY is 0.
fn open_flags(value: i32) -> String {
    let access = ["RDONLY", "WRONLY", "RDWR", "3"][(value & libc::O_ACCMODE) as usize];
    let rest = [
        (libc::O_CREAT, "CREAT"),
        (libc::O_EXCL, "EXCL"),
        (libc::O_NOCTTY, "NOCTTY"),
        (libc::O_TRUNC, "TRUNC"),
        (libc::O_APPEND, "APPEND"),
        (libc::O_NONBLOCK, "NONBLOCK"),
        (libc::O_SYNC, "SYNC"),
        (libc::O_DSYNC, "DSYNC"),
        (libc::O_DIRECT, "DIRECT"),
        (LARGEFILE, "LARGEFILE"),
        (libc::O_TMPFILE, "TMPFILE"),
        (libc::O_DIRECTORY, "DIRECTORY"),
        (libc::O_NOFOLLOW, "NOFOLLOW"),
        (libc::O_NOATIME, "NOATIME"),
        (libc::O_CLOEXEC, "CLOEXEC"),
        (libc::O_PATH, "PATH"),
    ];
    match value & !libc::O_ACCMODE {
        0 => access.to_owned(),
        others => format!("{access}|{}", names(others, "0", &rest)),
    }
}

/// The kernel's value; libc defines it as 0 on 64-bit machines.
const LARGEFILE: i32 = if cfg!(target_arch = "aarch64") { 0o400_000 } else { 0o100_000 };

/// Returns the names of the set bits; unknown bits follow as a number.
fn names(value: i32, nothing: &str, known: &[(i32, &str)]) -> String {
    let (mut left, mut said) = (value, Vec::new());
    for (bits, name) in known {
        if left & bits == *bits {
            left &= !bits;
            said.push((*name).to_owned());
        }
    }
    if left != 0 {
        said.push(format!("{left:#x}"));
    }
    if said.is_empty() { nothing.to_owned() } else { said.join("|") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENAT: &str = "name: sys_enter_openat\nID: 7\nformat:\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;\n\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;\n\tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;\n\tfield:umode_t mode;\toffset:40;\tsize:8;\tsigned:0;\n\nprint fmt: \"dfd: 0x%08lx, filename: 0x%08lx, flags: 0x%08lx, mode: 0x%08lx\", ((unsigned long)(REC->dfd)), ((unsigned long)(REC->filename)), ((unsigned long)(REC->flags)), ((unsigned long)(REC->mode))\n";

    /// Formats a record of the call, with its string if present.
    fn openat(dfd: i32, flags: i32, mode: u64, string: &[u8]) -> Option<String> {
        let text = crate::event::tracepoint::strings::described("syscalls", OPENAT);
        let format = Format::parse("syscalls", &text, false).expect("format");
        let mut raw = vec![0; 16];
        for word in [u64::from(dfd as u32), 0x7f00_dead_beef, u64::from(flags as u32), mode] {
            raw.extend(word.to_le_bytes());
        }
        let len = string.len() as u32;
        raw.extend((if len > 0 { 52 | len << 16 } else { 0 }).to_le_bytes());
        raw.extend(string);
        super::text(&format, &raw)
    }

    #[test]
    fn calls_are_as_one_writes_them() {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;
        for (said, want) in [
            (
                openat(-100, libc::O_CLOEXEC, 0, b"/etc/hosts\0"),
                r#"openat(dfd: CWD, filename: "/etc/hosts", flags: RDONLY|CLOEXEC)"#,
            ),
            (
                openat(3, flags, 0o644, b"a b\0"),
                r#"openat(dfd: 3, filename: "a b", flags: RDWR|CREAT|CLOEXEC, mode: 0644)"#,
            ),
            (openat(-1, 0, 0, b"\0"), r#"openat(dfd: -1, filename: "")"#),
            (
                openat(0, 1 << 30, 0, b"x\x1b[2J\"\n\0"),
                r#"openat(dfd: 0, filename: "x\u{1b}[2J\"\n", flags: RDONLY|0x40000000)"#,
            ),
            (openat(-100, 0, 0, b""), "openat(dfd: CWD, filename: 0x7f00deadbeef)"),
        ] {
            assert_eq!(said.as_deref(), Some(want));
        }
    }

    #[test]
    fn other_records_are_not_calls() {
        let format = Format::parse("sched", OPENAT, false).expect("format");
        assert_eq!(super::text(&format, &[0; 64]), None);
        let short = Format::parse("syscalls", OPENAT, false).expect("format");
        assert_eq!(super::text(&short, &[0; 20]), None);
    }
}
