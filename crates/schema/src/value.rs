//! One column of one row, borrowed.

use crate::{ColumnType, Time};
use std::cmp::Ordering;
use std::fmt;

/// One column of one row. It borrows from the row, so reading it allocates nothing.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// The column has no value in this row.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number that cannot be negative.
    Unsigned(u64),
    /// A whole number.
    Signed(i64),
    /// A point in time.
    Time(Time),
    /// The position of a word in the list that the column's [`ColumnType::Enumeration`] holds.
    Enumeration(u8),
    /// An opaque identifier of 128 bits, written as 32 hexadecimal digits.
    Identifier(u128),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A list of small records inside the row. It can be read, but not compared, ordered or indexed.
    Nested(&'a dyn Nested),
}

impl Value<'_> {
    /// The order of two values of one column: null first, then the natural order of the type. Nested values have none and are
    /// equal; values of different types are ordered by type, so that the order is total whatever it is given.
    pub fn compare(&self, other: &Value<'_>) -> Ordering {
        match (self, other) {
            (Value::Boolean(left), Value::Boolean(right)) => left.cmp(right),
            (Value::Unsigned(left), Value::Unsigned(right)) => left.cmp(right),
            (Value::Signed(left), Value::Signed(right)) => left.cmp(right),
            (Value::Time(left), Value::Time(right)) => left.cmp(right),
            (Value::Enumeration(left), Value::Enumeration(right)) => left.cmp(right),
            (Value::Identifier(left), Value::Identifier(right)) => left.cmp(right),
            (Value::Text(left), Value::Text(right)) => left.as_bytes().cmp(right.as_bytes()),
            (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
            (left, right) => left.rank().cmp(&right.rank()),
        }
    }

    /// True if both are the same non-null value; null equals nothing, as in SQL.
    pub fn equals(&self, other: &Value<'_>) -> bool {
        !matches!(self, Value::Null) && self.compare(other) == Ordering::Equal
    }

    /// True for [`Value::Null`].
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Boolean(_) => 1,
            Value::Unsigned(_) => 2,
            Value::Signed(_) => 3,
            Value::Time(_) => 4,
            Value::Enumeration(_) => 5,
            Value::Identifier(_) => 6,
            Value::Text(_) => 7,
            Value::Bytes(_) => 8,
            Value::Nested(_) => 9,
        }
    }
}

/// The columns of the records inside a [`Nested`] value.
#[derive(Clone, Copy, Debug)]
pub struct NestedSchema {
    /// Name, meaning and type of each field, in the order of [`Nested::field`].
    pub fields: &'static [(&'static str, &'static str, ColumnType)],
}

/// A list of small records that lives inside a row, such as a task's last events.
pub trait Nested: fmt::Debug {
    /// What a record holds.
    fn nested_schema(&self) -> &'static NestedSchema;
    /// How many records there are.
    fn count(&self) -> usize;
    /// One field of one record. Positions past the end are [`Value::Null`].
    fn field(&self, record: usize, field: usize) -> Value<'_>;
}
