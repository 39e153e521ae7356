//! A watch has no gap and no duplicate, and its order is the order of commits: seen through cut connections, a reader that stalls, changes that
//! are no longer held, and the death of the server.
//!
//! Clients submit and stop jobs that fit nowhere; every task of them comes, is explained and is stopped. Watchers keep a copy of the rows that
//! meet a condition, and a sum of the hashes of these rows. At every version that a watcher passes, the sum must be that of the rows that the
//! server gives for this version and condition.
//!
//! `ROLLCALL_LONG_TESTS=1` makes it long: 1,000 changes a second, 10,000 cut connections, a reader that stalls for ten seconds. It is meant for
//! an optimized build: `ROLLCALL_LONG_TESTS=1 cargo test --release -p rollcall watch_ -- --nocapture`.

mod check;
mod load;
mod watcher;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::dev::{Dev, folder, wait_until_gone};
use check::Checks;
use load::Load;
use watcher::{Passed, Watched, Watcher};

/// How long the test is.
pub struct Scale {
    /// So many tasks change each second, at most.
    pub changes_per_second: u64,
    /// The load ends after so many changes.
    pub changes: u64,
    /// And not before so many connections were cut.
    pub cuts: u64,
    /// One reader takes nothing for so long, and for so many changes: more than the sockets hold, and the memory for watchers.
    pub stall: Duration,
    pub stall_changes: u64,
    /// All rows are compared when so many versions have passed.
    pub versions_between_comparisons: u64,
}

const SHORT: Scale = Scale {
    changes_per_second: 1500,
    changes: 8000,
    cuts: 300,
    stall: Duration::from_secs(2),
    stall_changes: 3500,
    versions_between_comparisons: 100,
};

const LONG: Scale = Scale {
    changes_per_second: 1000,
    changes: 120_000,
    cuts: 10_000,
    stall: Duration::from_secs(10),
    stall_changes: 10_000,
    versions_between_comparisons: 1000,
};

/// Changes are held for watchers in so little memory that who falls behind for a second must read again.
const WATCH_MEMORY: &str = "512K";

/// What is watched, each by so many watchers, and at how many of the versions that they pass it is asked for.
const WATCHED: [Watched; 8] = [
    Watched { table: "tasks", condition: "active", watchers: 3, every: 1 },
    Watched { table: "tasks", condition: "state = 'pending' and instance < 3", watchers: 3, every: 1 },
    Watched { table: "tasks", condition: "namespace = 'night-1' and active", watchers: 2, every: 1 },
    Watched { table: "tasks", condition: "job = 'job-3' and instance in (0, 5)", watchers: 2, every: 1 },
    Watched { table: "tasks", condition: "cause = 'no_fit' and not instance = 1", watchers: 2, every: 1 },
    Watched {
        table: "tasks",
        condition: "job like 'job-1%' and (ended is null or attempt = 1)",
        watchers: 2,
        every: 1,
    },
    Watched { table: "jobs", condition: "not stopped", watchers: 2, every: 1 },
    // The whole table grows, so it is asked for less often.
    Watched { table: "tasks", condition: "active or not active", watchers: 2, every: 50 },
];

/// Where the server is, how far the load is, and when all shall end.
pub struct Night {
    pub scale: Scale,
    address: Mutex<Option<String>>,
    /// Told when the server is back.
    back: Condvar,
    /// Task changes so far.
    pub changes: AtomicU64,
    pub cuts: AtomicU64,
    pub compactions: AtomicU64,
    pub events: AtomicU64,
    /// Versions that wait to be checked.
    pub unchecked: AtomicU64,
    /// The watchers go on until they have passed this version.
    pub last_version: AtomicU64,
    pub deaths: AtomicU64,
    /// The reader that took nothing for a while was told to read again.
    pub stalled: AtomicBool,
    pub over: AtomicBool,
}

impl Night {
    fn new(scale: Scale) -> Night {
        Night {
            scale,
            address: Mutex::new(None),
            back: Condvar::new(),
            changes: AtomicU64::new(0),
            cuts: AtomicU64::new(0),
            compactions: AtomicU64::new(0),
            events: AtomicU64::new(0),
            unchecked: AtomicU64::new(0),
            last_version: AtomicU64::new(u64::MAX),
            deaths: AtomicU64::new(0),
            stalled: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Where the server is; waits while there is none.
    pub fn address(&self) -> String {
        let address = self.address.lock().expect("no thread has panicked");
        let address = self.back.wait_while(address, |address| address.is_none()).expect("no thread has panicked");
        address.clone().expect("waited for it")
    }

    pub fn is_up(&self) -> bool {
        self.address.lock().expect("no thread has panicked").is_some()
    }

    fn server_is(&self, address: Option<&str>) {
        *self.address.lock().expect("no thread has panicked") = address.map(str::to_owned);
        self.back.notify_all();
    }

    pub fn count(&self, counter: &AtomicU64) -> u64 {
        counter.load(Ordering::SeqCst)
    }

    fn wait_for(&self, what: &str, reached: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(600);
        while !reached() {
            assert!(Instant::now() < deadline, "waited ten minutes for {what}");
            assert!(!self.over.load(Ordering::SeqCst), "a thread has failed");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

/// Ends all threads when one fails, so that the test fails at once.
pub struct OnPanic<'n>(pub &'n Night);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.over.store(true, Ordering::SeqCst);
            self.0.last_version.store(0, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_watch_has_no_gap_and_no_duplicate_through_cuts_a_stall_and_the_death_of_the_server() {
    let long = std::env::var_os("ROLLCALL_LONG_TESTS").is_some();
    let night = Night::new(if long { LONG } else { SHORT });
    let folder = folder();
    let begun = Instant::now();
    let dev = Dev::start_with(folder.path(), &["--watch-memory", WATCH_MEMORY]);
    night.server_is(Some(&dev.address));
    let checks = Checks::default();
    std::thread::scope(|scope| {
        let night = &night;
        let (passed, to_check) = std::sync::mpsc::sync_channel(100_000);
        let _end = OnPanic(night);
        let checking = scope.spawn(|| checks.run(night, to_check));
        let mut watching = Vec::new();
        for (position, watched) in WATCHED.iter().enumerate() {
            for copy in 0..watched.watchers {
                let stalls = position == WATCHED.len() - 1 && copy == 0;
                let passed: std::sync::mpsc::SyncSender<Passed> = passed.clone();
                let seed = (position * 16 + copy) as u64 + 1;
                watching.push(scope.spawn(move || Watcher::new(night, watched, position, seed, passed).run(stalls)));
            }
        }
        drop(passed);
        let loading: Vec<_> =
            (0..load::CLIENTS).map(|client| scope.spawn(move || Load::new(night, client).run())).collect();
        // In the middle of it all, the server dies.
        let is_half_over = || night.count(&night.changes) >= night.scale.changes / 2;
        night.wait_for("half of the load", || is_half_over() && night.stalled.load(Ordering::SeqCst));
        let dev = die_and_come_back(night, dev, folder.path());
        loading.into_iter().for_each(|thread| thread.join().expect("the load goes on to its end"));
        night.last_version.store(settled_version(&dev), Ordering::SeqCst);
        // One more change, so that everybody is told of a position behind it.
        let more = r#"{"name":"more","command":"true","resources":{"memory":70368744177664}}"#;
        assert_eq!(dev.ask("POST /v1/jobs\ncontent-type: application/json", more).0, 200);
        watching.into_iter().for_each(|thread| thread.join().expect("the watcher has seen all"));
        checking.join().expect("all versions are right");
    });
    checks.print(&night, begun.elapsed());
    assert!(night.count(&night.cuts) >= night.scale.cuts);
    assert!(night.stalled.load(Ordering::SeqCst));
}

fn die_and_come_back(night: &Night, dev: Dev, folder: &std::path::Path) -> Dev {
    night.server_is(None);
    dev.kill();
    wait_until_gone(dev.pid());
    drop(dev);
    night.deaths.fetch_add(1, Ordering::SeqCst);
    let dev = Dev::start_with(folder, &["--watch-memory", WATCH_MEMORY]);
    night.server_is(Some(&dev.address));
    dev
}

/// The version after which nothing more happens: every pending task has its cause.
fn settled_version(dev: &Dev) -> u64 {
    loop {
        let (status, body) = dev.ask("GET /v1/tasks?where=state%3D'pending'%20and%20cause%20is%20null", "");
        assert_eq!(status, 200);
        let answer: serde_json::Value = serde_json::from_slice(&body).expect("is JSON");
        if answer["rows"].as_array().expect("has rows").is_empty() {
            return answer["version"].as_u64().expect("has a version");
        }
    }
}
