//! Points in time as rows hold them.

use std::cmp::Ordering;
use std::fmt;
use std::num::NonZero;

/// A point in time: whole microseconds since 1970-01-01 UTC. The writer gives it, once a batch.
///
/// It is kept with its sign bit flipped and never zero, so that an `Option<Time>` takes no more room than a `Time`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time(NonZero<i64>);

/// How the smallest time is kept.
const ONE: NonZero<i64> = NonZero::<i64>::new(1).expect("one is not zero");

impl Time {
    /// The start of 1970, which stands for "not known" nowhere: use `Option<Time>` for that.
    pub const EPOCH: Time = Time::from_micros(0);
    /// Later than every time a row can hold.
    pub const MAX: Time = Time::from_micros(i64::MAX);

    /// The time so many microseconds after (or before) the start of 1970 UTC. The smallest number of all, 292,000 years before, counts as the one after it.
    pub const fn from_micros(micros: i64) -> Time {
        match NonZero::new(micros ^ i64::MIN) {
            Some(kept) => Time(kept),
            None => Time(ONE),
        }
    }

    /// Microseconds since the start of 1970 UTC.
    pub const fn micros(self) -> i64 {
        self.0.get() ^ i64::MIN
    }

    /// Microseconds from `earlier` to this time; zero if `earlier` is later.
    pub const fn micros_since(self, earlier: Time) -> u64 {
        let (this, earlier) = (self.micros(), earlier.micros());
        if this > earlier { this.abs_diff(earlier) } else { 0 }
    }

    /// This time moved by so many microseconds, held at the ends of the range.
    pub const fn plus_micros(self, micros: i64) -> Time {
        Time::from_micros(self.micros().saturating_add(micros))
    }
}

impl Default for Time {
    fn default() -> Self {
        Time::EPOCH
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Time {
    fn cmp(&self, other: &Self) -> Ordering {
        self.micros().cmp(&other.micros())
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Time({})", self.micros())
    }
}

impl fmt::Display for Time {
    /// Seconds since 1970 with six decimals; people see times through the doors, which know calendars.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:06}", self.micros().div_euclid(1_000_000), self.micros().rem_euclid(1_000_000))
    }
}
