//! A host's daemon: keeps what runs here in step with what the server wants.
//!
//! # Model
//!
//! The server and the agent speak in frames over a [`link`]: bounded channels now, length-prefixed messages on a socket
//! later. Wanted state goes one way and is numbered, status comes back and is numbered; both say what *is*, not what to
//! do, so each may be said again:
//!
//! ```text
//! server ──Wanted n, Changed n+1, …──► agent ──► one sandbox per task
//! server ◄──Hello, Status──────────── agent ◄── its states
//! server ◄──log bytes───(second channel)── log readers
//! ```
//!
//! A task goes through [`TaskState`] starting → running → ended once. Asked to run again it does nothing: a new attempt
//! is a new task.
//!
//! # Invariants
//!
//! - At each hello everything is told in full, both ways; what was lost with a session is repaired by the next one.
//! - A task that the server does not name goes on and is reported. A server that forgot everything kills nothing.
//! - A task is started at most once, also over restarts of this daemon: its folder is the mark.
//! - Logs never delay status, and a slow reader of logs delays nobody but itself.
//! - Every queue is bounded; status folds to the newest of each task.
//!
//! # What it never does
//!
//! It does not place, and in this release it does not restart: the server makes a new task. Tasks end with this daemon.

#![forbid(unsafe_code)]

mod agent;
mod clock;
mod frames;
mod host;
mod log_reader;

pub use agent::{Agent, AgentError, Clock, TASKS_MAX};
pub use clock::system_clock;
pub use frames::{
    AgentLink, Ending, FromAgent, Intent, LINK_FRAMES_MAX, LogFrame, LogRequest, LogStart, PROTOCOL, ServerLink,
    Status, TaskSpec, TaskState, TaskUid, ToAgent, WantedTask, link,
};
pub use host::HostFacts;
pub use log_reader::LOG_READERS_MAX;
// What the frames and the settings carry of the sandboxes.
pub use rollcall_sandbox::{OpenError, RoleCommand, Settings as SandboxSettings, Stream, guard_main, stage_main};
