//! The record of calls.

/// One call to the disk, or a mark between calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What was asked.
    pub kind: CallKind,
    /// Of which file or folder; of a mark, its text.
    pub path: String,
    /// From where, of a write.
    pub offset: u64,
    /// How much, of a write.
    pub bytes: u64,
    /// Whether it succeeded.
    pub succeeded: bool,
}

/// The calls that change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is the call of its name")]
pub enum CallKind {
    Create,
    Write,
    Allocate,
    SyncData,
    SyncAll,
    Rename,
    Remove,
    CreateFolder,
    SyncFolder,
    Lock,
    /// Not a call: the test's own mark.
    Mark,
}
