//! Wanted state and status, within a session and across several.

use std::collections::BTreeMap;
use std::time::Duration;

use rollcall_agent::{Ending, FromAgent, Intent, LINK_FRAMES_MAX, TaskState, ToAgent};

use crate::support::{PATIENCE, Server, folder, open, task, uid};

const DONE: Ending = Ending::Exited { code: 0 };
const TERMINATED: Ending = Ending::Signaled { signal: 15 };

#[tokio::test]
async fn a_wanted_task_runs_and_its_end_is_told_with_times() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![task(1, "exit 3", Intent::Run)]).await;
    let state = server.until(1, |state| matches!(state, TaskState::Ended { .. })).await;
    let TaskState::Ended { ending, started_at: Some(started_at), ended_at } = state else { panic!("{state:?}") };
    assert_eq!(ending, Ending::Exited { code: 3 });
    assert!(started_at > 1_700_000_000_000_000 && ended_at >= started_at, "{started_at} to {ended_at}");
    server.change(vec![task(2, "true", Intent::Run)]).await;
    assert_eq!(server.until_ended(2).await, DONE);
    server.end().await;
}

#[tokio::test]
async fn what_is_said_twice_happens_once() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    let line = "echo started; sleep 1000";
    server.want(vec![task(1, line, Intent::Run), task(1, line, Intent::Run)]).await;
    let pid = server.until_running(1).await;
    server.want(vec![task(1, line, Intent::Run)]).await;
    server.change(vec![task(1, line, Intent::Run)]).await;
    server.change(vec![task(1, line, Intent::Stop)]).await;
    server.change(vec![task(1, line, Intent::Stop)]).await;
    assert_eq!(server.until_ended(1).await, TERMINATED);
    // An end is for ever.
    server.change(vec![task(1, line, Intent::Run), task(2, "true", Intent::Run)]).await;
    assert_eq!(server.until_ended(2).await, DONE);
    let agent = server.end().await;
    let mut server = Server::start(agent).await;
    assert!(matches!(server.status().await.state, TaskState::Ended { .. }), "{pid} was not started again");
    server.end().await;
}

#[tokio::test]
async fn tasks_outlive_a_session_and_are_told_in_full_in_the_next() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![task(1, "sleep 1000", Intent::Run), task(2, "true", Intent::Run)]).await;
    let mut states = BTreeMap::new();
    while !states.get(&uid(2)).is_some_and(|state| matches!(state, TaskState::Ended { .. }))
        || !states.get(&uid(1)).is_some_and(|state| matches!(state, TaskState::Running { .. }))
    {
        let status = server.status().await;
        states.insert(status.task, status.state);
    }
    let agent = server.end().await;
    let mut server = Server::start(agent).await;
    let told = [server.status().await, server.status().await].map(|status| (status.task, status.state));
    assert_eq!(BTreeMap::from(told), states);
    // A server that forgot everything kills nothing.
    server.want(vec![]).await;
    server.change(vec![task(3, "true", Intent::Run)]).await;
    assert_eq!(server.until_ended(3).await, DONE);
    server.change(vec![task(1, "", Intent::Stop)]).await;
    assert_eq!(server.until_ended(1).await, TERMINATED);
    server.end().await;
}

#[tokio::test]
async fn the_numbers_of_status_grow_over_sessions() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![task(1, "true", Intent::Run)]).await;
    let mut last = 0;
    loop {
        let status = server.status().await;
        assert!(status.number > last, "{status:?} after {last}");
        last = status.number;
        if matches!(status.state, TaskState::Ended { .. }) {
            break;
        }
    }
    let mut server = Server::start(server.end().await).await;
    assert_eq!(server.status().await.number, last);
    server.want(vec![task(2, "true", Intent::Run)]).await;
    assert!(server.status().await.number > last);
    server.end().await;
}

#[tokio::test]
async fn a_missed_change_is_noticed_and_not_followed() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![]).await;
    let changed = ToAgent::Changed { number: 2, tasks: vec![task(1, "true", Intent::Run)] };
    server.link.wanted.send(changed).await.expect("the agent lives");
    assert_eq!(server.hear().await, FromAgent::NeedWanted { last: Some(0) });
    server.want(vec![task(2, "true", Intent::Run)]).await;
    loop {
        let status = server.status().await;
        assert_eq!(status.task, uid(2), "task 1 was never wanted in order");
        if matches!(status.state, TaskState::Ended { .. }) {
            break;
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_stop_before_the_start_and_a_bad_start_are_endings_with_reasons() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    let mut nobody = task(2, "true", Intent::Run);
    std::sync::Arc::make_mut(&mut nobody.spec).user = Some("no-such-user".into());
    server.want(vec![task(1, "true", Intent::Stop), nobody]).await;
    let reason = "stopped before it had started".to_owned();
    assert_eq!(server.until_ended(1).await, Ending::NotStarted { reason });
    let reason = "cannot run as the job's user: no user `no-such-user` in /etc/passwd".to_owned();
    assert_eq!(server.until_ended(2).await, Ending::NotStarted { reason });
    server.end().await;
}

#[tokio::test]
async fn a_task_of_an_earlier_run_of_the_daemon_is_lost_and_not_started_again() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![task(1, "echo once; sleep 1000", Intent::Run), task(2, "true", Intent::Run)]).await;
    server.until_ended(2).await;
    let mut agent = server.end().await;
    agent.stop_all(Duration::ZERO).await;
    drop(agent);
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![task(1, "echo twice", Intent::Run), task(2, "true", Intent::Stop)]).await;
    assert_eq!(server.until_ended(1).await, Ending::Lost);
    assert_eq!(server.until_ended(2).await, Ending::Lost);
    server.end().await;
}

#[tokio::test]
async fn a_forgotten_task_ends_and_leaves_nothing() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![task(1, "sleep 1000", Intent::Run), task(2, "true", Intent::Run)]).await;
    server.until_ended(2).await;
    server.change(vec![task(1, "", Intent::Forget), task(2, "", Intent::Forget)]).await;
    // Task 3 is told after the agent has removed the others, which it does in order; task 1 has to die first.
    let tasks = folder.path().join("tasks");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    for number in 3.. {
        server.change(vec![task(number, "true", Intent::Run)]).await;
        server.until_ended(number).await;
        server.change(vec![task(number, "", Intent::Forget)]).await;
        let left: Vec<_> =
            std::fs::read_dir(&tasks).expect("is there").flatten().map(|entry| entry.file_name()).collect();
        if !left.contains(&uid(1).to_string().into()) && !left.contains(&uid(2).to_string().into()) {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{left:?}");
    }
    let mut server = Server::start(server.end().await).await;
    server.want(vec![task(99, "true", Intent::Run)]).await;
    assert_eq!(server.status().await.task, uid(99), "no word of the forgotten");
    server.end().await;
}

#[tokio::test]
async fn a_server_that_does_not_listen_holds_up_no_task() {
    const TASKS: u128 = LINK_FRAMES_MAX as u128;
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want((1..=TASKS).map(|number| task(number, "true", Intent::Run)).collect()).await;
    // Three states of each do not fit into the link. All tasks end nevertheless, and each end is told at last.
    let mut ended = 0;
    while ended < TASKS {
        if matches!(server.status().await.state, TaskState::Ended { .. }) {
            ended += 1;
        }
    }
    server.end().await;
}
