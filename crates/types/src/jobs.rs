//! The rows of jobs and of what they run.

use crate::{JobName, Namespace, SpecHash, Uid, UserName};
use rollcall_schema::{Enumeration, Row, SharedText, Time, Unknown};
use serde::{Deserialize, Serialize};

/// How a job is meant to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Enumeration, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// It is kept running.
    #[default]
    #[word(number = 1)]
    Service,
    /// It runs to its end.
    #[word(number = 2)]
    Batch,
}

/// What an owner wants running.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(
    table = "jobs",
    number = 2,
    partition(namespace),
    index(name = "namespace+job", columns(namespace, job), unique),
    index(name = "job", columns(job))
)]
pub struct JobRow {
    /// Its identity for ever.
    #[row(tag = 1)]
    pub uid: Uid,
    /// Its namespace.
    #[row(tag = 2)]
    pub namespace: Namespace,
    /// Its name, unique in its namespace.
    #[row(tag = 3)]
    pub job: JobName,
    /// How it is meant to end.
    #[row(tag = 4)]
    pub kind: JobKind,
    /// Who its tasks run as.
    #[row(tag = 5)]
    pub user: UserName,
    /// How many slots it has.
    #[row(tag = 6)]
    pub instances: u32,
    /// What its newest tasks run: the key of a row of `specs`.
    #[row(tag = 7)]
    pub spec: SpecHash,
    /// Whether it was told to stop.
    #[row(tag = 8)]
    pub stopped: bool,
    /// When it was made.
    #[row(tag = 9)]
    pub created: Time,
    /// When it was last changed by its owner.
    #[row(tag = 10)]
    pub changed: Time,
    /// The number of its newest spec, from 1.
    #[row(tag = 11)]
    pub spec_number: u32,
    /// Fields of a later version.
    #[row(unknown)]
    pub unknown: Unknown,
}

/// What a task runs: shared by all tasks that run the same, written once, never changed.
#[derive(Clone, Debug, PartialEq, Row)]
#[row(table = "specs", number = 3, partition(namespace), index(name = "spec", columns(spec), unique))]
pub struct SpecRow {
    /// Its name, made of its text.
    #[row(tag = 1)]
    pub spec: SpecHash,
    /// The namespace that first used it.
    #[row(tag = 2)]
    pub namespace: Namespace,
    /// The canonical text: the job file as the server holds it.
    #[row(tag = 3)]
    pub text: SharedText,
    /// When it was first used.
    #[row(tag = 4)]
    pub created: Time,
    /// Fields of a later version.
    #[row(unknown)]
    pub unknown: Unknown,
}
