//! A perf.data file as a stream, which another program reads from a pipe (`perf inject -o -`).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::kernel::file_error;
use crate::perfdata::features::{FeatureSection, bit};
use crate::perfdata::read::Recording;
use crate::perfdata::stream::StreamWriter;
use crate::record::kinds::{HEADER, Header, types};

/// Maximum number of an event's ids, which have to fit into a record with its attributes.
const MAX_IDS: usize = 8000;
/// Bytes that are copied at once.
const PIECE: usize = 1 << 18;

/// Writes the records and the features of a file that [`super::copy::copy`] has written. Returns the written bytes.
pub(crate) fn write(path: &Path, out: Box<dyn Write + Send>) -> io::Result<u64> {
    let mut file = File::open(path).map_err(file_error::at(path))?;
    let rec = Recording::open(&file).map_err(|why| io::Error::other(why.to_string()))?;
    if rec.events.iter().any(|event| event.ids.len() > MAX_IDS) {
        return Err(io::Error::other("its events have too many ids for a stream; name a file with -o"));
    }
    let is_section = |(section, _): &&FeatureSection| *section != bit::BUILD_ID;
    let sections: Vec<FeatureSection> = rec.features.list.iter().filter(is_section).cloned().collect();
    let mut stream = StreamWriter::start(out, &rec.events, &sections)?;
    stream.records(&build_ids(rec.features.get(bit::BUILD_ID).unwrap_or_default()))?;
    file.seek(SeekFrom::Start(rec.data.start))?;
    let mut records = file.take(rec.data.end.saturating_sub(rec.data.start));
    let mut piece = vec![0; PIECE];
    loop {
        match records.read(&mut piece)? {
            0 => break,
            n => stream.records(&piece[..n])?,
        }
    }
    stream.finish_round()?;
    Ok(stream.written())
}

/// Returns the records of a file's list of build ids; streams have no such list.
fn build_ids(mut list: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some(header) = Header::read(list) {
        let Some((record, rest)) = list.split_at_checked(usize::from(header.size).max(HEADER)) else { break };
        out.extend_from_slice(&types::HEADER_BUILD_ID.to_le_bytes());
        out.extend_from_slice(&record[4..]);
        list = rest;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_build_ids_becomes_records() {
        let one = |kind: u32| [&kind.to_le_bytes()[..], &2u16.to_le_bytes(), &16u16.to_le_bytes(), &[7; 8]].concat();
        let list = [one(0), one(0)].concat();
        assert_eq!(build_ids(&list), [one(types::HEADER_BUILD_ID), one(types::HEADER_BUILD_ID)].concat());
        assert_eq!(build_ids(&list[..20]), one(types::HEADER_BUILD_ID), "a part of a record is left out");
        assert!(build_ids(&[]).is_empty());
    }
}
