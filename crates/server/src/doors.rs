//! The HTTP doors of the native API: from requests to commands and queries, and back.
//!
//! | request | what it gives |
//! |---|---|
//! | `GET /v1/tasks`, `/v1/jobs`, `/v1/agents`, `/v1/specs` | rows of that table |
//! | `POST /v1/jobs` | makes or changes a job |
//! | `POST /v1/jobs/{namespace}/{name}/stop` | stops a job, or with `?instance=` one instance |
//! | `GET /v1/logs/{task}` | what a task wrote, line by line |
//! | `GET /v1/watch` | changes of rows as they happen |
//! | `GET /v1/version` | who answers here |
//! | `GET /v1/openapi.json` | what all of these take and give |
//! | `GET /metrics` | counts and latencies in Prometheus form |
//!
//! Every error has one shape: `{"code", "message", "hint"}`.

mod answer;
mod dumps;
mod guard;
mod jobs;
mod listener;
mod logs;
mod metrics;
mod openapi;
mod pieces;
mod rows;
mod stream;
mod tag;
mod turns;
mod watch;

pub(crate) use dumps::Dumps;
pub(crate) use listener::serve;
pub(crate) use metrics::Metrics;

use crate::sessions::ConnectedAgents;
use crate::{ServerSettings, WriterHandle};
use answer::{Refusal, show_time, shown};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use openapi::{Door, operations};
use rollcall_schema::{Row, Time};
use rollcall_store::Version;
use rollcall_types::{AgentRow, JobRow, SpecRow, Task};
use rollcall_wire_native::ErrorCode;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// A request must have come whole, and its answer have begun, after so long.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(60);

/// What every door has.
pub(crate) struct House {
    pub(crate) writer: WriterHandle,
    pub(crate) agents: ConnectedAgents,
    pub(crate) settings: ServerSettings,
    pub(crate) started: Time,
    pub(crate) metrics: Metrics,
    pub(crate) dumps: Arc<Dumps>,
    /// The newest version that is visible.
    pub(crate) changes: tokio::sync::watch::Receiver<Version>,
}

pub(crate) type SharedHouse = State<Arc<House>>;

/// All doors, with what the document says of them.
fn doors() -> Vec<Door> {
    let door = |path, handler, operation| Door { path, handler, operation };
    vec![
        door("/v1/tasks", get(rows::list::<Task>), operations::list(Task::schema())),
        door("/v1/jobs", get(rows::list::<JobRow>), operations::list(JobRow::schema())),
        door("/v1/agents", get(rows::list::<AgentRow>), operations::list(AgentRow::schema())),
        door("/v1/specs", get(rows::list::<SpecRow>), operations::list(SpecRow::schema())),
        door("/v1/jobs", post(jobs::submit), operations::submit()),
        door("/v1/jobs/{namespace}/{name}/stop", post(jobs::stop), operations::stop()),
        door("/v1/logs/{*task}", get(logs::read), operations::logs()),
        door("/v1/watch", get(watch::read), operations::watch(&watch::tables())),
        door("/v1/version", get(version), operations::version()),
        door("/v1/openapi.json", get(openapi::read), operations::openapi()),
        door("/metrics", get(metrics::print), operations::metrics()),
    ]
}

/// All doors, behind the guard and the clock.
pub(crate) fn router(house: Arc<House>, guard: guard::Guard) -> Router {
    let open = |router: Router<Arc<House>>, door: Door| router.route(door.path, door.handler);
    doors()
        .into_iter()
        .fold(Router::new(), open)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(axum::middleware::from_fn(within_time))
        .layer(axum::middleware::from_fn_with_state(house.clone(), metrics::measure))
        .layer(axum::middleware::from_fn_with_state(Arc::new(guard), guard::check))
        .with_state(house)
}

/// Answers that are not begun in time are given up. What was sent to the writer is done all the same.
async fn within_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(ANSWER_WAIT_MAX, next.run(request)).await {
        Ok(answer) => answer,
        Err(_) => {
            let message = format!("no answer within {} s", ANSWER_WAIT_MAX.as_secs());
            let hint = "a request that came whole may still be carried out; look before sending it again";
            Refusal::new(ErrorCode::Busy, message).hint(hint).into_response()
        }
    }
}

/// Who answers here.
async fn version(State(house): SharedHouse) -> Response {
    let (settings, snapshot) = (&house.settings, house.writer.store().snapshot());
    answer::json(&json!({
        "server": settings.version,
        "mode": "dev",
        "pid": std::process::id(),
        "started": show_time(house.started),
        "time": show_time(crate::clock::now()),
        "data": settings.folder.display().to_string(),
        "version": snapshot.version().0,
    }))
}

async fn no_such_path(uri: Uri) -> Refusal {
    Refusal::new(ErrorCode::NoSuchPath, format!("there is nothing at {}", shown(uri.path())))
        .hint("the native API begins with /v1/: GET /v1/tasks")
}

async fn no_such_method(method: Method, uri: Uri) -> Refusal {
    Refusal::new(ErrorCode::WrongMethod, format!("{} does not take {}", shown(uri.path()), shown(method.as_str())))
}
