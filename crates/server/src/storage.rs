//! Opening a data folder: lock, check, load.

use rollcall_log::{Disk, Log, OpenError, Options, Warning};
use rollcall_store::{Loader, RecordError, Store, StoreBuilder, Version, Writer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thiserror::Error;

/// How many threads read a checkpoint.
const LOAD_THREADS: usize = 2;

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
    let content = |place: String| {
        let folder = folder.clone();
        move |source| StorageError::Content { place, folder, source }
    };
    let opening = Log::open(disk, options)?;
    let mut loader = builder.load();
    if let Some(checkpoint) = opening.checkpoint() {
        read_checkpoint(&loader, checkpoint.chunk_count(), |index, buffer, read| {
            let chunk = checkpoint.read_chunk(index, buffer)?;
            read(chunk).map_err(content(format!("chunk {index} of the checkpoint")))
        })?;
    }
    let (log, recovered) = opening.replay(|record| {
        let place = || format!("record {}", record.sequence.0);
        loader.replay(record.payload).map_err(|source| content(place())(source))
    })?;
    // The first version that was certainly never shown comes next.
    let reserved = Version(recovered.next_version.0.saturating_sub(1));
    let (store, writer) = loader.finish(reserved);
    Ok(Opened { store, writer, log, warnings: recovered.warnings, replayed: recovered.batches })
}

type ReadChunk<'r> = &'r mut dyn FnMut(&[u8]) -> Result<(), RecordError>;

/// Reads all chunks, several at once; the first error ends it.
fn read_checkpoint(
    loader: &Loader,
    chunks: usize,
    read: impl Fn(usize, &mut Vec<u8>, ReadChunk<'_>) -> Result<(), StorageError> + Sync,
) -> Result<(), StorageError> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut reader = loader.chunk_reader();
        let mut buffer = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= chunks {
                return Ok(());
            }
            read(index, &mut buffer, &mut |chunk| reader.read(chunk))?;
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..LOAD_THREADS).map(|_| scope.spawn(work)).collect();
        let mine = work();
        others.into_iter().fold(mine, |result, other| match other.join() {
            Ok(other) => result.and(other),
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
