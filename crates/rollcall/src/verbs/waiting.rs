//! Waiting until the tasks of a job are where they should be.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};

use crate::client::{AnswerLines, Server, with_query};
use crate::failure::Failure;
use crate::names::Name;
use crate::rows::TaskRows;

/// A server whose watch has ended is asked again and again: soon at first, for quick starts, then less often.
const ASK_AGAIN_FIRST: Duration = Duration::from_millis(25);
const ASK_AGAIN_MOST: Duration = Duration::from_secs(1);
/// One answer about a job holds no more rows; a job has at most 1,000 instances.
const ROWS_MAX: u32 = 10_000;

/// How a task stands to an end that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// On its way.
    Coming,
    Running,
    /// Ended well.
    Finished,
    /// Was asked to end, and has.
    Stopped,
    /// Ended otherwise.
    Failed,
}

/// From the word in the column `state`. A word that is not known is on its way: a newer server may have more.
pub fn standing(task: &Value) -> Standing {
    match task["state"].as_str().unwrap_or_default() {
        "running" => Standing::Running,
        "finished" => Standing::Finished,
        "stopped" | "killed" => Standing::Stopped,
        "failed" | "lost" => Standing::Failed,
        _ => Standing::Coming,
    }
}

/// The newest attempt of each instance, in the order of the instances.
pub fn newest(rows: Vec<Value>) -> Vec<Value> {
    let mut newest: BTreeMap<u64, Value> = BTreeMap::new();
    for row in rows {
        let attempt = |row: &Value| row["attempt"].as_u64().unwrap_or(0);
        let instance = row["instance"].as_u64().unwrap_or(0);
        if newest.get(&instance).is_none_or(|known| attempt(known) <= attempt(&row)) {
            newest.insert(instance, row);
        }
    }
    newest.into_values().collect()
}

/// The tasks that meet a name.
pub async fn tasks(server: &Server, name: &Name) -> Result<TaskRows, Failure> {
    let parameters = [("where", Some(name.condition())), ("limit", Some(ROWS_MAX.to_string()))];
    Ok(TaskRows::from_answer(server.get(&with_query("/v1/tasks", &parameters)).await?))
}

/// Asks until `done` says so of the newest attempts, and gives them. Ends early at the timeout and at Ctrl-C; what goes
/// on then is said by `goes_on`.
pub async fn until(
    server: &Server,
    name: &Name,
    wait: Option<Duration>,
    goes_on: &str,
    done: impl Fn(&[Value]) -> bool,
) -> Result<Vec<Value>, Failure> {
    let asking = async {
        // Opened before the first look, so that no change falls between the two.
        let mut changes = Changes::of(server, name).await;
        loop {
            let TaskRows { rows, version, .. } = tasks(server, name).await?;
            let rows = newest(rows);
            if done(&rows) {
                return Ok(rows);
            }
            changes.after(version).await;
        }
    };
    let deadline = wait.and_then(|wait| Instant::now().checked_add(wait));
    tokio::select! {
        rows = asking => rows,
        _ = tokio::signal::ctrl_c() => Err(Failure::interrupted(format!("stopped waiting; {goes_on}"))),
        () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
            Err(Failure::timeout(format!("--timeout passed; {goes_on}")))
        }
    }
}

/// Word of changes of the tasks of a name.
struct Changes {
    /// None when the server has no watch, or ended it.
    watch: Option<AnswerLines>,
    ask_again: Duration,
}

impl Changes {
    async fn of(server: &Server, name: &Name) -> Self {
        let watch = server.lines(&with_query("/v1/watch", &[("where", Some(name.condition()))])).await;
        Self { watch: watch.ok(), ask_again: ASK_AGAIN_FIRST }
    }

    /// Waits for a change that came after this version. May return when there was none.
    async fn after(&mut self, version: u64) {
        while let Some(watch) = &mut self.watch {
            match watch.next().await {
                Ok(Some(line)) => {
                    if version_of(&line).is_some_and(|changed| changed > version) {
                        return;
                    }
                }
                Ok(None) | Err(_) => self.watch = None,
            }
        }
        sleep(self.ask_again).await;
        self.ask_again = (self.ask_again * 2).min(ASK_AGAIN_MOST);
    }
}

/// The version in the line that begins an event, `id: 1204.3`.
fn version_of(line: &[u8]) -> Option<u64> {
    let id = std::str::from_utf8(line).ok()?.strip_prefix("id: ")?;
    id.split_once('.')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Standing, newest, standing, version_of};

    #[test]
    fn only_changes_have_a_version() {
        let lines: [&[u8]; 5] = [b"id: 1204.3", b"id: 1204", b"event: changed", b"data: {}", b"\xff"];
        assert_eq!(lines.map(version_of), [Some(1204), None, None, None, None]);
    }

    #[test]
    fn only_the_newest_attempt_of_each_instance_counts() {
        let rows = vec![
            json!({ "instance": 1, "attempt": 1 }),
            json!({ "instance": 0, "attempt": 2 }),
            json!({ "instance": 0, "attempt": 10 }),
            json!({ "instance": 0, "attempt": 9 }),
        ];
        let expected = [json!({ "instance": 0, "attempt": 10 }), json!({ "instance": 1, "attempt": 1 })];
        assert_eq!(newest(rows), expected);
    }

    #[test]
    fn a_state_that_is_not_known_is_on_its_way() {
        let states = ["running", "finished", "failed", "lost", "stopped", "pending", "starting", "levitating"];
        let standings = states.map(|state| standing(&json!({ "state": state })));
        let expected = [
            Standing::Running,
            Standing::Finished,
            Standing::Failed,
            Standing::Failed,
            Standing::Stopped,
            Standing::Coming,
            Standing::Coming,
            Standing::Coming,
        ];
        assert_eq!(standings, expected);
    }
}
