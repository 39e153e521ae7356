//! Runs of packed keys: the leaves of indexes, rollups and partitions.
//!
//! A leaf is one allocation of exactly its size:
//!
//! ```text
//! count u16 | prefix length u16 | value width u16 | prefix | head of each entry u16 … | end of each entry u16 … | entries: rest of the key, value …
//! ```
//!
//! All keys of a leaf share the prefix, which is stored once. The head of an entry is the first two bytes of the rest of its key, as a number: a
//! search counts the heads, which lie side by side in two or three cache lines, and seldom looks at more than one entry. Copying a leaf is one `memcpy` and touches no reference count, so a change to an
//! index costs little more than the bytes of one leaf and of the inner nodes above it.

mod bulk;

pub(crate) use bulk::PackedBuilder;

use super::order::Probe;
use super::{Edit, Leaf, Leaves, Tree};
use std::cell::RefCell;
use std::sync::Arc;

/// The longest key. It keeps a leaf of two entries within the 16 bits of an entry's end.
pub(crate) const KEY_BYTES_MAX: usize = 4096;

/// A leaf of this size or more is split when an entry is added.
const LEAF_BYTES_MAX: usize = 1024;

/// A leaf smaller than this joins a neighbour.
const LEAF_BYTES_MIN: usize = LEAF_BYTES_MAX / 4;

/// Two leaves join only up to this size, so that the next insert does not split them again.
const LEAF_BYTES_JOINED_MAX: usize = LEAF_BYTES_MAX * 3 / 4;

/// A leaf made from many entries at once is filled up to this size.
const LEAF_BYTES_BULK: usize = LEAF_BYTES_MAX * 3 / 4;

/// The last bytes of a key are never part of the shared prefix, so that a row number there can be read in one piece.
const TAIL_BYTES: usize = 8;

const HEADER_BYTES: usize = 6;

/// The widest value: a count and fifteen sums.
pub(crate) const VALUE_BYTES_MAX: usize = 8 * 16;

thread_local! {
    /// Where leaves are put together, so that making one allocates once, at its exact size.
    static WORKBENCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[derive(Clone)]
pub(crate) struct Packed(Arc<[u8]>);

/// One entry of a leaf, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    prefix: &'a [u8],
    suffix: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// Appends the whole key.
    #[cfg(test)]
    pub(crate) fn put_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(self.suffix);
    }

    /// The whole key of a map whose keys have `N` bytes.
    pub(crate) fn key<const N: usize>(&self) -> [u8; N] {
        let mut key = [0; N];
        let (prefix, suffix) = key.split_at_mut(self.prefix.len().min(N));
        prefix.copy_from_slice(&self.prefix[..prefix.len()]);
        let shared = suffix.len().min(self.suffix.len());
        suffix[..shared].copy_from_slice(&self.suffix[..shared]);
        key
    }

    /// The last `N` bytes of the key, `N` being at most 8 and the key at least so long.
    #[inline]
    pub(crate) fn tail<const N: usize>(&self) -> [u8; N] {
        const { assert!(N <= TAIL_BYTES) };
        self.suffix.last_chunk().copied().unwrap_or([0; N])
    }
}

impl Packed {
    fn assemble(put: impl FnOnce(&mut Vec<u8>)) -> Packed {
        WORKBENCH.with_borrow_mut(|bytes| {
            bytes.clear();
            put(bytes);
            Packed(Arc::from(bytes.as_slice()))
        })
    }

    fn u16_at(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.0[at], self.0[at + 1]]))
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.u16_at(0)
    }

    #[inline]
    fn prefix_length(&self) -> usize {
        self.u16_at(2)
    }

    #[inline]
    fn width(&self) -> usize {
        self.u16_at(4)
    }

    /// Its size if somebody else holds it too.
    fn shared_bytes(&self) -> usize {
        if Arc::strong_count(&self.0) > 1 { self.0.len() } else { 0 }
    }

    #[inline]
    fn heads_at(&self) -> usize {
        HEADER_BYTES + self.prefix_length()
    }

    #[inline]
    fn ends_at(&self) -> usize {
        self.heads_at() + 2 * self.count()
    }

    #[inline]
    fn bodies_at(&self) -> usize {
        self.heads_at() + 4 * self.count()
    }

    #[inline]
    fn prefix(&self) -> &[u8] {
        &self.0[HEADER_BYTES..self.heads_at()]
    }

    /// Where the entry lies behind `bodies_at`.
    #[inline]
    fn span(&self, position: usize) -> (usize, usize) {
        let end_at = self.ends_at() + 2 * position;
        let start = if position == 0 { 0 } else { self.u16_at(end_at - 2) };
        (start, self.u16_at(end_at))
    }

    #[inline]
    pub(crate) fn entry(&self, position: usize) -> Entry<'_> {
        let (start, end) = self.span(position);
        let body = &self.0[self.bodies_at()..];
        let (suffix, value) = body[start..end].split_at(end - start - self.width());
        Entry { prefix: self.prefix(), suffix, value }
    }

    /// The position of the first entry whose key is not less than `key`, and whether it is `key`.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> (usize, bool) {
        let (count, width) = (self.count(), self.width());
        let prefix = self.prefix();
        let shared = prefix.len().min(key.len());
        match prefix.cmp(&key[..shared]) {
            std::cmp::Ordering::Less => return (count, false),
            std::cmp::Ordering::Greater => return (0, false),
            std::cmp::Ordering::Equal => {}
        }
        let rest = &key[shared..];
        let wanted = head(rest);
        let (heads, _) = self.0[self.heads_at()..self.ends_at()].as_chunks::<2>();
        let less = heads.iter().map(|head| u16::from(u16::from_le_bytes(*head) < wanted)).sum::<u16>();
        let mut low = usize::from(less);
        let mut high = low + heads[low..].iter().take_while(|head| u16::from_le_bytes(**head) == wanted).count();
        if low == high {
            return (low, false);
        }
        let probe = Probe::new(rest);
        let body = &self.0[self.bodies_at()..];
        while low < high {
            let middle = (low + high) / 2;
            let (start, end) = self.span(middle);
            match probe.compare(body, start, end - width) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return (middle, true),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// The position of the first entry from `from` on whose key does not start with `prefix`; the keys from there on are not less than it. Few
    /// entries are the rule, so the steps from `from` on are doubled before the rest is halved.
    #[inline]
    fn end_of_prefix(&self, prefix: &[u8], from: usize) -> usize {
        let (count, shared) = (self.count(), self.prefix());
        let rest = match prefix.strip_prefix(shared) {
            Some(rest) => rest,
            None => return if shared.starts_with(prefix) { count } else { from },
        };
        let within = |position: usize| self.entry(position).suffix.starts_with(rest);
        let (mut low, mut step) = (from, 1);
        let mut high = loop {
            let position = low + step - 1;
            if position >= count {
                break count;
            }
            if !within(position) {
                break position;
            }
            low = position + 1;
            step *= 2;
        };
        while low < high {
            let middle = (low + high) / 2;
            if within(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// A leaf of these entries, which are in order and not empty.
    fn build(entries: &[(&[u8], &[u8])], width: usize) -> Packed {
        let (first, last) = (entries[0].0, entries[entries.len() - 1].0);
        let shortest = entries.iter().map(|(key, _)| key.len()).min().unwrap_or(0);
        let common = first.iter().zip(last).take_while(|(left, right)| left == right).count();
        let prefix = &first[..common.min(shortest.saturating_sub(TAIL_BYTES))];
        Packed::assemble(|bytes| {
            put_u16(bytes, entries.len());
            put_u16(bytes, prefix.len());
            put_u16(bytes, width);
            bytes.extend_from_slice(prefix);
            entries.iter().for_each(|(key, _)| put_u16(bytes, head(&key[prefix.len()..]).into()));
            let mut end = 0;
            for (key, value) in entries {
                end += key.len() - prefix.len() + value.len();
                put_u16(bytes, end);
            }
            for (key, value) in entries {
                bytes.extend_from_slice(&key[prefix.len()..]);
                bytes.extend_from_slice(value);
            }
        })
    }

    /// All entries with whole keys.
    fn unpacked(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let whole = |entry: Entry<'_>| ([entry.prefix, entry.suffix].concat(), entry.value.to_vec());
        (0..self.count()).map(|position| whole(self.entry(position))).collect()
    }

    /// This leaf with one more entry whose key shares the prefix.
    fn with_inserted(&self, position: usize, suffix: &[u8], value: &[u8]) -> Packed {
        let (count, added) = (self.count(), suffix.len() + value.len());
        let bodies_at = self.bodies_at();
        let start = if position == 0 { 0 } else { self.span(position - 1).1 };
        Packed::assemble(|bytes| {
            put_u16(bytes, count + 1);
            let (head_at, ends_at) = (self.heads_at() + 2 * position, self.ends_at());
            bytes.extend_from_slice(&self.0[2..head_at]);
            put_u16(bytes, head(suffix).into());
            bytes.extend_from_slice(&self.0[head_at..ends_at + 2 * position]);
            put_u16(bytes, start + added);
            self.put_ends(bytes, position, added as u16);
            bytes.extend_from_slice(&self.0[bodies_at..bodies_at + start]);
            bytes.extend_from_slice(suffix);
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(&self.0[bodies_at + start..]);
        })
    }

    fn with_removed(&self, position: usize) -> Packed {
        let count = self.count();
        let bodies_at = self.bodies_at();
        let (start, end) = self.span(position);
        Packed::assemble(|bytes| {
            put_u16(bytes, count - 1);
            let (head_at, ends_at) = (self.heads_at() + 2 * position, self.ends_at());
            bytes.extend_from_slice(&self.0[2..head_at]);
            bytes.extend_from_slice(&self.0[head_at + 2..ends_at + 2 * position]);
            self.put_ends(bytes, position + 1, ((end - start) as u16).wrapping_neg());
            bytes.extend_from_slice(&self.0[bodies_at..bodies_at + start]);
            bytes.extend_from_slice(&self.0[bodies_at + end..]);
        })
    }

    /// Appends the ends of the entries from `from` on, moved by `shift`.
    fn put_ends(&self, out: &mut Vec<u8>, from: usize, shift: u16) {
        let start = out.len();
        out.extend_from_slice(&self.0[self.ends_at() + 2 * from..self.bodies_at()]);
        for end in out[start..].as_chunks_mut::<2>().0 {
            *end = u16::from_le_bytes(*end).wrapping_add(shift).to_le_bytes();
        }
    }

    /// This leaf with the entry at `from`, whose key has `old_length` bytes, under another key; `None` if that key does not lie between the
    /// first and the last one of the leaf or does not share the prefix.
    fn with_replaced(&self, from: usize, old_length: usize, new: &[u8], value: &[u8]) -> Option<Packed> {
        if !self.shares_prefix(new) || self.0.len() + new.len() > LEAF_BYTES_MAX + old_length {
            return None;
        }
        let (to, _) = self.search(new);
        if to == 0 || to == self.count() {
            return None;
        }
        let without = self.with_removed(from);
        Some(without.with_inserted(if from < to { to - 1 } else { to }, &new[self.prefix_length()..], value))
    }

    /// Whether a key shares the prefix, and leaves the bytes out of it that every key leaves out.
    fn shares_prefix(&self, key: &[u8]) -> bool {
        key.len() >= self.prefix_length() + TAIL_BYTES.min(key.len()) && key.starts_with(self.prefix())
    }

    /// Changes the value of an entry, in place if nobody else holds the leaf.
    fn change_value<T>(&mut self, position: usize, change: impl FnOnce(&mut [u8]) -> T) -> T {
        let width = self.width();
        let at = self.bodies_at() + self.span(position).1 - width;
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = Arc::from(&*self.0);
        }
        // INVARIANT: a fresh copy has one owner.
        let bytes = Arc::get_mut(&mut self.0).expect("a fresh copy has one owner");
        change(&mut bytes[at..at + width])
    }
}

/// The first two bytes as a number of the same order, a shorter text filled up with zeros.
#[inline]
fn head(rest: &[u8]) -> u16 {
    match rest {
        [first, second, ..] => u16::from_be_bytes([*first, *second]),
        [first] => u16::from_be_bytes([*first, 0]),
        [] => 0,
    }
}

fn put_u16(out: &mut Vec<u8>, number: usize) {
    // INVARIANT: KEY_BYTES_MAX and LEAF_BYTES_MAX keep every position in a leaf below 2^16.
    debug_assert!(number <= usize::from(u16::MAX));
    out.extend_from_slice(&(number as u16).to_le_bytes());
}

impl Leaf for Packed {
    fn is_sparse(&self) -> bool {
        self.0.len() < LEAF_BYTES_MIN
    }

    fn join(&self, right: &Self) -> Option<Self> {
        if self.0.len() + right.0.len() > LEAF_BYTES_JOINED_MAX {
            return None;
        }
        let mut entries = self.unpacked();
        entries.extend(right.unpacked());
        let joined = build_unpacked(&entries, self.width());
        (joined.0.len() <= LEAF_BYTES_MAX).then_some(joined)
    }
}

fn build_unpacked(entries: &[(Vec<u8>, Vec<u8>)], width: usize) -> Packed {
    let entries: Vec<_> = entries.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
    Packed::build(&entries, width)
}

/// The shortest key that is greater than `left` and not greater than `right`.
fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    right[..(common + 1).min(right.len())].to_vec()
}

/// A persistent ordered map from byte keys to values of one width.
#[derive(Clone)]
pub(crate) struct PackedMap {
    tree: Tree<Packed>,
    width: usize,
    length: usize,
    /// Bytes of leaves that were replaced since this was last asked and that others hold.
    replaced: usize,
}

impl PackedMap {
    pub(crate) fn new(width: usize) -> PackedMap {
        PackedMap { tree: Tree::default(), width, length: 0, replaced: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    #[inline]
    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        let leaf = self.tree.find(key)?;
        let (position, found) = leaf.search(key);
        found.then(|| leaf.entry(position).value)
    }

    /// Adds an entry or writes over its value. The key is at most [`KEY_BYTES_MAX`] long.
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) {
        debug_assert!(key.len() <= KEY_BYTES_MAX && value.len() == self.width);
        let (width, replaced) = (self.width, &mut self.replaced);
        let added = self.tree.edit(key, |leaf| {
            let Some(leaf) = leaf else { return (Edit::Replace(Packed::build(&[(key, value)], width)), true) };
            *replaced += leaf.shared_bytes();
            let (position, found) = leaf.search(key);
            if found {
                leaf.change_value(position, |before| before.copy_from_slice(value));
                return (Edit::Keep, false);
            }
            let grown = leaf.0.len() + 4 + key.len() + value.len() - leaf.prefix_length().min(key.len());
            // The last bytes of every key stay outside the prefix.
            let shares =
                key.len() >= leaf.prefix_length() + TAIL_BYTES.min(key.len()) && key.starts_with(leaf.prefix());
            if shares && grown <= LEAF_BYTES_MAX {
                let suffix = &key[leaf.prefix_length()..];
                return (Edit::Replace(leaf.with_inserted(position, suffix, value)), true);
            }
            let mut entries = leaf.unpacked();
            entries.insert(position, (key.to_vec(), value.to_vec()));
            (split(&entries, position, width), true)
        });
        self.length += usize::from(added);
    }

    /// Changes the value of an entry, which starts as zeros if it is not there; the entry stays, or comes, only if `change` says so.
    pub(crate) fn upsert(&mut self, key: &[u8], change: impl FnOnce(&mut [u8]) -> bool) {
        let replaced = &mut self.replaced;
        let mut change = Some(change);
        let stays = self.tree.edit(key, |leaf| {
            let Some(leaf) = leaf else { return (Edit::Keep, None) };
            let (position, true) = leaf.search(key) else { return (Edit::Keep, None) };
            let Some(change) = change.take() else { return (Edit::Keep, None) };
            *replaced += leaf.shared_bytes();
            (Edit::Keep, Some(leaf.change_value(position, change)))
        });
        match stays {
            Some(true) => {}
            Some(false) => drop(self.remove(key)),
            None => {
                let mut value = [0; VALUE_BYTES_MAX];
                let value = &mut value[..self.width];
                if change.take().is_some_and(|change| change(value)) {
                    self.insert(key, value);
                }
            }
        }
    }

    /// Removes the entry `old`, which is there, and adds `new`, which is not. Done in one step if both lie in one leaf, as they do when a change moves a
    /// row a little way in its index.
    pub(crate) fn replace(&mut self, old: &[u8], new: &[u8], value: &[u8]) {
        let replaced = &mut self.replaced;
        let (removed, done) = self.tree.edit(old, |leaf| {
            let Some(leaf) = leaf else { return (Edit::Keep, (false, false)) };
            let (position, true) = leaf.search(old) else { return (Edit::Keep, (false, false)) };
            *replaced += leaf.shared_bytes();
            if let Some(other) = leaf.with_replaced(position, old.len(), new, value) {
                return (Edit::Replace(other), (true, true));
            }
            let rest = if leaf.count() > 1 { Edit::Replace(leaf.with_removed(position)) } else { Edit::Remove };
            (rest, (true, false))
        });
        self.length -= usize::from(removed && !done);
        if !done {
            self.insert(new, value);
        }
    }

    /// Removes an entry; false if there is none.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let replaced = &mut self.replaced;
        let removed = self.tree.edit(key, |leaf| match leaf.map(|leaf| (leaf.search(key), leaf)) {
            Some(((position, true), leaf)) if leaf.count() > 1 => {
                *replaced += leaf.shared_bytes();
                (Edit::Replace(leaf.with_removed(position)), true)
            }
            Some(((_, true), leaf)) => {
                *replaced += leaf.shared_bytes();
                (Edit::Remove, true)
            }
            _ => (Edit::Keep, false),
        });
        self.length -= usize::from(removed);
        removed
    }

    /// Entries of a range of keys, rising.
    #[inline]
    pub(crate) fn range(&self, range: KeyRange) -> Entries<'_> {
        let leaves = self.tree.leaves_from(&range.low);
        let mut entries = Entries { leaves, leaf: None, position: 0, end: 0, range, rising: true };
        if let Some(leaf) = entries.leaves.next() {
            let from = leaf.search(&entries.range.low).0;
            entries.enter(leaf, from);
        }
        entries
    }

    /// Entries of a range of keys, falling.
    pub(crate) fn range_back(&self, range: KeyRange) -> Entries<'_> {
        let high = range.high_key();
        let leaves = self.tree.leaves_back_from(high.as_deref());
        let mut entries = Entries { leaves, leaf: None, position: 0, end: 0, range, rising: false };
        if let Some(leaf) = entries.leaves.next() {
            entries.enter(leaf, 0);
            if let Some(high) = high {
                entries.end = leaf.search(&high).0;
            }
        }
        entries
    }

    /// Bytes that earlier versions of the map hold alone since this was last asked.
    pub(crate) fn take_copied(&mut self) -> usize {
        self.tree.take_copied() + std::mem::take(&mut self.replaced)
    }

    #[cfg(test)]
    pub(crate) fn leaf_count(&self) -> usize {
        self.tree.leaves().count()
    }
}

/// The leaf or leaves that hold these entries, of which the one at `added` is new.
fn split(entries: &[(Vec<u8>, Vec<u8>)], added: usize, width: usize) -> Edit<Packed> {
    let whole = build_unpacked(entries, width);
    if whole.0.len() <= LEAF_BYTES_MAX || entries.len() < 2 {
        return Edit::Replace(whole);
    }
    // Keys that come in order fill leaves: an entry added at the end starts a new leaf, elsewhere the bytes are halved.
    let middle = if added == entries.len() - 1 { added } else { half_of_bytes(entries) };
    let (left, right) = entries.split_at(middle);
    let separator = separator(&left[left.len() - 1].0, &right[0].0);
    Edit::Split(build_unpacked(left, width), vec![(separator, build_unpacked(right, width))])
}

fn half_of_bytes(entries: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let total: usize = entries.iter().map(|(key, value)| key.len() + value.len()).sum();
    let mut sum = 0;
    let middle = entries.iter().position(|(key, value)| {
        sum += key.len() + value.len();
        sum * 2 >= total
    });
    middle.unwrap_or(0).clamp(1, entries.len() - 1)
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyRange {
    /// No key is less.
    pub(crate) low: Vec<u8>,
    /// Where it ends.
    pub(crate) high: High,
}

/// Where a range of keys ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum High {
    /// Nowhere.
    Open,
    /// With the keys that start with so many first bytes of `low`.
    Prefix(usize),
    /// Before this key.
    Key(Vec<u8>),
}

impl KeyRange {
    /// All keys.
    pub(crate) fn all() -> KeyRange {
        KeyRange { low: Vec::new(), high: High::Open }
    }

    /// The keys that start with `prefix`.
    pub(crate) fn starting_with(prefix: Vec<u8>) -> KeyRange {
        KeyRange { high: High::Prefix(prefix.len()), low: prefix }
    }

    /// The smallest key behind the range; `None` if there is none.
    pub(crate) fn high_key(&self) -> Option<Vec<u8>> {
        match &self.high {
            High::Open => None,
            High::Key(key) => Some(key.clone()),
            High::Prefix(length) => {
                let mut key = self.low[..*length].to_vec();
                rollcall_schema::key::step_past_prefix(&mut key).then_some(key)
            }
        }
    }
}

/// Entries in order, borrowed from the map.
#[derive(Clone)]
pub(crate) struct Entries<'a> {
    leaves: Leaves<'a, Packed>,
    leaf: Option<&'a Packed>,
    /// The next entry when rising; the first one that is wanted when falling.
    position: usize,
    /// The end of the wanted entries when rising; one past the next entry when falling.
    end: usize,
    range: KeyRange,
    rising: bool,
}

impl<'a> Entries<'a> {
    /// Goes to a leaf and finds which of its entries from `from` on are within the range.
    #[inline]
    fn enter(&mut self, leaf: &'a Packed, from: usize) {
        self.leaf = Some(leaf);
        let count = leaf.count();
        (self.position, self.end) = match (&self.range.high, self.rising) {
            (High::Open, true) => (from, count),
            (High::Key(high), true) => (from, leaf.search(high).0),
            (High::Prefix(length), true) => (from, leaf.end_of_prefix(&self.range.low[..*length], from)),
            (_, false) => (leaf.search(&self.range.low).0, count),
        };
        if (self.rising && self.end < count) || (!self.rising && self.position > 0) {
            // The bound lies in this leaf: it is the last one.
            self.leaves.finish();
        }
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            if self.position < self.end {
                let leaf = self.leaf?;
                if self.rising {
                    self.position += 1;
                    return Some(leaf.entry(self.position - 1));
                }
                self.end -= 1;
                return Some(leaf.entry(self.end));
            }
            let leaf = self.leaves.next()?;
            self.enter(leaf, 0);
        }
    }
}
