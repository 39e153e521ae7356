//! # schema: what a row is
//!
//! Everything Rollcall knows is a row of a typed table. This room says what that means, once, so that the store, the log, every
//! door and the documentation read the same truth: a table's schema is derived from its Rust type and cannot drift from it.
//!
//! ## Model
//!
//! - A [`Row`] is a Rust struct with `#[derive(Row)]`. The derive writes only what a hand-written row would repeat: its
//!   [`TableSchema`], access to a column by position ([`Row::value`]) and the stored form ([`Row::encode`], [`Row::decode`]).
//! - A [`Value`] is one column of one row, borrowed. A [`Literal`] is the same, owned or borrowed from a query.
//! - A column's Rust type implements [`ColumnValue`]; a column that is computed from others implements [`ComputedValue`].
//! - The stored form ([`codec`]) is a list of tagged, length-prefixed fields: unknown ones are kept, missing ones take a named default,
//!   numbers are never reused.
//! - The key form ([`key`]) of a value is bytes whose order is the order of the values: indexes and cursors are made of it.
//!
//! ```
//! use rollcall_schema::{Row, Unknown, Value};
//!
//! /// A machine on the shelf.
//! #[derive(Clone, Debug, PartialEq, Row)]
//! #[row(table = "machines", number = 9, partition(shelf), index(name = "name", columns(name), unique))]
//! struct Machine {
//!     /// What people call it.
//!     #[row(tag = 1)]
//!     name: String,
//!     /// Where it lies.
//!     #[row(tag = 2, default = 0)]
//!     shelf: u32,
//!     #[row(unknown)]
//!     unknown: Unknown,
//! }
//!
//! let machine = Machine { name: "n1".into(), shelf: 3, unknown: Unknown::default() };
//! assert_eq!(Machine::schema().columns[0].comment, "What people call it.");
//! assert!(matches!(machine.value(1), Value::Unsigned(3)));
//! ```
//!
//! ## Never
//!
//! No I/O, no clock, no knowledge of what a job is.
#![forbid(unsafe_code)]

extern crate self as rollcall_schema;

pub mod codec;
mod column;
mod fuzz;
pub mod key;
mod literal;
mod names;
mod row;
mod runtime;
mod table;
mod time;
mod value;

pub use codec::{DecodeError, FieldError, Unknown};
pub use column::{BlobReference, ColumnValue, ComputedValue};
pub use fuzz::fuzz_row;
pub use literal::Literal;
pub use names::{NamePool, SharedText};
pub use rollcall_schema_derive::{Enumeration, Row};
pub use row::{Column, Row};
pub use runtime::{RuntimeColumn, RuntimeError, RuntimeSchema};
pub use table::{
    ColumnSchema, ColumnType, Durability, ENUMERATION_VARIANTS_MAX, IndexSchema, RollupSchema, TableKind, TableSchema,
    column_bits,
};
pub use time::Time;
pub use value::{Nested, NestedSchema, Value};
