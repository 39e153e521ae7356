//! Why something is as it is.

use rollcall_schema::Enumeration;

/// The machine-readable part of a cause. Codes of later parts of the product join this list; a number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Enumeration)]
pub enum CauseCode {
    /// The main process ended with a code other than zero.
    #[word(number = 1)]
    ExitNonzero,
    /// The main process was ended by a signal that nobody here sent.
    #[word(number = 2)]
    Signal,
    /// The main process could not be started.
    #[word(number = 3)]
    StartFailed,
    /// Somebody stopped the job or the task.
    #[word(number = 4)]
    StoppedBy,
    /// No agent is there to run it.
    #[word(number = 5)]
    NoAgents,
    /// The daemon that ran it ended, and the task with it.
    #[word(number = 6)]
    AgentLost,
    /// A newer spec of the job took its place.
    #[word(number = 7)]
    Superseded,
    /// No agent has enough free for it.
    #[word(number = 8)]
    NoFit,
}
