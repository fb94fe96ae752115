//! Weighted stacks for flame graphs and folded text.

use std::sync::Arc;

use super::measure::Measure;
use crate::panel::row_order::{arrange, arrange_by_key};
use crate::session::DsoKind;

/// A function as shown in other tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FrameName {
    /// The function, or the DSO in brackets for an unknown one.
    pub(crate) text: Arc<str>,
    pub(crate) kind: DsoKind,
    pub(crate) dso: Arc<str>,
}

#[cfg(test)]
impl FrameName {
    /// Parses the frames of a stack as it is printed, from the root; kernel functions end in `_[k]`.
    pub(crate) fn parse_all(stack: &str) -> Vec<Self> {
        let name = |word: &str| {
            let (text, kind) = word.strip_suffix("_[k]").map_or((word, DsoKind::File), |text| (text, DsoKind::Kernel));
            Self { text: text.into(), kind, dso: "".into() }
        };
        stack.rsplit(" < ").map(name).collect()
    }
}

/// The frame between a stack and an inverted one on top of it.
pub const DIVIDER: &str = "--";

/// A stack and its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// The thread's name, then functions from the root.
    pub frames: Vec<FrameName>,
    pub(crate) weight: u64,
    /// The number of occurrences.
    pub count: u64,
}

impl Stack {
    /// Creates a stack of a thread, with count and weight in `stats`.
    pub(crate) fn of(comm: Arc<str>, functions: Vec<FrameName>, stats: (u64, u64)) -> Self {
        let mut frames = vec![FrameName { text: comm, kind: DsoKind::Unknown, dso: "".into() }];
        frames.extend(functions);
        Self { frames, weight: stats.0, count: stats.1 }
    }
}

/// Stacks, the heaviest first.
#[derive(Debug, PartialEq)]
pub struct Stacks {
    pub(crate) measure: Measure,
    pub(crate) stacks: Vec<Stack>,
}

impl Stacks {
    /// Creates the list and adds up equal stacks.
    pub fn new(measure: Measure, mut list: Vec<Stack>) -> Self {
        let dsos = |stack: &Stack| stack.frames.iter().map(|name| name.dso.clone()).collect::<Vec<_>>();
        arrange(&mut list, |a, b| texts(a).cmp(texts(b)).then_with(|| dsos(a).cmp(&dsos(b))));
        list.dedup_by(|next, kept| {
            let same = texts(next).eq(texts(kept));
            if same {
                kept.weight += next.weight;
                kept.count += next.count;
            }
            same
        });
        list.retain(|stack| stack.weight > 0);
        arrange_by_key(&mut list, |stack| std::cmp::Reverse(stack.weight));
        Self { measure, stacks: list }
    }

    /// Formats folded text for flamegraph.pl: `[prefix;]comm;root;…;leaf N`.
    pub fn folded(&self, prefix: &str) -> String {
        let mut out = String::new();
        for stack in &self.stacks {
            let names: Vec<String> = stack.frames.iter().map(|name| frame(&name.text)).collect();
            out.push_str(prefix);
            out.push_str(&format!("{} {}\n", names.join(";"), stack.weight));
        }
        out
    }
}

fn texts(stack: &Stack) -> impl Iterator<Item = &Arc<str>> {
    stack.frames.iter().map(|name| &name.text)
}

/// Replaces `;` in a name, because it separates frames.
fn frame(text: &Arc<str>) -> String {
    super::text::clean(text).replace(';', ":")
}
