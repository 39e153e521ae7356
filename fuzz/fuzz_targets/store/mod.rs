//! The modules of the store's tests that fuzz targets call. They name each other from the top of their crate, so a target shows them there.
// The tests of these modules need more of them than a fuzzer does.
#![allow(dead_code, unused_imports)]

#[path = "../../../crates/store/tests/checkpoint.rs"]
pub mod checkpoint;
#[path = "../../../crates/store/tests/fuzz.rs"]
pub mod fuzz;
#[path = "../../../crates/store/tests/generator.rs"]
pub mod generator;
#[path = "../../../crates/store/tests/model.rs"]
pub mod model;
#[path = "../../../crates/store/tests/oracle.rs"]
pub mod oracle;
#[path = "../../../crates/store/tests/rows.rs"]
pub mod rows;
#[path = "../../../crates/store/tests/world.rs"]
pub mod world;
