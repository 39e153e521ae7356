//! Whole copies of tables, which many may ask for at once: they are sent first come, first served, a few at a time.
//!
//! A copy takes its snapshot when its turn comes, not when it is asked for. So whoever waits holds nothing, and what a few copies hold of old versions
//! is all that any number of readers costs. A reader that does not take its bytes gives up its place to the next and goes on at its own pace; of
//! such readers, each of which holds a snapshot, only so many are kept.

use super::turns::Turns;
use bytes::Bytes;
use hyper::body::{Body, Frame};
use rollcall_wire_native::{ApiError, Chunk};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// So many copies are sent at a time.
const DUMPS_AT_ONCE_MAX: usize = 4;
/// A reader that takes fewer bytes from one look to the next gives up its place.
const PACE_BYTES_MIN: u64 = 256 << 10;
/// So often it is looked whether readers take what they are sent.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// So many readers that gave up their place may go on. Of more, the one that began first is cut off.
const SLOW_READERS_MAX: usize = 16;

/// Why a copy ends before its end. The head of the answer has long been sent, so all that a client sees is that the connection closes.
#[derive(Debug, Error)]
pub(super) enum DumpError {
    /// Too many readers are too slow.
    #[error("the reader was too slow, and {SLOW_READERS_MAX} others were too")]
    CutOff,
    /// It could not be begun.
    #[error("the copy could not be begun: {0}")]
    Begin(ApiError),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping(#[from] AcquireError),
}

/// What a copy is made of.
pub(super) type Chunks = Box<dyn Iterator<Item = Chunk> + Send>;
/// Takes the snapshot and begins.
type Begin = Box<dyn FnOnce() -> Result<Chunks, ApiError> + Send>;

/// All copies of a server.
pub(crate) struct Dumps {
    places: Arc<Semaphore>,
    sending: Mutex<Sending>,
    /// Whether somebody looks after those that are being sent.
    watched: AtomicBool,
}

#[derive(Default)]
struct Sending {
    /// Those that have a place.
    placed: Vec<Placed>,
    /// Those that gave it up, the oldest first.
    slow: VecDeque<Weak<Copying>>,
}

struct Placed {
    copying: Weak<Copying>,
    /// How much had been taken at the last look.
    taken: u64,
    looked_at: bool,
}

/// A copy that is being sent.
struct Copying {
    /// Held while it has a place.
    place: Mutex<Option<OwnedSemaphorePermit>>,
    /// `None` when it was cut off.
    chunks: Mutex<Option<Chunks>>,
    /// Bytes that the connection has taken.
    taken: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the locks here guard is whole between two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dumps {
    pub(crate) fn new() -> Arc<Dumps> {
        let places = Arc::new(Semaphore::new(DUMPS_AT_ONCE_MAX));
        Arc::new(Dumps { places, sending: Mutex::default(), watched: AtomicBool::new(false) })
    }

    /// The body of a copy. `begin` is called when its turn has come.
    pub(super) fn body(
        self: &Arc<Self>,
        begin: impl FnOnce() -> Result<Chunks, ApiError> + Send + 'static,
    ) -> DumpBody {
        let waiting = Box::pin(self.places.clone().acquire_owned());
        DumpBody { dumps: self.clone(), stage: Stage::Waiting(waiting, Box::new(begin)), turns: Turns::default() }
    }

    fn admit(self: &Arc<Self>, place: OwnedSemaphorePermit, begin: Begin) -> Result<Arc<Copying>, ApiError> {
        let chunks = Mutex::new(Some(begin()?));
        let copying = Arc::new(Copying { place: Mutex::new(Some(place)), chunks, taken: AtomicU64::new(0) });
        let placed = Placed { copying: Arc::downgrade(&copying), taken: 0, looked_at: false };
        lock(&self.sending).placed.push(placed);
        if !self.watched.swap(true, Ordering::AcqRel) {
            tokio::spawn(self.clone().watch());
        }
        Ok(copying)
    }

    /// Looks after copies for as long as there are any.
    async fn watch(self: Arc<Self>) {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        loop {
            looks.tick().await;
            let mut sending = lock(&self.sending);
            sending.look();
            if sending.placed.is_empty() && sending.slow.is_empty() {
                // Under the lock, so that who comes now finds it said.
                self.watched.store(false, Ordering::Release);
                return;
            }
        }
    }
}

impl Sending {
    fn look(&mut self) {
        let Sending { placed, slow } = self;
        slow.retain(|copying| copying.strong_count() > 0);
        placed.retain_mut(|placed| {
            let Some(copying) = placed.copying.upgrade() else { return false };
            let taken = copying.taken.load(Ordering::Relaxed);
            let is_slow = placed.looked_at && taken - placed.taken < PACE_BYTES_MIN;
            (placed.taken, placed.looked_at) = (taken, true);
            if is_slow {
                drop(lock(&copying.place).take());
                slow.push_back(placed.copying.clone());
            }
            !is_slow
        });
        while slow.len() > SLOW_READERS_MAX {
            if let Some(oldest) = slow.pop_front().and_then(|oldest| oldest.upgrade()) {
                drop(lock(&oldest.chunks).take());
            }
        }
    }
}

type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

enum Stage {
    Waiting(Waiting, Begin),
    Sending(Arc<Copying>),
    Ended,
}

/// A copy on its way to one reader.
pub(super) struct DumpBody {
    dumps: Arc<Dumps>,
    stage: Stage,
    turns: Turns,
}

impl Body for DumpBody {
    type Data = Bytes;
    type Error = DumpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, DumpError>>> {
        let body = &mut *self;
        if let Stage::Waiting(waiting, _) = &mut body.stage {
            let place = ready!(waiting.as_mut().poll(context));
            let Stage::Waiting(_, begin) = std::mem::replace(&mut body.stage, Stage::Ended) else {
                return Poll::Ready(None);
            };
            let admitted = place.map_err(DumpError::from).and_then(|place| {
                let admitted = body.dumps.admit(place, begin);
                admitted.map_err(DumpError::Begin)
            });
            match admitted {
                Ok(copying) => body.stage = Stage::Sending(copying),
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
        let Stage::Sending(copying) = &body.stage else { return Poll::Ready(None) };
        ready!(body.turns.poll_turn(context));
        let next = match &mut *lock(&copying.chunks) {
            Some(chunks) => chunks.next().map(bytes_of).map(Ok),
            None => Some(Err(DumpError::CutOff)),
        };
        match &next {
            Some(Ok(bytes)) => {
                copying.taken.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                body.turns.took(bytes.len());
            }
            // Its place and its snapshot are given back at once, and not when the connection has sent the rest.
            Some(Err(_)) | None => body.stage = Stage::Ended,
        }
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
    }
}

/// A chunk as a connection sends it, without copying what is shared.
pub(super) fn bytes_of(chunk: Chunk) -> Bytes {
    match chunk {
        Chunk::Own(bytes) => Bytes::from(bytes),
        shared @ Chunk::Shared(..) => Bytes::from_owner(shared),
    }
}

#[cfg(test)]
mod tests;
