//! Runs programs in an interpreter. The results are compared with the filter's evaluation of the same task.

use proptest::prelude::*;

use super::*;
use crate::filter::{Filter, KnownFields};

/// A running task and its state.
#[derive(Clone, Debug)]
struct Running {
    pid: u32,
    tid: u32,
    /// The PIDs of its process and itself in our namespace, if it is in the namespace.
    inside: Option<(u32, u32)>,
    cpu: u32,
    cgroup: u64,
    comm: &'static str,
    cs: u64,
    flags: u64,
    need_resched: u64,
    running: u32,
    prio: i32,
    policy: u32,
}

fn offsets() -> Offsets {
    Offsets {
        thread_flags: Ok((16, 0b11000)),
        run_queue: Ok([24, 32, 40]),
        prio: Ok(48),
        policy: Ok(52),
        namespace: None,
    }
}

const NAMESPACE: (u64, u64) = (4, 0x1_f000_0123);

const CONTEXT: u64 = 0x1000;
const TASK: u64 = 0x2000;
const CFS_RQ: u64 = 0x3000;
const RQ: u64 = 0x4000;
const MAP: u64 = 0x5000;
const STACK: u64 = 0x9000;

/// Runs a program on a task; `bank` is the active half of the parameters.
fn run(program: &FilterProgram, task: &Running, bank: u64) -> u64 {
    let mut stack = [0xaau8; 64];
    let mut r = [0u64; 11];
    (r[1], r[10]) = (CONTEXT, STACK);
    let load = |at: u64, stack: &[u8; 64]| -> u64 {
        let field = |base: u64, offset: u64| at == base + offset;
        let banks = MAP + BANKS_AT as u64 + bank * BANK as u64;
        match at {
            MAP => bank,
            at if (STACK - 64..STACK).contains(&at) => {
                let from = (at + 64 - STACK) as usize;
                u64::from_le_bytes(stack[from..from + 8].try_into().expect("8"))
            }
            at if at >= banks && at < banks + 8 * program.constants.len() as u64 => {
                program.constants[((at - banks) / 8) as usize]
            }
            _ if field(CONTEXT, 136) => task.cs,
            _ if field(CONTEXT, 144) => task.flags,
            _ if field(TASK, 16) => task.need_resched,
            _ if field(TASK, 24) => CFS_RQ,
            _ if field(CFS_RQ, 32) => RQ,
            _ if field(RQ, 40) => u64::from(task.running),
            _ if field(TASK, 48) => u64::from(task.prio as u32),
            _ if field(TASK, 52) => u64::from(task.policy),
            _ => panic!("nothing is at {at:#x}"),
        }
    };
    let mut at = 0i64;
    for _ in 0..10_000 {
        let word = program.instructions[at as usize];
        let (code, dst, src) = (word & 0xff, (word >> 8 & 15) as usize, (word >> 12 & 15) as usize);
        let (offset, imm) = ((word >> 16) as u16 as i16 as i64, (word >> 32) as u32 as i32 as i64);
        let place = r[src].wrapping_add_signed(offset);
        at += 1;
        match code {
            LD_IMM64 if src == 0 => {
                (r[dst], at) = ((word >> 32) | program.instructions[at as usize] >> 32 << 32, at + 1);
            }
            LD_IMM64 => {
                assert_eq!(at as usize - 1, program.map_at);
                (r[dst], at) = (MAP, at + 1);
            }
            LDX_W if (STACK - 64..STACK).contains(&place) => {
                let from = (place + 64 - STACK) as usize;
                r[dst] = u32::from_le_bytes(stack[from..from + 4].try_into().expect("4")).into();
            }
            LDX_W => r[dst] = load(place, &stack) & 0xffff_ffff,
            LDX_DW => r[dst] = load(place, &stack),
            ADD_K => r[dst] = r[dst].wrapping_add_signed(imm),
            ADD_X => r[dst] = r[dst].wrapping_add(r[src]),
            MUL_K => r[dst] = r[dst].wrapping_mul(imm as u64),
            AND_K => r[dst] &= imm as u64,
            AND_X => r[dst] &= r[src],
            LSH_K => r[dst] <<= imm,
            RSH_K => r[dst] >>= imm,
            ARSH_K => r[dst] = (r[dst] as i64 >> imm) as u64,
            XOR_K => r[dst] ^= imm as u64,
            MOV_K => r[dst] = imm as u64,
            MOV_X => r[dst] = r[src],
            JA => at += offset,
            JEQ_K => at += if r[dst] == imm as u64 { offset } else { 0 },
            JNE_K => at += if r[dst] != imm as u64 { offset } else { 0 },
            JNE_X => at += if r[dst] != r[src] { offset } else { 0 },
            JSLT_X => at += if (r[dst] as i64) < r[src] as i64 { offset } else { 0 },
            JSLE_X => at += if r[dst] as i64 <= r[src] as i64 { offset } else { 0 },
            CALL => {
                r[0] = match imm as i32 {
                    GET_SMP_PROCESSOR_ID => u64::from(task.cpu),
                    GET_CURRENT_PID_TGID => u64::from(task.pid) << 32 | u64::from(task.tid),
                    GET_NS_CURRENT_PID_TGID => {
                        assert_eq!((r[1], r[2], r[4]), (NAMESPACE.0, NAMESPACE.1, 8));
                        let (pid, tid) = task.inside.unwrap_or_default();
                        let from = (r[3] + 64 - STACK) as usize;
                        stack[from..from + 4].copy_from_slice(&tid.to_le_bytes());
                        stack[from + 4..from + 8].copy_from_slice(&pid.to_le_bytes());
                        if task.inside.is_some() { 0 } else { -22i64 as u64 }
                    }
                    GET_CURRENT_CGROUP_ID => task.cgroup,
                    GET_CURRENT_TASK_BTF => TASK,
                    GET_CURRENT_COMM => {
                        let (from, len) = ((r[1] + 64 - STACK) as usize, r[2] as usize);
                        stack[from..from + len].fill(0);
                        stack[from..from + task.comm.len()].copy_from_slice(task.comm.as_bytes());
                        0
                    }
                    other => panic!("helper {other}"),
                };
                // A call clobbers these registers.
                r[1..6].fill(0xdead_dead_dead_dead);
            }
            EXIT => return r[0],
            other => panic!("instruction {other:#x}"),
        }
    }
    panic!("it does not end");
}

/// Evaluates a clause for a task without a program; `apart` uses a PID namespace.
fn says(atom: &Atom, task: &Running, apart: bool) -> bool {
    let number = |n: u64| atom.number(n);
    let (pid, tid) = if apart { task.inside.unwrap_or_default() } else { (task.pid, task.tid) };
    match atom.field {
        Field::Comm => atom.text(task.comm),
        Field::Pid => number(pid.into()),
        Field::Tid => number(tid.into()),
        Field::Idle => task.tid == 0,
        Field::Cpu => number(task.cpu.into()),
        Field::Cgroup => number(task.cgroup),
        Field::User => task.cs & 3 != 0,
        Field::Kernel => task.cs & 3 == 0,
        Field::IrqsOff => task.flags & 0x200 == 0,
        Field::NeedResched => task.need_resched & 0b11000 != 0,
        Field::NrRunning => number(task.running.into()),
        Field::Prio => atom.number(i64::from(task.prio)),
        Field::Policy => number(task.policy.into()),
        other => panic!("{other:?}"),
    }
}

const CLAUSES: &[&str] = &[
    "pid == 7",
    "pid < 8",
    "tid in 7-9,12",
    "tid != 0",
    "cpu >= 2",
    "cpu in 0-1",
    "comm == sh",
    "comm in (kworker/0:1, sh)",
    "comm ~ \"kwork*\"",
    "comm == abcdefghijklmno",
    "comm ~ \"abcdefghijklmno*\"",
    "user",
    "kernel",
    "idle",
    "irqs_off",
    "need_resched",
    "nr_running > 1",
    "prio < 0",
    "prio in -100--1,120",
    "policy <= 2",
    "pid < 0",
];

fn tasks() -> impl Strategy<Value = Running> {
    let ids = (prop_oneof![Just(7u32), Just(8), Just(u32::MAX), 0u32..20], prop_oneof![Just(0u32), 5u32..15]);
    let names = prop_oneof![
        Just("sh"),
        Just("shell"),
        Just("s"),
        Just(""),
        Just("kworker/0:1"),
        Just("kworker"),
        Just("abcdefghijklmno"),
        Just("abcdefghijklmn"),
    ];
    let inside = proptest::option::of((5u32..15, 5u32..15));
    let state = (0u64..4, any::<u64>(), 0u64..64, 0u32..4);
    (ids, inside, 0u32..4, names, state, (-101i32..121, 0u32..7)).prop_map(
        |((pid, tid), inside, cpu, comm, (cs, flags, need, running), (prio, policy))| Running {
            pid,
            tid,
            inside,
            cpu,
            cgroup: 5,
            comm,
            cs,
            flags,
            need_resched: need,
            running,
            prio,
            policy,
        },
    )
}

proptest! {
    #![proptest_config(crate::damage::kept())]

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_program_says_what_its_filter_says(
        clauses in proptest::collection::vec((0..CLAUSES.len(), any::<bool>()), 1..6),
        shape in 0usize..4,
        tasks in proptest::collection::vec(tasks(), 1..12),
        bank in 0u64..2,
        apart in any::<bool>(),
    ) {
        let parts: Vec<String> = clauses.iter().map(|(i, not)| if *not { format!("!({})", CLAUSES[*i]) } else { CLAUSES[*i].to_owned() }).collect();
        let text = match shape {
            0 => parts.join(" && "),
            1 => parts.join(" || "),
            2 => format!("!({})", parts.join(" && ")),
            _ => format!("{} && ({})", parts[0], parts.join(" || ")),
        };
        let filter = Filter::parse_with(&text, KnownFields::Sampling).expect("parses");
        let offsets = Offsets { namespace: apart.then_some(NAMESPACE), ..offsets() };
        let program = assemble(&filter.expr, &filter.atoms, &offsets).expect("assembles");
        for task in tasks {
            let bits = filter.atoms.iter().enumerate().fold(0u64, |bits, (i, atom)| bits | u64::from(says(atom, &task, apart)) << i);
            prop_assert_eq!(run(&program, &task, bank), u64::from(filter.eval(bits)), "{} of {:?}", text, task);
        }
    }
}

#[test]
fn groups_are_compared_by_their_ids() {
    let program = |ids: Vec<(i128, i128)>| {
        let atom = Atom { field: Field::Cgroup, name: String::new(), test: Test::Ranges(ids) };
        assemble(&FilterExpr::Atom(0), &[atom], &offsets()).expect("assembles")
    };
    let task = |cgroup| Running {
        pid: 1,
        tid: 1,
        inside: None,
        cpu: 0,
        cgroup,
        comm: "sh",
        cs: 0,
        flags: 0,
        need_resched: 0,
        running: 1,
        prio: 120,
        policy: 0,
    };
    let some = program(vec![(5, 5), (9, 9)]);
    assert_eq!([4, 5, 6, 9].map(|id| run(&some, &task(id), 0)), [0, 1, 0, 1]);
    assert_eq!(run(&program(vec![]), &task(5), 0), 0, "no cgroup has this name now");
    // A value beyond the kernel's signed comparison is the maximum.
    assert_eq!(run(&program(vec![(3, u64::MAX.into())]), &task(i64::MAX as u64), 0), 1);
}

#[test]
fn no_more_constants_than_there_is_room_for() {
    let of = |n: usize| {
        let list: Vec<String> = (0..n).map(|i| (2 * i).to_string()).collect();
        let filter = Filter::parse_with(&format!("pid in {}", list.join(",")), KnownFields::Sampling).expect("parses");
        assemble(&filter.expr, &filter.atoms, &offsets())
    };
    assert!(of(MAX_CONSTANTS / 2).is_ok());
    let (_, why) = of(MAX_CONSTANTS / 2 + 1).expect_err("too many");
    assert_eq!(why, format!("too many values; the limit is {}", MAX_CONSTANTS / 2));
}

#[test]
fn names_and_starts_of_them_that_fit() {
    assert_eq!(masked("abcdefghijklmno", true).map(|(_, mask)| mask), Some([0xff; 16]));
    assert_eq!((masked("abcdefghijklmnop", true), masked("", false).is_some()), (None, true));
    let (value, mask) = masked("sh", true).expect("short");
    assert_eq!((&value[..4], &mask[..4]), (&b"sh\0\0"[..], &[0xff, 0xff, 0xff, 0][..]));
    let (value, mask) = masked("abcdefghijklmno", false).expect("a start");
    assert_eq!((&value, mask[14], mask[15]), (b"abcdefghijklmno\0", 0xff, 0));
    assert_eq!(prefix("kworker*"), Some("kworker"));
    for glob in ["*x*", "a*b*", "a?*", "[ab]*", "{a,b}*", "a\\**", "ab"] {
        assert_eq!(prefix(glob), None, "{glob}");
    }
}

#[test]
fn the_bits_that_ask_for_a_reschedule_move() {
    for (release, bits) in
        [("5.10.0-9-amd64", 8), ("6.1.0", 8), ("6.12.5", 8), ("6.13.1", 24), ("6.18.44-fc", 48), ("7.2.8", 48)]
    {
        assert_eq!(resched_bits(release), bits, "{release}");
    }
}
