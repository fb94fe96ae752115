//! perf's own records in a recording: descriptions of events, features, build ids, compressed data.

use super::packed::is_compressed;
use super::{Input, SideData};
use crate::kernel::attr::Attr;
use crate::perfdata::build_ids;
use crate::perfdata::bytes::ByteReader;
use crate::perfdata::features::bit;
use crate::perfdata::read::{MAX_FEATURE, MAX_IDS, attr_size, numbers};
use crate::perfdata::{EventDesc, MAX_EVENTS};
use crate::record::kinds::{HEADER, Header, types};
use crate::session::containers;
use crate::source::FilePosition;

impl Input {
    /// Removes a record that is not for the profile from the front; `false` if the front is another, or incomplete.
    pub(super) fn special(&mut self, beside: &mut SideData) -> bool {
        let Some(header) = Header::read(&self.carry).map(|h| self.header(h)) else { return false };
        let size = usize::from(header.size);
        if !is_special(header.kind) || size < HEADER || self.carry.len() < size {
            return false;
        }
        let body = self.carry[HEADER..size].to_vec();
        let mut b = ByteReader::new(&body, self.rec.big);
        let mut payload = 0;
        match header.kind {
            types::HEADER_ATTR => self.event(&body, beside),
            types::HEADER_FEATURE => {
                let feature = b.u64().unwrap_or(u64::MAX);
                self.feature(feature, b.rest, beside);
            }
            types::EVENT_UPDATE => {
                let (kind, id) = (b.u64().unwrap_or(0), b.u64().unwrap_or(0));
                if kind & !0xff == bit::UPDATE {
                    self.feature(kind & 0xff, b.rest, beside);
                } else if kind == 2
                    && let Some(event) = self.rec.events.iter_mut().find(|e| e.ids.contains(&id))
                {
                    event.name = crate::perfdata::bytes::text(b.rest);
                }
            }
            types::HEADER_BUILD_ID => beside.build_ids.extend(build_ids::of_record(header.misc, &body)),
            types::HEADER_TRACING_DATA => {
                payload = u64::from(b.u32().unwrap_or(0)).next_multiple_of(8);
                if payload <= MAX_FEATURE {
                    let Some(blob) = self.carry.get(size..size + payload as usize) else {
                        return self.ended && self.give_up(beside);
                    };
                    self.rec.features.set(bit::TRACING_DATA, blob.to_vec());
                }
            }
            types::AUXTRACE => payload = b.u64().unwrap_or(0),
            types::TABLE => self.given.record(&body),
            _ => self.compressed(header.kind, &body),
        }
        // A stream's first records are kept in case they are requested.
        if self.tells_all || self.place == FilePosition::default() && header.kind != types::TABLE {
            self.met.push_back((self.offset(0), self.carry[..size].to_vec()));
        }
        self.carry.drain(..size);
        self.skip = payload;
        self.drop_skipped();
        true
    }

    fn feature(&mut self, feature: u64, bytes: &[u8], beside: &mut SideData) {
        match u8::try_from(feature).ok().filter(|_| !bytes.is_empty()) {
            Some(bit::CONTAINERS) => {
                // A stream sends them in parts; those before its first record belong to its header.
                beside.containers.extend(containers::decode(bytes));
                let all = containers::encode(beside.containers.iter());
                self.rec.features.set(bit::CONTAINERS, all);
            }
            Some(bit) => self.rec.features.set(bit, bytes.to_vec()),
            None => {}
        }
    }

    fn give_up(&mut self, beside: &mut SideData) -> bool {
        beside.notes.push(format!("cut short at byte {}: the tracing data is incomplete", self.offset(0)));
        self.carry.clear();
        true
    }

    /// Reads a HEADER_ATTR record: an attr with its size, then ids.
    fn event(&mut self, body: &[u8], beside: &mut SideData) {
        let size = attr_size(body, self.rec.big);
        let Some((attr, ids)) = body.split_at_checked(size as usize) else { return };
        let Some(attr) = Attr::decode(attr, self.rec.big) else { return };
        let mut ids = numbers(ids, self.rec.big);
        ids.truncate(MAX_IDS as usize);
        if self.rec.events.len() == MAX_EVENTS {
            let limit = format!("samples of further events are left out: a stream has at most {MAX_EVENTS} events");
            if !beside.notes.contains(&limit) {
                beside.notes.push(limit);
            }
            return;
        }
        self.rec.events.push(EventDesc { name: String::new(), attr, ids });
        self.rec.attr_sizes.push(size);
    }
}

/// Returns whether the profile does not need records of this kind, or they have payloads outside their size.
pub(super) fn is_special(kind: u32) -> bool {
    matches!(
        kind,
        types::HEADER_ATTR
            | types::HEADER_FEATURE
            | types::EVENT_UPDATE
            | types::HEADER_BUILD_ID
            | types::HEADER_TRACING_DATA
            | types::AUXTRACE
            | types::TABLE
    ) || is_compressed(kind)
}
