//! The promises of the log, over the real disk and the simulated one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crashes;
mod damage;
mod faults;
mod scripts;
mod server;
mod shared;
