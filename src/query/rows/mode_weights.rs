//! Each row's own weight in kernel and user mode, including guests.

use rustc_hash::FxHashMap;

use crate::profile::{Acc, NodeId};
use crate::session::DsoKind;

use super::top::{LabelMode, Top, TopRow};
use crate::query::data::Data;

/// A CPU mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuMode {
    /// The kernel's code.
    Kernel,
    /// All other code.
    User,
    /// The kernel of a guest.
    GuestKernel,
    /// The programs of a guest.
    GuestUser,
}

/// The weights of rows in each mode, by group and label.
#[derive(Debug, Default)]
pub(crate) struct ModeWeights(FxHashMap<(u32, u32), [Acc; 4]>);

impl ModeWeights {
    pub(crate) fn of(data: Data<'_>, top: &Top) -> Self {
        let mut out = Self::default();
        for (group, range) in (0..).zip(&top.ranges) {
            for (stack, acc) in top.sites[range.clone()].iter().filter(|(stack, _)| *stack != 0) {
                let frame = data.profile.trie.frame(NodeId(*stack));
                let sym = data.profile.frames.sym_of(frame);
                let mode = match data.profile.frames.sym(sym).kind {
                    kind if kind.is_kernel() => CpuMode::Kernel,
                    // In guests, too, the kernel has the upper half of the address space.
                    DsoKind::Guest if (data.profile.frames.get(frame).ip as i64) < 0 => CpuMode::GuestKernel,
                    DsoKind::Guest => CpuMode::GuestUser,
                    _ => CpuMode::User,
                };
                let label = if top.labels.mode == LabelMode::None { 0 } else { top.labels.mode.label(data, sym) };
                out.0.entry((group, label)).or_default()[mode as usize] += *acc;
            }
        }
        out
    }

    pub(crate) fn get(&self, row: &TopRow, mode: CpuMode) -> Acc {
        self.0.get(&(row.group, row.label)).map_or(Acc::default(), |modes| modes[mode as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::staged::Staged;
    use crate::query::{ColumnKey, TopSpec};

    #[test]
    fn a_tasks_time_is_split_by_where_it_was() {
        let mut staged = Staged::default();
        for (pid, stack, weight) in [
            (1, &["main"][..], 1),
            (1, &["main", "kernel:read"], 2),
            (2, &["main", "f"], 4),
            (1, &["main", "kernel:write"], 8),
        ] {
            staged.sample(1, pid, stack, weight);
        }
        let top = staged.top(&TopSpec { keys: vec![ColumnKey::Pid], ..TopSpec::default() });
        let weights = ModeWeights::of(staged.data(), &top);
        let of = |row: &TopRow| {
            let pid = top.groups[row.group as usize].id(ColumnKey::Pid).unwrap_or_default();
            (pid, weights.get(row, CpuMode::Kernel).period, weights.get(row, CpuMode::User).period)
        };
        let mut rows: Vec<_> = top.rows.iter().map(of).collect();
        rows.sort_unstable();
        assert_eq!(rows, [(1, 10, 1), (2, 0, 4)]);
    }
}
