//! From a condition to text: the inverse of reading it.

use crate::json::put_hexadecimal;
use crate::time::put_time;
use rollcall_schema::{ColumnType, Literal, TableSchema};
use rollcall_store::{Condition, Operator};

/// The text of a condition, such that [`parse_where`](super::parse_where) reads the same condition from it. Equal conditions have equal texts.
pub fn print_where(condition: &Condition<'_>, schema: &'static TableSchema) -> String {
    let mut out = Vec::new();
    put_condition(&mut out, condition, schema, Within::Nothing);
    // INVARIANT: everything appended is text: names, digits, and literals that were text before.
    String::from_utf8_lossy(&out).into_owned()
}

/// What a condition is a part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Nothing,
    Or,
    And,
    Not,
}

fn put_condition(out: &mut Vec<u8>, condition: &Condition<'_>, schema: &'static TableSchema, within: Within) {
    match condition {
        Condition::Compare { column, operator, value } => {
            put_column(out, *column, schema);
            out.extend_from_slice(match operator {
                Operator::Equal => b" = ",
                Operator::NotEqual => b" != ",
                Operator::Less => b" < ",
                Operator::LessOrEqual => b" <= ",
                Operator::Greater => b" > ",
                Operator::GreaterOrEqual => b" >= ",
            });
            put_literal(out, value, *column, schema);
        }
        Condition::In { column, values } => {
            put_column(out, *column, schema);
            out.extend_from_slice(b" in (");
            for (position, value) in values.iter().enumerate() {
                if position > 0 {
                    out.extend_from_slice(b", ");
                }
                put_literal(out, value, *column, schema);
            }
            out.push(b')');
        }
        Condition::Like { column, pattern } => {
            put_column(out, *column, schema);
            out.extend_from_slice(b" like ");
            put_quoted(out, pattern);
        }
        Condition::IsNull { column } => {
            put_column(out, *column, schema);
            out.extend_from_slice(b" is null");
        }
        // A list directly inside one of its own kind keeps its parentheses, or both would be read as one list.
        Condition::And(parts) => {
            let enclosed = matches!(within, Within::And | Within::Not);
            put_joined(out, parts, schema, (b" and ", Within::And, enclosed));
        }
        Condition::Or(parts) => put_joined(out, parts, schema, (b" or ", Within::Or, within != Within::Nothing)),
        Condition::Not(inner) => {
            out.extend_from_slice(b"not ");
            put_condition(out, inner, schema, Within::Not);
        }
    }
}

fn put_joined(
    out: &mut Vec<u8>,
    parts: &[Condition<'_>],
    schema: &'static TableSchema,
    (joint, within, enclosed): (&[u8], Within, bool),
) {
    if enclosed {
        out.push(b'(');
    }
    for (position, part) in parts.iter().enumerate() {
        if position > 0 {
            out.extend_from_slice(joint);
        }
        put_condition(out, part, schema, within);
    }
    if enclosed {
        out.push(b')');
    }
}

fn put_column(out: &mut Vec<u8>, column: usize, schema: &'static TableSchema) {
    out.extend_from_slice(schema.columns.get(column).map_or("?", |column| column.name).as_bytes());
}

fn put_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'\'');
    for (position, part) in text.split('\'').enumerate() {
        if position > 0 {
            out.extend_from_slice(b"''");
        }
        out.extend_from_slice(part.as_bytes());
    }
    out.push(b'\'');
}

fn put_literal(out: &mut Vec<u8>, value: &Literal<'_>, column: usize, schema: &'static TableSchema) {
    match value {
        Literal::Null => out.extend_from_slice(b"null"),
        Literal::Boolean(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Literal::Unsigned(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Literal::Signed(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Literal::Time(value) => {
            out.push(b'\'');
            put_time(out, *value);
            out.push(b'\'');
        }
        Literal::Enumeration(value) => match schema.columns.get(column).map(|column| column.column_type) {
            Some(ColumnType::Enumeration(words)) => {
                put_quoted(out, words.get(usize::from(*value)).copied().unwrap_or("?"));
            }
            _ => out.extend_from_slice(value.to_string().as_bytes()),
        },
        Literal::Identifier(value) => {
            out.push(b'\'');
            put_hexadecimal(out, &value.to_be_bytes());
            out.push(b'\'');
        }
        Literal::Text(text) => put_quoted(out, text),
        Literal::Bytes(bytes) => {
            out.extend_from_slice(b"'\\x");
            put_hexadecimal(out, bytes);
            out.push(b'\'');
        }
    }
}
