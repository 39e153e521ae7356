//! Old versions that can still be asked for: all of the last 30 s, then one a second for ten minutes, then one a minute, within a byte budget.
//!
//! What an old version costs is what only it holds: the nodes, pages and rows that the next commit replaced. The writer counts these bytes as it
//! copies, and they are charged to the version that was replaced. When a version between two others goes, what it held and the one before it does
//! not is let go; what both held is then held by the one before. The charge of a dropped version is carried over to its elder in full, so the
//! sum never understates what is held.

use crate::snapshot::Snapshot;
use crate::words::Version;
use rollcall_schema::Time;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use thiserror::Error;

const SECOND_MICROS: u64 = 1_000_000;

/// So long every version is kept.
pub const EVERY_VERSION_MICROS: u64 = 30 * SECOND_MICROS;

/// So long one version a second is kept; one a minute after that.
pub const EVERY_SECOND_MICROS: u64 = 600 * SECOND_MICROS;

/// Ages, and how far apart versions are that are kept behind each.
const STEPS: [(u64, u64); 2] = [(EVERY_VERSION_MICROS, SECOND_MICROS), (EVERY_SECOND_MICROS, 60 * SECOND_MICROS)];

/// At most so many versions are looked at for thinning in one commit; more is done by the next ones.
const THINNED_AT_ONCE_MAX: usize = 64;

/// A point in the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsOf {
    /// This version, or the newest one before it that is held.
    Version(Version),
    /// What was visible at this time.
    Time(Time),
}

/// Why the past cannot be answered from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AsOfError {
    /// It is no longer held.
    #[error("that is no longer held: the oldest version held is {version}, committed at {time}", version = .oldest.0, time = .oldest.1)]
    TooOld {
        /// The oldest version held, and its time.
        oldest: (Version, Time),
    },
    /// It has not happened yet.
    #[error("that has not happened yet: the newest version is {version}, committed at {time}", version = .newest.0, time = .newest.1)]
    NotYet {
        /// The newest version, and its time.
        newest: (Version, Time),
    },
}

struct Kept {
    snapshot: Snapshot,
    bytes: usize,
    /// How many of the ages in [`STEPS`] it has crossed. An elder version has crossed at least as many as a younger one.
    crossed: usize,
}

#[derive(Default)]
struct Versions {
    /// Oldest first.
    kept: VecDeque<Kept>,
    bytes: usize,
}

pub(crate) struct Retained {
    bytes_max: usize,
    versions: Mutex<Versions>,
}

impl Retained {
    pub(crate) fn new(bytes_max: usize) -> Retained {
        Retained { bytes_max, versions: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Versions> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn held(&self) -> (usize, usize) {
        let versions = self.lock();
        (versions.bytes, versions.kept.len())
    }

    pub(crate) fn clear(&self) {
        let dropped = std::mem::take(&mut *self.lock());
        drop(dropped);
    }

    /// Keeps a version that was just replaced by one that copied so many bytes.
    pub(crate) fn push(&self, snapshot: Snapshot, bytes: usize, now: Time) {
        // What is let go is freed after the lock is released: readers of the past wait for neither.
        let mut dropped = Vec::new();
        let mut versions = self.lock();
        versions.bytes += bytes;
        versions.kept.push_back(Kept { snapshot, bytes, crossed: 0 });
        versions.thin(now, &mut dropped);
        while versions.bytes > self.bytes_max
            && let Some(oldest) = versions.kept.pop_front()
        {
            versions.bytes -= oldest.bytes;
            dropped.push(oldest);
        }
        drop(versions);
    }

    pub(crate) fn find(&self, when: AsOf, newest: &Snapshot) -> Result<Snapshot, AsOfError> {
        let not_later = |snapshot: &Snapshot| match when {
            AsOf::Version(version) => snapshot.version() <= version,
            AsOf::Time(time) => snapshot.time() <= time,
        };
        if not_later(newest) {
            let exact = match when {
                AsOf::Version(version) => version == newest.version(),
                AsOf::Time(_) => true,
            };
            let error = AsOfError::NotYet { newest: (newest.version(), newest.time()) };
            return if exact { Ok(newest.clone()) } else { Err(error) };
        }
        let versions = self.lock();
        let behind = versions.kept.partition_point(|kept| not_later(&kept.snapshot));
        match behind.checked_sub(1).and_then(|position| versions.kept.get(position)) {
            Some(kept) => Ok(kept.snapshot.clone()),
            None => {
                let oldest = versions.kept.front().map_or(newest, |kept| &kept.snapshot);
                Err(AsOfError::TooOld { oldest: (oldest.version(), oldest.time()) })
            }
        }
    }
}

impl Versions {
    /// Drops versions that have become too old for their neighbours to be so near. A version is compared with its elder neighbour once as it
    /// crosses an age, however many cross it in one commit.
    fn thin(&mut self, now: Time, dropped: &mut Vec<Kept>) {
        for (step_number, (age, step)) in STEPS.into_iter().enumerate() {
            let edge = now.plus_micros(-(age as i64));
            let slot = |kept: &Kept| kept.snapshot.time().micros().div_euclid(step as i64);
            let mut position = self.kept.partition_point(|kept| kept.crossed > step_number);
            for _ in 0..THINNED_AT_ONCE_MAX {
                let Some(kept) = self.kept.get_mut(position).filter(|kept| kept.snapshot.time() < edge) else { break };
                kept.crossed = step_number + 1;
                let elder = position.checked_sub(1);
                match elder.filter(|elder| slot(&self.kept[*elder]) == slot(&self.kept[position])) {
                    // Of the versions in one slot the last one stays; it is the one that a question about the slot's end wants.
                    Some(elder) => dropped.extend(self.remove(elder)),
                    None => position += 1,
                }
            }
        }
    }

    /// Takes out one version; what it is charged is carried over to its elder.
    fn remove(&mut self, position: usize) -> Option<Kept> {
        let gone = self.kept.remove(position)?;
        match position.checked_sub(1).and_then(|elder| self.kept.get_mut(elder)) {
            Some(elder) => elder.bytes += gone.bytes,
            None => self.bytes -= gone.bytes,
        }
        Some(gone)
    }
}
