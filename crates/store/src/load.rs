//! Loading a store from what the log kept: the rows of a checkpoint, then the records after it.
//!
//! Rows are only collected until all is read; tables are then built once, each index by one sort. A record costs its decoding and a hash look-up, however
//! many indexes there are.

use crate::page::AnyRow;
use crate::record::{Head, RecordError, read_chunk, read_record};
use crate::snapshot::AnyTable;
use crate::store::{Store, StoreBuilder};
use crate::tree::KEY_BYTES_MAX;
use crate::words::{RowNumber, Version};
use crate::writer::Writer;
use rollcall_schema::{NamePool, Time};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

type Rows = Vec<(RowNumber, Arc<dyn AnyRow>)>;

/// A store that is being loaded.
pub struct Loader {
    builder: StoreBuilder,
    head: Mutex<Option<Head>>,
    /// Per table, runs of rows of the checkpoint.
    runs: Vec<Mutex<Vec<Rows>>>,
    /// Per table, what the records after it left of each row they touched.
    after: Vec<HashMap<RowNumber, Option<Arc<dyn AnyRow>>>>,
    names: NamePool,
}

impl StoreBuilder {
    /// Starts to load.
    pub fn load(self) -> Loader {
        let tables = self.tables.len();
        Loader {
            builder: self,
            head: Mutex::new(None),
            runs: (0..tables).map(|_| Mutex::default()).collect(),
            after: (0..tables).map(|_| HashMap::new()).collect(),
            names: NamePool::default(),
        }
    }
}

/// Reads chunks of a checkpoint; several readers can work at once on several threads.
pub struct ChunkReader<'l> {
    loader: &'l Loader,
    names: NamePool,
}

impl ChunkReader<'_> {
    /// Adds the rows of one chunk.
    ///
    /// # Errors
    /// If it is broken or of a newer version.
    pub fn read(&mut self, chunk: &[u8]) -> Result<(), RecordError> {
        let mut found: Vec<Rows> = self.loader.runs.iter().map(|_| Rows::new()).collect();
        let head = read_chunk(chunk, |raw| {
            let (position, table) = self.loader.table(raw.table)?;
            let row = table.decode(raw.row, raw.changed, &mut self.names)?;
            check_keys(table, raw.number, raw.row, &*row)?;
            found[position].push((raw.number, row));
            Ok(())
        })?;
        for (table, rows) in self.loader.builder.tables.iter().zip(&found) {
            rows.iter().try_for_each(|(number, _)| check_number(&**table, *number, head))?;
        }
        let lock = |mutex: &Mutex<_>| -> Option<Head> { *mutex.lock().unwrap_or_else(PoisonError::into_inner) };
        if lock(&self.loader.head).is_none_or(|before| before.version < head.version) {
            *self.loader.head.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
        }
        for (run, rows) in self.loader.runs.iter().zip(found).filter(|(_, rows)| !rows.is_empty()) {
            run.lock().unwrap_or_else(PoisonError::into_inner).push(rows);
        }
        Ok(())
    }
}

impl Loader {
    /// A reader of checkpoint chunks, for one thread.
    pub fn chunk_reader(&self) -> ChunkReader<'_> {
        ChunkReader { loader: self, names: NamePool::default() }
    }

    fn table(&self, number: u64) -> Result<(usize, &dyn AnyTable), RecordError> {
        let mut tables = self.builder.tables.iter().enumerate();
        let found = tables.find(|(_, table)| u64::from(table.schema().number) == number);
        found.map(|(position, table)| (position, &**table)).ok_or(RecordError::NoTable(number))
    }

    /// Adds the changes of the next record after the checkpoint.
    ///
    /// # Errors
    /// If it is broken or of a newer version.
    pub fn replay(&mut self, record: &[u8]) -> Result<(), RecordError> {
        let mut names = std::mem::take(&mut self.names);
        let mut found = Vec::new();
        let head = read_record(record, |raw| {
            found.push(raw);
            Ok(())
        })?;
        for raw in found {
            let (position, table) = self.table(raw.table)?;
            check_number(table, raw.number, head)?;
            let row = raw.row.map(|row| table.decode(row, head.version, &mut names)).transpose()?;
            if let (Some(bytes), Some(row)) = (raw.row, &row) {
                check_keys(table, raw.number, bytes, &**row)?;
            }
            self.after[position].insert(raw.number, row);
        }
        self.names = names;
        *self.head.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(head);
        Ok(())
    }

    /// The loaded store and its writer. Versions up to `reserved` are not used again.
    pub fn finish(self, reserved: Version) -> (Arc<Store>, Writer) {
        let mut state = self.builder.state();
        let head = self.head.into_inner().unwrap_or_else(PoisonError::into_inner);
        let head = head.unwrap_or(Head { version: Version::NOTHING, time: Time::EPOCH, next_number: 1 });
        state.version = head.version.max(reserved);
        for ((position, runs), mut after) in self.runs.into_iter().enumerate().zip(self.after) {
            let runs = runs.into_inner().unwrap_or_else(PoisonError::into_inner);
            let mut rows = Rows::with_capacity(runs.iter().map(Vec::len).sum::<usize>() + after.len());
            for (number, row) in runs.into_iter().flatten() {
                match after.remove(&number) {
                    Some(Some(newer)) => rows.push((number, newer)),
                    Some(None) => {}
                    None => rows.push((number, row)),
                }
            }
            rows.extend(after.into_iter().filter_map(|(number, row)| Some((number, row?))));
            if !rows.is_empty() {
                let rows = each_once(rows);
                count_blobs(&mut state.blobs, &rows);
                // Rows that went have left no stamp, so nothing tells when a partition was last changed: only that it was before now. An older
                // stamp would make answers from before the restart pass for fresh ones.
                state.tables[position] = state.tables[position].rebuilt(&self.builder.budget, rows, state.version);
            }
        }
        state.time = head.time;
        state.next_number = head.next_number;
        self.builder.build_from(state)
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

/// The rows, each number once: the newest of those that came twice, as when a chunk was read twice.
fn each_once(rows: Rows) -> Rows {
    let mut numbers: Vec<RowNumber> = rows.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    if numbers.is_sorted_by(|left, right| left < right) {
        return rows;
    }
    let mut newest: HashMap<RowNumber, Arc<dyn AnyRow>> = HashMap::with_capacity(rows.len());
    for (number, row) in rows {
        if newest.get(&number).is_none_or(|other| other.changed() < row.changed()) {
            newest.insert(number, row);
        }
    }
    newest.into_iter().collect()
}

fn count_blobs(blobs: &mut crate::tree::PackedMap, rows: &Rows) {
    for (_, row) in rows {
        row.visit_blobs(&mut |blob| {
            let count = blobs.get(&blob.0).and_then(|count| count.try_into().ok()).map_or(0, u64::from_le_bytes);
            blobs.insert(&blob.0, &(count + 1).to_le_bytes());
        });
    }
}
