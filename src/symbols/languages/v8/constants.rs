//! The constants by which an engine describes its types (gen-postmortem-metadata.py).

use std::collections::BTreeMap;

pub(super) const PREFIX: &[u8] = b"v8dbg_";

/// Values of constants by their names without the prefix.
#[derive(Clone, Debug, Default)]
pub(super) struct Constants(BTreeMap<Vec<u8>, i32>);

impl<'a> Extend<(&'a [u8], i32)> for Constants {
    fn extend<T: IntoIterator<Item = (&'a [u8], i32)>>(&mut self, all: T) {
        self.0.extend(all.into_iter().map(|(name, value)| (name[PREFIX.len()..].to_vec(), value)));
    }
}

impl Constants {
    pub(super) fn get(&self, name: &str) -> Option<i32> {
        self.0.get(name.as_bytes()).copied()
    }

    /// Returns a constant whose name ends with a type's, which differs between versions.
    fn starting(&self, start: String) -> Option<i32> {
        let (name, value) = self.0.range(start.clone().into_bytes()..).next()?;
        name.starts_with(start.as_bytes()).then_some(*value)
    }

    /// Returns the offset of a field in objects of a class.
    pub(super) fn field(&self, class: &str, field: &str) -> Option<u8> {
        self.starting(format!("class_{class}__{field}__"))?.try_into().ok()
    }

    /// Returns the number of a class among the types of objects.
    pub(super) fn class(&self, class: &str) -> Option<u16> {
        self.starting(format!("type_{class}__"))?.try_into().ok()
    }
}
