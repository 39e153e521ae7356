//! Points in time as rows hold them.

use std::fmt;

/// A point in time: whole microseconds since 1970-01-01 UTC. The writer gives it, once a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The start of 1970, which stands for "not known" nowhere: use `Option<Time>` for that.
    pub const EPOCH: Time = Time(0);
    /// Later than every time a row can hold.
    pub const MAX: Time = Time(i64::MAX);

    /// The time so many microseconds after (or before) the start of 1970 UTC.
    pub const fn from_micros(micros: i64) -> Time {
        Time(micros)
    }

    /// Microseconds since the start of 1970 UTC.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Microseconds from `earlier` to this time; zero if `earlier` is later.
    pub const fn micros_since(self, earlier: Time) -> u64 {
        if self.0 > earlier.0 { self.0.abs_diff(earlier.0) } else { 0 }
    }

    /// This time moved by so many microseconds, held at the ends of the range.
    pub const fn plus_micros(self, micros: i64) -> Time {
        Time(self.0.saturating_add(micros))
    }
}

impl fmt::Display for Time {
    /// Seconds since 1970 with six decimals; people see times through the doors, which know calendars.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:06}", self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000))
    }
}
