//! A server that was killed starts again: its data folder is opened and the store in it loaded.
//!
//! The folder is filled by the server's own writer in a process that is then killed at the worst moment: when the log after the last checkpoint is as
//! long as it may become. Each opening is a process of its own, so that its memory is that of a restart and nothing else.

use crate::catalog::Run;
use crate::clock;
use crate::data::{Changes, DiskFolder, StatusChanges, insert_load, open_data};
use crate::load::{Load, Shape};
use crate::measure::{Budget, Contest, Measurement};
use crate::part::{FILL, OPEN, Part, READ_FLAT};
use crate::report::CaseReport;
use anyhow::Context;
use rollcall_schema::{NamePool, Row};
use rollcall_server::{WriteError, WriterHandle, WriterSettings};
use rollcall_store::{Query, Snapshot};
use rollcall_types::{AgentRow, JobRow, SpecRow, Task};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Changes before the restart that comes after many.
const CHANGES: u64 = 10_000_000;

/// Changes in a command, while many are made.
const CHANGES_AT_ONCE: u64 = 64;

/// Commands on their way to the writer, while many changes are made.
const COMMANDS_AT_ONCE: usize = 64;

/// The log is filled to this share of what may follow a checkpoint.
const FULL: f64 = 0.98;

/// What fills the data folder says when it may be killed.
#[derive(Serialize, Deserialize)]
struct Filled {
    changes: u64,
    checkpoints: u64,
    replay_bytes: u64,
    replay_bytes_max: u64,
}

/// What a process says that has read everything.
#[derive(Serialize, Deserialize)]
struct Loaded {
    nanos: u64,
    cpu_nanos: u64,
    peak_rss_bytes: Option<u64>,
    rows: usize,
    replayed: u64,
}

/// The data of a server that was killed soon after it was filled.
pub(super) fn restart(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    measure(run, 0)
}

/// The same after ten million changes.
pub(super) fn restart_after_changes(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    if run.effort.quick {
        let report = CaseReport::empty(&run.case);
        return Ok(report.note("skipped: ten million changes are not made quickly".into()));
    }
    measure(run, CHANGES)
}

fn measure(run: &Run<'_>, changes: u64) -> anyhow::Result<CaseReport> {
    let folder = DiskFolder::new(run.folder)?;
    let text = |path: &Path| path.to_str().map(str::to_owned).context("the folder's name is no text");
    let (data, flat) = (text(&folder.path().join("data"))?, text(&folder.path().join("flat"))?);
    let mut filling = Part::start(FILL, &[data.clone(), flat.clone(), run.size.to_string(), changes.to_string()])?;
    let filled: Filled = serde_json::from_str(&filling.line()?)?;
    drop(filling);

    // Once each, so that both find their files in the page cache.
    let (first, first_flat) = (load(OPEN, &data)?, load(READ_FLAT, &flat)?);
    anyhow::ensure!(first.rows == first_flat.rows, "{} rows came back of {}", first.rows, first_flat.rows);
    let (last, last_flat) = (RefCell::new(first), RefCell::new(first_flat));
    let turn = |part: &'static str, path: &str, last: &RefCell<Loaded>| {
        let mut measurement = Measurement::new();
        match load(part, path) {
            Ok(loaded) => {
                measurement.ops = 1;
                measurement.busy = Duration::from_nanos(loaded.nanos);
                measurement.cpu = Duration::from_nanos(loaded.cpu_nanos);
                measurement.samples.record(measurement.busy, 1);
                measurement.errors = u64::from(loaded.rows != last.borrow().rows);
                last.replace(loaded);
            }
            Err(_) => measurement.errors = 1,
        }
        measurement.allocated = None;
        measurement
    };
    let report = Contest::new(&run.case, |_: &Budget| turn(OPEN, &data, &last))
        .floor("one flat file of the same rows read, decoded and put into vectors", |_| {
            turn(READ_FLAT, &flat, &last_flat)
        })
        .long()
        .run(run.effort);
    Ok(told(report, &filled, &last.into_inner(), &last_flat.into_inner()).note(format!("on {}", folder.file_system)))
}

fn told(mut report: CaseReport, filled: &Filled, ours: &Loaded, floor: &Loaded) -> CaseReport {
    report.peak_rss_bytes = ours.peak_rss_bytes;
    let megabytes = |bytes: Option<u64>| bytes.unwrap_or(0) >> 20;
    let Filled { changes, checkpoints, replay_bytes, replay_bytes_max } = filled;
    report
        .note(format!(
            "killed after {changes} changes and {checkpoints} checkpoints, with {} MB of at most {} MB of log to replay",
            replay_bytes >> 20,
            replay_bytes_max >> 20
        ))
        .note(format!(
            "{} rows; {} batches replayed; peak memory {} MB, the floor's {} MB",
            ours.rows,
            ours.replayed,
            megabytes(ours.peak_rss_bytes),
            megabytes(floor.peak_rss_bytes)
        ))
}

/// Has a part read everything.
fn load(part: &str, path: &str) -> anyhow::Result<Loaded> {
    Ok(serde_json::from_str(&Part::start(part, &[path.to_owned()])?.line()?)?)
}

/// The part that fills a data folder, writes the flat file beside it, says so, and waits to be killed.
pub(crate) fn fill(arguments: &[String]) -> anyhow::Result<()> {
    let [data, flat, tasks, changes] = arguments else { anyhow::bail!("wrong arguments") };
    let (tasks, wanted): (usize, u64) = (tasks.parse()?, changes.parse()?);
    let opened = open_data(Path::new(data))?;
    let (writer, _threads) = WriterHandle::start(opened.writer, opened.log, WriterSettings::new())?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let filled = runtime.block_on(async {
        let load = Load::new(Shape::usual(tasks));
        insert_load(&writer, &load).await?;
        let changes = Changes::of(&writer.store().snapshot(), &load.names)?;
        drop(load);
        change(&writer, &changes, wanted).await
    })?;
    write_flat(&writer.store().snapshot(), Path::new(flat))?;
    println!("{}", serde_json::to_string(&filled)?);
    loop {
        std::thread::park();
    }
}

/// Makes so many changes, and more until the log after the last checkpoint is as long as it may become.
async fn change(writer: &WriterHandle, changes: &Changes, wanted: u64) -> anyhow::Result<Filled> {
    let mut running: VecDeque<JoinHandle<Result<(), WriteError>>> = VecDeque::new();
    let mut made = 0;
    let counts = writer.counts();
    loop {
        let (now, most) = (counts.replay_bytes.load(Relaxed), counts.replay_bytes_max.load(Relaxed));
        let full = now as f64 >= most as f64 * FULL && now < most;
        let enough = made >= wanted && full;
        if running.len() >= COMMANDS_AT_ONCE || enough {
            match running.pop_front() {
                Some(oldest) => oldest.await??,
                None => break,
            }
            continue;
        }
        let some = (made..made + CHANGES_AT_ONCE).map(|number| changes.number(number)).collect();
        made += CHANGES_AT_ONCE;
        let writer = writer.clone();
        running.push_back(tokio::spawn(async move { writer.run(StatusChanges(some)).await.map(drop) }));
    }
    Ok(Filled {
        changes: made,
        checkpoints: counts.checkpoints.load(Relaxed),
        replay_bytes: counts.replay_bytes.load(Relaxed),
        replay_bytes_max: counts.replay_bytes_max.load(Relaxed),
    })
}

/// The part that opens a data folder and says how long it took. It ends without giving its memory back, as a server does.
pub(crate) fn open(arguments: &[String]) -> anyhow::Result<()> {
    let [data] = arguments else { anyhow::bail!("wrong arguments") };
    let start = Instant::now();
    let opened = open_data(Path::new(data))?;
    let time = start.elapsed();
    let rows = opened.store.snapshot().tables().map(|table| table.row_count()).sum();
    say(time, rows, opened.replayed)
}

/// The part that reads the flat file.
pub(crate) fn read_flat(arguments: &[String]) -> anyhow::Result<()> {
    let [flat] = arguments else { anyhow::bail!("wrong arguments") };
    let start = Instant::now();
    let bytes = std::fs::read(flat)?;
    let (mut rest, mut names) = (&*bytes, NamePool::default());
    let tasks: Vec<Task> = read_rows(&mut rest, &mut names)?;
    let jobs: Vec<JobRow> = read_rows(&mut rest, &mut names)?;
    let specs: Vec<SpecRow> = read_rows(&mut rest, &mut names)?;
    let agents: Vec<AgentRow> = read_rows(&mut rest, &mut names)?;
    let time = start.elapsed();
    say(time, tasks.len() + jobs.len() + specs.len() + agents.len(), 0)
}

fn say(time: Duration, rows: usize, replayed: u64) -> anyhow::Result<()> {
    let loaded = Loaded {
        nanos: time.as_nanos() as u64,
        cpu_nanos: clock::process_cpu().as_nanos() as u64,
        peak_rss_bytes: clock::peak_rss_bytes(),
        rows,
        replayed,
    };
    println!("{}", serde_json::to_string(&loaded)?);
    std::process::exit(0)
}

/// One flat file: for each table the number of rows, then each row's length and stored form.
fn write_flat(snapshot: &Snapshot, path: &Path) -> anyhow::Result<()> {
    let mut out = Vec::new();
    put_rows::<Task>(&mut out, snapshot)?;
    put_rows::<JobRow>(&mut out, snapshot)?;
    put_rows::<SpecRow>(&mut out, snapshot)?;
    put_rows::<AgentRow>(&mut out, snapshot)?;
    Ok(std::fs::write(path, out)?)
}

fn put_rows<R: Row>(out: &mut Vec<u8>, snapshot: &Snapshot) -> anyhow::Result<()> {
    out.extend_from_slice(&(snapshot.table::<R>().len() as u32).to_le_bytes());
    let mut stored = Vec::new();
    for row in snapshot.table::<R>().select(Query::all())? {
        stored.clear();
        row.row().encode(&mut stored);
        out.extend_from_slice(&(stored.len() as u32).to_le_bytes());
        out.extend_from_slice(&stored);
    }
    Ok(())
}

fn read_rows<R: Row>(rest: &mut &[u8], names: &mut NamePool) -> anyhow::Result<Vec<R>> {
    let count = take_number(rest)?;
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let length = take_number(rest)?;
        let (row, behind) = rest.split_at_checked(length).context("the file is too short")?;
        rows.push(R::decode(row, names)?);
        *rest = behind;
    }
    Ok(rows)
}

fn take_number(rest: &mut &[u8]) -> anyhow::Result<usize> {
    let (number, behind) = rest.split_first_chunk().context("the file is too short")?;
    *rest = behind;
    Ok(u32::from_le_bytes(*number) as usize)
}
