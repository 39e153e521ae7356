//! The durable part under the single-writer store: what was acknowledged is still there after any crash.
//!
//! # Model
//!
//! A data folder holds one log. Payloads are bytes to it; it takes no decisions and knows nothing of rows.
//!
//! ```text
//! lock                             held while the log is open
//! format                           the folder's format, and the version of the program that wrote it
//! segment-00000000000000000001     records, one per batch, then zeros; named by its first sequence
//! segment-00000000000000004711     the segment that is written now
//! checkpoint-00000000000000004690  everything up to a sequence, in framed chunks
//! blobs/ab/cdef…                   large values, named by their hash
//! ```
//!
//! One thread owns the [`Log`] and appends to it. A batch is one record: one `pwrite` into a file of zeros that were
//! written and synced ahead of need, and one `fdatasync`, which then has no metadata to write. [`CheckpointWriter`],
//! [`SegmentPreparer`] and [`Blobs`] work beside it on other threads. To start, [`Log::open`] gives an [`Opening`]:
//! read the chunks of its checkpoint and, in any order or beside them, the batches after it by [`Opening::read`]; if all of that makes sense,
//! [`ReadLog::start`] gives the log.
//!
//! # Invariants
//!
//! - What is durable is a prefix of the order of appends, and holds every batch that was acknowledged as durable.
//! - Each record says up to where everything was durable when it was written. A bad record that a later one proves was
//!   durable is damage, and the start refuses, naming file and offset. One that nothing proves is the torn tail of a
//!   crash, and is cut with a warning. An idle log writes one more record, so that its last batch is proven too.
//! - After a failed fsync nothing is acknowledged until a checkpoint and a new segment are on disk.
//! - A file is removed only when what replaces it is durable.
//! - A version that may have been shown to anyone is never used again: versions are reserved durably ahead.
//! - Every file call goes through [`Disk`], so that a simulated disk can lose, reorder, tear and fail all of them.
//!
//! # Never
//!
//! No clock, no randomness, no thread of its own: the caller syncs in time, and gives the salt. No decision about what
//! a payload means.

#![forbid(unsafe_code)]

mod blobs;
mod checkpoint;
mod disk;
mod error;
mod format;
mod limits;
mod log;
mod names;
mod options;
mod real_disk;
mod record;
mod recovery;
mod segment;
mod walk;

pub use crate::blobs::BlobHash;
pub use crate::blobs::Blobs;
pub use crate::checkpoint::CheckpointReader;
pub use crate::checkpoint::CheckpointWriter;
pub use crate::checkpoint::FinishedCheckpoint;
pub use crate::disk::Disk;
pub use crate::disk::DiskFile;
pub use crate::disk::LockAttempt;
pub use crate::error::AppendError;
pub use crate::error::BlobError;
pub use crate::error::CheckpointError;
pub use crate::error::OpenError;
pub use crate::error::Warning;
pub use crate::format::FORMAT_NUMBER;
pub use crate::limits::CHUNK_BYTES;
pub use crate::limits::FIRST_SEGMENT_BYTES;
pub use crate::limits::MAX_BLOB_BYTES;
pub use crate::limits::MAX_CHUNK_BYTES;
pub use crate::limits::MAX_CHUNKS;
pub use crate::limits::MAX_NUMBER;
pub use crate::limits::MAX_RECORD_BYTES;
pub use crate::limits::RESERVE_VERSIONS;
pub use crate::limits::SEGMENT_BYTES;
pub use crate::log::Appended;
pub use crate::log::Log;
pub use crate::names::Epoch;
pub use crate::names::Sequence;
pub use crate::names::Version;
pub use crate::options::DurabilityClass;
pub use crate::options::Options;
pub use crate::real_disk::RealDisk;
pub use crate::real_disk::RealFile;
pub use crate::real_disk::RealLock;
pub use crate::recovery::Opening;
pub use crate::recovery::ReadLog;
pub use crate::recovery::Recovered;
pub use crate::segment::SegmentPreparer;
pub use crate::walk::Record;
