//! Packed leaves: runs of keys and values, the leaves of indexes, rollups and partitions.
//!
//! A leaf is one allocation of exactly its size:
//!
//! ```text
//! count u16 | prefix length u16 | stride u16 | value width u16 | prefix | head of each entry u16 …
//!     | end of each entry u16 …, only without a stride | entries: rest of the key, value …
//! ```
//!
//! All keys of a leaf share the prefix, which is stored once. The head of an entry is the first two bytes of the rest of its key, as a number: a
//! search counts the heads, which lie side by side in two or three cache lines, and seldom looks at more than one entry. Entries that are all of one
//! length, as most are, have it as their stride; else the stride is zero and their ends are stored. Copying a leaf is one `memcpy` and touches
//! no reference count, so a change to an index costs little more than the bytes of one leaf and of the inner nodes above it.

use super::order::{Probe, strip_prefix};
use super::{Edit, Leaf, PackedBuilder};
use crate::words::ROW_NUMBER_BYTES;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::sync::Arc;

/// The longest key. It keeps a leaf of two entries within the 16 bits of an entry's end.
pub(crate) const KEY_BYTES_MAX: usize = 4096;

/// A leaf of this size or more is split when an entry is added.
const LEAF_BYTES_MAX: usize = 1024;

/// A leaf smaller than this joins a neighbour.
const LEAF_BYTES_MIN: usize = LEAF_BYTES_MAX / 4;

/// Leaves made from many entries at once are filled up to this size, and two leaves join only up to it, so that the next insert does not split them again.
pub(super) const LEAF_BYTES_BULK: usize = LEAF_BYTES_MAX * 3 / 4;

/// The last bytes of a key are never part of the shared prefix, so that a row number there can be read in one piece.
pub(super) const TAIL_BYTES: usize = ROW_NUMBER_BYTES;

/// Bytes of a leaf in front of its prefix.
pub(super) const HEADER_BYTES: usize = 8;

/// Bytes of an entry beside its key and value: its head, and perhaps its end.
pub(super) const ENTRY_BYTES: usize = 4;

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

/// A whole key and its value.
pub(super) type Whole<'a> = (&'a [u8], &'a [u8]);

/// What a change does to a leaf.
#[derive(Clone, Copy)]
pub(super) enum Change<'a> {
    /// An entry comes before the one at the position.
    Insert(Whole<'a>),
    /// The entry at the position gets another value.
    Set(&'a [u8]),
    /// The entry at the position goes.
    Remove,
}

impl Change<'_> {
    /// How many entries more there are.
    pub(super) fn more(&self) -> isize {
        match self {
            Change::Insert(_) => 1,
            Change::Set(_) => 0,
            Change::Remove => -1,
        }
    }
}

impl<'a> Entry<'a> {
    /// Appends the whole key.
    pub(crate) fn put_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(self.suffix);
    }

    pub(super) fn starts_with(&self, start: &[u8]) -> bool {
        match start.strip_prefix(self.prefix) {
            Some(rest) => self.suffix.starts_with(rest),
            None => self.prefix.starts_with(start),
        }
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

    /// The last `N` bytes of the key, `N` being at most [`TAIL_BYTES`] and the key at least so long.
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

    #[inline]
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

    /// The length of every entry; zero if they differ.
    #[inline]
    fn stride(&self) -> usize {
        self.u16_at(4)
    }

    #[inline]
    fn width(&self) -> usize {
        self.u16_at(6)
    }

    /// Its size if somebody else holds it too.
    pub(super) fn shared_bytes(&self) -> usize {
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
        self.ends_at() + if self.stride() == 0 { 2 * self.count() } else { 0 }
    }

    #[inline]
    fn prefix(&self) -> &[u8] {
        &self.0[HEADER_BYTES..self.heads_at()]
    }

    /// Where the entry starts behind `bodies_at`; for the position behind the last one, where it ends.
    #[inline]
    fn start(&self, position: usize) -> usize {
        match self.stride() {
            0 if position == 0 => 0,
            0 => self.u16_at(self.ends_at() + 2 * position - 2),
            stride => stride * position,
        }
    }

    #[inline]
    pub(crate) fn entry(&self, position: usize) -> Entry<'_> {
        let (start, end) = (self.start(position), self.start(position + 1));
        let body = &self.0[self.bodies_at()..];
        let (suffix, value) = body[start..end].split_at(end - start - self.width());
        Entry { prefix: self.prefix(), suffix, value }
    }

    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        (0..self.count()).map(|position| self.entry(position))
    }

    /// The position of the first entry whose key is not less than `key`, and whether it is `key`.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> (usize, bool) {
        let prefix = self.prefix();
        let rest = match strip_prefix(key, prefix) {
            Some(rest) => rest,
            None => return (if prefix < key { self.count() } else { 0 }, false),
        };
        let wanted = head(rest);
        let (heads, _) = self.0[self.heads_at()..self.ends_at()].as_chunks::<2>();
        let less = heads.iter().map(|head| u16::from(u16::from_le_bytes(*head) < wanted)).sum::<u16>();
        let mut low = usize::from(less);
        let mut high = low + heads[low..].iter().take_while(|head| u16::from_le_bytes(**head) == wanted).count();
        if low == high {
            return (low, false);
        }
        let (probe, width) = (Probe::new(rest), self.width());
        let body = &self.0[self.bodies_at()..];
        while low < high {
            let middle = (low + high) / 2;
            match probe.compare(body, self.start(middle), self.start(middle + 1) - width) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return (middle, true),
                Ordering::Greater => high = middle,
            }
        }
        (low, false)
    }

    /// The position of the first entry from `from` on whose key does not start with `prefix`; the keys from there on are not less than it. Few
    /// entries are the rule, so the steps from `from` on are doubled before the rest is halved.
    #[inline]
    pub(super) fn end_of_prefix(&self, prefix: &[u8], from: usize) -> usize {
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
    pub(super) fn build(entries: &[Whole<'_>], width: usize) -> Packed {
        let Shape { prefix, stride, .. } = Shape::of(entries, width);
        let prefix = &entries[0].0[..prefix];
        Packed::assemble(|bytes| {
            put_u16(bytes, entries.len());
            put_u16(bytes, prefix.len());
            put_u16(bytes, stride);
            put_u16(bytes, width);
            bytes.extend_from_slice(prefix);
            entries.iter().for_each(|(key, _)| put_u16(bytes, head(&key[prefix.len()..]).into()));
            let mut end = 0;
            for (key, value) in entries.iter().filter(|_| stride == 0) {
                end += key.len() - prefix.len() + value.len();
                put_u16(bytes, end);
            }
            for (key, value) in entries {
                bytes.extend_from_slice(&key[prefix.len()..]);
                bytes.extend_from_slice(value);
            }
        })
    }

    /// What becomes of a place without a leaf where these entries come.
    pub(super) fn first<'a>(changes: &[(usize, Change<'a>)], width: usize) -> Edit<Packed> {
        let inserted = |(_, change): &(usize, Change<'a>)| match change {
            Change::Insert(entry) => Some(*entry),
            Change::Set(_) | Change::Remove => None,
        };
        let entries: Vec<Whole<'_>> = changes.iter().filter_map(inserted).collect();
        if entries.is_empty() { Edit::Keep } else { split(&entries, width, LEAF_BYTES_BULK) }
    }

    /// What becomes of the leaf with these changes, each at a position of the leaf as it is; positions rise, and keys at one position too.
    pub(super) fn changed(&mut self, changes: &[(usize, Change<'_>)]) -> Edit<Packed> {
        let only_values = changes.iter().all(|(_, change)| matches!(change, Change::Set(_)));
        if only_values {
            changes.iter().for_each(|(position, change)| self.set(*position, change));
            return Edit::Keep;
        }
        let more: isize = changes.iter().map(|(_, change)| change.more()).sum();
        let (mut added, mut removed, mut fits) = (0, 0, true);
        for (position, change) in changes {
            match change {
                Change::Insert((key, value)) => {
                    added += key.len() + value.len() + ENTRY_BYTES - self.prefix_length().min(key.len());
                    fits &= self.has_place_for(key);
                }
                Change::Remove => removed += self.start(position + 1) - self.start(*position),
                Change::Set(_) => {}
            }
        }
        if self.count().checked_add_signed(more) == Some(0) {
            return Edit::Remove;
        }
        if fits && self.0.len() + added - removed <= LEAF_BYTES_MAX {
            return Edit::Replace(self.spliced(changes, more));
        }
        self.rebuilt(changes)
    }

    /// Changes a value, in place if nobody else holds the leaf.
    fn set(&mut self, position: usize, change: &Change<'_>) {
        let Change::Set(value) = change else { return };
        let at = self.bodies_at() + self.start(position + 1) - self.width();
        if Arc::get_mut(&mut self.0).is_none() {
            self.0 = Arc::from(&*self.0);
        }
        // INVARIANT: a fresh copy has one owner.
        let bytes = Arc::get_mut(&mut self.0).expect("a fresh copy has one owner");
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    /// Whether a key shares the prefix, leaves the bytes out of it that every key leaves out, and is as long as the others where all are of one length.
    fn has_place_for(&self, key: &[u8]) -> bool {
        key.len() >= self.prefix_length() + TAIL_BYTES.min(key.len())
            && (self.stride() == 0 || self.stride() == key.len() - self.prefix_length() + self.width())
            && key.starts_with(self.prefix())
    }

    /// The leaf with changes that have place in it, after which it has `more` entries.
    fn spliced(&self, changes: &[(usize, Change<'_>)], more: isize) -> Packed {
        let (heads_at, ends_at, bodies_at) = (self.heads_at(), self.ends_at(), self.bodies_at());
        let (count, skipped, stride) = (self.count(), self.prefix_length(), self.stride());
        Packed::assemble(|bytes| {
            put_u16(bytes, count.wrapping_add_signed(more));
            bytes.extend_from_slice(&self.0[2..heads_at]);
            let mut from = 0;
            for (position, change) in changes {
                bytes.extend_from_slice(&self.0[heads_at + 2 * from..heads_at + 2 * position]);
                from = *position;
                match change {
                    Change::Insert((key, _)) => put_u16(bytes, head(&key[skipped..]).into()),
                    Change::Remove => from += 1,
                    Change::Set(_) => {}
                }
            }
            bytes.extend_from_slice(&self.0[heads_at + 2 * from..ends_at]);
            if stride == 0 {
                self.put_ends(bytes, changes);
            }
            let mut from = 0;
            for (position, change) in changes {
                let at = self.start(*position);
                bytes.extend_from_slice(&self.0[bodies_at + from..bodies_at + at]);
                from = at;
                match change {
                    Change::Insert((key, value)) => {
                        bytes.extend_from_slice(&key[skipped..]);
                        bytes.extend_from_slice(value);
                    }
                    Change::Remove => from = self.start(position + 1),
                    Change::Set(value) => {
                        from = self.start(position + 1);
                        bytes.extend_from_slice(&self.0[bodies_at + at..bodies_at + from - value.len()]);
                        bytes.extend_from_slice(value);
                    }
                }
            }
            bytes.extend_from_slice(&self.0[bodies_at + from..]);
        })
    }

    /// Appends the ends of the entries as they are after the changes.
    fn put_ends(&self, out: &mut Vec<u8>, changes: &[(usize, Change<'_>)]) {
        let (mut from, mut shift) = (0, 0u16);
        let put_run = |out: &mut Vec<u8>, from: usize, to: usize, shift: u16| {
            let start = out.len();
            out.extend_from_slice(&self.0[self.ends_at() + 2 * from..self.ends_at() + 2 * to]);
            for end in out[start..].as_chunks_mut::<2>().0 {
                *end = u16::from_le_bytes(*end).wrapping_add(shift).to_le_bytes();
            }
        };
        for (position, change) in changes {
            put_run(out, from, *position, shift);
            from = *position;
            match change {
                Change::Insert((key, value)) => {
                    shift = shift.wrapping_add((key.len() - self.prefix_length() + value.len()) as u16);
                    put_u16(out, usize::from((self.start(*position) as u16).wrapping_add(shift)));
                }
                Change::Remove => {
                    shift = shift.wrapping_sub((self.start(position + 1) - self.start(*position)) as u16);
                    from += 1;
                }
                Change::Set(_) => {}
            }
        }
        put_run(out, from, self.count(), shift);
    }

    /// The leaf or leaves of the entries as they are after the changes, put together anew.
    fn rebuilt(&self, changes: &[(usize, Change<'_>)]) -> Edit<Packed> {
        let keys = WholeKeys::of(self.entries());
        let whole = |position: usize| (keys.get(position), self.entry(position).value);
        let mut entries: Vec<Whole<'_>> = Vec::with_capacity(self.count() + changes.len());
        let mut from = 0;
        for (position, change) in changes {
            entries.extend((from..*position).map(whole));
            from = *position;
            match change {
                Change::Insert(entry) => entries.push(*entry),
                Change::Remove => from += 1,
                Change::Set(value) => {
                    entries.push((whole(from).0, value));
                    from += 1;
                }
            }
        }
        // Keys that come in order fill leaves: those added at the end start a new leaf.
        let appended = changes.iter().all(|(position, _)| *position == self.count());
        entries.extend((from..self.count()).map(whole));
        split(&entries, self.width(), if appended { LEAF_BYTES_MAX } else { LEAF_BYTES_BULK })
    }
}

/// The whole keys of some entries, one behind the other.
struct WholeKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl WholeKeys {
    fn of<'a>(entries: impl Iterator<Item = Entry<'a>>) -> WholeKeys {
        let mut keys = WholeKeys { bytes: Vec::with_capacity(2 * LEAF_BYTES_MAX), ends: Vec::new() };
        for entry in entries {
            entry.put_key(&mut keys.bytes);
            keys.ends.push(keys.bytes.len());
        }
        keys
    }

    fn get(&self, position: usize) -> &[u8] {
        let start = if position == 0 { 0 } else { self.ends[position - 1] };
        &self.bytes[start..self.ends[position]]
    }
}

/// How a leaf of some entries will be.
struct Shape {
    /// How many bytes all keys share.
    prefix: usize,
    stride: usize,
    /// Its size.
    bytes: usize,
}

impl Shape {
    fn of(entries: &[Whole<'_>], width: usize) -> Shape {
        let (first, last) = (entries[0].0, entries[entries.len() - 1].0);
        let (mut shortest, mut longest, mut all) = (usize::MAX, 0, 0);
        for (key, _) in entries {
            (shortest, longest, all) = (shortest.min(key.len()), longest.max(key.len()), all + key.len());
        }
        let common = first.iter().zip(last).take_while(|(left, right)| left == right).count();
        let prefix = common.min(shortest.saturating_sub(TAIL_BYTES));
        let stride = if longest == shortest { shortest - prefix + width } else { 0 };
        let beside = width + if stride == 0 { ENTRY_BYTES } else { ENTRY_BYTES - 2 };
        Shape { prefix, stride, bytes: HEADER_BYTES + prefix + all + entries.len() * beside - entries.len() * prefix }
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

#[inline]
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
        if self.0.len() + right.0.len() > LEAF_BYTES_BULK {
            return None;
        }
        let all = || self.entries().chain(right.entries());
        let keys = WholeKeys::of(all());
        let whole = all().enumerate().map(|(position, entry)| (keys.get(position), entry.value));
        let joined = Packed::build(&whole.collect::<Vec<_>>(), self.width());
        (joined.0.len() <= LEAF_BYTES_MAX).then_some(joined)
    }
}

/// The leaf or leaves that hold these entries, which are not none; if it is several, each is filled up to about `filled` bytes.
fn split(entries: &[Whole<'_>], width: usize, filled: usize) -> Edit<Packed> {
    let shape = Shape::of(entries, width);
    if shape.bytes <= LEAF_BYTES_MAX || entries.len() < 2 {
        return Edit::Replace(Packed::build(entries, width));
    }
    // Unless they are filled to the brim, as those are that only grow at their end, all are filled equally.
    let most = if filled < LEAF_BYTES_MAX { shape.bytes / shape.bytes.div_ceil(filled).max(2) + 1 } else { filled };
    let mut builder = PackedBuilder::up_to(width, most);
    entries.iter().for_each(|(key, value)| builder.push(key, &[], value));
    let mut leaves = builder.leaves().into_iter();
    match leaves.next() {
        Some((_, first)) => Edit::Split(first, leaves.collect()),
        None => Edit::Keep,
    }
}

/// The shortest key that is greater than `left` and not greater than `right`.
pub(super) fn separator(left: &[u8], right: &[u8]) -> Vec<u8> {
    let common = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    right[..(common + 1).min(right.len())].to_vec()
}
