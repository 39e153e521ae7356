//! What a task wrote, as lines: `out - text`. The second word is the time of the line, which is not known in this release.

use super::answer::{Refusal, show_time, shown, with_type};
use super::pieces::pieces;
use super::{House, SharedHouse};
use crate::sessions::{LogReader, LogRelay};
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::Uri;
use axum::response::Response;
use bytes::{BufMut, Bytes, BytesMut};
use rollcall_agent::{LogStart, Stream, TaskUid};
use rollcall_store::{Query, Version};
use rollcall_types::{DEFAULT_NAMESPACE, Task, TaskState};
use rollcall_wire_native::{ErrorCode, Parameters};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// So many last lines of each output are given when nobody says how many.
const LINES_DEFAULT: usize = 100;
/// No more last lines are looked for.
const LINES_MAX: usize = 1_000_000;
/// A longer line is given in several.
const LINE_BYTES_MAX: usize = 64 << 10;
/// The end of a task is told so soon after the end of its log, or not at all.
const END_WAIT_MAX: Duration = Duration::from_secs(5);

/// `GET /v1/logs/{task}`: the last lines of each output, and with `follow` what comes until the task has ended.
pub(super) async fn read(
    State(house): SharedHouse,
    path: Result<Path<String>, PathRejection>,
    uri: Uri,
) -> Result<Response, Refusal> {
    let Path(name) = path?;
    let Asked { lines, follow, streams } = Asked::parse(uri.query().unwrap_or_default())?;
    let task = find(&house, &name)?;
    let relay = relay(&house, &task, &name)?;
    let mut sources = Vec::new();
    for stream in streams {
        let reader = relay.read(TaskUid(task.uid.0), stream, LogStart::LastLines(lines), follow).await;
        sources.push(Source { reader, lines: Lines::new(stream), first: None });
    }
    if !follow {
        // The first word of each says whether there is a log at all, while the status of the answer can still say so.
        for source in &mut sources {
            let first = source.reader.next().await.map_err(|reason| {
                Refusal::new(ErrorCode::NoSuchThing, format!("no logs of {}: {reason}", shown(&name)))
            })?;
            source.first = Some(first);
        }
    }
    let (sender, body) = pieces();
    tokio::spawn(send(sources, follow.then(|| Ending { house: house.clone(), task: task.uid }), sender));
    Ok(with_type(Body::new(body), "text/plain"))
}

/// What is asked of the logs of a task.
struct Asked {
    lines: usize,
    follow: bool,
    streams: Vec<Stream>,
}

impl Asked {
    fn parse(query: &str) -> Result<Asked, Refusal> {
        let wrong = |message: String| Err(Refusal::new(ErrorCode::BadParameter, message));
        let parameters = Parameters::parse(query, &["lines", "follow", "stream"])?;
        let lines = match parameters.get("lines").map(|text| (text, text.parse())) {
            None => LINES_DEFAULT,
            Some((_, Ok(lines @ 0..=LINES_MAX))) => lines,
            Some((text, _)) => return wrong(format!("lines: '{}' is not a number up to {LINES_MAX}", shown(text))),
        };
        let follow = match parameters.get("follow") {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => return wrong(format!("follow: '{}' is neither true nor false", shown(other))),
        };
        let streams = match parameters.get("stream") {
            None => vec![Stream::Out, Stream::Err],
            Some("out") => vec![Stream::Out],
            Some("err") => vec![Stream::Err],
            Some(other) => return wrong(format!("stream: '{}' is neither out nor err", shown(other))),
        };
        Ok(Asked { lines, follow, streams })
    }
}

/// The task of a name like `web.0.3` or `shop/web.0.3`.
fn find(house: &House, name: &str) -> Result<Task, Refusal> {
    let (namespace, rest) = name.split_once('/').unwrap_or((DEFAULT_NAMESPACE, name));
    let mut parts = rest.split('.');
    let parsed = (|| {
        let job = parts.next()?;
        let (instance, attempt): (u32, u32) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        parts.next().is_none().then_some((job, instance, attempt))
    })();
    let (job, instance, attempt) = parsed.ok_or_else(|| {
        Refusal::new(
            ErrorCode::BadParameter,
            format!("`{}` is no task; a task is JOB.INSTANCE.ATTEMPT, like web.0.1", shown(name)),
        )
    })?;
    let query = Query::all()
        .equal(Task::JOB, job)
        .equal(Task::INSTANCE, instance)
        .equal(Task::NAMESPACE, namespace)
        .equal(Task::ATTEMPT, attempt);
    let snapshot = house.writer.store().snapshot();
    let found = snapshot.table::<Task>().select(query).expect("a task has these columns").next();
    found.map(|task| task.row().clone()).ok_or_else(|| {
        Refusal::new(ErrorCode::NoSuchThing, format!("there is no task {}", shown(name)))
            .hint("it may have been removed with the history of its namespace; all there are: rollcall tasks")
    })
}

fn relay(house: &House, task: &Task, name: &str) -> Result<LogRelay, Refusal> {
    let Some(agent) = &task.agent else {
        let why = task.cause_text.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
        let message = format!("no logs of {}: it has not started{why}", shown(name));
        return Err(Refusal::new(ErrorCode::NoSuchThing, message));
    };
    house.agents.logs(agent).ok_or_else(|| {
        let message = format!("{agent} is out of touch; the logs of {} are there", shown(name));
        Refusal::new(ErrorCode::Busy, message)
    })
}

/// One output of the task on its way to the socket.
struct Source {
    reader: LogReader,
    lines: Lines,
    /// What was read ahead.
    first: Option<Option<Vec<u8>>>,
}

impl Source {
    /// The next whole lines; `None` at the end. May be dropped while it waits.
    async fn next(&mut self) -> Option<Bytes> {
        let read = match self.first.take() {
            Some(first) => Ok(first),
            None => self.reader.next().await,
        };
        match read {
            Ok(Some(bytes)) => Some(self.lines.push(&bytes)),
            Ok(None) => None,
            Err(reason) => {
                self.lines.remark(&reason);
                None
            }
        }
    }
}

/// How the task ended, for who followed it to its end.
struct Ending {
    house: Arc<House>,
    task: rollcall_types::Uid,
}

impl Ending {
    async fn line(&self) -> Option<Bytes> {
        let ended = tokio::time::timeout(END_WAIT_MAX, self.wait(self.house.changes.clone()));
        let task = ended.await.ok()??;
        let cause = match (task.cause, &task.cause_text) {
            (Some(cause), Some(text)) => format!(", {cause}: {text}"),
            (Some(cause), None) => format!(", {cause}"),
            (None, _) => String::new(),
        };
        let time = task.ended.map_or_else(|| "-".to_owned(), show_time);
        Some(format!("-- {time} {}{cause}\n", task.state).into())
    }

    async fn wait(&self, mut changes: watch::Receiver<Version>) -> Option<Task> {
        loop {
            changes.borrow_and_update();
            let snapshot = self.house.writer.store().snapshot();
            let query = Query::all().equal(Task::UID, self.task);
            let task = snapshot.table::<Task>().select(query).expect("a task has a uid").next()?.row().clone();
            if !task.is_active() && task.state != TaskState::Lost {
                return Some(task);
            }
            changes.changed().await.ok()?;
        }
    }
}

/// Sends the lines of one or two outputs, in the order in which they come, until both have ended or nobody listens.
async fn send(sources: Vec<Source>, ending: Option<Ending>, sender: mpsc::Sender<Bytes>) {
    let mut sources = sources.into_iter();
    let (mut first, mut second) = (sources.next(), sources.next());
    while first.is_some() || second.is_some() {
        let follows = ending.is_some();
        let (lines, ended) = tokio::select! {
            biased;
            lines = next(&mut first), if first.is_some() => (lines, &mut first),
            // Without follow one output comes after the other, since nobody knows how they mixed.
            lines = next(&mut second), if second.is_some() && (follows || first.is_none()) => (lines, &mut second),
            () = sender.closed() => return,
        };
        let lines = match lines {
            Some(lines) => lines,
            None => ended.take().map(|mut source| source.lines.rest()).unwrap_or_default(),
        };
        if !lines.is_empty() && sender.send(lines).await.is_err() {
            return;
        }
    }
    if let Some(line) = match &ending {
        Some(ending) => ending.line().await,
        None => None,
    } {
        // Who left early does not want to know.
        let _ = sender.send(line).await;
    }
}

async fn next(source: &mut Option<Source>) -> Option<Bytes> {
    match source {
        Some(source) => source.next().await,
        None => None,
    }
}

/// Cuts bytes into lines, each with the name of its output before it. The bytes are the task's and stay as they are.
struct Lines {
    head: &'static str,
    unfinished: BytesMut,
}

impl Lines {
    fn new(stream: Stream) -> Lines {
        let head = match stream {
            Stream::Out => "out - ",
            Stream::Err => "err - ",
        };
        Lines { head, unfinished: BytesMut::new() }
    }

    /// The lines that are whole now.
    fn push(&mut self, bytes: &[u8]) -> Bytes {
        self.unfinished.extend_from_slice(bytes);
        let mut lines = BytesMut::with_capacity(bytes.len() + bytes.len() / 8);
        loop {
            let window = &self.unfinished[..self.unfinished.len().min(LINE_BYTES_MAX)];
            let line = match window.iter().position(|byte| *byte == b'\n') {
                Some(end) => self.unfinished.split_to(end + 1),
                None if window.len() == LINE_BYTES_MAX => self.unfinished.split_to(LINE_BYTES_MAX),
                None => return lines.freeze(),
            };
            self.put(&mut lines, &line);
        }
    }

    /// What is left, as a line of its own.
    fn rest(&mut self) -> Bytes {
        let mut lines = BytesMut::new();
        let line = std::mem::take(&mut self.unfinished);
        if !line.is_empty() {
            self.put(&mut lines, &line);
        }
        lines.freeze()
    }

    /// A word of ours after all that the task wrote.
    fn remark(&mut self, text: &str) {
        let rest = self.rest();
        self.head = "";
        self.unfinished.extend_from_slice(&rest);
        self.unfinished.extend_from_slice(b"-- - ");
        self.unfinished.extend_from_slice(text.as_bytes());
    }

    fn put(&self, lines: &mut BytesMut, line: &[u8]) {
        lines.put_slice(self.head.as_bytes());
        lines.put_slice(line);
        if !line.ends_with(b"\n") {
            lines.put_u8(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINE_BYTES_MAX, Lines};
    use rollcall_agent::Stream;

    #[test]
    fn lines_come_whole_however_they_were_cut_and_as_the_task_wrote_them() {
        let mut lines = Lines::new(Stream::Err);
        assert_eq!(lines.push(b"a\xff"), b""[..]);
        assert_eq!(lines.push(b"b\n\nc"), b"err - a\xffb\nerr - \n"[..]);
        assert_eq!(lines.rest(), b"err - c\n"[..]);
        assert_eq!(lines.rest(), b""[..]);
        lines.push(b"half");
        lines.remark("the agent is out of touch");
        assert_eq!(lines.rest(), b"err - half\n-- - the agent is out of touch\n"[..]);
    }

    #[test]
    fn a_line_without_end_is_given_in_pieces() {
        let mut lines = Lines::new(Stream::Out);
        let given = lines.push(&vec![b'x'; LINE_BYTES_MAX * 2 + 1]);
        assert_eq!(given.len(), 2 * (LINE_BYTES_MAX + "out - \n".len()));
        assert_eq!(lines.rest(), b"out - x\n"[..]);
    }
}
