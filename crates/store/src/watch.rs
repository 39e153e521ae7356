//! Watching: one ring of row changes, bounded by bytes, that every watcher reads at its own pace.
//!
//! A watcher holds a position and a condition, never a queue. Events come in commit order without gap or duplicate; what the ring no longer holds is an
//! explicit [`Compacted`].

use crate::change::Change;
use crate::condition::Condition;
use crate::page::AnyRow;
use crate::partition::Visible;
use crate::store::Store;
use crate::words::{PartitionId, RowNumber, Version};
use rollcall_schema::{Row, Time};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use thiserror::Error;

/// Bytes that a change takes in the ring beside its rows.
const CHANGE_BYTES: usize = size_of::<Change>();

/// Bytes that a commit takes in the ring beside its changes.
const COMMIT_BYTES: usize = size_of::<Commit>();

#[derive(Clone)]
struct Commit {
    version: Version,
    time: Time,
    changes: Arc<[Change]>,
    bytes: usize,
}

struct Commits {
    /// Oldest first.
    held: VecDeque<Commit>,
    bytes: usize,
    /// Everything after this version is held.
    floor: Version,
}

pub(crate) struct Ring {
    bytes_max: usize,
    commits: Mutex<Commits>,
}

impl Ring {
    pub(crate) fn new(bytes_max: usize, floor: Version) -> Ring {
        Ring { bytes_max, commits: Mutex::new(Commits { held: VecDeque::new(), bytes: 0, floor }) }
    }

    fn lock(&self) -> MutexGuard<'_, Commits> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of all commits.
    pub(crate) fn clear(&self) {
        let mut commits = self.lock();
        // The floor is told by what is held, under the lock: a commit that is published meanwhile is above it or dropped below it, never lost.
        commits.floor = commits.held.back().map_or(commits.floor, |newest| newest.version);
        commits.bytes = 0;
        let dropped = std::mem::take(&mut commits.held);
        drop(commits);
        drop(dropped);
    }

    pub(crate) fn push(&self, version: Version, time: Time, changes: Arc<[Change]>) {
        let row = |side: &Option<(PartitionId, Arc<dyn AnyRow>)>| side.as_ref().map_or(0, |(_, row)| row.row_bytes());
        let rows: usize = changes.iter().map(|change| CHANGE_BYTES + row(&change.old) + row(&change.new)).sum();
        let bytes = rows + COMMIT_BYTES;
        let mut dropped = Vec::new();
        let mut commits = self.lock();
        commits.bytes += bytes;
        commits.held.push_back(Commit { version, time, changes, bytes });
        while commits.bytes > self.bytes_max
            && let Some(oldest) = commits.held.pop_front()
        {
            commits.bytes -= oldest.bytes;
            commits.floor = oldest.version;
            dropped.push(oldest);
        }
        drop(commits);
    }

    /// Everything after this version is held.
    pub(crate) fn floor(&self) -> Version {
        self.lock().floor
    }

    /// The commits after `position`, at most `commits_max`.
    fn after(&self, position: Version, commits_max: usize) -> Result<Vec<Commit>, Compacted> {
        let commits = self.lock();
        if position < commits.floor {
            return Err(Compacted { position, floor: commits.floor });
        }
        let first = commits.held.partition_point(|commit| commit.version <= position);
        Ok(commits.held.range(first..).take(commits_max).cloned().collect())
    }
}

/// A watcher's position is no longer held: read the table again and watch from that snapshot's version on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("changes after version {position} are no longer held, the oldest held come after version {floor}: read again")]
pub struct Compacted {
    /// Where the watcher was.
    pub position: Version,
    /// The oldest position that can be watched from.
    pub floor: Version,
}

/// What happened to the rows that a watcher sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A row came, or began to match.
    Came,
    /// A row changed and matches before and after.
    Changed,
    /// A row went, or ceased to match.
    Went,
}

/// One row change that a watcher sees.
#[derive(Clone)]
pub struct WatchEvent {
    /// The version of the commit.
    pub version: Version,
    /// The position of the change in its commit.
    pub index: usize,
    /// When the commit was made.
    pub time: Time,
    /// What it means to the watcher.
    pub kind: EventKind,
    /// The row's number.
    pub number: RowNumber,
    changes: Arc<[Change]>,
}

impl WatchEvent {
    /// The row as it is after the change, for a row that went as it was before.
    pub fn row(&self) -> &dyn AnyRow {
        let change = &self.changes[self.index];
        let (first, second) = match self.kind {
            EventKind::Went => (&change.old, &change.new),
            EventKind::Came | EventKind::Changed => (&change.new, &change.old),
        };
        // INVARIANT: an event is made only of a change that has the side its kind shows.
        let (_, row) = first.as_ref().or(second.as_ref()).expect("a change has a row before or after it");
        &**row
    }
}

/// A position in the changes of one table.
pub struct Watch {
    table: usize,
    conditions: Vec<Condition<'static>>,
    position: Version,
}

impl Watch {
    /// Watches the table of rows of type `R` from behind `position` on: the version of a snapshot that was read, or of the last event seen.
    ///
    /// # Errors
    /// If a condition does not fit the table.
    pub fn new<R: Row>(
        store: &Store,
        position: Version,
        conditions: Vec<Condition<'static>>,
    ) -> Result<Watch, crate::condition::ConditionError> {
        Condition::check_all(&conditions, R::schema())?;
        let snapshot = store.snapshot();
        let table = snapshot.tables().position(|table| table.schema().name == R::schema().name);
        Ok(Watch { table: table.expect("the store was built with this table"), conditions, position })
    }

    /// Everything up to this version was seen.
    pub fn position(&self) -> Version {
        self.position
    }

    /// The events of the next commits, at most `commits_max` of them, of rows in partitions that may be seen today; and moves on behind them.
    ///
    /// # Errors
    /// If the position is no longer held. The watch does not move then.
    pub fn next(
        &mut self,
        store: &Store,
        visible: Option<&Visible>,
        commits_max: usize,
    ) -> Result<Vec<WatchEvent>, Compacted> {
        let commits = store.ring.after(self.position, commits_max)?;
        let mut events = Vec::new();
        for commit in &commits {
            for (index, change) in commit.changes.iter().enumerate().filter(|(_, change)| change.table == self.table) {
                let sees = |side: &Option<(PartitionId, Arc<dyn AnyRow>)>| {
                    side.as_ref().is_some_and(|(partition, row)| {
                        visible.is_none_or(|visible| visible.contains(*partition))
                            && self.conditions.iter().all(|condition| condition.matches(&**row))
                    })
                };
                let kind = match (sees(&change.old), sees(&change.new)) {
                    (false, true) => EventKind::Came,
                    (true, true) => EventKind::Changed,
                    (true, false) => EventKind::Went,
                    (false, false) => continue,
                };
                let Commit { version, time, changes, .. } = commit.clone();
                events.push(WatchEvent { version, index, time, kind, number: change.number, changes });
            }
        }
        if let Some(last) = commits.last() {
            self.position = last.version;
        }
        Ok(events)
    }
}
