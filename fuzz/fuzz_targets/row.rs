//! `cargo +nightly fuzz run row`: stored rows out of foreign bytes, of the tables of the store's tests and of the product.
#![no_main]

mod store;

use libfuzzer_sys::fuzz_target;
use rollcall_schema::fuzz_row;
use rollcall_types::{AgentRow, JobRow, SpecRow, Task};

pub use store::{checkpoint, generator, model, oracle, rows, world};

fuzz_target!(|bytes: &[u8]| {
    store::fuzz::fuzz_row(bytes);
    fuzz_row::<Task>(bytes);
    fuzz_row::<JobRow>(bytes);
    fuzz_row::<AgentRow>(bytes);
    fuzz_row::<SpecRow>(bytes);
});
