//! Loading a store from what the log kept: the rows of a checkpoint, and the records after it.
//!
//! Chunks and records are read by several readers at once, in any order: of each row the newest version counts. Rows are only collected until all is
//! read; tables are then built once.

use crate::page::AnyRow;
use crate::record::{Head, RecordError, read_chunk, read_record};
use crate::snapshot::AnyTable;
use crate::store::{Store, StoreBuilder};
use crate::tree::{KEY_BYTES_MAX, PackedMap};
use crate::words::{RowNumber, Version};
use crate::writer::Writer;
use foldhash::HashMap;
use rollcall_schema::{BlobReference, NamePool, Time};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows of records are handed to the threads that build a table so many at a time.
const RUN_ROWS: usize = 1024;

type Rows = Vec<(RowNumber, Arc<dyn AnyRow>)>;

/// A store that is being loaded.
pub struct Loader {
    builder: StoreBuilder,
    head: Mutex<Option<Head>>,
    tables: Vec<TableRows>,
}

/// What was read of a table.
#[derive(Default)]
struct TableRows {
    /// Runs of rows of the checkpoint.
    runs: Mutex<Vec<Rows>>,
    after: Mutex<After>,
}

/// What records left of each row that they touched.
#[derive(Default)]
struct After {
    positions: HashMap<RowNumber, usize>,
    newest: Vec<Newest>,
}

struct Newest {
    number: RowNumber,
    /// The version of the record.
    version: Version,
    /// `None` if the row went.
    row: Option<Arc<dyn AnyRow>>,
}

impl After {
    /// Takes what a record left of a row, unless something newer is known; gives back what is out of date.
    fn note(&mut self, change: Newest) -> Option<Newest> {
        let next = self.newest.len();
        let position = *self.positions.entry(change.number).or_insert(next);
        match self.newest.get_mut(position) {
            None => {
                self.newest.push(change);
                None
            }
            Some(newest) if newest.version <= change.version => Some(std::mem::replace(newest, change)),
            Some(_) => Some(change),
        }
    }
}

impl StoreBuilder {
    /// Starts to load.
    pub fn load(self) -> Loader {
        let tables = self.tables.iter().map(|_| TableRows::default()).collect();
        Loader { builder: self, head: Mutex::new(None), tables }
    }
}

/// What is locked here is whole between any two steps, so a panic elsewhere cannot have left it half-made.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Reads chunks of a checkpoint and records after it; several readers can work at once on several threads.
pub struct Reader<'l> {
    loader: &'l Loader,
    names: NamePool,
}

impl Reader<'_> {
    /// Adds the rows of one chunk.
    ///
    /// # Errors
    /// If it is broken or of a newer version.
    pub fn chunk(&mut self, chunk: &[u8]) -> Result<(), RecordError> {
        let mut found: Vec<Rows> = self.loader.tables.iter().map(|_| Rows::new()).collect();
        let head = read_chunk(chunk, |raw| {
            let (position, table) = self.loader.table(raw.table)?;
            let row = table.decode(raw.row, raw.changed, &mut self.names)?;
            check_keys(table, raw.number, raw.row, &*row)?;
            found[position].push((raw.number, row));
            Ok(())
        })?;
        // These vectors stay until all is read: what they have no need of would add up.
        found.iter_mut().for_each(Vec::shrink_to_fit);
        for (table, rows) in self.loader.builder.tables.iter().zip(&found) {
            rows.iter().try_for_each(|(number, _)| check_number(&**table, *number, head))?;
        }
        self.loader.note_head(head);
        for (table, rows) in self.loader.tables.iter().zip(found).filter(|(_, rows)| !rows.is_empty()) {
            lock(&table.runs).push(rows);
        }
        Ok(())
    }

    /// Adds the changes of a record that came after the checkpoint.
    ///
    /// # Errors
    /// If it is broken or of a newer version, also where a later record has changed the same rows again.
    pub fn record(&mut self, record: &[u8]) -> Result<(), RecordError> {
        let mut found = Vec::new();
        let head = read_record(record, |raw| {
            found.push(raw);
            Ok(())
        })?;
        let mut changes = Vec::with_capacity(found.len());
        for raw in found {
            let (position, table) = self.loader.table(raw.table)?;
            check_number(table, raw.number, head)?;
            let row = raw.row.map(|row| table.decode(row, head.version, &mut self.names)).transpose()?;
            if let (Some(bytes), Some(row)) = (raw.row, &row) {
                check_keys(table, raw.number, bytes, &**row)?;
            }
            changes.push((position, Newest { number: raw.number, version: head.version, row }));
        }
        self.loader.note_head(head);
        let mut out_of_date = Vec::new();
        for of_table in changes.chunk_by_mut(|left, right| left.0 == right.0) {
            let Some((position, _)) = of_table.first() else { continue };
            let mut after = lock(&self.loader.tables[*position].after);
            for (_, change) in of_table {
                let row = change.row.take();
                out_of_date.extend(after.note(Newest { row, ..*change }));
            }
        }
        // Dropped here, where no lock is held.
        drop(out_of_date);
        Ok(())
    }
}

impl Loader {
    /// A reader, for one thread.
    pub fn reader(&self) -> Reader<'_> {
        Reader { loader: self, names: NamePool::default() }
    }

    fn table(&self, number: u64) -> Result<(usize, &dyn AnyTable), RecordError> {
        let mut tables = self.builder.tables.iter().enumerate();
        let found = tables.find(|(_, table)| u64::from(table.schema().number) == number);
        found.map(|(position, table)| (position, &**table)).ok_or(RecordError::NoTable(number))
    }

    fn note_head(&self, head: Head) {
        let mut newest = lock(&self.head);
        if newest.is_none_or(|newest| newest.version <= head.version) {
            *newest = Some(head);
        }
    }

    /// The loaded store and its writer. Versions up to `reserved` are not used again.
    pub fn finish(self, reserved: Version) -> (Arc<Store>, Writer) {
        let mut state = self.builder.state();
        let head =
            into_inner(self.head).unwrap_or(Head { version: Version::NOTHING, time: Time::EPOCH, next_number: 1 });
        state.version = head.version.max(reserved);
        let mut blobs = Vec::new();
        for (table, rows) in state.tables.iter_mut().zip(self.tables) {
            let rows = ReadRows::of(rows);
            if rows.count() > 0 {
                // Rows that went have left no stamp, so nothing tells when a partition was last changed: only that it was before now. An older
                // stamp would make answers from before the restart pass for fresh ones.
                let (rebuilt, named) = table.rebuilt(&self.builder.budget, &rows, state.version);
                *table = rebuilt;
                blobs.extend(named);
            }
        }
        count_blobs(&mut state.blobs, blobs);
        state.time = head.time;
        state.next_number = head.next_number;
        self.builder.build_from(state)
    }
}

/// All that was read of a table: every number once, unless a chunk was read twice.
pub struct ReadRows {
    /// What is left to be taken, and whether it is of the checkpoint.
    runs: Mutex<Vec<(bool, Rows)>>,
    count: usize,
    /// The rows of the checkpoint that do not count any more.
    replaced: HashMap<RowNumber, usize>,
}

impl ReadRows {
    fn of(rows: TableRows) -> ReadRows {
        let After { positions: replaced, newest } = into_inner(rows.after);
        let mut newest = newest.into_iter().filter_map(|newest| Some((newest.number, newest.row?))).peekable();
        let mut runs = Vec::new();
        while newest.peek().is_some() {
            runs.push((false, newest.by_ref().take(RUN_ROWS).collect::<Rows>()));
        }
        runs.extend(into_inner(rows.runs).into_iter().map(|run| (true, run)));
        let count = runs.iter().map(|(_, run)| run.len()).sum();
        ReadRows { runs: Mutex::new(runs), count, replaced }
    }

    /// Rows of a checkpoint and of nothing else.
    #[cfg(test)]
    pub(crate) fn of_runs(runs: Vec<Rows>) -> ReadRows {
        ReadRows::of(TableRows { runs: Mutex::new(runs), after: Mutex::default() })
    }

    /// How many there are at most.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Takes rows as long as there are any that no other thread has taken.
    pub(crate) fn take_all(&self, take: &mut dyn FnMut(RowNumber, Arc<dyn AnyRow>)) {
        loop {
            let Some((of_checkpoint, run)) = lock(&self.runs).pop() else { return };
            for (number, row) in run {
                if !(of_checkpoint && self.replaced.contains_key(&number)) {
                    take(number, row);
                }
            }
        }
    }
}

/// Refuses a row whose number is yet to be given: it would be given twice.
fn check_number(table: &dyn AnyTable, number: RowNumber, head: Head) -> Result<(), RecordError> {
    if number.0 < head.next_number {
        return Ok(());
    }
    Err(RecordError::Misfit { table: table.schema().name, number: number.0 })
}

/// Refuses a row that an index or a rollup cannot take. A short row has no long keys: each byte of it becomes at most two.
fn check_keys(table: &dyn AnyTable, number: RowNumber, bytes: &[u8], row: &dyn AnyRow) -> Result<(), RecordError> {
    if bytes.len() < KEY_BYTES_MAX / 4 || table.takes_keys(row) {
        return Ok(());
    }
    Err(RecordError::Misfit { table: table.schema().name, number: number.0 })
}

fn count_blobs(counts: &mut PackedMap, blobs: Vec<BlobReference>) {
    for blob in blobs {
        let count = counts.get(&blob.0).and_then(|count| count.try_into().ok()).map_or(0, u64::from_le_bytes);
        counts.insert(&blob.0, &(count + 1).to_le_bytes());
    }
}
