//! The stored form of rows under foreign bytes: one function, called by fuzzers and by tests over the stored corpora.

use crate::{NamePool, Row};

/// Bytes of memory that a row may take for each byte that it was read from, and beside them.
const HEAP_BYTES_PER_BYTE: usize = 64;
const HEAP_BYTES_ANYWAY: usize = 4096;

/// Reads bytes as a stored row. Whatever they are, reading must not panic; what is read must be written so that it reads back equal, have one
/// stored form only, and take memory in proportion to its bytes.
///
/// # Panics
/// If that is not so.
pub fn fuzz_row<R: Row>(bytes: &[u8]) {
    let Ok(row) = R::decode(bytes, &mut NamePool::default()) else { return };
    let mut written = Vec::new();
    row.encode(&mut written);
    let again = R::decode(&written, &mut NamePool::default()).expect("what was written is read back");
    assert_eq!(again, row);
    let mut once_more = Vec::new();
    again.encode(&mut once_more);
    assert_eq!(once_more, written, "one row has one stored form");
    let heap_bytes_max = HEAP_BYTES_PER_BYTE * bytes.len() + HEAP_BYTES_ANYWAY;
    assert!(row.heap_bytes() < heap_bytes_max, "a row of few bytes takes much memory");
}
