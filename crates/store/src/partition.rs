//! Partitions: the groups of rows that pages never mix.

use crate::tree::{Edit, High, KeyRange, Leaf, PackedMap, Tree};
use crate::words::{PARTITION_BYTES, PartitionId, Version};
use rollcall_schema::{Literal, Value};
use std::sync::Arc;

/// What all rows of a partition share, and what is known of it.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Its number in this process.
    pub id: PartitionId,
    /// The values of the partition columns, in the order that the table declares them.
    pub values: Arc<[Literal<'static>]>,
    /// How many rows it has.
    pub rows: usize,
    /// The last version that changed one of its rows.
    pub changed_at: Version,
    key: Arc<[u8]>,
}

impl Leaf for Arc<Partition> {
    fn is_sparse(&self) -> bool {
        false
    }

    fn join(&self, _right: &Self) -> Option<Self> {
        None
    }
}

/// The partitions of a table at one version.
#[derive(Clone)]
pub(crate) struct Partitions {
    by_key: PackedMap,
    by_id: Tree<Arc<Partition>>,
    next: u32,
    /// The last version at which a partition came or went.
    changed_at: Version,
    /// Partitions that went, by version and number. They stay in `by_id`, without rows, for as long as a watcher can ask for changes of that
    /// version: who may see the partition is to hear that its last row went.
    gone: PackedMap,
}

/// At most so many partitions that went are forgotten in one commit; more are by the next ones.
const FORGOTTEN_AT_ONCE_MAX: usize = 64;

impl Partitions {
    pub(crate) fn new() -> Partitions {
        Partitions {
            by_key: PackedMap::new(PARTITION_BYTES),
            by_id: Tree::default(),
            next: 0,
            changed_at: Version::NOTHING,
            gone: PackedMap::new(0),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn changed_at(&self) -> Version {
        self.changed_at
    }

    /// Bytes that earlier versions hold alone since this was last asked.
    pub(crate) fn take_copied(&mut self) -> usize {
        self.by_key.take_copied() + self.by_id.take_copied() + self.gone.take_copied()
    }

    pub(crate) fn get(&self, id: PartitionId) -> Option<&Partition> {
        let found = self.by_id.find(&id.0.to_be_bytes())?;
        (found.id == id && found.rows > 0).then_some(&**found)
    }

    pub(crate) fn by_key(&self, key: &[u8]) -> Option<PartitionId> {
        self.by_key.get(key).map(PartitionId::from_bytes)
    }

    /// All partitions that have rows, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Partition> {
        self.by_id.leaves().map(Arc::as_ref).filter(|partition| partition.rows > 0)
    }

    /// The partition with this key, which is made if it is not there; `None` if no number is left for it.
    pub(crate) fn at_key(
        &mut self,
        key: &[u8],
        values: impl Fn() -> Vec<Literal<'static>>,
        version: Version,
    ) -> Option<PartitionId> {
        if let Some(id) = self.by_key(key) {
            return Some(id);
        }
        let id = PartitionId(self.next);
        if id > PartitionId::MAX {
            return None;
        }
        self.next += 1;
        self.by_key.insert(key, &id.bytes());
        let partition = Partition { id, values: values().into(), rows: 0, changed_at: version, key: key.into() };
        let partition = Arc::new(partition);
        self.by_id.edit(&id.0.to_be_bytes(), |leaf| match leaf.cloned() {
            None => (Edit::Replace(partition), ()),
            // Numbers rise, so a new partition lies behind all others.
            Some(last) => (Edit::Split(last, vec![(id.0.to_be_bytes().to_vec(), partition)]), ()),
        });
        Some(id)
    }

    /// Notes that rows of a partition changed at `version`, and how many more (or fewer) there are; an empty partition goes. The set of partitions
    /// has changed only if one came to have rows or came to have none: what came and went within one commit was never there.
    pub(crate) fn touch(&mut self, id: PartitionId, more_rows: i64, version: Version) {
        let (was_empty, gone) = self.by_id.edit(&id.0.to_be_bytes(), |leaf| match leaf {
            Some(partition) if partition.id == id => {
                let partition = Arc::make_mut(partition);
                let was_empty = partition.rows == 0;
                partition.rows = partition.rows.saturating_add_signed(more_rows as isize);
                partition.changed_at = version;
                let gone = (partition.rows == 0).then(|| partition.key.clone());
                (if was_empty && gone.is_some() { Edit::Remove } else { Edit::Keep }, (was_empty, gone))
            }
            _ => (Edit::Keep, (false, None)),
        });
        if let Some(key) = &gone {
            self.by_key.remove(key);
        }
        if was_empty == gone.is_some() {
            return;
        }
        self.changed_at = version;
        if gone.is_some() {
            self.gone.insert(&gone_key(version, id), &[]);
        }
    }

    /// Drops a partition that an undone command made, if it has no rows by now.
    pub(crate) fn drop_unused(&mut self, id: PartitionId, version: Version) {
        let unused = self.by_id.find(&id.0.to_be_bytes()).filter(|partition| partition.id == id && partition.rows == 0);
        // One that had rows and went in this commit is no longer found by its key.
        if unused.is_some_and(|partition| self.by_key(&partition.key) == Some(id)) {
            self.touch(id, 0, version);
        }
    }

    /// Forgets partitions that went at `floor` or before: nobody can ask for changes of then.
    pub(crate) fn forget_gone(&mut self, floor: Version) {
        let keys = self
            .gone
            .range(KeyRange { low: Vec::new(), high: High::Key(gone_key(floor.next(), PartitionId(0)).to_vec()) });
        let ids: Vec<[u8; GONE_KEY_BYTES]> = keys.take(FORGOTTEN_AT_ONCE_MAX).map(|entry| entry.key()).collect();
        for key in ids {
            let [_, _, _, _, _, _, _, _, id @ ..] = key;
            self.by_id.edit(&id, |leaf| match leaf {
                Some(partition) if partition.id.0.to_be_bytes() == id => (Edit::Remove, ()),
                _ => (Edit::Keep, ()),
            });
            self.gone.remove(&key);
        }
    }
}

const GONE_KEY_BYTES: usize = 12;

fn gone_key(version: Version, id: PartitionId) -> [u8; GONE_KEY_BYTES] {
    let mut key = [0; GONE_KEY_BYTES];
    key[..8].copy_from_slice(&version.0.to_be_bytes());
    key[8..].copy_from_slice(&id.0.to_be_bytes());
    key
}

/// The partitions of a table that somebody may see: a bit for each.
#[derive(Clone, Debug, Default)]
pub struct Visible {
    bits: Vec<u64>,
    /// The state of the table's partitions that this was made from.
    pub made_at: Version,
}

impl Visible {
    pub(crate) fn of<'a>(
        partitions: &'a Partitions,
        mut may_see: impl FnMut(&mut dyn Iterator<Item = Value<'a>>) -> bool,
    ) -> Visible {
        let mut visible = Visible { bits: Vec::new(), made_at: partitions.changed_at };
        // Those that went are among them, for watchers.
        for partition in partitions.by_id.leaves() {
            if may_see(&mut partition.values.iter().map(Literal::value)) {
                let (word, bit) = (partition.id.0 as usize / 64, partition.id.0 % 64);
                if visible.bits.len() <= word {
                    visible.bits.resize(word + 1, 0);
                }
                visible.bits[word] |= 1 << bit;
            }
        }
        visible
    }

    /// Whether rows of this partition may be seen.
    #[inline]
    pub fn contains(&self, id: PartitionId) -> bool {
        self.bits.get(id.0 as usize / 64).is_some_and(|word| word & (1 << (id.0 % 64)) != 0)
    }
}
