//! Changing a table: the only code that touches rows and what is kept beside them.

use super::{RowRef, Table};
use crate::change::ChangeError;
use crate::page::{AnyRow, Page, Stored};
use crate::rollup::{self, includes};
use crate::tree::{Deferred, Edit, KEY_BYTES_MAX, Pool};
use crate::words::{PARTITION_BYTES, PartitionId, ROW_NUMBER_BYTES, RowNumber, Version};
use rollcall_schema::{IndexSchema, Literal, Row, TableSchema, column_bits, key};
use std::sync::Arc;

/// Buffers that every change uses again.
#[derive(Default)]
pub(crate) struct Scratch {
    key: Vec<u8>,
    pool: Pool,
}

/// What is known of what a change finds under its row number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before {
    /// The number was just minted.
    Nothing,
    /// It is a mistake if there is no row.
    Row,
    /// There may be a row.
    Either,
}

/// What a change did to a table.
pub(crate) struct Changed<R> {
    pub(crate) old: Option<(PartitionId, Arc<Stored<R>>)>,
    pub(crate) new: Option<(PartitionId, Arc<Stored<R>>)>,
}

fn put_columns<R: Row>(out: &mut Vec<u8>, schema: &TableSchema, columns: &[usize], row: &R) {
    for &column in columns {
        key::put_value(out, row.value(column), schema.columns[column].nullable);
    }
}

fn same_columns<R: Row>(columns: &[usize], old: &R, new: &R) -> bool {
    columns.iter().all(|column| old.value(*column).compare(&new.value(*column)).is_eq())
}

fn has_null<R: Row>(columns: &[usize], row: &R) -> bool {
    columns.iter().any(|column| row.value(*column).is_null())
}

impl<R: Row> Table<R> {
    /// Puts `new` (or nothing) in the place of the row with this number (or of nothing). The row keeps its number whatever else changes. Nothing
    /// is changed if it fails, or if the row is equal to what is there: then the answer is `None`.
    pub(crate) fn change(
        &mut self,
        number: RowNumber,
        new: Option<Arc<Stored<R>>>,
        before: Before,
        version: Version,
        scratch: &mut Scratch,
    ) -> Result<Option<Changed<R>>, ChangeError> {
        let known = if before == Before::Nothing { None } else { self.partition_of(number) };
        let old = match known {
            Some(partition) => self.get_in(partition, number).map(|RowRef { stored, .. }| (partition, stored.clone())),
            None => None,
        };
        let differ = match (&old, &new) {
            (Some((_, old)), Some(new)) => match old.row.differences(&new.row) {
                // Fields that this version does not know are no columns.
                0 if old.row == new.row => return Ok(None),
                differ => differ,
            },
            (None, _) if before == Before::Row => {
                return Err(ChangeError::NoSuchRow { table: self.schema.name, number });
            }
            (None, None) => return Ok(None),
            _ => u64::MAX,
        };
        if let Some(new) = &new {
            self.check(number, differ, &new.row, scratch)?;
        }
        if let Some((_, stored)) = &old
            && stored.changed != version
        {
            self.copied += stored.row_bytes();
        }
        let new = match new {
            Some(stored)
                if differ & column_bits(self.schema.partition, None) == 0
                    && let Some((partition, _)) = &old =>
            {
                Some((*partition, stored))
            }
            Some(stored) => Some((self.partition_for(&stored.row, version, scratch)?, stored)),
            None => None,
        };
        self.change_pages(number, old.as_ref(), new.as_ref(), version, &mut scratch.pool);
        self.rows += usize::from(new.is_some());
        self.rows -= usize::from(old.is_some());
        let old_row = old.as_ref().map(|(partition, stored)| (*partition, &stored.row));
        let new_row = new.as_ref().map(|(partition, stored)| (*partition, &stored.row));
        let moved = old_row.map(|(partition, _)| partition) != new_row.map(|(partition, _)| partition);
        for (index, map) in self.schema.indexes.iter().zip(&mut self.indexes) {
            if moved || differ & index.bits != 0 {
                change_index(map, self.schema, index, number, old_row, new_row, &mut scratch.pool);
            }
        }
        for (declared, map) in self.schema.rollups.iter().zip(&mut self.rollups) {
            if moved || differ & declared.bits != 0 {
                rollup::change(map.pending(&mut scratch.pool), self.schema, declared, old_row, new_row);
            }
        }
        self.bytes += new.as_ref().map_or(0, |(_, stored)| stored.row_bytes());
        self.bytes -= old.as_ref().map_or(0, |(_, stored)| stored.row_bytes());
        Ok(Some(Changed { old, new }))
    }

    /// Notes at the end of a batch what it did, so that each partition is touched once.
    pub(crate) fn touch(&mut self, partition: PartitionId, more_rows: i64, version: Version) {
        self.changed_at = version;
        self.partitions.touch(partition, more_rows, version);
    }

    /// Drops a partition that an undone command left without rows.
    pub(crate) fn drop_unused_partition(&mut self, partition: PartitionId, version: Version) {
        self.partitions.drop_unused(partition, version);
    }

    /// Forgets partitions that went at `floor` or before, when watchers cannot ask for them any more.
    pub(crate) fn forget_gone_partitions(&mut self, floor: Version) {
        self.partitions.forget_gone(floor);
    }

    /// Whether nothing is pending.
    pub(crate) fn is_settled(&self) -> bool {
        self.indexes.iter().chain(&self.rollups).chain([&self.numbers]).all(Deferred::is_settled)
    }

    /// Ends a batch: indexes and rollups take in what they still have to. Gives the bytes that earlier versions hold alone since the last one.
    pub(crate) fn settle(&mut self, scratch: &mut Scratch) -> usize {
        let maps = self.indexes.iter_mut().chain(&mut self.rollups).chain([&mut self.numbers]);
        let nodes: usize = maps.map(|map| map.settled(&mut scratch.pool).take_copied()).sum();
        let trees = nodes + self.directory.take_copied() + self.partitions.take_copied();
        let own = size_of::<Self>() + size_of_val(&*self.indexes) + size_of_val(&*self.rollups);
        trees + own + std::mem::take(&mut self.copied)
    }

    /// Refuses rows that an index or a rollup cannot take.
    fn check(&self, number: RowNumber, differ: u64, new: &R, scratch: &mut Scratch) -> Result<(), ChangeError> {
        for (position, index) in self.schema.indexes.iter().enumerate() {
            if differ & index.bits == 0 || !includes(index.only_where, new) {
                continue;
            }
            let prefix = &mut scratch.key;
            prefix.clear();
            put_columns(prefix, self.schema, index.columns, new);
            if prefix.len() + ROW_NUMBER_BYTES > KEY_BYTES_MAX {
                return Err(ChangeError::KeyTooLong {
                    table: self.schema.name,
                    index: index.name,
                    bytes: prefix.len(),
                    bytes_max: KEY_BYTES_MAX - ROW_NUMBER_BYTES,
                });
            }
            if index.unique && !has_null(index.columns, new) {
                let taken = self.indexes[position].first_with(prefix);
                if let Some(other) =
                    taken.map(|entry| RowNumber::from_key(entry.tail())).filter(|other| *other != number)
                {
                    return Err(ChangeError::NotUnique { table: self.schema.name, index: index.name, other });
                }
            }
        }
        self.check_rollups(differ, new, scratch)
    }

    /// Refuses rows whose group in a rollup has too long a key.
    fn check_rollups(&self, differ: u64, new: &R, scratch: &mut Scratch) -> Result<(), ChangeError> {
        for rollup in self.schema.rollups {
            if differ & rollup.key_bits == 0 || !includes(rollup.only_where, new) {
                continue;
            }
            let key = &mut scratch.key;
            key.clear();
            put_columns(key, self.schema, rollup.key, new);
            if key.len() + PARTITION_BYTES > KEY_BYTES_MAX {
                return Err(ChangeError::KeyTooLong {
                    table: self.schema.name,
                    index: rollup.name,
                    bytes: key.len(),
                    bytes_max: KEY_BYTES_MAX - PARTITION_BYTES,
                });
            }
        }
        Ok(())
    }

    /// Whether the keys of a row are short enough for its indexes, rollups and partition.
    pub(crate) fn takes_keys(&self, row: &R) -> bool {
        let mut key = Vec::new();
        let mut fits = |columns: &[usize], tail: usize| {
            key.clear();
            put_columns(&mut key, self.schema, columns, row);
            key.len() + tail <= KEY_BYTES_MAX
        };
        fits(self.schema.partition, 0)
            && self
                .schema
                .indexes
                .iter()
                .all(|index| !includes(index.only_where, row) || fits(index.columns, ROW_NUMBER_BYTES))
            && self
                .schema
                .rollups
                .iter()
                .all(|rollup| !includes(rollup.only_where, row) || fits(rollup.key, PARTITION_BYTES))
    }

    fn partition_for(&mut self, new: &R, version: Version, scratch: &mut Scratch) -> Result<PartitionId, ChangeError> {
        let schema = self.schema;
        let key = &mut scratch.key;
        key.clear();
        put_columns(key, schema, schema.partition, new);
        if key.len() > KEY_BYTES_MAX {
            let bytes = key.len();
            return Err(ChangeError::KeyTooLong {
                table: schema.name,
                index: "partition",
                bytes,
                bytes_max: KEY_BYTES_MAX,
            });
        }
        let values = || {
            let literal = |column: &usize| Literal::from_value(new.value(*column)).unwrap_or(Literal::Null);
            schema.partition.iter().map(literal).collect()
        };
        self.partitions.at_key(key, values, version).ok_or(ChangeError::TooManyPartitions { table: schema.name })
    }

    fn change_pages(
        &mut self,
        number: RowNumber,
        old: Option<&(PartitionId, Arc<Stored<R>>)>,
        new: Option<&(PartitionId, Arc<Stored<R>>)>,
        version: Version,
        pool: &mut Pool,
    ) {
        let copied = &mut self.copied;
        if let Some((partition, _)) = old {
            let replacement = new.filter(|(new_partition, _)| new_partition == partition).map(|(_, stored)| stored);
            self.directory.edit(&Page::<R>::key(*partition, number), |leaf| {
                let Some(leaf) = leaf else { return (Edit::Keep, ()) };
                let Ok(position) = leaf.position(number) else { return (Edit::Keep, ()) };
                *copied += leaf.shared_bytes();
                match replacement {
                    Some(stored) => (Page::replace(leaf, position, stored.clone(), version), ()),
                    None => (Page::remove(leaf, position, version).0, ()),
                }
            });
            if replacement.is_some() {
                return;
            }
        }
        match new {
            Some((partition, stored)) => {
                let budget = &self.budget;
                self.directory.edit(&Page::<R>::key(*partition, number), |leaf| {
                    *copied += leaf.as_ref().map_or(0, |leaf| leaf.shared_bytes());
                    (Page::insert(leaf, *partition, number, stored.clone(), version, || budget.cell()), ())
                });
                self.numbers.pending(pool).put(|out| out.extend_from_slice(&number.key()), &partition.bytes());
            }
            None => self.numbers.pending(pool).remove(|out| out.extend_from_slice(&number.key())),
        }
    }
}

/// Notes what a change of one row does to an index.
fn change_index<R: Row>(
    map: &mut Deferred,
    schema: &TableSchema,
    index: &IndexSchema,
    number: RowNumber,
    old: Option<(PartitionId, &R)>,
    new: Option<(PartitionId, &R)>,
    pool: &mut Pool,
) {
    let old = old.filter(|(_, row)| includes(index.only_where, *row));
    let new = new.filter(|(_, row)| includes(index.only_where, *row));
    let put = |out: &mut Vec<u8>, row: &R| {
        put_columns(out, schema, index.columns, row);
        out.extend_from_slice(&number.key());
    };
    let (old, new) = match (old, new) {
        (Some((old_partition, old)), Some((new_partition, new))) if same_columns(index.columns, old, new) => {
            if old_partition == new_partition {
                return;
            }
            (None, Some((new_partition, new)))
        }
        sides => sides,
    };
    let pending = map.pending(pool);
    if let Some((_, old)) = old {
        pending.remove(|out| put(out, old));
        pending.touch(index.unique, ROW_NUMBER_BYTES);
    }
    if let Some((partition, new)) = new {
        pending.put(|out| put(out, new), &partition.bytes());
        pending.touch(index.unique, ROW_NUMBER_BYTES);
    }
}
