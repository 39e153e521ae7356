//! A watcher that keeps a copy of the rows that meet a condition, and is cut off at any byte.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use super::{Night, OnPanic};
use crate::random::Random;
use crate::talk::{Connection, encoded};

/// A connection is cut after so many bytes at most, most often much sooner.
const BYTES_BEFORE_CUT_MAX: u64 = 200_000;

/// What is watched.
pub struct Watched {
    pub table: &'static str,
    pub condition: &'static str,
    pub watchers: usize,
    /// At every how many of the versions that a watcher passes the server is asked.
    pub every: u64,
}

/// The rows by their number, each as it was written.
pub type Rows = BTreeMap<u64, Vec<u8>>;

/// A watcher has seen everything up to a version.
pub struct Passed {
    pub watched: usize,
    pub version: u64,
    pub hash: u64,
    /// All rows, when they are to be compared.
    pub rows: Option<Arc<Rows>>,
}

/// The hash of a row; the sum of those of all rows is the hash of a copy.
pub fn row_hash(row: &[u8]) -> u64 {
    u64::from(crc32c::crc32c(row)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The version of an answer and its rows: each row has a line of its own.
pub fn read_answer(body: &[u8]) -> (u64, Rows) {
    let mut lines = body.split(|byte| *byte == b'\n');
    let head = lines.next().expect("has a first line");
    let version = number_behind(head, b"{\"version\":");
    let rows = lines.filter(|line| line.starts_with(b"{")).map(|line| line.strip_suffix(b",").unwrap_or(line));
    (version, rows.map(|row| (number_behind(row, b"{\"row\":"), row.to_vec())).collect())
}

fn number_behind(text: &[u8], start: &[u8]) -> u64 {
    let rest = text.strip_prefix(start).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(text)));
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    std::str::from_utf8(&rest[..end]).ok().and_then(|digits| digits.parse().ok()).expect("is a number")
}

/// A version, and how much of its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    version: u64,
    /// The whole commit is behind all its parts.
    index: u64,
}

impl Position {
    const WHOLE: u64 = u64::MAX;

    fn parse(text: &str) -> Position {
        let (version, index) = text.split_once('.').map_or((text, None), |(version, index)| (version, Some(index)));
        let number = |text: &str| text.parse().expect("is a number");
        Position { version: number(version), index: index.map_or(Position::WHOLE, number) }
    }

    fn print(self) -> String {
        match self.index {
            Position::WHOLE => self.version.to_string(),
            index => format!("{}.{index}", self.version),
        }
    }
}

pub struct Watcher<'n> {
    night: &'n Night,
    watched: &'static Watched,
    number: usize,
    random: Random,
    passed: SyncSender<Passed>,
    rows: Rows,
    hash: u64,
    at: Position,
    /// Versions passed, and how many of them when all rows were last compared.
    versions: u64,
    compared: u64,
}

/// How reading a connection ended.
#[derive(PartialEq, Eq)]
enum End {
    Cut,
    Compacted,
    AllSeen,
    ServerGone,
}

impl<'n> Watcher<'n> {
    pub fn new(
        night: &'n Night,
        watched: &'static Watched,
        number: usize,
        seed: u64,
        passed: SyncSender<Passed>,
    ) -> Watcher<'n> {
        let at = Position { version: 0, index: Position::WHOLE };
        let (rows, random) = (Rows::new(), Random(seed));
        Watcher { night, watched, number, random, passed, rows, hash: 0, at, versions: 0, compared: 0 }
    }

    /// Watches until all was seen.
    pub fn run(mut self, stalls: bool) {
        let _end = OnPanic(self.night);
        let mut stalls = stalls;
        self.read_again();
        while !self.is_over() {
            let deaths = self.night.count(&self.night.deaths);
            let has_stalled = std::mem::take(&mut stalls);
            match self.watch(has_stalled) {
                Ok(End::AllSeen) => break,
                Ok(End::Cut) => drop(self.night.cuts.fetch_add(1, Ordering::SeqCst)),
                Ok(End::Compacted) => {
                    self.night.compactions.fetch_add(1, Ordering::SeqCst);
                    self.night.stalled.fetch_or(has_stalled, Ordering::SeqCst);
                    self.read_again();
                }
                Ok(End::ServerGone) | Err(_) => {
                    let died = self.night.count(&self.night.deaths) > deaths || !self.night.is_up();
                    assert!(died || self.is_over(), "the watch ended while the server lived");
                    // Whoever comes back finds that it died, and that what was held is gone.
                }
            }
        }
        if !self.is_over() {
            self.pass(true);
        }
    }

    fn is_over(&self) -> bool {
        self.night.over.load(Ordering::SeqCst)
    }

    /// Reads all rows, and begins to watch from their version.
    fn read_again(&mut self) {
        let line = format!("GET /v1/{}?where={}", self.watched.table, encoded(self.watched.condition));
        let answer = loop {
            let asked = Connection::open(&self.night.address()).and_then(|mut connection| connection.ask(&line, ""));
            match asked {
                Ok((status, answer)) => break (status, answer),
                // Asked of a server that died.
                Err(error) => assert!(!self.is_over(), "{error}"),
            }
        };
        assert_eq!(answer.0, 200, "{}", String::from_utf8_lossy(&answer.1));
        let (version, rows) = read_answer(&answer.1);
        assert!(version >= self.at.version, "version {version} was read after {:?} was seen", self.at);
        self.hash = rows.values().fold(0, |sum: u64, row| sum.wrapping_add(row_hash(row)));
        self.rows = rows;
        self.at = Position { version, index: Position::WHOLE };
        self.pass(false);
    }

    /// Watches over one connection until it is cut.
    fn watch(&mut self, stalls: bool) -> std::io::Result<End> {
        let mut connection = Connection::open(&self.night.address())?;
        let (table, condition) = (self.watched.table, encoded(self.watched.condition));
        // Version 1.0, so that the body comes as it is.
        let head = format!("GET /v1/watch?table={table}&where={condition} HTTP/1.0\r\nhost: localhost\r\n");
        connection.send(format!("{head}last-event-id: {}\r\n\r\n", self.at.print()).as_bytes())?;
        let (status, _) = connection.head()?;
        assert_eq!(status, 200, "the watch from {:?}", self.at);
        if stalls {
            self.stall();
        }
        // Most are cut soon, some after a while.
        let bytes = 1u64 << self.random.below(BYTES_BEFORE_CUT_MAX.ilog2().into());
        let bytes = if stalls { u64::MAX } else { bytes + self.random.below(bytes) };
        let mut bytes = connection.stream().take(bytes);
        let mut event = Event::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            bytes.read_until(b'\n', &mut line)?;
            let Some(text) = line.strip_suffix(b"\n") else {
                return Ok(if bytes.limit() == 0 { End::Cut } else { End::ServerGone });
            };
            if !text.is_empty() {
                event.take(text);
            } else if let Some(end) = self.apply(std::mem::take(&mut event)) {
                return Ok(end);
            }
        }
    }

    /// Reads nothing for a while.
    fn stall(&self) {
        let (begun, before) = (Instant::now(), self.night.count(&self.night.changes));
        let scale = &self.night.scale;
        let enough = || self.night.count(&self.night.changes) - before >= scale.stall_changes || !self.night.is_up();
        while begun.elapsed() < scale.stall || !enough() {
            if self.is_over() || self.night.last_version.load(Ordering::SeqCst) != u64::MAX {
                return;
            }
            std::thread::park_timeout(scale.stall / 100);
        }
    }

    fn apply(&mut self, event: Event) -> Option<End> {
        if event.name == "compacted" {
            assert!(event.data.starts_with(b"{\"code\":\"compacted\""));
            return Some(End::Compacted);
        }
        let at = Position::parse(event.id.as_deref().expect("every other event says where it is"));
        if event.name.is_empty() {
            assert!(at >= self.at, "{at:?} after {:?}", self.at);
        } else {
            assert!(at > self.at && at.index != Position::WHOLE, "{at:?} after {:?}", self.at);
            if at.version > self.at.version {
                self.pass(false);
            }
            self.change(&event);
        }
        let is_new = at > self.at;
        self.at = at;
        if is_new && at.index == Position::WHOLE {
            self.pass(false);
        }
        let all_seen =
            at >= Position { version: self.night.last_version.load(Ordering::SeqCst), index: Position::WHOLE };
        all_seen.then_some(End::AllSeen)
    }

    fn change(&mut self, event: &Event) {
        self.night.events.fetch_add(1, Ordering::SeqCst);
        let number = number_behind(&event.data, b"{\"row\":");
        let before = self.rows.remove(&number);
        if let Some(before) = &before {
            self.hash = self.hash.wrapping_sub(row_hash(before));
        }
        match (event.name.as_str(), before) {
            ("went", Some(before)) => return assert_eq!(before, event.data, "a row went as it was"),
            ("came", None) | ("changed", Some(_)) => {}
            (name, before) => panic!("row {number} {name}, and before it was {before:?}"),
        }
        self.hash = self.hash.wrapping_add(row_hash(&event.data));
        self.rows.insert(number, event.data.clone());
    }

    /// All up to the present version was seen: has it checked.
    fn pass(&mut self, last: bool) {
        self.versions += 1;
        let compare = last || self.versions - self.compared >= self.night.scale.versions_between_comparisons;
        if !compare && !self.versions.is_multiple_of(self.watched.every) {
            return;
        }
        if compare {
            self.compared = self.versions;
        }
        let rows = compare.then(|| Arc::new(self.rows.clone()));
        self.night.unchecked.fetch_add(1, Ordering::SeqCst);
        let passed = Passed { watched: self.number, version: self.at.version, hash: self.hash, rows };
        assert!(self.passed.send(passed).is_ok() || self.is_over(), "the checks go on");
    }
}

/// One event as it comes, line by line.
#[derive(Default)]
struct Event {
    id: Option<String>,
    name: String,
    data: Vec<u8>,
}

impl Event {
    fn take(&mut self, line: &[u8]) {
        let text = || String::from_utf8_lossy(line).into_owned();
        if line.starts_with(b"id: ") {
            self.id = Some(text().split_off(4));
        } else if line.starts_with(b"event: ") {
            self.name = text().split_off(7);
        } else if let Some(data) = line.strip_prefix(b"data: ") {
            self.data = data.to_vec();
        } else {
            panic!("{}", text());
        }
    }
}
