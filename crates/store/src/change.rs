//! Changes: what a commit did, as the log writes it and as watchers see it.

use crate::page::AnyRow;
use crate::words::{PartitionId, RowNumber};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// One row came, changed or went.
#[derive(Clone)]
pub struct Change {
    /// The position of the table in the store.
    pub table: usize,
    /// The row's number.
    pub number: RowNumber,
    /// The row before, with its partition; `None` if it came.
    pub old: Option<(PartitionId, Arc<dyn AnyRow>)>,
    /// The row after, with its partition; `None` if it went.
    pub new: Option<(PartitionId, Arc<dyn AnyRow>)>,
}

impl fmt::Debug for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (&self.old, &self.new) {
            (None, _) => "came",
            (_, None) => "went",
            _ => "changed",
        };
        write!(formatter, "row {} of table {} {what}", self.number.0, self.table)
    }
}

/// Why a row was not changed. The table is as it was.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// There is no row with this number.
    #[error("changing row {number} of {table}: there is no such row", number = .number.0)]
    NoSuchRow {
        /// The table.
        table: &'static str,
        /// The number.
        number: RowNumber,
    },
    /// Another row has the same values in a unique index.
    #[error("writing a row of {table}: row {other} has the same {index}, which must be unique", other = .other.0)]
    NotUnique {
        /// The table.
        table: &'static str,
        /// The index.
        index: &'static str,
        /// The row that has them.
        other: RowNumber,
    },
    /// The values of an index, rollup or partition are too long together.
    #[error(
        "writing a row of {table}: its {index} key has {bytes} bytes, at most {bytes_max} are possible; shorten the names in it"
    )]
    KeyTooLong {
        /// The table.
        table: &'static str,
        /// The index or rollup, or "partition".
        index: &'static str,
        /// How long the key is.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// The table has as many partitions as can be numbered.
    #[error(
        "writing a row of {table}: it has as many partitions as can be numbered; remove namespaces or users that are gone"
    )]
    TooManyPartitions {
        /// The table.
        table: &'static str,
    },
    /// The command changes more rows than one command may.
    #[error("changing row {number} of {table}: one command may change at most {rows_max} rows; split the work", number = .number.0)]
    TooManyRows {
        /// The table.
        table: &'static str,
        /// The row that was one too many.
        number: RowNumber,
        /// The limit.
        rows_max: usize,
    },
    /// The command writes more bytes than one command may.
    #[error(
        "writing a row of {table}: one command may write at most {bytes_max} bytes; split the work, or put large values into blobs"
    )]
    TooManyBytes {
        /// The table.
        table: &'static str,
        /// The limit.
        bytes_max: usize,
    },
    /// The row numbers are used up.
    #[error("writing a row of {table}: all row numbers are used up")]
    NoNumbers {
        /// The table.
        table: &'static str,
    },
    /// The table only grows.
    #[error("changing row {number} of {table}: rows of this table are never changed", number = .number.0)]
    OnlyGrows {
        /// The table.
        table: &'static str,
        /// The number.
        number: RowNumber,
    },
    /// Something the command relied on has changed meanwhile.
    #[error(
        "{table} changed at version {changed_at} after version {since}, which the command relied on; read again and retry"
    )]
    Outdated {
        /// The table.
        table: &'static str,
        /// When it changed.
        changed_at: u64,
        /// What the command had read.
        since: u64,
    },
}
