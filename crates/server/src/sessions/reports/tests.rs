//! Words of agents in, commands out, and rows on a disk that fails.

use super::{SessionContext, SessionError, Why, reports, take};
use crate::{WriterHandle, WriterSettings};
use rollcall_agent::{Ending, FromAgent, Status, TaskState as AgentTaskState, TaskUid};
use rollcall_commands::{PlaceTask, RegisterAgent, SubmitJob};
use rollcall_log::{Epoch, Options};
use rollcall_sim::{Fault, SimulatedDisk};
use rollcall_store::{Query, StoreLimits};
use rollcall_types::{AgentName, JobKind, SpecHash, Task, TaskState};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// Long enough for anything that works; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The words of the reports that an ending becomes.
fn told(ending: Ending, started_at: Option<i64>, why: Why) -> Vec<String> {
    let state = AgentTaskState::Ended { ending, started_at, ended_at: 9 };
    let status = Status { number: 1, task: TaskUid(1), state };
    let reports = reports(&AgentName::from("n1"), status, why);
    let words = reports.into_iter().map(|command| {
        let report = command.report;
        let cause = report.cause.map(|cause| format!(" {cause} {}", report.detail)).unwrap_or_default();
        format!("{}{cause} {}", report.state, report.text.as_deref().unwrap_or("-"))
    });
    words.collect()
}

#[test]
fn each_end_has_its_state_cause_and_sentence() {
    let not_started = || Ending::NotStarted { reason: "no such file".into() };
    assert_eq!(told(Ending::Exited { code: 0 }, Some(5), Why::Itself), ["running -", "finished -"]);
    assert_eq!(told(Ending::Exited { code: 3 }, None, Why::Itself), ["failed exit_nonzero 3 exit code 3"]);
    assert_eq!(told(Ending::Signaled { signal: 9 }, None, Why::Itself), ["failed signal 9 ended by SIGKILL"]);
    assert_eq!(told(not_started(), None, Why::Itself), ["failed start_failed 0 no such file"]);
    let lost = "failed agent_lost 0 the daemon of n1 ended, and the task with it";
    assert_eq!(told(Ending::Lost, None, Why::Itself), [lost]);
    let stopped = "stopped stopped_by 0 ended with the daemon of n1, which was stopped";
    assert_eq!(told(Ending::Signaled { signal: 15 }, None, Why::DaemonStops), [stopped]);
    let told_to = "stopped stopped_by 0 told to stop; exit code 0";
    assert_eq!(told(Ending::Exited { code: 0 }, None, Why::Told), [told_to]);
    assert_eq!(told(not_started(), None, Why::DaemonStops), ["failed start_failed 0 no such file"]);
}

/// A session's context on a simulated disk, with one task that was given to the agent.
async fn start(disk: &SimulatedDisk) -> (SessionContext, Task) {
    let (newest, changes) = watch::channel(Default::default());
    let tables = crate::builder(StoreLimits::default()).on_publish(Box::new(move |version| {
        newest.send_replace(version);
    }));
    let opened = crate::open(disk.clone(), Options::new(Epoch(1), 1, "0"), tables).expect("is empty");
    // The threads end with the last handle.
    let (writer, _) = WriterHandle::start(opened.writer, opened.log, WriterSettings::new()).expect("starts");
    let agent = RegisterAgent { agent: "n1".into(), cpus_thousandths: 1000, memory_bytes: 1, disk_bytes: 0 };
    writer.run(agent).await.expect("registers");
    let job = SubmitJob {
        namespace: "default".into(),
        job: "web".into(),
        kind: JobKind::Service,
        user: "nobody".into(),
        instances: 1,
        spec: SpecHash(1),
        spec_text: "{}".into(),
        cpus_thousandths: 1000,
        memory_bytes: 1,
        disk_bytes: 0,
        random: 1,
    };
    let (_, read_at) = writer.run(job).await.expect("is new");
    let snapshot = writer.store().snapshot();
    let task = snapshot.table::<Task>().select(Query::all()).expect("fits").next().expect("was made");
    let place = PlaceTask { task: task.number, read_at, agent: "n1".into() };
    writer.run(place).await.expect("is pending");
    let (_, stopping) = watch::channel(false);
    let agents = Default::default();
    (SessionContext { writer, changes, stopping, agents, disk_bytes: 0 }, task.row().clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_that_the_disk_refuses_is_written_when_the_disk_works_again() {
    let disk = SimulatedDisk::new(1);
    let (mut context, task) = start(&disk).await;
    // Whatever the log does next fails: the write or sync of the report, and the first attempts to go on.
    (1..=4).for_each(|call| disk.plant(disk.calls() + call, Fault::Error(std::io::ErrorKind::Other)));
    let (agent, status) = mpsc::channel(4);
    let taking = {
        let context = context.clone();
        tokio::spawn(async move { take(&"n1".into(), &context, status, &Notify::new()).await })
    };
    let state = AgentTaskState::Running { pid: 7, started_at: 5 };
    agent.send(FromAgent::Status(Status { number: 1, task: TaskUid(task.uid.0), state })).await.expect("is heard");
    let written = async {
        loop {
            context.changes.borrow_and_update();
            let snapshot = context.writer.store().snapshot();
            let running = Query::all().equal(Task::STATE, TaskState::Running);
            if snapshot.table::<Task>().select(running).expect("fits").next().is_some() {
                return;
            }
            context.changes.changed().await.expect("the store lives");
        }
    };
    tokio::time::timeout(PATIENCE, written).await.expect("is written at last");
    assert!(context.writer.counts().failed_commits.load(Ordering::Relaxed) > 0, "the disk did fail");
    drop(agent);
    assert!(matches!(taking.await.expect("ends"), Err(SessionError::Gone)));
}
