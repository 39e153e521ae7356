//! The one place of the server that draws random numbers.

use rustix::rand::{GetRandomFlags, getrandom};

/// A number from the operating system that nobody can guess.
///
/// # Errors
/// If the system gives none.
pub(crate) fn random() -> std::io::Result<u128> {
    let mut bytes = [0; 16];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty())?;
    // So few bytes come at once or not at all.
    if filled == bytes.len() { Ok(u128::from_ne_bytes(bytes)) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) }
}
