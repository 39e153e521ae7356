//! Comparing one key with many.

use std::cmp::Ordering;

/// A key that is looked for. Its first eight bytes are compared as one number, which decides most comparisons without a call.
pub(super) struct Probe<'k> {
    key: &'k [u8],
    head: u64,
}

impl<'k> Probe<'k> {
    #[inline]
    pub(super) fn new(key: &'k [u8]) -> Probe<'k> {
        Probe { key, head: head(key, 0, key.len()) }
    }

    /// How the key in `bytes[start..end]` compares to this one.
    #[inline]
    pub(super) fn compare(&self, bytes: &[u8], start: usize, end: usize) -> Ordering {
        let other = head(bytes, start, end);
        if other != self.head {
            return other.cmp(&self.head);
        }
        bytes[start..end].cmp(self.key)
    }
}

/// What is left of a key behind a prefix, which is seldom longer than 16 bytes: two comparisons of numbers then, and no call.
#[inline]
pub(super) fn strip_prefix<'k>(key: &'k [u8], prefix: &[u8]) -> Option<&'k [u8]> {
    let (start, rest) = key.split_at_checked(prefix.len())?;
    let same = match (prefix.first_chunk::<8>(), prefix.last_chunk::<8>()) {
        (Some(first), Some(last)) if prefix.len() <= 16 => {
            start.first_chunk::<8>() == Some(first) && start.last_chunk::<8>() == Some(last)
        }
        (Some(_), _) => start == prefix,
        _ => start.iter().zip(prefix).all(|(left, right)| left == right),
    };
    same.then_some(rest)
}

/// The first eight bytes of `bytes[start..end]` as a number of the same order, a shorter key filled up with zeros.
#[inline]
fn head(bytes: &[u8], start: usize, end: usize) -> u64 {
    let length = end - start;
    match bytes.get(start..start + 8) {
        // What lies behind a shorter key is read with it and masked away.
        Some(eight) => {
            let number = u64::from_be_bytes(eight.try_into().unwrap_or_default());
            if length >= 8 { number } else { number & !(u64::MAX >> (8 * length)) }
        }
        None => {
            let mut eight = [0; 8];
            let length = length.min(8);
            eight[..length].copy_from_slice(&bytes[start..start + length]);
            u64::from_be_bytes(eight)
        }
    }
}
