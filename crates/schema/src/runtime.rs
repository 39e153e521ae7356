//! Rows whose columns are known only while the program runs: user tables.
//!
//! A user table is not a Rust type. Its schema is itself a row, and its rows are one Rust type for all tables: key bytes and cell bytes. This
//! module turns values into those bytes and back.

use crate::codec::{Fields, put_field_with, put_varint, take_varint};
use crate::{ColumnType, Literal, Time, Value, key};
use std::borrow::Cow;
use thiserror::Error;

/// A column of a user table. Nested lists and enumerations are not offered there.
#[derive(Clone, Debug)]
pub struct RuntimeColumn {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub column_type: ColumnType,
    /// Whether it may hold nothing; never for a key column.
    pub nullable: bool,
}

/// The columns of a user table; the first `key_columns` of them are its key, in this order.
#[derive(Clone, Debug)]
pub struct RuntimeSchema {
    /// All columns, key columns first.
    pub columns: Vec<RuntimeColumn>,
    /// How many of them are the key; at least one.
    pub key_columns: usize,
}

/// Why values are not a row of a user table, or bytes not one that was written by it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuntimeError {
    /// The number of values is not the number of columns.
    #[error("a row of this table has {expected} columns; {found} values were given")]
    Count {
        /// How many columns there are.
        expected: usize,
        /// How many values came.
        found: usize,
    },
    /// A value does not fit its column.
    #[error("column `{column}` holds {expected}{null}; the value given is not one", null = if *.nullable { " or nothing" } else { "" })]
    Type {
        /// The column.
        column: String,
        /// What it holds.
        expected: &'static str,
        /// Whether null would do.
        nullable: bool,
    },
    /// The bytes are not a row of this table.
    #[error("the stored cells of column `{0}` are broken")]
    Broken(String),
}

impl RuntimeSchema {
    /// Turns a row's values, one for each column, into key bytes (whose order is the order of the keys) and cell bytes.
    ///
    /// # Errors
    /// If the values do not fit the columns.
    pub fn encode(&self, values: &[Literal<'_>]) -> Result<(Vec<u8>, Vec<u8>), RuntimeError> {
        if values.len() != self.columns.len() {
            return Err(RuntimeError::Count { expected: self.columns.len(), found: values.len() });
        }
        let (mut key_bytes, mut cells) = (Vec::new(), Vec::new());
        for (position, (column, literal)) in self.columns.iter().zip(values).enumerate() {
            let value = literal.value();
            let is_key = position < self.key_columns;
            if !fits(column.column_type, value) && (is_key || !column.nullable || !value.is_null()) {
                return Err(RuntimeError::Type {
                    column: column.name.clone(),
                    expected: column.column_type.word(),
                    nullable: column.nullable && !is_key,
                });
            }
            if is_key {
                key::put_value(&mut key_bytes, value, false);
            }
            if !value.is_null() {
                put_field_with(&mut cells, position as u32 + 1, |out| put_cell(out, value));
            }
        }
        Ok((key_bytes, cells))
    }

    /// Reads all columns back from the cell bytes; columns that were added since are null.
    ///
    /// # Errors
    /// If the bytes are broken.
    pub fn decode<'a>(&self, cells: &'a [u8]) -> Result<Vec<Literal<'a>>, RuntimeError> {
        let mut values = vec![Literal::Null; self.columns.len()];
        let mut fields = Fields::new(cells);
        while let Some((tag, bytes)) = fields.take().map_err(|_| RuntimeError::Broken(String::new()))? {
            let position = (tag as usize).wrapping_sub(1);
            if let (Some(column), Some(value)) = (self.columns.get(position), values.get_mut(position)) {
                *value =
                    take_cell(column.column_type, bytes).ok_or_else(|| RuntimeError::Broken(column.name.clone()))?;
            }
        }
        Ok(values)
    }
}

fn fits(column_type: ColumnType, value: Value<'_>) -> bool {
    matches!(
        (column_type, value),
        (ColumnType::Boolean, Value::Boolean(_))
            | (ColumnType::Unsigned, Value::Unsigned(_))
            | (ColumnType::Signed, Value::Signed(_))
            | (ColumnType::Time, Value::Time(_))
            | (ColumnType::Identifier, Value::Identifier(_))
            | (ColumnType::Text, Value::Text(_))
            | (ColumnType::Bytes, Value::Bytes(_))
    )
}

fn put_cell(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Null | Value::Nested(_) | Value::Enumeration(_) => {}
        Value::Boolean(value) => out.push(u8::from(value)),
        Value::Unsigned(value) => put_varint(out, value),
        Value::Signed(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Time(value) => out.extend_from_slice(&value.micros().to_le_bytes()),
        Value::Identifier(value) => out.extend_from_slice(&value.to_le_bytes()),
        Value::Text(value) => out.extend_from_slice(value.as_bytes()),
        Value::Bytes(value) => out.extend_from_slice(value),
    }
}

fn take_cell(column_type: ColumnType, mut bytes: &[u8]) -> Option<Literal<'_>> {
    Some(match column_type {
        ColumnType::Boolean => Literal::Boolean(match bytes {
            [0] => false,
            [1] => true,
            _ => return None,
        }),
        ColumnType::Unsigned => {
            let number = take_varint(&mut bytes)?;
            Literal::Unsigned(bytes.is_empty().then_some(number)?)
        }
        ColumnType::Signed => Literal::Signed(i64::from_le_bytes(bytes.try_into().ok()?)),
        ColumnType::Time => Literal::Time(Time::from_micros(i64::from_le_bytes(bytes.try_into().ok()?))),
        ColumnType::Identifier => Literal::Identifier(u128::from_le_bytes(bytes.try_into().ok()?)),
        ColumnType::Text => Literal::Text(Cow::Borrowed(std::str::from_utf8(bytes).ok()?)),
        ColumnType::Bytes => Literal::Bytes(Cow::Borrowed(bytes)),
        ColumnType::Enumeration(_) | ColumnType::Nested(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{RuntimeColumn, RuntimeError, RuntimeSchema};
    use crate::{ColumnType, Literal, Time};

    fn schema() -> RuntimeSchema {
        let column = |name: &str, column_type, nullable| RuntimeColumn { name: name.into(), column_type, nullable };
        RuntimeSchema {
            columns: vec![
                column("host", ColumnType::Text, false),
                column("at", ColumnType::Time, false),
                column("load", ColumnType::Signed, true),
                column("note", ColumnType::Text, true),
            ],
            key_columns: 2,
        }
    }

    #[test]
    fn rows_come_back_and_keys_are_ordered() {
        let row =
            |host: &'static str, at| [host.into(), Time::from_micros(at).into(), Literal::Null, Literal::from("hello")];
        let (first, cells) = schema().encode(&row("a", -1)).unwrap();
        let (second, _) = schema().encode(&row("a", 1)).unwrap();
        let (third, _) = schema().encode(&row("aa", -5)).unwrap();
        assert!(first < second && second < third);
        assert_eq!(schema().decode(&cells).unwrap(), row("a", -1));
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_by_name() {
        let wrong = [Literal::Null, Time::EPOCH.into(), Literal::Null, Literal::Null];
        let error = schema().encode(&wrong).unwrap_err();
        assert_eq!(error, RuntimeError::Type { column: "host".into(), expected: "text", nullable: false });
        assert_eq!(schema().encode(&wrong[..2]).unwrap_err(), RuntimeError::Count { expected: 4, found: 2 });
        assert!(schema().decode(&[3, 2, 0, 0]).is_err());
    }
}
