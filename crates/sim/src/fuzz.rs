//! placeholder
/// placeholder
pub fn fuzz_log_reader(_bytes: &[u8]) {}
