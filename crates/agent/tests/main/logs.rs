//! Logs over a session.

use rollcall_agent::{Intent, LOG_READERS_MAX, LogFrame, LogStart, ToAgent};

use crate::support::{Server, folder, open, task};

#[tokio::test]
async fn a_log_is_read_whole_by_last_lines_and_by_offset() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![task(1, "seq 1 50000; echo $ROLLCALL_TASK", Intent::Run)]).await;
    server.until_ended(1).await;
    server.ask_log(1, 1, LogStart::Offset(0), false).await;
    let expected: String = (1..=50_000).map(|number| format!("{number}\n")).chain(["t.1.1\n".to_owned()]).collect();
    assert_eq!(server.log(1).await, (expected.clone(), None));
    server.ask_log(2, 1, LogStart::LastLines(2), true).await;
    assert_eq!(server.log(2).await, ("50000\nt.1.1\n".into(), None), "following the ended ends");
    server.ask_log(3, 1, LogStart::Offset(expected.len() as u64), false).await;
    assert_eq!(server.log(3).await, (String::new(), None));
    server.end().await;
}

#[tokio::test]
async fn a_follower_gets_all_of_it_to_the_end_of_the_task() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    // A child that is started just as the signal comes may miss it, so none lives long.
    let line = "trap 'echo bye; exit 0' TERM; seq 1 1000; while :; do sleep 0.05; done";
    // Asked for in the same breath: the log need not exist yet.
    server.want(vec![task(1, line, Intent::Run)]).await;
    server.ask_log(1, 1, LogStart::Offset(0), true).await;
    let mut seen = Vec::new();
    while !seen.ends_with(b"1000\n") {
        match server.link.logs.recv().await {
            Some(LogFrame::Bytes { bytes, .. }) => seen.extend(bytes),
            other => panic!("{other:?}"),
        }
    }
    server.change(vec![task(1, line, Intent::Stop)]).await;
    assert_eq!(server.log(1).await, ("bye\n".into(), None));
    server.end().await;
}

#[tokio::test]
async fn a_log_that_is_not_there_is_an_answer() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    let mut bad = task(2, "true", Intent::Run);
    std::sync::Arc::make_mut(&mut bad.spec).user = Some("no-such-user".into());
    server.want(vec![bad]).await;
    server.until_ended(2).await;
    server.ask_log(1, 7, LogStart::Offset(0), true).await;
    let (text, error) = server.log(1).await;
    assert_eq!(
        (text.as_str(), error.as_deref()),
        ("", Some("task 00000000000000000000000000000007 is not on this agent"))
    );
    server.ask_log(2, 2, LogStart::LastLines(5), true).await;
    let missing = "there is no such log: the task never started, or its logs were removed";
    assert_eq!(server.log(2).await, (String::new(), Some(missing.into())));
    server.end().await;
}

#[tokio::test]
async fn readers_are_bounded_and_a_stopped_one_makes_room() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![task(1, "echo x; sleep 1000", Intent::Run)]).await;
    server.until_running(1).await;
    let most = LOG_READERS_MAX as u64;
    for request in 0..most {
        server.ask_log(request, 1, LogStart::Offset(0), true).await;
    }
    server.ask_log(most, 1, LogStart::Offset(0), false).await;
    let (_, error) = server.log(most).await;
    assert!(error.is_some_and(|error| error.contains("reads 64 logs already")));
    server.link.wanted.send(ToAgent::StopLogs { request: 0 }).await.expect("the agent lives");
    // A task that runs may not have written yet.
    let mut request = most + 1;
    let written = loop {
        server.ask_log(request, 1, LogStart::LastLines(1), false).await;
        match server.log(request).await {
            (text, None) if text.is_empty() => request += 1,
            written => break written,
        }
    };
    assert_eq!(written, ("x\n".into(), None));
    server.change(vec![task(1, "", Intent::Stop)]).await;
    server.until_ended(1).await;
    server.end().await;
}

#[tokio::test]
async fn a_reader_that_does_not_read_delays_no_status() {
    let folder = folder();
    let mut server = Server::start(open(folder.path())).await;
    server.want(vec![task(1, "head -c 20000000 /dev/zero; sleep 1000", Intent::Run)]).await;
    server.until_running(1).await;
    for request in 0..3 {
        server.ask_log(request, 1, LogStart::Offset(0), true).await;
    }
    for number in 2..20 {
        server.change(vec![task(number, "true", Intent::Run)]).await;
        server.until_ended(number).await;
    }
    server.change(vec![task(1, "", Intent::Stop)]).await;
    server.until_ended(1).await;
    server.end().await;
}
