//! Cursors as text: where a page of results ended, for the parameter `after`.
//!
//! ```text
//! cursor := format (1 byte)  table (varint)  order (2 bytes)  condition (4 bytes)  value*  row number (varint)
//! value  := 00 if there is none, else 01 and: boolean, word 1 byte; unsigned varint; signed, time 8 bytes; identifier 16 bytes;
//!           text, bytes a varint length and so many bytes
//! ```
//!
//! `order` and `condition` are the last bytes of a hash of their texts: enough to tell a mistake, and no protection, which is not needed,
//! since a cursor says only where to go on and never what may be seen. The text is URL-safe base64 without padding.

use crate::condition::print_where;
use crate::sort::print_sort;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rollcall_schema::codec::{put_varint, take_bytes, take_varint};
use rollcall_schema::{ColumnType, Literal, TableSchema, Time};
use rollcall_store::{Condition, Cursor, RowNumber, Sort};
use std::borrow::Cow;
use thiserror::Error;

/// The longest cursor, in bytes of its text.
pub const CURSOR_BYTES_MAX: usize = 4 * 1024;

/// The first byte of every cursor. Another layout gets another number.
const FORMAT: u8 = 1;

/// The query that a cursor belongs to.
#[derive(Clone, Copy, Debug)]
pub struct CursorScope<'a> {
    /// The table.
    pub schema: &'static TableSchema,
    /// The order; empty for the order of row numbers.
    pub sorts: &'a [Sort],
    /// The condition.
    pub condition: Option<&'a Condition<'static>>,
}

/// Why a text is not a cursor of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CursorError {
    /// It was not made here, or was cut or changed on the way.
    #[error("this is no cursor; give back `next` of the answer before, as it came")]
    NotACursor,
    /// A later version made it.
    #[error("this cursor was made by another version of rollcall; leave it out to start from the beginning")]
    OtherFormat,
    /// It belongs to another table.
    #[error("this cursor belongs to another table than {0}; leave it out to start from the beginning")]
    OtherTable(&'static str),
    /// It belongs to a query with another order.
    #[error("this cursor belongs to a query with another sort; give the same one, or leave the cursor out")]
    OtherSort,
    /// It belongs to a query with another condition.
    #[error("this cursor belongs to a query with another where; give the same one, or leave the cursor out")]
    OtherWhere,
    /// It would be longer than [`CURSOR_BYTES_MAX`].
    #[error(
        "the values of the sort columns are too long to continue from; sort by shorter columns, or ask without limit"
    )]
    TooLong,
}

/// The text of a cursor.
///
/// # Errors
/// If it would be too long.
pub fn print_cursor(scope: CursorScope<'_>, cursor: &Cursor) -> Result<String, CursorError> {
    let mut bytes = Vec::with_capacity(64);
    bytes.push(FORMAT);
    put_varint(&mut bytes, u64::from(scope.schema.number));
    bytes.extend_from_slice(&scope.order_hash());
    bytes.extend_from_slice(&scope.condition_hash());
    for value in &cursor.values {
        put_value(&mut bytes, value);
    }
    put_varint(&mut bytes, cursor.number.0);
    if bytes.len() > CURSOR_BYTES_MAX / 4 * 3 {
        return Err(CursorError::TooLong);
    }
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Reads a cursor of this query.
///
/// # Errors
/// If it is none, or one of another query.
pub fn parse_cursor(scope: CursorScope<'_>, text: &str) -> Result<Cursor, CursorError> {
    if text.len() > CURSOR_BYTES_MAX {
        return Err(CursorError::NotACursor);
    }
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| CursorError::NotACursor)?;
    let rest = &mut bytes.as_slice();
    if take::<1>(rest)? != [FORMAT] {
        return Err(CursorError::OtherFormat);
    }
    if take_varint(rest).ok_or(CursorError::NotACursor)? != u64::from(scope.schema.number) {
        return Err(CursorError::OtherTable(scope.schema.name));
    }
    if take(rest)? != scope.order_hash() {
        return Err(CursorError::OtherSort);
    }
    if take(rest)? != scope.condition_hash() {
        return Err(CursorError::OtherWhere);
    }
    let types = scope.sorts.iter().map(|sort| scope.schema.columns.get(sort.column).map(|column| column.column_type));
    let values = types.map(|column_type| take_value(rest, column_type)).collect::<Option<Vec<_>>>();
    let number = take_varint(rest).map(RowNumber).filter(|number| *number <= RowNumber::MAX && rest.is_empty());
    match (values, number) {
        (Some(values), Some(number)) => Ok(Cursor { values, number }),
        _ => Err(CursorError::NotACursor),
    }
}

impl CursorScope<'_> {
    fn order_hash(&self) -> [u8; 2] {
        let [.., first, second] = hash(&print_sort(self.sorts, self.schema));
        [first, second]
    }

    fn condition_hash(&self) -> [u8; 4] {
        let text = self.condition.map(|condition| print_where(condition, self.schema));
        let [_, _, _, _, bytes @ ..] = hash(text.as_deref().unwrap_or_default());
        bytes
    }
}

/// The 64-bit FNV-1a hash: the same on every machine and in every version.
fn hash(text: &str) -> [u8; 8] {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    text.bytes().fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME)).to_be_bytes()
}

fn put_value(out: &mut Vec<u8>, value: &Literal<'_>) {
    out.push(u8::from(!matches!(value, Literal::Null)));
    let mut put_long = |bytes: &[u8]| {
        put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    };
    match value {
        Literal::Null => {}
        Literal::Text(text) => put_long(text.as_bytes()),
        Literal::Bytes(bytes) => put_long(bytes),
        Literal::Boolean(value) => out.push(u8::from(*value)),
        Literal::Enumeration(value) => out.push(*value),
        Literal::Unsigned(value) => put_varint(out, *value),
        Literal::Signed(value) => out.extend_from_slice(&value.to_be_bytes()),
        Literal::Time(value) => out.extend_from_slice(&value.micros().to_be_bytes()),
        Literal::Identifier(value) => out.extend_from_slice(&value.to_be_bytes()),
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N], CursorError> {
    take_array(bytes).ok_or(CursorError::NotACursor)
}

fn take_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    take_bytes(bytes, N as u64).and_then(|bytes| bytes.try_into().ok())
}

fn take_value(bytes: &mut &[u8], column_type: Option<ColumnType>) -> Option<Literal<'static>> {
    match take_array(bytes)? {
        [0] => return Some(Literal::Null),
        [1] => {}
        _ => return None,
    }
    let mut take_long = || take_varint(bytes).and_then(|length| take_bytes(bytes, length));
    Some(match column_type? {
        ColumnType::Text => Literal::Text(Cow::Owned(std::str::from_utf8(take_long()?).ok()?.to_owned())),
        ColumnType::Bytes => Literal::Bytes(Cow::Owned(take_long()?.to_owned())),
        ColumnType::Boolean => match take_array(bytes)? {
            [0] => Literal::Boolean(false),
            [1] => Literal::Boolean(true),
            _ => return None,
        },
        ColumnType::Enumeration(words) => {
            let [word] = take_array(bytes)?;
            if usize::from(word) >= words.len() {
                return None;
            }
            Literal::Enumeration(word)
        }
        ColumnType::Unsigned => Literal::Unsigned(take_varint(bytes)?),
        ColumnType::Signed => Literal::Signed(i64::from_be_bytes(take_array(bytes)?)),
        ColumnType::Time => Literal::Time(Time::from_micros(i64::from_be_bytes(take_array(bytes)?))),
        ColumnType::Identifier => Literal::Identifier(u128::from_be_bytes(take_array(bytes)?)),
        ColumnType::Nested(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{CURSOR_BYTES_MAX, CursorError, CursorScope, parse_cursor, print_cursor};
    use crate::condition::strategies;
    use crate::testing::Everything;
    use crate::{parse_sort, parse_where};
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
    use rollcall_schema::{ColumnType, Literal, Row};
    use rollcall_store::{Cursor, RowNumber, Sort};
    use rollcall_types::{JobRow, Task};

    fn sorted() -> impl Strategy<Value = (Vec<Sort>, Cursor)> {
        let column = (0..Everything::schema().columns.len()).prop_filter("lists have no order", |column| {
            !matches!(Everything::schema().columns[*column].column_type, ColumnType::Nested(_))
        });
        let one = column.prop_flat_map(|column| {
            let value = strategies::literal(Everything::schema().columns[column].column_type);
            (any::<bool>().prop_map(move |falling| Sort { column, falling }), prop_oneof![value, Just(Literal::Null)])
        });
        (prop::collection::vec(one, 0..4), 0..=RowNumber::MAX.0).prop_map(|(columns, number)| {
            let (sorts, values) = columns.into_iter().unzip();
            (sorts, Cursor { values, number: RowNumber(number) })
        })
    }

    proptest! {
        #[test]
        fn a_cursor_comes_back_from_its_text_for_its_own_query_only(
            (sorts, cursor) in sorted(), condition in strategies::condition(), other in strategies::condition(),
        ) {
            let scope = CursorScope { schema: Everything::schema(), sorts: &sorts, condition: Some(&condition) };
            if let Ok(text) = print_cursor(scope, &cursor) {
                assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{text}");
                prop_assert_eq!(parse_cursor(scope, &text), Ok(cursor));
                if condition != other {
                    let other = CursorScope { condition: Some(&other), ..scope };
                    prop_assert_eq!(parse_cursor(other, &text), Err(CursorError::OtherWhere));
                }
                // Cut anywhere, it is refused.
                for cut in 0..text.len() {
                    assert!(parse_cursor(scope, &text[..cut]).is_err(), "{text} cut at {cut}");
                }
            }
        }

        #[test]
        fn no_bytes_do_harm((sorts, cursor) in sorted(), noise in any::<Vec<u8>>(), at in any::<prop::sample::Index>()) {
            let scope = CursorScope { schema: Everything::schema(), sorts: &sorts, condition: None };
            let _ = parse_cursor(scope, &String::from_utf8_lossy(&noise));
            let _ = parse_cursor(scope, &URL_SAFE_NO_PAD.encode(&noise));
            // The head of a real one with noise behind it reaches the values.
            if let Ok(text) = print_cursor(scope, &cursor) {
                let mut bytes = URL_SAFE_NO_PAD.decode(text).unwrap();
                bytes.truncate(at.index(bytes.len()));
                bytes.extend_from_slice(&noise);
                if let Ok(read) = parse_cursor(scope, &URL_SAFE_NO_PAD.encode(&bytes)) {
                    assert!(read.number <= RowNumber::MAX && read.values.len() == sorts.len());
                }
            }
        }
    }

    #[test]
    fn a_cursor_of_another_query_is_refused_with_the_reason() {
        let schema = Task::schema();
        let sorts = parse_sort("-started,job", schema).unwrap();
        let condition = parse_where("job = 'api'", schema).unwrap();
        let scope = CursorScope { schema, sorts: &sorts, condition: Some(&condition) };
        let cursor = Cursor { values: vec![Literal::Null, Literal::from("api")], number: RowNumber(7) };
        let text = print_cursor(scope, &cursor).unwrap();
        let rising = parse_sort("started,job", schema).unwrap();
        let jobs = JobRow::schema();
        for (scope, text, expected) in [
            (scope, text.as_str(), Ok(cursor.clone())),
            (CursorScope { schema: jobs, sorts: &[], condition: None }, &text, Err(CursorError::OtherTable("jobs"))),
            (CursorScope { sorts: &rising, ..scope }, &text, Err(CursorError::OtherSort)),
            (CursorScope { sorts: &[], ..scope }, &text, Err(CursorError::OtherSort)),
            (CursorScope { condition: None, ..scope }, &text, Err(CursorError::OtherWhere)),
            (scope, "", Err(CursorError::NotACursor)),
            (scope, "9Kd2", Err(CursorError::OtherFormat)),
            (scope, "not base64!", Err(CursorError::NotACursor)),
            (scope, &format!("{text}="), Err(CursorError::NotACursor)),
            (scope, &"A".repeat(CURSOR_BYTES_MAX + 1), Err(CursorError::NotACursor)),
        ] {
            assert_eq!(parse_cursor(scope, text), expected, "{text}");
        }
        let bytes = URL_SAFE_NO_PAD.decode(&text).unwrap();
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(parse_cursor(scope, &URL_SAFE_NO_PAD.encode(longer)), Err(CursorError::NotACursor));
        let beyond = Cursor { number: RowNumber(RowNumber::MAX.0 + 1), ..cursor.clone() };
        assert_eq!(parse_cursor(scope, &print_cursor(scope, &beyond).unwrap()), Err(CursorError::NotACursor));
        let by_state = parse_sort("state", schema).unwrap();
        let scope_by_state = CursorScope { sorts: &by_state, ..scope };
        let no_word = Cursor { values: vec![Literal::Enumeration(200)], ..cursor.clone() };
        let text = print_cursor(scope_by_state, &no_word).unwrap();
        assert_eq!(parse_cursor(scope_by_state, &text), Err(CursorError::NotACursor));
        let long = Cursor { values: vec![Literal::Null, Literal::from("a".repeat(CURSOR_BYTES_MAX))], ..cursor };
        assert_eq!(print_cursor(scope, &long), Err(CursorError::TooLong));
    }
}
