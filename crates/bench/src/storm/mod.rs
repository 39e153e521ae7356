//! The benchmark `storm`: 500 clients read all of 100,000 tasks again and again, the server makes 1,000 changes a second, and one client asks for ten rows.
//!
//! Two servers take turns under the same clients, which are this process: ours, and a plain one that sends bytes made beforehand, as many as ours. What is
//! told is the median of three storms.

mod clients;
mod servers;

pub(crate) use servers::{serve_ours, serve_plain};

use crate::catalog::{self, Case, Options, Run};
use crate::data::DiskFolder;
use crate::latency::{Latency, P99_SAMPLES_MIN, rounded};
use crate::load::{Load, Shape};
use crate::measure::Measurement;
use crate::part::{Part, SERVE_OURS, SERVE_PLAIN};
use crate::random::Random;
use crate::report::{CaseReport, Report};
use anyhow::Context;
use clients::{Asked, Dumped, Ending, ask_alone, fetch, request, storm};
use servers::{CHANGE, DUMP, REST, SMALL};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// Clients that read everything.
const DUMPERS: usize = 500;

/// The same when only seen to run.
const DUMPERS_QUICK: usize = 20;

/// Each of them reads so many dumps, the first while the others arrive.
const DUMPS_EACH: u64 = 2;

/// A storm takes no longer.
const STORM_MAX: Duration = Duration::from_secs(180);

/// Rows that the small question asks for.
const SMALL_ROWS: usize = 10;

/// Everything, as ours is asked for it.
const DUMP_OURS: &str = "/v1/tasks";

const CASES: &[Case] = &[
    Case { name: "small.alone", sizes: &[], run: small_alone },
    Case { name: "small.in_storm", sizes: &[], run: small_in_storm },
    Case { name: "dump", sizes: &[], run: dump },
];

/// Runs the cases that are wanted.
pub(crate) fn run(options: &Options, done: &mut dyn FnMut(&CaseReport)) -> anyhow::Result<Report> {
    let report = catalog::run("storm", CASES, options, done);
    STORMS.take();
    report
}

thread_local! {
    /// The storms of this run, since two cases tell of the same ones.
    static STORMS: RefCell<Option<Rc<Storms>>> = const { RefCell::new(None) };
}

/// Nobody else asks.
fn small_alone(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let mut ours = Field::ours(run)?;
    let mut plain = Field::plain(&ours, false)?;
    let time = run.effort.budget.time;
    let (mut ours_told, mut plain_told) = (Vec::new(), Vec::new());
    for _ in 0..run.effort.rounds {
        ours.part.tell(CHANGE)?;
        ours_told.push(ours.measured(|field| Ok(asked(&ask_alone(field.port, field.small(), time)?)))?);
        ours.part.tell(REST)?;
        plain_told.push(plain.measured(|field| Ok(asked(&ask_alone(field.port, field.small(), time)?)))?);
    }
    let report = CaseReport::of(run.case.clone(), 1, &median(ours_told), Some(&median(plain_told)), &[]);
    Ok(report.note("cpu is the server's, its 1,000 changes a second included".into()))
}

/// Everybody asks. The floor serves whoever came first; a second plain server, which is told beside it, lets small questions pass by all dumps.
fn small_in_storm(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let storms = storms(run)?;
    let small = |storms: &[Storm]| median(storms.iter().map(|storm| asked(&storm.asked)).collect());
    let (ours, in_line) = (small(&storms.ours), small(&storms.in_line));
    let report = CaseReport::of(run.case.clone(), 1, &ours, Some(&in_line), &[]);
    let told = |latency: Option<Latency>, figure: fn(&Latency) -> f64| latency.as_ref().map_or(0.0, figure);
    let (ours, passing) = (ours.samples.latency(), small(&storms.plain).samples.latency());
    let worst = told(in_line.samples.latency(), |latency| latency.max);
    let passing = format!(
        "a plain server that sends small answers past all dumps: p50 {:.0}, p99 {:.0}; ours / that: p50 {:.2}",
        told(passing, |latency| latency.p50),
        told(passing, |latency| latency.p99.unwrap_or(latency.max)),
        told(ours, |latency| latency.p50) / told(passing, |latency| latency.p50).max(1.0)
    );
    let report = report.note(format!(
        "floor: the same clients on a plain server of bytes made beforehand, first come, first served; its slowest {worst:.0}"
    ));
    Ok(if run.effort.alone { report } else { report.note(passing) })
}

/// What those get who read everything.
fn dump(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let storms = storms(run)?;
    let dumps = |storms: &[Storm]| median(storms.iter().map(|storm| dumped(&storm.dumped)).collect());
    let mut report = CaseReport::of(run.case.clone(), 1, &dumps(&storms.ours), Some(&dumps(&storms.plain)), &[]);
    let middle = |figure: fn(&Storm) -> f64, storms: &[Storm]| {
        let mut figures: Vec<f64> = storms.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or(0.0)
    };
    let rate = |storm: &Storm| storm.dumped.bytes as f64 / storm.dumped.time.as_secs_f64();
    let cpu = |storm: &Storm| storm.cpu.as_secs_f64() * 1e9 / storm.dumped.bytes as f64;
    let (ours, plain) = (middle(rate, &storms.ours), middle(rate, &storms.plain));
    let over = middle(|storm| (storm.peak_bytes - storm.idle_bytes.min(storm.peak_bytes)) as f64, &storms.ours);
    let allowed = 2 * storms.dump_bytes + (100 << 20);
    let slowest = middle(|storm| storm.slowest(), &storms.ours);
    report.response_bytes = Some(storms.dump_bytes);
    report.peak_rss_bytes = storms.ours.iter().map(|storm| storm.peak_bytes).max();
    Ok(report
        .note(format!(
            "{:.0} MB/s, the plain server {:.0} MB/s; ours / floor: {:.3}",
            ours / 1e6,
            plain / 1e6,
            rounded(ours / plain)
        ))
        .note(format!(
            "slowest dump / median: {slowest:.2}, the plain server's {:.2}",
            middle(|storm| storm.slowest(), &storms.plain)
        ))
        .note(format!(
            "processor time of the server for a gigabyte: {:.2} s, the plain server's {:.2} s",
            middle(cpu, &storms.ours),
            middle(cpu, &storms.plain)
        ))
        .note(format!(
            "memory over idle: {:.0} MB of {} MB allowed; a dump has {} bytes",
            over / 1048576.0,
            allowed >> 20,
            storms.dump_bytes
        )))
}

/// All storms of a run.
struct Storms {
    ours: Vec<Storm>,
    plain: Vec<Storm>,
    /// Storms over a plain server on which small questions wait for the dumps that came before.
    in_line: Vec<Storm>,
    dump_bytes: u64,
}

/// What one storm was like.
struct Storm {
    dumped: Dumped,
    asked: Asked,
    cpu: Duration,
    idle_bytes: u64,
    peak_bytes: u64,
}

impl Storm {
    /// The slowest dump in medians.
    fn slowest(&self) -> f64 {
        let mut times: Vec<f64> = self.dumped.times.iter().map(Duration::as_secs_f64).collect();
        times.sort_by(f64::total_cmp);
        times.last().zip(times.get(times.len() / 2)).map_or(0.0, |(slowest, median)| slowest / median)
    }
}

fn storms(run: &Run<'_>) -> anyhow::Result<Rc<Storms>> {
    if let Some(storms) = STORMS.with_borrow(Clone::clone) {
        return Ok(storms);
    }
    let mut ours = Field::ours(run)?;
    let mut plain = Field::plain(&ours, false)?;
    let mut in_line = Field::plain(&ours, true)?;
    let mut storms = Storms { ours: Vec::new(), plain: Vec::new(), in_line: Vec::new(), dump_bytes: ours.dump_bytes };
    let enough = if run.effort.quick { 1 } else { P99_SAMPLES_MIN };
    for _ in 0..run.effort.rounds {
        ours.part.tell(CHANGE)?;
        storms.ours.push(ours.storm(run, enough)?);
        ours.part.tell(REST)?;
        if !run.effort.alone {
            storms.plain.push(plain.storm(run, enough)?);
            // Each small answer takes as long as a dump, so few are enough to see it.
            storms.in_line.push(in_line.storm(run, 1)?);
        }
    }
    let storms = Rc::new(storms);
    STORMS.set(Some(storms.clone()));
    Ok(storms)
}

/// A server and how it is asked.
struct Field {
    part: Part,
    port: u16,
    dump: &'static str,
    /// Jobs that can be asked for; none if there is only one question.
    jobs: Vec<String>,
    dump_bytes: u64,
    small_bytes: u64,
    idle_bytes: u64,
    _folder: Option<DiskFolder>,
}

impl Field {
    fn ours(run: &Run<'_>) -> anyhow::Result<Field> {
        let folder = DiskFolder::new(run.folder)?;
        let load = Load::new(Shape::usual(run.size));
        let data = folder.path().join("data");
        servers::fill(&data, &load)?;
        let data = data.to_str().context("the folder's name is no text")?.to_owned();
        let mut part = Part::start(SERVE_OURS, &[data, run.size.to_string(), run.effort.quick.to_string()])?;
        let port = part.line()?.parse()?;
        let (idle_bytes, _) = part.memory()?;
        let jobs: Vec<String> = load.names.jobs.iter().map(|job| job.to_string()).collect();
        let small_bytes = fetch(port, &small_path(&jobs[0]))?.bytes;
        let dump_bytes = fetch(port, DUMP_OURS)?.bytes;
        Ok(Field { part, port, dump: DUMP_OURS, jobs, dump_bytes, small_bytes, idle_bytes, _folder: Some(folder) })
    }

    fn plain(ours: &Field, in_line: bool) -> anyhow::Result<Field> {
        let Field { dump_bytes, small_bytes, .. } = *ours;
        let arguments = [dump_bytes.to_string(), small_bytes.to_string(), in_line.to_string()];
        let mut part = Part::start(SERVE_PLAIN, &arguments)?;
        let port = part.line()?.parse()?;
        let (idle_bytes, _) = part.memory()?;
        Ok(Field { part, port, dump: DUMP, jobs: Vec::new(), dump_bytes, small_bytes, idle_bytes, _folder: None })
    }

    /// The requests of the one that asks for a little.
    fn small(&self) -> impl FnMut() -> String + Send + use<> {
        let (port, mut random) = (self.port, Random::new(9));
        let requests: Vec<String> = match self.jobs.is_empty() {
            true => vec![request(SMALL, port)],
            false => self.jobs.iter().map(|job| request(&small_path(job), port)).collect(),
        };
        move || requests[random.below(requests.len())].clone()
    }

    /// Measures the server's processor time beside what `work` measures.
    fn measured(
        &mut self,
        work: impl FnOnce(&mut Field) -> anyhow::Result<Measurement>,
    ) -> anyhow::Result<Measurement> {
        let cpu = self.part.cpu()?;
        let mut measurement = work(self)?;
        measurement.cpu = self.part.cpu()? - cpu;
        Ok(measurement)
    }

    /// One storm, in which a small question is asked so often at least.
    fn storm(&mut self, run: &Run<'_>, small_min: u64) -> anyhow::Result<Storm> {
        let dumpers = if run.effort.quick { DUMPERS_QUICK } else { DUMPERS };
        let ending = Ending { dumps_each: DUMPS_EACH, time_max: STORM_MAX, small_min };
        self.part.reset_peak();
        let cpu = self.part.cpu()?;
        let (dumped, asked) = storm(self.port, dumpers, self.dump, self.small(), &ending)?;
        let (_, peak_bytes) = self.part.memory()?;
        Ok(Storm { dumped, asked, cpu: self.part.cpu()? - cpu, idle_bytes: self.idle_bytes, peak_bytes })
    }
}

fn small_path(job: &str) -> String {
    format!("/v1/tasks?where=job%20%3D%20%27{job}%27&limit={SMALL_ROWS}")
}

fn asked(asked: &Asked) -> Measurement {
    measurement(&asked.times, asked.errors, asked.time)
}

fn dumped(dumped: &Dumped) -> Measurement {
    measurement(&dumped.times, dumped.errors, dumped.time)
}

fn measurement(times: &[Duration], errors: u64, time: Duration) -> Measurement {
    let mut measurement = Measurement::new();
    times.iter().for_each(|time| measurement.samples.record(*time, 1));
    (measurement.ops, measurement.errors, measurement.busy) = (times.len() as u64, errors, time);
    measurement.allocated = None;
    measurement
}

/// The turn whose median time is the middle one; errors of all turns.
fn median(mut turns: Vec<Measurement>) -> Measurement {
    let errors = turns.iter().map(|turn| turn.errors).sum();
    let middle = |turn: &Measurement| turn.samples.latency().map_or(0.0, |latency| latency.p50);
    turns.sort_by(|left, right| middle(left).total_cmp(&middle(right)));
    let at = turns.len() / 2;
    let mut turn = if turns.is_empty() { Measurement::new() } else { turns.swap_remove(at) };
    turn.errors = errors;
    turn
}
