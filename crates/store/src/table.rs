//! A table at one version: its rows in pages, and everything that is kept beside them.

mod build;
mod change;
mod columns;

pub(crate) use change::{Before, Changed, Scratch};

use crate::encoding::{Encoder, EncodingBudget};
use crate::page::{Page, Stored};
use crate::partition::{Partition, Partitions, Visible};
use crate::rollup::{self, Totals};
use crate::tree::{Deferred, KeyRange, PackedMap, Tree};
use crate::words::{PARTITION_BYTES, PartitionId, RowNumber, Version};
use rollcall_schema::{Literal, Row, TableSchema, Value, key};
use std::sync::Arc;

/// A row of a snapshot, borrowed from it.
#[derive(Debug)]
pub struct RowRef<'s, R> {
    /// Its number.
    pub number: RowNumber,
    /// The row, with the version that last changed it.
    pub stored: &'s Arc<Stored<R>>,
}

impl<R> Clone for RowRef<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for RowRef<'_, R> {}

impl<'s, R> RowRef<'s, R> {
    /// The row itself.
    #[inline]
    pub fn row(&self) -> &'s R {
        &self.stored.row
    }
}

/// A table at one version. Cloning it copies a few pointers.
#[derive(Clone)]
pub struct Table<R: Row> {
    schema: &'static TableSchema,
    directory: Tree<Arc<Page<R>>>,
    /// From row numbers to partitions.
    numbers: Deferred,
    indexes: Vec<Deferred>,
    rollups: Vec<Deferred>,
    partitions: Partitions,
    changed_at: Version,
    /// How many rows there are.
    rows: usize,
    bytes: usize,
    /// Bytes of pages and rows that were copied or replaced since the last commit.
    copied: usize,
    budget: Arc<EncodingBudget>,
}

impl<R: Row> Table<R> {
    pub(crate) fn new(budget: &Arc<EncodingBudget>) -> Table<R> {
        let schema = R::schema();
        Table {
            schema,
            directory: Tree::default(),
            numbers: Deferred::of(PackedMap::new(PARTITION_BYTES)),
            indexes: schema.indexes.iter().map(|_| Deferred::of(PackedMap::new(PARTITION_BYTES))).collect(),
            rollups: schema.rollups.iter().map(|rollup| Deferred::of(PackedMap::new(rollup::width(rollup)))).collect(),
            partitions: Partitions::new(),
            changed_at: Version::NOTHING,
            rows: 0,
            bytes: 0,
            copied: 0,
            budget: budget.clone(),
        }
    }

    /// Its description.
    pub fn schema(&self) -> &'static TableSchema {
        self.schema
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that its rows take, without pages and indexes.
    pub fn row_bytes(&self) -> usize {
        self.bytes
    }

    /// The last version that changed it.
    pub fn changed_at(&self) -> Version {
        self.changed_at
    }

    /// The last version at which a partition of it came or went.
    pub fn partitions_changed_at(&self) -> Version {
        self.partitions.changed_at()
    }

    /// The highest changed-at of the partitions that may be seen, and of their set: the key of a shared answer.
    pub fn changed_at_for(&self, visible: Option<&Visible>) -> Version {
        let Some(visible) = visible else { return self.changed_at };
        let seen = self.partitions.iter().filter(|partition| visible.contains(partition.id));
        seen.map(|partition| partition.changed_at).max().unwrap_or_default().max(self.partitions.changed_at())
    }

    /// All partitions that have rows.
    pub fn partitions(&self) -> impl Iterator<Item = &Partition> {
        self.partitions.iter()
    }

    /// One partition.
    pub fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(id)
    }

    /// How many partitions there are.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// The set of partitions whose values `may_see` accepts; to be made anew when [`Table::partitions_changed_at`] moves.
    pub fn visible<'a>(&'a self, may_see: impl FnMut(&mut dyn Iterator<Item = Value<'a>>) -> bool) -> Visible {
        Visible::of(&self.partitions, may_see)
    }

    /// The row with this number.
    #[inline]
    pub fn get(&self, number: RowNumber) -> Option<RowRef<'_, R>> {
        self.get_in(self.partition_of(number)?, number)
    }

    #[inline]
    pub(crate) fn get_in(&self, partition: PartitionId, number: RowNumber) -> Option<RowRef<'_, R>> {
        self.page_at(partition, number)?.get(number).map(|stored| RowRef { number, stored })
    }

    #[inline]
    pub(crate) fn partition_of(&self, number: RowNumber) -> Option<PartitionId> {
        self.numbers.read().get(&number.key()).map(PartitionId::from_bytes)
    }

    /// The page that the row lies in.
    #[inline]
    pub(crate) fn page_at(&self, partition: PartitionId, number: RowNumber) -> Option<&Arc<Page<R>>> {
        self.directory.find(&Page::<R>::key(partition, number))
    }

    /// All pages, partition by partition, each in order of row numbers.
    pub(crate) fn pages(&self) -> crate::tree::Leaves<'_, Arc<Page<R>>> {
        self.directory.leaves()
    }

    /// The rows of the partition with these values, in order of their numbers.
    pub(crate) fn rows_of_partition(&self, values: &[Literal<'_>]) -> impl Iterator<Item = RowRef<'_, R>> {
        let mut key_bytes = Vec::new();
        for (column, value) in self.schema.partition.iter().zip(values) {
            key::put_value(&mut key_bytes, value.value(), self.schema.columns[*column].nullable);
        }
        let partition = self.partitions.by_key(&key_bytes);
        let from = partition.map(|partition| Page::<R>::key(partition, RowNumber(0)));
        let pages = from.map(|from| self.directory.leaves_from(&from)).into_iter().flatten();
        let pages = pages.skip_while(move |page| Some(page.partition()) < partition);
        pages
            .take_while(move |page| Some(page.partition()) == partition)
            .flat_map(|page| page.numbers().zip(page.rows()).map(|(number, stored)| RowRef { number, stored }))
    }

    /// The numbers of all rows of the page that holds the oldest row.
    pub(crate) fn oldest_page(&self) -> Vec<RowNumber> {
        let oldest = self.numbers.read().range(KeyRange::all()).next();
        let page = oldest
            .and_then(|entry| self.page_at(PartitionId::from_bytes(entry.value), RowNumber::from_key(entry.tail())));
        page.map_or_else(Vec::new, |page| page.numbers().collect())
    }

    pub(crate) fn numbers(&self) -> &PackedMap {
        self.numbers.read()
    }

    pub(crate) fn index(&self, position: usize) -> &PackedMap {
        self.indexes[position].read()
    }

    /// The wire form of a page, shared with everyone who asks for it.
    pub fn encoded<E: Encoder<R>>(&self, page: &Page<R>, encoder: &E) -> Arc<E::Encoded> {
        page.encodings().encoded(page, encoder)
    }

    /// The totals of one group of a rollup: the first columns of its key with these values (all groups for none), over the partitions
    /// that may be seen. `None` if the table has no rollup of this name.
    pub fn totals(&self, rollup: &str, group: &[Literal<'_>], visible: Option<&Visible>) -> Option<Totals> {
        let position = self.schema.rollups.iter().position(|declared| declared.name == rollup)?;
        let declared = &self.schema.rollups[position];
        let mut prefix = Vec::new();
        for (column, value) in declared.key.iter().zip(group) {
            key::put_value(&mut prefix, value.value(), self.schema.columns[*column].nullable);
        }
        Some(rollup::totals(self.rollups[position].read(), declared, prefix, visible))
    }

    /// How many groups (by key and partition) a rollup has; `None` if the table has no rollup of this name.
    pub fn group_count(&self, rollup: &str) -> Option<usize> {
        let position = self.schema.rollups.iter().position(|declared| declared.name == rollup)?;
        Some(self.rollups[position].read().len())
    }
}
