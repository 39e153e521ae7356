//! # server: the threads and sockets around the store
//!
//! ## Model
//!
//! ```text
//! doors, planner, agents ──command──► writer thread ──prepared batch──► log thread ──publish──► answers
//!                                     runs commands                     append, fdatasync
//! ```
//!
//! - `writer` owns the store's `Writer`: it takes whatever commands wait, at most a batch, and prepares one commit. While the log
//!   thread waits for the disk, the next batch is prepared.
//! - The log thread owns the `Log`: it appends, publishes, answers, in this order; it writes idle records, makes segments ready, and has
//!   checkpoints written beside it.
//! - `storage` opens a data folder: it locks, checks, loads.
//!
//! ## Invariants
//!
//! - No answer leaves before the batch it belongs to is as durable as its tables ask for, and visible.
//! - After a failed append nothing of that batch, nor of a batch prepared on top of it, is visible or answered as done.
//!
//! ## Never
//!
//! Protocol details live in the `wire-*` rooms, decisions in `commands` and `planner`.
#![forbid(unsafe_code)]

mod clock;
mod doors;
mod loops;
mod pipeline;
mod random;
mod server;
mod sessions;
mod specs;
mod storage;
mod tables;
mod writer;

pub use clock::now;
pub use rollcall_commands::HistoryBounds;
pub use server::{RunningServer, ServeError, Server, ServerSettings, StartError};
pub use sessions::SessionError;
pub use storage::{Opened, StorageError, open};
pub use tables::builder;
pub use writer::{BATCH_COMMANDS_MAX, WRITE_QUEUE_MAX, WriteCounts, WriteError, WriterHandle, WriterSettings, WriterThreads};
