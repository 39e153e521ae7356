//! Rows as JSON.

mod rows;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use rows::ROW_SEPARATOR;
pub use rows::{JsonRow, JsonRows, ObjectWriter, Part};
pub(crate) use text::{put_hexadecimal, put_text, put_unsigned};
