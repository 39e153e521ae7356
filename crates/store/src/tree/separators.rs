//! The separators of an inner node: short byte strings in order.
//!
//! What a search compares lies in the node itself: the bytes that all separators share, and the four bytes of each behind these, as a number. The
//! whole separators lie beside it, shared by all versions of the node between two splits.

use super::{CHILDREN_MAX, Keys, Wanted};
use arrayvec::ArrayVec;
use std::ops::Range;
use std::sync::Arc;

/// So many of the shared bytes lie in the node.
const NEAR_BYTES: usize = 16;

/// A node of `CHILDREN_MAX` children has one less.
const SEPARATORS_MAX: usize = CHILDREN_MAX - 1;

#[derive(Clone)]
pub(super) struct Separators {
    /// The four bytes of each separator behind the shared ones, as a number; the greatest number behind the last one. A search counts these and
    /// seldom looks further.
    heads: [i32; CHILDREN_MAX],
    count: u16,
    /// How many bytes all separators share; a search compares them once.
    shared: u16,
    /// The first of the shared bytes, filled up with zeros.
    near: [u8; NEAR_BYTES],
    text: Arc<Text>,
}

/// Whole separators, one behind the other.
#[derive(Default)]
struct Text {
    bytes: Vec<u8>,
    ends: ArrayVec<u32, SEPARATORS_MAX>,
}

/// The first four bytes as a number of the same order, a shorter text filled up with zeros. It is a signed one: vectors of these are compared at once.
#[inline]
fn head(bytes: &[u8]) -> i32 {
    let number = match bytes.first_chunk::<4>() {
        Some(four) => u32::from_be_bytes(*four),
        None => {
            bytes.iter().enumerate().fold(0, |head, (position, byte)| head | u32::from(*byte) << (24 - 8 * position))
        }
    };
    (number ^ 1 << 31) as i32
}

impl Separators {
    /// Separators of these texts, at most [`SEPARATORS_MAX`], which are in order.
    pub(super) fn of<'t>(texts: impl Iterator<Item = &'t [u8]>) -> Separators {
        let mut text = Text::default();
        for separator in texts {
            text.bytes.extend_from_slice(separator);
            text.ends.push(text.bytes.len() as u32);
        }
        text.bytes.shrink_to_fit();
        // What the first and the last one share, all between them do.
        let shared = match text.ends.len() {
            0 => 0,
            count => text.get(0).iter().zip(text.get(count - 1)).take_while(|(left, right)| left == right).count(),
        };
        let mut separators = Separators {
            heads: [i32::MAX; CHILDREN_MAX],
            count: text.ends.len() as u16,
            // INVARIANT: KEY_BYTES_MAX keeps a separator below 2^16 bytes.
            shared: shared as u16,
            near: [0; NEAR_BYTES],
            text: Arc::default(),
        };
        let near = shared.min(NEAR_BYTES);
        separators.near[..near].copy_from_slice(&text.bytes[..near]);
        for position in 0..text.ends.len() {
            separators.heads[position] = head(&text.get(position)[shared..]);
        }
        separators.text = Arc::new(text);
        separators
    }

    /// The position of the child that a key belongs to: how many separators are not greater than it.
    #[inline]
    pub(super) fn child_of(&self, wanted: &Wanted<'_>) -> usize {
        let (count, shared) = (usize::from(self.count), usize::from(self.shared));
        if shared > 0 {
            let near = shared.min(NEAR_BYTES);
            let behind = 8 * (NEAR_BYTES - near);
            let (ours, theirs) = (u128::from_be_bytes(self.near) >> behind, wanted.first >> behind);
            // A shorter key is filled up with zeros, which the separators may have as well.
            if ours != theirs || shared > NEAR_BYTES || wanted.key.len() < shared {
                let (prefix, key) = (&self.text.bytes[..shared], wanted.key);
                if !key.starts_with(prefix) {
                    return if key < prefix { 0 } else { count };
                }
            }
        }
        let rest = &wanted.key[shared..];
        let wanted = head(rest);
        let mut position = self.heads.iter().map(|head| u32::from(*head < wanted)).sum::<u32>() as usize;
        while position < count && self.heads[position] == wanted && self.text.get(position)[shared..] <= *rest {
            position += 1;
        }
        position
    }

    /// The child that the first key of a range belongs to, and the end of the keys that belong to it too.
    #[inline]
    pub(super) fn share(&self, keys: &impl Keys, range: Range<usize>) -> (usize, usize) {
        let position = self.child_of(&Wanted::new(keys.key(range.start)));
        if range.len() == 1 || position == usize::from(self.count) {
            return (position, range.end);
        }
        let separator = self.text.get(position);
        if keys.key(range.end - 1) < separator {
            return (position, range.end);
        }
        let (mut low, mut high) = (range.start + 1, range.end - 1);
        while low < high {
            let middle = (low + high) / 2;
            if keys.key(middle) < separator {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (position, low)
    }

    /// The separator before the child at this position; nothing before the first one.
    pub(super) fn before(&self, position: usize) -> &[u8] {
        position.checked_sub(1).map_or(&[], |position| self.text.get(position))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..usize::from(self.count)).map(|position| self.text.get(position))
    }
}

impl Text {
    #[inline]
    fn get(&self, position: usize) -> &[u8] {
        let start = if position == 0 { 0 } else { self.ends[position - 1] as usize };
        &self.bytes[start..self.ends[position] as usize]
    }
}
