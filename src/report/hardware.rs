//! Tables of hardware data (branches, memory accesses, transactions), with one row per combination of key values.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ingest::hardware::{Detail, HardwareLog, HardwareWords};
use crate::kernel::attr::sample;
use crate::panel::row_order::arrange;
use crate::panel::table::{Cell, Column, Table};
use crate::profile::{Acc, FrameId, NodeId, Sym};
use crate::query::aggregate::filter_eval::FilterEvaluator;
use crate::query::column::sort_words;
use crate::query::column::{self, ColumnInput, ColumnValue};
use crate::query::{ColumnKey, Data};
use crate::record::hardware::{BranchFlags, DataSource, page_size, transaction};
use crate::session::Task;
use crate::symbols::lines::SourceLine;
use crate::symbols::objects::Objects;

/// A key of the rows.
#[derive(Clone, Copy, Debug)]
pub struct HardwareKey {
    /// The name in `--sort`, as in perf (perf-report(1)).
    pub name: &'static str,
    title: &'static str,
    is_number: bool,
    /// The hardware data that it belongs to.
    pub of: HardwareWords,
    /// Whether any event's samples and branches have it, not only memory accesses.
    pub of_any_sample: bool,
    /// Whether a row has the sum of its samples' values.
    is_sum: bool,
    /// Whether it is a line of source code.
    pub is_of_line: bool,
    /// The optional sample field that it is read from.
    pub needs: Option<NeededField>,
    value: fn(&mut RowInput<'_>) -> ColumnValue,
}

/// A field of samples (`PERF_SAMPLE_*`), and the perf record option to enable it.
#[derive(Clone, Copy, Debug)]
pub struct NeededField {
    /// Its bit.
    pub bit: u64,
    /// The description of its content.
    pub what: &'static str,
    /// The option.
    pub option: &'static str,
}

/// A typed key: of hardware data, or of any table.
#[derive(Clone, Copy, Debug)]
pub enum Key {
    /// Hardware data of a sample.
    Hardware(&'static HardwareKey),
    /// A column of any table.
    Column(ColumnKey),
}

struct RowInput<'a> {
    data: Data<'a>,
    objects: &'a mut Objects,
    detail: Detail,
    task: &'a Task,
    cpu: u16,
    code: Option<FrameId>,
}

const fn of(
    name: &'static str,
    title: &'static str,
    of: HardwareWords,
    value: fn(&mut RowInput<'_>) -> ColumnValue,
) -> HardwareKey {
    let (is_number, of_any_sample, is_sum, is_of_line) = (false, false, false, false);
    HardwareKey { name, title, is_number, of, of_any_sample, is_sum, is_of_line, needs: None, value }
}

impl HardwareKey {
    const fn number(self) -> Self {
        Self { is_number: true, ..self }
    }

    const fn of_any_sample(self) -> Self {
        Self { of_any_sample: true, ..self }
    }

    const fn summed(self) -> Self {
        Self { is_sum: true, ..self.number() }
    }

    const fn of_line(self) -> Self {
        Self { is_of_line: true, ..self }
    }

    const fn needing(self, bit: u64, what: &'static str, option: &'static str) -> Self {
        Self { needs: Some(NeededField { bit, what, option }), ..self }
    }
}

use HardwareWords::{Accesses, Branches};

/// Bytes of a cache line on x86-64 and AArch64.
const CACHE_LINE: u64 = 64;

/// All keys, with perf's names (perf-report(1), --sort).
pub const KEYS: &[HardwareKey] = &[
    of("dso_from", "Source DSO", Branches, |of| of.dso(of.detail.from)),
    of("symbol_from", "Source", Branches, |of| of.symbol(of.detail.from)),
    of("dso_to", "Target DSO", Branches, |of| of.dso(of.detail.to)),
    of("symbol_to", "Target", Branches, |of| of.symbol(of.detail.to)),
    of("mispredict", "Mispredicted", Branches, |of| {
        text(match of.flags().is_mispredicted() {
            Some(true) => "Y",
            Some(false) => "N",
            None => "N/A",
        })
    }),
    of("in_tx", "Transaction", Branches, |of| text(if of.flags().is_in_transaction() { "T" } else { "." })),
    of("abort", "Abort", Branches, |of| text(if of.flags().is_abort() { "A" } else { "." })),
    of("cycles", "Cycles", Branches, |of| {
        of.flags().cycles().map_or_else(|| text("-"), |cycles| ColumnValue::Number(cycles.into()))
    })
    .number(),
    of("addr_from", "Source address", Branches, |of| of.place(of.detail.from)),
    of("addr_to", "Target address", Branches, |of| of.place(of.detail.to)),
    of("srcline_from", "Source line", Branches, |of| of.line(of.detail.from)).of_line(),
    of("srcline_to", "Target line", Branches, |of| of.line(of.detail.to)).of_line(),
    of("local_weight", "Local weight", Accesses, |of| of.weight()).number().of_any_sample(),
    of("weight", "Weight", Accesses, |of| of.weight()).summed().of_any_sample(),
    of("local_ins_lat", "Latency", Accesses, |of| of.latency()).number().of_any_sample(),
    of("ins_lat", "All latency", Accesses, |of| of.latency()).summed().of_any_sample(),
    of("mem", "Memory", Accesses, |of| text(&of.source().level())),
    of("symbol_daddr", "Data symbol", Accesses, |of| of.object(1)),
    of("dso_daddr", "Data object", Accesses, |of| of.dso(of.detail.data)),
    of("dcacheline", "Data cache line", Accesses, |of| of.object(CACHE_LINE)),
    of("symbol_iaddr", "Code symbol", Accesses, |of| of.symbol(of.code)),
    of("phys_daddr", "Physical address", Accesses, |of| text(&format!("{:#018x}", of.detail.phys_addr))).needing(
        sample::PHYS_ADDR,
        "physical addresses",
        "--phys-data",
    ),
    of("data_page_size", "Data page", Accesses, |of| text(&page_size(of.detail.data_page))).needing(
        sample::DATA_PAGE_SIZE,
        "data page sizes",
        "--data-page-size",
    ),
    of("code_page_size", "Code page", Accesses, |of| text(&page_size(of.detail.code_page)))
        .needing(sample::CODE_PAGE_SIZE, "code page sizes", "--code-page-size")
        .of_any_sample(),
    of("snoop", "Snoop", Accesses, |of| text(&of.source().snoop())),
    of("tlb", "TLB", Accesses, |of| text(&of.source().tlb())),
    of("locked", "Locked", Accesses, |of| text(of.source().locked())),
    of("blocked", "Blocked", Accesses, |of| text(of.source().blocked())),
    of("transaction", "Transaction", Accesses, |of| text(&transaction(of.detail.transaction))).of_any_sample(),
];

/// Returns perf's default keys.
pub fn usual(words: HardwareWords) -> &'static str {
    match words {
        Branches => "comm,dso_from,symbol_from,symbol_to,cycles",
        Accesses => "local_weight,mem,sym,dso,symbol_daddr,dso_daddr,snoop,tlb,locked,blocked,local_ins_lat",
    }
}

fn text(text: &str) -> ColumnValue {
    ColumnValue::Text(text.into())
}

impl RowInput<'_> {
    fn flags(&self) -> BranchFlags {
        BranchFlags(self.detail.flags)
    }

    fn source(&self) -> DataSource {
        DataSource(self.detail.source)
    }

    fn sym(&self, frame: Option<FrameId>) -> Option<&Sym> {
        frame.map(|frame| self.data.profile.frames.sym(self.data.profile.frames.sym_of(frame)))
    }

    fn dso(&self, frame: Option<FrameId>) -> ColumnValue {
        self.sym(frame).map_or_else(|| text(""), |sym| ColumnValue::Text(sym.dso_name.clone()))
    }

    fn symbol(&self, frame: Option<FrameId>) -> ColumnValue {
        self.sym(frame).map_or_else(|| text(""), |sym| ColumnValue::Text(sym.shared_name()))
    }

    fn weight(&self) -> ColumnValue {
        ColumnValue::Number(self.detail.weight as i64)
    }

    fn latency(&self) -> ColumnValue {
        ColumnValue::Number(self.detail.latency.into())
    }

    /// Returns the function and the offset of an address; the address if the function is unknown.
    fn place(&self, frame: Option<FrameId>) -> ColumnValue {
        let Some((frame, sym)) = frame.zip(self.sym(frame)) else { return text("") };
        let place = self.data.profile.frames.get(frame);
        let (ip, at) = (place.ip, place.place(&self.data.session.dsos).1);
        match (&sym.function, sym.offset(at)) {
            (Some(name), Some(inside)) => text(&format!("{name}+{inside:#x}")),
            _ => text(&format!("{ip:#018x}")),
        }
    }

    /// Returns the line of an address in perf's format, also for an unknown line.
    fn line(&self, frame: Option<FrameId>) -> ColumnValue {
        let line = frame.and_then(|frame| self.data.profile.frames.line(frame)).filter(|line| line.line > 0);
        text(&line.map_or_else(|| "??:0".to_owned(), SourceLine::short))
    }

    /// Returns the data object at an address, and the offset into it.
    /// The address is rounded down to `bytes`. Without an object, returns the function; else the address.
    fn object(&mut self, bytes: u64) -> ColumnValue {
        let Some(frame) = self.detail.data else { return text("") };
        let mut place = self.data.profile.frames.get(frame);
        let dsos = &self.data.session.dsos;
        let (dso, offset) = place.place(dsos);
        let before = place.ip % bytes;
        place.ip -= before;
        let found = offset.checked_sub(before).and_then(|offset| self.objects.find(dsos.get(dso), offset));
        match found {
            Some((name, _))
                if bytes == 1 && self.sym(Some(frame)).is_some_and(|sym| sym.function.as_ref() == Some(&name)) =>
            {
                ColumnValue::Text(name)
            }
            Some((name, inside)) => text(&format!("{name}+{inside:#x}")),
            None => text(&format!("{:#018x}", place.ip)),
        }
    }
}

impl Key {
    /// Returns a key by its name, or by a prefix that perf accepts.
    pub fn named(word: &str) -> Option<Self> {
        let whole = |name: &str| {
            let own = KEYS.iter().find(|key| key.name == name).map(Self::Hardware);
            own.or_else(|| Some(Self::Column(column::ColumnKey::parse_list(name).ok()?.first().copied()?)))
        };
        whole(word).or_else(|| sort_words::begun(word).and_then(whole))
    }

    /// Returns the hardware data that it belongs to, if it is only one kind.
    pub fn words(self) -> Option<HardwareWords> {
        match self {
            Self::Hardware(key) => Some(key.of),
            Self::Column(_) => None,
        }
    }

    /// Returns whether only memory accesses have it.
    pub fn is_of_memory(self) -> bool {
        matches!(self, Self::Hardware(key) if key.of == HardwareWords::Accesses && !key.of_any_sample)
    }

    fn value(self, of: &mut RowInput<'_>) -> ColumnValue {
        match self {
            Self::Hardware(key) => (key.value)(of),
            Self::Column(ColumnKey::Dso) => of.dso(of.code),
            Self::Column(ColumnKey::Sym) => of.symbol(of.code),
            Self::Column(key) => {
                let input = ColumnInput {
                    data: of.data,
                    task: of.task,
                    cpu: of.cpu,
                    trace: 0,
                    values: None,
                    stack: NodeId::ROOT,
                };
                key.entry().value.map_or_else(|| text(""), |value| value(&input, key))
            }
        }
    }

    fn column(self) -> Column {
        let (name, title, is_number) = match self {
            Self::Hardware(key) => (key.name, key.title, key.is_number),
            Self::Column(key) => (key.name(), key.title(), key.entry().is_number),
        };
        if is_number { Column::figures(name, title) } else { Column::texts(name, title) }
    }
}

/// The rows of one event, heaviest first, and their total.
#[derive(Debug, Default)]
pub struct HardwareRows {
    rows: Vec<(Vec<ColumnValue>, Acc)>,
    /// The sum of all rows: a branch counts one, an access its weight or its period.
    pub total: Acc,
}

impl HardwareRows {
    /// Adds up the logged hardware data of an event's samples that pass the filter.
    /// A branch counts one, an access its weight in memory mode, else its period.
    pub fn build(
        data: Data<'_>,
        log: &HardwareLog,
        (event, filter): (usize, Option<&FilterEvaluator>),
        (keys, by_weight): (&[Key], bool),
        objects: &mut Objects,
    ) -> Self {
        let mut places: FxHashMap<(u32, u16, u32), usize> = FxHashMap::default();
        let mut numbers: FxHashMap<Vec<ColumnValue>, usize> = FxHashMap::default();
        let mut out = Self::default();
        let mut position = data.profile.first();
        for (chunk, range) in data.profile.between(position, u64::MAX) {
            for row in range {
                let at = position;
                position += 1;
                let passes = filter.is_none_or(|filter| filter.passes(data, chunk, row));
                if usize::from(chunk.event[row]) != event || !passes {
                    continue;
                }
                for number in log.of(at) {
                    let (site, cpu, detail) = (chunk.site[row], chunk.cpu[row], log.get(*number));
                    let known = places.entry((site, cpu, *number)).or_insert_with(|| {
                        let of = data.profile.sites.all()[site as usize];
                        let task = &data.session.tasks()[of.task.0 as usize];
                        let leaf = (of.stack != NodeId::ROOT).then(|| data.profile.trie.frame(of.stack));
                        let mut input = RowInput { data, objects, detail, task, cpu, code: detail.to.or(leaf) };
                        let values: Vec<ColumnValue> = keys.iter().map(|key| key.value(&mut input)).collect();
                        let next = out.rows.len();
                        *numbers.entry(values).or_insert_with_key(|values| {
                            out.rows.push((values.clone(), Acc::default()));
                            next
                        })
                    });
                    let period = match () {
                        () if detail.to.is_some() => 1,
                        () if by_weight => detail.weight.max(1),
                        () => chunk.weight[row],
                    };
                    let one = Acc { samples: 1, period };
                    out.rows[*known].1 += one;
                    out.total += one;
                }
            }
        }
        arrange(&mut out.rows, |a, b| b.1.period.cmp(&a.1.period).then_with(|| a.0.cmp(&b.0)));
        out
    }

    /// Formats the rows as a table: shares and counts, then the keys.
    pub fn table(&self, keys: &[Key], limit: usize, least_percent: f64) -> Table {
        let figures = [("self_pct", "Self"), ("samples", "Samples"), ("period", "Period")];
        let figures = figures.map(|(name, title)| Column::figures(name, title));
        let row = |(values, acc): &(Vec<ColumnValue>, Acc)| {
            let figures =
                [Cell::Percent(acc.percent_of(&self.total)), Cell::Count(acc.samples), Cell::Count(acc.period)];
            let value = |(key, value): (&Key, &ColumnValue)| match (key, value) {
                (Key::Hardware(key), ColumnValue::Number(n)) if key.is_sum => {
                    Cell::Id(n.saturating_mul(acc.samples as i64))
                }
                _ => cell(value),
            };
            figures.into_iter().chain(keys.iter().zip(values).map(value)).collect()
        };
        let shown = self.rows.iter().filter(|(_, acc)| acc.percent_of(&self.total) >= least_percent).take(limit);
        Table {
            columns: figures.into_iter().chain(keys.iter().map(|key| key.column())).collect(),
            rows: shown.map(row).collect(),
        }
    }
}

fn cell(value: &ColumnValue) -> Cell {
    match value {
        ColumnValue::Id(id) => Cell::Id((*id).into()),
        ColumnValue::Number(n) => Cell::Id(*n),
        ColumnValue::Text(text) => Cell::Text(Arc::clone(text)),
    }
}
