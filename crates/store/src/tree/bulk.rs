//! Making leaves and maps of many entries at once.

use super::PackedMap;
use super::packed::{ENTRY_BYTES, HEADER_BYTES, LEAF_BYTES_BULK, Packed, TAIL_BYTES, separator};

/// Makes leaves of entries that come in order without duplicates. Only the entries of one leaf are held before they are packed, so they stay in the
/// nearest cache however many there are.
pub(crate) struct PackedBuilder {
    width: usize,
    /// About how large a leaf may become.
    leaf_bytes_max: usize,
    leaves: Vec<(Vec<u8>, Packed)>,
    length: usize,
    /// The entries of the next leaf, one behind the other, and where the key and the value of each end.
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
    /// How many bytes the keys of that leaf share, and about how large it will be.
    common: usize,
    leaf_bytes: usize,
    /// The last key of the leaf before.
    last_key: Vec<u8>,
}

impl PackedBuilder {
    /// A builder of leaves that have room for more.
    pub(crate) fn new(width: usize) -> PackedBuilder {
        PackedBuilder::up_to(width, LEAF_BYTES_BULK)
    }

    /// A builder of leaves of at most about so many bytes.
    pub(super) fn up_to(width: usize, leaf_bytes_max: usize) -> PackedBuilder {
        PackedBuilder {
            width,
            leaf_bytes_max,
            leaves: Vec::new(),
            length: 0,
            bytes: Vec::new(),
            ends: Vec::new(),
            common: 0,
            leaf_bytes: HEADER_BYTES,
            last_key: Vec::new(),
        }
    }

    /// Adds an entry; its key comes in two pieces.
    #[inline]
    pub(crate) fn push(&mut self, key: &[u8], rest_of_key: &[u8], value: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(rest_of_key);
        let length = self.bytes.len() - start;
        self.bytes.extend_from_slice(value);
        let whole = length + value.len() + ENTRY_BYTES;
        // The prefix is not known before the leaf is full: what all keys until now share is a good guess.
        let common = self.common_with_first(start, length);
        let leaf_bytes = self.leaf_bytes + whole - common.min(length.saturating_sub(TAIL_BYTES));
        if leaf_bytes > self.leaf_bytes_max && !self.ends.is_empty() {
            self.end_leaf();
            self.bytes.drain(..start);
            (self.common, self.leaf_bytes) = (length, HEADER_BYTES + whole);
        } else {
            (self.common, self.leaf_bytes) = (if start == 0 { length } else { common }, leaf_bytes);
        }
        self.ends.push((self.bytes.len() - value.len(), self.bytes.len()));
        self.length += 1;
    }

    /// How many bytes the key at `start` shares with all keys of the leaf: no more than the one before it.
    fn common_with_first(&self, start: usize, length: usize) -> usize {
        let Some((first_end, _)) = self.ends.first() else { return 0 };
        let most = self.common.min(length).min(*first_end);
        let (first, key) = (&self.bytes[..most], &self.bytes[start..start + most]);
        if first == key { most } else { first.iter().zip(key).take_while(|(left, right)| left == right).count() }
    }

    fn end_leaf(&mut self) {
        let mut start = 0;
        let entries = self.ends.iter().map(|(key_end, end)| {
            let entry = (&self.bytes[start..*key_end], &self.bytes[*key_end..*end]);
            start = *end;
            entry
        });
        let entries: Vec<(&[u8], &[u8])> = entries.collect();
        if let (Some((first, _)), Some((last, _))) = (entries.first(), entries.last()) {
            self.leaves.push((separator(&self.last_key, first), Packed::build(&entries, self.width)));
            self.last_key.clear();
            self.last_key.extend_from_slice(last);
        }
        self.ends.clear();
    }

    /// The leaves, each with its separator.
    pub(super) fn leaves(mut self) -> Vec<(Vec<u8>, Packed)> {
        self.end_leaf();
        self.leaves
    }

    /// A map of the leaves.
    pub(crate) fn finish(self) -> PackedMap {
        let (width, length) = (self.width, self.length);
        PackedMap::of(self.leaves(), width, length)
    }
}
