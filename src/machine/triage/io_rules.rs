//! Rules about disks and networks.

use crate::lang::counted;
use crate::panel::unit::{bytes, duration, short};
use crate::session::machine::resources::DiskCounters;

use super::totals::Totals;
use super::{Cause, Confidence, Look, MachineFinding, SPECIFIC, Severity};
use crate::machine::culprits::Culprit;
use crate::machine::resources::NetworkCounts;

/// The share of the time in which a disk has requests, the pressure in percent, and a mean time of requests that is slow.
const DISK_BUSY: f64 = 0.8;
const PRESSURE: f64 = 10.0;
/// The share of the time in which a disk has requests, from which it may cause the pressure.
const PRESSED_BUSY: f64 = 0.1;
const SLOW_NS: f64 = 50e6;
/// The bytes of a request from which it takes long without a process that waits for it: the kernel writes changed pages
/// to disks in large requests. The pressure in percent from which processes do wait.
const LARGE: f64 = 256e3;
const WAITED_FOR: f64 = 5.0;
/// Requests per second that are many for any disk.
const MANY_REQUESTS: f64 = 2000.0;
/// Requests per second below which the mean time of requests means little.
const LEAST_REQUESTS: f64 = 10.0;
/// Failed connections per second, and the share of those opened.
const FAILED: f64 = 2.0;
const FAILED_SHARE: f64 = 0.05;
const BAD_SHARE: f64 = 0.2;
/// Established connections that end by a reset per second, and their share of those opened and accepted.
const RESET: f64 = 2.0;
const RESET_SHARE: f64 = 0.05;
/// Segments that are sent again per second, and the share of those sent.
const RETRANSMITTED: f64 = 5.0;
const RETRANSMITTED_SHARE: f64 = 0.01;
/// The weight of a full listen queue, and the largest one of what it causes: segments that are sent again, and connects
/// without an answer.
const FULL_QUEUE: f64 = 0.7;
const BELOW_FULL_QUEUE: f64 = 0.69;
/// The lists of sockets that show a peer without an answer, or a reader that does not read. A connect that has sent its
/// SYN again twice needs only one.
const SHOWN: f64 = 2.0;
const SYNS_RESENT: u8 = 2;
/// The connects without an answer from which a peer is bad, if no connection to it is open.
const UNANSWERED: f64 = 3.0;
/// Dropped packets of handshakes or datagrams per second.
const DROPPED: f64 = 1.0;

pub(super) fn disk(totals: &Totals<'_>) -> Option<MachineFinding> {
    let programs = totals.programs(|one| one.io);
    if totals.is_narrowed && programs.is_empty() || totals.seconds <= 0.0 {
        return None;
    }
    let busy = |disk: &DiskCounters| disk.busy_ms as f64 / 1000.0 / totals.seconds;
    let worst = totals.disks.values().max_by(|a, b| (a.weighted_ms, &a.name).cmp(&(b.weighted_ms, &b.name)))?;
    let rate = worst.requests as f64 / totals.seconds;
    let mean_ns = worst.waited_ms as f64 * 1e6 / worst.requests.max(1) as f64;
    let (some, full) = totals.pressure_of("io");
    let size = worst.sectors as f64 * 512.0 / worst.requests.max(1) as f64;
    let is_waited_for = size < LARGE || some >= totals.limit(WAITED_FOR);
    let is_slow = mean_ns >= totals.limit(SLOW_NS) && rate >= totals.limit(LEAST_REQUESTS) && is_waited_for;
    let is_pressed = some >= totals.limit(PRESSURE) && busy(worst) >= totals.limit(PRESSED_BUSY);
    if busy(worst) < totals.limit(DISK_BUSY) && rate < MANY_REQUESTS && !is_pressed && !is_slow {
        return None;
    }
    let depth = worst.weighted_ms as f64 / 1000.0 / totals.seconds;
    let is_bad = is_slow && busy(worst) >= DISK_BUSY || full >= 4.0 * PRESSURE && busy(worst) >= DISK_BUSY;
    let severity = if is_bad { Severity::Bad } else { Severity::Look };
    let figure = format!("{} {:.0} % busy", worst.name, (100.0 * busy(worst)).min(100.0));
    let weight = SPECIFIC + 0.15 * busy(worst) + full / 200.0;
    let finding = MachineFinding::new(Cause::Disk, severity, weight, figure, Look::unit("blktrace", None));
    let throughput = worst.sectors.saturating_mul(512) as f64 / totals.seconds;
    let pressure = if some > 0.0 { format!(", pressure {some:.0} %") } else { String::new() };
    let (each, throughput) = (duration(mean_ns as u64), bytes(throughput as u64));
    let evidence = format!("{} requests/s, {each} each, depth {depth:.1}, {throughput}/s{pressure}", short(rate));
    let culprits = totals.culprits(&programs, |rate| format!("{}/s", bytes(rate as u64)));
    Some(finding.by(culprits).shown_by(evidence))
}

/// Returns the network namespace with the largest figure: the process in it, its name, and the counters.
fn worst<'a>(
    totals: &'a Totals<'_>,
    figure: fn(&NetworkCounts) -> u64,
) -> Option<(Option<i32>, &'a str, &'a NetworkCounts)> {
    let list = totals.networks.iter().map(|(pid, (name, counts))| (*pid, &**name, counts));
    list.max_by_key(|(pid, _, counts)| (figure(counts), std::cmp::Reverse(*pid)))
}

/// Returns the unit for connections, if this program has it.
fn connections(pid: Option<i32>) -> Look {
    let unit = if crate::units::find("tcp").is_some() { "tcp" } else { "syscalls" };
    Look::unit(unit, pid)
}

fn place(pid: Option<i32>, name: &str) -> String {
    pid.map_or_else(String::new, |pid| format!("network namespace of {name} {pid}"))
}

pub(super) fn unanswered(totals: &Totals<'_>) -> Option<MachineFinding> {
    let shown = totals
        .unanswered
        .iter()
        .filter(|peer| peer.resends >= SYNS_RESENT || f64::from(peer.looks) >= totals.limit(SHOWN));
    let worst = shown.max_by_key(|peer| (peer.connects, peer.resends, std::cmp::Reverse(peer.peer)))?;
    let is_bad = worst.open == 0 && f64::from(worst.connects) >= totals.limit(UNANSWERED);
    let severity = if is_bad { Severity::Bad } else { Severity::Look };
    let figure = format!("{} without an answer", counted(u64::from(worst.connects), "connect"));
    let drops = |counts: &NetworkCounts| counts.unaccepted.saturating_add(counts.half_open_dropped);
    let has_drops = totals.networks.values().any(|(_, counts)| drops(counts) > 0);
    let most = if has_drops { BELOW_FULL_QUEUE } else { 1.0 };
    let weight = (SPECIFIC + 0.45 * worst.share()).min(most);
    let look = connections(worst.process.as_ref().map(|(pid, _)| *pid));
    let finding = MachineFinding::new(Cause::Unanswered, severity, weight, figure, look);
    Some(finding.by(worst.text()).shown_by(worst.evidence()))
}

pub(super) fn refused(totals: &Totals<'_>) -> Option<MachineFinding> {
    let (pid, name, counts) = worst(totals, |counts| counts.failed)?;
    let rate = counts.failed as f64 / totals.seconds.max(1e-3);
    let share = counts.failed as f64 / counts.opened.max(counts.failed).max(1) as f64;
    if rate < totals.limit(FAILED) || share < totals.limit(FAILED_SHARE) {
        return None;
    }
    // Failed handshakes of peers count as well (RFC 4022, tcpAttemptFails).
    let is_of_peers = counts.failed > counts.opened;
    let severity = if share >= BAD_SHARE && !is_of_peers { Severity::Bad } else { Severity::Look };
    let figure = format!("{:.0} % of connects fail", 100.0 * share);
    let culprits = &totals.behind.connects[..];
    let look = connections(if let [one] = culprits { Some(one.pid) } else { pid });
    let finding = MachineFinding::new(Cause::Refused, severity, SPECIFIC + 0.45 * share, figure, look);
    let opened = counts.opened.max(counts.failed) as f64 / totals.seconds.max(1e-3);
    let confidence = if is_of_peers { Confidence::Likely } else { finding.confidence };
    let finding = MachineFinding { confidence, ..finding };
    let of_peers = if is_of_peers { ", likely connects of peers" } else { "" };
    let evidence = format!("{} of {} a second{of_peers}", short(rate), short(opened));
    let culprit = match culprits {
        [] => place(pid, name),
        all => all.iter().take(2).map(Culprit::text).collect::<Vec<_>>().join(", "),
    };
    Some(finding.by(culprit).shown_by(evidence))
}

pub(super) fn resets(totals: &Totals<'_>) -> Option<MachineFinding> {
    let (pid, name, counts) = worst(totals, |counts| counts.reset)?;
    let rate = counts.reset as f64 / totals.seconds.max(1e-3);
    let began = counts.opened.saturating_add(counts.accepted).max(counts.reset).max(1);
    let share = counts.reset as f64 / began as f64;
    if rate < totals.limit(RESET) || share < totals.limit(RESET_SHARE) {
        return None;
    }
    let figure = format!("{:.0} % of connections are reset", 100.0 * share);
    let finding = MachineFinding::new(Cause::Resets, Severity::Look, SPECIFIC + 0.2 * share, figure, connections(pid));
    let began = began as f64 / totals.seconds.max(1e-3);
    let evidence = format!("{} of {} a second, by this machine or its peers", short(rate), short(began));
    Some(finding.by(place(pid, name)).shown_by(evidence))
}

pub(super) fn retransmits(totals: &Totals<'_>) -> Option<MachineFinding> {
    let (pid, name, counts) = worst(totals, |counts| counts.retransmitted)?;
    let rate = counts.retransmitted as f64 / totals.seconds.max(1e-3);
    let share = counts.retransmitted as f64 / counts.segments.max(counts.retransmitted).max(1) as f64;
    if rate < totals.limit(RETRANSMITTED) || share < totals.limit(RETRANSMITTED_SHARE) {
        return None;
    }
    let severity = if share >= 3.0 * RETRANSMITTED_SHARE { Severity::Bad } else { Severity::Look };
    let figure = format!("{:.1} % of segments sent again", 100.0 * share);
    let weight = (SPECIFIC + 4.0 * share).min(BELOW_FULL_QUEUE);
    let finding = MachineFinding::new(Cause::Retransmits, severity, weight, figure, connections(pid));
    Some(finding.by(place(pid, name)).shown_by(format!("{}/s", short(rate))))
}

pub(super) fn unaccepted(totals: &Totals<'_>) -> Option<MachineFinding> {
    let (pid, name, counts) = worst(totals, |counts| counts.unaccepted.saturating_add(counts.half_open_dropped))?;
    let dropped = counts.unaccepted.saturating_add(counts.half_open_dropped);
    let rate = dropped as f64 / totals.seconds.max(1e-3);
    // Of one connection, each packet that is sent again counts.
    let figure = format!("{} handshake packet drops/s", short(rate));
    let finding = || MachineFinding::new(Cause::Unaccepted, Severity::Bad, FULL_QUEUE, figure, connections(pid));
    let (culprit, evidence) = match &totals.full_queue {
        _ if counts.half_open_dropped > counts.unaccepted => (
            place(pid, name),
            "before they were open: likely, the SYN queue is full (net.ipv4.tcp_max_syn_backlog)".to_owned(),
        ),
        Some(queue) => (
            format!("{} accepts too slowly", queue.text()),
            format!("its listen queue is full: {} connections wait, the limit is {}", queue.waiting, queue.limit),
        ),
        None => (place(pid, name), "a listen queue is full: its process accepts too slowly".to_owned()),
    };
    (rate >= totals.limit(DROPPED)).then(|| finding().by(culprit).shown_by(evidence))
}

pub(super) fn zero_windows(totals: &Totals<'_>) -> Option<MachineFinding> {
    let shown = totals.stalled.iter().filter(|reader| f64::from(reader.looks) >= totals.limit(SHOWN));
    let worst = shown.max_by_key(|reader| (reader.connections, reader.unread, std::cmp::Reverse(reader.at)))?;
    let figure = format!("{} with a zero window", counted(u64::from(worst.connections), "connection"));
    let pid = worst.process.as_ref().or(worst.writer.as_ref()).map(|(pid, _)| *pid);
    // A receiver that waits on purpose does the same.
    let finding = MachineFinding::new(Cause::ZeroWindows, Severity::Look, SPECIFIC, figure, connections(pid));
    Some(finding.by(worst.text()).shown_by(worst.evidence()))
}

pub(super) fn datagrams(totals: &Totals<'_>) -> Option<MachineFinding> {
    let (pid, name, counts) = worst(totals, |counts| counts.datagrams_dropped)?;
    let rate = counts.datagrams_dropped as f64 / totals.seconds.max(1e-3);
    let figure = format!("{} datagrams dropped/s", short(rate));
    let finding = || MachineFinding::new(Cause::Datagrams, Severity::Look, 0.6, figure, Look::unit("syscalls", pid));
    let evidence = "a socket's buffer is full: its process reads too slowly".to_owned();
    (rate >= totals.limit(DROPPED)).then(|| finding().by(place(pid, name)).shown_by(evidence))
}
