//! Clients that submit and stop jobs that fit nowhere.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{Night, OnPanic};
use crate::random::Random;
use crate::talk::Connection;

/// So many clients at a time, each with jobs of its own.
pub const CLIENTS: usize = 4;
/// Memory that no machine has.
const TOO_MUCH: u64 = 64 << 40;
/// So many versions may wait to be checked: the past is held for a while only.
const UNCHECKED_MAX: u64 = 200;
/// A task comes, is explained and is stopped.
const CHANGES_OF_A_TASK: u64 = 3;

pub struct Load<'n> {
    night: &'n Night,
    namespace: String,
    random: Random,
}

impl<'n> Load<'n> {
    pub fn new(night: &'n Night, client: usize) -> Load<'n> {
        Load { night, namespace: format!("night-{client}"), random: Random(client as u64 + 1000) }
    }

    pub fn run(mut self) {
        let _end = OnPanic(self.night);
        let begun = Instant::now();
        // With how often the server had died when it was opened.
        let mut connection: Option<(Connection, u64)> = None;
        while self.goes_on() {
            self.keep_pace(begun);
            let (line, body) = self.request();
            let opened = connection.take().map_or_else(
                || {
                    let deaths = self.night.count(&self.night.deaths);
                    Connection::open(&self.night.address()).map(|connection| (connection, deaths))
                },
                Ok,
            );
            // The server is dead, or about to be.
            let Ok((mut open, deaths)) = opened else { continue };
            match open.ask(&line, &body) {
                Ok((200, answer)) => {
                    let answer: serde_json::Value = serde_json::from_slice(&answer).expect("is JSON");
                    let tasks = answer["tasks"].as_array().map_or(0, Vec::len) as u64;
                    let changes = if body.is_empty() { tasks } else { tasks * (CHANGES_OF_A_TASK - 1) };
                    self.night.changes.fetch_add(changes, Ordering::SeqCst);
                    connection = Some((open, deaths));
                }
                // A job that was not submitted yet cannot be stopped.
                Ok((404, _)) if body.is_empty() => connection = Some((open, deaths)),
                Ok((status, answer)) => panic!("{line}: {status} {}", String::from_utf8_lossy(&answer)),
                Err(error) => {
                    let died = self.night.count(&self.night.deaths) > deaths || !self.night.is_up();
                    assert!(died, "{line} failed while the server lived: {error}");
                }
            }
        }
    }

    fn goes_on(&self) -> bool {
        let Night { scale, changes, cuts, over, .. } = self.night;
        let enough = self.night.count(changes) >= scale.changes && self.night.count(cuts) >= scale.cuts;
        !enough && !over.load(Ordering::SeqCst)
    }

    /// Not faster than wanted, nor than the checks come after.
    fn keep_pace(&self, begun: Instant) {
        let night = self.night;
        loop {
            let due = begun.elapsed().as_millis() as u64 * night.scale.changes_per_second / 1000;
            let early = night.count(&night.changes) > due;
            let is_behind = night.count(&night.unchecked) > UNCHECKED_MAX;
            if !(early || is_behind) || night.over.load(Ordering::SeqCst) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn request(&mut self) -> (String, String) {
        let (namespace, job) = (&self.namespace, self.random.below(12));
        match self.random.below(10) {
            // Names that come back, so that there are several attempts, and the same job is changed while it waits.
            0..5 => {
                let (instances, greeting) = (1 + self.random.below(24), self.random.below(3));
                let job = format!(
                    r#"{{"namespace":"{namespace}","name":"job-{job}","command":"echo {greeting}","instances":{instances},"resources":{{"memory":{TOO_MUCH}}}}}"#
                );
                ("POST /v1/jobs".to_owned(), job)
            }
            5..9 => (format!("POST /v1/jobs/{namespace}/job-{job}/stop"), String::new()),
            _ => (format!("POST /v1/jobs/{namespace}/job-{job}/stop?instance=0"), String::new()),
        }
    }
}
