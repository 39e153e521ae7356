//! The rows of a snapshot as the chunks of a checkpoint.

use crate::query::Query;
use crate::record::ChunkWriter;
use crate::snapshot::Snapshot;
use rollcall_schema::Durability;
use std::ops::ControlFlow;

/// A chunk is ended when its rows reach this size, so that several threads can share the reading.
const CHUNK_BYTES: usize = 256 * 1024;

impl Snapshot {
    /// Hands out the rows of all tables that are not volatile, chunk by chunk; [`crate::Loader`] reads them back. There is always one chunk at
    /// least, so that version and row numbers outlive a store without rows.
    ///
    /// # Errors
    /// The first error of `write`.
    pub fn write_checkpoint<E>(&self, mut write: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        let mut failed = Ok(());
        let mut written = false;
        for table in self.tables().filter(|table| table.schema().durability != Durability::Volatile) {
            let mut chunk = ChunkWriter::new(&self.state);
            let visited = table.visit(Query::all(), &mut |number, row| {
                chunk.row(number, row);
                if chunk.bytes() < CHUNK_BYTES {
                    return ControlFlow::Continue(());
                }
                written = true;
                failed = write(&chunk.finish(table));
                if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            // INVARIANT: a query for everything fits every table.
            debug_assert!(visited.is_ok());
            std::mem::replace(&mut failed, Ok(()))?;
            if chunk.bytes() > 0 || !written {
                written = true;
                write(&chunk.finish(table))?;
            }
        }
        Ok(())
    }
}
