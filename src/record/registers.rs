//! The registers in samples, by their positions in a mask (arch/*/include/uapi/asm/perf_regs.h), with perf's names.

/// Returns the name of a register's position, on AArch64 or on x86.
pub(crate) fn name(place: u32, arm: bool) -> String {
    const X86: [&str; 24] = [
        "AX", "BX", "CX", "DX", "SI", "DI", "BP", "SP", "IP", "FLAGS", "CS", "SS", "DS", "ES", "FS", "GS", "R8", "R9",
        "R10", "R11", "R12", "R13", "R14", "R15",
    ];
    match (arm, place) {
        (true, 0..=29) => format!("x{place}"),
        (true, 30) => "lr".to_owned(),
        (true, 31) => "sp".to_owned(),
        (true, 32) => "pc".to_owned(),
        (false, place) if place < 24 => X86[place as usize].to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_have_their_machines_names() {
        assert_eq!([0, 8, 9, 23, 40].map(|place| name(place, false)), ["AX", "IP", "FLAGS", "R15", "unknown"]);
        assert_eq!([0, 29, 30, 32].map(|place| name(place, true)), ["x0", "x29", "lr", "pc"]);
    }
}
