//! Conditions as text: what `where` of the API and `--where` of the command line take.

mod parse;
mod print;
#[cfg(test)]
pub(crate) mod strategies;
#[cfg(test)]
mod tests;
mod token;
mod value;

pub use parse::parse_where;
pub use print::print_where;

use rollcall_schema::{Row, TableSchema};
use thiserror::Error;

/// The longest text of a condition.
pub const WHERE_BYTES_MAX: usize = 8 * 1024;

/// What kind of mistake a condition has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhereErrorKind {
    /// The words are not in an order that means something.
    Syntax,
    /// The table has no such column.
    NoColumn,
    /// The value or the operator does not fit the column.
    WrongValue,
    /// It means something that cannot be asked yet.
    NotSupported,
    /// It is too long, too deep, or has too many terms.
    TooLarge,
}

/// What is wrong with a condition, and where.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct WhereError {
    /// What kind of mistake it is.
    pub kind: WhereErrorKind,
    /// What is wrong, without position.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where it starts, in bytes from the start of the text.
    pub offset: usize,
    /// The same in characters, the first being 1: what people count.
    pub column: usize,
}

impl WhereError {
    fn at(text: &str, offset: usize, kind: WhereErrorKind, message: String) -> WhereError {
        let column = text.get(..offset).map_or(1, |before| before.chars().count() + 1);
        WhereError { kind, message, hint: None, offset, column }
    }

    fn hint(mut self, hint: impl Into<String>) -> WhereError {
        self.hint = Some(hint.into());
        self
    }
}

/// The columns that can be asked for.
pub(crate) fn columns_hint(schema: &'static TableSchema) -> String {
    let names: Vec<_> = schema.columns.iter().map(|column| column.name).collect();
    format!("columns of {}: {}", schema.name, names.join(", "))
}

/// What a fuzzer calls: whatever the bytes are, reading them as a condition on tasks gives an error that points into the text, or a
/// condition that is within the limits and comes back from its own text.
///
/// # Panics
/// If that is not so.
pub fn fuzz_where(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let schema = rollcall_types::Task::schema();
    match parse_where(&text, schema) {
        Ok(condition) => {
            assert_eq!(condition.check(schema), Ok(()), "{text}");
            let printed = print_where(&condition, schema);
            // The printed form may be longer than what was read: `!=` for `<>`, spaces, whole times.
            if printed.len() <= WHERE_BYTES_MAX {
                assert_eq!(parse_where(&printed, schema), Ok(condition), "{text} printed as {printed}");
            }
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.offset), "{error:?} does not point into {text}");
            assert!(!error.message.is_empty(), "{text}");
        }
    }
}
