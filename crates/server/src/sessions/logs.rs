//! The way to the logs on an agent: questions go with the wanted state, answers come on a channel of their own.

use rollcall_agent::{LogFrame, LogRequest, LogStart, Stream, TaskUid, ToAgent};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// So many pieces wait for a reader. One that lets more come asks again later, from where it is: a log is a file, so nothing is lost.
const PIECES_WAITING_MAX: usize = 16;

/// The way to the logs of one agent, for as long as its session lasts.
#[derive(Clone)]
pub(crate) struct LogRelay {
    inner: Arc<Relay>,
}

struct Relay {
    /// Weak, since the session ends when the last strong one is gone.
    to_agent: mpsc::WeakSender<ToAgent>,
    next_request: AtomicU64,
    readers: Mutex<HashMap<u64, mpsc::Sender<LogFrame>>>,
}

impl LogRelay {
    pub(super) fn new(to_agent: &mpsc::Sender<ToAgent>) -> LogRelay {
        let to_agent = to_agent.downgrade();
        LogRelay { inner: Arc::new(Relay { to_agent, next_request: AtomicU64::new(1), readers: Mutex::default() }) }
    }

    /// Hands each piece to its reader, until the agent is gone. Never waits for a reader.
    pub(super) async fn carry(&self, mut logs: mpsc::Receiver<LogFrame>) {
        while let Some(frame) = logs.recv().await {
            let request = match &frame {
                LogFrame::Bytes { request, .. } | LogFrame::End { request, .. } => *request,
            };
            let is_last = matches!(frame, LogFrame::End { .. });
            let reader = match is_last {
                true => self.inner.readers().remove(&request),
                false => self.inner.readers().get(&request).cloned(),
            };
            let Some(reader) = reader else { continue };
            if reader.try_send(frame).is_err() {
                // Too slow, or gone. It sees its channel end and asks again when it has caught up.
                self.inner.readers().remove(&request);
                self.inner.send(ToAgent::StopLogs { request }).await;
            }
        }
        self.inner.readers().clear();
    }

    /// Asks for a log.
    pub(crate) async fn read(&self, task: TaskUid, stream: Stream, start: LogStart, follow: bool) -> LogReader {
        let request = LogRequest { request: 0, task, stream, start, follow };
        let (_, pieces) = mpsc::channel(1);
        let mut reader = LogReader { relay: self.clone(), request, pieces };
        reader.ask().await;
        reader
    }
}

impl Relay {
    fn readers(&self) -> MutexGuard<'_, HashMap<u64, mpsc::Sender<LogFrame>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the agent is still there to hear it.
    async fn send(&self, frame: ToAgent) -> bool {
        match self.to_agent.upgrade() {
            Some(to_agent) => to_agent.send(frame).await.is_ok(),
            None => false,
        }
    }
}

/// One reader of one log.
pub(crate) struct LogReader {
    relay: LogRelay,
    /// What is being asked, with the offset that comes next.
    request: LogRequest,
    pieces: mpsc::Receiver<LogFrame>,
}

impl LogReader {
    /// The next bytes; `None` at the end of the log, which a followed one has when its task has ended.
    ///
    /// # Errors
    /// Why the log cannot be read, as a sentence.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            match self.pieces.recv().await {
                Some(LogFrame::Bytes { from, bytes, .. }) => {
                    self.request.start = LogStart::Offset(from + bytes.len() as u64);
                    return Ok(Some(bytes));
                }
                Some(LogFrame::End { error: None, .. }) => return Ok(None),
                Some(LogFrame::End { error: Some(error), .. }) => return Err(error),
                None if self.ask().await => {}
                None => return Err("the agent is out of touch; what it has is there when it is back".into()),
            }
        }
    }

    /// Asks from where it is; `false` if the agent is gone.
    async fn ask(&mut self) -> bool {
        self.request.request = self.relay.inner.next_request.fetch_add(1, Ordering::Relaxed);
        let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
        self.pieces = pieces;
        self.relay.inner.readers().insert(self.request.request, sender);
        let heard = self.relay.inner.send(ToAgent::ReadLogs(self.request.clone())).await;
        if !heard {
            self.relay.inner.readers().remove(&self.request.request);
        }
        heard
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        let request = self.request.request;
        if self.relay.inner.readers().remove(&request).is_some() {
            let relay = self.relay.clone();
            // Outside a runtime the session is gone too.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { relay.inner.send(ToAgent::StopLogs { request }).await });
            }
        }
    }
}

#[cfg(test)]
mod tests;
