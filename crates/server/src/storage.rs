//! Opening a data folder: lock, check, load.

use rollcall_log::{Disk, Log, OpenError, Opening, Options, ReadLog, Warning};
use rollcall_store::{Loader, Reader, RecordError, Store, StoreBuilder, Version, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use thiserror::Error;

/// So many records of the log are copied and wait for a thread to read them.
const RECORDS_WAITING_MAX: usize = 8;

/// Why a data folder cannot be opened. Nothing in it was changed.
#[derive(Debug, Error)]
pub enum StorageError {
    /// The folder is locked, of a newer format, damaged or unreadable.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Its content is not what this version writes.
    #[error("reading {place} of {folder}")]
    Content {
        /// Which part.
        place: String,
        /// The folder.
        folder: String,
        /// What is wrong.
        #[source]
        source: RecordError,
    },
}

/// An open data folder, and the store that was in it.
pub struct Opened<D: Disk> {
    /// The store.
    pub store: Arc<Store>,
    /// Who changes it.
    pub writer: Writer,
    /// Where changes go.
    pub log: Log<D>,
    /// What a person should hear of.
    pub warnings: Vec<Warning>,
    /// How many batches were replayed after the checkpoint.
    pub replayed: u64,
}

/// Opens a data folder and loads the store in it.
///
/// # Errors
/// See [`StorageError`]; each says what to do.
pub fn open<D: Disk>(disk: D, options: Options, builder: StoreBuilder) -> Result<Opened<D>, StorageError> {
    let folder = disk.describe();
    let opening = Log::open(disk, options)?;
    let loader = builder.load();
    let read = read_all(&Reading { folder: &folder, loader: &loader }, opening)?;
    // The first version that was certainly never shown comes next.
    let reserved = Version(read.next_version().0.saturating_sub(1));
    let (started, (store, writer)) = std::thread::scope(|scope| {
        // It waits for the disk meanwhile.
        let starting = scope.spawn(|| read.start());
        let loaded = loader.finish(reserved);
        (joined(starting.join()), loaded)
    });
    let (log, recovered) = started?;
    Ok(Opened { store, writer, log, warnings: recovered.warnings, replayed: recovered.batches })
}

fn joined<T>(result: std::thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A record that waits to be read: its sequence and its payload.
type Waiting = (u64, Vec<u8>);

/// What all threads know that read a folder.
struct Reading<'l> {
    folder: &'l str,
    loader: &'l Loader,
}

/// Reads the log and the chunks of its checkpoint: one thread walks the log, the others read what it hands them and chunks.
fn read_all<D: Disk>(reading: &Reading<'_>, opening: Opening<D>) -> Result<ReadLog<D>, StorageError> {
    let checkpoint = opening.checkpoint().cloned();
    let (next, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let chunks = |reader: &mut Reader<'_>, records: &mpsc::Receiver<Waiting>| {
        let Some(checkpoint) = &checkpoint else { return Ok(()) };
        let mut buffer = Vec::new();
        loop {
            for (sequence, payload) in records.try_iter() {
                waiting.fetch_sub(1, Ordering::Relaxed);
                reading.record(reader, sequence, &payload)?;
            }
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= checkpoint.chunk_count() {
                return Ok(());
            }
            reading.chunk(reader, index, checkpoint.read_chunk(index, &mut buffer)?)?;
        }
    };
    std::thread::scope(|scope| {
        let (hand_over, records) = mpsc::channel::<Waiting>();
        let beside = scope.spawn(|| {
            let records = records;
            let mut reader = reading.loader.reader();
            chunks(&mut reader, &records)?;
            records.iter().try_for_each(|(sequence, payload)| {
                waiting.fetch_sub(1, Ordering::Relaxed);
                reading.record(&mut reader, sequence, &payload)
            })
        });
        let mut reader = reading.loader.reader();
        let read = opening.read(|record| {
            // Nothing is copied where the other thread has enough to do.
            if waiting.fetch_add(1, Ordering::Relaxed) < RECORDS_WAITING_MAX
                && hand_over.send((record.sequence.0, record.payload.to_vec())).is_ok()
            {
                return Ok(());
            }
            waiting.fetch_sub(1, Ordering::Relaxed);
            reading.record(&mut reader, record.sequence.0, record.payload)
        });
        drop(hand_over);
        let mine = read.and_then(|read| chunks(&mut reader, &mpsc::channel().1).map(|()| read));
        joined(beside.join()).and(mine)
    })
}

impl Reading<'_> {
    fn chunk(&self, reader: &mut Reader<'_>, index: usize, chunk: &[u8]) -> Result<(), StorageError> {
        reader.chunk(chunk).map_err(|source| self.content(format!("chunk {index} of the checkpoint"), source))
    }

    fn record(&self, reader: &mut Reader<'_>, sequence: u64, payload: &[u8]) -> Result<(), StorageError> {
        reader.record(payload).map_err(|source| self.content(format!("record {sequence}"), source))
    }

    fn content(&self, place: String, source: RecordError) -> StorageError {
        StorageError::Content { place, folder: self.folder.to_owned(), source }
    }
}

#[cfg(test)]
mod tests;
