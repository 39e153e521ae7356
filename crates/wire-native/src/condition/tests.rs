//! Tests of conditions as text.

use super::strategies::condition;
use super::{WHERE_BYTES_MAX, WhereErrorKind, columns_hint, fuzz_where, parse_where, print_where};
use crate::testing::Everything;
use proptest::prelude::{any, prop, prop_assert_eq, proptest};
use rollcall_schema::Row;
use rollcall_store::{CONDITION_DEPTH_MAX, CONDITION_TERMS_MAX};
use rollcall_types::Task;

/// A text, and the text of the condition that is read from it.
#[test]
fn conditions_mean_what_sql_means() {
    for (text, expected) in [
        ("job = 'api'", "job = 'api'"),
        ("job='api'and state in('failed','lost')", "job = 'api' and state in ('failed', 'lost')"),
        ("instance<3 OR instance>=7 Or attempt<>1", "instance < 3 or instance >= 7 or attempt != 1"),
        ("not active", "not active = true"),
        ("active", "active = true"),
        ("active = FALSE", "active = false"),
        ("active and not (job = 'a' or job = 'b')", "active = true and not (job = 'a' or job = 'b')"),
        ("((job = 'a'))", "job = 'a'"),
        ("job = 'a' and (job = 'b' and job = 'c')", "job = 'a' and (job = 'b' and job = 'c')"),
        ("job = 'a' or job = 'b' and job = 'c'", "job = 'a' or job = 'b' and job = 'c'"),
        ("not job = 'a' and job = 'b'", "not job = 'a' and job = 'b'"),
        ("not not active", "not not active = true"),
        ("agent is null", "agent is null"),
        ("agent IS NOT NULL", "not agent is null"),
        ("job not in ('a')", "not job in ('a')"),
        ("job like 'web%' and job not like '_'", "job like 'web%' and not job like '_'"),
        ("job = 'it''s ''x'''", "job = 'it''s ''x'''"),
        ("job = ''", "job = ''"),
        ("instance = +7", "instance = 7"),
        ("memory_bytes <= 18446744073709551615", "memory_bytes <= 18446744073709551615"),
        ("started > '2026-11-30T04:07:12.5+01:00'", "started > '2026-11-30T03:07:12.500000Z'"),
        ("uid = '000000000000000000000000000000ff'", "uid = '000000000000000000000000000000ff'"),
        ("\n job\t=\u{a0}'ü€' ", "job = 'ü€'"),
        ("events is null", "events is null"),
    ] {
        let condition = parse_where(text, Task::schema()).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(print_where(&condition, Task::schema()), expected, "{text}");
        assert_eq!(parse_where(expected, Task::schema()), Ok(condition), "{text}");
    }
}

/// A text, where it is wrong (counted from 1), and what is said about it.
#[test]
fn mistakes_are_named_where_they_are_and_say_what_to_do() {
    // The columns are the schema's own; those of later versions come by themselves.
    let columns = columns_hint(Task::schema());
    assert!(columns.starts_with("columns of tasks: uid, namespace, job, instance, "), "{columns}");
    let columns = columns.as_str();
    const STATES: &str = "`state` is one of: pending, starting, running, stopping, finished, failed, stopped, lost";
    const QUOTES: &str = "write it in single quotes, with % for any text and _ for any letter: 'web%'";
    for (text, column, message, hint) in [
        ("agnet = 'n1'", 1, "no column `agnet`; did you mean `agent`?", columns),
        ("job = 'a' and Agent = 'n1'", 15, "no column `Agent`; did you mean `agent`?", columns),
        ("job = 'ü' and colour = 1", 15, "no column `colour`", columns),
        (
            "task = 'web.0.3'",
            1,
            "`task` is a field of answers and cannot be asked for",
            "ask for its parts: job = 'web' and instance = 0 and attempt = 3",
        ),
        ("labels.team = 'shop'", 1, "`labels.team`: asking for a part of a column is not yet supported", columns),
        ("lower(job) = 'a'", 1, "`lower(…)` is not yet supported", "compare a column: job like 'web%'"),
        ("", 1, "the condition is empty", "leave it out to ask for all rows"),
        ("  ", 3, "the condition is empty", "leave it out to ask for all rows"),
        ("job", 4, "`job` must be compared with something; found the end", "for example: job = 'web'"),
        ("job 'a'", 5, "`job` must be compared with something; found a text", "for example: job = 'web'"),
        ("not instance", 13, "`instance` must be compared with something; found the end", "for example: instance = 42"),
        ("job =", 6, "a value for `job` is expected here, and not the end", "for example: 'web'"),
        ("job = web", 7, "`web` stands where a value is expected", "write text in single quotes: 'web'"),
        (
            "job = user",
            7,
            "`user` is a column; comparing columns with each other is not yet supported",
            "if text was meant, write 'user'",
        ),
        (
            "started > now() - 15m",
            11,
            "`now(…)` is not yet supported",
            "write the value itself, for example '2026-11-30T03:07:12Z'",
        ),
        ("job = \"web\"", 7, "`\"` means nothing here", "write text in single quotes: 'web'"),
        ("job == 'web'", 5, "`==` means nothing here", "write = in place of =="),
        ("active && active", 8, "`&&` means nothing here", "write and in place of &&"),
        (
            "job = 'web",
            7,
            "this text has no end",
            "close it with a single quote; a quote inside is written twice: 'it''s'",
        ),
        ("job = 'a' job = 'b'", 11, "the condition should end before `job`", "join conditions with and, or"),
        ("(job = 'a'", 11, "`)` is expected here, and not the end", ""),
        ("job = 'a')", 10, "the condition should end before `)`", "join conditions with and, or"),
        ("job = 'a' and", 14, "the condition ends where a column is expected", ""),
        (
            "'n1' = agent",
            1,
            "a column is expected here, and not a text",
            "a comparison is a column, an operator and a value: job = 'web'",
        ),
        (
            "and",
            1,
            "a column is expected here, and not `and`",
            "a comparison is a column, an operator and a value: job = 'web'",
        ),
        ("agent = null", 9, "nothing equals null", "write agent is null or agent is not null"),
        (
            "agent is 'n1'",
            10,
            "`null` is expected here, and not a text",
            "write is null or is not null; values are compared with =",
        ),
        ("agent not = 'n1'", 11, "`in` or `like` is expected after not, and not `=`", ""),
        ("instance in ()", 14, "a value for `instance` is expected here, and not `)`", "for example: 42"),
        ("instance in (1; 2)", 15, "`;` means nothing here", "one condition is all there can be"),
        ("instance in (1 2)", 16, "`,` or `)` is expected here, and not `2`", ""),
        ("instance between 1 and 2", 10, "`between` is not yet supported", "write instance >= … and instance <= …"),
        ("instance = 'a'", 12, "`instance` is of type unsigned and cannot be compared with this", "for example: 42"),
        ("instance > -1", 12, "`instance` is never negative", ""),
        (
            "instance = 18446744073709551616",
            12,
            "18446744073709551616 is too large",
            "at most 18446744073709551615 is possible",
        ),
        (
            "memory_bytes > 64M",
            16,
            "`64M` is not a whole number",
            "numbers are whole: bytes, thousandths of a cpu; text and times stand in single quotes",
        ),
        ("job = 1", 7, "`job` is of type text and cannot be compared with this", "for example: 'web'"),
        ("state = 'runing'", 9, "`state` is never 'runing'; did you mean 'running'?", STATES),
        ("state in ('failed', 'RUNNING')", 21, "`state` is never 'RUNNING'; did you mean 'running'?", STATES),
        ("state = failed", 9, "`failed` stands where a value is expected", "write text in single quotes: 'failed'"),
        (
            "state < 'failed'",
            7,
            "`state` has no order, so < cannot be asked of it",
            "use =, != or in (…); `state` is one of: pending, starting, running, stopping, finished, failed, stopped, lost",
        ),
        ("active >= true", 8, "`active` has no order, so >= cannot be asked of it", "write active or not active"),
        ("state like 'f%'", 7, "`state` is of type enumeration; like is for text only", "use =, != or in (…)"),
        ("job like web", 10, "a pattern is expected after like, and not `web`", QUOTES),
        ("uid = 'FF'", 7, "`uid` is 32 hexadecimal digits, 0-9 and a-f", ""),
        ("started > 'yesterday'", 11, "'yesterday' is not a time; write it as '2026-11-30T03:07:12Z'", ""),
        (
            "events = 1",
            10,
            "`events` is a list; comparing lists is not yet supported",
            "ask whether it is null, or read it in the answer",
        ),
    ] {
        let error = parse_where(text, Task::schema()).expect_err(text);
        let found = (error.column, error.message.as_str(), error.hint.as_deref().unwrap_or_default());
        assert_eq!(found, (column, message, hint), "{text}");
        assert_eq!(text[..error.offset].chars().count() + 1, column, "{text}");
    }
}

#[test]
fn conditions_have_limits_in_length_depth_and_terms() {
    let kind = |text: &str| parse_where(text, Task::schema()).map_err(|error| error.kind);
    let long = format!("job = '{}'", "a".repeat(WHERE_BYTES_MAX - 8));
    assert!(kind(&long).is_ok());
    assert_eq!(kind(&format!("{long} ")), Err(WhereErrorKind::TooLarge));
    // What opens levels, what closes them, and how many levels one of it is.
    for (open, close, levels) in [("not ", "", 1), ("(", ")", 1), ("not(", ")", 2), ("active and (active or ", ")", 2)]
    {
        let nested = |times| format!("{}active{}", open.repeat(times), close.repeat(times));
        assert!(kind(&nested(CONDITION_DEPTH_MAX / levels)).is_ok(), "{open}");
        assert_eq!(kind(&nested(CONDITION_DEPTH_MAX / levels + 1)), Err(WhereErrorKind::TooLarge), "{open}");
    }
    // Deep enough to end a thread that recursed without limit.
    let deepest = "(".repeat(WHERE_BYTES_MAX);
    assert_eq!(kind(&deepest), Err(WhereErrorKind::TooLarge));
    // Two bytes a term are the least, so the length is the closer limit; the store's own would hold if it were not.
    const { assert!(WHERE_BYTES_MAX / 2 <= CONDITION_TERMS_MAX) };
    let values = "1,".repeat((WHERE_BYTES_MAX - 20) / 2);
    assert!(kind(&format!("instance in ({values}1)")).is_ok());
}

proptest! {
    #[test]
    fn a_condition_comes_back_from_its_text(condition in condition()) {
        let text = print_where(&condition, Everything::schema());
        if text.len() <= WHERE_BYTES_MAX {
            let read = parse_where(&text, Everything::schema());
            prop_assert_eq!(read, Ok(condition), "{}", text);
        }
    }

    #[test]
    fn no_text_does_harm(text in any::<String>(), words in prop::collection::vec(prop::sample::select(WORDS), 0..24)) {
        fuzz_where(text.as_bytes());
        fuzz_where(words.concat().as_bytes());
    }
}

const WORDS: &[&str] = &[
    "job",
    "active",
    "state",
    " and ",
    " or ",
    " not ",
    "(",
    ")",
    "=",
    "<",
    "!=",
    " in ",
    " like ",
    " is ",
    " null ",
    ",",
    "'a'",
    "'running'",
    "1",
    "-1",
    "'",
    " ",
    "agent",
    "uid",
    "started",
    "events",
    ".",
    "é",
];

#[test]
fn what_a_fuzzer_found_worth_keeping_does_no_harm() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/where");
    let mut read = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        fuzz_where(&std::fs::read(entry.unwrap().path()).unwrap());
        read += 1;
    }
    assert!(read >= 20, "the corpus in {} has {read} files only", folder.display());
}
