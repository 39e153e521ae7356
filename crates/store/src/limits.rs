//! The limits of a store, each with its default.

/// Limits of a store; all are bytes or counts that do not depend on how many readers there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// The most rows one command may change.
    pub command_rows_max: usize,
    /// The most bytes of rows one command may write.
    pub command_bytes_max: usize,
    /// Bytes of page encodings that are kept.
    pub encoding_bytes_max: usize,
    /// Bytes of row changes that watchers can still ask for.
    pub watch_bytes_max: usize,
    /// Bytes of old versions that are kept for `AS OF`.
    pub retained_bytes_max: usize,
    /// Bytes of rows at which an append table drops its oldest page.
    pub append_table_bytes_max: usize,
}

impl Default for StoreLimits {
    fn default() -> Self {
        StoreLimits {
            command_rows_max: 4096,
            command_bytes_max: 8 << 20,
            encoding_bytes_max: 256 << 20,
            watch_bytes_max: 64 << 20,
            retained_bytes_max: 64 << 20,
            append_table_bytes_max: 64 << 20,
        }
    }
}
