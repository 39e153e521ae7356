//! What a caller chooses.

use crate::limits::FIRST_SEGMENT_BYTES;
use crate::limits::RESERVE_VERSIONS;
use crate::limits::SEGMENT_BYTES;
use crate::names::Epoch;

/// How a log is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The epoch that this server writes in.
    pub epoch: Epoch,
    /// Any number that a client cannot guess. It keeps a payload that holds a copy of a record from being taken for
    /// one when a damaged segment is scanned.
    pub salt: u64,
    /// This program's version, noted in the folder for those who cannot read its format.
    pub program_version: String,
    /// Size of the first segment of a new folder.
    pub first_segment_bytes: u64,
    /// Size of a full-grown segment.
    pub segment_bytes: u64,
    /// How many versions are reserved at a time.
    pub reserve_versions: u64,
}

impl Options {
    /// The usual sizes.
    pub fn new(epoch: Epoch, salt: u64, program_version: impl Into<String>) -> Self {
        Self {
            epoch,
            salt,
            program_version: program_version.into(),
            first_segment_bytes: FIRST_SEGMENT_BYTES,
            segment_bytes: SEGMENT_BYTES,
            reserve_versions: RESERVE_VERSIONS,
        }
    }
}

/// When a batch may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurabilityClass {
    /// Durable before `append` returns.
    Committed,
    /// Written, and durable with the next sync, which the caller owes within its time limit.
    Relaxed,
}
