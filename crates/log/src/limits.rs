//! Every bound of the room, by name and with its unit.

/// No sequence or version comes near this in practice: one that does is none of ours. It leaves room to count on.
pub const MAX_NUMBER: u64 = 1 << 62;
/// Largest payload of one record. The writer's batches are bounded well below it.
pub const MAX_RECORD_BYTES: usize = 64 << 20;
/// Size of a full-grown segment file.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Size of the first segment of a new folder: small, so that a first start is not a wait for zeros.
pub const FIRST_SEGMENT_BYTES: u64 = 1 << 20;
/// Each segment may be this many times as large as the one before, up to `SEGMENT_BYTES`.
pub(crate) const SEGMENT_GROWTH: u64 = 4;
/// A longer file is none of ours: a bound on what reading a segment may allocate.
pub(crate) const MAX_SEGMENT_BYTES: u64 = 256 << 20;
/// Room at the end of each segment that no batch may take: for sixteen records without payload, which prove the last
/// batch durable and reserve versions when the disk has no space for another segment.
pub(crate) const CONTROL_BYTES: u64 = 1024;
/// How many versions one reserve covers.
pub const RESERVE_VERSIONS: u64 = 1_000_000;
/// Largest chunk of a checkpoint.
pub const MAX_CHUNK_BYTES: usize = 64 << 20;
/// A good size for a checkpoint's chunks: one large read, and enough of them for two threads.
pub const CHUNK_BYTES: usize = 1 << 20;
/// Most chunks in one checkpoint.
pub const MAX_CHUNKS: usize = 1 << 20;
/// A checkpoint is synced each time this many bytes were written, so that the last sync is short and the
/// appends beside it never wait for one large flush.
pub(crate) const CHECKPOINT_SYNC_BYTES: u64 = 1 << 20;
/// Files are read in pieces of this size.
pub(crate) const READ_BYTES: usize = 4 << 20;
/// A new segment's zeros are written and synced in pieces of this size.
pub(crate) const ALLOCATE_BYTES: usize = 256 << 10;
/// Zeros are written over what must go in pieces of this size.
pub(crate) const ZERO_BYTES: usize = 1 << 20;
/// Largest blob.
pub const MAX_BLOB_BYTES: usize = 256 << 20;
/// Largest `format` file that is read.
pub(crate) const MAX_FORMAT_FILE_BYTES: u64 = 4096;
