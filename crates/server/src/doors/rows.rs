//! Rows of tables: one door for all of them.

use super::SharedHouse;
use super::answer::{Refusal, with_type};
use super::dumps::{self, bytes_of};
use super::tag::{Tag, unchanged};
use super::turns::Turns;
use axum::body::{Body, HttpBody};
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use bytes::Bytes;
use hyper::body::Frame;
use rollcall_schema::IndexSchema;
use rollcall_store::{Condition, Operator, Query, Rows, Snapshot};
use rollcall_wire_native::{JsonRow, ListBody, ListRequest};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// An answer of at most so many rows is sent whole, with its length.
const WHOLE_ROWS_MAX: usize = 256;
/// Of a table with more rows, all but whole copies are read beside the runtime: a scan must not hold up who asks for ten rows.
const READ_INLINE_ROWS_MAX: usize = 10_000;
/// What an index finds is read at once up to so many rows.
const READ_INLINE_FOUND_MAX: usize = 512;

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
    if request.is_whole() && snapshot.table::<R>().len() > WHOLE_ROWS_MAX {
        // A copy of the present is taken when its turn comes, so it has no tag of the moment in which it was asked for.
        let (store, tag) = (house.writer.store().clone(), request.as_of.is_some().then_some(tag));
        let past = tag.is_some().then_some(snapshot);
        let begin = move || {
            let body = ListBody::<R>::new(past.unwrap_or_else(|| store.snapshot()), &request, None)?;
            Ok(Box::new(body) as dumps::Chunks)
        };
        let mut answer = with_type(Body::new(house.dumps.body(begin)), "application/json");
        if let Some(tag) = tag {
            tag.put(answer.headers_mut());
        }
        return Ok(answer);
    }
    let is_small = snapshot.table::<R>().len() <= READ_INLINE_ROWS_MAX || finds_few::<R>(&snapshot, &request);
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
        _ => Body::new(Chunks { body, turns: Turns::default() }),
    };
    let mut answer = with_type(body, "application/json");
    tag.put(answer.headers_mut());
    Ok(answer)
}

/// Whether it asks for one value of a column that an index begins with, and few rows have it. To hand such a question to another thread takes several
/// times as long as to answer it.
fn finds_few<R: JsonRow>(snapshot: &Snapshot, request: &ListRequest) -> bool {
    let Some(condition @ Condition::Compare { column, operator: Operator::Equal, .. }) = &request.condition else {
        return false;
    };
    let begins = |index: &IndexSchema| index.columns.first() == Some(column) && index.only_where.is_none();
    // Every row that is read is one that was asked for, so the limit bounds the reading too.
    let few = Query::all().filter(condition.clone()).limit(READ_INLINE_FOUND_MAX + 1);
    let found = |rows: Rows<'_, '_, R>| rows.count() <= READ_INLINE_FOUND_MAX;
    R::schema().indexes.iter().any(begins) && snapshot.table::<R>().select(few).is_ok_and(found)
}

/// A body whose chunks are made as the socket takes them.
struct Chunks<R: JsonRow> {
    body: ListBody<R>,
    turns: Turns,
}

impl<R: JsonRow> Unpin for Chunks<R> {}

impl<R: JsonRow> HttpBody for Chunks<R> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        ready!(self.turns.poll_turn(context));
        let bytes = self.body.next().map(bytes_of);
        self.turns.took(bytes.as_ref().map_or(0, Bytes::len));
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
