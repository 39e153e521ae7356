//! # server: the threads and sockets around the store
//!
//! ## Model
//!
//! ```text
//! doors, planner, agents ──command──► writer thread ──prepared batch──► log thread ──publish──► answers
//!                                     runs commands                     append, fdatasync        │
//! loops, sessions, watchers ◄──────────────────────── newest version ────────────────────────────┘
//! ```
//!
//! - `writer` owns the store's `Writer`: it takes whatever commands wait, at most a batch, and prepares one commit. While the log
//!   thread waits for the disk, the next batch is prepared.
//! - The log thread owns the `Log`: it appends, publishes, answers, in this order; it writes idle records, makes segments ready, and has
//!   checkpoints written beside it.
//! - `storage` opens a data folder: it locks, checks, loads.
//! - `loops` waits for changes: one sends the planner's decisions, one keeps history within its bounds.
//! - `sessions` is the server's side of an agent: wanted state out of the rows of `tasks`, its words back into commands, and the way to its logs.
//! - `doors` is HTTP: a guard, a router, a listener with limits; what bytes mean is the wire rooms' affair.
//! - [`Server`] puts them together, and ends them in the order in which nothing is lost: placing, tasks, doors, log.
//!
//! ## Invariants
//!
//! - No answer leaves before the batch it belongs to is as durable as its tables ask for, and visible.
//! - After a failed append nothing of that batch, nor of a batch prepared on top of it, is visible or answered as done.
//! - Doors open only when what an earlier run of the daemon left is settled.
//! - A loop reads the newest version before it looks at a snapshot, so no change is missed; it makes a bounded number of changes a round.
//! - What an agent said is kept until the disk has taken it; what it said before changes nothing.
//! - Nobody is waited for: not a slow reader of rows, logs or changes, nor a client that never ends its request.
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
pub use writer::{
    BATCH_COMMANDS_MAX, WRITE_QUEUE_MAX, WriteCounts, WriteError, WriterHandle, WriterSettings, WriterThreads,
};
