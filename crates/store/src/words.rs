//! The small words of the store.

use std::fmt;

/// A number that grows by one with each commit and is never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl Version {
    /// The version of a store in which nothing has happened yet.
    pub const NOTHING: Version = Version(0);

    /// The one after it.
    pub const fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The number of a row in its table: minted by the store in arrival order, never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowNumber(pub u64);

/// How many bytes of a row number are kept in keys: at 100,000 rows a second they last for 89 years.
pub(crate) const ROW_NUMBER_BYTES: usize = 6;

impl RowNumber {
    /// The greatest row number that can be minted.
    pub const MAX: RowNumber = RowNumber((1 << (8 * ROW_NUMBER_BYTES)) - 1);

    pub(crate) fn key(self) -> [u8; ROW_NUMBER_BYTES] {
        let [_, _, bytes @ ..] = self.0.to_be_bytes();
        bytes
    }

    pub(crate) fn from_key(bytes: [u8; ROW_NUMBER_BYTES]) -> RowNumber {
        let mut whole = [0; 8];
        whole[8 - ROW_NUMBER_BYTES..].copy_from_slice(&bytes);
        RowNumber(u64::from_be_bytes(whole))
    }
}

/// The number of a partition in its table. It holds while the process runs and is never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

/// How many bytes of a partition's number are kept beside an index entry.
pub(crate) const PARTITION_BYTES: usize = 3;

impl PartitionId {
    pub(crate) const MAX: PartitionId = PartitionId((1 << (8 * PARTITION_BYTES)) - 1);

    pub(crate) fn bytes(self) -> [u8; PARTITION_BYTES] {
        let [_, bytes @ ..] = self.0.to_be_bytes();
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> PartitionId {
        PartitionId(bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
    }
}
