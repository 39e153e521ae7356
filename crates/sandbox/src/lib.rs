//! Starts, stops and reads what runs on this machine: for now plain processes.
//!
//! # Model
//!
//! [`Sandboxes`] is one folder of an agent; [`Sandboxes::start`] makes one [`Sandbox`] in it:
//!
//! ```text
//! FOLDER/bin/rollcall       this binary, where the tasks' user can read it; first on every PATH
//! FOLDER/tasks/ID/out, err  what the task wrote; owned by us, so that a task cannot turn them into links
//! FOLDER/tasks/ID/work      where the task runs and its HOME; owned by its user
//! ```
//!
//! Each sandbox has one owner, an actor with three states:
//!
//! ```text
//! starting ──► running ──(stop: SIGTERM, after the grace SIGKILL)──► ended
//!     └──────────(could not start)───────────────────────────────────▲
//! ```
//!
//! A process runs in its own session and process group, with standard input from `/dev/null`, an environment that starts
//! empty, and, when we are root, as an ordinary user without supplementary groups.
//!
//! # Invariants
//!
//! - A group is only signalled while its leader is not yet reaped, so the number cannot mean someone else.
//! - When a sandbox has ended, no process of its group runs; what the main process left behind was killed. (One that the
//!   kernel cannot end within [`KILL_WAIT_MAX`] is logged.)
//! - Ends are learnt from process file descriptors and log growth from inotify; nothing is polled.
//! - A task does not outlive its daemon: a small [`guard`](guard_main) process holds a pipe to it and kills every listed
//!   group when the pipe closes, also after `kill -9`. A process is a [`stage`](stage_main) until it is listed, and runs
//!   nothing of the task before. The shim of a later release turns this around.
//! - No descriptor but 0, 1 and 2 reaches a task.
//!
//! # What it never does
//!
//! It decides nothing: no restarts, no placement. It does not follow a process that leaves its group with `setsid`, does
//! not enforce memory or cpus, and does not bound the size of the logs; control groups and the shim will.

#![forbid(unsafe_code)]

mod actor;
mod folder;
mod group;
mod guard;
mod logs;
mod readable;
mod role;
mod sandboxes;
mod stage;
mod start;
mod user;

pub use actor::{KILL_WAIT_MAX, Outcome, Sandbox, SandboxState};
pub use guard::{GUARDED_GROUPS_MAX, guard_main};
pub use logs::{Chunk, Follow, LAST_LINES_BYTES_MAX, LogError, Logs, READ_BYTES_MAX, Stream};
pub use role::RoleCommand;
pub use sandboxes::{OpenError, SandboxSpec, Sandboxes, Settings};
pub use stage::stage_main;
pub use start::StartError;
pub use user::{User, UserError};
