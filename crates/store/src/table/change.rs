//! Changing a table: the only code that touches rows and what is kept beside them.

use super::{RowRef, Table};
use crate::change::ChangeError;
use crate::page::{AnyRow, Page, Stored};
use crate::rollup::{self, includes};
use crate::tree::{Edit, KEY_BYTES_MAX, PackedMap};
use crate::words::{PARTITION_BYTES, PartitionId, ROW_NUMBER_BYTES, RowNumber, Version};
use rollcall_schema::{IndexSchema, Literal, Row, TableSchema, key};
use std::sync::Arc;

/// Buffers that every change uses again.
#[derive(Default)]
pub(crate) struct Scratch {
    old_key: Vec<u8>,
    new_key: Vec<u8>,
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
    /// is changed if it fails.
    pub(crate) fn change(
        &mut self,
        number: RowNumber,
        new: Option<Arc<Stored<R>>>,
        version: Version,
        scratch: &mut Scratch,
    ) -> Result<Changed<R>, ChangeError> {
        let old = match self.partition_of(number) {
            Some(partition) => self.get_in(partition, number).map(|RowRef { stored, .. }| (partition, stored.clone())),
            None => None,
        };
        if let Some(new) = &new {
            self.check(number, old.as_ref().map(|(_, old)| &old.row), &new.row, scratch)?;
        }
        if let Some((_, stored)) = &old
            && stored.changed != version
        {
            self.copied += stored.row_bytes();
        }
        let new = match new {
            Some(stored) => Some((self.partition_for(old.as_ref(), &stored.row, version, scratch)?, stored)),
            None => None,
        };
        self.change_pages(number, old.as_ref().map(|(partition, _)| *partition), new.as_ref(), version);
        let old_row = old.as_ref().map(|(partition, stored)| (*partition, &stored.row));
        let new_row = new.as_ref().map(|(partition, stored)| (*partition, &stored.row));
        for (index, map) in self.schema.indexes.iter().zip(&mut self.indexes) {
            change_index(map, self.schema, index, number, old_row, new_row, scratch);
        }
        for (declared, map) in self.schema.rollups.iter().zip(&mut self.rollups) {
            rollup::change(map, self.schema, declared, old_row, new_row, &mut scratch.new_key);
        }
        self.bytes += new.as_ref().map_or(0, |(_, stored)| stored.row_bytes());
        self.bytes -= old.as_ref().map_or(0, |(_, stored)| stored.row_bytes());
        Ok(Changed { old, new })
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

    /// Bytes that earlier versions hold alone since this was last asked.
    pub(crate) fn take_copied(&mut self) -> usize {
        let maps = self.indexes.iter_mut().chain(&mut self.rollups).chain([&mut self.numbers]);
        let nodes: usize = maps.map(PackedMap::take_copied).sum();
        let trees = nodes + self.directory.take_copied() + self.partitions.take_copied();
        let own = size_of::<Self>() + size_of_val(&*self.indexes) + size_of_val(&*self.rollups);
        trees + own + std::mem::take(&mut self.copied)
    }

    /// Refuses rows that an index or a rollup cannot take.
    fn check(&self, number: RowNumber, old: Option<&R>, new: &R, scratch: &mut Scratch) -> Result<(), ChangeError> {
        for (position, index) in self.schema.indexes.iter().enumerate() {
            if old.is_some_and(|old| same_columns(index.columns, old, new) && includes(index.only_where, old)) {
                continue;
            }
            if !includes(index.only_where, new) {
                continue;
            }
            let prefix = &mut scratch.new_key;
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
                let mut high = prefix.clone();
                let bounded = key::step_past_prefix(&mut high);
                let taken = self.indexes[position].range(prefix, bounded.then_some(high)).next();
                if let Some(other) =
                    taken.map(|entry| RowNumber::from_key(entry.tail())).filter(|other| *other != number)
                {
                    return Err(ChangeError::NotUnique { table: self.schema.name, index: index.name, other });
                }
            }
        }
        self.check_rollups(old, new, scratch)
    }

    /// Refuses rows whose group in a rollup has too long a key.
    fn check_rollups(&self, old: Option<&R>, new: &R, scratch: &mut Scratch) -> Result<(), ChangeError> {
        for rollup in self.schema.rollups.iter().filter(|rollup| includes(rollup.only_where, new)) {
            if old.is_some_and(|old| same_columns(rollup.key, old, new) && includes(rollup.only_where, old)) {
                continue;
            }
            let key = &mut scratch.new_key;
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

    fn partition_for(
        &mut self,
        old: Option<&(PartitionId, Arc<Stored<R>>)>,
        new: &R,
        version: Version,
        scratch: &mut Scratch,
    ) -> Result<PartitionId, ChangeError> {
        let schema = self.schema;
        if let Some((partition, old)) = old
            && same_columns(schema.partition, &old.row, new)
        {
            return Ok(*partition);
        }
        let key = &mut scratch.new_key;
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
        old: Option<PartitionId>,
        new: Option<&(PartitionId, Arc<Stored<R>>)>,
        version: Version,
    ) {
        let copied = &mut self.copied;
        match (old, new) {
            (Some(old), Some((partition, stored))) if old == *partition => {
                self.directory.edit(&Page::<R>::key(old, number), |leaf| match leaf {
                    Some(leaf) => match leaf.position(number) {
                        Ok(position) => {
                            *copied += leaf.shared_bytes(false);
                            (Page::replace(leaf, position, stored.clone(), version), ())
                        }
                        Err(_) => (Edit::Keep, ()),
                    },
                    None => (Edit::Keep, ()),
                });
            }
            _ => {
                if let Some(old) = old {
                    self.directory.edit(&Page::<R>::key(old, number), |leaf| match leaf {
                        Some(leaf) => match leaf.position(number) {
                            Ok(position) => {
                                *copied += leaf.shared_bytes(true);
                                (Page::remove(leaf, position, version).0, ())
                            }
                            Err(_) => (Edit::Keep, ()),
                        },
                        None => (Edit::Keep, ()),
                    });
                }
                if let Some((partition, stored)) = new {
                    let budget = self.budget.clone();
                    self.directory.edit(&Page::<R>::key(*partition, number), |leaf| {
                        *copied += leaf.as_ref().map_or(0, |leaf| leaf.shared_bytes(true));
                        (Page::insert(leaf, *partition, number, stored.clone(), version, || budget.cell()), ())
                    });
                    self.numbers.insert(&number.key(), &partition.bytes());
                } else {
                    self.numbers.remove(&number.key());
                }
            }
        }
    }
}

/// Carries a change of one row into an index.
fn change_index<R: Row>(
    map: &mut PackedMap,
    schema: &TableSchema,
    index: &IndexSchema,
    number: RowNumber,
    old: Option<(PartitionId, &R)>,
    new: Option<(PartitionId, &R)>,
    scratch: &mut Scratch,
) {
    let old = old.filter(|(_, row)| includes(index.only_where, *row));
    let new = new.filter(|(_, row)| includes(index.only_where, *row));
    let put = |out: &mut Vec<u8>, row: &R| {
        out.clear();
        put_columns(out, schema, index.columns, row);
        out.extend_from_slice(&number.key());
    };
    if let (Some((old_partition, old)), Some((new_partition, new))) = (old, new)
        && same_columns(index.columns, old, new)
    {
        if old_partition != new_partition {
            put(&mut scratch.new_key, new);
            map.insert(&scratch.new_key, &new_partition.bytes());
        }
        return;
    }
    if let Some((_, old)) = old {
        put(&mut scratch.old_key, old);
        map.remove(&scratch.old_key);
    }
    if let Some((partition, new)) = new {
        put(&mut scratch.new_key, new);
        map.insert(&scratch.new_key, &partition.bytes());
    }
}
