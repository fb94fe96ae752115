//! Lists whose elements take much more memory than their text.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

/// Threads of one file; an empty object of one byte pair becomes some hundred bytes.
const MOST: usize = 1 << 16;

/// Reads a list of threads. Fails if it has more elements than any program.
pub(super) fn few<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Few(PhantomData))
}

struct Few<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<T> {
    type Value = Vec<T>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a list of at most {MOST} threads")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut all = Vec::new();
        while let Some(one) = list.next_element()? {
            if all.len() == MOST {
                return Err(A::Error::custom(format_args!("it has more than {MOST} threads; record a shorter time")));
            }
            all.push(one);
        }
        Ok(all)
    }
}
