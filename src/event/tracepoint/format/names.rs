//! Names of numbers that the print formats of the kernel's tracepoints print as numbers.

use super::super::calls::{Abi, Call, SIGNALS, error_name};
use super::{Field, Format};

type Name = fn(&Format, i64) -> Option<String>;

/// Fields by the tracepoint's system; an empty name stands for all fields of a type.
const NAMED: &[(&str, &str, Name)] = &[
    ("raw_syscalls", "id", call),
    ("raw_syscalls", "ret", |_, number| error(number)),
    ("syscalls", "__syscall_nr", call),
    ("syscalls", "ret", |_, number| error(number)),
    ("block", "error", |_, number| error(number)),
    ("signal", "sig", |_, number| signal(number)),
    ("signal", "code", |_, number| origin_of_signal(number)),
    ("kmem", "migratetype", |_, number| mobility(number)),
    ("kmem", "alloc_migratetype", |_, number| mobility(number)),
    ("kmem", "fallback_migratetype", |_, number| mobility(number)),
];

/// Returns the name of a field's number.
pub(super) fn of(format: &Format, field: &Field, number: i64) -> Option<String> {
    if field.kind == "dev_t" {
        // MKDEV of include/linux/kdev_t.h.
        return Some(format!("{},{}", number as u32 >> 20, number & 0xf_ffff));
    }
    let (.., name) = NAMED.iter().find(|(system, name, _)| *system == format.system && *name == field.name)?;
    name(format, number)
}

fn call(format: &Format, number: i64) -> Option<String> {
    format.calls.known(Call { number, abi: Abi::Native }).map(str::to_owned)
}

/// Names negative results; others are sizes, descriptors and other numbers.
fn error(number: i64) -> Option<String> {
    (-4095..0).contains(&number).then(|| error_name(number.unsigned_abs() as u32))
}

fn signal(number: i64) -> Option<String> {
    let name = SIGNALS.get(usize::try_from(number).ok()?).filter(|_| number > 0)?;
    Some(format!("SIG{name}"))
}

/// The values of all signals (include/uapi/asm-generic/siginfo.h); those above 0 depend on the signal.
fn origin_of_signal(number: i64) -> Option<String> {
    let name = match number {
        0 => "SI_USER",
        0x80 => "SI_KERNEL",
        -1 => "SI_QUEUE",
        -2 => "SI_TIMER",
        -3 => "SI_MESGQ",
        -4 => "SI_ASYNCIO",
        -5 => "SI_SIGIO",
        -6 => "SI_TKILL",
        _ => return None,
    };
    Some(name.to_owned())
}

/// The types that all configurations have, as in /proc/pagetypeinfo.
fn mobility(number: i64) -> Option<String> {
    let names = ["Unmovable", "Movable", "Reclaimable", "HighAtomic"];
    names.get(usize::try_from(number).ok()?).map(|name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::super::calls::CallTables;
    use super::*;

    fn format(system: &str, kind: &str, field: &str) -> Format {
        let text = format!(
            "name: any\nID: 1\nformat:\n\tfield:{kind} {field};\toffset:8;\tsize:8;\tsigned:1;\n\nprint fmt: \"%ld\", \
             REC->{field}\n"
        );
        let format = Format::parse(system, &text, false).expect("a format");
        Format { calls: CallTables::of("x86_64"), ..format }
    }

    #[test]
    fn names_have_their_numbers() {
        for (system, field, name, want) in [
            ("raw_syscalls", "id", "openat", Some(257)),
            ("syscalls", "ret", "ENOENT", Some(-2)),
            ("signal", "sig", "SIGKILL", Some(9)),
            ("signal", "sig", "9", None),
            ("app", "id", "openat", None),
        ] {
            assert_eq!(format(system, "long", field).number_of(field, name), want, "{name}");
        }
    }

    #[test]
    fn fields_that_are_printed_as_numbers_have_names() {
        for (system, kind, field, number, want) in [
            ("raw_syscalls", "long", "id", 257, Some("openat")),
            ("raw_syscalls", "long", "id", -1, None),
            ("syscalls", "int", "__syscall_nr", 0, Some("read")),
            ("syscalls", "long", "ret", -2, Some("ENOENT")),
            ("syscalls", "long", "ret", 3, None),
            ("block", "int", "error", -5, Some("EIO")),
            ("block", "dev_t", "dev", 8 << 20 | 16, Some("8,16")),
            ("signal", "int", "sig", 9, Some("SIGKILL")),
            ("signal", "int", "sig", 0, None),
            ("signal", "int", "sig", 40, None),
            ("signal", "int", "code", -6, Some("SI_TKILL")),
            ("kmem", "int", "migratetype", 1, Some("Movable")),
            ("kmem", "int", "migratetype", -1, None),
            ("app", "long", "id", 257, None),
        ] {
            assert_eq!(format(system, kind, field).words(field, number).as_deref(), want, "{system} {field} {number}");
        }
    }
}
