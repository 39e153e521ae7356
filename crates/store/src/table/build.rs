//! Building a table from all its rows at once, as a start does.

use super::Table;
use super::columns::{Columns, Layout, Part, Rows};
use crate::encoding::EncodingBudget;
use crate::load::ReadRows;
use crate::page::{AnyRow, Numbers, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Page, Stored};
use crate::rollup;
use crate::snapshot::typed;
use crate::tree::{Deferred, PackedBuilder, PackedMap, Tree};
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

/// Fewer values than this are sorted without buckets.
const ROWS_FOR_BUCKETS: usize = 16 * BUCKETS;

/// Bits of the number of a bucket.
const BUCKET_BITS: u32 = 11;

const BUCKETS: usize = 1 << BUCKET_BITS;

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

/// The values in order. Many are first put into buckets, which must be in the order of the values: each then fits into the nearest cache while it is
/// sorted.
fn sorted<T: Copy + Ord>(mut values: Vec<T>, bucket: impl Fn(&T) -> usize) -> Vec<T> {
    if values.len() < ROWS_FOR_BUCKETS {
        values.sort_unstable();
        return values;
    }
    let mut ends = vec![0; BUCKETS + 1];
    values.iter().for_each(|value| ends[bucket(value) + 1] += 1);
    (0..BUCKETS).for_each(|bucket| ends[bucket + 1] += ends[bucket]);
    let mut buckets = values.clone();
    for value in &values {
        let end = &mut ends[bucket(value)];
        buckets[*end] = *value;
        *end += 1;
    }
    // What was where each bucket starts is now where it ends.
    let mut start = 0;
    for end in &ends[..BUCKETS] {
        buckets[start..*end].sort_unstable();
        start = *end;
    }
    buckets
}

/// The bucket of a row that is in none.
const NO_BUCKET: u16 = u16::MAX;

/// Rows by bucket, given the bucket of each. What is to be sorted of a row, where that is much, is put together bucket by bucket, so that it is never
/// there for all rows at once.
fn by_bucket(bucket_of: &[u16], mut visit: impl FnMut(&[u32])) {
    let mut ends = vec![0; BUCKETS + 1];
    let rows = || bucket_of.iter().enumerate().filter(|(_, bucket)| **bucket != NO_BUCKET);
    rows().for_each(|(_, bucket)| ends[usize::from(*bucket) + 1] += 1);
    (0..BUCKETS).for_each(|bucket| ends[bucket + 1] += ends[bucket]);
    let mut sorted = vec![0; ends[BUCKETS]];
    for (row, bucket) in rows() {
        let end = &mut ends[usize::from(*bucket)];
        sorted[*end] = row as u32;
        *end += 1;
    }
    let mut start = 0;
    for end in &ends[..BUCKETS] {
        visit(&sorted[start..*end]);
        start = *end;
    }
}

/// All that indexes, rollups and pages are made of. A row is known by how many came before it.
struct Located {
    columns: Columns,
    numbers: Vec<RowNumber>,
    partitions: Vec<PartitionId>,
    /// The least number, which is left out of codes, and how many bits the rest of a number and a partition take.
    low: u64,
    number_bits: u32,
    partition_bits: u32,
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
        let numbers: Vec<RowNumber> = rows.iter().flatten().map(|(number, _)| *number).collect();
        let (low, high) = (numbers.iter().min().map_or(0, |low| low.0), numbers.iter().max().map_or(0, |high| high.0));
        if is_any_twice(&numbers, low, high) {
            let newest = newest_of_each(rows);
            let mut part = Part::new(newest.len());
            newest.into_iter().for_each(|(number, stored)| part.add(number, stored));
            return Table::of_parts(budget, threads, vec![part], version);
        }
        let partitions = table.assign_partitions(&columns, &rows, version);
        let bits = |greatest: u64| u64::BITS - greatest.leading_zeros();
        let partition_bits = bits(partitions.iter().max().map_or(0, |partition| u64::from(partition.0)));
        let located = Located { columns, numbers, partitions, low, number_bits: bits(high - low), partition_bits };
        table.build_all(threads, &located, rows);
        (table, blobs)
    }

    /// Builds everything, each thread taking what comes next; what takes longest comes first.
    fn build_all(&mut self, threads: usize, located: &Located, rows: Vec<Rows<R>>) {
        let (schema, budget) = (self.schema, &self.budget);
        let (indexes, rollups) = (schema.indexes.len(), schema.rollups.len());
        let rows = Mutex::new(rows);
        let built = on_threads(threads, 2 + indexes + rollups, |job| match job.checked_sub(1) {
            None => {
                let rows = std::mem::take(&mut *rows.lock().unwrap_or_else(PoisonError::into_inner));
                let (directory, bytes) = located.directory(budget, rows);
                Built::Directory(directory, bytes)
            }
            Some(index) if index < indexes => {
                let IndexSchema { columns, only_where, .. } = schema.indexes[index];
                Built::Map(located.index(columns, only_where))
            }
            // From row numbers to partitions: an index of no columns.
            Some(index) if index == indexes => Built::Map(located.index(&[], None)),
            Some(rollup) => Built::Map(located.rollup(&schema.rollups[rollup - indexes - 1])),
        });
        let mut maps = Vec::new();
        for built in built {
            match built {
                Built::Directory(directory, bytes) => (self.directory, self.bytes) = (directory, bytes),
                Built::Map(map) => maps.push(map),
            }
        }
        self.rollups = maps.split_off(indexes + 1).into_iter().map(Deferred::of).collect();
        self.numbers = Deferred::of(maps.pop().unwrap_or_else(|| PackedMap::new(PARTITION_BYTES)));
        self.indexes = maps.into_iter().map(Deferred::of).collect();
        self.rows = located.numbers.len();
    }

    /// The partition of each row, in the order in which they came.
    fn assign_partitions(&mut self, columns: &Columns, rows: &[Rows<R>], version: Version) -> Vec<PartitionId> {
        let schema = self.schema;
        let layout = columns.layout(schema.partition);
        let mut known: HashMap<u128, PartitionId> = HashMap::default();
        let (mut key, mut last) = (Vec::new(), None);
        let mut assigned: Vec<PartitionId> = Vec::with_capacity(rows.iter().map(Vec::len).sum());
        columns.each_code(&layout, None, |row, code| {
            // Rows of one partition mostly come one behind the other.
            let partition = match last {
                Some((same, partition)) if same == code => partition,
                _ => *known.entry(code).or_insert_with(|| {
                    key.clear();
                    columns.put_key(&mut key, &layout, code);
                    let values = || schema.partition.iter().map(|column| literal(rows, row, *column)).collect();
                    // These rows were in a table before, which had numbers for all of their partitions.
                    self.partitions.at_key(&key, values, version).unwrap_or(PartitionId::MAX)
                }),
            };
            last = Some((code, partition));
            assigned.push(partition);
        });
        let mut counts: HashMap<PartitionId, i64> = HashMap::default();
        for same in assigned.chunk_by(|left, right| left == right) {
            *counts.entry(same[0]).or_default() += same.len() as i64;
        }
        counts.into_iter().for_each(|(partition, count)| self.touch(partition, count, version));
        assigned
    }
}

/// A column of one of the rows.
fn literal<R: Row>(rows: &[Rows<R>], row: usize, column: usize) -> Literal<'static> {
    let found = rows.iter().flatten().nth(row);
    found.and_then(|(_, stored)| Literal::from_value(stored.row.value(column))).unwrap_or(Literal::Null)
}

/// Whether a number comes twice, `low` and `high` being the least and the greatest.
fn is_any_twice(numbers: &[RowNumber], low: u64, high: u64) -> bool {
    let words = (high - low) / 64 + 1;
    if words > numbers.len() as u64 {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable();
        return numbers.windows(2).any(|pair| pair[0] == pair[1]);
    }
    let mut met = vec![0u64; words as usize];
    numbers.iter().any(|number| {
        let (word, bit) = ((number.0 - low) / 64, (number.0 - low) % 64);
        let before = met[word as usize];
        met[word as usize] |= 1 << bit;
        before & (1 << bit) != 0
    })
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
    fn index(&self, columns: &'static [usize], only_where: Option<usize>) -> PackedMap {
        let layout = self.columns.layout(columns);
        let row_bits = self.number_bits + self.partition_bits;
        let bits = layout.bits + row_bits;
        if bits > u64::BITS {
            return self.index_of_long_keys(&layout, only_where);
        }
        // All of an entry is in one number.
        let mut codes: Vec<u64> = Vec::with_capacity(self.numbers.len());
        self.columns.each_code(&layout, only_where, |row, code| {
            let row = (self.numbers[row].0 - self.low) << self.partition_bits | u64::from(self.partitions[row].0);
            codes.push((code as u64).checked_shl(row_bits).unwrap_or(0) | row);
        });
        let mut index = IndexBuilder::new(&self.columns, &layout);
        for code in sorted(codes, |code| (code >> bits.saturating_sub(BUCKET_BITS)) as usize) {
            let number = (code >> self.partition_bits) & low_bits(self.number_bits);
            let partition = code & low_bits(self.partition_bits);
            let columns = code.checked_shr(row_bits).unwrap_or(0);
            index.push(u128::from(columns), RowNumber(self.low + number), PartitionId(partition as u32));
        }
        index.map.finish()
    }

    fn index_of_long_keys(&self, layout: &Layout, only_where: Option<usize>) -> PackedMap {
        let mut bucket_of = vec![NO_BUCKET; self.numbers.len()];
        self.columns.each_code(layout, only_where, |row, code| {
            bucket_of[row] = (code >> layout.bits.saturating_sub(BUCKET_BITS)) as u16;
        });
        let mut index = IndexBuilder::new(&self.columns, layout);
        let mut entries: Vec<(u128, RowNumber, PartitionId)> = Vec::new();
        by_bucket(&bucket_of, |rows| {
            let rows = rows.iter().map(|row| *row as usize);
            entries
                .extend(rows.map(|row| (self.columns.code_of(layout, row), self.numbers[row], self.partitions[row])));
            entries.sort_unstable();
            entries.drain(..).for_each(|(code, number, partition)| index.push(code, number, partition));
        });
        index.map.finish()
    }

    fn rollup(&self, rollup: &RollupSchema) -> PackedMap {
        let layout = self.columns.layout(rollup.key);
        let width = 1 + rollup.sums.len();
        let mut groups: HashMap<(u128, PartitionId), u32> = HashMap::default();
        let mut totals: Vec<u64> = Vec::new();
        // Which group each row is of, so that each sum is a walk along one column.
        let mut group_of = vec![u32::MAX; self.numbers.len()];
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
        let bucket = |partition: &PartitionId| (u64::from(partition.0) << BUCKET_BITS) >> self.partition_bits;
        let bucket_of: Vec<u16> = self.partitions.iter().map(|partition| bucket(partition) as u16).collect();
        let (leaves, group) = (Vec::new(), Vec::new());
        let mut pages = Pages { budget, leaves, group, partition: None, starts: true, bytes: 0, all_bytes: 0 };
        let mut places: Vec<(PartitionId, RowNumber, u32)> = Vec::new();
        by_bucket(&bucket_of, |of_bucket| {
            places.extend(
                of_bucket.iter().map(|row| (self.partitions[*row as usize], self.numbers[*row as usize], *row)),
            );
            places.sort_unstable();
            for (partition, number, row) in places.drain(..) {
                if let Some(stored) = rows[row as usize].take() {
                    pages.add(partition, number, stored);
                }
            }
        });
        pages.finish()
    }
}

/// The lowest bits of a number.
fn low_bits(count: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS - count).unwrap_or(0)
}

/// An index that is being made of entries that come in order.
struct IndexBuilder<'c> {
    columns: &'c Columns,
    layout: &'c Layout,
    map: PackedBuilder,
    /// The code and the bytes of the columns of the last entry: the next one often has the same.
    code: Option<u128>,
    bytes: Vec<u8>,
}

impl<'c> IndexBuilder<'c> {
    fn new(columns: &'c Columns, layout: &'c Layout) -> IndexBuilder<'c> {
        IndexBuilder { columns, layout, map: PackedBuilder::new(PARTITION_BYTES), code: None, bytes: Vec::new() }
    }

    fn push(&mut self, code: u128, number: RowNumber, partition: PartitionId) {
        if self.code != Some(code) {
            self.bytes.clear();
            self.columns.put_key(&mut self.bytes, self.layout, code);
            self.code = Some(code);
        }
        self.map.push(&self.bytes, &number.key(), &partition.bytes());
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
        let far = self.group.first().is_some_and(|(first, _)| !Numbers::are_near(*first, number));
        if other || far || self.group.len() >= PAGE_ROWS_BULK || self.bytes + row_bytes > PAGE_BYTES_MAX {
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

#[cfg(test)]
mod tests;
