//! Background loops: each waits for a change of the store, does a bounded piece of work, and waits again.

use crate::pipeline::run_all;
use crate::{WriteError, WriterHandle};
use rollcall_commands::{Command, CommandError, HistoryBounds, TrimHistory};
use rollcall_planner::{Decision, plan};
use rollcall_schema::Literal;
use rollcall_store::{Snapshot, Transaction, Version};
use rollcall_types::{Namespace, Section, Task};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::watch;

/// After the disk refused a change, so long passes before the loop tries again.
pub(crate) const DISK_RETRY: Duration = Duration::from_secs(1);

/// What a loop needs.
#[derive(Clone)]
pub(crate) struct Loop {
    pub(crate) writer: WriterHandle,
    /// The newest version that is visible.
    pub(crate) changes: watch::Receiver<Version>,
}

/// Sends the planner's decisions. A decision that was overtaken by another change is made anew in the round that this change causes.
pub(crate) async fn place(mut on: Loop) {
    loop {
        on.changes.borrow_and_update();
        let decisions = plan(&on.writer.store().snapshot());
        if !decisions.is_empty() {
            let decided = decisions.into_iter().map(Decided).collect();
            let outcomes = run_all(&on.writer, decided).await;
            match worst(outcomes.iter().filter_map(|outcome| outcome.as_ref().err())) {
                Worst::Stopping => return,
                Worst::Disk => {
                    tokio::time::sleep(DISK_RETRY).await;
                    continue;
                }
                Worst::Nothing => {}
            }
        }
        if on.changes.changed().await.is_err() {
            return;
        }
    }
}

struct Decided(Decision);

impl Command for Decided {
    type Answer = ();

    fn apply(self, change: &mut Transaction<'_>) -> Result<(), CommandError> {
        match self.0 {
            Decision::Place(place) => place.apply(change),
            Decision::Explain(explain) => explain.apply(change),
        }
    }
}

/// Removes what has ended beyond the bounds of its namespace.
pub(crate) async fn keep_house(mut on: Loop, bounds: HistoryBounds) {
    loop {
        on.changes.borrow_and_update();
        let snapshot = on.writer.store().snapshot();
        let trims: Vec<TrimHistory> =
            over_bounds(&snapshot, bounds).into_iter().map(|namespace| TrimHistory { namespace, bounds }).collect();
        if !trims.is_empty() {
            let outcomes = run_all(&on.writer, trims).await;
            match worst(outcomes.iter().filter_map(|outcome| outcome.as_ref().err())) {
                Worst::Stopping => return,
                Worst::Disk => {
                    tokio::time::sleep(DISK_RETRY).await;
                    continue;
                }
                // What is still over the bounds is seen in the change that was just made.
                Worst::Nothing => {}
            }
        }
        if on.changes.changed().await.is_err() {
            return;
        }
    }
}

/// The namespaces whose ended tasks are more than their bounds allow.
fn over_bounds(snapshot: &Snapshot, bounds: HistoryBounds) -> BTreeSet<Namespace> {
    let table = snapshot.table::<Task>();
    // A partition is (namespace, section, user).
    let live = Literal::from(Section::Live);
    let ended = table.partitions().filter(|partition| partition.values.get(1) != Some(&live));
    let namespaces: BTreeSet<Namespace> = ended
        .filter_map(|partition| match partition.values.first() {
            Some(Literal::Text(namespace)) => Some(Namespace::from(&**namespace)),
            _ => None,
        })
        .collect();
    let is_over = |namespace: &Namespace| {
        let totals = table.totals("by_namespace", &[namespace.into(), false.into()], None).unwrap_or_default();
        totals.count > bounds.tasks_max || totals.sums.last().is_some_and(|bytes| *bytes > bounds.bytes_max)
    };
    namespaces.into_iter().filter(is_over).collect()
}

/// What a loop has to know of the errors of a round.
#[derive(PartialEq, Eq)]
enum Worst {
    Nothing,
    Disk,
    Stopping,
}

fn worst<'e>(errors: impl Iterator<Item = &'e WriteError>) -> Worst {
    let mut worst = Worst::Nothing;
    for error in errors {
        match error {
            WriteError::Stopping => return Worst::Stopping,
            WriteError::NotDurable { .. } | WriteError::Uncertain { .. } => worst = Worst::Disk,
            WriteError::Refused(refused) => tracing::debug!(%refused, "a decision was overtaken"),
        }
    }
    worst
}

#[cfg(test)]
mod tests;
