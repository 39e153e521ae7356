//! Amounts as people write them: memory `64M`, durations `1h30m`, cpus `0.25`, ages `4 min`.
//!
//! Each `format_*` is an exact inverse of its `parse_*`: parsing what was formatted gives the same amount, so a job file
//! that was printed and read again has not changed. The `show_*` forms are rounded for people and never parsed.

use std::time::Duration;

use thiserror::Error;

#[cfg(test)]
mod tests;

/// Units of memory and disk, largest first: powers of 1024.
const BYTE_UNITS: [(&str, u64); 5] = [("T", 1 << 40), ("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10), ("B", 1)];

/// Units of durations in milliseconds, largest first: the order in which they may be strung together.
const DURATION_UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// More decimals than this are refused rather than rounded away.
const DECIMALS_MAX: usize = 3;

/// Whole thousandths of a cpu in one cpu.
pub const CPU_THOUSANDTHS: u32 = 1_000;

/// Why a text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum UnitError {
    /// Nothing but a number. Carries the text that was probably meant.
    #[error("the unit is missing; did you mean \"{suggestion}\"?")]
    UnitMissing {
        /// The same number with its likeliest unit.
        suggestion: String,
    },
    /// A unit that is not one of ours, with the text that was probably meant.
    #[error("unknown unit `{unit}`; {known}")]
    UnitUnknown {
        /// What stood after the number.
        unit: String,
        /// Which units there are, as a sentence.
        known: &'static str,
    },
    /// No number, or more decimals than are kept.
    #[error("not a number: `{number}`; write digits with at most three decimals, like {example}")]
    NotANumber {
        /// What stood where the number should be.
        number: String,
        /// A text that would do.
        example: &'static str,
    },
    /// The amount does not fit.
    #[error("too large")]
    TooLarge,
}

/// The bytes of `64M`, `7.5G`, `512K`, `100B`. Parts of a byte are dropped.
///
/// # Errors
/// A bare number (it could be bytes or megabytes), a foreign unit such as `MB`, and more than `u64` holds.
pub fn parse_bytes(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_number(text);
    if number.is_empty() {
        return Err(UnitError::NotANumber { number: text.to_owned(), example: "64M" });
    }
    let number = thousandths(number, "64M")?;
    if unit.is_empty() {
        return Err(UnitError::UnitMissing { suggestion: format!("{}M", text.trim()) });
    }
    let known = "units are K, M, G, T (powers of 1024) and B";
    let (_, size) = BYTE_UNITS
        .into_iter()
        .find(|(name, _)| *name == unit)
        .ok_or_else(|| UnitError::UnitUnknown { unit: unit.to_owned(), known })?;
    let bytes = number.checked_mul(u128::from(size)).ok_or(UnitError::TooLarge)? / 1_000;
    u64::try_from(bytes).map_err(|_| UnitError::TooLarge)
}

/// The shortest text that [`parse_bytes`] reads as exactly this many bytes: `64M`, `7.5G`, `1000B`.
pub fn format_bytes(bytes: u64) -> String {
    BYTE_UNITS
        .into_iter()
        .filter(|(_, size)| bytes >= *size)
        .map(|(unit, size)| one_decimal(bytes, size, unit))
        .find(|text| parse_bytes(text) == Ok(bytes))
        .unwrap_or_else(|| format!("{bytes}B"))
}

/// The bytes rounded to one decimal of their largest unit, for people: `7.5G` of a machine with 8,053,063,681.
pub fn show_bytes(bytes: u64) -> String {
    let (unit, size) = BYTE_UNITS.into_iter().find(|(_, size)| bytes >= *size).unwrap_or(("B", 1));
    one_decimal(bytes, size, unit)
}

fn one_decimal(bytes: u64, size: u64, unit: &str) -> String {
    let tenths = (u128::from(bytes) * 10 + u128::from(size) / 2) / u128::from(size);
    match (tenths / 10, tenths % 10) {
        (whole, 0) => format!("{whole}{unit}"),
        (whole, tenth) => format!("{whole}.{tenth}{unit}"),
    }
}

/// The duration of `10s`, `5m`, `1h30m`, `250ms`, `2d`: whole numbers, larger units first, each at most once.
///
/// # Errors
/// A bare number, a foreign unit, units out of order, and more milliseconds than `u64` holds.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let known = "units are d, h, m, s and ms, larger ones first, each once: 1h30m";
    let mut rest = text.trim();
    let mut allowed = &DURATION_UNITS[..];
    let mut milliseconds: u64 = 0;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(UnitError::NotANumber { number: rest.to_owned(), example: "10s" });
        }
        let number: u64 = rest[..digits].parse().map_err(|_| UnitError::TooLarge)?;
        rest = &rest[digits..];
        let letters = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let unit = &rest[..letters];
        if unit.is_empty() {
            // After `1h` a bare 30 is likelier minutes than seconds.
            let likely =
                if allowed.len() == DURATION_UNITS.len() { "s" } else { allowed.first().map_or("", |unit| unit.0) };
            return Err(UnitError::UnitMissing { suggestion: format!("{}{likely}", text.trim()) });
        }
        let place = allowed.iter().position(|(name, _)| *name == unit);
        let place = place.ok_or_else(|| UnitError::UnitUnknown { unit: unit.to_owned(), known })?;
        let part = number.checked_mul(allowed[place].1).ok_or(UnitError::TooLarge)?;
        milliseconds = milliseconds.checked_add(part).ok_or(UnitError::TooLarge)?;
        allowed = &allowed[place + 1..];
        rest = &rest[letters..];
        if rest.is_empty() {
            return Ok(Duration::from_millis(milliseconds));
        }
    }
}

/// The text that [`parse_duration`] reads as this duration, exact to the millisecond: `1h30m`, `250ms`, `0s`.
pub fn format_duration(duration: Duration) -> String {
    let mut milliseconds = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if milliseconds == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, size) in DURATION_UNITS {
        if milliseconds >= size {
            text.push_str(&format!("{}{unit}", milliseconds / size));
            milliseconds %= size;
        }
    }
    text
}

/// A duration rounded for people, in its largest unit: `0.3 s`, `40 s`, `4 min`, `3 h`, `9 d`.
pub fn show_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => {
            // Cut, not rounded, like all the larger units: nothing is older than its age says.
            let tenths = duration.as_millis() / 100;
            match (tenths / 10, tenths % 10) {
                (whole, 0) if whole > 0 => format!("{whole} s"),
                (whole, tenth) => format!("{whole}.{tenth} s"),
            }
        }
        10..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// The whole thousandths of a cpu in `0.25`, `2`, `1.5`.
///
/// # Errors
/// Anything but digits with at most three decimals, and more than `u32` holds.
pub fn parse_cpus(text: &str) -> Result<u32, UnitError> {
    let (number, unit) = split_number(text);
    if !unit.is_empty() {
        return Err(UnitError::NotANumber { number: text.to_owned(), example: "0.25" });
    }
    u32::try_from(thousandths(number, "0.25")?).map_err(|_| UnitError::TooLarge)
}

/// The text that [`parse_cpus`] reads as these thousandths: `0.25`, `2`, `1.5`.
pub fn format_cpus(cpus: u32) -> String {
    let whole = cpus / CPU_THOUSANDTHS;
    match cpus % CPU_THOUSANDTHS {
        0 => whole.to_string(),
        rest => format!("{whole}.{}", format!("{rest:03}").trim_end_matches('0')),
    }
}

fn split_number(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// A decimal number in whole thousandths, read without going through a binary fraction. In 128 bits, since the largest
/// amount of bytes has more thousandths than 64 hold.
fn thousandths(number: &str, example: &'static str) -> Result<u128, UnitError> {
    let wrong = || UnitError::NotANumber { number: number.to_owned(), example };
    let (whole, decimals) = match number.split_once('.') {
        Some((_, "")) => return Err(wrong()),
        Some(parts) => parts,
        None => (number, ""),
    };
    let digits = |part: &str| part.bytes().all(|letter| letter.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(decimals) || decimals.len() > DECIMALS_MAX {
        return Err(wrong());
    }
    let whole: u128 = whole.parse().map_err(|_| UnitError::TooLarge)?;
    let decimals: u128 = format!("{decimals:0<3}").parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000).and_then(|whole| whole.checked_add(decimals)).ok_or(UnitError::TooLarge)
}
