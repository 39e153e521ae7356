//! The one place of the server that reads the wall clock.

use rollcall_schema::Time;
use std::time::{SystemTime, UNIX_EPOCH};

/// The time of a commit. A machine set to before 1970 is at the start of it; the store keeps commits from going back.
// Rules get time as an argument; this is where it comes from.
#[allow(clippy::disallowed_methods)]
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}
