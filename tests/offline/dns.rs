//! `dns`: what becomes of queries counts for their server, name and process.

use perfprof_tui::panel::Panel;
use perfprof_tui::source::live::Target;

use crate::common::dns_message::payload;
use crate::common::scenes::{MS, dns, dns_answer, dns_message, dns_query, scene};
use crate::common::stage::{cell, number, rows, with_target};

fn panel<'a>(panels: &'a [Panel], title: &str) -> &'a Panel {
    panels.iter().find(|panel| panel.title == title).unwrap_or_else(|| panic!("no panel {title}"))
}

/// Returns the texts of columns, row by row.
fn texts<const N: usize>(panel: &Panel, columns: [&str; N]) -> Vec<[String; N]> {
    (0..rows(panel).table.rows.len()).map(|row| columns.map(|name| cell(panel, row, name).raw())).collect()
}

const COUNTS: [&str; 8] = ["queries", "answers", "late", "unanswered", "nxdomain", "servfail", "refused", "retries"];

#[test]
fn servers_have_their_answers_and_delays() {
    let panels = scene("dns").panels();
    let servers = panel(&panels, "Servers");
    let names = texts(servers, ["server"]);
    assert_eq!(names, [["2001:db8::53"], ["10.0.0.2"]]);
    assert_eq!(texts(servers, COUNTS), [["5", "3", "2", "1", "1", "1", "", "1"], ["4", "4", "", "", "", "", "", ""]]);
    let ms = |row: usize, name: &str| number(servers, row, name) / MS as f64;
    assert!((ms(1, "p50_ns") - 2.0).abs() < 0.05 && (ms(0, "max_ns") - 1500.0).abs() < 0.1);
    assert_eq!(
        texts(panel(&panels, "Names"), ["name", "type", "queries", "answers"])[..2],
        [["www.example.org", "A", "4", "4"], ["lost.internal", "A", "2", ""]]
    );
    assert_eq!(
        texts(panel(&panels, "Processes"), ["comm", "pid", "queries", "answers"]),
        [["web", "7", "5", "5"], ["cron", "8", "4", "2"]]
    );
    assert_eq!(
        texts(panel(&panels, "Answers"), ["code", "server", "times"]),
        [
            ["NOERROR", "10.0.0.2", "4"],
            ["NOERROR", "2001:db8::53", "1"],
            ["SERVFAIL", "2001:db8::53", "1"],
            ["NXDOMAIN", "2001:db8::53", "1"]
        ]
    );
    assert_eq!(texts(panel(&panels, "Without an answer"), ["name", "comm"]), [["lost.internal", "cron"]]);
    assert_eq!(texts(panel(&panels, "Slowest answers"), ["name", "code"])[0], ["db.internal", "NOERROR"]);
}

#[test]
fn only_the_targets_queries_count() {
    let of = |pid: i32| {
        let panels = with_target(Target::Processes(vec![pid]), || scene("dns")).panels();
        texts(panel(&panels, "Servers"), ["server", "queries", "answers"])
    };
    assert_eq!(of(7), [["10.0.0.2", "4", "4"], ["2001:db8::53", "1", "1"]]);
    assert_eq!(of(8), [["2001:db8::53", "4", "2"]]);
    assert_eq!(of(9), Vec::<[String; 3]>::new());
}

const SERVER: &str = "10.0.0.2:53";

/// A query may be sent while another thread runs; its reader is certain.
#[test]
fn a_query_counts_for_the_process_that_reads_its_answer() {
    let of = |target: Target| {
        let mut s = with_target(target, dns);
        dns_query(&mut s, 0, 8, SERVER, (4000, 1), "a.test");
        dns_answer(&mut s, MS, 7, SERVER, (4000, 1), 0);
        texts(panel(&s.panels(), "Processes"), ["comm", "queries", "answers"])
    };
    assert_eq!(of(Target::System), [["web", "1", "1"]]);
    assert_eq!(of(Target::Processes(vec![7])), [["web", "1", "1"]]);
}

#[test]
fn what_does_not_fit_is_counted_and_named() {
    let mut s = dns();
    dns_answer(&mut s, 0, 7, SERVER, (4000, 1), 0);
    dns_message(&mut s, MS, 7, SERVER, (4000, 2), &payload(0x100, &[&[b'x'; 255]]));
    let looped = [&payload(0x100, &[])[..12], &[0xc0, 12, 0, 1, 0, 1]].concat();
    dns_message(&mut s, 2 * MS, 7, SERVER, (4000, 3), &looped);
    s.give_raw(s.hit(0, 3 * MS), &[0; 20]);
    let panels = s.panels();
    let servers = panel(&panels, "Servers");
    assert_eq!(texts(servers, ["queries", "answers"]), [["", "1"]]);
    assert_eq!(servers.note, "1 answer without a known query; 2 queries with a damaged question");
    assert!(texts(panel(&panels, "Names"), ["name"]).is_empty());
}

/// The query is of the interval before, the answer of this one.
#[test]
fn an_answer_after_a_reset_has_its_latency() {
    let mut s = dns();
    dns_query(&mut s, 0, 7, SERVER, (4000, 1), "a.test");
    s.until(6000 * MS);
    let of = |panels: &[Panel]| texts(panel(panels, "Servers"), ["queries", "answers", "late", "unanswered"]);
    assert_eq!(of(&s.panels()), [["1", "", "1", "1"]]);
    s.reset();
    dns_answer(&mut s, 6500 * MS, 7, SERVER, (4000, 1), 0);
    let panels = s.panels();
    assert_eq!(of(&panels), [["", "1", "", ""]]);
    assert_eq!(number(panel(&panels, "Servers"), 0, "max_ns"), 6_500_000_000.0);
}
