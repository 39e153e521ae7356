//! Counts and latencies in Prometheus form.

use super::SharedHouse;
use super::answer::with_type;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Upper bounds of the buckets, in seconds: from an answer out of memory to one that waits for a disk in trouble.
const LATENCY_BUCKETS: [f64; 14] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0];

/// A request's kind: no part of it is the client's free text, so there are only so many.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    method: &'static str,
    path: String,
    status: u16,
}

/// What the doors count.
pub(crate) struct Metrics {
    requests: Family<Kind, Histogram>,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics { requests: Family::new_with_constructor(|| Histogram::new(LATENCY_BUCKETS)) }
    }
}

/// Measures each request up to the head of its answer.
pub(super) async fn measure(State(house): SharedHouse, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let method = match request.method().as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        _ => "other",
    };
    let path = request.extensions().get::<MatchedPath>().map_or("other", MatchedPath::as_str).to_owned();
    let answer = next.run(request).await;
    let kind = Kind { method, path, status: answer.status().as_u16() };
    house.metrics.requests.get_or_create(&kind).observe(begun.elapsed().as_secs_f64());
    answer
}

/// `GET /metrics`.
pub(super) async fn print(State(house): SharedHouse) -> Response {
    let mut registry = Registry::with_prefix("rollcall");
    let requests = house.metrics.requests.clone();
    registry.register_with_unit(
        "request_duration",
        "Time to the head of an answer, per kind of request",
        Unit::Seconds,
        requests,
    );
    let (store, counts) = (house.writer.store(), house.writer.counts());
    let snapshot = store.snapshot();
    let mut gauge = |name: &str, help: &str, value: u64| {
        registry.register(name, help, ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)));
    };
    gauge("version", "The newest version of the store", snapshot.version().0);
    for table in snapshot.tables() {
        let (name, rows) = (table.schema().name, table.row_count() as u64);
        gauge(&format!("rows_{name}"), &format!("Rows of the table {name}"), rows);
    }
    let (retained_bytes, retained_versions) = store.retained();
    gauge("retained_bytes", "Bytes held only for old versions", retained_bytes as u64);
    gauge("retained_versions", "Old versions that can be asked for", retained_versions as u64);
    let mut counter = |name: &str, help: &str, value: &std::sync::atomic::AtomicU64| {
        registry.register(name, help, ConstCounter::new(value.load(Ordering::Relaxed)));
    };
    counter("commands", "Commands that were run", &counts.commands);
    counter("commits", "Commits that were published", &counts.commits);
    counter("failed_commits", "Commits that could not be made durable", &counts.failed_commits);
    counter("checkpoints", "Checkpoints that were written", &counts.checkpoints);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = encode(&mut text, &registry);
    with_type(text.into(), "application/openmetrics-text; version=1.0.0; charset=utf-8")
}
