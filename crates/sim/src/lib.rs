//! A clock, a source of chance and a disk that tests command: the log's own code runs on them unchanged.
//!
//! # Model
//!
//! [`SimulatedDisk`] keeps two pictures of each file and folder: what a running process sees, and what would be found
//! after a power cut. A write changes the first; a sync moves it to the second. [`SimulatedDisk::power_cut`] throws the
//! first away and keeps of the unsynced writes whatever its generator draws: none, all, some writes, some 512-byte
//! sectors or some bytes of each. The same goes for names until their folder is synced. [`SimulatedDisk::kill`] ends
//! the process alone.
//!
//! Every call that changes something has a number. A [`Fault`] planted at a number makes that call crash the machine
//! or fail, part of its work done. After a failed sync the unsynced writes are lost, or some of them are, yet a
//! running process goes on to see them, as real kernels do. All calls can be recorded in order, with marks of the
//! test's own between them.
//!
//! Everything follows from the seed: the same seed and the same calls give the same disk.
//!
//! # Never
//!
//! No real time, no real randomness, no real file.

#![forbid(unsafe_code)]

mod clock;
mod disk;
mod disk_state;
mod fuzz;
mod random;
mod trace;

pub use crate::clock::VirtualClock;
pub use crate::disk::SimulatedDisk;
pub use crate::disk::SimulatedFile;
pub use crate::disk::SimulatedLock;
pub use crate::disk_state::Fault;
pub use crate::fuzz::fuzz_log_reader;
pub use crate::random::Random;
pub use crate::trace::Call;
pub use crate::trace::CallKind;
