//! `cargo +nightly fuzz run where`: conditions on tasks out of foreign text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| rollcall_wire_native::fuzz_where(bytes));
