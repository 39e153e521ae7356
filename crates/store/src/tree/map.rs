//! The persistent ordered map from byte keys to values of one width, and ranges of its entries.

use super::packed::{Change, Entry, Packed};
use super::pending::{Pending, Queued};
use super::{Edit, KEY_BYTES_MAX, Leaves, Tree};
use std::ops::Range;

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

    /// A map of these leaves, each with the separator before it, which have so many entries.
    pub(super) fn of(leaves: Vec<(Vec<u8>, Packed)>, width: usize, length: usize) -> PackedMap {
        PackedMap { tree: Tree::from_leaves(leaves), width, length, replaced: 0 }
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

    /// The first entry whose key starts with `prefix`.
    pub(crate) fn first_with(&self, prefix: &[u8]) -> Option<Entry<'_>> {
        let mut leaves = self.tree.leaves_from(prefix);
        let leaf = leaves.next()?;
        let (position, _) = leaf.search(prefix);
        let entry = if position < leaf.count() { leaf.entry(position) } else { leaves.next()?.entry(0) };
        entry.starts_with(prefix).then_some(entry)
    }

    /// Adds an entry or writes over its value. The key is at most [`KEY_BYTES_MAX`] long.
    pub(crate) fn insert(&mut self, key: &[u8], value: &[u8]) {
        debug_assert!(key.len() <= KEY_BYTES_MAX && value.len() == self.width);
        let (width, replaced) = (self.width, &mut self.replaced);
        let added = self.tree.edit(key, |leaf| {
            let Some(leaf) = leaf else { return (Packed::first(&[(0, Change::Insert((key, value)))], width), true) };
            *replaced += leaf.shared_bytes();
            let (position, found) = leaf.search(key);
            let change = if found { Change::Set(value) } else { Change::Insert((key, value)) };
            (leaf.changed(&[(position, change)]), !found)
        });
        self.length += usize::from(added);
    }

    /// Removes an entry; false if there is none.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let replaced = &mut self.replaced;
        let removed = self.tree.edit(key, |leaf| match leaf.map(|leaf| (leaf.search(key), leaf)) {
            Some(((position, true), leaf)) => {
                *replaced += leaf.shared_bytes();
                (leaf.changed(&[(position, Change::Remove)]), true)
            }
            _ => (Edit::Keep, false),
        });
        self.length -= usize::from(removed);
        removed
    }

    /// Carries all that is pending into the map, leaf by leaf in the order of keys, so that each leaf and each node is made anew once.
    pub(super) fn carry(&mut self, pending: &mut Pending) {
        let (width, replaced, length) = (self.width, &mut self.replaced, &mut self.length);
        pending.sort(width);
        let (keys, values) = pending.sorted();
        let mut places: Vec<(usize, bool)> = Vec::new();
        self.tree.edit_all(&keys, |leaf, range: Range<usize>| {
            let queued = &keys.list[range];
            places.clear();
            places.extend(queued.iter().map(|queued| {
                let Some(leaf) = &leaf else { return (0, false) };
                let (place, found) = leaf.search(queued.key(keys.bytes));
                if found {
                    queued.add_to(leaf.entry(place).value, values);
                }
                (place, found)
            }));
            let values = &*values;
            let change = |(queued, (place, found)): (&Queued, &(usize, bool))| {
                Some((*place, queued.change(keys.bytes, values, width, *found)?))
            };
            let changes: Vec<_> = queued.iter().zip(&places).filter_map(change).collect();
            for (_, change) in &changes {
                *length = length.wrapping_add_signed(change.more());
            }
            match leaf {
                _ if changes.is_empty() => Edit::Keep,
                None => Packed::first(&changes, width),
                Some(leaf) => {
                    *replaced += leaf.shared_bytes();
                    leaf.changed(&changes)
                }
            }
        });
    }

    /// Entries of a range of keys, rising.
    #[inline]
    pub(crate) fn range(&self, range: KeyRange) -> Entries<'_> {
        let mut entries = Entries::new(&self.tree, range, true);
        if let Some(leaf) = self.tree.find(&entries.range.low) {
            let from = leaf.search(&entries.range.low).0;
            entries.enter(leaf, from);
        }
        entries
    }

    /// Entries of a range of keys, falling.
    pub(crate) fn range_back(&self, range: KeyRange) -> Entries<'_> {
        let high = range.high_key();
        let mut leaves = self.tree.leaves_back_from(high.as_deref());
        let mut entries = Entries::new(&self.tree, range, false);
        let first = leaves.next();
        entries.leaves = Some(Box::new(leaves));
        if let Some(leaf) = first {
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
    tree: &'a Tree<Packed>,
    /// The leaves behind `leaf`; found when they are needed, as most ranges end where they start.
    leaves: Option<Box<Leaves<'a, Packed>>>,
    leaf: Option<&'a Packed>,
    /// The next entry when rising; the first one that is wanted when falling.
    position: usize,
    /// The end of the wanted entries when rising; one past the next entry when falling.
    end: usize,
    range: KeyRange,
    rising: bool,
    /// Whether the range goes on behind `leaf`.
    goes_on: bool,
}

impl<'a> Entries<'a> {
    #[inline]
    fn new(tree: &'a Tree<Packed>, range: KeyRange, rising: bool) -> Entries<'a> {
        Entries { tree, leaves: None, leaf: None, position: 0, end: 0, range, rising, goes_on: false }
    }

    /// How many entries are surely to come: those of the leaf at hand.
    #[inline]
    pub(crate) fn near(&self) -> usize {
        self.end.saturating_sub(self.position)
    }

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
        // If the bound lies in this leaf, it is the last one.
        self.goes_on = if self.rising { self.end == count } else { self.position == 0 };
    }

    /// The leaf behind the one at hand.
    #[cold]
    fn next_leaf(&mut self) -> Option<&'a Packed> {
        let (tree, low) = (self.tree, &self.range.low);
        let leaves = self.leaves.get_or_insert_with(|| {
            let mut leaves = tree.leaves_from(low);
            leaves.next();
            Box::new(leaves)
        });
        leaves.next()
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
            if !self.goes_on {
                return None;
            }
            let next = self.next_leaf();
            self.goes_on = false;
            self.enter(next?, 0);
        }
    }
}
