//! Changes that are still to be carried into a map, and maps that wait with carrying them in.
//!
//! Most commands of a batch read few of a table's indexes and rollups, while each of them changes several. So changes are noted first, and carried in when
//! the map is next read or, at the latest, at the end of the batch: sorted, so that each leaf is made anew once, however many changes it takes.

use super::packed::{Change, Entry};
use super::{Keys, PackedMap};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::OnceLock;

/// More bytes are not kept waiting: they are carried in at once.
const PENDING_BYTES_MAX: usize = 8 << 20;

/// Buffers larger than this are not kept for later batches.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Changes in the order in which they were made.
#[derive(Clone, Default)]
pub(crate) struct Pending {
    /// All keys, one behind the other.
    keys: Vec<u8>,
    /// All values.
    values: Vec<u8>,
    list: Vec<Queued>,
    /// Hashes of what changed keys start with, for maps that are asked for single prefixes while changes are pending.
    touched: HashSet<u64>,
}

/// One change.
#[derive(Clone)]
pub(super) struct Queued {
    /// The first bytes of the key as two numbers, filled up with zeros.
    head: [u64; 2],
    /// Offsets, which [`PENDING_BYTES_MAX`] keeps small.
    key_at: u32,
    value_at: u32,
    key_length: u16,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The key gets the value.
    Put,
    /// The key goes.
    Remove,
    /// The numbers of the value are added to what is there; an entry whose first number is zero goes.
    Add,
}

/// The keys of sorted changes.
pub(super) struct Sorted<'p> {
    pub(super) list: &'p [Queued],
    pub(super) bytes: &'p [u8],
}

impl Keys for Sorted<'_> {
    fn count(&self) -> usize {
        self.list.len()
    }

    fn key(&self, position: usize) -> &[u8] {
        self.list[position].key(self.bytes)
    }
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Bytes that are waiting.
    fn bytes(&self) -> usize {
        self.keys.len() + self.values.len() + size_of_val(&*self.list)
    }

    /// Bytes that it can hold without asking for more.
    fn capacity(&self) -> usize {
        let lists = self.list.capacity() * size_of::<Queued>() + self.touched.capacity() * size_of::<u64>();
        self.keys.capacity() + self.values.capacity() + lists
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.values.clear();
        self.list.clear();
        self.touched.clear();
    }

    /// An entry is to be there; `key` appends its key.
    pub(crate) fn put(&mut self, key: impl FnOnce(&mut Vec<u8>), value: &[u8]) {
        self.queue(Kind::Put, key, |values| values.extend_from_slice(value));
    }

    /// An entry is to go.
    pub(crate) fn remove(&mut self, key: impl FnOnce(&mut Vec<u8>)) {
        self.queue(Kind::Remove, key, |_| {});
    }

    /// Numbers are to be added to those of an entry.
    pub(crate) fn add(&mut self, key: impl FnOnce(&mut Vec<u8>), numbers: impl Iterator<Item = u64>) {
        self.queue(Kind::Add, key, |values| numbers.for_each(|number| values.extend_from_slice(&number.to_le_bytes())));
    }

    /// Remembers, if `wanted`, that an entry comes or goes among those whose keys start as that of the last change does, but for its last bytes.
    pub(crate) fn touch(&mut self, wanted: bool, tail: usize) {
        if let Some(last) = self.list.last().filter(|_| wanted) {
            let key = last.key(&self.keys);
            self.touched.insert(hash(&key[..key.len() - tail]));
        }
    }

    fn queue(&mut self, kind: Kind, key: impl FnOnce(&mut Vec<u8>), value: impl FnOnce(&mut Vec<u8>)) {
        let (key_at, value_at) = (self.keys.len(), self.values.len());
        key(&mut self.keys);
        value(&mut self.values);
        let key = &self.keys[key_at..];
        // INVARIANT: every key ends with a row number or a partition. Where a key lies tells which change of it is the later one.
        debug_assert!(!key.is_empty(), "changes of an empty key have no order");
        let first = super::Wanted::new(key).first;
        let head = [(first >> 64) as u64, first as u64];
        // INVARIANT: no key is longer than KEY_BYTES_MAX, and a map whose changes grow beyond PENDING_BYTES_MAX takes them in.
        let key_length = key.len() as u16;
        self.list.push(Queued { head, key_at: key_at as u32, value_at: value_at as u32, key_length, kind });
    }

    /// Sorts the changes by key, and leaves one for each.
    pub(super) fn sort(&mut self, width: usize) {
        let keys = &self.keys;
        // Heads decide most comparisons, so the few that they do not are made afterwards.
        self.list.sort_unstable_by_key(Queued::head);
        for run in self.list.chunk_by_mut(|left, right| left.head == right.head).filter(|run| run.len() > 1) {
            run.sort_unstable_by(|left, right| {
                left.key(keys).cmp(right.key(keys)).then(left.key_at.cmp(&right.key_at))
            });
        }
        let values = &mut self.values;
        self.list.dedup_by(|later, kept| {
            if kept.head != later.head || kept.key(keys) != later.key(keys) {
                return false;
            }
            match later.kind {
                Kind::Put | Kind::Remove => (kept.kind, kept.value_at) = (later.kind, later.value_at),
                Kind::Add => {
                    let (first, second) = values.split_at_mut(later.value_at as usize);
                    add(&mut first[kept.value(width)], &second[..width]);
                }
            }
            true
        });
        let changes =
            |queued: &Queued| queued.kind != Kind::Add || values[queued.value(width)].iter().any(|byte| *byte != 0);
        self.list.retain(changes);
    }

    /// The sorted changes, and their values.
    pub(super) fn sorted(&mut self) -> (Sorted<'_>, &mut [u8]) {
        (Sorted { list: &self.list, bytes: &self.keys }, &mut self.values)
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Adds numbers to numbers, each of eight bytes.
fn add(sums: &mut [u8], more: &[u8]) {
    for (sum, more) in sums.as_chunks_mut::<8>().0.iter_mut().zip(more.as_chunks::<8>().0) {
        *sum = u64::from_le_bytes(*sum).wrapping_add(u64::from_le_bytes(*more)).to_le_bytes();
    }
}

impl Queued {
    pub(super) fn key<'p>(&self, keys: &'p [u8]) -> &'p [u8] {
        &keys[self.key_at as usize..][..usize::from(self.key_length)]
    }

    fn value(&self, width: usize) -> Range<usize> {
        self.value_at as usize..self.value_at as usize + width
    }

    fn head(&self) -> u128 {
        u128::from(self.head[0]) << 64 | u128::from(self.head[1])
    }

    /// Brings the value up to date, where it is to be added to that of the entry that is there.
    pub(super) fn add_to(&self, there: &[u8], values: &mut [u8]) {
        if self.kind == Kind::Add {
            add(&mut values[self.value(there.len())], there);
        }
    }

    /// What the change does to the leaf in which its entry was found or not.
    pub(super) fn change<'p>(&self, keys: &'p [u8], values: &'p [u8], width: usize, found: bool) -> Option<Change<'p>> {
        let value = match self.kind {
            Kind::Remove => return found.then_some(Change::Remove),
            Kind::Put | Kind::Add => &values[self.value(width)],
        };
        if self.kind == Kind::Add && value[..8] == [0; 8] {
            return found.then_some(Change::Remove);
        }
        Some(if found { Change::Set(value) } else { Change::Insert((self.key(keys), value)) })
    }
}

/// Buffers of maps that had changes pending, for maps that will have.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "a table holds one of these boxes for each of its maps, and they go to and fro")]
pub(crate) struct Pool(Vec<Box<Work>>);

#[derive(Default)]
struct Work {
    pending: Pending,
    /// The map with all that is pending, made when somebody reads it before the end of the batch.
    carried: OnceLock<PackedMap>,
}

/// A map that waits with carrying in its changes.
pub(crate) struct Deferred {
    map: PackedMap,
    work: Option<Box<Work>>,
}

impl Clone for Deferred {
    fn clone(&self) -> Self {
        Deferred::of(self.read().clone())
    }
}

impl Deferred {
    pub(crate) fn of(map: PackedMap) -> Deferred {
        Deferred { map, work: None }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.work.is_none()
    }

    /// The map with all its changes.
    #[inline]
    pub(crate) fn read(&self) -> &PackedMap {
        match &self.work {
            None => &self.map,
            Some(work) => work.read(&self.map),
        }
    }

    /// The first entry whose key starts with `prefix`, which what is pending was [touched](Pending::touch) for.
    pub(crate) fn first_with(&self, prefix: &[u8]) -> Option<Entry<'_>> {
        let map = match &self.work {
            Some(work) if work.carried.get().is_some() || work.pending.touched.contains(&hash(prefix)) => self.read(),
            _ => &self.map,
        };
        map.first_with(prefix)
    }

    /// Where changes are noted.
    pub(crate) fn pending(&mut self, pool: &mut Pool) -> &mut Pending {
        if self.work.as_ref().is_some_and(|work| work.pending.bytes() > PENDING_BYTES_MAX) {
            self.settled(pool);
        }
        let work = self.work.get_or_insert_with(|| pool.0.pop().unwrap_or_default());
        if let Some(carried) = work.carried.take() {
            self.map = carried;
            work.pending.clear();
        }
        &mut work.pending
    }

    /// The map to be changed at once.
    pub(crate) fn settled(&mut self, pool: &mut Pool) -> &mut PackedMap {
        if let Some(mut work) = self.work.take() {
            match work.carried.take() {
                Some(carried) => self.map = carried,
                None => self.map.carry(&mut work.pending),
            }
            work.pending.clear();
            if work.pending.capacity() <= KEPT_BYTES_MAX {
                pool.0.push(work);
            }
        }
        &mut self.map
    }
}

impl Work {
    /// Out of line: most maps are read when nothing is pending.
    #[cold]
    fn read<'w>(&'w self, map: &'w PackedMap) -> &'w PackedMap {
        if self.pending.is_empty() {
            return map;
        }
        self.carried.get_or_init(|| {
            let mut map = map.clone();
            map.carry(&mut self.pending.clone());
            map
        })
    }
}
