//! Labels of samples as the fields of an event: filters and columns read them like those of tracepoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::event::format::Format;
use crate::filter::FIELDS;

/// The samples without labels.
pub(super) const NO_LABELS: u32 = 0;
/// The keys that become fields; the offsets of their values have 16 bits.
const MOST_KEYS: usize = 32;
const MOST_VALUE: usize = 256;
/// The bytes of distinct sets, and of those of all samples together; further samples have no labels.
const MOST_DISTINCT: usize = 64 << 20;
const MOST_BYTES: usize = 512 << 20;

/// A label's value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LabelValue {
    Text(Arc<str>),
    Number(i64),
}

/// The labels of all samples: sets of fields' values.
#[derive(Debug, Default)]
pub(super) struct Labels {
    /// The keys in the order of their first use, and whether a value is text.
    keys: Vec<(String, bool)>,
    sets: Vec<Vec<(usize, LabelValue)>>,
    ids: HashMap<Vec<(usize, LabelValue)>, u32>,
    raw: Vec<Arc<[u8]>>,
    distinct_bytes: usize,
    bytes: usize,
    /// Labels that were left out, because there are too many.
    pub(super) left_out: u64,
}

impl Labels {
    /// Returns the number of a set of labels. Of several values of a key, the first is kept.
    pub(super) fn of(&mut self, labels: impl Iterator<Item = (String, LabelValue)>) -> u32 {
        let mut set: BTreeMap<usize, LabelValue> = BTreeMap::new();
        for (key, value) in labels {
            match self.key(key, &value) {
                Some(key) => drop(set.entry(key).or_insert(value)),
                None => self.left_out += 1,
            }
        }
        let set: Vec<_> = set.into_iter().collect();
        if set.is_empty() {
            return NO_LABELS;
        }
        if let Some(id) = self.ids.get(&set) {
            return *id;
        }
        let text = |(_, value): &(usize, LabelValue)| if let LabelValue::Text(text) = value { text.len() } else { 0 };
        self.distinct_bytes += MOST_KEYS * 8 + set.iter().map(text).sum::<usize>();
        if self.distinct_bytes > MOST_DISTINCT {
            self.left_out += set.len() as u64;
            return NO_LABELS;
        }
        self.sets.push(set.clone());
        let id = self.sets.len() as u32;
        self.ids.insert(set, id);
        id
    }

    fn key(&mut self, key: String, value: &LabelValue) -> Option<usize> {
        let is_text = matches!(value, LabelValue::Text(_));
        if let Some(at) = self.keys.iter().position(|(known, _)| *known == key) {
            self.keys[at].1 |= is_text;
            return Some(at);
        }
        let at = self.keys.len();
        (at < MOST_KEYS).then(|| self.keys.push((key, is_text))).map(|()| at)
    }

    /// Encodes all sets as raw data of one format; `None` without labels.
    pub(super) fn finish(&mut self) -> Option<Format> {
        if self.keys.is_empty() {
            return None;
        }
        let mut text = String::from("name: labels\nID: 1\nformat:\n");
        let mut offsets = Vec::new();
        let mut offset = 0;
        for ((_, is_text), name) in self.keys.iter().zip(field_names(&self.keys)) {
            let (kind, size) = if *is_text { ("__data_loc char[]", 4) } else { ("s64", 8) };
            text += &format!("\tfield:{kind} {name};\toffset:{offset};\tsize:{size};\tsigned:1;\n");
            offsets.push(offset);
            offset += size;
        }
        self.ids = HashMap::new();
        let none = encode(&[], &self.keys, &offsets, offset);
        let all = std::mem::take(&mut self.sets);
        self.raw =
            std::iter::once(none).chain(all.iter().map(|set| encode(set, &self.keys, &offsets, offset))).collect();
        let mut format = Format::parse("", &text, cfg!(target_endian = "big"))?;
        for (field, (key, _)) in format.fields.iter_mut().zip(&self.keys) {
            field.label = Some(key.as_str().into());
        }
        Some(format)
    }

    /// Returns the raw data of a numbered set; `None` if no sample has labels.
    pub(super) fn raw(&mut self, id: u32) -> Option<Arc<[u8]>> {
        let raw = self.raw.get(id as usize)?;
        self.bytes = self.bytes.saturating_add(raw.len());
        let is_over = id != NO_LABELS && self.bytes > MOST_BYTES;
        self.left_out += u64::from(is_over);
        if is_over { self.raw.first().cloned() } else { Some(raw.clone()) }
    }
}

/// Returns the keys as names of fields, which have letters, digits and `_`, and differ from those of all samples.
fn field_names(keys: &[(String, bool)]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for (key, _) in keys {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let mut name: String = key.chars().take(MOST_VALUE).map(plain).collect();
        if name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
            || FIELDS.iter().any(|row| row.name == name)
        {
            name.insert_str(0, "label_");
        }
        while names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    names
}

fn encode(set: &[(usize, LabelValue)], keys: &[(String, bool)], offsets: &[usize], size: usize) -> Arc<[u8]> {
    let mut raw = vec![0; size];
    for (key, value) in set {
        let at = offsets[*key];
        match value {
            LabelValue::Number(number) if !keys[*key].1 => raw[at..at + 8].copy_from_slice(&number.to_ne_bytes()),
            LabelValue::Number(number) => put_text(&mut raw, at, &number.to_string()),
            LabelValue::Text(text) => put_text(&mut raw, at, text),
        }
    }
    raw.into()
}

fn put_text(raw: &mut Vec<u8>, at: usize, text: &str) {
    let end = text.floor_char_boundary(MOST_VALUE);
    let word = (raw.len() as u32) | (end as u32 + 1) << 16;
    raw[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    raw.extend_from_slice(&text.as_bytes()[..end]);
    raw.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> LabelValue {
        LabelValue::Text(value.into())
    }

    #[test]
    fn labels_are_fields() {
        let mut labels = Labels::default();
        let one = labels
            .of([("http.path".to_owned(), text("/a")), ("bytes".to_owned(), LabelValue::Number(-16))].into_iter());
        let two = labels.of([("comm".to_owned(), text("x")), ("mixed".to_owned(), LabelValue::Number(7))].into_iter());
        let three =
            labels.of([("mixed".to_owned(), text("seven")), ("http.path".to_owned(), text("é".repeat(400).as_str()))]
                .into_iter());
        assert_eq!(
            labels.of([("comm".to_owned(), text("x")), ("mixed".to_owned(), LabelValue::Number(7))].into_iter()),
            two
        );
        let format = labels.finish().expect("a format");
        let value = |id: u32, name: &str| {
            let field = format.said(name).unwrap_or_else(|| panic!("{name}")).clone();
            let raw = labels.raw.get(id as usize).expect("raw").clone();
            if field.is_number() { field.number(&raw).unwrap_or(0).to_string() } else { field.text(&raw).to_string() }
        };
        assert_eq!([value(one, "http_path"), value(one, "bytes"), value(one, "label_comm")], ["/a", "-16", ""]);
        assert_eq!([value(two, "label_comm"), value(two, "mixed"), value(three, "mixed")], ["x", "7", "seven"]);
        assert_eq!((value(three, "http_path"), value(NO_LABELS, "mixed")), ("é".repeat(128), String::new()));
        assert!(Labels::default().finish().is_none());
    }

    #[test]
    fn names_of_fields_are_distinct_words() {
        let keys = ["a.b", "a-b", "", "7up", "cpu", "grün"].map(|key| (key.to_owned(), true));
        assert_eq!(field_names(&keys), ["a_b", "a_b_", "label_", "label_7up", "label_cpu", "gr_n"]);
    }
}
