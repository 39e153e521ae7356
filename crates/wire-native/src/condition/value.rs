//! Values of a condition: what each type of column is compared with.

use crate::time::{TIME_EXAMPLE, parse_time};
use rollcall_schema::{ColumnSchema, ColumnType, Literal};
use rollcall_types::nearest;
use std::borrow::Cow;

/// A value as it was written.
#[derive(Clone, Copy, Debug)]
pub(super) enum Offered<'t> {
    Boolean(bool),
    Number(&'t str),
    Text(&'t str),
}

/// What is wrong with a value, and what to do (empty if there is nothing to say).
type Refusal = (String, String);

/// The value as one of the column's type.
pub(super) fn literal(column: &ColumnSchema, offered: Offered<'_>) -> Result<Literal<'static>, Refusal> {
    match (column.column_type, offered) {
        (ColumnType::Boolean, Offered::Boolean(value)) => Ok(Literal::Boolean(value)),
        (ColumnType::Unsigned, Offered::Number(digits)) => match digits.strip_prefix('-') {
            Some(_) => Err((format!("`{}` is never negative", column.name), String::new())),
            None => digits.parse().map(Literal::Unsigned).map_err(|_| too_large(digits, u64::MAX)),
        },
        (ColumnType::Signed, Offered::Number(digits)) => {
            digits.parse().map(Literal::Signed).map_err(|_| too_large(digits, i64::MAX))
        }
        (ColumnType::Text, Offered::Text(text)) => Ok(Literal::Text(Cow::Owned(text.to_owned()))),
        (ColumnType::Time, Offered::Text(text)) => {
            parse_time(text).map(Literal::Time).map_err(|error| (error.to_string(), String::new()))
        }
        (ColumnType::Enumeration(words), Offered::Text(text)) => word(column, words, text),
        (ColumnType::Identifier, Offered::Text(text)) => hexadecimal(text)
            .and_then(|bytes| bytes.try_into().ok())
            .map(|bytes| Literal::Identifier(u128::from_be_bytes(bytes)))
            .ok_or_else(|| (format!("`{}` is 32 hexadecimal digits, 0-9 and a-f", column.name), String::new())),
        (ColumnType::Bytes, Offered::Text(text)) => text
            .strip_prefix("\\x")
            .and_then(hexadecimal)
            .map(|bytes| Literal::Bytes(Cow::Owned(bytes)))
            .ok_or_else(|| (format!("`{}` holds bytes: write them as '\\x00ff'", column.name), String::new())),
        (ColumnType::Nested(_), _) => Err((
            format!("`{}` is a list; comparing lists is not yet supported", column.name),
            "ask whether it is null, or read it in the answer".to_owned(),
        )),
        (column_type, _) => Err((
            format!("`{}` is of type {} and cannot be compared with this", column.name, column_type.word()),
            format!("for example: {}", example(column_type)),
        )),
    }
}

fn too_large(digits: &str, most: impl std::fmt::Display) -> Refusal {
    (format!("{digits} is too large"), format!("at most {most} is possible"))
}

fn word(column: &ColumnSchema, words: &'static [&'static str], text: &str) -> Result<Literal<'static>, Refusal> {
    if let Some(position) = words.iter().position(|word| *word == text) {
        return Ok(Literal::Enumeration(position as u8));
    }
    let meant = words.iter().copied().find(|word| word.eq_ignore_ascii_case(text));
    let meant = meant.or_else(|| nearest(text, words.iter().copied()));
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    Err((format!("`{}` is never '{text}'{meant}", column.name), words_hint(column)))
}

/// The words of an enumeration column.
pub(super) fn words_hint(column: &ColumnSchema) -> String {
    match column.column_type {
        ColumnType::Enumeration(words) => format!("`{}` is one of: {}", column.name, words.join(", ")),
        _ => String::new(),
    }
}

/// A value of this type as it is written in a condition.
pub(super) fn example(column_type: ColumnType) -> String {
    match column_type {
        ColumnType::Boolean => "true".to_owned(),
        ColumnType::Unsigned | ColumnType::Signed => "42".to_owned(),
        ColumnType::Time => format!("'{TIME_EXAMPLE}'"),
        ColumnType::Enumeration(words) => format!("'{}'", words.first().copied().unwrap_or_default()),
        ColumnType::Identifier => "'0123456789abcdef0123456789abcdef'".to_owned(),
        ColumnType::Text => "'web'".to_owned(),
        ColumnType::Bytes => "'\\x00ff'".to_owned(),
        ColumnType::Nested(_) => "nothing: lists can only be tested with is null".to_owned(),
    }
}

/// The bytes that an even number of hexadecimal digits stands for.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?)).collect()
}
