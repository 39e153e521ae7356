//! What the server says that the rows were, at every version that a watcher has passed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use super::watcher::{Passed, read_answer, row_hash};
use super::{Night, OnPanic, WATCHED};
use crate::talk::{Connection, encoded};

/// So many versions of each condition are remembered: other watchers pass them too.
const REMEMBERED_MAX: usize = 2000;

#[derive(Default)]
pub struct Checks {
    versions: AtomicU64,
    asked: AtomicU64,
    comparisons: AtomicU64,
    no_longer_held: AtomicU64,
}

/// The sum of the hashes of all rows that meet a condition, by version.
type Known = BTreeMap<u64, u64>;

impl Checks {
    pub fn run(&self, night: &Night, passed: Receiver<Passed>) {
        let _end = OnPanic(night);
        let mut known: Vec<Known> = WATCHED.iter().map(|_| Known::new()).collect();
        let mut connection = None;
        for passed in passed {
            self.check(night, &mut connection, &mut known[passed.watched], &passed);
            night.unchecked.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn check(&self, night: &Night, connection: &mut Option<Connection>, known: &mut Known, passed: &Passed) {
        let watched = &WATCHED[passed.watched];
        let hash = match known.get(&passed.version) {
            Some(hash) if passed.rows.is_none() => Some(*hash),
            _ => {
                let rows = self.ask(night, connection, passed);
                if let (Some(rows), Some(copy)) = (&rows, &passed.rows) {
                    assert_eq!(rows, &**copy, "{} at version {}", watched.condition, passed.version);
                    self.comparisons.fetch_add(1, Ordering::SeqCst);
                }
                rows.map(|rows| rows.values().fold(0, |sum: u64, row| sum.wrapping_add(row_hash(row))))
            }
        };
        let Some(hash) = hash else {
            self.no_longer_held.fetch_add(1, Ordering::SeqCst);
            return;
        };
        assert_eq!(hash, passed.hash, "{} at version {}", watched.condition, passed.version);
        self.versions.fetch_add(1, Ordering::SeqCst);
        known.insert(passed.version, hash);
        if known.len() > REMEMBERED_MAX {
            known.pop_first();
        }
    }

    /// The rows at that version; none if the server no longer has it.
    fn ask(
        &self,
        night: &Night,
        connection: &mut Option<Connection>,
        passed: &Passed,
    ) -> Option<BTreeMap<u64, Vec<u8>>> {
        let (watched, version) = (&WATCHED[passed.watched], passed.version);
        let condition = encoded(watched.condition);
        let line = format!("GET /v1/{}?where={condition}&as_of={version}", watched.table);
        loop {
            let open = connection.take().map_or_else(|| Connection::open(&night.address()), Ok);
            let asked = open.and_then(|mut open| Ok((open.ask(&line, "")?, open)));
            let (status, body) = match asked {
                Ok((answer, open)) => {
                    *connection = Some(open);
                    answer
                }
                // Asked of a server that died; a server that is back no longer knows.
                Err(error) => {
                    assert!(!night.over.load(Ordering::SeqCst), "{error}");
                    continue;
                }
            };
            self.asked.fetch_add(1, Ordering::SeqCst);
            if status == 410 {
                return None;
            }
            assert_eq!(status, 200, "{line}: {}", String::from_utf8_lossy(&body));
            let (found, rows) = read_answer(&body);
            assert_eq!(found, version, "a version that a watch has told of, and that is held");
            return Some(rows);
        }
    }

    pub fn print(&self, night: &Night, took: Duration) {
        let (versions, held) = (night.count(&self.versions), night.count(&self.no_longer_held));
        println!(
            "{} task changes and {} events in {:.1} s; {} connections cut, {} watches compacted, {} deaths; \
             {versions} versions checked with {} questions, {held} no longer held when asked for; {} full comparisons",
            night.count(&night.changes),
            night.count(&night.events),
            took.as_secs_f64(),
            night.count(&night.cuts),
            night.count(&night.compactions),
            night.count(&night.deaths),
            night.count(&self.asked),
            night.count(&self.comparisons),
        );
        assert!(night.count(&self.comparisons) >= WATCHED.iter().map(|watched| watched.watchers as u64).sum());
        // What was being checked when the server died is lost with it.
        assert!(held * 10 < versions, "{held} of {versions} versions could not be checked");
    }
}
