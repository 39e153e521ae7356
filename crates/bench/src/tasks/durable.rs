//! Changes that are on disk before they are answered: clients in this process, each waiting for its answer before it sends the next change.

use crate::allocation::allocated;
use crate::catalog::Run;
use crate::clock;
use crate::data::{Changes, DiskFolder, insert_load, open_data};
use crate::load::{Load, Shape};
use crate::measure::{Budget, Contest, Measurement};
use crate::report::CaseReport;
use rollcall_server::{WriteCounts, WriterHandle, WriterSettings};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Tasks in the store.
const TASKS: usize = 100_000;

/// The same when only seen to run.
const TASKS_QUICK: usize = 10_000;

/// Changes made before anything is measured, so that the watch ring and the old versions hold all that they may.
const WARM_CHANGES: u64 = 200_000;

/// Clients that make them.
const WARM_CLIENTS: usize = 1_024;

/// The file that the floor writes over and over.
const FLOOR_FILE_BYTES: u64 = 64 << 20;

/// Clients send status changes of random active tasks; a turn's record sizes are what the floor writes in its turn.
pub(super) fn durable_changes(run: &Run<'_>) -> anyhow::Result<CaseReport> {
    let folder = DiskFolder::new(run.folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let load = Load::new(Shape::usual(if run.effort.quick { TASKS_QUICK } else { TASKS }));
    let opened = open_data(&folder.path().join("data"))?;
    let (writer, threads) = WriterHandle::start(opened.writer, opened.log, WriterSettings::new())?;
    runtime.block_on(insert_load(&writer, &load))?;
    let changes = Changes::of(&writer.store().snapshot(), &load.names)?;
    let clients = Clients { runtime, changes: Arc::new(changes), sent: Arc::default(), writer };
    let warming = if run.effort.quick { clients.changes.tasks() as u64 } else { WARM_CHANGES };
    clients.run(WARM_CLIENTS, move |number, _| number >= warming);

    let (batch, told) = (Cell::new(Batch { changes: 1, bytes: 256 }), RefCell::new(Vec::new()));
    let ours = |budget: &Budget| {
        let turn = clients.turn(run.size, budget);
        batch.set(turn.batch());
        let measurement = turn.measurement.clone();
        told.borrow_mut().push(turn);
        measurement
    };
    let mut floor = RawFile::new(&folder.path().join("floor"))?;
    let contest = Contest::new(&run.case, ours)
        .floor("pwrite and fdatasync of as many bytes, again and again", |budget| floor.turn(budget, batch.get()));
    let mut report = contest.run(run.effort);
    let best = told.into_inner().into_iter().max_by(|left, right| left.rate().total_cmp(&right.rate()));
    if let Some(best) = best {
        report.notes.extend(best.notes());
    }
    let file_system = &folder.file_system;
    drop(clients);
    threads.join();
    Ok(report.note(format!("on {file_system}; cpu is that of all threads, clients included")))
}

/// What the log wrote for a batch, on average.
#[derive(Clone, Copy)]
struct Batch {
    changes: u64,
    bytes: u64,
}

struct Clients {
    runtime: Runtime,
    changes: Arc<Changes>,
    /// How many changes were sent so far.
    sent: Arc<AtomicU64>,
    writer: WriterHandle,
}

impl Clients {
    /// Lets so many clients send changes until `ends` says so, given the number of a change since the beginning and the time it is sent; gives how
    /// long each answer took, in nanoseconds, and how many were errors.
    fn run(&self, clients: usize, ends: impl Fn(u64, Instant) -> bool + Clone + Send + 'static) -> (Vec<u64>, u64) {
        let client = || {
            let (changes, sent, writer, ends) =
                (self.changes.clone(), self.sent.clone(), self.writer.clone(), ends.clone());
            async move {
                let (mut times, mut errors) = (Vec::with_capacity(1_024), 0);
                loop {
                    let (number, start) = (sent.fetch_add(1, Ordering::Relaxed), Instant::now());
                    if ends(number, start) {
                        return (times, errors);
                    }
                    errors += u64::from(writer.run(changes.number(number)).await.is_err());
                    times.push(start.elapsed().as_nanos() as u64);
                }
            }
        };
        self.runtime.block_on(async {
            let mut running = JoinSet::new();
            (0..clients).for_each(|_| drop(running.spawn(client())));
            let mut all = (Vec::new(), 0);
            while let Some(Ok((times, errors))) = running.join_next().await {
                all.0.extend(times);
                all.1 += errors;
            }
            all
        })
    }

    fn turn(&self, clients: usize, budget: &Budget) -> Turn {
        let mut measurement = Measurement::new();
        let (counts, cpu, bytes) = (Counts::of(self.writer.counts()), clock::process_cpu(), allocated());
        let start = Instant::now();
        let (time, time_max, samples_min) = (budget.time, budget.time_max, budget.samples_min);
        let first = self.sent.load(Ordering::Relaxed);
        let (times, errors) = self.run(clients, move |number, now| {
            let so_far = now - start;
            so_far >= time_max || (so_far >= time && number - first >= samples_min)
        });
        measurement.busy = start.elapsed();
        measurement.cpu = clock::process_cpu() - cpu;
        measurement.ops = times.len() as u64;
        measurement.errors = errors;
        measurement.allocated = allocated().zip(bytes).map(|(after, before)| after.total - before.total);
        times.iter().for_each(|nanos| measurement.samples.record(Duration::from_nanos(*nanos), 1));
        Turn { measurement, counts: Counts::of(self.writer.counts()).since(&counts) }
    }
}

/// What the writer has counted.
#[derive(Clone, Copy)]
struct Counts {
    commands: u64,
    commits: u64,
    checkpoints: u64,
    writer_cpu: u64,
    log_cpu: u64,
    log_bytes: u64,
}

impl Counts {
    fn of(counts: &WriteCounts) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            commands: of(&counts.commands),
            commits: of(&counts.commits),
            checkpoints: of(&counts.checkpoints),
            writer_cpu: of(&counts.writer_cpu_nanos),
            log_cpu: of(&counts.log_cpu_nanos),
            log_bytes: of(&counts.log_bytes),
        }
    }

    fn since(&self, before: &Counts) -> Counts {
        Counts {
            commands: self.commands - before.commands,
            commits: self.commits - before.commits,
            checkpoints: self.checkpoints - before.checkpoints,
            writer_cpu: self.writer_cpu - before.writer_cpu,
            log_cpu: self.log_cpu - before.log_cpu,
            log_bytes: self.log_bytes - before.log_bytes,
        }
    }
}

/// One turn of ours.
struct Turn {
    measurement: Measurement,
    counts: Counts,
}

impl Turn {
    fn rate(&self) -> f64 {
        self.measurement.ops_per_second()
    }

    fn batch(&self) -> Batch {
        let commits = self.counts.commits.max(1);
        let divided = |sum: u64| ((sum + commits / 2) / commits).max(1);
        Batch { changes: divided(self.counts.commands), bytes: divided(self.counts.log_bytes) }
    }

    fn notes(&self) -> [String; 2] {
        let Counts { commands, commits, checkpoints, writer_cpu, log_cpu, log_bytes } = self.counts;
        let each = |sum: u64, count: u64| sum as f64 / count.max(1) as f64;
        [
            format!(
                "{:.1} changes in a batch, {:.0} bytes in a record, {:.0} for each change; {checkpoints} checkpoints begun and ended",
                each(commands, commits),
                each(log_bytes, commits),
                each(log_bytes, commands),
            ),
            format!(
                "processor time for each change: writer {:.2} us, log {:.2} us",
                each(writer_cpu, commands) / 1e3,
                each(log_cpu, commands) / 1e3
            ),
        ]
    }
}

/// A file of zeros that were written and synced, as a segment of the log is, and is written to without anything else.
struct RawFile {
    file: File,
    end: u64,
}

impl RawFile {
    fn new(path: &Path) -> anyhow::Result<RawFile> {
        let file = File::create_new(path)?;
        let zeros = vec![0; 1 << 20];
        for offset in (0..FLOOR_FILE_BYTES).step_by(zeros.len()) {
            file.write_all_at(&zeros, offset)?;
        }
        file.sync_all()?;
        Ok(RawFile { file, end: 0 })
    }

    fn turn(&mut self, budget: &Budget, batch: Batch) -> Measurement {
        let bytes = vec![0x55; batch.bytes.min(FLOOR_FILE_BYTES) as usize];
        let mut measurement = Measurement::new();
        measurement.section(|measurement| {
            while !measurement.has_spent(budget) {
                if self.end + bytes.len() as u64 > FLOOR_FILE_BYTES {
                    self.end = 0;
                }
                let start = Instant::now();
                let written = self.file.write_all_at(&bytes, self.end).and_then(|()| self.file.sync_data());
                let time = start.elapsed();
                self.end += bytes.len() as u64;
                measurement.errors += u64::from(written.is_err());
                measurement.samples.record(time, 1);
                measurement.ops += batch.changes;
                measurement.busy += time;
            }
        });
        measurement
    }
}
