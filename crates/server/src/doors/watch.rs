//! `GET /v1/watch`: changes of rows as server-sent events, gap-free and in the order of commits.

use super::answer::{Refusal, with_type};
use super::guard::only;
use super::pieces::pieces;
use super::{House, SharedHouse};
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::response::Response;
use bytes::Bytes;
use rollcall_schema::{Row, TableSchema};
use rollcall_store::{Store, Version, Watch};
use rollcall_types::{AgentRow, JobRow, SpecRow, Task};
use rollcall_wire_native::{
    ErrorCode, EventPosition, JsonRow, JsonRows, WatchRequest, put_compacted, put_event, put_position,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// So many commits are read at a time. A client that takes nothing keeps as many from being let go of, until it is given up.
const COMMITS_AT_ONCE_MAX: usize = 32;
/// Events are sent in pieces of about this size; a client that takes nothing has a few of them waiting.
const PIECE_BYTES: usize = 16 << 10;
/// A watcher for whom nothing happened is told after so long up to where it has seen everything, however much happened to others: it comes
/// back from there, and not from where changes may be no longer held.
const POSITION_LAG_MAX: Duration = Duration::from_secs(1);
/// When nothing happened at all for so long, it is said again, so that a connection that is dead is noticed.
const QUIET_MAX: Duration = Duration::from_secs(15);

/// What can be watched; the first when nobody says.
pub(super) fn tables() -> [&'static TableSchema; 4] {
    [Task::schema(), JobRow::schema(), AgentRow::schema(), SpecRow::schema()]
}

pub(super) async fn read(State(house): SharedHouse, uri: Uri, headers: HeaderMap) -> Result<Response, Refusal> {
    // One that cannot be read, or another one beside it, is refused as well: to watch from now on would leave a gap that nobody is told of.
    let last_event = headers.get("last-event-id").map(|_| only(&headers, "last-event-id").unwrap_or("unreadable"));
    let request = WatchRequest::parse(uri.query().unwrap_or_default(), last_event, &tables())?;
    let body = match request.schema.name {
        "tasks" => begin::<Task>(&house, request),
        "jobs" => begin::<JobRow>(&house, request),
        "agents" => begin::<AgentRow>(&house, request),
        _ => begin::<SpecRow>(&house, request),
    }?;
    let mut answer = with_type(body, "text/event-stream");
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(answer)
}

fn begin<R: JsonRow>(house: &House, request: WatchRequest) -> Result<Body, Refusal> {
    let store = house.writer.store().clone();
    let newest = store.snapshot().version();
    let from = request.from.unwrap_or(EventPosition::behind(newest));
    if from.version > newest {
        let message = format!("from: version {} has not happened yet; the newest is {newest}", from.version);
        return Err(Refusal::new(ErrorCode::NotYet, message).hint("leave it out to watch from now on"));
    }
    let watch = Watch::new::<R>(&store, from.watch_from(), request.condition.into_iter().collect());
    let watch = watch.map_err(|error| Refusal::new(ErrorCode::BadWhere, format!("where: {error}")))?;
    let (sender, body) = pieces();
    let watcher = Watcher { store, changes: house.changes.clone(), watch, from, encoder: JsonRows::<R>::new(), sender };
    tokio::spawn(watcher.send());
    Ok(Body::new(body))
}

/// One watcher: a position and a condition, never a queue.
struct Watcher<R: Row> {
    store: Arc<Store>,
    changes: watch::Receiver<Version>,
    watch: Watch,
    /// What lies up to here was seen before.
    from: EventPosition,
    encoder: JsonRows<R>,
    sender: mpsc::Sender<Bytes>,
}

impl<R: JsonRow> Watcher<R> {
    /// Sends events until nobody listens, or the position is no longer held.
    async fn send(mut self) {
        let mut out = Vec::new();
        // The client knows at once from where on it sees everything, and that the connection works. A position within a commit is said as it
        // came: a browser keeps what it is told, and would come back from before what it has seen.
        put_position(&mut out, self.from);
        let (mut told, mut told_at) = (self.watch.position(), Instant::now());
        loop {
            // Only a commit that is announced is in the ring for sure; a snapshot may be ahead of it.
            let newest = *self.changes.borrow_and_update();
            match self.watch.next(&self.store, None, COMMITS_AT_ONCE_MAX) {
                Ok(events) => {
                    for event in events.iter().filter(|event| self.from.is_before(event)) {
                        put_event(&mut out, &self.encoder, event);
                        if out.len() >= PIECE_BYTES && !self.flush(&mut out).await {
                            return;
                        }
                    }
                    let position = self.watch.position();
                    if !events.is_empty() || (position > told && told_at.elapsed() >= POSITION_LAG_MAX) {
                        // What was said before is whole now.
                        put_position(&mut out, EventPosition::behind(position));
                        (told, told_at) = (position, Instant::now());
                    }
                }
                Err(compacted) => {
                    put_compacted(&mut out, compacted);
                    self.flush(&mut out).await;
                    return;
                }
            }
            if !out.is_empty() && !self.flush(&mut out).await {
                return;
            }
            if self.watch.position() < newest {
                continue;
            }
            let wait = if self.watch.position() > told { POSITION_LAG_MAX } else { QUIET_MAX };
            tokio::select! {
                changed = self.changes.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until((told_at + wait).into()) => {
                    told = self.watch.position();
                    told_at = Instant::now();
                    put_position(&mut out, EventPosition::behind(told));
                }
                () = self.sender.closed() => return,
            }
        }
    }

    /// Whether somebody still listens.
    async fn flush(&self, out: &mut Vec<u8>) -> bool {
        self.sender.send(std::mem::take(out).into()).await.is_ok()
    }
}
