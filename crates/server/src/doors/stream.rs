//! A client's connection as the HTTP library writes to it.
//!
//! Two things are seen to here, since they hold for every answer. Who takes nothing of an answer is given up, and with it whatever the answer
//! held: a version of the store, a place among the connections. And what the library answers by itself to bytes that are no request, a status
//! without a body, is put into the one shape of all errors.

use super::answer::Refusal;
use bytes::{Buf, Bytes};
use rollcall_wire_native::{ApiError, ErrorCode};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

/// A client that takes nothing of its answer for so long is given up.
pub(super) const STALL_MAX: Duration = Duration::from_secs(60);
/// A client that is refused may go on sending for so long. Its answer would be lost if the connection was closed on what it still sends.
const LINGER_MAX: Duration = Duration::from_secs(1);

pub(super) struct ClientStream<S> {
    stream: S,
    /// Since the client took nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    /// What is left of the answer that is sent in place of the library's own.
    instead: Option<Bytes>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> ClientStream<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, stalled: None, instead: None }
    }

    /// Sends a refusal, if there is one, and closes the connection so that what was sent last arrives.
    pub(super) async fn close(mut self, refusal: Option<Refusal>) {
        let closing = async {
            if let Some(Refusal(error)) = refusal {
                self.write_all(&written(&error)).await?;
            }
            self.shutdown().await?;
            let mut ignored = [0; 4096];
            while self.read(&mut ignored).await? > 0 {}
            Result::Ok(())
        };
        // It may be gone already; then nobody misses anything.
        let _ = timeout(LINGER_MAX, closing).await;
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<Result<usize>>,
    ) -> Poll<Result<usize>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the client takes nothing")))
    }

    /// Sends our answer in place of `bare`, which counts as written then.
    fn poll_instead(&mut self, context: &mut Context<'_>, mut left: Bytes, bare: usize) -> Poll<Result<usize>> {
        while left.has_remaining() {
            match self.poll(context, |stream, context| stream.poll_write(context, &left)) {
                Poll::Ready(written) => left.advance(written?),
                Poll::Pending => {
                    self.instead = Some(left);
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(bare))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        match self.instead.take().or_else(|| instead_of(bytes)) {
            Some(left) => self.poll_instead(context, left, bytes.len()),
            None => self.poll(context, |stream, context| stream.poll_write(context, bytes)),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let first = slices.first().map_or(&[][..], |slice| slice);
        match self.instead.take().or_else(|| instead_of(first)) {
            Some(left) => self.poll_instead(context, left, first.len()),
            None => self.poll(context, |stream, context| stream.poll_write_vectored(context, slices)),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ClientStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

/// What a connection that failed is told, if it was told nothing yet. `begun` says whether some of a request had come.
pub(super) fn last_word(error: &hyper::Error, begun: bool) -> Option<Refusal> {
    if error.is_timeout() && begun {
        Some(Refusal::new(ErrorCode::TooSlow, "the head of the request did not come whole in time"))
    } else if error.is_parse_version_h2() {
        Some(Refusal::new(ErrorCode::BadRequest, "this server speaks HTTP/1.1 only"))
    } else if error.is_incomplete_message() {
        Some(Refusal::new(ErrorCode::BadRequest, "the request did not come whole"))
    } else {
        None
    }
}

/// Our answer in place of the library's own. Each of ours has a content type, so none of them is taken for one of the library's.
fn instead_of(bytes: &[u8]) -> Option<Bytes> {
    let status = bytes.strip_prefix(b"HTTP/1.")?.get(1..)?.strip_prefix(b" ")?.get(..3)?;
    let refusal = match status {
        b"400" => Refusal::new(ErrorCode::BadRequest, "this is no request of HTTP/1.1")
            .hint("curl http://127.0.0.1:5050/v1/tasks"),
        b"414" => {
            Refusal::new(ErrorCode::QueryTooLong, "the address is too long").hint("ask several times, each for a part")
        }
        b"431" => Refusal::new(ErrorCode::HeadersTooLarge, "the address and the headers are too long, or too many"),
        _ => return None,
    };
    let head = std::str::from_utf8(bytes).ok()?;
    let is_bare = head.ends_with("\r\n\r\n") && !head.to_ascii_lowercase().contains("\r\ncontent-type:");
    is_bare.then(|| written(&refusal.0).into())
}

/// The whole answer of a refusal, after which the connection is closed.
fn written(error: &ApiError) -> Vec<u8> {
    let (status, body) = (error.status(), error.to_json());
    let reason = axum::http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
    let mut answer = format!(
        "HTTP/1.1 {status} {}\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        reason.unwrap_or_default(),
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    answer
}

#[cfg(test)]
mod tests {
    use super::{ClientStream, STALL_MAX, instead_of};
    use std::io::ErrorKind;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, advance};

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (ours, mut theirs) = duplex(1000);
        let mut stream = ClientStream::new(ours);
        let answer = vec![b'x'; 5000];
        let sending = tokio::spawn(async move { stream.write_all(&answer).await });
        // One that takes a little now and then is waited for.
        for _ in 0..3 {
            advance(STALL_MAX * 9 / 10).await;
            theirs.read_exact(&mut [0; 1000]).await.expect("is sent");
        }
        let begun = Instant::now();
        let sent = sending.await.expect("does not panic");
        assert_eq!(sent.map_err(|error| error.kind()), Err(ErrorKind::TimedOut));
        assert!(begun.elapsed() <= STALL_MAX);
    }

    #[tokio::test]
    async fn an_answer_of_the_library_gets_our_shape_however_it_is_taken() {
        let bare = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let (ours, mut theirs) = duplex(7);
        let sending = tokio::spawn(async move { ClientStream::new(ours).write_all(bare).await });
        let mut answer = String::new();
        theirs.read_to_string(&mut answer).await.expect("is text");
        sending.await.expect("does not panic").expect("is sent");
        assert!(answer.contains("\r\ncontent-type: application/json\r\n"), "{answer}");
        assert!(answer.ends_with("\"hint\":\"curl http://127.0.0.1:5050/v1/tasks\"}\n"), "{answer}");
    }

    #[test]
    fn our_own_answers_are_left_alone() {
        for own in [
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n",
            "{\"rows\":[]}",
            "",
        ] {
            assert_eq!(instead_of(own.as_bytes()), None, "{own}");
        }
    }
}
