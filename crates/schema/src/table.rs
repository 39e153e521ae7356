//! The description of a table.

use crate::NestedSchema;

/// The most words that an enumeration column can have: their position is one byte, and null needs room in a key.
pub const ENUMERATION_VARIANTS_MAX: usize = 255;

/// What a column holds.
#[derive(Clone, Copy, Debug)]
pub enum ColumnType {
    /// True or false.
    Boolean,
    /// A whole number that cannot be negative, 64 bits.
    Unsigned,
    /// A whole number, 64 bits.
    Signed,
    /// A point in time, whole microseconds UTC.
    Time,
    /// One of these words, ordered as listed.
    Enumeration(&'static [&'static str]),
    /// An opaque identifier of 128 bits.
    Identifier,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// A list of small records.
    Nested(&'static NestedSchema),
}

impl ColumnType {
    /// The word for this type in documentation, errors and the API.
    pub fn word(&self) -> &'static str {
        match self {
            ColumnType::Boolean => "boolean",
            ColumnType::Unsigned => "unsigned",
            ColumnType::Signed => "signed",
            ColumnType::Time => "time",
            ColumnType::Enumeration(_) => "enumeration",
            ColumnType::Identifier => "identifier",
            ColumnType::Text => "text",
            ColumnType::Bytes => "bytes",
            ColumnType::Nested(_) => "list",
        }
    }
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct ColumnSchema {
    /// Its name in queries, answers and documentation.
    pub name: &'static str,
    /// What it means: the first paragraph of the field's doc comment.
    pub comment: &'static str,
    /// What it holds.
    pub column_type: ColumnType,
    /// Whether a row may have no value for it.
    pub nullable: bool,
    /// The number of the field in stored rows, never reused; `None` for a column computed from others.
    pub tag: Option<u32>,
}

/// A declared order over some columns.
#[derive(Clone, Copy, Debug)]
pub struct IndexSchema {
    /// Its name in explanations of a query.
    pub name: &'static str,
    /// Positions of its columns, most significant first.
    pub columns: &'static [usize],
    /// Whether two rows may not share all these values. Rows in which one of them is null are exempt, as in SQL.
    pub unique: bool,
    /// The boolean column that must be true for a row to be in the index.
    pub only_where: Option<usize>,
    /// All columns that decide a row's place in the index, as [`column_bits`].
    pub bits: u64,
}

/// Columns as bits, one for each position; a table has at most 64.
pub const fn column_bits(columns: &[usize], only_where: Option<usize>) -> u64 {
    let mut bits = match only_where {
        Some(column) => 1 << column,
        None => 0,
    };
    let mut next = 0;
    while next < columns.len() {
        bits |= 1 << columns[next];
        next += 1;
    }
    bits
}

/// Declared counts and sums, kept in the same commit as the rows.
#[derive(Clone, Copy, Debug)]
pub struct RollupSchema {
    /// Its name.
    pub name: &'static str,
    /// Positions of the columns that it groups by.
    pub key: &'static [usize],
    /// Positions of the unsigned columns that it sums.
    pub sums: &'static [usize],
    /// The boolean column that must be true for a row to count.
    pub only_where: Option<usize>,
    /// All columns that decide a row's group, as [`column_bits`].
    pub key_bits: u64,
    /// Those, and the columns that it sums.
    pub bits: u64,
}

/// When a change to a table is safe on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the answer.
    Committed,
    /// Within 100 ms after the answer.
    Relaxed,
    /// Never: the rows are seen again or are gone after a restart.
    Volatile,
}

/// How a table grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Rows come, change and go.
    Rows,
    /// Rows only come; the oldest page is dropped whole when the table passes its bound.
    Append,
}

/// Everything there is to know about a table but its rows.
#[derive(Clone, Copy, Debug)]
pub struct TableSchema {
    /// Its name in queries and documentation.
    pub name: &'static str,
    /// Its number in the log and in checkpoints, never reused.
    pub number: u32,
    /// What a row of it is.
    pub comment: &'static str,
    /// Its columns.
    pub columns: &'static [ColumnSchema],
    /// Positions of the columns that a policy may test and a wire form nests by; pages never mix their values.
    pub partition: &'static [usize],
    /// Its indexes.
    pub indexes: &'static [IndexSchema],
    /// Its rollups.
    pub rollups: &'static [RollupSchema],
    /// When a change is safe on disk.
    pub durability: Durability,
    /// How it grows.
    pub kind: TableKind,
}

impl TableSchema {
    /// The position of the column of this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The position of the index of this name.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.indexes.iter().position(|index| index.name == name)
    }
}
