//! Pools frames that are too narrow to draw: by module if the module is wide enough, then the rest.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::lang::counted;
use crate::panel::row_order::{arrange, arrange_by_key};
use crate::panel::stacks::FrameName;
use crate::query::flame::{Class, WeightPair};
use crate::session::DsoKind;

use super::FlameBlock;
use super::group::FrameGroup;
use super::positions::{BlockPlace, CELL, FlameLayout, PlacedGroup, id};

/// Adjacent groups that are too narrow to draw.
pub(super) struct NarrowPool<'a> {
    /// The module of all of them; `None` if there are several.
    pub(super) module: Option<FrameName>,
    pub(super) sum: WeightPair,
    pub(super) frames: Vec<FrameGroup<'a>>,
}

/// Returns a module's title: the kernel, or a file without its brackets.
pub(super) fn module_name(of: &FrameName) -> &str {
    if of.kind == DsoKind::Kernel { "kernel" } else { of.dso.trim_matches(['[', ']']) }
}

impl<'a> FlameLayout<'a> {
    /// Pools narrow groups: by modules that are wide enough, then the rest. Modules are in the order of the spec.
    pub(super) fn pools(&self, narrow: Vec<FrameGroup<'a>>, width: u128, whole: u128) -> Vec<NarrowPool<'a>> {
        let mut rest = NarrowPool { module: None, sum: WeightPair::default(), frames: Vec::new() };
        let mut modules: FxHashMap<&Arc<str>, NarrowPool<'a>> = FxHashMap::default();
        for child in narrow {
            let name = &self.tree.names()[child.name as usize];
            let pool = match name.kind == DsoKind::Unknown || name.dso.is_empty() {
                true => &mut rest,
                false => modules.entry(&name.dso).or_insert_with(|| NarrowPool {
                    module: Some(name.clone()),
                    sum: WeightPair::default(),
                    frames: Vec::new(),
                }),
            };
            pool.sum += child.total;
            pool.frames.push(child);
        }
        let mut pools: Vec<(&Arc<str>, NarrowPool<'a>)> = modules.into_iter().collect();
        arrange(&mut pools, |(a, _), (b, _)| a.cmp(b));
        if self.spec.by_weight {
            arrange_by_key(&mut pools, |(_, pool)| std::cmp::Reverse(self.width(pool.sum)));
        }
        let mut out = Vec::new();
        for (_, pool) in pools {
            if width * self.width(pool.sum) >= u128::from(CELL) * whole {
                out.push(pool);
            } else {
                rest.sum += pool.sum;
                rest.frames.extend(pool.frames);
            }
        }
        out.extend(Some(rest).filter(|rest| !rest.frames.is_empty()));
        out
    }

    /// Draws several frames as one block, and on top of it their common frames that are wide enough.
    pub(super) fn pool(
        &mut self,
        pool: NarrowPool<'a>,
        parent: WeightPair,
        at: BlockPlace,
        row: i32,
    ) -> Option<PlacedGroup<'a>> {
        let has_room = u64::from(at.x1 - at.x0) >= CELL;
        if !has_room {
            self.narrow += pool.sum;
        }
        if at.x1 <= at.x0 {
            return None;
        }
        let frames = pool.frames.len();
        let class = pool.frames.iter().map(|frame| frame.class).min().unwrap_or(Class::Unknown);
        let shared = FrameGroup::shared(self.tree, pool.frames)?;
        let (name, dso, class) = match &pool.module {
            Some(module) => {
                (format!("{}: {}", module_name(module), counted(frames as u64, "function")), module.dso.clone(), class)
            }
            None => (counted(frames as u64, "other"), "".into(), Class::Unknown),
        };
        let id = match &pool.module {
            Some(module) => id(at.id, ("module", &module.dso), at.depth),
            None => id(at.id, "others", at.depth),
        };
        self.out.blocks.push(FlameBlock {
            id,
            row,
            x0: at.x0,
            x1: at.x1,
            name: name.into(),
            dso,
            class,
            own: shared.own,
            total: pool.sum,
            parent,
            verdict: self.verdict(pool.sum),
            below: at.block,
            chain: Vec::new(),
            pooled: frames,
            small: 0,
            processes: 0,
            found: false,
        });
        self.reach(at.depth);
        let spot = BlockPlace { block: Some(self.out.blocks.len() - 1), id, ..at };
        has_room.then_some(PlacedGroup { group: shared, spot, above: None })
    }
}
