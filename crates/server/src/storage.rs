//! Opening a data folder: lock, check, load.

use rollcall_log::{CheckpointReader, Disk, Log, OpenError, Opening, Options, ReadLog, Warning};
use rollcall_store::{Loader, Reader, RecordError, Store, StoreBuilder, Version, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use thiserror::Error;

/// So many records of the log are copied and wait for the other thread to decode them: enough that it need not wait for the disk.
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
    let checkpoint = opening.checkpoint().cloned();
    let (next_chunk, waiting) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reading = Reading { folder: &folder, loader: &loader, checkpoint, next_chunk, waiting };
    let read = reading.all(opening)?;
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

/// A record that waits to be decoded.
struct Waiting {
    sequence: u64,
    payload: Vec<u8>,
}

/// What the two threads share that read a folder.
struct Reading<'l, D: Disk> {
    folder: &'l str,
    loader: &'l Loader,
    checkpoint: Option<Arc<CheckpointReader<D>>>,
    next_chunk: AtomicUsize,
    /// How many records wait.
    waiting: AtomicUsize,
}

impl<D: Disk> Reading<'_, D> {
    /// Reads the log and the chunks of its checkpoint: this thread walks the log and then takes chunks, the other one takes records that this one
    /// leaves to it, and chunks.
    fn all(&self, opening: Opening<D>) -> Result<ReadLog<D>, StorageError> {
        let (leave, left) = mpsc::sync_channel::<Waiting>(RECORDS_WAITING_MAX);
        std::thread::scope(|scope| {
            let beside = scope.spawn(move || {
                let mut reader = self.loader.reader();
                self.chunks(&mut reader, Some(&left))?;
                left.iter().try_for_each(|waiting| self.waiting(&mut reader, &waiting))
            });
            let mut reader = self.loader.reader();
            let read = opening.read(|record| {
                let sequence = record.sequence.0;
                // Nothing is copied while the other thread has enough to do.
                if self.waiting.load(Ordering::Relaxed) < RECORDS_WAITING_MAX {
                    self.waiting.fetch_add(1, Ordering::Relaxed);
                    if leave.send(Waiting { sequence, payload: record.payload.to_vec() }).is_ok() {
                        return Ok(());
                    }
                }
                self.record(&mut reader, sequence, record.payload)
            });
            drop(leave);
            let read = read.and_then(|read| self.chunks(&mut reader, None).map(|()| read));
            joined(beside.join()).and(read)
        })
    }

    /// Reads chunks as long as there are any that no other thread has taken; before each one the records that wait.
    fn chunks(&self, reader: &mut Reader<'_>, left: Option<&mpsc::Receiver<Waiting>>) -> Result<(), StorageError> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        let mut buffer = Vec::new();
        loop {
            for waiting in left.iter().flat_map(|left| left.try_iter()) {
                self.waiting(reader, &waiting)?;
            }
            let index = self.next_chunk.fetch_add(1, Ordering::Relaxed);
            if index >= checkpoint.chunk_count() {
                return Ok(());
            }
            let chunk = reader.chunk(checkpoint.read_chunk(index, &mut buffer)?);
            chunk.map_err(|source| self.content(format!("chunk {index} of the checkpoint"), source))?;
        }
    }

    fn waiting(&self, reader: &mut Reader<'_>, waiting: &Waiting) -> Result<(), StorageError> {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.record(reader, waiting.sequence, &waiting.payload)
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
