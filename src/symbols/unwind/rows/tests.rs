//! Compares rows with gimli's evaluation of the same tables.

use std::path::PathBuf;

use gimli::{
    CfaRule, CieOrFde, Encoding, Evaluation, EvaluationResult, Expression, Location, RegisterRule, UnwindContext,
    UnwindSection, UnwindTableRow, Value,
};
use object::{Architecture, Object};
use proptest::prelude::*;

use super::*;
use crate::kernel::walk::rule::{Caller, Cfa, Saved};
use crate::symbols::elf::section::Section;
use crate::symbols::trust::find_file::tests::{SPIN, map};

/// The value of memory and registers in these tests depends only on the address.
fn word(address: u64) -> u64 {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) & 0x7fff_ffff_fff8
}

fn register(number: u16) -> u64 {
    word(0x1000 + u64::from(number))
}

/// The caller's CFA, return address and frame register, each as address or value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Found {
    cfa: u64,
    caller: u64,
    fp: u64,
}

fn by_rule(rule: Rule, at: u64, machine: Registers) -> Option<Found> {
    let (sp, fp) = (register(machine.sp.0), register(machine.fp.0));
    let plus = |base: u64, n: i64| base.wrapping_add_signed(n);
    let (cfa, saved, caller) = match rule {
        Rule::Stub(from) => {
            let pushed = at % 16 >= from.into();
            (sp + if pushed { 16 } else { 8 }, Saved::Same, Caller::OnTop)
        }
        Rule::Frame { cfa, saved, caller } => {
            let cfa = match cfa {
                Cfa::Sp(n) => plus(sp, n),
                Cfa::Fp(n) => plus(fp, n),
                Cfa::AtSp(n, m) => plus(word(plus(sp, n)), m),
                Cfa::AtFp(n, m) => plus(word(plus(fp, n)), m),
                Cfa::Register(other, n) => plus(register(other.into()), n),
            };
            (cfa, saved, caller)
        }
        _ => return None,
    };
    let fp = match saved {
        Saved::Same => fp,
        Saved::At(n) => word(plus(cfa, n)),
        Saved::AtItself => word(fp),
    };
    let caller = match (caller, saved) {
        (Caller::OnTop, _) => word(plus(cfa, -8)),
        (Caller::In(other), _) => register(other.into()),
        (Caller::Link, _) => register(30),
        (Caller::Alone(n), _) => word(plus(cfa, n)),
        (Caller::Beside, Saved::At(n)) => word(plus(cfa, n + 8)),
        (Caller::Beside, _) => return None,
    };
    Some(Found { cfa, caller, fp })
}

fn evaluated(expression: Expression<Slice<'_>>, encoding: Encoding, at: u64, machine: Registers) -> Option<u64> {
    let mut evaluation: Evaluation<Slice<'_>> = expression.evaluation(encoding);
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresRegister { register: own, .. } => {
                let value = if own == machine.ra { at } else { register(own.0) };
                evaluation.resume_with_register(Value::Generic(value)).ok()?
            }
            EvaluationResult::RequiresMemory { address, .. } => {
                evaluation.resume_with_memory(Value::Generic(word(address))).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.result().first()?.location {
        Location::Address { address } => Some(address),
        _ => None,
    }
}

fn by_gimli<'a>(
    row: &UnwindTableRow<usize>,
    frames: &impl UnwindSection<Slice<'a>>,
    encoding: Encoding,
    at: u64,
    machine: Registers,
) -> Option<Found> {
    let cfa = match row.cfa() {
        CfaRule::RegisterAndOffset { register: base, offset } => register(base.0).wrapping_add_signed(*offset),
        CfaRule::Expression(own) => evaluated(own.get(frames).ok()?, encoding, at, machine)?,
    };
    let value = |of: Register| match row.register(of) {
        Some(RegisterRule::Offset(n)) => Some(word(cfa.wrapping_add_signed(n))),
        Some(RegisterRule::Register(other)) => Some(register(other.0)),
        Some(RegisterRule::Expression(own)) => Some(word(evaluated(own.get(frames).ok()?, encoding, at, machine)?)),
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(register(of.0)),
        _ => None,
    };
    Some(Found { cfa, caller: value(machine.ra)?, fp: value(machine.fp)? })
}

/// Returns covered and total bytes of code. Every `stride`th function is compared at both ends of its rows.
fn compared(bytes: &Bytes, stride: usize) -> Option<(u64, u64, usize)> {
    let file = elf::parse(bytes).expect("elf");
    let table = of(bytes).expect("rows");
    let machine = if file.architecture() == Architecture::Aarch64 { AARCH64 } else { X86_64 };
    let frames = Section::of(&file, ".eh_frame")?.eh_frames(bytes, Shape::of(&file));
    let (bases, mut context) = (ElfProgram::of(bytes).expect("elf").bases(), UnwindContext::new());
    let (mut covered, mut all, mut looked) = (0, 0, 0);
    let mut entries = frames.entries(&bases);
    let mut at = 0;
    while let Some(entry) = entries.next().expect("entry") {
        let CieOrFde::Fde(entry) = entry else { continue };
        at += 1;
        if at % stride != 0 {
            continue;
        }
        let entry = entry.parse(|frames, bases, at| frames.cie_from_offset(bases, at)).expect("entry");
        let mut rows = entry.rows(&frames, &bases, &mut context).expect("rows");
        while let Some(row) = rows.next_row().expect("row") {
            let (start, end) = (row.start_address(), row.end_address());
            all += end - start;
            let rule = table.rule(start);
            assert_eq!(rule, table.rule(end - 1), "{start:#x}..{end:#x}: {row:?}");
            assert_ne!(rule, Rule::Gap, "{start:#x}..{end:#x}: {row:?}");
            covered += if rule == Rule::Unsupported { 0 } else { end - start };
            for at in [start, end - 1] {
                let Some(ours) = by_rule(rule, at, machine) else { continue };
                let theirs = by_gimli(row, &frames, entry.cie().encoding(), at, machine);
                // A frame register saved outside of memory counts as unchanged.
                let same = theirs.is_none_or(|theirs| Found { fp: ours.fp, ..theirs } == ours);
                let fp = theirs.is_none_or(|theirs| theirs.fp == ours.fp);
                let told = matches!(row.register(machine.fp), None | Some(RegisterRule::Offset(_)));
                assert!(same && (fp || !told), "{at:#x}: {ours:?}, {theirs:?} of {row:?}");
                looked += 1;
            }
        }
    }
    Some((covered, all, looked))
}

/// Files of the distribution, if they exist.
fn files() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let mapped = maps.lines().filter(|line| line.contains(" r-xp ")).filter_map(|line| line.split_whitespace().nth(5));
    let mut all: Vec<PathBuf> = mapped.filter(|path| path.starts_with('/')).map(PathBuf::from).collect();
    let libraries =
        ["libcrypto.so.3", "libstdc++.so.6", "libz.so.1", "libpython3.11.so.1.0", "libgcc_s.so.1", "libc.so.6"];
    // The last directory is that of a cross compiler for AArch64.
    let folders = ["/lib", "/usr/lib", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/aarch64-linux-gnu/lib"];
    all.extend(libraries.iter().flat_map(|name| folders.map(|folder| PathBuf::from(folder).join(name))));
    all.extend(["/bin/bash", "/usr/bin/perf", "/usr/bin/perl", "/usr/bin/git", "/usr/bin/gdb"].map(PathBuf::from));
    all.retain(|path| path.exists());
    all.sort();
    all.dedup();
    all
}

#[test]
fn rows_lead_where_the_tables_lead() {
    let mut looked_at = 0;
    for path in files() {
        let bytes = map(&path);
        let stride = (bytes.len() >> 20).clamp(1, 40);
        let Some((covered, all, looked)) = compared(&bytes, stride) else { continue };
        assert!(looked > 0, "{path:?}");
        // Only assembly has special rules; cipher libraries have the most.
        assert!(covered * 1000 >= all * 995, "{path:?}: {covered} of {all} bytes");
        looked_at += looked;
    }
    assert!(looked_at > 10_000, "{looked_at}");
}

#[test]
fn usual_functions_have_the_rows_that_gimli_finds() {
    let mut functions = 0;
    for path in files() {
        let bytes = map(&path);
        let program = ElfProgram::of(&bytes).expect("elf");
        let Some(section) = program.section(".eh_frame") else { continue };
        let (frames, bases) = (section.eh_frames(&bytes, program.shape), program.bases());
        let machine = if program.machine == Machine::Aarch64 { AARCH64 } else { X86_64 };
        let reader = frames::TableReader { bases: &bases, machine, base: 0 };
        let (mut ours, mut theirs) = (super::Found::default(), super::Found::default());
        reader.read_eh_frame(&frames, &mut ours).expect("rows");
        reader.read(&frames, &mut theirs).expect("rows");
        assert_eq!(ours.functions.len(), theirs.functions.len(), "{path:?}");
        for (ours_of, theirs_of) in ours.functions.iter().zip(&theirs.functions) {
            assert_eq!((ours_of.start, ours_of.end), (theirs_of.start, theirs_of.end));
            let mut expected = theirs.rows[theirs_of.rows.clone()].to_vec();
            expected.dedup_by_key(|row| *row >> 32);
            let mut found = ours.rows[ours_of.rows.clone()].to_vec();
            found.dedup_by_key(|row| *row >> 32);
            assert_eq!(found, expected, "{path:?}: {:#x}", ours_of.start);
        }
        functions += ours.functions.len();
        let mut starts = Vec::new();
        let all: Result<(), ()> = frames::each_of_eh_frame(&frames, &bases, machine, |start, len| {
            starts.push((start, start.wrapping_add(len)));
            Ok(())
        });
        assert!(all.is_ok() && starts.len() >= ours.functions.len(), "{path:?}");
    }
    assert!(functions > 10_000, "{functions}");
}

#[test]
fn rows_depend_on_the_recognized_content_only() {
    let mut left_out = 0;
    for path in files() {
        let bytes = map(&path);
        let Some(contents) = contents(&bytes).filter(|contents| !contents.bare.is_empty()) else { continue };
        let offset = |part: &[u8]| part.as_ptr().addr() - bytes.as_ptr().addr();
        let mut without = bytes.to_vec();
        let program = ElfProgram::of(&bytes).expect("elf");
        for (_, code) in program.code() {
            without[offset(code)..][..code.len()].fill(0xcc);
            left_out += code.len();
        }
        for part in &contents.bare {
            without[offset(part)..][..part.len()].copy_from_slice(part);
            left_out = left_out.saturating_sub(part.len());
        }
        let without = Bytes::from(without);
        assert_eq!(of(&without).expect("rows"), of(&bytes).expect("rows"), "{path:?}");
        assert_eq!(super::contents(&without).as_ref(), Some(&contents), "{path:?}");
    }
    assert!(left_out > 1 << 20, "{left_out}");
}

#[test]
fn a_table_begins_where_code_does_and_ends_in_a_gap() {
    let table = of(&map(SPIN)).expect("rows");
    assert_eq!(table.base, 0x40_0000);
    assert!(table.rows.is_sorted_by_key(|row| *row as u32));
    assert_eq!(table.rows.last().map(|row| row >> 32), Some(0));
    assert!(table.rows.windows(2).all(|pair| pair[0] >> 32 != pair[1] >> 32));
    // The program's entry point does not have a caller.
    let bytes = map(SPIN);
    let entry = elf::parse(&bytes).expect("elf").entry();
    assert_eq!(table.rule(entry), Rule::End);
    let text = Bytes::from(b"#!/bin/sh\n".to_vec());
    assert!(matches!(of(&text), Err(NoRows::NotElf(_))));
}

#[test]
fn functions_at_one_place_count_once_and_what_is_between_them_is_a_gap() {
    let frame = |n| Rule::Frame { cfa: Cfa::Sp(n), saved: Saved::Same, caller: Caller::OnTop };
    let rows =
        [frame(8).from(0x10), frame(16).from(0x14), frame(24).from(0x18), frame(16).from(0x30), frame(8).from(0x80)];
    let function = |start, end, rows| Function { start, end, rows };
    let all = [
        function(0x10, 0x20, 0..2),
        function(0x18, 0x30, 2..3),
        function(0x2f, 0x50, 3..4),
        function(0x80, 0x90, 4..5),
    ];
    // Up to 15 bytes are padding; the second function overlaps the first.
    let expected = [frame(8).from(0x10), frame(16).from(0x14), Rule::Gap.from(0x50), frame(8).from(0x80)];
    let found = merged(&all, &rows);
    assert_eq!(found[..4], expected);
    assert_eq!(found[4..], [Rule::Gap.from(0x90)]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..crate::damage::kept() })]
    #[test]
    fn hostile_tables_are_left_out(places in prop::collection::vec((any::<u32>(), any::<u8>()), 1..40)) {
        let bytes = map(SPIN);
        let range = elf::parse(&bytes).ok().and_then(|file| {
            use object::ObjectSection;
            file.section_by_name(".eh_frame").and_then(|section| section.file_range())
        });
        let (from, size) = range.expect("tables");
        let mut broken = bytes.to_vec();
        for (at, byte) in places {
            broken[(from + u64::from(at) % size) as usize] = byte;
        }
        if let Ok(table) = of(&broken.into()) {
            prop_assert!(table.rows.len() as u64 <= 2 * size);
        }
    }
}
