//! A row with a column of every type, for tests.

use rollcall_schema::{
    ColumnType, ColumnValue, Enumeration, FieldError, NamePool, Nested, NestedSchema, Row, Time, Unknown, Value,
};
use rollcall_store::{Store, StoreLimits, Writer};
use std::sync::Arc;

/// A word that needs escaping, one that does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
pub enum Colour {
    /// Red.
    #[word(number = 1)]
    Red,
    /// Odd.
    #[word(number = 2, text = "it's \"odd\"")]
    Odd,
}

/// Notes: pairs of a text and a number, either of which may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Notes(pub Vec<(Option<String>, Option<i64>)>);

static NOTES: NestedSchema =
    NestedSchema { fields: &[("text", "A text.", ColumnType::Text), ("number", "A number.", ColumnType::Signed)] };

impl Nested for Notes {
    fn nested_schema(&self) -> &'static NestedSchema {
        &NOTES
    }
    fn count(&self) -> usize {
        self.0.len()
    }
    fn field(&self, record: usize, field: usize) -> Value<'_> {
        match (self.0.get(record), field) {
            (Some((Some(text), _)), 0) => Value::Text(text),
            (Some((_, Some(number))), 1) => Value::Signed(*number),
            _ => Value::Null,
        }
    }
}

impl ColumnValue for Notes {
    const TYPE: ColumnType = ColumnType::Nested(&NOTES);
    fn value(&self) -> Value<'_> {
        Value::Nested(self)
    }
    /// Never stored in these tests.
    fn encode(&self, _out: &mut Vec<u8>) {}
    fn decode(_bytes: &[u8], _names: &mut NamePool) -> Result<Self, FieldError> {
        Ok(Notes::default())
    }
}

/// A row with a column of every type.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(table = "everything", number = 77, partition(flag), index(name = "text", columns(text)))]
pub struct Everything {
    /// A boolean.
    #[row(tag = 1)]
    pub flag: bool,
    /// Unsigned.
    #[row(tag = 2)]
    pub count: u64,
    /// Signed.
    #[row(tag = 3)]
    pub balance: i64,
    /// A time.
    #[row(tag = 4)]
    pub at: Time,
    /// An enumeration.
    #[row(tag = 5)]
    pub colour: Colour,
    /// An identifier.
    #[row(tag = 6)]
    pub id: u128,
    /// Text.
    #[row(tag = 7)]
    pub text: String,
    /// Bytes.
    #[row(tag = 8)]
    pub data: Vec<u8>,
    /// A list.
    #[row(tag = 9)]
    pub notes: Notes,
    /// Text or nothing.
    #[row(tag = 10)]
    pub maybe_text: Option<String>,
    /// A number or nothing.
    #[row(tag = 11)]
    pub maybe_count: Option<u32>,
    /// A time or nothing.
    #[row(tag = 12)]
    pub maybe_at: Option<Time>,
    /// Fields of a later version.
    #[row(unknown)]
    pub unknown: Unknown,
}

impl Everything {
    /// A row to change a field of.
    pub fn example() -> Everything {
        Everything {
            flag: true,
            count: 0,
            balance: -1,
            at: Time::EPOCH,
            colour: Colour::Red,
            id: 0,
            text: String::new(),
            data: Vec::new(),
            notes: Notes::default(),
            maybe_text: None,
            maybe_count: None,
            maybe_at: None,
            unknown: Unknown::default(),
        }
    }
}

/// A store that holds these rows, written in one commit at 1 s.
pub fn store_of(rows: Vec<Everything>) -> (Arc<Store>, Writer) {
    let (store, mut writer) = Store::builder(StoreLimits::default()).table::<Everything>().build();
    let mut batch = writer.begin(Time::from_micros(1_000_000));
    for row in rows {
        batch.attempt(|change| change.insert(row)).expect("the rows fit");
    }
    let prepared = batch.prepare().expect("there are rows");
    writer.publish(prepared);
    (store, writer)
}
