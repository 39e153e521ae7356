//! Limits that every room shares.

/// The longest name of a job or a namespace, in bytes.
pub const NAME_BYTES_MAX: usize = 63;

/// The largest text of a spec that lies in a row; a larger one is a blob.
pub const SPEC_BYTES_MAX: usize = 16 * 1024;
