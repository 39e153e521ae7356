use std::time::Duration;

use proptest::prelude::{ProptestConfig, any, proptest};

use super::{
    format_bytes, format_cpus, format_duration, parse_bytes, parse_cpus, parse_duration, show_bytes, show_duration,
};

const M: u64 = 1 << 20;
const G: u64 = 1 << 30;

#[test]
fn bytes_are_read_as_powers_of_1024() {
    let table: &[(&str, Result<u64, &str>)] = &[
        ("64M", Ok(64 * M)),
        ("7.5G", Ok(7 * G + G / 2)),
        ("6.1G", Ok(6_549_825_126)),
        ("512K", Ok(512 << 10)),
        ("2T", Ok(2 << 40)),
        ("0B", Ok(0)),
        ("64 M", Ok(64 * M)),
        ("16777215T", Ok(16_777_215 << 40)),
        ("64", Err("the unit is missing; did you mean \"64M\"?")),
        ("64MB", Err("unknown unit `MB`; units are K, M, G, T (powers of 1024) and B")),
        ("64m", Err("unknown unit `m`; units are K, M, G, T (powers of 1024) and B")),
        ("M", Err("not a number: `M`; write digits with at most three decimals, like 64M")),
        ("-1M", Err("not a number: `-1M`; write digits with at most three decimals, like 64M")),
        ("1.2345G", Err("not a number: `1.2345`; write digits with at most three decimals, like 64M")),
        ("1..2G", Err("not a number: `1..2`; write digits with at most three decimals, like 64M")),
        ("16777216T", Err("too large")),
        ("99999999999999999999M", Err("too large")),
    ];
    for (text, expected) in table {
        let read = parse_bytes(text).map_err(|error| error.to_string());
        assert_eq!(read.as_ref().map_err(String::as_str), expected.as_ref().map_err(|text| *text), "{text}");
    }
}

#[test]
fn bytes_are_shown_in_their_largest_unit() {
    let table = [
        (0, "0B", "0B"),
        (1000, "1000B", "1000B"),
        (64 * M, "64M", "64M"),
        (7 * G + G / 2, "7.5G", "7.5G"),
        (6_549_825_126, "6.1G", "6.1G"),
        (8_053_063_681, "8053063681B", "7.5G"),
        (1536 * M, "1.5G", "1.5G"),
    ];
    for (bytes, exact, shown) in table {
        assert_eq!((format_bytes(bytes).as_str(), show_bytes(bytes).as_str()), (exact, shown));
    }
}

#[test]
fn durations_are_read_with_larger_units_first() {
    let table: &[(&str, Result<u64, &str>)] = &[
        ("10s", Ok(10_000)),
        ("1h30m", Ok(5_400_000)),
        ("250ms", Ok(250)),
        ("2d1ms", Ok(172_800_001)),
        ("90", Err("the unit is missing; did you mean \"90s\"?")),
        ("1h30", Err("the unit is missing; did you mean \"1h30m\"?")),
        ("", Err("not a number: ``; write digits with at most three decimals, like 10s")),
        ("30m1h", Err("unknown unit `h`; units are d, h, m, s and ms, larger ones first, each once: 1h30m")),
        ("1 week", Err("unknown unit ` week`; units are d, h, m, s and ms, larger ones first, each once: 1h30m")),
        ("999999999999999d", Err("too large")),
    ];
    for (text, expected) in table {
        let read = parse_duration(text).map_err(|error| error.to_string());
        let expected = expected.map(Duration::from_millis).map_err(str::to_owned);
        assert_eq!(read, expected, "{text}");
    }
}

#[test]
fn ages_are_shown_in_one_unit() {
    let table = [
        (0, "0.0 s"),
        (340, "0.3 s"),
        (999, "0.9 s"),
        (5_000, "5 s"),
        (9_950, "9.9 s"),
        (40_000, "40 s"),
        (59_999, "59 s"),
        (240_000, "4 min"),
        (3_600_000, "1 h"),
        (86_399_999, "23 h"),
        (777_600_000, "9 d"),
    ];
    for (milliseconds, shown) in table {
        assert_eq!(show_duration(Duration::from_millis(milliseconds)), shown);
    }
}

#[test]
fn cpus_are_read_in_thousandths() {
    let table = [("0.25", Some(250)), ("2", Some(2000)), ("1.5", Some(1500)), ("0.001", Some(1)), ("0", Some(0))];
    for (text, cpus) in table {
        assert_eq!(parse_cpus(text).ok(), cpus, "{text}");
        assert_eq!(format_cpus(cpus.unwrap_or_default()), text);
    }
    for text in ["", ".5", "1.", "0.0001", "1e3", "-1", "inf", "1cpu", "5000000"] {
        assert!(parse_cpus(text).is_err(), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn what_is_formatted_is_read_back_exactly(bytes in any::<u64>(), shift in 0..64_u32, cpus in any::<u32>()) {
        assert_eq!(parse_bytes(&format_bytes(bytes)), Ok(bytes));
        assert_eq!(parse_bytes(&format_bytes(bytes >> shift)), Ok(bytes >> shift));
        assert_eq!(parse_cpus(&format_cpus(cpus)), Ok(cpus));
        let duration = Duration::from_millis(bytes >> shift);
        assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
    }

    #[test]
    fn no_text_is_too_odd_to_be_refused(text in any::<String>(), number in "[0-9.]{0,25}[a-zA-Z]{0,3}") {
        for text in [text, number] {
            let _ = (parse_bytes(&text), parse_duration(&text), parse_cpus(&text));
        }
    }
}
