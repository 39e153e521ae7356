//! `cargo +nightly fuzz run record`: records and chunks of checkpoints out of foreign bytes, and a store out of what was read.
#![no_main]

mod store;

use libfuzzer_sys::fuzz_target;

pub use store::{checkpoint, generator, model, oracle, rows, world};

fuzz_target!(|bytes: &[u8]| store::fuzz::fuzz_record(bytes));
