//! `cargo +nightly fuzz run log_reader`: the log's reader under foreign bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| rollcall_sim::fuzz_log_reader(bytes));
