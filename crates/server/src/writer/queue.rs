//! Commands on their way to the writer: a bounded queue that the writer empties at one stroke.
//!
//! Who sends takes a lock for as long as it takes to put one pointer into a vector, and wakes the writer only if it sleeps; the writer takes the lock once for
//! all that wait, not once for each.

use super::{WRITE_QUEUE_MAX, WriteError};
use rollcall_commands::{Command, CommandError};
use rollcall_store::{Batch, Version};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

/// A command, and later its outcome: one allocation for its whole way.
pub(super) struct Sent<C: Command> {
    command: Option<C>,
    /// What the batch said; `None` before it was run.
    outcome: Option<Result<C::Answer, CommandError>>,
    sender: oneshot::Sender<Result<(C::Answer, Version), WriteError>>,
}

impl<C: Command> Sent<C> {
    pub(super) fn new(command: C, sender: oneshot::Sender<Result<(C::Answer, Version), WriteError>>) -> Sent<C> {
        Sent { command: Some(command), outcome: None, sender }
    }
}

/// A command of any kind.
pub(super) trait Run: Send {
    /// Runs it in a batch, once.
    fn run(&mut self, batch: &mut Batch<'_>);

    /// Answers it when it is known what became of the batch.
    fn answer(self: Box<Self>, batch: &Result<Version, WriteError>);
}

pub(super) type AnySent = Box<dyn Run>;

impl<C> Run for Sent<C>
where
    C: Command + Send,
    C::Answer: Send,
{
    fn run(&mut self, batch: &mut Batch<'_>) {
        self.outcome = self.command.take().map(|command| batch.attempt(|change| command.apply(change)));
    }

    fn answer(self: Box<Self>, batch: &Result<Version, WriteError>) {
        let Sent { outcome, sender, .. } = *self;
        let answer = match (outcome, batch) {
            (Some(Ok(answer)), Ok(version)) => Ok((answer, *version)),
            // A refusal rests on what the batch saw, so it is given only when that is durable.
            (Some(Err(refused)), Ok(_)) => Err(WriteError::Refused(refused)),
            (_, Err(failed)) => Err(failed.clone()),
            (None, Ok(_)) => Err(WriteError::Stopping),
        };
        // A client that went away does not want to know.
        let _ = sender.send(answer);
    }
}

/// More answers than this are given by the clients' runtime.
const ANSWERED_HERE_MAX: usize = 4;

/// The answers to the commands of one batch. Whatever becomes of it, each is given once: at the latest when this is dropped.
pub(super) struct Answers {
    sent: std::vec::IntoIter<AnySent>,
    batch: Result<Version, WriteError>,
}

impl Answers {
    pub(super) fn new(sent: Vec<AnySent>, batch: Result<Version, WriteError>) -> Answers {
        Answers { sent: sent.into_iter(), batch }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        for sent in &mut self.sent {
            sent.answer(&self.batch);
        }
    }
}

/// Gives answers where it costs least: to wake a client from a thread outside of its runtime is a system call for each, from within it is one for many.
#[derive(Clone)]
pub(super) struct AnswerDesk {
    shared: Arc<Shared>,
}

impl AnswerDesk {
    pub(super) fn give(&self, answers: Answers) {
        match self.shared.runtime.get().filter(|_| answers.sent.len() > ANSWERED_HERE_MAX) {
            // A runtime that has ended drops the task, and so gives the answers.
            Some(runtime) => drop(runtime.spawn(async move { drop(answers) })),
            None => drop(answers),
        }
    }
}

/// The end that sends; the writer ends when the last one is gone.
pub(super) struct Queue {
    shared: Arc<Shared>,
}

/// The writer's end.
pub(super) struct Inbox {
    shared: Arc<Shared>,
    /// What was taken out of the queue, the next one last.
    taken: Vec<AnySent>,
}

struct Shared {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// Room in the queue. It is given in the order of asking, which keeps commands in the order in which they were sent.
    room: Semaphore,
    /// Where the first client runs; most often all do.
    runtime: OnceLock<Handle>,
}

#[derive(Default)]
struct Waiting {
    commands: Vec<AnySent>,
    writer_sleeps: bool,
    senders_gone: bool,
    writer_gone: bool,
}

pub(super) fn queue() -> (Arc<Queue>, Inbox) {
    let room = Semaphore::new(WRITE_QUEUE_MAX);
    let shared =
        Arc::new(Shared { waiting: Mutex::default(), arrived: Condvar::new(), room, runtime: OnceLock::new() });
    (Arc::new(Queue { shared: shared.clone() }), Inbox { shared, taken: Vec::new() })
}

/// The writer has ended.
pub(super) struct Closed;

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // It is whole between two statements.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    /// Puts a command into the queue; waits while it is full.
    pub(super) async fn send(&self, command: AnySent) -> Result<(), Closed> {
        let room = self.shared.room.acquire().await.map_err(|_| Closed)?;
        room.forget();
        if self.shared.runtime.get().is_none()
            && let Ok(runtime) = Handle::try_current()
        {
            let _ = self.shared.runtime.set(runtime);
        }
        let mut waiting = self.shared.lock();
        if waiting.writer_gone {
            return Err(Closed);
        }
        waiting.commands.push(command);
        if std::mem::take(&mut waiting.writer_sleeps) {
            drop(waiting);
            self.shared.arrived.notify_one();
        }
        Ok(())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().senders_gone = true;
        self.shared.arrived.notify_one();
    }
}

impl Inbox {
    /// Where the answers to its commands are given.
    pub(super) fn answer_desk(&self) -> AnswerDesk {
        AnswerDesk { shared: self.shared.clone() }
    }

    /// Sleeps until there is a command; false if there will never be one again.
    pub(super) fn wait(&mut self) -> bool {
        if !self.taken.is_empty() {
            return true;
        }
        let mut waiting = self.shared.lock();
        loop {
            if !waiting.commands.is_empty() {
                return true;
            }
            if waiting.senders_gone {
                return false;
            }
            waiting.writer_sleeps = true;
            waiting = self.shared.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes out what waits, unless there is some left of the last time; tells how much there is.
    pub(super) fn take(&mut self) -> usize {
        if self.taken.is_empty() {
            // The two vectors change places, so that neither is allocated again.
            std::mem::swap(&mut self.taken, &mut self.shared.lock().commands);
            self.shared.room.add_permits(self.taken.len());
            self.taken.reverse();
        }
        self.taken.len()
    }

    /// The next command, if there is one now.
    pub(super) fn next(&mut self) -> Option<AnySent> {
        self.take();
        self.taken.pop()
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.shared.room.close();
        let mut waiting = self.shared.lock();
        waiting.writer_gone = true;
        // Who still waits is told that nobody will answer.
        let dropped = std::mem::take(&mut waiting.commands);
        drop(waiting);
        drop(dropped);
    }
}
