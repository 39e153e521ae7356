//! Times as RFC 3339 text.

use jiff::Timestamp;
use rollcall_schema::Time;
use thiserror::Error;

/// What a time looks like, for errors.
pub(crate) const TIME_EXAMPLE: &str = "2026-11-30T03:07:12Z";

const SECOND_MICROS: i64 = 1_000_000;
const DAY_SECONDS: i64 = 86_400;

/// The bytes of a time as it is written: `2026-11-30T03:07:12.000000Z`.
const TIME_BYTES: usize = 27;

/// The first and the last microsecond that four digits of a year can say.
const MICROS: std::ops::RangeInclusive<i64> = -62_167_219_200_000_000..=253_402_300_799_999_999;

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimeError {
    /// It does not look like one, or names a day or an hour that does not exist.
    #[error("'{0}' is not a time; write it as '{TIME_EXAMPLE}'")]
    NotATime(String),
    /// It is finer than times are kept.
    #[error("'{0}' has more than six decimals; times are whole microseconds")]
    TooFine(String),
}

/// Reads a time, which must say its distance from UTC.
///
/// # Errors
/// If it is not RFC 3339, or finer than a microsecond.
pub fn parse_time(text: &str) -> Result<Time, TimeError> {
    // What is foreign is repeated in the error, but not at any length.
    let shown = || text.chars().take(40).collect::<String>();
    let shape =
        |position: usize, wanted: &[u8]| text.as_bytes().get(position).is_some_and(|byte| wanted.contains(byte));
    // The library also reads days without a time, and zones by name.
    if !shape(4, b"-") || !shape(10, b"Tt ") || text.contains('[') {
        return Err(TimeError::NotATime(shown()));
    }
    let timestamp: Timestamp = text.parse().map_err(|_| TimeError::NotATime(shown()))?;
    if timestamp.subsec_nanosecond() % 1000 != 0 {
        return Err(TimeError::TooFine(shown()));
    }
    Ok(Time::from_micros(timestamp.as_microsecond()))
}

/// Appends a time as RFC 3339 in UTC with six decimals. Times before the year 0 and after 9999, which no clock gives, are written as
/// the first and the last that this form can say.
pub fn put_time(out: &mut Vec<u8>, time: Time) {
    let micros = time.micros().clamp(*MICROS.start(), *MICROS.end());
    let (seconds, fraction) = (micros.div_euclid(SECOND_MICROS), micros.rem_euclid(SECOND_MICROS) as u32);
    let (year, month, day) = civil(seconds.div_euclid(DAY_SECONDS));
    let second = seconds.rem_euclid(DAY_SECONDS) as u32;
    let mut text = *b"0000-00-00T00:00:00.000000Z";
    debug_assert_eq!(text.len(), TIME_BYTES);
    put_two(&mut text, 0, year / 100);
    put_two(&mut text, 2, year % 100);
    put_two(&mut text, 5, month);
    put_two(&mut text, 8, day);
    put_two(&mut text, 11, second / 3600);
    put_two(&mut text, 14, second / 60 % 60);
    put_two(&mut text, 17, second % 60);
    put_two(&mut text, 20, fraction / 10_000);
    put_two(&mut text, 22, fraction / 100 % 100);
    put_two(&mut text, 24, fraction % 100);
    out.extend_from_slice(&text);
}

#[inline]
fn put_two(text: &mut [u8; TIME_BYTES], position: usize, number: u32) {
    text[position] = b'0' + (number / 10) as u8;
    text[position + 1] = b'0' + (number % 10) as u8;
}

/// Year, month and day of a day counted from 1970-01-01, in the proleptic Gregorian calendar.
fn civil(day: i64) -> (u32, u32, u32) {
    // Counted from 0000-03-01, leap days are the last of their year, and 400 years are always the same number of days.
    const ERA_DAYS: i64 = 146_097;
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(ERA_DAYS), shifted.rem_euclid(ERA_DAYS));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, months of 31 and 30 days repeat every five.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year as u32, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::{MICROS, TimeError, parse_time, put_time};
    use jiff::Timestamp;
    use proptest::prelude::{prop_assert_eq, proptest};
    use rollcall_schema::Time;

    fn written(micros: i64) -> String {
        let mut out = Vec::new();
        put_time(&mut out, Time::from_micros(micros));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_are_written_with_six_decimals_in_utc() {
        for (micros, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_709_164_800_000_001, "2024-02-29T00:00:00.000001Z"),
            (*MICROS.start(), "0000-01-01T00:00:00.000000Z"),
            (*MICROS.end(), "9999-12-31T23:59:59.999999Z"),
            (i64::MIN, "0000-01-01T00:00:00.000000Z"),
            (i64::MAX, "9999-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(written(micros), expected);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_the_calendar_says(micros in -62_167_219_200_000_000i64..253_402_207_200_000_000) {
            let text = written(micros);
            prop_assert_eq!(&text, &format!("{:.6}", Timestamp::from_microsecond(micros).unwrap()));
            prop_assert_eq!(parse_time(&text), Ok(Time::from_micros(micros)));
        }
    }

    #[test]
    fn only_rfc_3339_is_read() {
        for (text, micros) in [
            ("1970-01-01T00:00:01Z", 1_000_000),
            ("1970-01-01t02:00:00.5+02:00", 500_000),
            ("1970-01-01 00:00:00.000001Z", 1),
        ] {
            assert_eq!(parse_time(text), Ok(Time::from_micros(micros)), "{text}");
        }
        for text in [
            "",
            "now",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-02-30T00:00:00Z",
            "1970-01-01T25:00:00Z",
            "1970-01-01T00:00:00Z[UTC]",
            "+001970-01-01T00:00:00Z",
            "19700101T000000Z",
        ] {
            assert_eq!(parse_time(text), Err(TimeError::NotATime(text.to_owned())), "{text}");
        }
        let fine = "1970-01-01T00:00:00.0000001Z";
        assert_eq!(parse_time(fine), Err(TimeError::TooFine(fine.to_owned())));
    }
}
