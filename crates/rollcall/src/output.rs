//! Writing to standard output, which may be closed by who reads it.

use std::io::{Write, stdout};

use crate::failure::Failure;

/// Writes a whole text.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes what may be no text.
pub fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|error| Failure::output(&error))
}

/// Writes a text and ends its line.
pub fn print_line(text: &str) -> Result<(), Failure> {
    print(&format!("{text}\n"))
}
