//! Tests with walks and samples in the order of a ring.

use super::super::pipeline::RecordPipeline;
use super::*;
use crate::event::Interpreters;
use crate::kernel::attr::sample::{CALLCHAIN, CPU, IDENTIFIER, IP, PERIOD, TID, TIME};
use crate::kernel::wakeup::WakeSignal;
use crate::kernel::walk::Program;
use crate::kernel::walk::runtime::WalkedFunction;
use crate::record::interpreted::{Language, at_line};
use crate::record::kinds::{WholeRecords, tests};
use crate::record::sample::CONTEXT_KERNEL;
use crate::symbols::languages::line_table::FunctionLines;
use crate::symbols::languages::names::KnownRuntimes;
use crate::symbols::spaces::process_events;

const LAYOUT: Layout = Layout {
    sample_type: IDENTIFIER | IP | TID | TIME | CPU | PERIOD | CALLCHAIN,
    read_format: 0,
    id_all: true,
    regs_user: 0,
    branches: 0,
};
const SAMPLE: u64 = 70;
const WRITER: u64 = 71;
const NONE: &[u64] = &[];

fn record(kind: u32, misc: u16, words: &[u64]) -> Vec<u8> {
    tests::record(kind, misc, &tests::bytes(words))
}

fn task(pid: i32) -> u64 {
    pid as u64 | (pid as u64 + 1) << 32
}

fn sampled(mode: u16, ip: u64, pid: i32, chain: &[u64]) -> Vec<u8> {
    let head = [SAMPLE, ip, task(pid), 5, 0, 1, chain.len() as u64];
    record(types::SAMPLE, mode, &[&head, chain].concat())
}

fn outer(pid: i32) -> u32 {
    pid as u32 + 1000
}

fn walked(pid: i32, lacks: u8, frames: &[u64]) -> Vec<u8> {
    ended(pid, WalkEnd::Complete, lacks, frames)
}

fn ended(pid: i32, why: WalkEnd, lacks: u8, frames: &[u64]) -> Vec<u8> {
    let mut frames = frames.to_vec();
    frames.extend((lacks & lack::PROCESS != 0).then_some(u64::from(outer(pid))));
    let size = 4 + 8 * frames.len() as u64;
    let head = [WRITER, task(pid), size | (u64::from(lacks) << 8 | why as u64) << 32];
    record(types::SAMPLE, 0, &[&head, &frames[..]].concat())
}

struct Joined {
    walks: WalkJoiner,
    news: crate::symbols::spaces::process_events::ProcessEvents,
}

fn start() -> Joined {
    let wakeup = std::sync::Arc::new(WakeSignal::new().expect("a descriptor"));
    let (sender, news) = process_events::channel(&wakeup);
    let mut walks = WalkJoiner::new(sender);
    walks.writers.insert(WRITER);
    let chain = ChainPlace::of(LAYOUT.sample_type).expect("known");
    walks.samples.insert(SAMPLE, Sampled { chain, is_traced: false });
    Joined { walks, news }
}

impl WalkJoiner {
    fn passed(&mut self, cpu: u32, bytes: &[u8]) -> Vec<u8> {
        RecordPipeline { walks: Some(self), ..RecordPipeline::default() }.passed(cpu, bytes)
    }
}

impl Joined {
    fn read(&mut self, cpu: u32, pieces: &[Vec<u8>]) -> Vec<Vec<u64>> {
        let out = self.walks.passed(cpu, &pieces.concat());
        let mut all = WholeRecords { rest: &out };
        let samples = all.by_ref().filter(|(header, _)| header.kind == types::SAMPLE);
        let chain =
            |(header, record): (Header, &[u8])| LAYOUT.sample(header, &record[HEADER..]).map(|s| s.chain().collect());
        let chains = samples.map(chain).collect::<Result<_, _>>().expect("whole");
        assert!(all.rest.is_empty());
        chains
    }
}

#[test]
fn a_walk_completes_the_sample_behind_it() {
    let mut joined = start();
    let kernel = [CONTEXT_KERNEL, 0xffff_0001];
    let chains = joined.read(
        0,
        &[
            walked(5, 0, &[0x10, 0x20]),
            sampled(misc::USER, 0x10, 5, &[]),
            walked(5, 0, &[0x30]),
            sampled(misc::KERNEL, 0xffff_0001, 5, &kernel),
            sampled(misc::KERNEL, 0xffff_0001, 5, &kernel),
        ],
    );
    let whole = [kernel.as_slice(), &[CONTEXT_USER, 0x30]].concat();
    assert_eq!(chains, [vec![CONTEXT_USER, 0x10, 0x20], whole, kernel.to_vec()]);
    assert_eq!(joined.walks.ends.of(WalkEnd::Complete), 2);
}

#[test]
fn the_stack_of_a_wait_is_kept_by_its_id() {
    const ID: u64 = 99;
    let mut joined = start();
    let kernel = 0xffff_0001;
    let wait = ended(5, WalkEnd::Complete, AT_TRACEPOINT | OF_WAIT, &[0x10, 0x20, kernel, 1, ID]);
    let chains = joined.read(0, &[wait.clone(), sampled(misc::USER, 0x10, 5, &[])]);
    assert_eq!(chains, [NONE], "it is not the sample's");
    let stack = joined.walks.waits.get(ID).expect("kept");
    let chain = tests::bytes(&[CONTEXT_KERNEL, kernel, CONTEXT_USER, 0x10, 0x20]);
    assert_eq!((&*stack.chain, stack.ip, joined.walks.ends.all()), (&*chain, kernel, 0));
    // Nothing panics on a cut record.
    for cut in HEADER..wait.len() {
        let mut record = wait[..cut / 8 * 8].to_vec();
        let size = record.len() as u16;
        record[6..8].copy_from_slice(&size.to_le_bytes());
        joined.walks.passed(0, &record);
    }
}

#[test]
fn a_method_of_php_has_an_address_a_name_and_a_mapping() {
    const ID: u64 = 5 << 4 | Language::Php as u64;
    let mut joined = start();
    let mut texts = [0; 216];
    for (at, text) in [(0, &b"total"[..]), (48, b"Cart"), (96, b"/srv/shop.php")] {
        texts[at..at + text.len()].copy_from_slice(text);
    }
    let (code, first_line) = (0x1000, 9 << 32 | 3);
    let mut words = vec![4 << 56 | 0x10, 3 << 56 | ID, 2 << 56 | code, first_line, 4 << 32 | 5, 13];
    words.extend(texts.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
    words.extend([1 << 56 | code, first_line, 0x20]);
    let walk = ended(5, WalkEnd::Complete, MIXED, &words);
    let out = joined.walks.passed(0, &[walk, sampled(misc::USER, 0x10, 5, &[])].concat());
    let records = || WholeRecords { rest: &out };
    let all_of = |kind| records().filter(move |(header, _)| header.kind == kind).map(|(_, record)| record);
    let sample = records().find(|(header, _)| header.kind == types::SAMPLE).expect("it is there");
    let chain: Vec<u64> = LAYOUT.sample(sample.0, &sample.1[HEADER..]).expect("whole").chain().collect();
    assert_eq!(chain, [CONTEXT_USER, Language::Php.address(2), 0x20]);
    let has = |kind, text: &[u8]| all_of(kind).any(|record| memchr::memmem::find(record, text).is_some());
    assert!(has(types::KSYMBOL, b"Cart::total (shop.php)\0") && has(types::MMAP2, b"[php]\0"));
    let figures = joined.walks.interpreted.figures();
    assert_eq!((figures.frames, figures.unnamed, figures.functions), (1, 0, 1));
    assert_eq!(figures.languages().collect::<Vec<_>>(), [Language::Php]);
}

#[test]
fn a_frame_has_the_address_of_its_line() {
    const ID: u64 = 5 << 4 | Language::Python as u64;
    let mut texts = [0; 216];
    for (at, text) in [(0, &b"spin"[..]), (96, b"app.py")] {
        texts[at..at + text.len()].copy_from_slice(text);
    }
    let mut joined = start();
    let names = |code: u64| {
        // The lengths of strings of bytes.
        let string = |len: u64| (1 << 2 | 1 << 5) << 32 | len;
        let mut words = vec![2 << 56 | code, 9 << 32 | 3, string(4), string(6)];
        words.extend(texts.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
        words
    };
    let frame = |code: u64, at: u64| [1 << 56 | code, 9 << 32 | at];
    for (code, file) in [(0x1000, "/srv/app.py"), (0x2000, "/opt/app.py")] {
        let function = WalkedFunction { code, cookie: 9, at: 0 };
        let lines = FunctionLines::made(file, 3..=9, &[(0, 3), (0x20, 5)]);
        joined.walks.interpreted.learn_lines(ID as u32, function, lines);
    }
    let walk = |code: u64, frames: &[[u64; 2]]| {
        let words = [&[4 << 56 | 0x10, 3 << 56 | ID][..], &names(code)[..], frames.as_flattened()].concat();
        [ended(5, WalkEnd::Complete, MIXED, &words), sampled(misc::USER, 0x10, 5, &[])].concat()
    };
    let out = joined.walks.passed(0, &walk(0x1000, &[frame(0x1000, 0x20), frame(0x1000, 0x21), frame(0x3000, 0x20)]));
    let records = || WholeRecords { rest: &out };
    let sample = records().find(|(header, _)| header.kind == types::SAMPLE).expect("it is there");
    let chain: Vec<u64> = LAYOUT.sample(sample.0, &sample.1[HEADER..]).expect("whole").chain().collect();
    let address = Language::Python.address(2);
    // An odd byte is not an instruction, and the last function has no name.
    assert_eq!(chain, [CONTEXT_USER, at_line(address, 3, 5), address, Language::Python.address(0)]);
    let has = |text: &[u8]| records().filter(|(_, record)| memchr::memmem::find(record, text).is_some()).count();
    assert_eq!((has(b"spin (app.py)\0"), has(b"spin (app.py)\0/srv/app.py\0")), (2, 1));
    // A function of the same name in another folder has no line: the text would be that of the first one.
    assert_eq!(joined.read(0, &[walk(0x2000, &[frame(0x2000, 0x20)])]), [[CONTEXT_USER, address]]);
    assert_eq!(joined.read(0, &[walk(0x1000, &[frame(0x1000, 0)])]), [[CONTEXT_USER, at_line(address, 3, 3)]]);
}

#[test]
fn labels_have_the_last_part_of_a_file() {
    let label = |file: &str| interpreted::label(&(Language::Ruby, "sub".to_owned(), file.to_owned(), 3));
    for (file, text) in [
        ("/srv/app.rb", "sub (app.rb)"),
        ("", "sub"),
        ("(eval)", "sub (eval)"),
        ("(eval at /srv/app.rb:3)", "sub (eval at app.rb:3)"),
        ("(eval at app.rb:3)", "sub (eval at app.rb:3)"),
        ("…rv/app.rb:3)", "sub (app.rb:3)"),
        ("<internal:/lib/set.rb>", "sub (set.rb)"),
        ("<internal:prelude>", "sub (<internal:prelude>)"),
        ("/srv/app (copy)", "sub (app (copy))"),
        ("(", "sub (()"),
        (")", "sub ())"),
    ] {
        assert_eq!(label(file), text, "{file}");
    }
}

#[test]
fn frames_that_a_whole_stack_has_left_belong_to_its_last_run() {
    const ID: u64 = 5 << 4 | Language::Ruby as u64;
    let words = [4 << 56 | 0x10, 3 << 56 | ID, 1 << 56 | 0x1000, 0, 0x20, 0x30, 1 << 56 | 0x2000, 0];
    let frame = Language::Ruby.address(0);
    for (why, chain) in [
        (WalkEnd::Complete, &[frame, frame, 0x20, 0x30][..]),
        (WalkEnd::LastFrame, &[frame, frame, 0x20, 0x30]),
        // Outer frames of a cut stack may be those of callers of C code; a mark for missing callers ends it.
        (WalkEnd::Full, &[frame, 0x20, 0x30, frame, 0]),
    ] {
        let walk = ended(5, why, MIXED, &words);
        let chains = start().read(0, &[walk, sampled(misc::USER, 0x10, 5, &[])]);
        assert_eq!(chains, [[&[CONTEXT_USER][..], chain].concat()], "{why:?}");
    }
}

#[test]
fn the_frames_of_a_language_can_be_chosen_between_walks() {
    const ID: u64 = 5 << 4 | Language::Python as u64;
    let mut joined = start();
    joined.walks.interpreted = InterpretedFrames::new(Interpreters::Auto, Program::staged(), KnownRuntimes::default());
    // An extension, the interpreter, a function of the language, and what called the interpreter.
    let words = [3 << 56 | ID, 0x8, 4 << 56 | 0x10, 1 << 56 | 0x1000, 0, 4 << 56 | 0x18, 0x20];
    let walk = ended(5, WalkEnd::Complete, MIXED, &words);
    let frame = Language::Python.address(0);
    for (shown, chain) in [
        (Interpreters::Auto, &[0x8, frame, 0x18, 0x20][..]),
        (Interpreters::Both, &[0x8, 0x10, frame, 0x18, 0x20]),
        (Interpreters::Only, &[frame]),
        (Interpreters::Off, &[0x8, 0x10, 0x18, 0x20]),
        (Interpreters::Auto, &[0x8, frame, 0x18, 0x20]),
    ] {
        assert!(joined.walks.interpreted.show(shown));
        let chains = joined.read(0, &[walk.clone(), sampled(misc::USER, 0x8, 5, &[])]);
        assert_eq!(chains, [[&[CONTEXT_USER][..], chain].concat()], "{shown:?}");
        assert_eq!(joined.walks.interpreted.figures().shown, shown);
    }
    let off = InterpretedFrames::new(Interpreters::Off, Program::staged(), KnownRuntimes::default());
    joined.walks.interpreted = off;
    assert!(!joined.walks.interpreted.show(Interpreters::Auto) && joined.walks.interpreted.show(Interpreters::Off));
}

/// As in the function of exceptions, which no loop called.
#[test]
fn frames_behind_a_whole_stack_without_a_run_belong_to_the_interpreter() {
    const ID: u64 = 5 << 4 | Language::Ruby as u64;
    let words = [3 << 56 | ID, 4 << 56 | 0x10, 4 << 56 | 0x18, 0x20, 0x30, 1 << 56 | 0x1000, 0, 1 << 56 | 0x2000, 0];
    let frame = Language::Ruby.address(0);
    for (why, chain) in
        [(WalkEnd::Complete, &[frame, frame, 0x20, 0x30][..]), (WalkEnd::Full, &[0x20, 0x30, frame, frame, 0])]
    {
        let walk = ended(5, why, MIXED, &words);
        let chains = start().read(0, &[walk, sampled(misc::USER, 0x10, 5, &[])]);
        assert_eq!(chains, [[&[CONTEXT_USER][..], chain].concat()], "{why:?}");
    }
}

#[test]
fn a_broken_walk_says_that_callers_are_missing() {
    let mut joined = start();
    let mut chain = |why, lacks, frames: &[u64]| {
        let chains = joined.read(0, &[ended(5, why, lacks, frames), sampled(misc::USER, 0x10, 5, &[])]);
        chains.concat()[1..].to_vec()
    };
    assert_eq!(chain(WalkEnd::NoFrame, 0, &[0x10, 0x20]), [0x10, 0x20, NO_CODE]);
    assert_eq!(chain(WalkEnd::LastFrame, 0, &[0x10]), [0x10]);
    assert_eq!(chain(WalkEnd::Full, 0, &[0x10, 0x20]), [0x10, 0x20, NO_CODE]);
    // Without tables, a chain without frame pointers ends at the sampled address; one with frame pointers continues.
    assert_eq!(chain(WalkEnd::LastFrame, lack::PROCESS, &[0x10]), [0x10, NO_CODE]);
    assert_eq!(chain(WalkEnd::LastFrame, lack::PROCESS, &[0x10, 0x20]), [0x10, 0x20]);
    // So does a leaf in a file without a table, or outside all known mappings.
    assert_eq!(chain(WalkEnd::LastFrame, lack::ROW, &[0x10]), [0x10, NO_CODE]);
    assert_eq!(chain(WalkEnd::LastFrame, lack::MAPPING, &[0x10]), [0x10, NO_CODE]);
}

#[test]
fn only_tables_prove_that_a_stack_of_32_bits_is_whole() {
    let mut joined = start();
    for (why, lacks, is_whole) in [
        (WalkEnd::Complete, 0, true),
        (WalkEnd::LastFrame, 0, false),
        (WalkEnd::LastFrame, lack::ROW, false),
        (WalkEnd::LastFrame, lack::PROCESS, false),
    ] {
        let walk = ended(5, why, NARROW | lacks, &[0x10, 0x20, 0x30]);
        let chains = joined.read(0, &[walk, sampled(misc::USER, 0x10, 5, &[])]).concat();
        assert_eq!(chains.last() != Some(&NO_CODE), is_whole, "{why:?} {lacks}");
    }
    assert_eq!((joined.walks.ends.of(WalkEnd::Complete), joined.walks.ends.of(WalkEnd::NoFrame)), (1, 3));
}

#[test]
fn a_walk_waits_for_its_sample_on_its_own_cpu() {
    let mut joined = start();
    assert!(joined.read(0, &[walked(5, 0, &[0x10])]).is_empty());
    assert_eq!(joined.read(1, &[sampled(misc::USER, 0x10, 5, &[])]), [NONE], "another CPU's");
    let side = record(types::COMM, 0, &[task(9), 0]);
    assert_eq!(joined.read(0, &[side, sampled(misc::USER, 0x10, 5, &[])]), [[CONTEXT_USER, 0x10]]);
    let lost = record(types::LOST, 0, &[SAMPLE, 1]);
    assert_eq!(joined.read(0, &[walked(5, 0, &[0x10]), lost, sampled(misc::USER, 0x10, 5, &[])]), [NONE]);
}

#[test]
fn what_is_of_another_sample_is_not_taken() {
    let mut joined = start();
    for (frames, walker) in [(vec![0x11], 5), (vec![0x10], 6), (vec![], 5)] {
        let pieces = [walked(walker, 0, &frames), sampled(misc::USER, 0x10, 5, &[])];
        assert_eq!(joined.read(0, &pieces), [NONE], "{frames:x?} of {walker}");
        assert_eq!(joined.read(0, &pieces[1..]), [NONE], "nor later");
    }
    // Records that are truncated, or claim a larger size.
    let whole = [walked(5, 0, &[0x10]), sampled(misc::USER, 0x10, 5, &[0x77])].concat();
    for odd in crate::damage::each_byte(&whole) {
        joined.walks.passed(0, &odd);
    }
}

#[test]
fn tables_are_asked_for_once_a_round() {
    let mut joined = start();
    let lacks = ended(5, WalkEnd::LastFrame, lack::PROCESS, &[0x10]);
    let chains = joined.read(1, &[lacks.clone(), sampled(misc::USER, 0x10, 5, &[])]);
    assert_eq!(chains, [[CONTEXT_USER, 0x10, NO_CODE]], "its number is not a frame");
    joined.news.receiver.try_iter().for_each(drop);
    joined.read(0, &[lacks.clone(), lacks.clone(), walked(6, lack::ROW, &[0x10])]);
    assert!(joined.walks.has_asked() && !joined.walks.has_asked());
    let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let fork = |child: u32| record(types::FORK, 0, &[word(child, 5), word(child, 5), 0]);
    let thread = record(types::FORK, 0, &[word(5, 5), word(6, 5), 0]);
    let exec = record(types::COMM, misc::COMM_EXEC, &[word(7, 7), 0]);
    let map = record(types::MMAP2, 0, &[word(7, 7), 0x1000, 0x1000, 0, 0, 9, 0, 0]);
    let gone = |tid| record(types::EXIT, 0, &[word(5, 1), word(tid, 1), 0]);
    // Records without a time are later than any reading.
    let mut timed = RecordPipeline { walks: Some(&mut joined.walks), layout: LAYOUT, ..RecordPipeline::default() };
    timed.passed(0, &[fork(7), thread, exec, map, gone(6), gone(5)].concat());
    // The receiver is woken once for all rings.
    assert!(joined.walks.has_sent);
    joined.walks.wake();
    assert!(!joined.walks.has_sent);
    let news: Vec<ProcessEvent> = joined.news.receiver.try_iter().collect();
    assert_eq!(
        news,
        [
            ProcessEvent::Lacks { pid: 5, what: lack::PROCESS, number: Some(outer(5)) },
            ProcessEvent::Lacks { pid: 6, what: lack::ROW, number: None },
            ProcessEvent::Forked { parent: 5, child: 7, at: u64::MAX },
            ProcessEvent::Executed { pid: 7, at: u64::MAX },
            ProcessEvent::Mapped { pid: 7, at: 9 },
            ProcessEvent::Exited { pid: 5 },
        ]
    );
    assert_eq!([5, 6, 7].map(|tid| joined.walks.waits.has_started(tid)), [false, true, true]);
    joined.read(0, &[lacks]);
    assert!(joined.walks.has_asked(), "it has ended since, and is another");
}

#[test]
fn copied_stacks_get_the_return_addresses_that_probes_have_replaced() {
    use crate::kernel::attr::sample::{REGS_USER, STACK_USER};
    let layout = Layout { sample_type: LAYOUT.sample_type | REGS_USER | STACK_USER, regs_user: 1 << SP, ..LAYOUT };
    let (sp, page) = (0x7000, 0xaaaa);
    let sample = |pid, stack: &[u64]| {
        let size = 8 * stack.len() as u64;
        let head = [SAMPLE, 0x10, task(pid), 5, 0, 1, 0, 2, sp, size];
        record(types::SAMPLE, misc::USER, &[&head, stack, &[size]].concat())
    };
    let returns = |why: u8| {
        let head = [WRITER, task(5), u64::from(why) << 32, page];
        // Of two that return to one place the outer one has the address; what was left, and lies elsewhere, is no more.
        record(types::SAMPLE, 0, &[&head[..], &[sp + 8, page, sp + 8, 0x77, sp + 16, 0x88, sp - 8, 1, 0, 1]].concat())
    };
    let mended = |sample: &[u8], returns: &[u8]| {
        let (header, mut out) = (Header::read(sample).expect("a header"), vec![1]);
        mend(sample, header, layout, returns, &mut out).map(|()| out.split_off(1))
    };
    let copied = sample(5, &[1, page, 3]);
    assert_eq!(mended(&copied, &returns(RETURNS)), Some(sample(5, &[1, 0x77, 3])));
    assert_eq!(mended(&sample(5, &[]), &returns(RETURNS)), None, "nothing was copied");
    assert_eq!(mended(&sample(6, &[1, page, 3]), &returns(RETURNS)), None, "another task's");
    assert_eq!(mended(&copied, &returns(WalkEnd::Complete as u8)), None);
    assert_eq!(mended(&copied, &[]), None);
}

/// Two events of one tracepoint.
const TRACED: [u64; 2] = [80, 81];
const CALLER: u64 = 0xffff_0800;

fn start_traced() -> Joined {
    let mut joined = start();
    let chain = ChainPlace::of(LAYOUT.sample_type).expect("known");
    joined.walks.samples.extend(TRACED.map(|id| (id, Sampled { chain, is_traced: true })));
    joined.walks.callers = vec![0xffff_0100..0xffff_0110, CALLER - 8..CALLER + 8];
    joined
}

fn walked_at(pid: i32, frame: u64) -> Vec<u8> {
    walked(pid, AT_TRACEPOINT, &[frame])
}

fn hit(id: u64, pid: i32) -> Vec<u8> {
    let head = [id, 0xffff_0001, task(pid), 5, 0, 1, 2];
    record(types::SAMPLE, misc::KERNEL, &[&head[..], &[CONTEXT_KERNEL, 0xffff_0001]].concat())
}

/// The user frames of each sample; 0 for a sample without them.
fn frames(chains: &[Vec<u64>]) -> Vec<u64> {
    chains.iter().map(|chain| chain.get(3).copied().unwrap_or(0)).collect()
}

#[test]
fn walks_at_tracepoints_are_before_or_behind_their_samples() {
    let [a, b] = TRACED;
    let read = |pieces: &[Vec<u8>]| frames(&start_traced().read(0, pieces));
    let before = [walked_at(5, 0x10), hit(a, 5), walked_at(6, 0x20), hit(a, 6), walked_at(6, 0x30), hit(a, 6)];
    assert_eq!(read(&before), [0x10, 0x20, 0x30]);
    let behind = [hit(a, 5), walked_at(5, 0x10), hit(a, 6), walked_at(6, 0x20), hit(a, 6), walked_at(6, 0x30)];
    assert_eq!(read(&behind), [0x10, 0x20, 0x30]);
    // Each event of the tracepoint has one sample of a hit.
    assert_eq!(read(&[walked_at(5, 0x10), hit(a, 5), hit(b, 5), hit(b, 5)]), [0x10, 0x10, 0]);
    assert_eq!(read(&[hit(a, 5), hit(b, 5), walked_at(5, 0x10), hit(b, 5)]), [0x10, 0x10, 0]);
    // Threads of the kernel are not walked, and the walks of other tasks have no samples.
    assert_eq!(read(&[walked_at(5, 0x10), hit(a, 9), hit(a, 5)]), [0, 0x10]);
    assert_eq!(read(&[walked_at(5, 0x10), walked_at(6, 0x20), hit(a, 6), hit(a, 9)]), [0x20, 0]);
    let lost = record(types::LOST, 0, &[a, 1]);
    assert_eq!(read(&[walked_at(5, 0x10), lost, hit(a, 5)]), [0]);
}

#[test]
fn a_task_that_hits_often_keeps_the_order_of_its_walks() {
    let a = TRACED[0];
    let mut joined = start_traced();
    // The walk of task 6 follows its sample, so those of its later samples do, too.
    let first = [walked_at(5, 0x10), hit(a, 6), walked_at(6, 0x20), hit(a, 6)];
    assert_eq!(frames(&joined.read(0, &first)), [0x20, 0], "the next walk is not in this read");
    assert_eq!(frames(&joined.read(0, &[walked_at(6, 0x30), hit(a, 6), walked_at(6, 0x40)])), [0x40]);
    // The other perf user has ended.
    let later = [walked_at(7, 0x50), hit(a, 7), walked_at(7, 0x60), hit(a, 7)];
    assert_eq!(frames(&joined.read(0, &later)), [0x50, 0x60]);
}

#[test]
fn samples_between_a_walk_and_its_sample_are_not_mixed_up() {
    let a = TRACED[0];
    let sampled = sampled(misc::USER, 0x77, 5, &[]);
    let pieces = [walked_at(5, 0x10), walked(5, 0, &[0x77]), sampled, hit(a, 5)];
    let chains = start_traced().read(0, &pieces);
    assert_eq!(chains, [vec![CONTEXT_USER, 0x77], vec![CONTEXT_KERNEL, 0xffff_0001, CONTEXT_USER, 0x10]]);
}

#[test]
fn the_function_that_calls_the_programs_of_a_tracepoint_is_left_out() {
    let of = |ip: u64, kernel: &[u64]| {
        let head = [TRACED[0], ip, task(5), 5, 0, 1, kernel.len() as u64];
        let sample = record(types::SAMPLE, misc::KERNEL, &[&head[..], kernel].concat());
        let out = start_traced().walks.passed(0, &[walked_at(5, 0x10), sample.clone(), sample].concat());
        let all = WholeRecords { rest: &out };
        let read = |(header, record): (Header, &[u8])| {
            let sample = LAYOUT.sample(header, &record[HEADER..]).expect("whole");
            (sample.ip, sample.chain().collect::<Vec<u64>>())
        };
        all.map(read).collect::<Vec<_>>()
    };
    let with_user = [CONTEXT_KERNEL, 0xffff_0999, CONTEXT_USER, 0x10];
    let expected = [(0xffff_0999, with_user.to_vec()), (0xffff_0999, with_user[..2].to_vec())];
    assert_eq!(of(CALLER, &[CONTEXT_KERNEL, CALLER, 0xffff_0999]), expected);
    assert_eq!(of(0xffff_0999, &[CONTEXT_KERNEL, 0xffff_0999]), expected);
    assert_eq!(
        of(CALLER, &[CONTEXT_KERNEL, CALLER])[1],
        (CALLER, vec![CONTEXT_KERNEL, CALLER]),
        "nothing else is left"
    );
}
