//! Rows as JSON objects, by their schema.

use super::text::{put_identifier, put_inside, put_signed, put_text, put_unsigned};
use crate::time::put_time;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rollcall_schema::{ColumnType, Nested, Row, Value};
use rollcall_store::{Encoder, Fragments, Page, RowNumber, Unchanged, Version};
use std::marker::PhantomData;

/// A row that the native API shows. Tables implement it, most with nothing in it.
pub trait JsonRow: Row {
    /// Fields of the object that are no columns, with what they mean; all are texts.
    const EXTRA: &'static [(&'static str, &'static str)] = &[];

    /// Writes the fields of [`JsonRow::EXTRA`].
    fn put_extra(&self, object: &mut ObjectWriter<'_>) {
        let _ = object;
    }
}

/// Writes fields that are no columns into the object of a row.
pub struct ObjectWriter<'o> {
    out: &'o mut Vec<u8>,
}

/// A part of a text.
#[derive(Clone, Copy, Debug)]
pub enum Part<'t> {
    /// Text.
    Text(&'t str),
    /// A number in decimal digits.
    Number(u64),
}

impl ObjectWriter<'_> {
    /// Writes a field whose text is these parts one behind the other, without putting them together first.
    pub fn text(&mut self, name: &str, parts: &[Part<'_>]) {
        put_key(self.out, name);
        self.out.push(b'"');
        for part in parts {
            match part {
                Part::Text(text) => put_inside(self.out, text),
                Part::Number(number) => put_unsigned(self.out, *number),
            }
        }
        self.out.push(b'"');
    }
}

/// What stands before each row in a fragment. Fragments of any rows can be put one behind the other; whoever does so leaves out the
/// first byte, the comma, once.
pub(crate) const ROW_SEPARATOR: &[u8] = b",\n";

/// The encoder of a table's rows: each one JSON object on a line of its own, as the front page of this crate describes it.
#[derive(Debug)]
pub struct JsonRows<R> {
    /// The column names as they stand in an object, one behind the other: `,"uid":,"namespace":`.
    keys: Vec<u8>,
    /// Where the name of each column ends.
    ends: Vec<usize>,
    row: PhantomData<fn() -> R>,
}

impl<R: JsonRow> Default for JsonRows<R> {
    fn default() -> Self {
        JsonRows::new()
    }
}

impl<R: JsonRow> JsonRows<R> {
    /// The encoder of rows of type `R`. It costs two allocations and may live as long as you like.
    pub fn new() -> JsonRows<R> {
        let columns = R::schema().columns;
        let mut rows = JsonRows {
            keys: Vec::with_capacity(columns.len() * 16),
            ends: Vec::with_capacity(columns.len()),
            row: PhantomData,
        };
        for column in columns {
            put_key(&mut rows.keys, column.name);
            rows.ends.push(rows.keys.len());
        }
        rows
    }

    /// Appends the object of one row: its number, the version that last changed it, the extra fields, then the columns that have a value.
    pub fn put_row(&self, out: &mut Vec<u8>, number: RowNumber, changed: Version, row: &R) {
        out.extend_from_slice(b"{\"row\":");
        put_unsigned(out, number.0);
        out.extend_from_slice(b",\"version\":");
        put_unsigned(out, changed.0);
        row.put_extra(&mut ObjectWriter { out });
        let mut start = 0;
        for (position, (column, end)) in R::schema().columns.iter().zip(&self.ends).enumerate() {
            let value = row.value(position);
            if !value.is_null() {
                out.extend_from_slice(&self.keys[start..*end]);
                put_value(out, value, &column.column_type);
            }
            start = *end;
        }
        out.push(b'}');
    }
}

impl<R: JsonRow> Encoder<R> for JsonRows<R> {
    type Encoded = Fragments;

    fn encode(&self, page: &Page<R>, unchanged: &Unchanged<'_, Fragments>) -> Fragments {
        Fragments::splice(page, unchanged, |position, out| {
            let stored = &page.rows()[position];
            out.extend_from_slice(ROW_SEPARATOR);
            self.put_row(out, page.number(position), stored.changed, &stored.row);
        })
    }

    fn bytes(&self, encoded: &Fragments) -> usize {
        encoded.bytes.capacity() + encoded.ends.capacity() * size_of::<u32>() + size_of::<Fragments>()
    }
}

/// Appends `,"name":`.
fn put_key(out: &mut Vec<u8>, name: &str) {
    out.push(b',');
    put_text(out, name);
    out.push(b':');
}

/// Appends a value that is not null; null is never written.
#[inline]
fn put_value(out: &mut Vec<u8>, value: Value<'_>, column_type: &ColumnType) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Boolean(true) => out.extend_from_slice(b"true"),
        Value::Boolean(false) => out.extend_from_slice(b"false"),
        Value::Unsigned(number) => put_unsigned(out, number),
        Value::Signed(number) => put_signed(out, number),
        Value::Time(time) => {
            out.push(b'"');
            put_time(out, time);
            out.push(b'"');
        }
        Value::Enumeration(word) => match column_type {
            ColumnType::Enumeration(words) => put_text(out, words.get(usize::from(word)).copied().unwrap_or_default()),
            // INVARIANT: the schema and the values of a row are derived from one type.
            _ => put_unsigned(out, u64::from(word)),
        },
        Value::Identifier(identifier) => put_identifier(out, identifier),
        Value::Text(text) => put_text(out, text),
        Value::Bytes(bytes) => put_text(out, &STANDARD.encode(bytes)),
        Value::Nested(records) => put_records(out, records),
    }
}

/// Appends a list of records as an array of objects.
fn put_records(out: &mut Vec<u8>, records: &dyn Nested) {
    let schema = records.nested_schema();
    out.push(b'[');
    for record in 0..records.count() {
        if record > 0 {
            out.push(b',');
        }
        out.push(b'{');
        let start = out.len();
        for (position, (name, _, column_type)) in schema.fields.iter().enumerate() {
            let value = records.field(record, position);
            if value.is_null() {
                continue;
            }
            if out.len() > start {
                out.push(b',');
            }
            out.push(b'"');
            put_inside(out, name);
            out.extend_from_slice(b"\":");
            put_value(out, value, column_type);
        }
        out.push(b'}');
    }
    out.push(b']');
}
