//! A value that a query brings along.

use crate::{Time, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

/// A value owned by a query or borrowed from its text: what a column is compared with.
#[derive(Clone, Debug)]
pub enum Literal<'q> {
    /// No value.
    Null,
    /// True or false.
    Boolean(bool),
    /// A whole number that cannot be negative.
    Unsigned(u64),
    /// A whole number.
    Signed(i64),
    /// A point in time.
    Time(Time),
    /// The position of a word in an enumeration.
    Enumeration(u8),
    /// An identifier of 128 bits.
    Identifier(u128),
    /// Text.
    Text(Cow<'q, str>),
    /// Bytes.
    Bytes(Cow<'q, [u8]>),
}

impl<'q> Literal<'q> {
    /// The same value, borrowed.
    pub fn value(&self) -> Value<'_> {
        match self {
            Literal::Null => Value::Null,
            Literal::Boolean(value) => Value::Boolean(*value),
            Literal::Unsigned(value) => Value::Unsigned(*value),
            Literal::Signed(value) => Value::Signed(*value),
            Literal::Time(value) => Value::Time(*value),
            Literal::Enumeration(value) => Value::Enumeration(*value),
            Literal::Identifier(value) => Value::Identifier(*value),
            Literal::Text(value) => Value::Text(value),
            Literal::Bytes(value) => Value::Bytes(value),
        }
    }

    /// A copy of a column's value that outlives its row; nested values have no literal and give `None`.
    pub fn from_value(value: Value<'_>) -> Option<Literal<'static>> {
        Some(match value {
            Value::Null => Literal::Null,
            Value::Boolean(value) => Literal::Boolean(value),
            Value::Unsigned(value) => Literal::Unsigned(value),
            Value::Signed(value) => Literal::Signed(value),
            Value::Time(value) => Literal::Time(value),
            Value::Enumeration(value) => Literal::Enumeration(value),
            Value::Identifier(value) => Literal::Identifier(value),
            Value::Text(value) => Literal::Text(Cow::Owned(value.to_owned())),
            Value::Bytes(value) => Literal::Bytes(Cow::Owned(value.to_owned())),
            Value::Nested(_) => return None,
        })
    }

    /// The same literal with everything it borrowed copied.
    pub fn into_owned(self) -> Literal<'static> {
        match self {
            Literal::Null => Literal::Null,
            Literal::Boolean(value) => Literal::Boolean(value),
            Literal::Unsigned(value) => Literal::Unsigned(value),
            Literal::Signed(value) => Literal::Signed(value),
            Literal::Time(value) => Literal::Time(value),
            Literal::Enumeration(value) => Literal::Enumeration(value),
            Literal::Identifier(value) => Literal::Identifier(value),
            Literal::Text(value) => Literal::Text(Cow::Owned(value.into_owned())),
            Literal::Bytes(value) => Literal::Bytes(Cow::Owned(value.into_owned())),
        }
    }
}

impl PartialEq for Literal<'_> {
    /// Null equals null here: this compares queries, not rows.
    fn eq(&self, other: &Self) -> bool {
        self.value().compare(&other.value()) == Ordering::Equal
    }
}

macro_rules! literal_from {
    ($($from:ty => $variant:ident($convert:expr)),* $(,)?) => {$(
        impl<'q> From<$from> for Literal<'q> {
            fn from(value: $from) -> Self {
                #[allow(clippy::redundant_closure_call)]
                Literal::$variant(($convert)(value))
            }
        }
    )*};
}

literal_from! {
    bool => Boolean(|value| value),
    u8 => Unsigned(u64::from),
    u16 => Unsigned(u64::from),
    u32 => Unsigned(u64::from),
    u64 => Unsigned(|value| value),
    i64 => Signed(|value| value),
    Time => Time(|value| value),
    u128 => Identifier(|value| value),
    &'q str => Text(Cow::Borrowed),
    String => Text(Cow::Owned),
    &'q [u8] => Bytes(Cow::Borrowed),
}
