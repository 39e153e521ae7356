//! History has bounds.

use crate::{Command, CommandError};
use rollcall_store::{Order, Query, RowNumber, Transaction};
use rollcall_types::{Namespace, Task};

/// The most tasks that one command removes; housekeeping sends the next one.
pub const TRIMMED_AT_ONCE_MAX: usize = 1024;

/// How much of what has ended a namespace keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryBounds {
    /// The most ended tasks.
    pub tasks_max: u64,
    /// The most bytes of their rows.
    pub bytes_max: u64,
}

impl Default for HistoryBounds {
    fn default() -> Self {
        HistoryBounds { tasks_max: 100_000, bytes_max: 64 << 20 }
    }
}

/// Removes the oldest ended tasks of a namespace beyond its bounds.
#[derive(Clone, Debug)]
pub struct TrimHistory {
    /// The namespace.
    pub namespace: Namespace,
    /// Its bounds.
    pub bounds: HistoryBounds,
}

/// What was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// How many tasks.
    pub tasks: usize,
    /// Whether there is more to remove.
    pub more: bool,
}

impl Command for TrimHistory {
    type Answer = Trimmed;

    fn apply(self, change: &mut Transaction<'_>) -> Result<Trimmed, CommandError> {
        let table = change.table::<Task>();
        let totals = table.totals("by_namespace", &[(&self.namespace).into(), false.into()], None).unwrap_or_default();
        let mut count = totals.count;
        let mut bytes = totals.sums.last().copied().unwrap_or(0);
        let over = |count: u64, bytes: u64| count > self.bounds.tasks_max || bytes > self.bounds.bytes_max;
        let ended = Query::all()
            .equal(Task::NAMESPACE, &self.namespace)
            .equal(Task::ACTIVE, false)
            .order(Order::Number)
            .limit(TRIMMED_AT_ONCE_MAX);
        let mut oldest: Vec<RowNumber> = Vec::new();
        for task in table.select(ended)? {
            if !over(count, bytes) {
                break;
            }
            count -= 1;
            bytes = bytes.saturating_sub(task.row().history_bytes());
            oldest.push(task.number);
        }
        for number in &oldest {
            change.delete::<Task>(*number)?;
        }
        Ok(Trimmed { tasks: oldest.len(), more: over(count, bytes) && !oldest.is_empty() })
    }
}
