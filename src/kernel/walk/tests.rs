//! Tests of the program in this machine's kernel, and of its tables' memory limit.

use super::program::OBJECT;
use super::*;
use crate::kernel::bpf::calls::or_skipped;
use crate::kernel::bpf::object::LoadedObject;

#[test]
fn what_the_verifier_refuses_is_said_in_its_words() {
    if or_skipped(Walker::load(0)).is_none() {
        return;
    }
    let code = [0x95];
    let refused = calls::load(&calls::BpfCode {
        runs: calls::ProgramType::Sample,
        instructions: &code,
        licence: c"GPL",
        types: None,
        caller: None,
    });
    let error = refused.expect_err("it returns what was never set");
    assert!(error.log.contains("R0 !read_ok"), "{error:?}");
    for damaged in [&OBJECT[..0], &OBJECT[..OBJECT.len() / 2], &OBJECT[..100]] {
        let error = LoadedObject::load(damaged).expect_err("cut");
        assert!(error.log.starts_with("the program's object has no"), "{error:?}");
    }
}

#[test]
fn rows_and_mappings_have_room_up_to_the_limit() {
    let Some(mut walker) = or_skipped(Walker::load(8 * CHUNK_BYTES / 3 + 4)) else { return };
    let rows = |n: u64| (0..n).map(|i| (i * 4) | (5 << 32)).collect::<Vec<u64>>();
    let one = walker.add(&rows(100)).expect("room");
    assert_eq!(one, [RowRange { chunk: 0, first: 0, n: 100, pc: 0 }]);
    // Rows that do not fit go to the next chunk, in one range if possible.
    let big = walker.add(&rows(ROWS as u64 - 10)).expect("room");
    assert_eq!(big, [RowRange { chunk: 1, first: 0, n: ROWS as u32 - 10, pc: 0 }]);
    let rest = ROWS as u64 - 128;
    let left = walker.add(&rows(rest)).expect("room");
    assert_eq!(left, [RowRange { chunk: 0, first: 128, n: rest as u32, pc: 0 }]);
    assert_eq!(walker.add(&rows(1)), Err(NoRoom::Limit));
    walker.release(&big);
    assert_eq!(walker.add(&rows(1)), Err(NoRoom::Limit), "a program may still read it");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(walker.add(&rows(1)).map(|spans| spans[0].chunk), Ok(1));
    assert_eq!(walker.held().0 / CHUNK_BYTES, 2);
    let mapping = |start| Mapping { start, end: start + 0x1000, bias: start, span: Some(one[0]), mark: None };
    walker.set_process(7, &[mapping(0x1000), mapping(0x5000)]).expect("room");
    walker.set_process(7, &[mapping(0x1000)]).expect("room");
    walker.forget_process(7);
    walker.forget_process(7);
    walker.set_process(8, &vec![mapping(0x1000); MAX_MAPPINGS + 5]).expect("no more than that");
}
