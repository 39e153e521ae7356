//! One agent's end of the channels, played by the test.

use super::{LogRelay, PIECES_WAITING_MAX};
use rollcall_agent::{LogFrame, LogRequest, LogStart, Stream, TaskUid, ToAgent};
use tokio::sync::mpsc;

struct Agent {
    wanted: mpsc::Receiver<ToAgent>,
    logs: mpsc::Sender<LogFrame>,
    relay: LogRelay,
    _session: mpsc::Sender<ToAgent>,
}

impl Agent {
    fn start() -> Agent {
        let (session, wanted) = mpsc::channel(256);
        let (logs, carried) = mpsc::channel(16);
        let relay = LogRelay::new(&session);
        let carrying = relay.clone();
        tokio::spawn(async move { carrying.carry(carried).await });
        Agent { wanted, logs, relay, _session: session }
    }

    async fn asked(&mut self) -> LogRequest {
        loop {
            match self.wanted.recv().await.expect("the session lives") {
                ToAgent::ReadLogs(request) => return request,
                ToAgent::StopLogs { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn send(&self, request: u64, from: u64, bytes: &[u8]) {
        self.logs.send(LogFrame::Bytes { request, from, bytes: bytes.to_vec() }).await.expect("is carried");
    }

    async fn end(&self, request: u64, error: Option<&str>) {
        let error = error.map(str::to_owned);
        self.logs.send(LogFrame::End { request, error }).await.expect("is carried");
    }
}

#[tokio::test]
async fn a_log_comes_to_who_asked_and_ends_with_its_reason() {
    let mut agent = Agent::start();
    let mut first = agent.relay.read(TaskUid(1), Stream::Out, LogStart::LastLines(5), false).await;
    let mut second = agent.relay.read(TaskUid(2), Stream::Err, LogStart::Offset(0), false).await;
    let (asked_first, asked_second) = (agent.asked().await, agent.asked().await);
    assert_eq!((asked_first.task, asked_first.start), (TaskUid(1), LogStart::LastLines(5)));
    agent.send(asked_second.request, 0, b"two").await;
    agent.send(asked_first.request, 0, b"one").await;
    agent.end(asked_first.request, None).await;
    agent.end(asked_second.request, Some("the disk is on fire")).await;
    assert_eq!((first.next().await, first.next().await), (Ok(Some(b"one".to_vec())), Ok(None)));
    assert_eq!(second.next().await, Ok(Some(b"two".to_vec())));
    assert_eq!(second.next().await, Err("the disk is on fire".to_owned()));
}

#[tokio::test]
async fn a_slow_reader_delays_nobody_and_loses_nothing() {
    let mut agent = Agent::start();
    let mut slow = agent.relay.read(TaskUid(1), Stream::Out, LogStart::Offset(0), true).await;
    let asked = agent.asked().await;
    let mut quick = agent.relay.read(TaskUid(2), Stream::Out, LogStart::Offset(0), true).await;
    let asked_quick = agent.asked().await;
    let more = PIECES_WAITING_MAX as u64 + 5;
    for number in 0..more {
        agent.send(asked.request, number, &[number as u8]).await;
        agent.send(asked_quick.request, number, b"q").await;
        assert_eq!(quick.next().await, Ok(Some(b"q".to_vec())), "is not held up");
    }
    let mut seen = Vec::new();
    for _ in 0..PIECES_WAITING_MAX {
        seen.extend(slow.next().await.expect("is carried").expect("is not the end"));
    }
    // It has caught up, and asks for what was not kept for it.
    let reading = tokio::spawn(async move { (slow.next().await, slow.next().await) });
    let again = agent.asked().await;
    assert_eq!((again.start, again.follow), (LogStart::Offset(seen.len() as u64), true));
    agent.send(asked.request, 0, b"old, and dropped").await;
    agent.send(again.request, seen.len() as u64, b"rest").await;
    agent.end(again.request, None).await;
    assert_eq!(reading.await.expect("reads"), (Ok(Some(b"rest".to_vec())), Ok(None)));
    assert_eq!(seen, (0..PIECES_WAITING_MAX as u8).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reader_that_goes_is_told_to_the_agent_and_an_agent_that_goes_to_the_reader() {
    let mut agent = Agent::start();
    let reader = agent.relay.read(TaskUid(1), Stream::Out, LogStart::Offset(0), true).await;
    let asked = agent.asked().await;
    drop(reader);
    assert_eq!(agent.wanted.recv().await, Some(ToAgent::StopLogs { request: asked.request }));
    let mut reader = agent.relay.read(TaskUid(1), Stream::Out, LogStart::Offset(0), true).await;
    drop(agent);
    let told = reader.next().await.expect_err("nobody is there");
    assert!(told.contains("out of touch"), "{told}");
}
