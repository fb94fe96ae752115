//! Completion of the kernel's partial call chains, from a copied user stack or the CPU's branch records (LBR).

use rustc_hash::FxHashMap;

use crate::kernel::attr::{Attr, branch};
use crate::kernel::blocked::stacks::SleepingStack;
use crate::record::Sample;
use crate::record::hardware::branches;
use crate::record::sample::{CONTEXT_CUT, CONTEXT_KERNEL, CONTEXT_MAX, CONTEXT_USER, NO_CODE, u64s};
use crate::session::{Dso, DsoId, DsoKind, MapId, Session};
use crate::symbols::SymbolOptions;
use crate::symbols::unwind::{ChainEnd, UnwindSpace};

const ENOUGH: u32 = 50;

/// Completes call chains.
#[derive(Debug)]
pub struct Chains {
    stacks: UnwindSpace,
    /// Whether to count broken stacks by DSO.
    pub(crate) judges: bool,
    /// Whether broken chains, and those at the kernel's limit, end in a marker frame. Off for raw addresses.
    pub(crate) marks_ends: bool,
    user: Vec<u64>,
    bytes: Vec<u8>,
    /// For each DSO, the user stacks that the kernel unwound, and those of them that broke in it.
    walked: FxHashMap<DsoId, (u32, u32)>,
    in_all: u32,
    /// Stacks that were unwound, and those whose copy was too short.
    pub(crate) unwound: u64,
    pub(crate) cut: u64,
}

impl Chains {
    pub(crate) fn new(options: SymbolOptions) -> Self {
        Self {
            stacks: UnwindSpace::new(options),
            judges: true,
            marks_ends: true,
            user: Vec::new(),
            bytes: Vec::new(),
            walked: FxHashMap::default(),
            in_all: 0,
            unwound: 0,
            cut: 0,
        }
    }

    /// Evaluates a chain that the kernel unwound by frame pointers. At a function's entry, its caller from a probe
    /// stands for the leaf. A DSO is evaluated only by how its own code returns to its caller: what follows another
    /// DSO's frames, such as the start of a program, says nothing about it.
    pub(crate) fn examine(&mut self, session: &Session, sample: &Sample<'_>, caller: Option<u64>) {
        if !self.judges || !sample.user.stack.is_empty() || !sample.branches.is_empty() {
            return;
        }
        let mut user = u64s(sample.chain).skip_while(|word| *word != CONTEXT_USER).skip(1).peekable();
        let Some(leaf) = user.next() else { return };
        let leaf = caller.unwrap_or(leaf);
        let _ = user.next_if(|word| caller == Some(*word));
        let mut places = session.places(sample.pid);
        let mut dso_at = |ip: u64| {
            let dso = places.user(ip).map(|(map, _)| session.dsos.map_of(map).dso);
            (dso, places.around_user())
        };
        let (dso, mut own) = dso_at(leaf);
        let Some(dso) = dso.filter(|dso| session.dsos.get(*dso).kind == DsoKind::File) else { return };
        let has_caller = user.peek().is_some();
        // A caller outside all mappings is an arbitrary register content.
        let left = user.find_map(|ip| {
            if own.contains(&ip) {
                return None;
            }
            let (found, around) = dso_at(ip);
            own = around;
            (found != Some(dso)).then_some(found)
        });
        let broken = !has_caller || left == Some(None);
        let walked = self.walked.entry(dso).or_default();
        (walked.0, walked.1) = (walked.0 + 1, walked.1 + u32::from(broken));
        self.in_all += 1;
    }

    pub(crate) fn broken(&self) -> Option<(DsoId, f64)> {
        let much = |all: u32| all >= ENOUGH && all as usize * 20 >= self.in_all as usize;
        let bad = self.walked.iter().filter(|(_, (all, broken))| much(*all) && 10 * broken > 6 * all);
        let (dso, (all, broken)) = bad.max_by_key(|(dso, (all, _))| (*all, **dso))?;
        Some((*dso, 100.0 * f64::from(*broken) / f64::from(*all)))
    }

    pub(crate) fn forget(&mut self) {
        (self.walked, self.in_all) = (FxHashMap::default(), 0);
        (self.unwound, self.cut) = (0, 0);
    }

    /// Returns a sample with its chain completed as far as possible, without further information.
    pub(crate) fn follow<'a>(&'a mut self, session: &Session, sample: Sample<'a>, attr: &Attr) -> Sample<'a> {
        if sample.user.stack.is_empty() && sample.branches.is_empty() {
            let with_leaf = !sample.user.regs.is_empty() && self.put_leafs_caller(session, &sample);
            let stopped = super::chain_limit::stopped(attr, sample.chain).filter(|_| self.marks_ends);
            if let Some(frames) = stopped {
                if !with_leaf {
                    self.bytes.clear();
                    self.bytes.extend_from_slice(frames);
                }
                self.bytes.extend_from_slice(&CONTEXT_CUT.to_le_bytes());
            }
            return if with_leaf || stopped.is_some() { Sample { chain: &self.bytes, ..sample } } else { sample };
        }
        let chain = self.complete(session, &sample, attr.branch_sample_type).unwrap_or(sample.chain);
        Sample { chain, ..sample }
    }

    /// Returns a sample whose chain starts with the branches before it, newest first, each as its target and its
    /// source. They include functions that have returned.
    pub(crate) fn with_history<'a>(&'a mut self, sample: Sample<'a>, kind: u64) -> Sample<'a> {
        if kind & branch::CALL_STACK != 0 || sample.branches.is_empty() {
            return sample;
        }
        // Later words of a chain count as return addresses, which are after the call.
        let places = branches(sample.branches).flat_map(|branch| [branch.to, branch.from]).map(|ip| ip.wrapping_add(1));
        let places = places.filter(|ip| *ip > 1 && *ip < CONTEXT_MAX);
        self.user.clear();
        self.user.push(sample.ip);
        self.user.extend(places);
        self.user.extend(u64s(sample.chain).skip_while(|word| *word != CONTEXT_USER).skip(2));
        Sample { chain: self.joined(&sample), ..sample }
    }

    /// Inserts the caller of the leaf into a frame pointer chain; on AArch64 it may be in a register only. Returns
    /// `false` if the chain is complete without it.
    fn put_leafs_caller(&mut self, session: &Session, sample: &Sample<'_>) -> bool {
        self.user.clear();
        self.user.extend(u64s(sample.chain).skip_while(|word| *word != CONTEXT_USER).skip(1));
        let Some(leaf) = self.user.first().copied() else { return false };
        let caller = self.stacks.caller_of_leaf(&sample.user, leaf, &|ip| code_at(session, sample.pid, ip));
        let Some(caller) = caller.filter(|caller| self.user.get(1) != Some(caller)) else { return false };
        self.user.insert(1, caller);
        self.joined(sample);
        true
    }

    /// Returns the completed chain of a sample as raw words: the kernel's part unchanged, then the user's. `None` if
    /// there is only the kernel's part.
    pub(crate) fn complete(&mut self, session: &Session, sample: &Sample<'_>, branches: u64) -> Option<&[u8]> {
        self.user.clear();
        if sample.user.stack.is_empty() {
            return self.by_branches(sample, branches);
        }
        let find = |ip: u64| code_at(session, sample.pid, ip);
        let end = self.stacks.unwind(&sample.user, &find, &mut self.user)?;
        if self.unwound == 0 {
            // Results of frame pointers no longer matter.
            self.walked.clear();
            self.in_all = 0;
        }
        self.unwound += 1;
        match end {
            ChainEnd::Root => {}
            ChainEnd::Cut => {
                self.cut += 1;
                self.user.push(CONTEXT_CUT);
            }
            ChainEnd::Lost | ChainEnd::Pending => self.user.extend(self.marks_ends.then_some(NO_CODE)),
        }
        Some(self.joined(sample))
    }

    /// Returns the call chain of a sleeping thread as raw words; `None` while tables for it are being built.
    pub(crate) fn of_sleeper(&mut self, session: &Session, sleeper: &SleepingStack) -> Option<&[u8]> {
        self.user.clear();
        let find = |ip: u64| code_at(session, sleeper.pid, ip);
        match self.stacks.unwind_sleeper(sleeper, &find, &mut self.user) {
            ChainEnd::Root => {}
            ChainEnd::Cut => self.user.push(CONTEXT_CUT),
            ChainEnd::Lost => self.user.push(NO_CODE),
            ChainEnd::Pending => return None,
        }
        let kernel: Vec<u8> =
            [CONTEXT_KERNEL].iter().chain(&sleeper.kernel).flat_map(|word| word.to_le_bytes()).collect();
        Some(self.joined(&Sample { chain: &kernel, ..Sample::default() }))
    }

    fn joined(&mut self, sample: &Sample<'_>) -> &[u8] {
        self.bytes.clear();
        let kernel = u64s(sample.chain).take_while(|word| *word != CONTEXT_USER);
        let own = std::iter::once(CONTEXT_USER).chain(self.user.iter().copied());
        kernel.chain(own).for_each(|word| self.bytes.extend_from_slice(&word.to_le_bytes()));
        &self.bytes
    }

    /// Completes a chain from branches. In the LBR's call stack mode, each branch is a call from its caller; the newest
    /// one leads to the sampled function (perf's resolve_lbr_callchain_sample uses the same order).
    fn by_branches(&mut self, sample: &Sample<'_>, branches: u64) -> Option<&[u8]> {
        if branches & branch::CALL_STACK == 0 || sample.branches.len() < 24 {
            return None;
        }
        let in_user = u64s(sample.chain).any(|word| word == CONTEXT_USER) || sample.chain.is_empty();
        let of = |i: usize| u64s(sample.branches).nth(i).filter(|ip| *ip != 0 && *ip < CONTEXT_MAX);
        let leaf = u64s(sample.chain).skip_while(|word| *word != CONTEXT_USER).nth(1);
        self.user.extend(leaf.or(Some(sample.ip)).filter(|_| in_user).or_else(|| of(1)));
        // A return address is after its call.
        self.user.extend((0..sample.branches.len() / 24).map_while(|i| of(3 * i)).map(|from| from + 1));
        Some(self.joined(sample))
    }
}

fn code_at(session: &Session, pid: i32, ip: u64) -> Option<(&Dso, u64)> {
    let map = session.user_map(pid, ip);
    (map != MapId::UNKNOWN).then(|| (session.dsos.of_map(map), session.dsos.map_of(map).to_dso(ip)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::kinds::Mmap;
    use crate::record::kinds::tests::bytes;
    use crate::session::Origin;

    #[test]
    fn calls_that_the_cpu_remembers_are_callers() {
        let mut chains = Chains::new(SymbolOptions::live());
        let session = Session::new(Origin::Recorded);
        let chain = bytes(&[CONTEXT_KERNEL, 0xffff_0000, CONTEXT_USER, 0x500, 0x77]);
        let branches = bytes(&[0x400, 0x4f0, 0, 0x300, 0x3f0, 0]);
        let sample = Sample { ip: 0xffff_0000, chain: &chain, branches: &branches, ..Sample::default() };
        let whole = chains.complete(&session, &sample, branch::CALL_STACK).expect("chain");
        let whole: Vec<u64> = u64s(whole).collect();
        assert_eq!(whole, [CONTEXT_KERNEL, 0xffff_0000, CONTEXT_USER, 0x500, 0x401, 0x301]);
        assert!(chains.complete(&session, &sample, 0).is_none());
    }

    #[test]
    fn a_dso_is_judged_by_the_stacks_that_break_off_in_it() {
        let mut session = Session::new(Origin::Recorded);
        for (start, name) in [(0x1000, &b"/a"[..]), (0x5000, b"/b"), (0x8000, b"//anon")] {
            let map = Mmap { pid: 5, tid: 5, start, len: 0x1000, prot: 5, name, ..Mmap::default() };
            session.apply(&crate::record::Record::Mmap(map), 0);
        }
        let judged = |stacks: &[&[u64]]| {
            let mut chains = Chains::new(SymbolOptions::live());
            for stack in stacks.iter().cycle().take(stacks.len() * ENOUGH as usize) {
                let chain = bytes(&[&[CONTEXT_KERNEL, 0xffff_0000, CONTEXT_USER], *stack].concat());
                chains.examine(&session, &Sample { pid: 5, chain: &chain, ..Sample::default() }, None);
            }
            chains.broken().map(|(dso, percent)| (session.dsos.get(dso).short.to_string(), percent.round() as u32))
        };
        let (whole, alone, broken): (&[u64], &[u64], &[u64]) = (&[0x1001, 0x1002], &[0x1001], &[0x1001, 0x1002, 7]);
        assert_eq!((judged(&[whole]), judged(&[alone])), (None, Some(("a".to_owned(), 100))));
        assert_eq!(judged(&[broken, broken, whole]), Some(("a".to_owned(), 67)));
        assert_eq!(judged(&[broken, whole]), None, "half of them is not most");
        // A break after another DSO's code belongs to that DSO.
        assert_eq!(judged(&[&[0x1001, 0x5001, 7]]), None);
        assert_eq!((judged(&[&[0x5001, 7], &[0x1001, 0x5001, 7]])), Some(("b".to_owned(), 100)));
        // Code of a JIT and unknown code are not evaluated.
        assert_eq!((judged(&[&[0x8001, 7]]), judged(&[&[0x9001, 7]]), judged(&[])), (None, None, None));
    }

    /// Returns the chain of a sleeping thread from its memory, and the files of its user part, innermost first.
    #[cfg(target_arch = "x86_64")]
    fn chain_of(is_it: impl Fn(&crate::session::BlockedThread) -> bool) -> (Vec<u64>, Vec<Option<String>>) {
        let asleep = || {
            let mut all = crate::kernel::blocked::threads(usize::MAX).into_iter();
            all.find(|one| one.call.is_some() && is_it(one))
        };
        let thread = std::iter::repeat_with(asleep).flatten().next().expect("asleep");
        let mut session = Session::new(Origin::Live);
        let pid = thread.pid;
        session.task(pid, thread.tid);
        let named = crate::session::NamedCall { thread, name: "read".to_owned() };
        let copy = session.sleeping_stacks(vec![named]).expect("a thread").recv().expect("a copy");
        let mut chains = Chains::new(SymbolOptions::live());
        let chain = loop {
            // Its tables are built meanwhile.
            if let Some(chain) = chains.of_sleeper(&session, &copy) {
                break u64s(chain).collect::<Vec<u64>>();
            }
            std::thread::yield_now();
        };
        let user = chain.iter().copied().skip_while(|word| *word != CONTEXT_USER).skip(1);
        let files = user.map(|ip| code_at(&session, pid, ip).map(|(dso, _)| dso.short.to_string())).collect();
        (chain, files)
    }

    /// No event shows the callers of a process that sleeps all the time.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_callers_of_a_sleeping_process_are_in_its_memory() {
        use std::process::{Command, Stdio};
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat");
        let pid = child.id() as i32;
        // It reads its input: call 0 of file 0.
        let (chain, files) =
            chain_of(|one| one.tid == pid && one.call.is_some_and(|(call, [file, _])| (call, file) == (0, 0)));
        child.kill().expect("killed");
        child.wait().expect("ended");
        let outermost = files.last().cloned().flatten();
        assert!(files.len() > 3 && !chain.contains(&NO_CODE) && outermost.as_deref() == Some("cat"), "{chain:x?}");
    }

    /// Rust's standard library has frame pointers, and the functions of the C library that it calls do not restore them.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_callers_of_a_thread_with_frame_pointers_are_in_its_memory() {
        if crate::kernel::bpf::calls::or_skipped(crate::kernel::blocked::registers::frame_pointers()).is_none() {
            return;
        }
        let (send, receive) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name("a sleeper".to_owned()).spawn(move || receive.recv().is_err());
        let own = std::process::id() as i32;
        let (chain, files) = chain_of(|one| one.pid == own && one.comm == b"a sleeper");
        drop(send);
        assert!(thread.is_ok_and(|thread| thread.join().is_ok_and(|ended| ended)));
        // The C library starts threads.
        let outermost = files.last().cloned().flatten().unwrap_or_default();
        assert!(!chain.contains(&NO_CODE) && outermost.starts_with("libc"), "{files:?} {chain:x?}");
    }
}
