//! The ABI of system calls, and the calls in which threads are blocked.

pub(crate) use crate::event::calls::{Abi, Call, CallTables, error_name, native_calls};
use crate::record::sample::UserState;
use crate::session::BlockedThread;

impl Call {
    pub(super) fn of_blocked(thread: &BlockedThread) -> Option<Self> {
        let abi = if thread.is_32_bit { Abi::Compat } else { Abi::Native };
        thread.call.map(|(number, _)| Self { number, abi })
    }
}

/// Determines the ABI of calls from the user registers at their entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct AbiReader {
    is_x86_64: bool,
    /// Whether a call was seen with its return address in `rcx`, where the `syscall` instruction stores it. CPUs with
    /// FRED never do, so that another `rcx` is not conclusive on them.
    leaves_address: bool,
}

/// `PERF_SAMPLE_REGS_ABI_*`.
const REGS_ABI_32: u64 = 1;
const REGS_ABI_64: u64 = 2;
/// Indexes of rcx and rip (arch/x86/include/uapi/asm/perf_regs.h).
const CX: u32 = 2;
const IP: u32 = 8;

/// The registers that determine the ABI, as bits of `sample_regs_user`.
/// On Arm the registers' ABI suffices, but the kernel requires at least one register.
pub(crate) const REGISTERS: u64 = if cfg!(target_arch = "x86_64") { 1 << CX | 1 << IP } else { 1 };

impl AbiReader {
    pub(crate) fn of(tables: CallTables) -> Self {
        Self { is_x86_64: tables == CallTables::X86_64, leaves_address: false }
    }

    /// Returns the ABI of a call at its start; `None` if its sample has no registers.
    pub(crate) fn read(&mut self, user: &UserState<'_>) -> Option<Abi> {
        match user.abi {
            REGS_ABI_32 => Some(Abi::Compat),
            REGS_ABI_64 => {
                let pair = user.register(CX).zip(user.register(IP)).filter(|_| self.is_x86_64);
                let same = pair.is_none_or(|(cx, ip)| cx == ip);
                self.leaves_address |= pair.is_some() && same;
                Some(if same || !self.leaves_address { Abi::Native } else { Abi::Compat })
            }
            _ => None,
        }
    }
}

/// Returns the name of the call in which a thread of this machine is blocked.
pub(crate) fn name_of_blocked(thread: &BlockedThread) -> Option<String> {
    Call::of_blocked(thread).map(|call| CallTables::of("").name(call))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_tell_the_abi() {
        let bytes = |cx: u64, ip: u64| [cx.to_le_bytes(), ip.to_le_bytes()].concat();
        let mut reader = AbiReader::of(CallTables::X86_64);
        let mut read = |abi, cx, ip| {
            let regs = bytes(cx, ip);
            reader.read(&UserState { abi, mask: 1 << CX | 1 << IP, regs: &regs, ..UserState::default() })
        };
        assert_eq!(read(0, 0, 0), None);
        assert_eq!(read(REGS_ABI_32, 5, 7), Some(Abi::Compat));
        // Until the CPU has stored the address once, another rcx is not conclusive.
        assert_eq!(read(REGS_ABI_64, 5, 7), Some(Abi::Native));
        assert_eq!(read(REGS_ABI_64, 7, 7), Some(Abi::Native));
        assert_eq!(read(REGS_ABI_64, 5, 7), Some(Abi::Compat));
        let few =
            UserState { abi: REGS_ABI_64, mask: 1 << IP, regs: &[7, 0, 0, 0, 0, 0, 0, 0], ..UserState::default() };
        assert_eq!(reader.read(&few), Some(Abi::Native));
        let mut arm = AbiReader::of(CallTables::Aarch64);
        assert_eq!(arm.read(&UserState { abi: REGS_ABI_32, ..UserState::default() }), Some(Abi::Compat));
        assert_eq!(arm.read(&few), Some(Abi::Native));
    }
}
