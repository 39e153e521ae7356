//! Building a table from all its rows at once, as a start does.

use super::Table;
use super::columns::{Columns, Layout, Part, Rows};
use crate::encoding::EncodingBudget;
use crate::load::ReadRows;
use crate::page::{AnyRow, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Page, Stored};
use crate::rollup;
use crate::snapshot::typed;
use crate::tree::{PackedBuilder, PackedMap, Tree};
use crate::words::{PARTITION_BYTES, PartitionId, RowNumber, Version};
use foldhash::HashMap;
use rollcall_schema::{BlobReference, IndexSchema, Literal, RollupSchema, Row};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Pages made at once are filled up to so many rows, so that the first insert into one does not split it.
const PAGE_ROWS_BULK: usize = PAGE_ROWS_MAX * 3 / 4;

/// How many threads build a table of many rows.
const BUILD_THREADS: usize = 2;

/// A table of fewer rows is built by one thread: another would start too late to be of use.
const ROWS_FOR_THREADS: usize = 8 * 1024;

/// Calls `work` with every number below `count`, on several threads; gives what it made, in order.
fn on_threads<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut made = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return made;
            }
            made.push((number, work(number)));
        }
    };
    let mut made = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut made = take();
        for other in others {
            match other.join() {
                Ok(others) => made.extend(others),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        made
    });
    made.sort_unstable_by_key(|(number, _)| *number);
    made.into_iter().map(|(_, made)| made).collect()
}

/// Where a row is. A list of places is in order of row numbers, and the position in it is the row's rank.
#[derive(Clone, Copy)]
struct Place {
    number: RowNumber,
    partition: PartitionId,
    /// How many rows came before it.
    arrival: u32,
}

/// All that indexes, rollups and pages are made of.
struct Located {
    columns: Columns,
    /// In order of row numbers.
    places: Vec<Place>,
    /// The rank of each row, and its partition, in the order in which rows came.
    ranks: Vec<u32>,
    partitions: Vec<PartitionId>,
}

enum Built<R: Row> {
    Directory(Tree<Arc<Page<R>>>, usize),
    Map(PackedMap),
}

impl<R: Row> Table<R> {
    /// A table of these rows, that counts as changed at `version`, and the blobs that they name. Of a number that comes twice the row is taken that
    /// changed last.
    pub(crate) fn from_rows(
        budget: &Arc<EncodingBudget>,
        rows: &ReadRows,
        version: Version,
    ) -> (Table<R>, Vec<BlobReference>) {
        let threads = if rows.count() < ROWS_FOR_THREADS { 1 } else { BUILD_THREADS };
        let parts = on_threads(threads, threads, |_| {
            let mut part = Part::new(rows.count());
            rows.take_all(&mut |number, row| part.add(number, typed(row)));
            part
        });
        Table::of_parts(budget, threads, parts, version)
    }

    fn of_parts(
        budget: &Arc<EncodingBudget>,
        threads: usize,
        mut parts: Vec<Part<R>>,
        version: Version,
    ) -> (Table<R>, Vec<BlobReference>) {
        let mut table = Table::new(budget);
        let blobs = parts.iter_mut().flat_map(|part| std::mem::take(&mut part.blobs)).collect();
        let (columns, rows) = Columns::of(parts);
        let mut places = number_places(&rows);
        if places.windows(2).any(|pair| pair[0].number == pair[1].number) {
            let newest = newest_of_each(rows);
            let mut part = Part::new(newest.len());
            newest.into_iter().for_each(|(number, stored)| part.add(number, stored));
            return Table::of_parts(budget, threads, vec![part], version);
        }
        let partitions = table.assign_partitions(&columns, &rows, version);
        let mut ranks = vec![0; places.len()];
        for (rank, place) in places.iter_mut().enumerate() {
            ranks[place.arrival as usize] = rank as u32;
            place.partition = partitions[place.arrival as usize];
        }
        let located = Located { columns, places, ranks, partitions };
        table.build_all(threads, &located, rows);
        (table, blobs)
    }

    /// Builds everything, each thread taking what comes next; what takes longest comes first.
    fn build_all(&mut self, threads: usize, located: &Located, rows: Vec<Rows<R>>) {
        let (schema, budget) = (self.schema, &self.budget);
        let (indexes, rollups) = (schema.indexes.len(), schema.rollups.len());
        let rows = Mutex::new(rows);
        let built = on_threads(threads, 2 + indexes + rollups, |job| match job.checked_sub(2) {
            None if job == 0 => {
                let rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
                let (directory, bytes) = located.directory(budget, rows);
                Built::Directory(directory, bytes)
            }
            None => Built::Map(located.numbers()),
            Some(index) if index < indexes => Built::Map(located.index(&schema.indexes[index])),
            Some(rollup) => Built::Map(located.rollup(&schema.rollups[rollup - indexes])),
        });
        let mut maps = Vec::new();
        for built in built {
            match built {
                Built::Directory(directory, bytes) => (self.directory, self.bytes) = (directory, bytes),
                Built::Map(map) => maps.push(map),
            }
        }
        self.rollups = maps.split_off(1 + indexes);
        self.indexes = maps.split_off(1);
        self.numbers = maps.pop().unwrap_or_else(|| PackedMap::new(PARTITION_BYTES));
    }

    /// The partition of each row, in the order in which they came.
    fn assign_partitions(&mut self, columns: &Columns, rows: &[Rows<R>], version: Version) -> Vec<PartitionId> {
        let schema = self.schema;
        let layout = columns.layout(schema.partition);
        let mut known: HashMap<u128, (PartitionId, i64)> = HashMap::default();
        let mut key = Vec::new();
        let mut assigned = Vec::with_capacity(rows.iter().map(Vec::len).sum());
        let mut rows = rows.iter().flatten();
        columns.each_code(&layout, None, |_, code| {
            let Some((_, stored)) = rows.next() else { return };
            let (partition, count) = known.entry(code).or_insert_with(|| {
                key.clear();
                columns.put_key(&mut key, &layout, code);
                let values = || {
                    let literal =
                        |column: &usize| Literal::from_value(stored.row.value(*column)).unwrap_or(Literal::Null);
                    schema.partition.iter().map(literal).collect()
                };
                // These rows were in a table before, which had numbers for all of their partitions.
                (self.partitions.at_key(&key, values, version).unwrap_or(PartitionId::MAX), 0)
            });
            *count += 1;
            assigned.push(*partition);
        });
        for (partition, count) in known.into_values() {
            self.touch(partition, count, version);
        }
        assigned
    }
}

/// All rows in order of their numbers; their partitions are not known yet.
fn number_places<R>(rows: &[Rows<R>]) -> Vec<Place> {
    let numbers = rows.iter().flatten().enumerate();
    let place = |(arrival, (number, _)): (usize, &(RowNumber, _))| Place {
        number: *number,
        partition: PartitionId(0),
        arrival: arrival as u32,
    };
    let mut places: Vec<Place> = numbers.map(place).collect();
    places.sort_unstable_by_key(|place| place.number);
    places
}

/// The rows, each number once: the newest of those that came twice, as when a chunk was read twice.
fn newest_of_each<R>(rows: Vec<Rows<R>>) -> HashMap<RowNumber, Arc<Stored<R>>> {
    let mut newest: HashMap<RowNumber, Arc<Stored<R>>> = HashMap::default();
    for (number, row) in rows.into_iter().flatten() {
        if newest.get(&number).is_none_or(|other| other.changed < row.changed) {
            newest.insert(number, row);
        }
    }
    newest
}

impl Located {
    fn numbers(&self) -> PackedMap {
        let mut map = PackedBuilder::new(PARTITION_BYTES);
        self.places.iter().for_each(|place| map.push(&[], &place.number.key(), &place.partition.bytes()));
        map.finish()
    }

    fn index(&self, index: &IndexSchema) -> PackedMap {
        let layout = self.columns.layout(index.columns);
        let rank_bits = usize::BITS - self.places.len().leading_zeros();
        if layout.bits + rank_bits > u64::BITS {
            let mut codes: Vec<(u128, u32)> = Vec::with_capacity(self.places.len());
            self.columns.each_code(&layout, index.only_where, |row, code| codes.push((code, self.ranks[row])));
            codes.sort_unstable();
            return self.pack(&layout, codes.into_iter());
        }
        let mut codes: Vec<u64> = Vec::with_capacity(self.places.len());
        self.columns.each_code(&layout, index.only_where, |row, code| {
            codes.push((code as u64) << rank_bits | u64::from(self.ranks[row]));
        });
        codes.sort_unstable();
        let rank = |code: u64| (code & !(u64::MAX << rank_bits)) as u32;
        self.pack(&layout, codes.into_iter().map(|code| (u128::from(code >> rank_bits), rank(code))))
    }

    /// The index with these entries, which are in order: codes of its columns, and ranks.
    fn pack(&self, layout: &Layout, entries: impl Iterator<Item = (u128, u32)>) -> PackedMap {
        let (mut columns, mut last) = (Vec::new(), None);
        let mut map = PackedBuilder::new(PARTITION_BYTES);
        for (code, rank) in entries {
            if last != Some(code) {
                columns.clear();
                self.columns.put_key(&mut columns, layout, code);
                last = Some(code);
            }
            let place = &self.places[rank as usize];
            map.push(&columns, &place.number.key(), &place.partition.bytes());
        }
        map.finish()
    }

    fn rollup(&self, rollup: &RollupSchema) -> PackedMap {
        let layout = self.columns.layout(rollup.key);
        let width = 1 + rollup.sums.len();
        let mut groups: HashMap<(u128, PartitionId), u32> = HashMap::default();
        let mut totals: Vec<u64> = Vec::new();
        // Which group each row is of, so that each sum is a walk along one column.
        let mut group_of = vec![u32::MAX; self.places.len()];
        self.columns.each_code(&layout, rollup.only_where, |row, code| {
            let next = groups.len() as u32;
            let group = *groups.entry((code, self.partitions[row])).or_insert(next);
            group_of[row] = group;
            totals.resize(totals.len().max((group as usize + 1) * width), 0);
            totals[group as usize * width] += 1;
        });
        for (sum, column) in rollup.sums.iter().enumerate() {
            self.columns.each_summand(*column, |row, number| {
                if let Some(total) = totals.get_mut(group_of[row] as usize * width + 1 + sum) {
                    *total = total.wrapping_add(number);
                }
            });
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_unstable();
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut map = PackedBuilder::new(rollup::width(rollup));
        for ((code, partition), group) in groups {
            key.clear();
            self.columns.put_key(&mut key, &layout, code);
            value.clear();
            let totals = &totals[group as usize * width..][..width];
            totals.iter().for_each(|total| value.extend_from_slice(&total.to_le_bytes()));
            map.push(&key, &partition.bytes(), &value);
        }
        map.finish()
    }

    /// The pages, and the bytes of all rows.
    fn directory<R: Row>(&self, budget: &Arc<EncodingBudget>, rows: Vec<Rows<R>>) -> (Tree<Arc<Page<R>>>, usize) {
        let mut rows: Vec<Option<Arc<Stored<R>>>> =
            rows.into_iter().flatten().map(|(_, stored)| Some(stored)).collect();
        let of_row = |(partition, rank): (&PartitionId, &u32)| u64::from(partition.0) << 32 | u64::from(*rank);
        let mut order: Vec<u64> = self.partitions.iter().zip(&self.ranks).map(of_row).collect();
        order.sort_unstable();
        let (leaves, group) = (Vec::new(), Vec::new());
        let mut pages = Pages { budget, leaves, group, partition: None, starts: true, bytes: 0, all_bytes: 0 };
        for code in order {
            let place = &self.places[code as u32 as usize];
            if let Some(stored) = rows[place.arrival as usize].take() {
                pages.add(place.partition, place.number, stored);
            }
        }
        pages.finish()
    }
}

/// Pages that are being made of rows that come in order.
struct Pages<'b, R> {
    budget: &'b Arc<EncodingBudget>,
    leaves: Vec<(Vec<u8>, Arc<Page<R>>)>,
    /// The rows of the next page, and their partition.
    group: Vec<(RowNumber, Arc<Stored<R>>)>,
    partition: Option<PartitionId>,
    /// Whether that page is the first one of its partition.
    starts: bool,
    bytes: usize,
    all_bytes: usize,
}

impl<R: Row> Pages<'_, R> {
    fn add(&mut self, partition: PartitionId, number: RowNumber, stored: Arc<Stored<R>>) {
        let row_bytes = stored.row_bytes();
        let other = self.partition != Some(partition);
        if other || self.group.len() >= PAGE_ROWS_BULK || self.bytes + row_bytes > PAGE_BYTES_MAX {
            self.end_page();
            (self.partition, self.starts) = (Some(partition), other);
        }
        self.bytes += row_bytes;
        self.group.push((number, stored));
    }

    fn end_page(&mut self) {
        let (Some(partition), Some((number, _))) = (self.partition, self.group.first()) else { return };
        let from = if self.starts { RowNumber(0) } else { *number };
        let separator = Page::<R>::key(partition, from).to_vec();
        let changed = self.group.iter().map(|(_, row)| row.changed).max().unwrap_or_default();
        let rows = std::mem::take(&mut self.group);
        self.leaves.push((separator, Arc::new(Page::of(partition, rows, changed, self.budget.cell()))));
        self.all_bytes += std::mem::take(&mut self.bytes);
    }

    fn finish(mut self) -> (Tree<Arc<Page<R>>>, usize) {
        self.end_page();
        (Tree::from_leaves(self.leaves), self.all_bytes)
    }
}
