//! The writer's thread: commands in, commits out.

mod commit;
mod queue;

use commit::{Committer, InFlight, SharedCommitter, ToLog};
use queue::{Inbox, Queue, Sent};
use rollcall_commands::{Command, CommandError};
use rollcall_log::{Disk, Log};
use rollcall_schema::Time;
use rollcall_store::{Store, Version, Writer};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use thiserror::Error;
use tokio::sync::oneshot;

/// The most commands of one batch, which is one commit and one version.
pub const BATCH_COMMANDS_MAX: usize = 1024;

/// The most commands that wait for the writer; who sends more waits.
pub const WRITE_QUEUE_MAX: usize = 4096;

/// A batch whose record has reached this size is ended.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// So many commands are not worth two batches.
const HALVED_MIN: usize = 8;

/// Of more commands than this, preparing takes so much longer than the disk that smaller batches only cost.
const HALVED_MAX: usize = 256;

/// How many prepared batches wait for the log thread beside the one it works on.
const PREPARED_MAX: usize = 1;

/// Why a command was not done, or may not have been.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// The command was refused. Nothing was changed.
    #[error(transparent)]
    Refused(#[from] CommandError),
    /// The change could not be made durable. Reading goes on.
    #[error("the change could not be written to disk, and was not made: {reason}")]
    NotDurable {
        /// What the disk said, and what to do.
        reason: String,
    },
    /// The disk failed while the change was written: it is not visible, but a start soon after may find it on disk.
    #[error(
        "the disk failed while the change was written; it is not made now, but may be there after a restart: {reason}"
    )]
    Uncertain {
        /// What the disk said, and what to do.
        reason: String,
    },
    /// The server is stopping.
    #[error("the server is stopping and takes no more changes")]
    Stopping,
}

/// What was written so far.
#[derive(Debug, Default)]
pub struct WriteCounts {
    /// Commands that were run.
    pub commands: AtomicU64,
    /// Commits that were published.
    pub commits: AtomicU64,
    /// Commits that could not be made durable.
    pub failed_commits: AtomicU64,
    /// Checkpoints that were written.
    pub checkpoints: AtomicU64,
    /// Nanoseconds of processor time that the writer's thread has used.
    pub writer_cpu_nanos: AtomicU64,
    /// Nanoseconds of processor time that the log's thread has used.
    pub log_cpu_nanos: AtomicU64,
    /// Bytes of the records that were appended to the log.
    pub log_bytes: AtomicU64,
    /// Bytes of the records that a restart would replay now.
    pub replay_bytes: AtomicU64,
    /// At so many of them the next checkpoint is begun.
    pub replay_bytes_max: AtomicU64,
}

/// How the writer works.
#[derive(Clone, Copy)]
pub struct WriterSettings {
    /// Where the time of commits comes from.
    pub clock: fn() -> Time,
    /// A checkpoint is begun when so many bytes were appended since the last one, or half its size if that is more.
    pub checkpoint_after_bytes: u64,
}

impl WriterSettings {
    /// The usual ones.
    pub fn new() -> WriterSettings {
        WriterSettings { clock: crate::clock::now, checkpoint_after_bytes: 64 << 20 }
    }
}

impl Default for WriterSettings {
    fn default() -> Self {
        WriterSettings::new()
    }
}

/// Sends commands to the writer. Cloning it is cheap.
#[derive(Clone)]
pub struct WriterHandle {
    queue: Arc<Queue>,
    store: Arc<Store>,
    counts: Arc<WriteCounts>,
}

/// The running threads; they end when the last handle is gone.
pub struct WriterThreads {
    writer: JoinHandle<()>,
    committer: JoinHandle<()>,
}

impl WriterThreads {
    /// Waits until all that was sent is written and the log is closed.
    pub fn join(self) {
        for thread in [self.writer, self.committer] {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl WriterHandle {
    /// Starts the writer's thread and the log's.
    ///
    /// # Errors
    /// If the system has no room for another thread.
    pub fn start<D: Disk>(
        writer: Writer,
        log: Log<D>,
        settings: WriterSettings,
    ) -> std::io::Result<(WriterHandle, WriterThreads)> {
        let (queue, commands) = queue::queue();
        let (prepared, to_log) = sync_channel(PREPARED_MAX);
        let counts = Arc::new(WriteCounts::default());
        let store = writer.store().clone();
        let committer = Committer::new(store.clone(), log, settings, counts.clone(), commands.answer_desk());
        let generation = committer.generation();
        let committer = Arc::new(Mutex::new(Some(committer)));
        let in_flight = Arc::new(AtomicUsize::new(0));
        let log = WayToLog { sender: prepared, in_flight: in_flight.clone(), committer: committer.clone() };
        let logging = move || commit::run(&committer, &to_log, &in_flight);
        let committer = std::thread::Builder::new().name("log".into()).spawn(logging)?;
        let counted = counts.clone();
        let writing = move || write(writer, commands, &log, &generation, settings, &counted);
        let writer = std::thread::Builder::new().name("writer".into()).spawn(writing)?;
        Ok((WriterHandle { queue, store, counts }, WriterThreads { writer, committer }))
    }

    /// The store that is written to.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What was written so far.
    pub fn counts(&self) -> &WriteCounts {
        &self.counts
    }

    /// Has a command run. The answer comes with the version of its commit, once that is as durable as its tables ask for and visible: a snapshot
    /// taken after the answer has it.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn run<C>(&self, command: C) -> Result<(C::Answer, Version), WriteError>
    where
        C: Command + Send + 'static,
        C::Answer: Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        self.queue.send(Box::new(Sent::new(command, sender))).await.map_err(|_| WriteError::Stopping)?;
        receiver.await.map_err(|_| WriteError::Stopping)?
    }
}

/// How batches come from the writer to the log.
struct WayToLog<D: Disk> {
    sender: SyncSender<ToLog>,
    /// Batches that were sent and are not answered.
    in_flight: Arc<AtomicUsize>,
    committer: Arc<SharedCommitter<D>>,
}

/// The log's thread has ended.
struct LogEnded;

impl<D: Disk> WayToLog<D> {
    /// How many commands the next batch takes of those that wait. While the log has nothing to do, only half of a few: it writes that half while the other
    /// is prepared, and from then on both threads work. [64 clients: 73 k/s instead of 61 k/s]
    fn batch_commands(&self, waiting: usize) -> usize {
        let is_idle = self.in_flight.load(Ordering::Acquire) == 0;
        let most = if is_idle && waiting <= HALVED_MAX { (waiting / 2).max(HALVED_MIN) } else { waiting };
        most.clamp(1, BATCH_COMMANDS_MAX)
    }

    /// Has the log's thread commit a batch, while the writer prepares the next.
    fn send(&self, batch: InFlight) -> Result<(), LogEnded> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.sender.send(ToLog::Batch(batch)).map_err(|_| LogEnded)
    }

    /// Commits a batch here and now, which saves waking another thread: for one client at a time, when there is nothing to prepare meanwhile.
    fn commit(&self, batch: InFlight) -> Result<(), LogEnded> {
        if self.in_flight.load(Ordering::Acquire) > 0 {
            return self.send(batch);
        }
        let wake = {
            let mut committer = self.committer.lock().map_err(|_| LogEnded)?;
            committer.as_mut().ok_or(LogEnded)?.commit_beside(batch)
        };
        if wake { self.sender.send(ToLog::Look).map_err(|_| LogEnded) } else { Ok(()) }
    }
}

/// The writer's loop.
fn write<D: Disk>(
    mut writer: Writer,
    mut commands: Inbox,
    log: &WayToLog<D>,
    generation: &AtomicU64,
    settings: WriterSettings,
    counts: &WriteCounts,
) {
    let mut current = generation.load(Ordering::Acquire);
    let mut alone_before = false;
    while commands.wait() {
        let newest = generation.load(Ordering::Acquire);
        if newest != current {
            // A batch failed: what was prepared on top of it fails too, and work goes on from what is published.
            writer.abandon();
            current = newest;
        }
        let mut batch = writer.begin((settings.clock)());
        let most = log.batch_commands(commands.take());
        let mut sent = Vec::with_capacity(most);
        while sent.len() < most
            && batch.written_bytes() < BATCH_BYTES_MAX
            && let Some(mut next) = commands.next()
        {
            next.run(&mut batch);
            sent.push(next);
        }
        counts.commands.fetch_add(sent.len() as u64, Ordering::Relaxed);
        let in_flight = InFlight { prepared: batch.prepare(), sent, generation: current };
        // A single command after a single one: there is one client, or there are few changes.
        let alone = in_flight.sent.len() == 1;
        let gone = if std::mem::replace(&mut alone_before, alone) && alone {
            log.commit(in_flight)
        } else {
            log.send(in_flight)
        };
        if gone.is_err() {
            // The log thread has ended, which it does only with the server; the commands are dropped unanswered.
            return;
        }
        counts.writer_cpu_nanos.store(thread_cpu_nanos(), Ordering::Relaxed);
    }
}

/// Processor time that this thread has used.
fn thread_cpu_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests;
