//! Compiles a filter to a BPF program. Instructions are generated here, without a compiler. The values that clauses
//! compare with are in the program's parameters, so that filters of the same shape share their instructions.

use crate::kernel::bpf::calls::{ADD_K, CALL, EXIT, LDX_DW, MOV_K, MOV_X, op};
use crate::kernel::bpf::{BANK, BANKS_AT, FilterProgram, MAX_CONSTANTS};
use crate::kernel::btf::{Btf, BtfError};
use crate::kernel::procfs;

use super::show::in_kernel;
use super::{Atom, Field, FilterExpr, Test};

/// The offsets of the running kernel's structures; each may be missing.
#[derive(Clone, Debug)]
pub struct Offsets {
    /// `task_struct.thread_info.flags`, and the bits that request a reschedule.
    thread_flags: Result<(u32, u64), BtfError>,
    /// `task_struct.se.cfs_rq`, `cfs_rq.rq`, `rq.nr_running`.
    run_queue: Result<[u32; 3], BtfError>,
    prio: Result<u32, BtfError>,
    policy: Result<u32, BtfError>,
    /// Our PID namespace (device and inode), if its PIDs differ from the kernel's.
    namespace: Option<(u64, u64)>,
}

impl Offsets {
    pub(crate) fn of(btf: &Result<Btf, BtfError>, release: &str) -> Self {
        let at = |of: &str, path: &[&str]| btf.as_ref().map_err(Clone::clone).and_then(|btf| btf.offset(of, path));
        let run_queue = || {
            let to_rq = at("cfs_rq", &["rq"]);
            Ok([at("task_struct", &["se", "cfs_rq"])?, to_rq?, at("rq", &["nr_running"])?])
        };
        Self {
            thread_flags: at("task_struct", &["thread_info", "flags"]).map(|offset| (offset, resched_bits(release))),
            run_queue: run_queue(),
            prio: at("task_struct", &["prio"]),
            policy: at("task_struct", &["policy"]),
            namespace: None,
        }
    }

    /// Finds the running kernel's offsets once.
    pub fn system() -> &'static Self {
        static SYSTEM: std::sync::LazyLock<Offsets> = std::sync::LazyLock::new(|| {
            let release = rustix::system::uname();
            let found = Offsets::of(&Btf::system(), &release.release().to_string_lossy());
            Offsets { namespace: procfs::pid_namespace(), ..found }
        });
        &SYSTEM
    }
}

/// Returns the bits that request a reschedule. TIF_NEED_RESCHED and its lazy variant are macros, so types do not
/// contain their bits (arch/x86/include/asm/thread_info.h; include/asm-generic/thread_info_tif.h from 6.18 on).
fn resched_bits(release: &str) -> u64 {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    match version {
        (0..=6, _) if version < (6, 13) => 1 << 3,
        (6, 13..=17) => 1 << 3 | 1 << 4,
        _ => 1 << 4 | 1 << 5,
    }
}

// Instructions (Documentation/bpf/standardization/instruction-set.rst).
const LD_IMM64: u64 = 0x18;
const LDX_W: u64 = 0x61;
const ADD_X: u64 = 0x0f;
const MUL_K: u64 = 0x27;
const AND_K: u64 = 0x57;
const AND_X: u64 = 0x5f;
const LSH_K: u64 = 0x67;
const RSH_K: u64 = 0x77;
const ARSH_K: u64 = 0xc7;
const XOR_K: u64 = 0xa7;
const JA: u64 = 0x05;
const JEQ_K: u64 = 0x15;
const JNE_K: u64 = 0x55;
const JNE_X: u64 = 0x5d;
const JSLT_X: u64 = 0xcd;
const JSLE_X: u64 = 0xdd;

// Helpers (bpf-helpers(7)).
const GET_SMP_PROCESSOR_ID: i32 = 8;
const GET_CURRENT_PID_TGID: i32 = 14;
const GET_CURRENT_COMM: i32 = 16;
const GET_CURRENT_CGROUP_ID: i32 = 80;
const GET_NS_CURRENT_PID_TGID: i32 = 120;
const GET_CURRENT_TASK_BTF: i32 = 158;

/// Bytes of the PIDs of a task in a namespace.
const NUMBERS: i32 = 8;
/// Bytes of a comm, including its NUL.
const COMM: usize = 16;
/// The offsets of the interrupted code's registers in `struct pt_regs`, on x86-64.
#[cfg(target_arch = "x86_64")]
const REGS: Option<(i16, i16)> = Some((136, 144));
#[cfg(not(target_arch = "x86_64"))]
const REGS: Option<(i16, i16)> = None;

#[derive(Clone, Copy)]
struct Label(usize);

struct Assembler<'a> {
    offsets: &'a Offsets,
    code: Vec<u64>,
    constants: Vec<u64>,
    /// The position of each label, and the jumps to it.
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

/// Compiles an expression. The error has the atom that the kernel cannot evaluate, and why.
pub(crate) fn assemble(expr: &FilterExpr, atoms: &[Atom], offsets: &Offsets) -> Result<FilterProgram, (u8, String)> {
    let mut a = Assembler { offsets, code: Vec::new(), constants: Vec::new(), labels: Vec::new(), jumps: Vec::new() };
    // r6: the context; r7: the active bank of parameters.
    a.op(MOV_X, 6, 1, 0, 0);
    let map_at = a.code.len();
    a.op(LD_IMM64, 7, 2, 0, 0);
    a.op(0, 0, 0, 0, 0);
    a.op(LDX_DW, 1, 7, 0, 0);
    a.op(AND_K, 1, 0, 0, 1);
    a.op(MUL_K, 1, 0, 0, BANK as i32);
    a.op(ADD_X, 7, 1, 0, 0);
    a.op(ADD_K, 7, 0, 0, BANKS_AT as i32);
    let (yes, no) = (a.label(), a.label());
    a.expr(expr, atoms, yes, no)?;
    // The accepting exit is last, so that a program that continues can replace it.
    for (label, verdict) in [(no, 0), (yes, 1)] {
        a.place(label);
        a.op(MOV_K, 0, 0, 0, verdict);
        a.op(EXIT, 0, 0, 0, 0);
    }
    let constants = std::mem::take(&mut a.constants);
    if constants.len() > MAX_CONSTANTS {
        return Err((0, format!("too many values; the limit is {}", MAX_CONSTANTS / 2)));
    }
    Ok(FilterProgram { instructions: a.finish(), map_at, constants })
}

impl Assembler<'_> {
    fn op(&mut self, code: u64, dst: u64, src: u64, offset: i16, imm: i32) {
        self.code.push(op(code, dst, src, offset.into(), imm));
    }

    fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn jump(&mut self, code: u64, dst: u64, src: u64, imm: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.op(code, dst, src, 0, imm);
    }

    fn finish(mut self) -> Vec<u64> {
        for (at, label) in &self.jumps {
            let to = self.labels[label.0].unwrap_or(*at);
            let offset = (to as i64 - *at as i64 - 1) as i16;
            self.code[*at] |= u64::from(offset as u16) << 16;
        }
        self.code
    }

    /// Returns a parameter's offset from r7.
    fn constant(&mut self, value: u64) -> i16 {
        self.constants.push(value);
        (8 * (self.constants.len().min(MAX_CONSTANTS) - 1)) as i16
    }

    fn expr(&mut self, expr: &FilterExpr, atoms: &[Atom], yes: Label, no: Label) -> Result<(), (u8, String)> {
        match expr {
            FilterExpr::Atom(i) => self.atom(&atoms[usize::from(*i)], yes, no).map_err(|why| (*i, why)),
            FilterExpr::Not(inner) => self.expr(inner, atoms, no, yes),
            FilterExpr::And(all) => self.chain(all, atoms, yes, no, true),
            FilterExpr::Or(any) => self.chain(any, atoms, yes, no, false),
        }
    }

    /// Compiles a list; each part but the last falls through if it is not decisive.
    fn chain(
        &mut self,
        list: &[FilterExpr],
        atoms: &[Atom],
        yes: Label,
        no: Label,
        all: bool,
    ) -> Result<(), (u8, String)> {
        for (i, part) in list.iter().enumerate() {
            if i + 1 == list.len() {
                return self.expr(part, atoms, yes, no);
            }
            let next = self.label();
            if all {
                self.expr(part, atoms, next, no)?
            } else {
                self.expr(part, atoms, yes, next)?
            }
            self.place(next);
        }
        Ok(())
    }

    fn atom(&mut self, atom: &Atom, yes: Label, no: Label) -> Result<(), String> {
        if atom.field == Field::Comm {
            return self.comm(atom, yes, no);
        }
        self.value(atom.field)?;
        match &atom.test {
            Test::Flag => {
                self.jump(JNE_K, 1, 0, 0, yes);
                self.jump(JA, 0, 0, 0, no);
                Ok(())
            }
            Test::Ranges(ranges) => {
                self.ranges(ranges, yes, no);
                Ok(())
            }
            _ => Err("the kernel compares it only with numbers".to_owned()),
        }
    }

    /// Compares r1 with ranges.
    fn ranges(&mut self, ranges: &[(i128, i128)], yes: Label, no: Label) {
        // An empty range never matches, but the verifier requires every instruction to be reachable.
        for (from, to) in if ranges.is_empty() { &[(1, 0)] } else { ranges } {
            let next = self.label();
            let at = self.constant(in_kernel(*from) as u64);
            self.op(LDX_DW, 2, 7, at, 0);
            self.jump(JSLT_X, 1, 2, 0, next);
            let at = self.constant(in_kernel(*to) as u64);
            self.op(LDX_DW, 2, 7, at, 0);
            self.jump(JSLE_X, 1, 2, 0, yes);
            self.place(next);
        }
        self.jump(JA, 0, 0, 0, no);
    }

    fn value(&mut self, field: Field) -> Result<(), String> {
        let words = |error: &BtfError| error.to_string();
        match field {
            Field::Pid | Field::Tid if self.offsets.namespace.is_some() => {
                let (device, inode) = self.offsets.namespace.unwrap_or_default();
                self.wide(1, device);
                self.wide(2, inode);
                self.op(MOV_X, 3, 10, 0, 0);
                self.op(ADD_K, 3, 0, 0, -NUMBERS);
                self.op(MOV_K, 4, 0, 0, NUMBERS);
                self.op(CALL, 0, 0, 0, GET_NS_CURRENT_PID_TGID);
                // The PIDs of thread, then process (`struct bpf_pidns_info`): 0 outside our namespace, as in samples.
                let at = if field == Field::Tid { 0 } else { 4 };
                self.op(LDX_W, 1, 10, at - NUMBERS as i16, 0);
            }
            Field::Pid | Field::Tid | Field::Idle => {
                self.op(CALL, 0, 0, 0, GET_CURRENT_PID_TGID);
                self.op(MOV_X, 1, 0, 0, 0);
                match field {
                    Field::Pid => self.op(RSH_K, 1, 0, 0, 32),
                    _ => {
                        self.op(LSH_K, 1, 0, 0, 32);
                        self.op(RSH_K, 1, 0, 0, 32);
                    }
                }
                if field == Field::Idle {
                    self.is_zero();
                }
            }
            Field::Cpu | Field::Cgroup => {
                let helper = if field == Field::Cpu { GET_SMP_PROCESSOR_ID } else { GET_CURRENT_CGROUP_ID };
                self.op(CALL, 0, 0, 0, helper);
                self.op(MOV_X, 1, 0, 0, 0);
            }
            Field::User | Field::Kernel | Field::IrqsOff => {
                let (cs, flags) = REGS.ok_or("only available on x86-64")?;
                if field == Field::IrqsOff {
                    self.op(LDX_DW, 1, 6, flags, 0);
                    self.op(RSH_K, 1, 0, 0, 9);
                    self.op(AND_K, 1, 0, 0, 1);
                    self.op(XOR_K, 1, 0, 0, 1);
                } else {
                    self.op(LDX_DW, 1, 6, cs, 0);
                    self.op(AND_K, 1, 0, 0, 3);
                    if field == Field::Kernel {
                        self.is_zero();
                    }
                }
            }
            Field::NeedResched => {
                let (at, bits) = *self.offsets.thread_flags.as_ref().map_err(words)?;
                self.task(LDX_DW, at);
                self.op(AND_K, 1, 0, 0, bits as i32);
            }
            Field::NrRunning => {
                let [cfs_rq, rq, running] = *self.offsets.run_queue.as_ref().map_err(words)?;
                self.task(LDX_DW, cfs_rq);
                self.op(LDX_DW, 1, 1, rq as i16, 0);
                self.op(LDX_W, 1, 1, running as i16, 0);
            }
            Field::Prio | Field::Policy => {
                let at = if field == Field::Prio { &self.offsets.prio } else { &self.offsets.policy };
                let at = *at.as_ref().map_err(words)?;
                self.task(LDX_W, at);
                self.op(LSH_K, 1, 0, 0, 32);
                self.op(ARSH_K, 1, 0, 0, 32);
            }
            _ => return Err("the kernel cannot evaluate it; use a view filter (f)".to_owned()),
        }
        Ok(())
    }

    fn wide(&mut self, register: u64, number: u64) {
        self.op(LD_IMM64, register, 0, 0, number as u32 as i32);
        self.op(0, 0, 0, 0, (number >> 32) as u32 as i32);
    }

    /// Sets r1 to whether it is 0.
    fn is_zero(&mut self) {
        let (zero, end) = (self.label(), self.label());
        self.jump(JEQ_K, 1, 0, 0, zero);
        self.op(MOV_K, 1, 0, 0, 0);
        self.jump(JA, 0, 0, 0, end);
        self.place(zero);
        self.op(MOV_K, 1, 0, 0, 1);
        self.place(end);
    }

    /// Loads a field of the current task into r1.
    fn task(&mut self, load: u64, at: u32) {
        self.op(CALL, 0, 0, 0, GET_CURRENT_TASK_BTF);
        self.op(load, 1, 0, at as i16, 0);
    }

    /// Compares the comm, in two words under two masks, with each value.
    fn comm(&mut self, atom: &Atom, yes: Label, no: Label) -> Result<(), String> {
        let values: Vec<([u8; COMM], [u8; COMM])> = match &atom.test {
            Test::Equals(values) => values.iter().map(|value| masked(value, true)).collect::<Option<_>>(),
            Test::Glob(glob) => prefix(glob.glob().glob()).and_then(|start| Some(vec![masked(start, false)?])),
            _ => None,
        }
        .ok_or("the kernel compares comm only with names of up to 15 bytes, or a prefix such as \"kworker*\"")?;
        self.op(MOV_X, 1, 10, 0, 0);
        self.op(ADD_K, 1, 0, 0, -(COMM as i32));
        self.op(MOV_K, 2, 0, 0, COMM as i32);
        self.op(CALL, 0, 0, 0, GET_CURRENT_COMM);
        for (value, mask) in values {
            let next = self.label();
            for half in 0..2 {
                let word = |bytes: &[u8; COMM]| {
                    u64::from_le_bytes(bytes[8 * half..8 * half + 8].try_into().unwrap_or_default())
                };
                self.op(LDX_DW, 1, 10, 8 * half as i16 - COMM as i16, 0);
                let at = self.constant(word(&mask));
                self.op(LDX_DW, 2, 7, at, 0);
                self.op(AND_X, 1, 2, 0, 0);
                let at = self.constant(word(&value));
                self.op(LDX_DW, 2, 7, at, 0);
                self.jump(JNE_X, 1, 2, 0, next);
            }
            self.jump(JA, 0, 0, 0, yes);
            self.place(next);
        }
        self.jump(JA, 0, 0, 0, no);
        Ok(())
    }
}

/// Returns a comm and the mask of its significant bytes: all of it with its NUL, or only a prefix.
fn masked(text: &str, whole: bool) -> Option<([u8; COMM], [u8; COMM])> {
    let (mut value, mut mask) = ([0; COMM], [0; COMM]);
    value.get_mut(..text.len()).filter(|_| text.len() < COMM)?.copy_from_slice(text.as_bytes());
    mask.get_mut(..text.len() + usize::from(whole))?.fill(0xff);
    Some((value, mask))
}

/// Returns the prefix that a glob matches, if the glob is only a prefix.
fn prefix(glob: &str) -> Option<&str> {
    let start = glob.strip_suffix('*')?;
    (!start.contains(['*', '?', '[', '{', '\\'])).then_some(start)
}

#[cfg(test)]
mod tests;
