//! Columns of a report and the order of its rows, from -s, -F and the options that add a column.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

use crate::event::format::Format;
use crate::lang::nearest_hint;
use crate::panel::text::wrap;
use crate::query::column::sort_words;
use crate::query::rows::mode_weights::CpuMode;
use crate::query::rows::top_table::{TopField, TopTable};
use crate::query::{ColumnKey, TopRow, column};

use super::options::ReportOptions;

/// perf's names of figures (perf-report(1), --fields).
const FIGURES: &[(&str, TopField)] = &[
    ("overhead", TopField::SelfTime),
    ("latency", TopField::Latency),
    ("overhead_children", TopField::Children),
    ("overhead_sys", TopField::Mode(CpuMode::Kernel)),
    ("overhead_us", TopField::Mode(CpuMode::User)),
    ("overhead_guest_sys", TopField::Mode(CpuMode::GuestKernel)),
    ("overhead_guest_us", TopField::Mode(CpuMode::GuestUser)),
    ("sample", TopField::Samples),
    ("period", TopField::Period),
    ("ipc", TopField::Ipc),
];

/// The width of the list of keys in a message.
const LINE: usize = 70;

/// Keys of perf that are not supported, with alternatives.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cgroup_id", "use -s cgroup for paths"),
    ("addr", "use perfprof-tui script -F ip for addresses, or annotate for instructions"),
    ("p_stage_cyc", "only POWER processors record it"),
    ("local_p_stage_cyc", "only POWER processors record it"),
    ("ipc_null", "use -s ipc for instructions per cycle"),
    ("ipc_lbr", "use -s ipc for instructions per cycle"),
];

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Columns {
    pub(crate) keys: Vec<ColumnKey>,
    pub(crate) fields: Vec<TopField>,
    /// True if these were typed, so that no others are shown.
    pub(crate) is_whole: bool,
    pub(crate) order: Vec<TopField>,
    /// True if rows are sorted by instructions per cycle.
    pub(crate) by_ipc: bool,
}

impl Columns {
    /// Returns the keys that identify rows in the profile, without those derived from functions.
    pub(crate) fn row_keys(&self) -> Vec<ColumnKey> {
        let by_function = self.keys.contains(&ColumnKey::Sym);
        self.keys.iter().copied().filter(|key| *key != ColumnKey::SymbolSize || !by_function).collect()
    }

    /// Expands a requested column for all fields of a tracepoint; other events get no columns.
    pub(crate) fn with_fields(&self, format: Option<&Format>) -> Self {
        let all = column::traced(column::FIELDS);
        let own = || {
            let own = format.iter().flat_map(|format| format.own_fields().map(|field| (&format.name, &field.name)));
            own.map(|(event, field)| column::traced(&format!("{event}.{field}"))).collect::<Vec<_>>()
        };
        let keys = |key: ColumnKey| if key == all { own() } else { vec![key] };
        let fields = |list: &[TopField]| {
            let one = |field: &TopField| match field {
                TopField::Key(key) => keys(*key).into_iter().map(TopField::Key).collect(),
                field => vec![*field],
            };
            list.iter().flat_map(one).collect::<Vec<_>>()
        };
        let (fields, order) = (fields(&self.fields), fields(&self.order));
        Self { keys: self.keys.iter().flat_map(|key| keys(*key)).collect(), fields, order, ..*self }
    }
}

struct List {
    fields: Vec<TopField>,
    adds: bool,
}

impl List {
    fn keys(&self) -> impl Iterator<Item = ColumnKey> + '_ {
        self.fields.iter().filter_map(|field| match field {
            TopField::Key(key) => Some(*key),
            _ => None,
        })
    }

    fn figures(&self) -> impl Iterator<Item = TopField> + '_ {
        self.fields.iter().copied().filter(|field| !matches!(field, TopField::Key(_) | TopField::Ipc))
    }

    fn with_quantum(mut self, quantum: Option<Duration>) -> Self {
        let Some(quantum) = quantum else { return self };
        for field in &mut self.fields {
            if let TopField::Key(ColumnKey::Time(ns)) = field {
                *ns = u64::try_from(quantum.as_nanos()).unwrap_or(u64::MAX);
            }
        }
        self
    }

    fn has_ipc(&self) -> bool {
        self.fields.contains(&TopField::Ipc)
    }
}

#[derive(Default)]
pub(crate) struct RequestedColumns {
    sort: Option<List>,
    fields: Option<List>,
    parent: bool,
    modes: bool,
    /// True if rows are sorted by latency by default.
    latency: bool,
    /// Default figures of a table; scripts get only those they request.
    counts: bool,
    periods: bool,
}

impl RequestedColumns {
    /// Parses `--sort` and the options. `samples`: show their number; `for_scripts`: scripts read the table's chains;
    /// `as_perf`: keys have perf's meaning.
    pub(crate) fn of(
        sort: Option<&str>,
        options: &ReportOptions,
        samples: bool,
        for_scripts: bool,
        as_perf: bool,
    ) -> Result<Self, String> {
        let list = |option: &str, text: Option<&str>| -> Result<Option<List>, String> {
            let list = text.map(|text| parse(option, text, as_perf)).transpose()?;
            Ok(list.map(|list| list.with_quantum(options.time_quantum)))
        };
        Ok(Self {
            sort: list("--sort", sort)?,
            fields: list("--fields", options.fields.as_deref())?,
            parent: options.parent.is_some(),
            modes: options.show_cpu_utilization,
            latency: options.latency,
            counts: samples || !for_scripts,
            periods: options.show_total_period || !for_scripts,
        })
    }

    /// Returns true if a key belongs to the sampled function only.
    pub(crate) fn by_leaf(&self) -> bool {
        let keys: Vec<ColumnKey> = self.sort.iter().chain(&self.fields).flat_map(List::keys).collect();
        // If functions identify rows, each row has its own size.
        let is_told = |key: ColumnKey| key == ColumnKey::SymbolSize && keys.contains(&ColumnKey::Sym);
        keys.iter().any(|key| key.is_of_leaf() && !is_told(*key))
    }

    pub(crate) fn by_parent(&self) -> bool {
        self.sort.iter().chain(&self.fields).flat_map(List::keys).any(|key| key == ColumnKey::Parent)
    }

    /// Adds the defaults: `own` keys, and a column of children.
    pub(crate) fn columns(self, own: Vec<ColumnKey>, children: bool) -> Columns {
        let keys = self.keys(own);
        // A list of columns is complete, except for keys typed separately.
        let whole = self.fields.as_ref().filter(|list| !list.adds);
        let mut fields = whole.map_or_else(|| self.figures(children), |list| list.fields.clone());
        let added = self.fields.iter().filter(|list| list.adds).flat_map(|list| list.fields.iter().copied());
        for field in keys.iter().map(|key| TopField::Key(*key)).chain(added) {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        let (is_whole, by_ipc) = (whole.is_some(), self.sort.as_ref().is_some_and(List::has_ipc));
        Columns { keys, fields, is_whole, order: self.order(), by_ipc }
    }

    fn keys(&self, own: Vec<ColumnKey>) -> Vec<ColumnKey> {
        let typed = |list: &Option<List>| list.iter().flat_map(List::keys).collect::<Vec<_>>();
        let starts = match (&self.sort, &self.fields) {
            (Some(list), _) => list.adds || list.fields == [TopField::Ipc],
            (None, Some(list)) => list.adds,
            (None, None) => true,
        };
        let mut keys = if starts { own } else { Vec::new() };
        let parent = self.parent.then_some(ColumnKey::Parent);
        for key in typed(&self.sort).into_iter().chain(typed(&self.fields)).chain(parent) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Default figures, and figures that rows are sorted by.
    fn figures(&self, children: bool) -> Vec<TopField> {
        let modes = [CpuMode::Kernel, CpuMode::User].map(TopField::Mode);
        let mut out: Vec<_> = self.latency.then_some(TopField::Latency).into_iter().collect();
        out.extend([TopField::Children, TopField::SelfTime]);
        out.extend(modes.into_iter().filter(|_| self.modes));
        out.extend(
            [(self.counts, TopField::Samples), (self.periods, TopField::Period)].iter().filter(|f| f.0).map(|f| f.1),
        );
        for field in self.sort.iter().flat_map(List::figures) {
            if !out.contains(&field) {
                out.push(field);
            }
        }
        let typed = |field: TopField| self.sort.iter().any(|list| list.fields.contains(&field));
        out.retain(|field| children || *field != TopField::Children || typed(*field));
        out
    }

    /// Without an explicit order, rows are sorted by the list of columns, and first by overhead if the list lacks it.
    fn order(&self) -> Vec<TopField> {
        match (&self.sort, &self.fields) {
            (Some(list), _) if list.figures().next().is_some() && !list.has_ipc() => {
                let overhead = |field| !matches!(field, TopField::Samples | TopField::Period);
                let first = if list.figures().any(overhead) { None } else { Some(TopField::SelfTime) };
                first.into_iter().chain(list.fields.iter().copied()).collect()
            }
            (None, Some(list)) if !list.adds => list.fields.clone(),
            _ if self.latency => vec![TopField::Latency],
            _ => Vec::new(),
        }
    }
}

/// Parses a list of columns; `as_perf`: keys have perf's meaning.
fn parse(option: &str, text: &str, as_perf: bool) -> Result<List, String> {
    let (adds, list) = text.strip_prefix('+').map_or((false, text), |rest| (true, rest));
    let mut fields = Vec::new();
    for word in list.split(',').map(|word| word.trim().trim_start_matches('+')).filter(|word| !word.is_empty()) {
        let field = field(word).ok_or_else(|| format!("{option} {text}: {}", unknown(word)))?;
        // perf's key pid separates threads, and tgid processes (perf-report(1), --sort).
        let is_thread = as_perf && field == TopField::Key(ColumnKey::Pid) && !word.starts_with("tg");
        let field = if is_thread { TopField::Key(ColumnKey::Tid) } else { field };
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    if fields.is_empty() {
        return Err(format!("{option} {text}: expected at least one column"));
    }
    Ok(List { fields, adds })
}

fn field(word: &str) -> Option<TopField> {
    let is_elsewhere = ELSEWHERE.iter().any(|(name, _)| *name == word);
    whole(word).or_else(|| sort_words::begun(word).filter(|_| !is_elsewhere).and_then(whole))
}

fn whole(word: &str) -> Option<TopField> {
    let figure = FIGURES.iter().find(|(name, _)| *name == word).map(|(_, field)| *field);
    let of_reports = || column::OF_REPORTS.iter().find(|entry| entry.names[0] == word).map(|entry| entry.key);
    let fields = || (word == column::FIELDS).then(|| column::traced(column::FIELDS));
    let fields = || fields().or_else(|| (word == column::PARALLELISM).then(|| column::traced(word)));
    let key = || ColumnKey::parse_list(word).ok().and_then(|list| list.first().copied());
    figure.or_else(|| of_reports().or_else(fields).or_else(key).map(TopField::Key))
}

fn unknown(word: &str) -> String {
    let meant = |name: &str| name == word || sort_words::begun(word) == Some(name);
    if let Some((name, why)) = ELSEWHERE.iter().find(|(name, _)| meant(name)) {
        return format!("rows cannot be separated by {name}; {why}");
    }
    let figures: Vec<&str> = FIGURES.iter().map(|(name, _)| *name).collect();
    let keys: Vec<&str> = column::ALL.iter().chain(&column::OF_REPORTS).map(|entry| entry.names[0]).collect();
    let hint = nearest_hint(word, keys.iter().chain(&figures).copied());
    let list = [("keys", keys), ("figures", figures)];
    let list = list.map(|(what, names)| wrap(&format!("{what}: {}", names.join(", ")), LINE).join("\n"));
    format!("unknown sort key {word}{hint}\n{}", list.join("\n"))
}

/// Sorts rows by some columns: figures in descending order, keys by name. The sort is stable.
pub(crate) fn sort(table: &TopTable<'_>, rows: &mut [TopRow], order: &[TopField]) {
    let one = |a: &TopRow, b: &TopRow, field: &TopField| {
        let by = |weight: &dyn Fn(&TopRow) -> u64| Reverse(weight(a)).cmp(&Reverse(weight(b)));
        match field {
            TopField::SelfTime | TopField::Period => by(&|row| row.own.period),
            TopField::Children => by(&|row| row.children.period),
            TopField::Samples => by(&|row| table.samples(row)),
            TopField::Mode(mode) => by(&|row| table.weight(row, *mode).period),
            TopField::Latency => by(&|row| table.latency.of_row(row).period),
            TopField::Ipc | TopField::Delta | TopField::Old => Ordering::Equal,
            TopField::Key(_) => table.cell(b, *field).compare(&table.cell(a, *field)),
        }
    };
    rows.sort_by(|a, b| order.iter().map(|field| one(a, b, field)).find(|by| by.is_ne()).unwrap_or(Ordering::Equal));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(sort: &str, fields: &str, children: bool) -> String {
        let list = |option, text: &str| (!text.is_empty()).then(|| parse(option, text, false).expect("a list"));
        let typed = RequestedColumns {
            sort: list("-s", sort),
            fields: list("-F", fields),
            parent: false,
            modes: false,
            latency: false,
            counts: true,
            periods: true,
        };
        let columns = typed.columns(vec![ColumnKey::Comm, ColumnKey::Sym], children);
        let names =
            |list: &[TopField]| list.iter().map(|field| field.column().name.to_string()).collect::<Vec<_>>().join(",");
        format!("{} by {}", names(&columns.fields), names(&columns.order))
    }

    #[test]
    fn columns_are_those_of_perf() {
        for (sort, fields, children, want) in [
            ("", "", true, "children_pct,self_pct,samples,period,comm,sym by "),
            ("", "", false, "self_pct,samples,period,comm,sym by "),
            ("dso", "", false, "self_pct,samples,period,dso by "),
            ("Comm,sy", "", false, "self_pct,samples,period,comm,sym by "),
            ("so,trace_fields", "", false, "self_pct,samples,period,socket,trace_fields by "),
            ("overhead_guest_us,dso", "", false, "self_pct,samples,period,guest_us_pct,dso by guest_us_pct,dso"),
            ("overh,dso", "", false, "self_pct,samples,period,dso by self_pct,dso"),
            ("+cpu", "", false, "self_pct,samples,period,comm,sym,cpu by "),
            ("overhead,sym", "", false, "self_pct,samples,period,sym by self_pct,sym"),
            ("sample,sym", "", false, "self_pct,samples,period,sym by self_pct,samples,sym"),
            ("ipc", "", false, "self_pct,samples,period,comm,sym by "),
            ("ipc,dso", "", false, "self_pct,samples,period,dso by "),
            ("overhead_us,dso", "", false, "self_pct,samples,period,us_pct,dso by us_pct,dso"),
            ("overhead_children,dso", "", true, "children_pct,self_pct,samples,period,dso by children_pct,dso"),
            ("", "sym,overhead", true, "sym,self_pct by sym,self_pct"),
            ("", "overhead", true, "self_pct by self_pct"),
            ("", "+period,sys", false, ""),
            ("dso", "overhead,sample", false, "self_pct,samples,dso by "),
            ("", "+overhead_sys", false, "self_pct,samples,period,comm,sym,sys_pct by "),
        ] {
            match want {
                "" => assert!(parse("-F", fields, false).is_err(), "{fields}"),
                want => assert_eq!(columns(sort, fields, children), want, "-s {sort} -F {fields}"),
            }
        }
        let keys = |text| parse("--sort", text, true).expect("a list").keys().collect::<Vec<_>>();
        assert_eq!(keys("pid,tid,sym"), [ColumnKey::Tid, ColumnKey::Sym]);
        assert_eq!(keys("tgid,pid,tg"), [ColumnKey::Pid, ColumnKey::Tid]);
        let said = |text| parse("--sort", text, false).map(|_| ()).expect_err("refused");
        assert!(said("cgroup_i").contains("cgroup_id; use -s cgroup"), "{}", said("cgroup_i"));
        assert!(said("overhed").contains("nearest: overhead"), "{}", said("overhed"));
        assert!(said("simd").lines().skip(1).all(|line| line.chars().count() <= LINE), "{}", said("simd"));
        assert!(said("simd").contains("symbol_size") && said("simd").contains("figures: overhead"));
        assert!(said(",").contains("at least one column"));
    }
}
