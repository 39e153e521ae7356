//! The body of an answer that comes piece by piece from a task of its own.

use axum::body::HttpBody;
use bytes::Bytes;
use hyper::body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// So many pieces wait for the socket before whoever makes them waits.
const PIECES_WAITING_MAX: usize = 4;

/// The receiving end.
pub(super) struct Pieces(mpsc::Receiver<Bytes>);

/// A body, and where its pieces go. A closed sender means that nobody listens any more.
pub(super) fn pieces() -> (mpsc::Sender<Bytes>, Pieces) {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING_MAX);
    (sender, Pieces(receiver))
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
