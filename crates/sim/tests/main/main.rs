//! The simulated disk keeps its own promises, and the log reader bears the stored corpus.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod corpus;
mod disk;
