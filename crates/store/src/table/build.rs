//! Building a table from all its rows at once, as a start does.

use super::Table;
use crate::encoding::EncodingBudget;
use crate::page::{AnyRow, Numbers, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Page, Stored};
use crate::rollup::{self, includes};
use crate::tree::{Deferred, PackedMap, Pending, Tree};
use crate::words::{PARTITION_BYTES, PartitionId, RowNumber, Version};
use rollcall_schema::{IndexSchema, Literal, Row, TableSchema, key};
use std::collections::HashMap;
use std::sync::Arc;

/// Pages made at once are filled up to so many rows, so that the first insert into one does not split it.
const PAGE_ROWS_BULK: usize = PAGE_ROWS_MAX * 3 / 4;

struct Located<R> {
    partition: PartitionId,
    number: RowNumber,
    stored: Arc<Stored<R>>,
}

impl<R: Row> Table<R> {
    /// A table of these rows, in any order, each number once, that counts as changed at `version`.
    pub(crate) fn from_rows(
        budget: &Arc<EncodingBudget>,
        rows: Vec<(RowNumber, Arc<Stored<R>>)>,
        version: Version,
    ) -> Table<R> {
        let mut table = Table::new(budget);
        let mut located = table.locate(rows, version);
        located.sort_unstable_by_key(|row| (row.partition, row.number));
        table.bytes = located.iter().map(|row| row.stored.row_bytes()).sum();
        // Indexes and pages are independent of each other: one half each for two cores.
        let schema = table.schema;
        let (numbers, indexes, rollups) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                let half = schema.indexes.len() / 2;
                schema.indexes[half..].iter().map(|index| build_index(schema, index, &located)).collect::<Vec<_>>()
            });
            let mut indexes: Vec<_> = schema.indexes[..schema.indexes.len() / 2]
                .iter()
                .map(|index| build_index(schema, index, &located))
                .collect();
            let numbers = build_numbers(&located);
            let rollups = table.build_rollups(&located);
            // The other half cannot panic but by running out of memory, which ends the process.
            indexes.extend(beside.join().unwrap_or_default());
            (numbers, indexes, rollups)
        });
        table.rows = numbers.len();
        table.numbers = Deferred::of(numbers);
        table.indexes = indexes.into_iter().map(Deferred::of).collect();
        table.rollups = rollups.into_iter().map(Deferred::of).collect();
        table.directory = build_directory(budget, located);
        table
    }

    fn locate(&mut self, rows: Vec<(RowNumber, Arc<Stored<R>>)>, version: Version) -> Vec<Located<R>> {
        let schema = self.schema;
        let mut counts: HashMap<PartitionId, i64> = HashMap::new();
        let mut key_bytes = Vec::new();
        let mut located = Vec::with_capacity(rows.len());
        for (number, stored) in rows {
            key_bytes.clear();
            for &column in schema.partition {
                key::put_value(&mut key_bytes, stored.row.value(column), schema.columns[column].nullable);
            }
            let values = || {
                let literal = |column: &usize| Literal::from_value(stored.row.value(*column)).unwrap_or(Literal::Null);
                schema.partition.iter().map(literal).collect()
            };
            // These rows were in a table before, which had numbers for all of their partitions.
            let partition = self.partitions.at_key(&key_bytes, values, version).unwrap_or(PartitionId::MAX);
            *counts.entry(partition).or_default() += 1;
            located.push(Located { partition, number, stored });
        }
        for (partition, count) in counts {
            self.touch(partition, count, version);
        }
        located
    }

    fn build_rollups(&self, located: &[Located<R>]) -> Vec<PackedMap> {
        let build = |rollup| {
            let mut pending = Pending::default();
            for row in located {
                rollup::change(&mut pending, self.schema, rollup, None, Some((row.partition, &row.stored.row)));
            }
            PackedMap::new(rollup::width(rollup)).with(pending)
        };
        self.schema.rollups.iter().map(build).collect()
    }
}

fn build_numbers<R: Row>(located: &[Located<R>]) -> PackedMap {
    let mut numbers: Vec<_> = located.iter().map(|row| (row.number.key(), row.partition.bytes())).collect();
    numbers.sort_unstable();
    PackedMap::from_sorted(
        PARTITION_BYTES,
        numbers.iter().map(|(key, partition)| (key.as_slice(), partition.as_slice())),
    )
}

fn build_index<R: Row>(schema: &TableSchema, index: &IndexSchema, located: &[Located<R>]) -> PackedMap {
    // All keys lie one behind the other; what is sorted is small: the first bytes of a key, and where it lies.
    let mut arena = Vec::new();
    let mut keys: Vec<(u128, u64, u32, PartitionId)> = Vec::with_capacity(located.len());
    for row in located.iter().filter(|row| includes(index.only_where, &row.stored.row)) {
        let start = arena.len();
        for &column in index.columns {
            key::put_value(&mut arena, row.stored.row.value(column), schema.columns[column].nullable);
        }
        arena.extend_from_slice(&row.number.key());
        let mut head = [0u8; 16];
        let shared = (arena.len() - start).min(16);
        head[..shared].copy_from_slice(&arena[start..start + shared]);
        keys.push((u128::from_be_bytes(head), start as u64, (arena.len() - start) as u32, row.partition));
    }
    let whole = |at: u64, length: u32| &arena[at as usize..at as usize + length as usize];
    keys.sort_unstable_by(|left, right| {
        left.0.cmp(&right.0).then_with(|| whole(left.1, left.2).cmp(whole(right.1, right.2)))
    });
    let partitions: Vec<_> = keys.iter().map(|key| key.3.bytes()).collect();
    let entries =
        keys.iter().zip(&partitions).map(|((_, at, length, _), partition)| (whole(*at, *length), partition.as_slice()));
    PackedMap::from_sorted(PARTITION_BYTES, entries)
}

fn build_directory<R: Row>(budget: &Arc<EncodingBudget>, located: Vec<Located<R>>) -> Tree<Arc<Page<R>>> {
    let mut leaves: Vec<(Vec<u8>, Arc<Page<R>>)> = Vec::new();
    let mut group: Vec<(RowNumber, Arc<Stored<R>>)> = Vec::new();
    let mut flush = |partition: PartitionId, group: &mut Vec<(RowNumber, Arc<Stored<R>>)>, starts: bool| {
        if let Some((number, _)) = group.first() {
            let from = if starts { RowNumber(0) } else { *number };
            let separator = Page::<R>::key(partition, from).to_vec();
            let changed = group.iter().map(|(_, row)| row.changed).max().unwrap_or_default();
            leaves.push((separator, Arc::new(Page::of(partition, std::mem::take(group), changed, budget.cell()))));
        }
    };
    let (mut current, mut starts, mut bytes) = (None, true, 0);
    for row in located {
        let row_bytes = row.stored.row_bytes();
        if let Some(partition) = current {
            let other = partition != row.partition;
            let far = group.first().is_some_and(|(first, _)| !Numbers::are_near(*first, row.number));
            if other || far || group.len() >= PAGE_ROWS_BULK || bytes + row_bytes > PAGE_BYTES_MAX {
                flush(partition, &mut group, starts);
                starts = other;
                bytes = 0;
            }
        }
        current = Some(row.partition);
        bytes += row_bytes;
        group.push((row.number, row.stored));
    }
    if let Some(partition) = current {
        flush(partition, &mut group, starts);
    }
    Tree::from_leaves(leaves)
}
