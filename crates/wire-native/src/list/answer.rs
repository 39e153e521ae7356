//! The body of an answer, in chunks, so that nobody holds the whole of it.

use super::ListRequest;
use crate::cursor::print_cursor;
use crate::error::{ApiError, ErrorCode};
use crate::json::{JsonRow, JsonRows, ROW_SEPARATOR, put_text, put_unsigned};
use crate::time::put_time;
use rollcall_store::{Explanation, Fragments, Page, RowNumber, Snapshot, Stored, Visible};
use std::sync::Arc;

/// Rows that are not whole pages are put together into chunks of about this size.
const CHUNK_BYTES: usize = 64 * 1024;

/// A piece of the body.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// Bytes of this answer alone.
    Own(Vec<u8>),
    /// The encoding of a page that all answers share, but for so many bytes at its start.
    Shared(Arc<Fragments>, usize),
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        match self {
            Chunk::Own(bytes) => bytes,
            Chunk::Shared(fragments, skipped) => fragments.bytes.get(*skipped..).unwrap_or_default(),
        }
    }
}

/// The body of an answer to a [`ListRequest`]: an iterator of chunks. It holds its snapshot and no lock; rows are encoded as chunks are
/// taken, so a slow reader costs nothing but the versions that it holds.
pub struct ListBody<R: JsonRow> {
    snapshot: Snapshot,
    encoder: JsonRows<R>,
    source: Source<R>,
    /// What comes behind the rows.
    next: Option<String>,
    explanation: Explanation,
    /// How many rows the answer has.
    rows: usize,
    stage: Stage,
}

enum Source<R> {
    Pages(std::vec::IntoIter<Arc<Page<R>>>),
    Rows(std::vec::IntoIter<(RowNumber, Arc<Stored<R>>)>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    /// Rows come, and there are none before them.
    FirstRow,
    Rows,
    End,
}

impl<R: JsonRow> ListBody<R> {
    /// Finds the rows that are asked for, in partitions that may be seen, and remembers them. What the caller must look at is done here: the
    /// chunks cannot fail.
    ///
    /// # Errors
    /// If the store cannot answer the query, or a cursor to go on from would be too long.
    pub fn new(snapshot: Snapshot, request: &ListRequest, visible: Option<&Visible>) -> Result<ListBody<R>, ApiError> {
        let mut selected = snapshot.table::<R>().select(request.query(visible))?;
        let mut next = None;
        let (source, rows, explanation) = if let Some(pages) = selected.whole_pages() {
            let pages: Vec<_> = pages.cloned().collect();
            let rows = pages.iter().map(|page| page.len()).sum();
            (Source::Pages(pages.into_iter()), rows, Explanation { index: None, rows_read: rows })
        } else {
            let mut rows: Vec<_> = selected.by_ref().collect();
            if let Some(limit) = request.limit
                && rows.len() > limit
            {
                rows.truncate(limit);
                let cursor = rows.last().map(|last| print_cursor(request.scope(), &selected.cursor(*last)));
                next =
                    cursor.transpose().map_err(|error| ApiError::new(ErrorCode::BadSort, format!("sort: {error}")))?;
            }
            let (count, explanation) = (rows.len(), selected.explanation());
            let rows: Vec<_> = rows.into_iter().map(|row| (row.number, row.stored.clone())).collect();
            (Source::Rows(rows.into_iter()), count, explanation)
        };
        drop(selected);
        Ok(ListBody { snapshot, encoder: JsonRows::new(), source, next, explanation, rows, stage: Stage::Head })
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How they were found.
    pub fn explanation(&self) -> Explanation {
        self.explanation
    }

    /// The cursor to go on from, if there are more rows.
    pub fn next_cursor(&self) -> Option<&str> {
        self.next.as_deref()
    }

    /// The whole body at once: for tests, and for answers that are known to be small.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.for_each(|chunk| out.extend_from_slice(chunk.as_ref()));
        out
    }

    /// `{"version":1204,"time":"…","rows":[`
    fn put_head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"version\":");
        put_unsigned(out, self.snapshot.version().0);
        out.extend_from_slice(b",\"time\":\"");
        put_time(out, self.snapshot.time());
        out.extend_from_slice(b"\",\"rows\":[");
    }

    /// `],"next":"…","read":{"rows":10,"index":"job+state"}}`
    fn put_tail(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(if self.rows == 0 { b"],\"next\":" } else { b"\n],\"next\":" });
        match &self.next {
            Some(cursor) => put_text(out, cursor),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b",\"read\":{\"rows\":");
        put_unsigned(out, self.explanation.rows_read as u64);
        out.extend_from_slice(b",\"index\":");
        match self.explanation.index {
            Some(index) => put_text(out, index),
            None => out.extend_from_slice(b"null"),
        }
        out.extend_from_slice(b"}}\n");
    }

    /// Appends rows that are not whole pages until `out` is a chunk; false if there were none left.
    fn put_rows(&mut self, out: &mut Vec<u8>) -> bool {
        let Source::Rows(rows) = &mut self.source else { return false };
        let before = out.len();
        while out.len() < CHUNK_BYTES
            && let Some((number, stored)) = rows.next()
        {
            // The first row of all has no comma before it.
            let separator = if self.stage == Stage::FirstRow { &ROW_SEPARATOR[1..] } else { ROW_SEPARATOR };
            self.stage = Stage::Rows;
            out.extend_from_slice(separator);
            self.encoder.put_row(out, number, stored.changed, &stored.row);
        }
        out.len() > before
    }
}

impl<R: JsonRow> Iterator for ListBody<R> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let mut own = Vec::new();
        match self.stage {
            Stage::End => return None,
            Stage::Head => {
                self.put_head(&mut own);
                self.stage = Stage::FirstRow;
            }
            Stage::FirstRow | Stage::Rows => {}
        }
        if let Source::Pages(pages) = &mut self.source {
            if own.is_empty()
                && let Some(page) = pages.next()
            {
                let fragments = self.snapshot.table::<R>().encoded(&page, &self.encoder);
                let skipped = usize::from(self.stage == Stage::FirstRow);
                self.stage = Stage::Rows;
                return Some(Chunk::Shared(fragments, skipped));
            }
            if pages.len() > 0 {
                return Some(Chunk::Own(own));
            }
        } else {
            self.put_rows(&mut own);
            if own.len() >= CHUNK_BYTES {
                return Some(Chunk::Own(own));
            }
        }
        self.stage = Stage::End;
        self.put_tail(&mut own);
        Some(Chunk::Own(own))
    }
}
