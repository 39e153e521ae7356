//! Names of the files in a folder, and the numbers that tell batches, versions and servers apart.

use std::fmt;

/// A version of the store. The log keeps them in rising order and never lets one be used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A server's turn at writing. A higher epoch shuts out every lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// The place of a record in the log: 1, 2, 3 and so on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl fmt::Display for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

pub(crate) const LOCK: &str = "lock";
pub(crate) const FORMAT: &str = "format";
pub(crate) const FORMAT_TEMPORARY: &str = "format.temporary";
pub(crate) const SEGMENT_TEMPORARY: &str = "segment.temporary";
const SEGMENT_PREFIX: &str = "segment-";
const CHECKPOINT_PREFIX: &str = "checkpoint-";
pub(crate) const TEMPORARY_SUFFIX: &str = ".temporary";

/// The segment whose first record has this sequence. Twenty digits hold any number, so names sort by it.
pub(crate) fn segment(first: u64) -> String {
    format!("{SEGMENT_PREFIX}{first:020}")
}

/// The checkpoint that covers all records up to this sequence.
pub(crate) fn checkpoint(sequence: u64) -> String {
    format!("{CHECKPOINT_PREFIX}{sequence:020}")
}

/// The number in a segment's name; `None` for any other file.
pub(crate) fn parse_segment(name: &str) -> Option<u64> {
    parse(name, SEGMENT_PREFIX)
}

/// The number in a checkpoint's name; `None` for any other file.
pub(crate) fn parse_checkpoint(name: &str) -> Option<u64> {
    parse(name, CHECKPOINT_PREFIX)
}

fn parse(name: &str, prefix: &str) -> Option<u64> {
    let digits = name.strip_prefix(prefix)?;
    if digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
}
