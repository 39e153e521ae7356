//! What is told of a run: the figures, as one JSON object.

use crate::clock;
use crate::latency::{Latency, rounded};
use crate::measure::Measurement;
use serde::Serialize;

/// All figures of one run. Serialised it is the object that `--json` prints.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of the benchmark.
    pub bench: &'static str,
    /// The version of this program.
    pub version: &'static str,
    /// Processors that this process may use.
    pub cores: usize,
    /// How long the whole run took.
    pub seconds: f64,
    /// The cases, in the order in which they ran.
    pub cases: Vec<CaseReport>,
    /// What cases say only together, for people.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// The figures of one case. What the case does not measure is `None`, never zero.
#[derive(Clone, Debug, Serialize)]
pub struct CaseReport {
    /// Its name, with the size behind a colon.
    pub case: String,
    /// How many operations the figures are made of.
    pub ops: u64,
    /// How many of them failed, or did not find what they should.
    pub errors: u64,
    /// Operations per second of the time spent inside operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ops_per_s: Option<f64>,
    /// How long an operation takes, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// Processor time per operation, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us_per_op: Option<f64>,
    /// Bytes allocated per operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_alloc_per_op: Option<f64>,
    /// Bytes held per row when nothing happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_bytes_per_row: Option<f64>,
    /// The most memory that the process held meanwhile, load and floor included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_rss_bytes: Option<u64>,
    /// Bytes of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_bytes: Option<u64>,
    /// The same without our work in the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub floor: Option<Floor>,
    /// Ours divided by the floor's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<Ratio>,
    /// Another product that does the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// How many samples the percentiles are made of; for people.
    #[serde(skip)]
    pub samples: u64,
    /// How many operations make one sample; for people.
    #[serde(skip)]
    pub block: u64,
    /// What else was seen; for people.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// The figures of a floor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Floor {
    /// Operations per second.
    pub ops_per_s: f64,
    /// How long an operation takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<FloorLatency>,
    /// Bytes held per row when nothing happens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_bytes_per_row: Option<f64>,
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct FloorLatency {
    pub p50: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
}

/// Ours divided by the floor's: for operations per second more is better, for times less.
#[derive(Clone, Copy, Debug, Serialize)]
#[allow(missing_docs)]
pub struct Ratio {
    pub ops_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_bytes: Option<f64>,
}

/// The figures of another product.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Peer {
    /// Which product.
    pub name: &'static str,
    /// Its operations per second.
    pub ops_per_s: f64,
}

impl CaseReport {
    /// A case about which nothing is known yet.
    pub(crate) fn empty(case: &str) -> CaseReport {
        CaseReport {
            case: case.to_owned(),
            ops: 0,
            errors: 0,
            ops_per_s: None,
            latency_us: None,
            cpu_us_per_op: None,
            bytes_alloc_per_op: None,
            live_bytes_per_row: None,
            peak_rss_bytes: clock::peak_rss_bytes(),
            response_bytes: None,
            floor: None,
            ratio: None,
            peer: None,
            samples: 0,
            block: 1,
            notes: Vec::new(),
        }
    }

    pub(crate) fn of(
        case: String,
        block: u64,
        ours: &Measurement,
        floor: Option<&Measurement>,
        peers: &[(&'static str, Measurement)],
    ) -> CaseReport {
        let per_op = |sum: f64| (ours.ops > 0).then(|| rounded(sum / ours.ops as f64));
        let floor = floor.map(Floor::of);
        let mut report = CaseReport {
            ops: ours.ops,
            errors: ours.errors,
            ops_per_s: (ours.ops > 0).then(|| rounded(ours.ops_per_second())),
            latency_us: ours.samples.latency(),
            cpu_us_per_op: per_op(ours.cpu.as_secs_f64() * 1e6),
            bytes_alloc_per_op: ours.allocated.and_then(|bytes| per_op(bytes as f64)),
            floor,
            peer: peers.first().map(|(name, peer)| Peer { name, ops_per_s: rounded(peer.ops_per_second()) }),
            samples: ours.samples.count(),
            block,
            ..CaseReport::empty(&case)
        };
        report.ratio = report.floor.and_then(|floor| report.ratio_to(&floor));
        report
    }

    fn ratio_to(&self, floor: &Floor) -> Option<Ratio> {
        let divided = |ours: Option<f64>, floor: Option<f64>| {
            ours.zip(floor).filter(|(_, floor)| *floor > 0.0).map(|(ours, floor)| rounded(ours / floor))
        };
        Some(Ratio {
            ops_per_s: divided(self.ops_per_s, Some(floor.ops_per_s))?,
            p50: divided(self.latency_us.map(|ours| ours.p50), floor.latency_us.map(|floor| floor.p50)),
            p99: divided(self.latency_us.and_then(|ours| ours.p99), floor.latency_us.and_then(|floor| floor.p99)),
            live_bytes: divided(self.live_bytes_per_row, floor.live_bytes_per_row),
        })
    }

    /// The same with bytes per row at rest, ours and the floor's.
    pub(crate) fn weighing(mut self, ours: f64, floor: f64) -> CaseReport {
        self.live_bytes_per_row = Some(rounded(ours));
        if let Some(told) = &mut self.floor {
            told.live_bytes_per_row = Some(rounded(floor));
            self.ratio = self.floor.and_then(|floor| self.ratio_to(&floor));
        }
        self
    }

    /// The same with something to say to people.
    pub(crate) fn note(mut self, note: String) -> CaseReport {
        self.notes.push(note);
        self
    }
}

impl Floor {
    fn of(floor: &Measurement) -> Floor {
        let latency = floor.samples.latency().map(|latency| FloorLatency { p50: latency.p50, p99: latency.p99 });
        Floor { ops_per_s: rounded(floor.ops_per_second()), latency_us: latency, live_bytes_per_row: None }
    }
}

impl Report {
    /// The object that `--json` prints, on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers and words always have a JSON form")
    }
}

#[cfg(test)]
mod tests {
    use super::{CaseReport, Report};
    use crate::latency::P999_SAMPLES_MIN;
    use crate::measure::{Contest, Effort, repeat};
    use serde_json::Value;
    use std::time::Duration;

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().map_or_else(Vec::new, |object| object.keys().map(String::as_str).collect())
    }

    fn report(case: CaseReport) -> Value {
        let report =
            Report { bench: "tasks", version: "1", cores: 2, seconds: 1.5, cases: vec![case], notes: vec!["n".into()] };
        serde_json::from_str(&report.to_json()).expect("it is JSON")
    }

    #[test]
    fn a_full_case_has_exactly_the_promised_fields() {
        crate::count_allocations();
        let mut effort = Effort::quick();
        (effort.budget.samples_min, effort.budget.time_max) = (P999_SAMPLES_MIN, Duration::from_secs(60));
        let busy = || (0..100).map(std::hint::black_box).sum::<u64>() > 0;
        let case = Contest::new("c:1k", repeat(1, busy))
            .floor("", repeat(1, busy))
            .peer("sqlite", repeat(1, busy))
            .run(&effort);
        let json = report(case);
        assert_eq!(keys(&json), ["bench", "cases", "cores", "seconds", "version"]);
        let case = &json["cases"][0];
        assert_eq!(
            keys(case),
            [
                "bytes_alloc_per_op",
                "case",
                "cpu_us_per_op",
                "errors",
                "floor",
                "latency_us",
                "ops",
                "ops_per_s",
                "peak_rss_bytes",
                "peer",
                "ratio"
            ]
        );
        assert_eq!(keys(&case["latency_us"]), ["max", "min", "p25", "p50", "p75", "p90", "p99", "p999"]);
        assert_eq!(keys(&case["floor"]), ["latency_us", "ops_per_s"]);
        assert_eq!(keys(&case["floor"]["latency_us"]), ["p50", "p99"]);
        assert_eq!(keys(&case["ratio"]), ["ops_per_s", "p50", "p99"]);
        assert_eq!(keys(&case["peer"]), ["name", "ops_per_s"]);
    }

    #[test]
    fn what_was_not_measured_is_left_out() {
        let mut case = CaseReport::empty("c");
        case.peak_rss_bytes = None;
        assert_eq!(keys(&report(case)["cases"][0]), ["case", "errors", "ops"]);
    }
}
