//! The server is killed again and again while clients write, and each client keeps a list of what was acknowledged to it.
//!
//! `ROLLCALL_LONG_TESTS=1` makes it long: 200 kills, and jobs so large that checkpoints are written and killed too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::dev::{Dev, folder, wait_until_gone};
use crate::random::Random;
use crate::talk::Connection;

const CLIENTS: usize = 6;
const KILLS: u64 = 20;
const KILLS_LONG: u64 = 200;
/// A kill comes after so many acknowledged writes at most.
const WRITES_BEFORE_KILL_MAX: u64 = 120;
/// A start that takes longer reads more than it should.
const START_MAX: Duration = Duration::from_secs(10);
/// Memory that no machine has: nothing is started, so nothing but clients disturbs the count.
const TOO_MUCH: u64 = 64 << 40;

/// What was acknowledged, and what was ever seen.
#[derive(Default)]
struct Known {
    /// Each job, and whether its stop was acknowledged too.
    jobs: BTreeMap<String, bool>,
    /// The identity of each task that an answer has named.
    tasks: BTreeSet<String>,
    /// The highest version of an answer.
    version: u64,
    /// Whose each row number is: table and identity.
    rows: BTreeMap<u64, String>,
}

#[test]
fn no_acknowledged_write_is_lost_and_no_number_used_twice_however_often_the_server_is_killed() {
    let long = std::env::var_os("ROLLCALL_LONG_TESTS").is_some();
    let (kills, padding) = if long { (KILLS_LONG, 30_000) } else { (KILLS, 0) };
    let folder = folder();
    let mut known = Known::default();
    let mut random = Random(7);
    let mut starts = Vec::new();
    for kill in 0..=kills {
        let begun = Instant::now();
        let dev = Dev::start(folder.path());
        starts.push(begun.elapsed());
        known.check(&dev);
        if kill == kills {
            println!("{kills} kills, {} jobs and {} tasks acknowledged", known.jobs.len(), known.tasks.len());
            let told = dev.told();
            assert!(!told.contains("damage"), "{told}");
            break;
        }
        let acknowledged = write_until_killed(&dev, kill, padding, &mut random);
        let versions: Vec<u64> = acknowledged.iter().flat_map(|list| &list.versions).copied().collect();
        let before = known.version;
        assert!(versions.iter().all(|version| *version > before), "{versions:?} after {before} was seen");
        known.version = versions.into_iter().max().unwrap_or(before);
        acknowledged.into_iter().for_each(|list| known.add(list));
        wait_until_gone(dev.pid());
    }
    starts.sort();
    let (median, slowest) = (starts[starts.len() / 2], starts[starts.len() - 1]);
    println!("starts took {median:.0?} in the middle and {slowest:.0?} at most");
    assert!(slowest < START_MAX, "{starts:?}");
}

/// What one client was told.
#[derive(Default)]
struct Acknowledged {
    submitted: Vec<String>,
    stopped: Vec<String>,
    tasks: Vec<String>,
    versions: Vec<u64>,
}

fn write_until_killed(dev: &Dev, kill: u64, padding: usize, random: &mut Random) -> Vec<Acknowledged> {
    let (writes, killed) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (writes, killed) = (&writes, &killed);
                scope.spawn(move || {
                    let list = write(dev, &format!("job-{kill}-{client}"), padding, writes);
                    assert!(killed.load(Ordering::SeqCst), "nothing fails before the kill");
                    list
                })
            })
            .collect();
        let (enough, moment) = (1 + random.below(WRITES_BEFORE_KILL_MAX), Duration::from_micros(random.below(3000)));
        let deadline = Instant::now() + crate::dev::PATIENCE;
        while writes.load(Ordering::SeqCst) < enough && !clients.iter().any(|client| client.is_finished()) {
            assert!(Instant::now() < deadline, "no writes come through");
            std::thread::yield_now();
        }
        // Kills shall meet the writer and the log anywhere in their work.
        std::thread::park_timeout(moment);
        killed.store(true, Ordering::SeqCst);
        dev.kill();
        clients.into_iter().map(|client| client.join().expect("writes to the end")).collect()
    })
}

/// Submits jobs and stops every second of them, each when the one before was acknowledged, until the server is gone.
fn write(dev: &Dev, names: &str, padding: usize, writes: &AtomicU64) -> Acknowledged {
    let mut list = Acknowledged::default();
    let Ok(mut connection) = Connection::open(&dev.address) else { return list };
    let padding = "x".repeat(padding);
    for number in 0.. {
        let name = format!("{names}-{number}");
        let instances = 1 + number % 3;
        let body = format!(
            r#"{{"name":"{name}","command":"true","environment":{{"P":"{padding}"}},"instances":{instances},"resources":{{"memory":{TOO_MUCH}}}}}"#
        );
        let Some(answer) = acknowledged(&mut connection, "POST /v1/jobs", &body) else { break };
        list.submitted.push(name.clone());
        let uids = answer["tasks"].as_array().expect("has tasks").iter().map(|uid| uid.as_str().expect("is text"));
        list.tasks.extend(uids.map(str::to_owned));
        list.versions.push(answer["version"].as_u64().expect("has a version"));
        writes.fetch_add(1, Ordering::SeqCst);
        if number % 2 == 0 {
            let stop = format!("POST /v1/jobs/default/{name}/stop");
            let Some(answer) = acknowledged(&mut connection, &stop, "") else { break };
            list.stopped.push(name);
            list.versions.push(answer["version"].as_u64().expect("has a version"));
            writes.fetch_add(1, Ordering::SeqCst);
        }
    }
    assert!(list.versions.is_sorted(), "{:?}", list.versions);
    list
}

fn acknowledged(connection: &mut Connection, line: &str, body: &str) -> Option<Value> {
    let (status, answer) = connection.ask(line, body).ok()?;
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&answer));
    Some(serde_json::from_slice(&answer).expect("is JSON"))
}

impl Known {
    fn add(&mut self, list: Acknowledged) {
        for name in list.submitted {
            assert!(self.jobs.insert(name, false).is_none());
        }
        for name in list.stopped {
            self.jobs.insert(name, true);
        }
        for uid in list.tasks {
            assert!(self.tasks.insert(uid.clone()), "two tasks are called {uid}");
        }
    }

    /// Looks for everything that was acknowledged or seen.
    fn check(&mut self, dev: &Dev) {
        let jobs = self.read(dev, "jobs");
        let jobs: BTreeMap<&str, bool> = jobs.iter().map(|job| (text(job, "job"), job["stopped"] == true)).collect();
        for (name, stopped) in &self.jobs {
            let found = jobs.get(name.as_str());
            assert!(found.is_some(), "{name} was acknowledged, and is lost");
            assert!(*stopped <= *found.expect("is there"), "the stop of {name} was acknowledged, and is lost");
        }
        let tasks = self.read(dev, "tasks");
        let tasks: BTreeSet<&str> = tasks.iter().map(|task| text(task, "uid")).collect();
        let lost = self.tasks.iter().find(|uid| !tasks.contains(uid.as_str()));
        assert_eq!(lost, None, "this task was acknowledged, and is lost");
        // What was seen once stays: it was committed, whether its client heard of it or not.
        self.jobs.extend(jobs.into_iter().map(|(name, stopped)| (name.to_owned(), stopped)));
        self.tasks.extend(tasks.into_iter().map(str::to_owned));
    }

    fn read(&mut self, dev: &Dev, table: &str) -> Vec<Value> {
        let (status, body) = dev.ask(&format!("GET /v1/{table}"), "");
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        let mut answer: Value = serde_json::from_slice(&body).expect("is JSON");
        let version = answer["version"].as_u64().expect("has a version");
        assert!(version >= self.version, "version {version} after {} was seen", self.version);
        self.version = version;
        let Value::Array(rows) = answer["rows"].take() else { panic!("no rows") };
        for row in &rows {
            let number = row["row"].as_u64().expect("has a number");
            let identity = format!("{table} {}", text(row, "uid"));
            let known = self.rows.entry(number).or_insert_with(|| identity.clone());
            assert_eq!(*known, identity, "row number {number} is used twice");
        }
        rows
    }
}

fn text<'v>(row: &'v Value, column: &str) -> &'v str {
    row[column].as_str().expect("is text")
}
