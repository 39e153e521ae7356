//! The tests of the store: everything that it keeps is compared with models that are plain lists and maps.
//!
//! Random tests run a fixed set of seeds and name the seed when they fail; `STORE_TEST_SEED=n` runs that seed alone.

// A test that cannot go on has failed, and the place of the unwrap says where.
#![allow(clippy::unwrap_used)]

mod allocations;
mod allocator;
mod changes;
mod checkpoint;
mod encodings;
mod fuzz;
mod generator;
mod history;
mod limits;
mod model;
mod oracle;
mod queries;
mod rows;
mod watch;
mod world;
