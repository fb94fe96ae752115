//! The profile as a tree of names, for flame graphs: comm, then functions from the root on, each with
//! its weight; and the edits that change stacks.

use std::sync::{Arc, OnceLock};

use crate::profile::Acc;
use crate::profile::frames::INLINED;
use crate::session::DsoKind;

use super::Data;
use super::context::{IRQ, SOFTIRQ, is_system_vector};
use super::diff::{Per, Side};
use super::fold::Fold;
use super::named::Name;

mod build;
pub mod leaves;
mod weights;

use build::{Before, Builder};
use leaves::Leaves;
use weights::Weights;

/// A change to every stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Edit {
    /// Stacks begin at this function; those without it are left out.
    Focus(Arc<str>),
    /// This function's time counts for its caller.
    MergeFunction(Arc<str>),
    /// All of a DSO's functions count for their callers.
    MergeDso(Arc<str>),
    /// A function that calls itself directly is one frame.
    CollapseRecursion,
    /// Frames that have one child only and no time of their own are drawn as one with it.
    CollapseChains,
    /// Frames are DSOs instead of functions.
    ByDso,
}

impl Edit {
    /// As a command, for the list of edits.
    pub fn words(&self) -> String {
        match self {
            Self::Focus(name) => format!("focus {name}"),
            Self::MergeFunction(name) => format!("merge {name}"),
            Self::MergeDso(name) => format!("merge-dso {name}"),
            Self::CollapseRecursion => "recursion".into(),
            Self::CollapseChains => "chains".into(),
            Self::ByDso => "by-dso".into(),
        }
    }
}

/// What kind of code a frame is, by its file and by what it runs inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    Thread,
    Kernel,
    Softirq,
    Irq,
    User,
    Library,
    Jit,
    /// Inlined into the frame that it stands on.
    Inlined,
    Unknown,
}

impl Class {
    /// The letter that says it without colour.
    pub fn letter(self) -> char {
        match self {
            Self::Thread => '#',
            Self::Kernel => 'k',
            Self::Softirq => 's',
            Self::Irq => 'h',
            Self::User => 'u',
            Self::Library => 'l',
            Self::Jit => 'j',
            Self::Inlined => 'i',
            Self::Unknown => '?',
        }
    }
}

/// A weight now, and in what it is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Both {
    pub new: Acc,
    /// Nothing when there is no comparison.
    pub old: Acc,
}

impl Both {
    pub fn is_zero(&self) -> bool {
        self.new.is_zero() && self.old.is_zero()
    }

    /// What it is now of what a whole is now, in percent.
    pub fn percent_of(&self, whole: &Self) -> f64 {
        self.new.percent_of(&whole.new)
    }
}

impl std::ops::AddAssign for Both {
    fn add_assign(&mut self, other: Self) {
        self.new += other.new;
        self.old += other.old;
    }
}

impl std::iter::Sum for Both {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |mut sum, both| {
            sum += both;
            sum
        })
    }
}

/// What a tree is compared with: the same nodes' weights there.
#[derive(Debug)]
struct Then {
    total: Weights,
    per: Per,
    /// By what weights of now and then are multiplied to become widths.
    scale: (u64, u64),
    /// How many seconds it was then and is now.
    seconds: (f64, f64),
}

/// The tree. Node 0 is the root; a parent's id is less than its children's.
#[derive(Debug, Default)]
pub struct FlameTree {
    pub names: Vec<Name>,
    /// Where each name stands in the alphabet.
    rank: Vec<u32>,
    parent: Vec<u32>,
    name: Vec<u32>,
    total: Weights,
    then: Option<Then>,
    class: Vec<Class>,
    starts: Vec<u32>,
    children: Vec<u32>,
    leaves: OnceLock<Leaves>,
}

/// Whole factors that make two sides comparable, small enough that no product overflows.
fn scale(new: &Side, old: &Side, per: Per) -> (u64, u64) {
    let (a, b) = match per {
        Per::Total => (new.total.period, old.total.period),
        Per::Second => ((new.seconds * 1e3) as u64, (old.seconds * 1e3) as u64),
        Per::Nothing => (1, 1),
    };
    let (a, b) = (a.max(1), b.max(1));
    let shift = 32u32.saturating_sub(a.max(b).leading_zeros());
    ((b >> shift).max(1), (a >> shift).max(1))
}

/// One side of a tree: its samples, and how they compare.
#[derive(Clone, Copy)]
pub struct Stacks<'a> {
    pub data: Data<'a>,
    pub fold: &'a Fold,
    pub side: Side,
}

impl FlameTree {
    /// Builds the tree of a fold's samples.
    pub fn build(data: Data<'_>, fold: &Fold, edits: &[Edit]) -> Self {
        let mut b = Builder::new(data, edits);
        let own = b.add(fold);
        b.finish(own, None)
    }

    /// Builds the tree of stacks that are names already, root first.
    pub fn of_names<'a>(stacks: impl Iterator<Item = (&'a [Name], Acc)>) -> Self {
        build::of_names(stacks)
    }

    /// Builds one tree of two folds: frames of the same name under the same caller are one node.
    pub fn compare(new: Stacks<'_>, old: Stacks<'_>, per: Per, edits: &[Edit]) -> Self {
        let mut b = Builder::new(new.data, edits);
        let now = b.add(new.fold);
        let mut b = b.turn_to(old.data);
        let then = b.add(old.fold);
        let seconds = (old.side.seconds, new.side.seconds);
        b.finish(now, Some(Before { own: then, per, scale: scale(&new.side, &old.side, per), seconds }))
    }

    fn classify(&mut self) {
        let by_name: Vec<Class> = self.names.iter().map(class_of).collect();
        let enters = |list: &[&str]| -> Vec<bool> {
            self.names.iter().map(|n| n.text.split(" › ").any(|part| list.contains(&part))).collect()
        };
        let (soft, hard) = (enters(SOFTIRQ), enters(IRQ));
        let vector = |i: u32| is_system_vector(&self.names[i as usize].text);
        self.class = vec![Class::Thread; self.parent.len()];
        for i in 1..self.parent.len() {
            let (up, name) = (self.parent[i] as usize, self.name[i]);
            if up == 0 {
                continue;
            }
            let own = by_name[name as usize];
            self.class[i] = match self.class[up] {
                _ if own != Class::Kernel => own,
                _ if soft[name as usize] => Class::Softirq,
                Class::Softirq => Class::Softirq,
                _ if hard[name as usize] || vector(name) => Class::Irq,
                Class::Irq => Class::Irq,
                _ => own,
            };
        }
    }

    /// Lists each node's children, the heaviest first.
    fn link(&mut self) {
        let n = self.parent.len();
        let mut starts = vec![0u32; n + 1];
        (1..n).for_each(|i| starts[self.parent[i] as usize] += 1);
        (0..n).for_each(|i| starts[i + 1] += starts[i]);
        // Each parent's part is filled from its end, so that its start is where it belongs at last.
        let mut children = vec![0u32; n.saturating_sub(1)];
        for i in (1..n as u32).rev() {
            let slot = &mut starts[self.parent[i as usize] as usize];
            *slot -= 1;
            children[*slot as usize] = i;
        }
        for i in 0..n {
            let part = &mut children[starts[i] as usize..starts[i + 1] as usize];
            part.sort_unstable_by_key(|c| {
                (std::cmp::Reverse(self.width(self.total(*c))), self.rank[self.name[*c as usize] as usize])
            });
        }
        (self.starts, self.children) = (starts, children);
    }

    pub fn len(&self) -> usize {
        self.parent.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() <= 1
    }

    pub fn children(&self, node: u32) -> &[u32] {
        &self.children[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }

    /// Where stacks end.
    pub fn leaves(&self) -> &Leaves {
        self.leaves.get_or_init(|| Leaves::new(self))
    }

    pub fn parent(&self, node: u32) -> u32 {
        self.parent[node as usize]
    }

    /// Index into `names`; the root has none.
    pub fn name(&self, node: u32) -> u32 {
        self.name[node as usize]
    }

    pub fn class(&self, node: u32) -> Class {
        self.class[node as usize]
    }

    /// What ends in a node, now and then: what its children leave of it.
    pub fn own(&self, node: u32) -> Both {
        let left = |total: &Weights| {
            let mut left = total.get(node);
            self.children(node).iter().for_each(|child| left -= total.get(*child));
            left
        };
        let old = self.then.as_ref().map_or_else(Acc::default, |then| left(&then.total));
        Both { new: left(&self.total), old }
    }

    /// What goes through a node, now and then.
    pub fn total(&self, node: u32) -> Both {
        let old = self.then.as_ref().map_or_else(Acc::default, |then| then.total.get(node));
        Both { new: self.total.get(node), old }
    }

    /// How wide a weight is drawn: of a comparison, both sides together.
    pub fn width(&self, both: Both) -> u128 {
        let (new, old) = self.scale();
        u128::from(both.new.period) * u128::from(new) + u128::from(both.old.period) * u128::from(old)
    }

    /// By what weights of now and then are multiplied to become widths.
    pub fn scale(&self) -> (u64, u64) {
        self.then.as_ref().map_or((1, 0), |then| then.scale)
    }

    /// How many seconds it was then and is now.
    pub fn seconds(&self) -> (f64, f64) {
        self.then.as_ref().map_or((0.0, 0.0), |then| then.seconds)
    }

    /// How sides are compared, if they are.
    pub fn per(&self) -> Option<Per> {
        self.then.as_ref().map(|then| then.per)
    }

    /// Where a name stands in the alphabet.
    pub fn rank(&self, name: u32) -> u32 {
        self.rank[name as usize]
    }

    /// Weight of all stacks through a function that matches, each stack counted once, and how many
    /// frames match.
    pub fn share(&self, matches: &[bool]) -> (Both, usize) {
        let mut inside = vec![false; self.len()];
        let (mut sum, mut count) = (Both::default(), 0);
        for i in 1..self.len() {
            let up = inside[self.parent[i] as usize];
            let own = matches[self.name[i] as usize];
            count += usize::from(own);
            if own && !up {
                sum += self.total(i as u32);
            }
            inside[i] = up || own;
        }
        (sum, count)
    }
}

fn class_of(name: &Name) -> Class {
    match name.kind {
        kind if kind.is_kernel() => Class::Kernel,
        _ if name.text.ends_with(INLINED) => Class::Inlined,
        DsoKind::File | DsoKind::Vdso if name.dso.contains(".so") || name.kind == DsoKind::Vdso => Class::Library,
        DsoKind::File => Class::User,
        DsoKind::Anon => Class::Jit,
        _ => Class::Unknown,
    }
}

#[cfg(test)]
mod tests;
