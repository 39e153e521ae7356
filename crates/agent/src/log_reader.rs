//! Answers questions for logs, each on a task of its own.

use std::collections::HashMap;

use rollcall_sandbox::{Logs, SandboxState};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::frames::{LogFrame, LogRequest, LogStart};

/// More logs are not read at a time; a request beyond it is answered with an error.
pub const LOG_READERS_MAX: usize = 64;
const PIECE_BYTES_MAX: usize = 64 << 10;

/// The readers of one session. They end with it.
#[derive(Debug, Default)]
pub(crate) struct LogReaders {
    readers: HashMap<u64, JoinHandle<()>>,
}

impl LogReaders {
    /// Starts a reader of a known log.
    pub(crate) fn start(
        &mut self,
        request: LogRequest,
        logs: Logs,
        state: Option<watch::Receiver<SandboxState>>,
        sender: mpsc::Sender<LogFrame>,
    ) {
        self.readers.retain(|_, reader| !reader.is_finished());
        if self.readers.len() >= LOG_READERS_MAX {
            let error = format!("this agent reads {LOG_READERS_MAX} logs already, which is the most; try again later");
            return self.refuse(request.request, error, sender);
        }
        let number = request.request;
        let reader = tokio::spawn(async move {
            let error = send(&request, &logs, state, &sender).await.err();
            // Nobody is left to be told when the session has ended.
            let _ = sender.send(LogFrame::End { request: request.request, error }).await;
        });
        self.readers.insert(number, reader);
    }

    /// Answers with an error alone.
    pub(crate) fn refuse(&mut self, request: u64, error: String, sender: mpsc::Sender<LogFrame>) {
        self.readers.retain(|_, reader| !reader.is_finished());
        if self.readers.len() >= 2 * LOG_READERS_MAX {
            tracing::warn!(request, error, "nobody reads the answers about logs; this one is dropped");
            return;
        }
        // The channel may be full, so the answer waits in a task and not in the agent's loop.
        let answer = async move {
            let _ = sender.send(LogFrame::End { request, error: Some(error) }).await;
        };
        self.readers.insert(request, tokio::spawn(answer));
    }

    pub(crate) fn stop(&mut self, request: u64) {
        if let Some(reader) = self.readers.remove(&request) {
            reader.abort();
        }
    }
}

impl Drop for LogReaders {
    fn drop(&mut self) {
        self.readers.values().for_each(JoinHandle::abort);
    }
}

async fn send(
    request: &LogRequest,
    logs: &Logs,
    mut state: Option<watch::Receiver<SandboxState>>,
    sender: &mpsc::Sender<LogFrame>,
) -> Result<(), String> {
    let told = |error: rollcall_sandbox::LogError| {
        if error.is_missing() {
            "there is no such log: the task never started, or its logs were removed".to_owned()
        } else {
            error.to_string()
        }
    };
    if let Some(state) = &mut state {
        // The log exists when the task has left this state. An actor that is gone leaves us with what there is.
        let _ = state.wait_for(|state| *state != SandboxState::Starting).await;
    }
    let mut offset = start_offset(request, logs).await.map_err(told)?;
    if let (true, Some(state)) = (request.follow, state) {
        let mut follow = logs.follow(request.stream, offset).map_err(told)?;
        let mut state = state;
        loop {
            let chunk = tokio::select! {
                chunk = follow.next() => chunk.map_err(told)?,
                _ = state.wait_for(|state| matches!(state, SandboxState::Ended(_))) => break,
            };
            offset = chunk.next();
            deliver(request, chunk, sender).await?;
        }
    }
    loop {
        let (reader, stream) = (logs.clone(), request.stream);
        let reading = tokio::task::spawn_blocking(move || reader.read(stream, offset, PIECE_BYTES_MAX));
        let chunk = reading.await.map_err(|error| error.to_string())?.map_err(told)?;
        if chunk.bytes.is_empty() {
            return Ok(());
        }
        offset = chunk.next();
        deliver(request, chunk, sender).await?;
    }
}

async fn start_offset(request: &LogRequest, logs: &Logs) -> Result<u64, rollcall_sandbox::LogError> {
    match request.start {
        LogStart::Offset(offset) => Ok(offset),
        LogStart::LastLines(lines) => {
            let (logs, stream) = (logs.clone(), request.stream);
            let finding = tokio::task::spawn_blocking(move || logs.start_of_last_lines(stream, lines));
            finding.await.unwrap_or(Ok(0))
        }
    }
}

async fn deliver(
    request: &LogRequest,
    chunk: rollcall_sandbox::Chunk,
    sender: &mpsc::Sender<LogFrame>,
) -> Result<(), String> {
    let frame = LogFrame::Bytes { request: request.request, from: chunk.from, bytes: chunk.bytes };
    sender.send(frame).await.map_err(|_| "the session has ended".to_owned())
}
