//! Rows of tables: one door for all of them.

use super::SharedHouse;
use super::answer::{Refusal, with_type};
use super::tag::{Tag, unchanged};
use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use rollcall_wire_native::{Chunk, JsonRow, ListBody, ListRequest};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// An answer of at most so many rows is sent whole, with its length.
const WHOLE_ROWS_MAX: usize = 256;
/// Of a table with more rows, all but whole copies are read beside the runtime: a scan must not hold up who asks for ten rows.
const READ_INLINE_ROWS_MAX: usize = 10_000;
/// After so many bytes the sender lets others have their turn, even if its socket takes more.
const TURN_BYTES: usize = 256 << 10;

/// `GET /v1/TABLE`.
pub(super) async fn list<R: JsonRow>(
    State(house): SharedHouse,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let request = ListRequest::parse(uri.query().unwrap_or_default(), R::schema())?;
    let snapshot = request.snapshot(house.writer.store())?;
    let tag = Tag::of::<R>(&request, &snapshot, house.started);
    if tag.is_among(&headers) {
        return Ok(unchanged(&tag));
    }
    let is_small = request.is_whole() || snapshot.table::<R>().len() <= READ_INLINE_ROWS_MAX;
    let read = move || ListBody::<R>::new(snapshot, &request, None);
    let body = match is_small {
        true => read()?,
        // A panic of a reader goes on here, where it is answered as one of ours.
        false => tokio::task::spawn_blocking(read)
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?,
    };
    let body = match body.rows() {
        0..=WHOLE_ROWS_MAX => Body::from(body.into_bytes()),
        _ => Body::new(Chunks { body, turn_bytes: 0 }),
    };
    let mut answer = with_type(body, "application/json");
    tag.put(answer.headers_mut());
    Ok(answer)
}

/// A body whose chunks are made as the socket takes them.
struct Chunks<R: JsonRow> {
    body: ListBody<R>,
    turn_bytes: usize,
}

impl<R: JsonRow> Unpin for Chunks<R> {}

impl<R: JsonRow> HttpBody for Chunks<R> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.turn_bytes >= TURN_BYTES {
            self.turn_bytes = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let bytes = self.body.next().map(|chunk| match chunk {
            Chunk::Own(bytes) => Bytes::from(bytes),
            shared @ Chunk::Shared(..) => Bytes::from_owner(shared),
        });
        self.turn_bytes += bytes.as_ref().map_or(0, Bytes::len);
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
