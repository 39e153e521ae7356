//! The one place of this crate that reads the wall clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Whole microseconds since 1970, UTC. A machine set to before that is at 0.
// The agent says when things happened on its machine, and nothing else knows.
#[allow(clippy::disallowed_methods)]
pub fn system_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
