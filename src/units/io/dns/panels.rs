//! The tables of queries.

use std::net::SocketAddr;

use crate::record::dns_message::DnsQuestion;
use crate::units::kit::prelude::*;
use crate::units::kit::tables::columns::OTHERS;

use super::Dns;
use super::figures::{DnsRows, QueryFigures};
use super::names::{code_name, type_name};

type Row<'a, K> = (Option<&'a K>, &'a QueryFigures);

/// The limit of listed queries that are still open.
const MAX_WAITING: usize = 200;

/// Returns a server's address, without the port that all have.
fn server_name(server: &SocketAddr) -> String {
    if server.ip().is_unspecified() {
        return "not known".to_owned();
    }
    if server.port() == 53 { server.ip().to_string() } else { server.to_string() }
}

fn name_cell(question: &DnsQuestion) -> Cell {
    text(question.name.as_str())
}

fn type_cell(question: &DnsQuestion) -> Cell {
    text(type_name(question.kind).into_owned())
}

/// Adds the columns that all tables of queries have.
fn with_figures<'a, K>(sheet: Sheet<'a, Row<'a, K>>) -> Sheet<'a, Row<'a, K>> {
    sheet
        .right("queries", "Queries", 8, |(_, row)| count(row.queries))
        .right("answers", "Answers", 8, |(_, row)| count(row.answers))
        .right("p50_ns", "p50", 8, |(_, row)| time(row.latency.quantile(0.5)))
        .ranked(1)
        .right("p99_ns", "p99", 8, |(_, row)| time(row.latency.quantile(0.99)))
        .right("max_ns", "Max", 8, |(_, row)| time(row.latency.max))
        .ranked(2)
        .right("late", "Late", 6, |(_, row)| count(row.late))
        .ranked(3)
        .right("unanswered", "No answer", 9, |(_, row)| count(row.unanswered))
        .right("nxdomain", "NXDOMAIN", 8, |(_, row)| count(row.code(3)))
        .ranked(1)
        .right("servfail", "SERVFAIL", 8, |(_, row)| count(row.code(2)))
        .ranked(2)
        .right("refused", "REFUSED", 8, |(_, row)| count(row.code(5)))
        .ranked(3)
        .right("other_errors", "Errors", 6, |(_, row)| count(row.other_errors()))
        .ranked(4)
        .right("retries", "Retries", 7, |(_, row)| count(row.retries))
        .ranked(2)
        .right("truncated", "Trunc", 6, |(_, row)| count(row.truncated))
        .ranked(4)
}

fn sheet<K: Clone + Eq + std::hash::Hash + Ord>(rows: &DnsRows<K>) -> Sheet<'_, Row<'_, K>> {
    Sheet::of(rows.sorted(), |(key, _)| id(&key)).in_hidden_order()
}

impl Dns {
    pub(super) fn all_panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.advance(at.now);
        vec![
            self.servers().noted(self.remark()),
            self.names(),
            self.processes(at),
            self.codes(),
            self.waiting(at),
            self.slow(at),
            latency::by_powers("Latency", &self.figures.total.latency, Measure::Time),
            self.course.series("Over time", at, Measure::Count, 8, |line| (*line).to_owned()),
        ]
    }

    fn remark(&self) -> String {
        let figures = &self.figures;
        let rows = figures.servers.dropped + figures.names.dropped + figures.processes.dropped;
        all_notes([
            note(figures.unmatched, "answer", "without a known query"),
            note(figures.malformed, "query", "with a damaged question"),
            note(self.open.dropped, "open query", "forgotten, because there were too many"),
            note(rows, "row", "with the fewest queries added to (others)"),
        ])
    }

    fn servers(&self) -> Panel {
        let label = |key: Option<&SocketAddr>| key.map_or_else(|| OTHERS.to_owned(), server_name);
        let sheet = sheet(&self.figures.servers).left("server", "Server", 20, move |(key, _)| text(label(key)));
        with_figures(sheet).panel("Servers")
    }

    fn names(&self) -> Panel {
        let sheet = sheet(&self.figures.names)
            .left("name", "Name", 30, |(key, _)| key.map_or_else(|| text(OTHERS), |of| name_cell(of)))
            .left("type", "Type", 6, |(key, _)| key.map_or(Cell::Empty, |of| type_cell(of)));
        with_figures(sheet).panel("Names")
    }

    fn processes(&self, at: &Moment<'_>) -> Panel {
        let sheet = sheet(&self.figures.processes).process(at, |(key, _)| key.copied());
        with_figures(sheet).panel("Processes")
    }

    fn codes(&self) -> Panel {
        let rows = self.figures.servers.sorted();
        let of_row = |(key, row): &Row<'_, SocketAddr>| {
            let (key, codes, answers) = (key.copied(), row.codes, row.answers);
            let each = codes.into_iter().enumerate().filter(|(_, n)| *n > 0);
            each.map(move |(code, n)| ((key, code as u8), (n, answers))).collect::<Vec<_>>()
        };
        let label = |key: Option<SocketAddr>| key.map_or_else(|| OTHERS.to_owned(), |server| server_name(&server));
        Sheet::of(by_weight(rows.iter().flat_map(of_row), |(n, _)| *n), |(key, _)| id(&key))
            .left("code", "Answer", 10, |((_, code), _)| text(code_name(code).into_owned()))
            .left("server", "Server", 20, move |((key, _), _)| text(label(key)))
            .right("times", "Times", 9, |(_, (n, _))| Cell::Count(n))
            .ordered()
            .right("share_pct", "Share", 8, |(_, (n, answers))| share(n, answers))
            .panel("Answers")
    }

    fn waiting(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(self.open.late().take(MAX_WAITING), |(number, _)| number)
            .right("time_ns", "At", 9, |(_, open)| Cell::Time(at.after(open.since)))
            .right("ns", "Waits", 9, |(_, open)| Cell::Time(at.now.saturating_sub(open.since)))
            .left("name", "Name", 30, |(_, open)| name_cell(&open.key.question))
            .left("type", "Type", 6, |(_, open)| type_cell(&open.key.question))
            .left("server", "Server", 20, |(_, open)| text(server_name(&open.key.server)))
            .task(at, |(_, open)| open.key.process)
            .ranked(1)
            .whole("Without an answer")
    }

    fn slow(&self, at: &Moment<'_>) -> Panel {
        Sheet::of(self.slowest.iter(), |(_, number, _)| number)
            .right("time_ns", "At", 9, |(.., of)| Cell::Time(at.after(of.time)))
            .right("ns", "Took", 9, |(ns, ..)| Cell::Time(ns))
            .left("name", "Name", 30, |(.., of)| name_cell(&of.key.question))
            .left("type", "Type", 6, |(.., of)| type_cell(&of.key.question))
            .left("code", "Answer", 10, |(.., of)| text(code_name(of.code).into_owned()))
            .left("server", "Server", 20, |(.., of)| text(server_name(&of.key.server)))
            .task(at, |(.., of)| of.key.process)
            .ranked(1)
            .whole("Slowest answers")
    }
}
