//! `kvmmmu`: KVM's shadow pages: number per level, created and zapped.

use std::collections::BTreeMap;

use crate::lang::counted;
use crate::panel::row_order::arrange_by_key;
use crate::units::cpus::kvm_exit::NO_GUEST;
use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "kvmmmu",
    about: "KVM's shadow pages: made, reused and zapped, by level and generation",
    words: "vm guest shadow page memory",
    help: "KVM translates guest addresses by page tables of its own, whose pages are identified by guest frame and \
           role; the low four bits of the role are the level of the table. --spte also follows the entries that are \
           set in them (Linux 5.10 and later). The unit needs an x86 host of KVM guests.",
    example: "perfprof-tui kvmmmu --spte",
    output: "",
    options: &["spte"],
    sees: Sees::Machine,
    across: Some("pages that are made on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(KvmMmu::new(settings))),
};

const MAX_PAGES: usize = 1 << 21;

#[derive(Clone, Debug)]
struct Fields {
    generation: Option<Num>,
    gfn: Num,
    role: Option<Num>,
    created: Option<Num>,
    level: Option<Num>,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    entries: u64,
    /// Whether it was created on a selected CPU.
    counts: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    made: u64,
    reused: u64,
    zapped: u64,
    entries: u64,
}

#[derive(Clone, Debug, Default)]
struct KvmMmu {
    spte: bool,
    fields: [Option<Fields>; 3],
    /// By generation, guest frame and role.
    pages: OpenSpans<(u64, u64, u32), (), Page>,
    counts: BTreeMap<(u64, u8), Count>,
    alive: BTreeMap<u8, i64>,
    course: Grid<u8>,
    unknown: u64,
    over: u64,
}

impl KvmMmu {
    fn new(settings: &Settings) -> Self {
        let pages = OpenSpans::one_by_one().of_most(MAX_PAGES);
        Self { spte: settings.has("spte"), course: Grid::of_greatest(), pages, ..Self::default() }
    }

    fn live(&mut self, level: u8, by: i64, time: u64) {
        let alive = self.alive.entry(level).or_default();
        *alive = (*alive + by).max(0);
        self.course.add(&level, time, *alive as f64);
    }
}

/// `union kvm_mmu_page_role` (arch/x86/include/asm/kvm_host.h): the level is in the lowest four bits.
fn level_of(role: u32) -> u8 {
    (role & 0xf) as u8
}

impl Unit for KvmMmu {
    fn event_requests(&self) -> Vec<EventRequest> {
        let mut wants =
            vec![EventRequest::new("kvmmmu:kvm_mmu_get_page"), EventRequest::new("kvmmmu:kvm_mmu_prepare_zap_page")];
        wants.extend(self.spte.then(|| EventRequest::new("kvmmmu:kvm_mmu_set_spte").optional()));
        wants
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        let optional = |names: &[&str]| Num::any(event.format, names).ok();
        self.fields[event.role] = Some(Fields {
            generation: optional(&["mmu_valid_gen"]),
            gfn: Num::of(event.format, "gfn")?,
            role: optional(&["role"]),
            created: optional(&["created"]),
            level: optional(&["level"]),
        });
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(fields) = &self.fields[hit.role] else { return };
        let number = |num: &Option<Num>| num.as_ref().map_or(0, |num| num.get(hit.raw) as u64);
        let (generation, gfn, role) =
            (number(&fields.generation), fields.gfn.get(hit.raw) as u64, number(&fields.role) as u32);
        let key = (generation, gfn, role);
        let is_chosen = cx.counts(hit.cpu) && cx.has(hit.tid);
        match hit.role {
            0 => {
                let counts = is_chosen;
                let made = number(&fields.created) != 0 || fields.created.is_none();
                if counts {
                    let count = self.counts.entry((generation, level_of(role))).or_default();
                    *(if made { &mut count.made } else { &mut count.reused }) += 1;
                }
                if !made {
                    return;
                }
                if self.pages.len() >= MAX_PAGES {
                    self.over += 1;
                    return;
                }
                let before = self.pages.replace(key, (), hit.time, Page { entries: 0, counts });
                let is_more = i64::from(counts) - i64::from(before.is_some_and(|page| page.with.counts));
                self.live(level_of(role), is_more, hit.time);
            }
            1 => {
                let page = self.pages.take(&key);
                if !page.map_or(is_chosen, |page| page.with.counts) {
                    return;
                }
                self.counts.entry((generation, level_of(role))).or_default().zapped += 1;
                match page {
                    Some(_) => self.live(level_of(role), -1, hit.time),
                    None => self.unknown += 1,
                }
            }
            _ if !is_chosen => {}
            _ => {
                let level = number(&fields.level) as u8;
                self.counts.entry((0, level)).or_default().entries += 1;
                // The page that holds the entry covers the surrounding frames: nine bits per level.
                let mask = !((1u64 << (9 * u32::from(level.clamp(1, 6)))) - 1);
                let owner =
                    self.pages.iter_mut().find(|((_, base, role), _)| *base == gfn & mask && level_of(*role) == level);
                if let Some((_, page)) = owner.filter(|_| level >= 2) {
                    page.with.entries += 1;
                }
            }
        }
    }

    fn loss_text(&self) -> &'static str {
        "pages zapped meanwhile still count as alive"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let mut alive: BTreeMap<(u64, u8), u64> = BTreeMap::new();
        self.pages
            .iter()
            .filter(|(_, page)| page.with.counts)
            .for_each(|((generation, _, role), _)| *alive.entry((*generation, level_of(*role))).or_default() += 1);
        let table = Sheet::of(&self.counts, |(key, _)| id(key))
            .right("generation", "Generation", 10, |((generation, _), _)| Cell::Count(*generation))
            .right("level", "Level", 6, |((_, level), _)| Cell::Id((*level).into()))
            .right("alive", "Alive", 10, |(key, _)| Cell::Count(alive.get(key).copied().unwrap_or(0)))
            .right("made", "Made", 10, |(_, count)| Cell::Count(count.made))
            .right("reused", "Reused", 10, |(_, count)| Cell::Count(count.reused))
            .right("zapped", "Zapped", 10, |(_, count)| Cell::Count(count.zapped))
            .right("entries", "Entries set", 12, |(_, count)| Cell::Count(count.entries));
        let range = |gfn: u64, level: u8| {
            let size = 1u64.checked_shl(12 + 9 * u32::from(level)).unwrap_or(u64::MAX);
            let from = gfn << 12;
            format!("{from:#x} to {:#x}", from.saturating_add(size - 1))
        };
        let mut pages: Vec<_> = self.pages.iter().filter(|(_, page)| page.with.counts).collect();
        arrange_by_key(&mut pages, |(key, page)| (page.since, **key));
        let pages = Sheet::of(pages, |((_, gfn, role), _)| id(&(gfn, role)))
            .right("age_ns", "Age", 9, |(_, page)| Cell::Time(page.took(at.now)))
            .right("gfn", "Guest frame", 18, |((_, gfn, _), _)| Cell::Address(*gfn))
            .right("level", "Level", 6, |((.., role), _)| Cell::Id(level_of(*role).into()))
            .right("role", "Role", 12, |((.., role), _)| Cell::Address((*role).into()))
            .right("entries", "Entries set", 12, |(_, page)| Cell::Count(page.with.entries))
            .left("range", "Guest addresses", 40, |((_, gfn, role), _)| text(range(*gfn, level_of(*role))));
        let mut note = note(self.unknown, "zapped page", "made before the start");
        if self.counts.is_empty() && self.pages.is_empty() {
            note = NO_GUEST.to_owned();
        }
        if self.over > 0 {
            note = format!("{note} too many to follow: {}", counted(self.over, "page"));
        }
        vec![
            table.whole("Shadow pages").noted(note),
            pages.panel("Pages, the oldest first"),
            self.course.series("Pages over time, by level", at, Measure::Count, 8, |level| format!("level {level}")),
        ]
    }

    fn reset(&mut self, _now: u64) {
        self.counts.clear();
        self.unknown = 0;
    }
}
