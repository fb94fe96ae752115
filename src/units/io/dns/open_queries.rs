//! Queries that have no answer yet.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::record::dns_message::{DnsMessage, DnsQuestion};
use crate::units::kit::prelude::*;

/// A query without an answer after this time is late.
const LATE_NS: u64 = 1_000_000_000;
/// A query without an answer after this time counts as unanswered.
const UNANSWERED_NS: u64 = 5_000_000_000;
/// A query is forgotten after this time.
const FORGOTTEN_NS: u64 = 30_000_000_000;
/// The time in which the same packet passes several devices, such as a VLAN and the card below it.
const SAME_PACKET_NS: u64 = 100_000_000;
const MAX_OPEN: usize = 1 << 13;

/// The rows of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueryKey {
    pub(super) server: SocketAddr,
    pub(super) question: Arc<DnsQuestion>,
    pub(super) process: ThreadKey,
}

/// A query, which may have been sent several times.
#[derive(Clone, Debug)]
pub(super) struct OpenQuery {
    pub(super) key: QueryKey,
    /// Whether its sender is of the target.
    pub(super) counts: bool,
    /// When it was first sent.
    pub(super) since: u64,
    /// How many times it was sent, and how many of these repeated a question.
    pub(super) sent: u64,
    pub(super) repeated: u64,
    /// Whether it counts as unanswered.
    pub(super) is_unanswered: bool,
    /// Whether another server has answered it.
    pub(super) is_settled: bool,
    last: u64,
    packet: u64,
    place: (u16, u16),
}

/// The meaning of a sent packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SentPacket {
    /// A packet that has been seen on another device.
    Known,
    /// A query; whether the same question to the same server from the same socket is still open.
    Query { is_retry: bool },
}

/// A delay that a query without an answer has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overdue {
    Late,
    Unanswered,
}

/// The queries without an answer, by the order in which they were sent.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenQueries {
    queries: BTreeMap<u64, OpenQuery>,
    /// By local port and id.
    by_place: FxHashMap<(u16, u16), Vec<u64>>,
    /// The number of queries by socket and question.
    asked: FxHashMap<(u16, SocketAddr, Arc<DnsQuestion>), u32>,
    next: u64,
    /// The first query that is not late, and the first one that does not count as unanswered.
    late_from: u64,
    unanswered_from: u64,
    /// Queries that were dropped because there were too many.
    pub(super) dropped: u64,
}

impl OpenQueries {
    /// Adds a query that was sent.
    pub(super) fn add(&mut self, message: &DnsMessage<'_>, key: QueryKey, counts: bool, time: u64) -> SentPacket {
        let place = (message.port, message.id());
        let asked = (message.port, key.server, key.question.clone());
        let is_retry = self.asked.contains_key(&asked);
        let same = self.by_place.get(&place).into_iter().flatten();
        for number in same {
            let Some(open) = self.queries.get_mut(number) else { continue };
            if open.packet == message.packet && time.saturating_sub(open.last) < SAME_PACKET_NS {
                return SentPacket::Known;
            }
            if (open.key.server, &open.key.question) == (key.server, &key.question) {
                (open.last, open.packet) = (time, message.packet);
                open.sent += 1;
                open.repeated += 1;
                return SentPacket::Query { is_retry: true };
            }
        }
        if self.queries.len() >= MAX_OPEN
            && let Some(number) = self.queries.first_key_value().map(|(number, _)| *number)
        {
            self.remove(number);
            self.dropped += 1;
        }
        let query = OpenQuery {
            key,
            counts,
            since: time,
            sent: 1,
            repeated: u64::from(is_retry),
            is_unanswered: false,
            is_settled: false,
            last: time,
            packet: message.packet,
            place,
        };
        self.queries.insert(self.next, query);
        self.by_place.entry(place).or_default().push(self.next);
        *self.asked.entry(asked).or_default() += 1;
        self.next += 1;
        SentPacket::Query { is_retry }
    }

    /// Removes the query of an answer that was read by a process. Its address may have been translated, so that the
    /// server need not be that of the query. Queries with the same question to other servers are settled.
    pub(super) fn take(&mut self, message: &DnsMessage<'_>, reader: ThreadKey) -> Option<OpenQuery> {
        let place = (message.port, message.id());
        let numbers = self.by_place.get(&place)?.clone();
        let fit = |number: &&u64| {
            let key = self.queries.get(*number).map(|open| &open.key);
            key.map(|key| (key.server == message.server, key.process == reader))
        };
        let number = numbers.iter().max_by_key(|number| (fit(number), std::cmp::Reverse(**number)))?;
        let found = self.remove(*number)?;
        for number in &numbers {
            if let Some(open) = self.queries.get_mut(number).filter(|open| open.key.question == found.key.question) {
                open.is_settled |= open.key.process == found.key.process;
            }
        }
        Some(found)
    }

    fn remove(&mut self, number: u64) -> Option<OpenQuery> {
        let open = self.queries.remove(&number)?;
        if let Some(numbers) = self.by_place.get_mut(&open.place) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.by_place.remove(&open.place);
            }
        }
        let asked = (open.place.0, open.key.server, open.key.question.clone());
        if let Some(times) = self.asked.get_mut(&asked) {
            *times -= 1;
            if *times == 0 {
                self.asked.remove(&asked);
            }
        }
        Some(open)
    }

    /// Advances the time, forgets old queries, and calls `due` once for each query that becomes late or unanswered.
    pub(super) fn advance(&mut self, now: u64, mut due: impl FnMut(&OpenQuery, Overdue)) {
        let Self { queries, late_from, unanswered_from, .. } = self;
        for (number, open) in queries.range(*late_from..) {
            if now < open.since.saturating_add(LATE_NS) {
                break;
            }
            *late_from = number + 1;
            if !open.is_settled {
                due(open, Overdue::Late);
            }
        }
        for (number, open) in queries.range_mut(*unanswered_from..) {
            if now < open.since.saturating_add(UNANSWERED_NS) {
                break;
            }
            *unanswered_from = number + 1;
            if !open.is_settled {
                open.is_unanswered = true;
                due(open, Overdue::Unanswered);
            }
        }
        let is_old = |open: &OpenQuery| now >= open.since.saturating_add(FORGOTTEN_NS);
        while let Some(number) = self.queries.first_key_value().filter(|(_, open)| is_old(open)).map(|(at, _)| *at) {
            self.remove(number);
        }
    }

    /// Iterates over queries that are late, the oldest first, with their numbers.
    pub(super) fn late(&self) -> impl Iterator<Item = (u64, &OpenQuery)> {
        let late = self.queries.range(..self.late_from).map(|(number, open)| (*number, open));
        late.filter(|(_, open)| open.counts && !open.is_settled)
    }

    /// Forgets all queries: answers may have been missed.
    pub(super) fn forget(&mut self) {
        let (next, dropped) = (self.next, self.dropped);
        *self = Self { next, dropped, late_from: next, unanswered_from: next, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::dns_message::tests::payload;

    const MS: u64 = 1_000_000;

    fn query(open: &mut OpenQueries, packet: u64, place: (u16, u16), name: &str, time: u64) -> SentPacket {
        sent_to(open, packet, "10.0.0.2:53", place, name, time)
    }

    fn sent_to(
        open: &mut OpenQueries,
        packet: u64,
        server: &str,
        (port, id): (u16, u16),
        name: &str,
        time: u64,
    ) -> SentPacket {
        let payload = payload(id, 0x100, &[name.as_bytes()], 1);
        let server = server.parse().expect("an address");
        let message = DnsMessage { packet, is_answer: false, port, server, payload: &payload };
        let question = Arc::new(message.question().expect("a question"));
        open.add(&message, QueryKey { server, question, process: ThreadKey::of_row(1) }, true, time)
    }

    fn answer(open: &mut OpenQueries, server: &str, (port, id): (u16, u16)) -> Option<OpenQuery> {
        let payload = payload(id, 0x8180, &[], 1);
        let server = server.parse().expect("an address");
        let message = DnsMessage { packet: 9, is_answer: true, port, server, payload: &payload };
        open.take(&message, ThreadKey::of_row(1))
    }

    /// Returns how many queries became late and unanswered.
    fn advance(open: &mut OpenQueries, now: u64) -> (u32, u32) {
        let (mut late, mut unanswered) = (0, 0);
        open.advance(now, |_, what| match what {
            Overdue::Late => late += 1,
            Overdue::Unanswered => unanswered += 1,
        });
        (late, unanswered)
    }

    #[test]
    fn a_packet_on_several_devices_is_one_query() {
        let mut open = OpenQueries::default();
        let first = SentPacket::Query { is_retry: false };
        assert_eq!(query(&mut open, 7, (4000, 1), "a", 0), first);
        assert_eq!(query(&mut open, 7, (4000, 1), "a", MS), SentPacket::Known);
        assert_eq!(query(&mut open, 7, (4000, 1), "a", 5000 * MS), SentPacket::Query { is_retry: true });
        assert_eq!(query(&mut open, 8, (4000, 2), "a", 5001 * MS), SentPacket::Query { is_retry: true }, "another id");
        assert_eq!(query(&mut open, 9, (4001, 1), "a", 5001 * MS), first, "another socket");
        let taken = answer(&mut open, "10.0.0.2:53", (4000, 1)).expect("open");
        assert_eq!((taken.since, taken.sent, taken.repeated), (0, 2, 1));
        assert!(answer(&mut open, "10.0.0.2:53", (4000, 1)).is_none(), "answered once");
        assert!(answer(&mut open, "10.0.0.2:53", (4000, 2)).is_some());
        assert_eq!(query(&mut open, 9, (4000, 3), "a", 5002 * MS), first, "none is open");
    }

    #[test]
    fn an_answer_settles_the_question_to_other_servers() {
        let mut open = OpenQueries::default();
        for server in ["10.0.0.2:53", "10.0.0.3:53"] {
            sent_to(&mut open, 7, server, (4000, 1), "a", 0);
        }
        // The same packet address is that of another packet, sent to another server: it was seen before.
        assert_eq!(open.queries.len(), 1);
        sent_to(&mut open, 8, "10.0.0.3:53", (4000, 1), "a", 0);
        assert_eq!(
            answer(&mut open, "10.0.0.3:53", (4000, 1)).map(|of| of.key.server.to_string()),
            Some("10.0.0.3:53".into())
        );
        assert_eq!(advance(&mut open, 6000 * MS), (0, 0));
        let late = answer(&mut open, "10.0.0.9:53", (4000, 1));
        assert!(late.is_some_and(|of| !of.is_unanswered), "an address that was translated");
    }

    #[test]
    fn queries_become_late_once_and_are_forgotten() {
        let mut open = OpenQueries::default();
        query(&mut open, 1, (4000, 1), "a", 0);
        query(&mut open, 2, (4000, 2), "b", 500 * MS);
        assert_eq!(advance(&mut open, 999 * MS), (0, 0));
        assert_eq!(advance(&mut open, 1000 * MS), (1, 0));
        assert_eq!(open.late().count(), 1);
        assert_eq!(advance(&mut open, 5000 * MS), (1, 1));
        assert!(answer(&mut open, "10.0.0.2:53", (4000, 1)).is_some_and(|of| of.is_unanswered));
        assert_eq!(advance(&mut open, 31_000 * MS), (0, 1));
        assert!(open.queries.is_empty() && open.by_place.is_empty() && open.asked.is_empty());
    }

    #[test]
    fn the_oldest_of_too_many_are_dropped() {
        let mut open = OpenQueries::default();
        for number in 0..MAX_OPEN + 10 {
            query(&mut open, number as u64, (number as u16, 1), "a", number as u64);
        }
        assert_eq!((open.queries.len(), open.by_place.len(), open.dropped), (MAX_OPEN, MAX_OPEN, 10));
    }
}
