//! # planner: which agent runs what, and why not
//!
//! Pure decisions from a snapshot. The server runs a round after a change, sends the decisions as commands, and runs the next one.
//!
//! ## Model
//!
//! ```text
//! snapshot ──plan──► Place(task, agent)      the agent with the most left over afterwards
//!                └─► Explain(task, cause)    no agent fits: the cause code and a sentence with the figures
//! ```
//!
//! - What an agent has free is its row minus the rollup `by_agent` of the tasks given to it, kept up to date within the round.
//! - Pending tasks are taken in the order in which they were made.
//! - A decision carries the version it was made from; the command checks again whether it still holds.
//!
//! ## Invariants
//!
//! - The same snapshot gives the same decisions.
//! - A round makes at most [`DECISIONS_MAX`] decisions. A sentence that a row has already is no decision, so rounds come to rest.
//!
//! ## Never
//!
//! No I/O, no clock, no randomness, no state between rounds.
#![forbid(unsafe_code)]

mod capacity;
mod plan;

pub use plan::{DECISIONS_MAX, Decision, plan};

#[cfg(test)]
mod tests;
