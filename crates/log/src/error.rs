//! What can go wrong, one enum per kind of operation.

use std::io;

use crate::names::Epoch;
use crate::names::Sequence;
use crate::names::Version;

/// Why a data folder was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another server has the folder.
    #[error(
        "data folder {folder} is in use by {}; stop that server first, or give this one another folder",
        holder.map_or("another process".to_owned(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The folder.
        folder: String,
        /// The process that holds it, if the lock file tells.
        holder: Option<u32>,
    },
    /// A newer version of the program wrote the folder.
    #[error(
        "data in {folder} was written by {written_by} (format {format}); this is {program_version} \
         (format {supported} at most). Nothing was touched."
    )]
    NewerFormat {
        /// The folder.
        folder: String,
        /// The version of the program that wrote it.
        written_by: String,
        /// The folder's format.
        format: u32,
        /// This program's version.
        program_version: String,
        /// The newest format that this program reads.
        supported: u32,
    },
    /// A file does not hold what was written to it.
    #[error(
        "{folder}/{file} is damaged at byte {offset}: {what}. Nothing was changed; restore the folder from a backup"
    )]
    Damaged {
        /// The folder.
        folder: String,
        /// The file in it.
        file: String,
        /// Where in the file.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A file that must be there is not.
    #[error(
        "{folder}/{file} is missing, but {needed_by} needs it. Nothing was changed; restore the folder from a backup"
    )]
    Missing {
        /// The folder.
        folder: String,
        /// The missing file.
        file: String,
        /// What says that it must exist.
        needed_by: String,
    },
    /// A server with a higher epoch has written here.
    #[error("epoch {epoch} is over: the log was written by epoch {newest}; take a higher epoch")]
    Fenced {
        /// The epoch that was asked for.
        epoch: Epoch,
        /// The newest one in the log.
        newest: Epoch,
    },
    /// The file system failed.
    #[error("{action} {folder}/{file} failed")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The folder.
        folder: String,
        /// The file in it.
        file: String,
        /// The cause.
        source: io::Error,
    },
}

/// Why a batch was not appended, or not made durable. Except for `NeedsCheckpoint`, the batch is certain not to be
/// in the log, now or after a restart.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// The disk is full. This batch failed alone: smaller ones may pass, and writing goes on when there is space.
    #[error(
        "no space left in the data folder for a record of {bytes} bytes; free some, writing then goes on by itself"
    )]
    NoSpace {
        /// Size of the record.
        bytes: u64,
        /// The cause.
        source: io::Error,
    },
    /// The file system failed before the batch was in the log. This batch failed alone.
    #[error("{action} {file} failed; the batch was dropped")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// What was written since the last sync may be lost or not. Nothing is acknowledged until a checkpoint of the
    /// present state is on disk: `Log::checkpoint_writer`, then `Log::checkpoint_done`.
    #[error(
        "the log cannot be trusted since this failed: {reason}; nothing is written until a new checkpoint is on disk"
    )]
    NeedsCheckpoint {
        /// What failed, and how.
        reason: String,
    },
    /// A server with a higher epoch has taken over.
    #[error("epoch {epoch} is over: epoch {newest} has taken over; stop writing")]
    Fenced {
        /// The epoch of the batch.
        epoch: Epoch,
        /// The newest one seen.
        newest: Epoch,
    },
    /// The batch is larger than any record may be.
    #[error("a batch of {bytes} bytes is above the limit of {} bytes; split it", crate::limits::MAX_RECORD_BYTES)]
    TooLarge {
        /// Size of the batch.
        bytes: u64,
    },
    /// The version is so high that a start would take its record for damage.
    #[error("version {version} is above {}, the highest there can be", crate::limits::MAX_NUMBER)]
    VersionOutOfRange {
        /// The version.
        version: Version,
    },
    /// Versions must rise, and one that was tried is used up even if its batch failed.
    #[error("version {version} is not above {last}, the last one used")]
    VersionUsed {
        /// The version of the batch.
        version: Version,
        /// The last one used.
        last: Version,
    },
}

/// Why a checkpoint was not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The state does not hold all that the log holds.
    #[error("a checkpoint of version {version} would lose batches: it must be of version {oldest} or a later one")]
    TooOld {
        /// The version of the state that was offered.
        version: Version,
        /// The oldest that may be.
        oldest: Version,
    },
    /// The log must be durable up to the checkpoint first, and that failed.
    #[error("the log could not be made ready for the checkpoint")]
    Sync(#[source] AppendError),
    /// A chunk is larger than any may be, or there are too many.
    #[error(
        "a chunk of {bytes} bytes, the {index}th, is above the limits ({} bytes, {} chunks)",
        crate::limits::MAX_CHUNK_BYTES,
        crate::limits::MAX_CHUNKS
    )]
    TooLarge {
        /// Size of the chunk.
        bytes: u64,
        /// Its number.
        index: usize,
    },
    /// The file system failed. The checkpoints and segments before it are as they were.
    #[error("{action} {file} failed; the log still has all it had")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
}

/// Why a blob was not stored, read or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// The content is larger than any blob may be.
    #[error("a blob of {bytes} bytes is above the limit of {} bytes", crate::limits::MAX_BLOB_BYTES)]
    TooLarge {
        /// Size of the content.
        bytes: u64,
    },
    /// The file does not hold what its name says.
    #[error("{folder}/{file} is damaged: its content does not have the hash that names it")]
    Damaged {
        /// The folder.
        folder: String,
        /// The file in it.
        file: String,
    },
    /// The file system failed.
    #[error("{action} {file} failed")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
}

/// Something that a start found and dealt with; a person should hear of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// The last records were never known to be durable and are not whole: the trace of a crash.
    #[error(
        "{file} ends in a torn record {sequence} at byte {offset}; {bytes} bytes that nothing proves durable were cut"
    )]
    TornTail {
        /// The segment.
        file: String,
        /// Where the torn record starts.
        offset: u64,
        /// How many bytes were cut.
        bytes: u64,
        /// The sequence that the torn record would have had.
        sequence: Sequence,
    },
    /// The newest checkpoint is damaged, and all that it held was found in older files.
    #[error(
        "{file} is damaged at byte {offset}; everything in it was read from the older files instead. The disk may be failing"
    )]
    CheckpointDamaged {
        /// The checkpoint.
        file: String,
        /// Where it is damaged.
        offset: u64,
    },
}
