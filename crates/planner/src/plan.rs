//! One round of placement.

use crate::capacity::{Amounts, Capacities};
use rollcall_commands::{ExplainPending, PlaceTask};
use rollcall_store::{Query, Snapshot};
use rollcall_types::{CauseCode, SharedText, Task, TaskState};
use std::collections::HashMap;

/// The most decisions of one round; as many as the writer takes into one commit.
pub const DECISIONS_MAX: usize = 1024;

/// What shall be done about a pending task.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Give it to an agent.
    Place(PlaceTask),
    /// Say why it waits.
    Explain(ExplainPending),
}

/// What shall be done about the pending tasks of a snapshot, in the order in which they were made.
pub fn plan(snapshot: &Snapshot) -> Vec<Decision> {
    let pending = Query::all().equal(Task::STATE, TaskState::Pending);
    let mut pending = snapshot.table::<Task>().select(pending).expect("a task has a state").peekable();
    if pending.peek().is_none() {
        return Vec::new();
    }
    let mut capacities = Capacities::of(snapshot);
    // Tasks of one job need the same; the sentence is made once for all of them.
    let mut refused: HashMap<Amounts, (CauseCode, SharedText)> = HashMap::new();
    let mut decisions = Vec::new();
    for found in pending {
        if decisions.len() >= DECISIONS_MAX {
            break;
        }
        let (task, number, read_at) = (found.row(), found.number, snapshot.version());
        let needed = Amounts::of_task(task);
        let agent = if refused.contains_key(&needed) { None } else { capacities.take(&needed) };
        if let Some(agent) = agent {
            decisions.push(Decision::Place(PlaceTask { task: number, read_at, agent }));
            continue;
        }
        let (cause, text) = refused.entry(needed).or_insert_with(|| explain(&capacities, &needed));
        if task.cause != Some(*cause) || task.cause_text.as_deref() != Some(&**text) {
            let explanation = ExplainPending { task: number, read_at, cause: *cause, text: text.clone() };
            decisions.push(Decision::Explain(explanation));
        }
    }
    decisions
}

fn explain(capacities: &Capacities, needed: &Amounts) -> (CauseCode, SharedText) {
    if capacities.is_empty() {
        return (CauseCode::NoAgents, "no agent is ready; it starts when one joins".into());
    }
    (CauseCode::NoFit, capacities.why_not(needed).into())
}
