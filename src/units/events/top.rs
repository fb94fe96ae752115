//! `top`: the keys (task, interrupt, system call, device…) with the most events.

use rustc_hash::FxHashMap;

use crate::units::kit::prelude::*;

pub(crate) const SPEC: Spec = Spec {
    name: "top",
    about: "events by any field or expression, with sums of other fields",
    words: "group most sum key count",
    help: "The key is an expression over the event's fields and pid, tid, cpu and comm; the default is tid. Each \
           --sum and --by (or top-add= and top-by= of one event) adds a column with the sum of an expression. Rows \
           are sorted by the --by columns, or without them, by hits. A key that is a field has the kernel's names of \
           its numbers: states, vectors, system calls, errors, functions. A value that cannot be computed (a division \
           by zero) counts as zero.",
    example: "perfprof-tui top -e block:block_rq_issue --key 'comm' --by bytes --sum 'bytes / nr_sector'",
    output: "\
$ perfprof-tui top -e raw_syscalls:sys_enter --key comm --batch -n 1
comm             raw_syscalls:sys_enter  Hits/s   Share  Since start
memfd:sealed-91                     360   360.0  42.2 %          360
grep                                141   141.0  16.5 %          141",
    options: &["event", "stack", "key", "only-comm", "sum", "by"],
    sees: Sees::Target,
    across: None,
    interval: Some(1.0),
    make: |settings| Ok(Box::new(Top::new(settings)?)),
};

const MAX_KEYS: usize = 100_000;

#[derive(Clone, Debug)]
struct Sum {
    text: String,
    by: bool,
    /// The role that it applies to; `None` for all events with the fields.
    role: Option<usize>,
}

#[derive(Clone, Debug, Default)]
struct Bindings {
    key: Option<BoundExpr>,
    label: Option<BoundExpr>,
    sums: Vec<(usize, BoundExpr)>,
    column: usize,
}

#[derive(Clone, Debug, Default)]
struct Row {
    hits: Vec<u64>,
    sums: Vec<u64>,
    thread: ThreadKey,
    /// The event's name for the row (comm=).
    label: Option<RowKey>,
}

#[derive(Clone, Debug, Default)]
struct Top {
    selected: Vec<SelectedEvent>,
    key: String,
    /// Title of the key column, if all events use the same key.
    title: String,
    labelled: bool,
    sums: Vec<Sum>,
    stack: bool,
    bindings: FxHashMap<u16, Bindings>,
    names: Vec<String>,
    /// The names of keys by column.
    key_names: Vec<KeyNames>,
    /// Whether all events use the same key, so that one number means the same in all.
    has_one_key: bool,
    rows: FxHashMap<RowKey, Row>,
    total: u64,
    ever: FxHashMap<RowKey, u64>,
    stacks: FxHashMap<(RowKey, ThreadKey, RetainedStack), u64>,
}

impl Top {
    fn new(settings: &Settings) -> Result<Self, String> {
        let mut selected = select::flat(settings)?;
        if settings.has("only-comm") {
            for one in &mut selected {
                let name = one.get("comm").unwrap_or("comm").to_owned();
                one.set("key", name);
            }
        }
        let key = |one: &SelectedEvent| one.get("key").or(settings.get("key")).unwrap_or("tid").to_owned();
        let mut keys: Vec<String> = selected.iter().map(key).collect();
        keys.dedup();
        let mut sums: Vec<Sum> = Vec::new();
        for (name, by) in [("by", true), ("sum", false)] {
            sums.extend(settings.all(name).map(|text| Sum { text: text.to_owned(), by, role: None }));
        }
        for (role, one) in selected.iter().enumerate() {
            for (name, by) in [("top-by", true), ("top-add", false)] {
                sums.extend(one.all(name).map(|text| Sum { text: text.to_owned(), by, role: Some(role) }));
            }
        }
        Ok(Self {
            key: settings.get("key").unwrap_or("tid").to_owned(),
            has_one_key: keys.len() == 1,
            title: if let [key] = keys.as_slice() { key.clone() } else { "key".to_owned() },
            labelled: !settings.has("only-comm") && selected.iter().any(|one| one.has("comm")),
            stack: settings.has("stack"),
            selected,
            sums,
            ..Self::default()
        })
    }

    fn order(&self, row: &Row) -> Vec<u64> {
        let by = self.sums.iter().zip(&row.sums).filter(|(sum, _)| sum.by).map(|(_, value)| *value);
        by.chain([row.hits.iter().sum()]).collect()
    }

    fn is_task(&self) -> bool {
        matches!(self.title.as_str(), "tid" | "pid" | "common_pid" | "_pid" | "_tid")
    }

    fn key_cell(&self, key: &RowKey, at: &Moment<'_>) -> Cell {
        let mut names = self.key_names.iter().filter(|_| self.has_one_key);
        names.find_map(|names| names.named(key, at)).unwrap_or_else(|| key.cell())
    }

    fn table(&self, at: &Moment<'_>) -> Panel {
        let align = if self.is_task() { Align::Right } else { Align::Left };
        let label = |row: &Row| match &row.label {
            Some(label) => label.cell(),
            None => text(at.comm(row.thread)),
        };
        let number = |name: &str| named(name, Align::Right, 14);
        let hits = |row: &Row| row.hits.iter().sum::<u64>();
        let at_place = |of: &[u64], i: usize| Cell::Count(of.get(i).copied().unwrap_or(0));
        Sheet::of(by_weight(&self.rows, |row| self.order(row)), |(key, _)| id(key))
            .column(named(&self.title, align, 24), |(key, _)| self.key_cell(key, at))
            .when(self.is_task() || self.labelled, |sheet| sheet.left("comm", "Comm", 16, |(_, row)| label(row)))
            .each(0..self.names.len(), |i| number(&self.names[i]), |(_, row), i| at_place(&row.hits, i))
            .each(0..self.sums.len(), |i| number(&self.sums[i].text), |(_, row), i| at_place(&row.sums, i))
            .right("rate", "Hits/s", 10, |(_, row)| Cell::Number(hits(row) as f64 / at.seconds()))
            .share(|(_, row)| hits(row), self.total)
            .right("ever", "Since start", 12, |(key, row)| {
                Cell::Count(self.ever.get(key).copied().unwrap_or(0) + hits(row))
            })
            .panel(format!("By {}", self.title))
    }

    fn flame(&self, at: &Moment<'_>) -> Panel {
        let chosen = at.selected(0);
        let own = self.stacks.iter().filter(|((key, ..), _)| chosen.is_none_or(|row| row == id(key)));
        at.flame("Stacks of the row", Measure::Count, own.map(|((_, thread, pin), n)| (*thread, *pin, *n, *n)))
    }
}

impl Unit for Top {
    fn attributes(&self) -> &'static [&'static str] {
        &["key", "comm", "top-by", "top-add"]
    }

    fn event_requests(&self) -> Vec<EventRequest> {
        self.selected.iter().map(|selected| selected.want(self.stack)).collect()
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        let own = &self.selected[event.role];
        let key = Some(BoundExpr::parse(own.get("key").unwrap_or(&self.key), event.format)?);
        let label = own.get("comm").filter(|_| self.labelled);
        let label = label.map(|text| BoundExpr::parse(text, event.format)).transpose()?;
        let mut sums = Vec::new();
        for (i, sum) in self.sums.iter().enumerate().filter(|(_, sum)| sum.role.is_none_or(|r| r == event.role)) {
            match BoundExpr::parse(&sum.text, event.format) {
                Ok(bound) => sums.push((i, bound)),
                // With several events, some may lack the field.
                Err(why) if sum.role.is_some() || self.selected.len() == 1 => return Err(why),
                Err(_) => {}
            }
        }
        self.key_names.push(key.as_ref().map(|key| KeyNames::of(key, event)).unwrap_or_default());
        self.names.push(own.get("alias").unwrap_or(event.name).to_owned());
        self.bindings.insert(event.number, Bindings { key, label, sums, column: self.names.len() - 1 });
        Ok(())
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let Some(bindings) = self.bindings.get(&hit.event) else { return };
        cx.comm(hit.tid);
        let mut key = match &bindings.key {
            Some(key) => key.with(hit, cx.names, None, |value| RowKey::of(&value)),
            None => RowKey::Empty,
        };
        self.key_names[bindings.column].see(&key, hit);
        let expression = self.selected[hit.role].get("key").unwrap_or(&self.key);
        if cx.is_own_key(expression, &key) {
            return;
        }
        key = cx.row_key(expression, key);
        if self.rows.len() >= MAX_KEYS && !self.rows.contains_key(&key) {
            key = RowKey::Others;
        }
        if hit.stack != RetainedStack::NONE {
            *self.stacks.entry((key.clone(), cx.thread(hit.tid), hit.stack)).or_default() += 1;
        }
        let thread = match &key {
            RowKey::Thread(thread) if self.is_task() => *thread,
            RowKey::Int(n) if self.is_task() => cx.thread(*n as i32),
            _ => cx.thread(hit.tid),
        };
        let row = self.rows.entry(key).or_default();
        row.thread = thread;
        if let Some(label) = &bindings.label {
            row.label = Some(label.with(hit, cx.names, None, |value| RowKey::of(&value)));
        }
        if row.hits.len() <= bindings.column {
            row.hits.resize(bindings.column + 1, 0);
        }
        row.hits[bindings.column] += 1;
        row.sums.resize(self.sums.len(), 0);
        for (i, sum) in &bindings.sums {
            row.sums[*i] = row.sums[*i].saturating_add(sum.count(hit, cx.names).unwrap_or(0));
        }
        self.total += 1;
    }

    fn loss_text(&self) -> &'static str {
        "counts and sums are too low"
    }

    fn pin_data(&mut self, _now: u64, pin: &mut dyn FnMut(i32, u64) -> RetainedStack) {
        self.key_names.iter_mut().for_each(|names| names.pin(self.rows.keys(), pin));
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        let mut panels = vec![self.table(at)];
        if self.stack {
            panels.push(self.flame(at));
        }
        panels
    }

    fn reset(&mut self, _now: u64) {
        for (key, row) in self.rows.drain() {
            if self.ever.len() < MAX_KEYS || self.ever.contains_key(&key) {
                *self.ever.entry(key).or_default() += row.hits.iter().sum::<u64>();
            }
        }
        self.stacks.clear();
        self.total = 0;
    }
}
