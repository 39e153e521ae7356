//! The log's thread: append, publish, answer, in this order.

use super::queue::{AnswerDesk, Answers, AnySent};
use super::{WriteCounts, WriteError, WriterSettings, thread_cpu_nanos};
use rollcall_log::{AppendError, CheckpointError, Disk, DurabilityClass, FinishedCheckpoint, Log, Sequence};
use rollcall_schema::Durability;
use rollcall_store::{Prepared, Store};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// So often the log's thread looks what is owed while nothing comes. Relaxed changes are on disk after one look; the last batch is proven to be at
/// the second, if the first still found the writer at work: within 100 ms both.
const IDLE_MILLIS: u64 = 50;

/// A checkpoint is begun when the log after the last one is as long as this part of it, or as the settings say if that is more: reading it back
/// then takes little longer than reading the checkpoint, and at most three times as many bytes are written as the log alone has.
const REPLAY_PART: u64 = 2;

/// After a failed checkpoint the next one is begun after so many more batches or idle turns.
const RETRY_TURNS: u64 = 10;

/// What the log's thread is sent.
pub(super) enum ToLog {
    /// A batch to commit.
    Batch(InFlight),
    /// The writer has committed a batch by itself: what that leaves to be done has its time limit.
    Look,
}

/// The log, which its thread and the writer's share; `None` when it is closed. The writer uses it only while its thread has nothing to do.
pub(super) type SharedCommitter<D> = Mutex<Option<Committer<D>>>;

/// A batch on its way to disk.
pub(super) struct InFlight {
    /// `None` if the batch changed nothing: its answers still wait for the batches before it.
    pub(super) prepared: Option<Prepared>,
    /// The commands that were run in it, to be answered.
    pub(super) sent: Vec<AnySent>,
    /// Batches of a generation before the present one were prepared on top of one that failed.
    pub(super) generation: u64,
}

pub(super) struct Committer<D: Disk> {
    store: Arc<Store>,
    log: Log<D>,
    settings: WriterSettings,
    counts: Arc<WriteCounts>,
    generation: Arc<AtomicU64>,
    checkpoint: Checkpoint,
    last_checkpoint_bytes: u64,
    answer_desk: AnswerDesk,
    /// Whether the log's thread wakes by itself within its time.
    looks_again: bool,
    /// The last record when the log's thread had nothing to do the last time.
    seen: Sequence,
}

/// The checkpoint that is being written beside the log's thread.
enum Checkpoint {
    None,
    Running(JoinHandle<Result<FinishedCheckpoint, CheckpointError>>),
    /// The last one failed; not before so many more idle turns is the next one begun.
    Failed(u64),
}

/// The log's thread: works until the writer's thread has ended and all it prepared is answered.
pub(super) fn run<D: Disk>(shared: &SharedCommitter<D>, inbox: &Receiver<ToLog>, in_flight: &AtomicUsize) {
    // A panic of the writer's thread while it held the log is this thread's end too.
    let lock = || shared.lock().ok();
    loop {
        let looks_again = match lock().as_mut().and_then(|log| log.as_mut()) {
            Some(log) => {
                log.looks_again = log.owes_work();
                log.looks_again
            }
            None => return,
        };
        let next = match looks_again {
            true => inbox.recv_timeout(Duration::from_millis(IDLE_MILLIS)),
            false => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let mut locked = lock();
        let Some(log) = locked.as_mut().and_then(|log| log.as_mut()) else { return };
        match next {
            Ok(ToLog::Batch(batch)) => {
                log.commit(batch);
                in_flight.fetch_sub(1, Ordering::Release);
            }
            Ok(ToLog::Look) => {}
            Err(RecvTimeoutError::Timeout) => log.settle(),
            Err(RecvTimeoutError::Disconnected) => break,
        }
        log.tend_checkpoint();
        log.counts.log_cpu_nanos.store(thread_cpu_nanos(), Ordering::Relaxed);
    }
    let log = lock().and_then(|mut log| log.take());
    if let Some(log) = log {
        log.close();
    }
}

impl<D: Disk> Committer<D> {
    pub(super) fn new(
        store: Arc<Store>,
        log: Log<D>,
        settings: WriterSettings,
        counts: Arc<WriteCounts>,
        answer_desk: AnswerDesk,
    ) -> Self {
        let generation = Arc::default();
        let seen = log.last_sequence();
        Committer {
            store,
            log,
            settings,
            counts,
            generation,
            checkpoint: Checkpoint::None,
            last_checkpoint_bytes: 0,
            answer_desk,
            looks_again: false,
            seen,
        }
    }

    /// Grows by one when a batch fails.
    pub(super) fn generation(&self) -> Arc<AtomicU64> {
        self.generation.clone()
    }

    /// Ends the log when nothing more will come.
    fn close(mut self) {
        if let Checkpoint::Running(thread) = std::mem::replace(&mut self.checkpoint, Checkpoint::None) {
            self.take_checkpoint(thread);
        }
        if let Err(error) = self.log.close() {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the log was not closed cleanly; the next start recovers it"
            );
        }
    }

    /// Commits a batch in the writer's own thread; tells whether the log's thread must be woken, so that what is owed is done in time.
    pub(super) fn commit_beside(&mut self, in_flight: InFlight) -> bool {
        self.commit(in_flight);
        self.tend_checkpoint();
        !std::mem::replace(&mut self.looks_again, true)
    }

    /// Whether something must be done soon even if nothing more comes.
    fn owes_work(&self) -> bool {
        let broken = self.log.needs_checkpoint().is_some();
        broken
            || self.log.needs_sync()
            || self.log.needs_idle_record()
            || matches!(self.checkpoint, Checkpoint::Running(_))
    }

    fn commit(&mut self, in_flight: InFlight) {
        let InFlight { prepared, sent, generation } = in_flight;
        let outcome = if generation != self.generation.load(Ordering::Relaxed) {
            let reason =
                "an earlier change failed to be written, and this one was made on top of it; send it again".into();
            Err(WriteError::NotDurable { reason })
        } else {
            match prepared {
                None => Ok(self.store.snapshot().version()),
                Some(prepared) => self.make_durable(&prepared).map(|()| {
                    let version = prepared.version();
                    self.store.publish(prepared);
                    self.counts.commits.fetch_add(1, Ordering::Relaxed);
                    version
                }),
            }
        };
        if outcome.is_err() && generation == self.generation.load(Ordering::Relaxed) {
            self.counts.failed_commits.fetch_add(1, Ordering::Relaxed);
            self.generation.fetch_add(1, Ordering::Release);
        }
        self.answer_desk.give(Answers::new(sent, outcome));
        self.prepare_segment();
    }

    fn make_durable(&mut self, prepared: &Prepared) -> Result<(), WriteError> {
        let broken_before = self.log.needs_checkpoint().is_some();
        let version = rollcall_log::Version(prepared.version().0);
        let class = match prepared.durability {
            Durability::Committed => DurabilityClass::Committed,
            Durability::Relaxed => DurabilityClass::Relaxed,
            Durability::Volatile => return self.log.reserve(version).map_err(|error| not_durable(&error, false)),
        };
        let before = self.log.bytes_since_checkpoint();
        let appended = self.log.append(version, &[&prepared.record()], self.log.epoch(), class);
        self.counts.log_bytes.fetch_add(self.log.bytes_since_checkpoint() - before, Ordering::Relaxed);
        appended.map(drop).map_err(|error| not_durable(&error, !broken_before))
    }

    /// What is owed when nothing came for a while.
    fn settle(&mut self) {
        if self.log.needs_checkpoint().is_some() {
            return;
        }
        let last = self.log.last_sequence();
        if std::mem::replace(&mut self.seen, last) != last && !self.log.needs_sync() {
            // The writer was at it just now.
            return;
        }
        if let Err(error) = self.log.idle_record() {
            tracing::warn!(error = &error as &dyn std::error::Error, "relaxed changes are not yet on disk");
        }
    }

    /// Has the next segment made ready beside this thread, so that no append waits for it.
    fn prepare_segment(&mut self) {
        let Some(preparer) = self.log.segment_preparer() else { return };
        let prepare = move || {
            if let Err(error) = preparer.prepare() {
                tracing::warn!(%error, "the next log segment could not be made ready; it is made when it is needed");
            }
        };
        // Without another thread the segment is made when it is needed.
        let _ = std::thread::Builder::new().name("segment".into()).spawn(prepare);
    }

    fn tend_checkpoint(&mut self) {
        match std::mem::replace(&mut self.checkpoint, Checkpoint::None) {
            Checkpoint::Running(thread) if thread.is_finished() => self.take_checkpoint(thread),
            Checkpoint::Failed(turns @ 1..) => self.checkpoint = Checkpoint::Failed(turns - 1),
            Checkpoint::None | Checkpoint::Failed(_) if self.wants_checkpoint() => self.begin_checkpoint(),
            same => self.checkpoint = same,
        }
    }

    fn wants_checkpoint(&self) -> bool {
        let enough = self.settings.checkpoint_after_bytes.max(self.last_checkpoint_bytes / REPLAY_PART);
        let replayed = self.log.bytes_since_checkpoint();
        self.counts.replay_bytes.store(replayed, Ordering::Relaxed);
        self.counts.replay_bytes_max.store(enough, Ordering::Relaxed);
        self.log.needs_checkpoint().is_some() || replayed >= enough
    }

    fn begin_checkpoint(&mut self) {
        let snapshot = self.store.snapshot();
        let begun = self.log.checkpoint_writer(rollcall_log::Version(snapshot.version().0)).and_then(|mut writer| {
            let write = move || {
                snapshot.write_checkpoint(|chunk| writer.write(chunk))?;
                writer.finish()
            };
            let spawned = std::thread::Builder::new().name("checkpoint".into()).spawn(write);
            spawned.map_err(|source| CheckpointError::Io {
                action: "starting a thread for",
                file: "a checkpoint".into(),
                source,
            })
        });
        self.checkpoint = match begun {
            Ok(thread) => Checkpoint::Running(thread),
            Err(error) => failed_checkpoint(&error),
        };
    }

    fn take_checkpoint(&mut self, thread: JoinHandle<Result<FinishedCheckpoint, CheckpointError>>) {
        match thread.join() {
            Ok(Ok(finished)) => {
                self.last_checkpoint_bytes = finished.bytes();
                match self.log.checkpoint_done(finished) {
                    Ok(()) => drop(self.counts.checkpoints.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => self.checkpoint = failed_checkpoint(&error),
                }
            }
            Ok(Err(error)) => self.checkpoint = failed_checkpoint(&error),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn failed_checkpoint(error: &(dyn std::error::Error + 'static)) -> Checkpoint {
    tracing::warn!(error, "no checkpoint could be written; the log keeps growing until one can");
    Checkpoint::Failed(RETRY_TURNS)
}

fn not_durable(error: &AppendError, may_be_there: bool) -> WriteError {
    let reason = with_causes(error);
    match error {
        AppendError::NeedsCheckpoint { .. } if may_be_there => WriteError::Uncertain { reason },
        _ => WriteError::NotDurable { reason },
    }
}

/// An error and what caused it, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
