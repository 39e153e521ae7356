//! # wire-native: the native JSON API as bytes
#![forbid(unsafe_code)]

mod condition;
mod json;
mod nearest;
mod tables;
#[cfg(test)]
mod testing;
mod time;

pub use condition::{WHERE_BYTES_MAX, WhereError, WhereErrorKind, fuzz_where, parse_where, print_where};
pub use json::{JsonRow, JsonRows, ObjectWriter, Part};
pub use time::{TimeError, parse_time, put_time};
