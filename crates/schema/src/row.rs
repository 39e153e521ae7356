//! The row trait.

use crate::{BlobReference, DecodeError, NamePool, TableSchema, Value};
use std::fmt;
use std::marker::PhantomData;

/// One record of a table, as a Rust value. Implemented by `#[derive(Row)]`.
pub trait Row: Clone + fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The table that holds rows of this type.
    fn schema() -> &'static TableSchema;

    /// The column at this position; [`Value::Null`] past the last one.
    fn value(&self, column: usize) -> Value<'_>;

    /// The columns in which two rows differ, a bit for each position. Fields that this version does not know are no columns.
    fn differences(&self, other: &Self) -> u64;

    /// Appends the stored form.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads the stored form back. Fields it does not know are kept and written again.
    ///
    /// # Errors
    /// If the bytes are cut short, a field does not hold what its column does, or a field without default is missing.
    fn decode(bytes: &[u8], names: &mut NamePool) -> Result<Self, DecodeError>;

    /// Bytes this row holds outside its own struct, shared ones not counted.
    fn heap_bytes(&self) -> usize;

    /// Calls `visit` with each blob that this row names.
    fn blobs(&self, visit: &mut dyn FnMut(&BlobReference));
}

/// A column of rows of type `R`, by position. The derive makes one constant per field, such as `Task::JOB`.
pub struct Column<R> {
    position: usize,
    row: PhantomData<fn() -> R>,
}

impl<R> Column<R> {
    /// The column at a position; for the derive.
    pub const fn at(position: usize) -> Column<R> {
        Column { position, row: PhantomData }
    }

    /// Its position in [`TableSchema::columns`].
    pub const fn position(self) -> usize {
        self.position
    }
}

impl<R> Clone for Column<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Column<R> {}

impl<R> fmt::Debug for Column<R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Column({})", self.position)
    }
}

#[cfg(test)]
mod tests {
    use crate::{NamePool, Row, Unknown};

    /// A row whose fields have the names that generated code might use.
    #[derive(Clone, Debug, PartialEq, Row)]
    #[row(table = "awkward", number = 1, partition(table))]
    struct Awkward {
        /// A field.
        #[row(tag = 1)]
        table: u32,
        /// A field.
        #[row(tag = 2)]
        bytes: String,
        /// A field.
        #[row(tag = 3)]
        names: Option<u64>,
        /// A field.
        #[row(tag = 4, default = 7)]
        tag: u64,
        /// A field.
        #[row(tag = 5)]
        fields: bool,
        #[row(unknown)]
        unknown: Unknown,
    }

    #[test]
    fn fields_may_have_any_name_and_missing_ones_take_their_default() {
        let unknown = Unknown::default();
        let row = Awkward { table: 1, bytes: "b".into(), names: None, tag: 9, fields: true, unknown };
        let mut stored = Vec::new();
        row.encode(&mut stored);
        assert_eq!(Awkward::decode(&stored, &mut NamePool::default()), Ok(row.clone()));
        // Fields 1, 2 and 5 only.
        let partial = [&[1, 1, 1, 2, 1, b'b', 5, 1, 1][..], &[9, 2, 8, 8]].concat();
        let read = Awkward::decode(&partial, &mut NamePool::default()).unwrap();
        assert_eq!((read.tag, read.names, read.unknown.bytes()), (7, None, &[9, 2, 8, 8][..]));
        let mut again = Vec::new();
        read.encode(&mut again);
        assert!(again.ends_with(&[9, 2, 8, 8]), "an unknown field is written again");
        assert!(
            Awkward::decode(&partial[..3], &mut NamePool::default()).is_err(),
            "a field without default is missing"
        );
    }
}
