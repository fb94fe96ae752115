//! Reading and writing fields at offsets of a record's bytes; fields past its end do not exist.

pub(crate) fn u64_at(record: &[u8], at: usize) -> Option<u64> {
    record.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

pub(crate) fn i32_at(record: &[u8], at: usize) -> Option<i32> {
    record.get(at..)?.first_chunk().map(|bytes| i32::from_le_bytes(*bytes))
}

/// Overwrites a field, unless it would extend past the end.
pub(crate) fn put(record: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = record.get_mut(at..).and_then(|rest| rest.get_mut(..field.len())) {
        place.copy_from_slice(field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_the_end_is_not_there() {
        let mut record: Vec<u8> = (1..=12).collect();
        assert_eq!(u64_at(&record, 4), Some(u64::from_le_bytes([5, 6, 7, 8, 9, 10, 11, 12])));
        assert_eq!(i32_at(&record, 8), Some(i32::from_le_bytes([9, 10, 11, 12])));
        for at in [9, 12, 13, usize::MAX] {
            assert_eq!((u64_at(&record, at), i32_at(&record, at)), (None, None));
            put(&mut record, at, &[0; 4]);
        }
        put(&mut record, 8, &[0; 4]);
        assert_eq!(record, [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0]);
    }
}
