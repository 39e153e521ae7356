//! What the log and checkpoints hold: the bytes of commits and of rows.
//!
//! ```text
//! record     := version  time (8 bytes)  next row number  change*
//! change     := table number  0  row number                          a row went
//!             | table number  1  row number  length  stored row       a row came or changed
//! chunk      := version  time (8 bytes)  next row number  run*
//! run        := table number  count  (row number  changed at  length  stored row)*
//! ```
//!
//! Numbers are varints of [`rollcall_schema::codec`]. Volatile tables appear in neither.

use crate::change::Change;
use crate::snapshot::{AnyTable, State};
use crate::words::{RowNumber, Version};
use rollcall_schema::codec::{put_varint, take_bytes, take_varint};
use rollcall_schema::{DecodeError, Durability, Time};
use thiserror::Error;

const WENT: u8 = 0;
const CAME_OR_CHANGED: u8 = 1;

/// Why bytes are not a record or a chunk of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// They end too early or a number in them is broken.
    #[error("the record is broken at offset {offset}")]
    Broken {
        /// Where.
        offset: usize,
    },
    /// They hold a table that this version does not have.
    #[error("the record holds table number {0}, which this version does not know; it was written by a newer version")]
    NoTable(u64),
    /// A row in them is broken.
    #[error("a row of the record is broken")]
    Row(#[from] DecodeError),
    /// A row in them does not fit the rows before it.
    #[error("row {number} of {table} in the record does not fit the rows before it")]
    Misfit {
        /// The table.
        table: &'static str,
        /// The row.
        number: u64,
    },
}

/// What a record or a chunk starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) version: Version,
    pub(crate) time: Time,
    pub(crate) next_number: u64,
}

fn put_head(out: &mut Vec<u8>, state: &State) {
    put_varint(out, state.version.0);
    out.extend_from_slice(&state.time.micros().to_le_bytes());
    put_varint(out, state.next_number);
}

fn take_head(bytes: &mut &[u8]) -> Option<Head> {
    let version = Version(take_varint(bytes)?);
    let micros = take_bytes(bytes, 8)?.try_into().ok()?;
    Some(Head { version, time: Time::from_micros(i64::from_le_bytes(micros)), next_number: take_varint(bytes)? })
}

/// The record of a commit.
pub(crate) fn of_changes(state: &State, changes: &[Change]) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + changes.len() * 256);
    put_head(&mut out, state);
    let mut row_bytes = Vec::with_capacity(512);
    for change in changes {
        let schema = state.tables[change.table].schema();
        if schema.durability == Durability::Volatile {
            continue;
        }
        put_varint(&mut out, u64::from(schema.number));
        match &change.new {
            None => {
                out.push(WENT);
                put_varint(&mut out, change.number.0);
            }
            Some((_, row)) => {
                out.push(CAME_OR_CHANGED);
                put_varint(&mut out, change.number.0);
                row_bytes.clear();
                row.encode_row(&mut row_bytes);
                put_varint(&mut out, row_bytes.len() as u64);
                out.extend_from_slice(&row_bytes);
            }
        }
    }
    out
}

/// A run of rows of a checkpoint, as bytes.
pub(crate) struct ChunkWriter<'a> {
    state: &'a State,
    out: Vec<u8>,
    rows: Vec<u8>,
    count: u64,
    row_bytes: Vec<u8>,
}

impl<'a> ChunkWriter<'a> {
    pub(crate) fn new(state: &'a State) -> ChunkWriter<'a> {
        let mut out = Vec::new();
        put_head(&mut out, state);
        ChunkWriter { state, out, rows: Vec::new(), count: 0, row_bytes: Vec::new() }
    }

    pub(crate) fn row(&mut self, number: RowNumber, row: &dyn crate::page::AnyRow) {
        self.row_bytes.clear();
        row.encode_row(&mut self.row_bytes);
        put_varint(&mut self.rows, number.0);
        put_varint(&mut self.rows, row.changed().0);
        put_varint(&mut self.rows, self.row_bytes.len() as u64);
        self.rows.extend_from_slice(&self.row_bytes);
        self.count += 1;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows.len()
    }

    /// The chunk of the rows so far, all of one table; the writer starts anew.
    pub(crate) fn finish(&mut self, table: &dyn AnyTable) -> Vec<u8> {
        let mut chunk = std::mem::take(&mut self.out);
        put_varint(&mut chunk, u64::from(table.schema().number));
        put_varint(&mut chunk, std::mem::take(&mut self.count));
        chunk.append(&mut self.rows);
        put_head(&mut self.out, self.state);
        chunk
    }
}

/// One change of a record, as bytes.
pub(crate) struct RawChange<'a> {
    pub(crate) table: u64,
    pub(crate) number: RowNumber,
    pub(crate) row: Option<&'a [u8]>,
}

/// Reads a record.
pub(crate) fn read_record<'a>(
    record: &'a [u8],
    mut visit: impl FnMut(RawChange<'a>) -> Result<(), RecordError>,
) -> Result<Head, RecordError> {
    let mut rest = record;
    let head = take_head(&mut rest).ok_or(RecordError::Broken { offset: 0 })?;
    while !rest.is_empty() {
        let offset = record.len() - rest.len();
        visit(take_change(&mut rest).ok_or(RecordError::Broken { offset })?)?;
    }
    Ok(head)
}

fn take_change<'a>(rest: &mut &'a [u8]) -> Option<RawChange<'a>> {
    let table = take_varint(rest)?;
    let kind = *take_bytes(rest, 1)?.first()?;
    let number = take_number(rest)?;
    let row = match kind {
        WENT => None,
        CAME_OR_CHANGED => {
            let length = take_varint(rest)?;
            Some(take_bytes(rest, length)?)
        }
        _ => return None,
    };
    Some(RawChange { table, number, row })
}

fn take_number(rest: &mut &[u8]) -> Option<RowNumber> {
    take_varint(rest).map(RowNumber).filter(|number| *number <= RowNumber::MAX)
}

/// One row of a chunk, as bytes.
pub(crate) struct RawRow<'a> {
    pub(crate) table: u64,
    pub(crate) number: RowNumber,
    pub(crate) changed: Version,
    pub(crate) row: &'a [u8],
}

/// Reads a chunk of a checkpoint.
pub(crate) fn read_chunk<'a>(
    chunk: &'a [u8],
    mut visit: impl FnMut(RawRow<'a>) -> Result<(), RecordError>,
) -> Result<Head, RecordError> {
    let mut rest = chunk;
    let head = take_head(&mut rest).ok_or(RecordError::Broken { offset: 0 })?;
    while !rest.is_empty() {
        let offset = chunk.len() - rest.len();
        let run = take_varint(&mut rest).and_then(|table| Some((table, take_varint(&mut rest)?)));
        let (table, count) = run.ok_or(RecordError::Broken { offset })?;
        for _ in 0..count {
            let offset = chunk.len() - rest.len();
            let row = take_row(&mut rest, table).ok_or(RecordError::Broken { offset })?;
            visit(row)?;
        }
    }
    Ok(head)
}

fn take_row<'a>(rest: &mut &'a [u8], table: u64) -> Option<RawRow<'a>> {
    let number = take_number(rest)?;
    let changed = Version(take_varint(rest)?);
    let length = take_varint(rest)?;
    Some(RawRow { table, number, changed, row: take_bytes(rest, length)? })
}
