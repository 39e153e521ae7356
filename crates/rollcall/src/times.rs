//! Times in answers: microseconds UTC or RFC 3339 in, ages out.

use std::time::Duration;

use jiff::Timestamp;
use rollcall_types::units::show_duration;
use serde_json::Value;

/// The time in a cell of an answer; none when there is none.
pub fn time_of(value: &Value) -> Option<Timestamp> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_i64().and_then(|number| Timestamp::from_microsecond(number).ok()),
        _ => None,
    }
}

/// From one time to another; nothing when they are the wrong way round, as clocks of two machines may be.
pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::try_from(later.duration_since(earlier)).unwrap_or_default()
}

/// `4 min ago`.
pub fn age(time: Timestamp, now: Timestamp) -> String {
    format!("{} ago", show_duration(between(time, now)))
}

/// `03:12:44.102`, in UTC.
pub fn clock(time: Timestamp) -> String {
    let text = time.strftime("%H:%M:%S").to_string();
    format!("{text}.{:03}", time.subsec_millisecond().max(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{age, between, clock, time_of};

    #[test]
    fn times_are_read_in_both_forms() {
        let time = time_of(&json!("2026-07-01T03:12:44.102Z")).expect("is a time");
        assert_eq!(time_of(&json!(time.as_microsecond())), Some(time));
        assert_eq!(clock(time), "03:12:44.102");
        for odd in [json!(null), json!("yesterday"), json!(1.5), json!([]), json!(i64::MAX)] {
            assert_eq!(time_of(&odd), None, "{odd}");
        }
    }

    #[test]
    fn ages_are_told_from_the_servers_time() {
        let now = time_of(&json!("2026-07-01T12:00:00Z")).expect("is a time");
        let table = [
            ("2026-07-01T11:59:59.7Z", "0.3 s ago"),
            ("2026-07-01T11:56:00Z", "4 min ago"),
            ("2026-06-22T12:00:00Z", "9 d ago"),
            ("2026-07-01T12:00:05Z", "0.0 s ago"),
        ];
        for (time, expected) in table {
            let time = time_of(&json!(time)).expect("is a time");
            assert_eq!(age(time, now), expected);
        }
        assert!(between(now, now).is_zero());
    }
}
