//! The row of an agent.

use crate::{AgentName, Namespace};
use rollcall_schema::{Enumeration, Row, Time, Unknown};

/// What is known of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Enumeration)]
pub enum AgentState {
    /// It is in touch and takes tasks.
    #[word(number = 1)]
    Ready,
    /// Nothing was heard of it for too long.
    #[word(number = 2)]
    Lost,
}

/// A host's daemon.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(table = "agents", number = 4, partition(namespace), index(name = "agent", columns(agent), unique))]
pub struct AgentRow {
    /// Its name.
    #[row(tag = 1)]
    pub agent: AgentName,
    /// Always `cluster`: an agent belongs to nobody.
    #[row(tag = 2)]
    pub namespace: Namespace,
    /// What is known of it.
    #[row(tag = 3)]
    pub state: AgentState,
    /// Processors it has, in thousandths.
    #[row(tag = 4)]
    pub cpus_thousandths: u32,
    /// Memory it has, in bytes.
    #[row(tag = 5)]
    pub memory_bytes: u64,
    /// Disk space it has for tasks, in bytes.
    #[row(tag = 6)]
    pub disk_bytes: u64,
    /// When it first joined.
    #[row(tag = 7)]
    pub joined: Time,
    /// Fields of a later version.
    #[row(unknown)]
    pub unknown: Unknown,
}
