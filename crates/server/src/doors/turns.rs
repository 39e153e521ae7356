//! Long answers let others have their turn.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// After so many bytes a long answer lets others have their turn, even if its socket takes more.
const TURN_BYTES: usize = 256 << 10;

/// The turns of one answer.
#[derive(Default)]
pub(super) struct Turns {
    bytes: usize,
    /// Ends when all others that could run have run, and whoever waits for a socket was told of it.
    pause: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Turns {
    /// Pending once in a while.
    pub(super) fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.bytes >= TURN_BYTES {
            self.bytes = 0;
            // To wake oneself would not do: a worker looks at its sockets only now and then while it has tasks that can run.
            self.pause = Some(Box::pin(tokio::task::yield_now()));
        }
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        Poll::Ready(())
    }

    /// Counts what was sent.
    pub(super) fn took(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}
