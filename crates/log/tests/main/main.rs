//! The promises of the log, over the real disk and the simulated one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crashes;
mod scripts;
mod server;
