//! # types: the words of Rollcall
//!
//! Ids, rows, states and their legal moves, causes and limits: what every other room talks about, defined once and in one place.
//!
//! ## Model
//!
//! - An **agent** is a host's daemon. A **job** is what an owner wants running; an **instance** is a numbered slot of it; a **task** is one
//!   attempt to fill an instance. A **spec** is what a task runs: shared, immutable, named by its content.
//! - Each is a row: [`AgentRow`], [`JobRow`], [`SpecRow`], [`Task`]. Their schemas are derived from these types, so what a column means
//!   is said here and nowhere else.
//! - A task's [`TaskState`] moves only as [`TaskState::may_become`] allows.
//! - A [`JobFile`] is what an owner writes; [`JobFile::parse`] gives the job or all of its mistakes.
//! - Every state that a person may ask "why?" about carries a [`CauseCode`].
//!
//! ## Never
//!
//! No I/O, no async, no clock: times and identifiers are given.
#![forbid(unsafe_code)]

mod agents;
mod cause;
mod events;
mod expand;
mod ids;
mod job_file;
mod jobs;
mod nearest;
mod state;
mod tasks;
pub mod units;

pub use agents::{AgentRow, AgentState};
pub use cause::CauseCode;
pub use events::{EVENTS_MAX, Event, Events};
pub use expand::{ExpandError, expand};
pub use ids::{AgentName, JobName, Namespace, SpecHash, Uid, UserName};
pub use job_file::{
    COMMAND_WORDS_MAX, CPUS_MAX, Command, DEFAULT_CPUS, DEFAULT_MEMORY_BYTES, DEFAULT_NAMESPACE, DISK_BYTES_MAX,
    ENVIRONMENT_NAMES_MAX, INSTANCES_MAX, JOB_FILE_BYTES_MAX, JobFile, JobFileError, JobFileErrors, MEMORY_BYTES_MAX,
    NAME_CHARACTERS_MAX, Resources, example_web, name_problem,
};
pub use jobs::{JobKind, JobRow, SpecRow};
pub use nearest::nearest;
pub use state::{Section, TaskState};
pub use tasks::Task;

pub use rollcall_schema::SharedText;

#[cfg(test)]
mod stored_rows;
