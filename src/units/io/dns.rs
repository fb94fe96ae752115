//! `dns`: lookups of names by server, name and process: latency, answer codes, queries without an answer.

mod figures;
mod names;
mod open_queries;
mod panels;

use std::sync::Arc;

use crate::record::dns_message::DnsMessage;
use crate::units::kit::prelude::*;

use figures::DnsFigures;
use open_queries::{OpenQueries, Overdue, QueryKey, SentPacket};

pub(crate) const SPEC: Spec = Spec {
    name: "dns",
    about: "DNS queries by server, name and process: latency, answer codes, retries, queries without an answer",
    words: "dns resolver nslookup lookup name resolution resolve getaddrinfo nxdomain servfail slow timeout server dig",
    help: "A query counts when it leaves a local socket, its answer when a thread reads it: the latency is what the \
           program experiences, with its own delay in reading. Only UDP and port 53 are measured. DNS over TCP, TLS \
           and HTTPS is not seen, nor are names from a cache in the program, from /etc/hosts or from another service \
           (nscd). A local resolver such as systemd-resolved (127.0.0.53) is a server for its clients; its own queries \
           to other servers are further rows. Queries has all that were sent. Retries has those of them that repeat an \
           open question of the same socket to the same server; their latency is measured from the first one. Late \
           has queries without an answer within a second, also if it came later. No answer has those without one for \
           five seconds, until an answer is read; 'Without an answer' lists the open ones. If a program asks several \
           servers with one query, the first answer that it reads settles it. Trunc has answers that did not fit into \
           a datagram: programs repeat such queries over TCP. If a socket that is not connected to a server (musl) \
           asks several, the answer counts for the first one; it is not seen if NAT changes the port. A query counts \
           for the running thread when it is sent, and from its answer on for the process that reads it. Only header \
           and question of a message are read. Answers that are read by io_uring, and further ones of one recvmmsg \
           call, are not seen. Needs BPF and the kernel's BTF.",
    example: "perfprof-tui dns -i 1",
    output: "\
$ perfprof-tui dns --batch --panel Servers
Server      Queries  Answers      p50      p99      Max  Late  No ans…
127.0.0.77       26       22  30.7 ms  60.9 ms  60.9 ms     2        …",
    options: &["than", "keep", "comm", "pids", "tids"],
    sees: Sees::Machine,
    across: Some("queries that are sent on the chosen CPUs"),
    interval: None,
    make: |settings| Ok(Box::new(Dns::new(settings)?)),
};

/// An answer that was read.
#[derive(Clone, Debug)]
struct SlowAnswer {
    key: QueryKey,
    time: u64,
    code: u8,
}

#[derive(Clone, Debug, Default)]
struct Dns {
    open: OpenQueries,
    figures: DnsFigures,
    slowest: Slowest<SlowAnswer>,
    course: Grid<&'static str>,
}

impl Dns {
    fn new(settings: &Settings) -> Result<Self, String> {
        Ok(Self { slowest: Slowest::of(settings)?, ..Self::default() })
    }

    fn advance(&mut self, now: u64) {
        let Self { open, figures, course, .. } = self;
        open.advance(now, |query, what| {
            if !query.counts {
                return;
            }
            figures.each(&query.key, |row| match what {
                Overdue::Late => row.late += 1,
                Overdue::Unanswered => row.unanswered += 1,
            });
            if what == Overdue::Unanswered {
                course.add(&"no answer", now, 1.0);
            }
        });
    }

    fn process(hit: &UnitSample<'_>, cx: &mut Context<'_>) -> ThreadKey {
        let pid = if hit.pid > 0 { hit.pid } else { 0 };
        cx.comm(pid);
        cx.thread(pid)
    }

    /// Whether the thread of a message is of the target.
    fn counts(hit: &UnitSample<'_>, cx: &mut Context<'_>) -> bool {
        let is_seen = if hit.tid > 0 { cx.has(hit.tid) && !cx.is_unasked(hit.tid) } else { !cx.is_narrow() };
        is_seen && cx.counts(hit.cpu)
    }

    fn sent(&mut self, message: &DnsMessage<'_>, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let counts = Self::counts(hit, cx);
        let Some(question) = message.question() else {
            self.figures.malformed += u64::from(counts);
            return;
        };
        let key = QueryKey { server: message.server, question: Arc::new(question), process: Self::process(hit, cx) };
        match self.open.add(message, key.clone(), counts, hit.time) {
            SentPacket::Query { is_retry } if counts => {
                self.figures.each(&key, |row| {
                    row.queries += 1;
                    row.retries += u64::from(is_retry);
                });
                self.course.add(&"queries", hit.time, 1.0);
            }
            _ => {}
        }
    }

    fn received(&mut self, message: &DnsMessage<'_>, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        let (reader, is_seen, code) = (Self::process(hit, cx), Self::counts(hit, cx), message.code());
        let is_truncated = u64::from(message.is_truncated());
        let Some(mut query) = self.open.take(message, reader) else {
            if is_seen {
                self.figures.add_unmatched(&message.server, &reader, |row| {
                    row.answers += 1;
                    row.truncated += is_truncated;
                    row.codes[usize::from(code)] += 1;
                });
            }
            return;
        };
        if query.key.process != reader {
            let sent = (query.sent, query.repeated);
            let from = std::mem::replace(&mut query.key.process, reader);
            if query.counts {
                self.figures.move_query(&from, &reader, sent);
            } else if is_seen {
                query.counts = true;
                self.figures
                    .each(&query.key, |row| (row.queries, row.retries) = (row.queries + sent.0, row.retries + sent.1));
            }
        }
        if !query.counts {
            return;
        }
        let ns = hit.time.saturating_sub(query.since);
        let above = self.slowest.exceeds(hit, cx.names, ns);
        self.figures.each(&query.key, |row| {
            row.answers += 1;
            row.truncated += is_truncated;
            row.codes[usize::from(code)] += 1;
            row.latency.add_than(ns, above);
            // Their time came after all. The figures may have been reset since.
            row.unanswered = row.unanswered.saturating_sub(u64::from(query.is_unanswered));
        });
        cx.point(["query", "answer"], hit.time, ns);
        let line = if code == 0 { "answers" } else { "errors" };
        self.course.add(&line, hit.time, 1.0);
        self.slowest.add(above, ns, || SlowAnswer { key: query.key, time: hit.time, code });
    }
}

impl Unit for Dns {
    fn event_requests(&self) -> Vec<EventRequest> {
        vec![EventRequest::new("dns-messages")]
    }

    fn bind(&mut self, event: &UnitEvent<'_>) -> Result<(), String> {
        self.slowest.bind(event)
    }

    fn record(&mut self, hit: &UnitSample<'_>, cx: &mut Context<'_>) {
        self.advance(hit.time);
        let Some(message) = DnsMessage::parse(hit.raw) else { return };
        match message.is_answer {
            false => self.sent(&message, hit, cx),
            true => self.received(&message, hit, cx),
        }
    }

    fn lost(&mut self, _lost: &LostEvents) {
        self.open.forget();
    }

    fn loss_text(&self) -> &'static str {
        "queries open at that time have no answer, and counts are too low"
    }

    fn panels(&mut self, at: &Moment<'_>) -> Vec<Panel> {
        self.all_panels(at)
    }

    fn reset(&mut self, _now: u64) {
        self.figures = DnsFigures::default();
        self.open.dropped = 0;
        self.slowest.clear();
        self.course.clear();
    }
}
