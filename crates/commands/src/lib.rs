//! # commands: the only code that writes rows
//!
//! Every change to the store is a [`Command`]: a small value that says what is wanted, is checked against the state it finds, and then changes rows in
//! one transaction or not at all. Doors, the planner and agents all send commands; none of them touches a row.
//!
//! ## Model
//!
//! - A command is pure: what it needs of time comes from the commit, what it needs of chance comes with it.
//! - A command that was decided on an old snapshot (a placement, a report) carries what it relied on and checks it again here.
//! - A report that was applied before is answered again and changes nothing.
//!
//! | command | who sends it | what it does |
//! |---|---|---|
//! | [`SubmitJob`] | doors | makes or changes a job and its tasks |
//! | [`StopJob`] | doors | stops a job or one instance |
//! | [`PlaceTask`] | planner | gives a pending task to an agent |
//! | [`ExplainPending`] | planner | says why a task is still pending |
//! | [`ReportTask`] | agents | says what became of a task |
//! | [`RegisterAgent`] | agents | says what an agent has |
//! | [`LoseTasks`] | agents | ends what an agent that starts anew no longer runs |
//! | [`TrimHistory`] | housekeeping | removes the oldest ended tasks of a namespace beyond its bound |
//!
//! ## Never
//!
//! No I/O, no clock, no randomness of its own; no reading around the store.
#![forbid(unsafe_code)]

mod agents;
mod error;
mod history;
mod jobs;
mod tasks;

pub use agents::{LoseTasks, RegisterAgent};
pub use error::CommandError;
pub use history::{HistoryBounds, TRIMMED_AT_ONCE_MAX, TrimHistory, Trimmed};
pub use jobs::{JobChange, StopJob, Stopped, SubmitJob, Submitted};
pub use tasks::{ExplainPending, PlaceTask, Report, ReportTask};

use rollcall_store::Transaction;

/// One change that is wanted.
pub trait Command {
    /// What is answered when it was done.
    type Answer;

    /// Checks it against the state it finds and makes its changes.
    ///
    /// # Errors
    /// If it cannot be done; what it changed before is then undone by the caller.
    fn apply(self, change: &mut Transaction<'_>) -> Result<Self::Answer, CommandError>;
}

#[cfg(test)]
mod tests;
