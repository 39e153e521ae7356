//! Rows of answers: as tasks for people, and as they are for programs.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rollcall_schema::Row;
use rollcall_types::units::show_duration;
use rollcall_types::{Task, nearest};
use serde_json::Value;

use crate::arguments::Output;
use crate::client::Answer;
use crate::failure::Failure;
use crate::table::table;
use crate::times::{age, between, time_of};

/// What `rollcall tasks` shows of a task when nobody asks for other columns.
const TASK_COLUMNS: [&str; 6] = ["task", "state", "agent", "started", "ran", "cause"];
/// Columns of answers that are times.
const TIME_COLUMNS: [&str; 3] = ["created", "started", "ended"];

/// What can be shown of a task and not asked for: made by the server, or by us from several columns.
const SHOWN_ONLY: [(&str, &str); 4] = [
    ("task", "Its name: job.instance.attempt."),
    ("ran", "How long it ran; in tables only."),
    ("row", "The number of its row."),
    ("version", "The version of the store that last changed it."),
];

/// The columns of tasks, as `rollcall help tasks` lists them.
pub fn columns_help() -> String {
    let mut text = "Columns, for --where, --sort and --columns:\n".to_owned();
    for column in Task::schema().columns {
        text.push_str(&format!("  {:<17} {}\n", column.name, column.comment));
    }
    text.push_str("For --columns only:\n");
    for (name, comment) in SHOWN_ONLY {
        text.push_str(&format!("  {name:<17} {comment}\n"));
    }
    text
}

/// One answer about tasks.
#[derive(Debug, Default)]
pub struct TaskRows {
    pub version: u64,
    /// When the rows were so, by the server's clock: what ages count from. At least the time of the version.
    pub time: Option<Timestamp>,
    pub rows: Vec<Value>,
    /// Where the next page begins.
    pub next: Option<String>,
    /// How many rows were read for it and by which index, if the server says so.
    pub read: Option<String>,
}

impl TaskRows {
    /// From the server's JSON. A field that is missing is empty: the server may be newer or older than we are.
    pub fn from_answer(answer: Answer) -> Self {
        let Answer { json: mut answer, date } = answer;
        Self {
            version: answer["version"].as_u64().unwrap_or(0),
            time: time_of(&answer["time"]).max(date),
            rows: answer.get_mut("rows").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default(),
            next: answer["next"].as_str().map(str::to_owned),
            read: answer["read"]["rows"].as_u64().map(|rows| match answer["read"]["index"].as_str() {
                Some(index) => format!("read {rows} rows by index {index}"),
                None => format!("read {rows} rows"),
            }),
        }
    }

    /// The rows in the asked form, in the asked columns or, for programs, in all of them.
    pub fn print(&self, output: Output, columns: &[String], absolute: bool) -> String {
        let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
        match output {
            Output::Table if columns.is_empty() => self.table(&TASK_COLUMNS, absolute),
            Output::Table => self.table(&columns, absolute),
            Output::Json => {
                let rows: Vec<String> = self.rows.iter().map(|row| picked(row, &columns).to_string()).collect();
                if rows.is_empty() { "[]\n".to_owned() } else { format!("[\n{}\n]\n", rows.join(",\n")) }
            }
            Output::Jsonl => self.rows.iter().map(|row| format!("{}\n", picked(row, &columns))).collect(),
            Output::Csv => self.csv(&columns),
        }
    }

    /// A column that nobody knows is refused, since an empty one would look like an answer. A newer server may send
    /// columns that we do not know, so what is in a row counts as known.
    pub fn check_columns(&self, columns: &[String]) -> Result<(), Failure> {
        let known = || Task::schema().columns.iter().map(|column| column.name).chain(SHOWN_ONLY.map(|(name, _)| name));
        let sent = |name: &str| self.rows.iter().any(|row| row.get(name).is_some());
        let Some(unknown) = columns.iter().find(|name| !known().any(|known| known == *name) && !sent(name)) else {
            return Ok(());
        };
        let meant = nearest(unknown, known()).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
        let shown = unknown.escape_debug();
        Err(Failure::usage(format!("--columns: no column `{shown}`{meant}\nall columns: rollcall help tasks")))
    }

    fn table(&self, columns: &[&str], absolute: bool) -> String {
        let head: Vec<String> = columns.iter().map(|column| column.to_uppercase()).collect();
        let head: Vec<&str> = head.iter().map(String::as_str).collect();
        let cells = |row: &Value| columns.iter().map(|column| self.cell(row, column, absolute)).collect();
        table(&head, &self.rows.iter().map(cells).collect::<Vec<_>>())
    }

    /// What a person sees of a column; some are made of several.
    fn cell(&self, row: &Value, column: &str, absolute: bool) -> String {
        let time = || time_of(&row[column]);
        match column {
            "task" => task_name(row),
            "ran" => self.ran(row).unwrap_or_default(),
            "cause" => cause(row),
            column if TIME_COLUMNS.contains(&column) => match (time(), self.time) {
                (Some(time), Some(now)) if !absolute => age(time, now),
                (Some(time), _) => time.to_string(),
                (None, _) => String::new(),
            },
            column => plain(&row[column]),
        }
    }

    fn ran(&self, row: &Value) -> Option<String> {
        let started = time_of(&row["started"])?;
        let until = time_of(&row["ended"]).or(self.time)?;
        Some(show_duration(between(started, until)))
    }

    fn csv(&self, columns: &[&str]) -> String {
        let mut all = columns.to_vec();
        if columns.is_empty() {
            // A row has no field for a column that it has no value for, so all rows are asked.
            let fields = self.rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys());
            let unique: BTreeSet<&str> = fields.map(String::as_str).collect();
            all.extend(unique);
        }
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| csv_cell(cell)).collect();
            format!("{}\n", cells.join(","))
        };
        let mut text = line(all.iter().map(|column| (*column).to_owned()).collect());
        for row in &self.rows {
            text.push_str(&line(all.iter().map(|column| plain(&row[*column])).collect()));
        }
        text
    }
}

/// The task's name, ready to be typed again.
pub fn task_name(row: &Value) -> String {
    let name = plain(&row["task"]);
    match row["namespace"].as_str() {
        Some(namespace) if namespace != rollcall_types::DEFAULT_NAMESPACE && !name.contains('/') => {
            format!("{namespace}/{name}")
        }
        _ => name,
    }
}

/// `exit_nonzero: exit code 1`, or either half alone.
pub fn cause(row: &Value) -> String {
    match (plain(&row["cause"]), plain(&row["cause_text"])) {
        (code, text) if text.is_empty() => code,
        (code, text) if code.is_empty() => text,
        (code, text) => format!("{code}: {text}"),
    }
}

/// A value as text: strings without quotes, nothing for null.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn picked(row: &Value, columns: &[&str]) -> Value {
    match columns {
        [] => row.clone(),
        columns => columns.iter().map(|column| ((*column).to_owned(), row[*column].clone())).collect(),
    }
}

/// As RFC 4180 quotes it.
fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{TaskRows, columns_help};
    use crate::arguments::Output;
    use crate::client::Answer;
    use crate::failure::Failure;
    use crate::table::LINE_CHARACTERS_MAX;

    fn from(json: serde_json::Value) -> TaskRows {
        TaskRows::from_answer(Answer { json, date: None })
    }

    fn answer() -> TaskRows {
        from(json!({
            "version": 1204, "time": "2026-07-01T12:00:00Z", "next": "9Kd2",
            "rows": [
                { "task": "api.0.11", "namespace": "default", "state": "failed", "agent": "n1", "pid": null,
                  "started": "2026-07-01T11:57:00Z", "ended": "2026-07-01T11:57:00.34Z",
                  "cause": "exit_nonzero", "cause_text": "exit code 1, \"oops\"" },
                { "task": "web.0.1", "namespace": "shop", "state": "running", "agent": "n1", "pid": 77,
                  "started": 1_782_892_800_000_000_i64, "ended": null, "cause": null },
                { "task": "web.1.1", "state": "pending" },
            ],
        }))
    }

    #[test]
    fn people_get_a_table_with_ages() {
        let expected = "\
TASK          STATE    AGENT  STARTED    RAN    CAUSE
api.0.11      failed   n1     3 min ago  0.3 s  exit_nonzero: exit code 1, \"oops\"
shop/web.0.1  running  n1     4 h ago    4 h
web.1.1       pending
";
        assert_eq!(answer().print(Output::Table, &[], false), expected);
        let columns = ["task".to_owned(), "started".to_owned()];
        let expected = "\
TASK          STARTED
api.0.11      2026-07-01T11:57:00Z
shop/web.0.1  2026-07-01T08:00:00Z
web.1.1
";
        assert_eq!(answer().print(Output::Table, &columns, true), expected);
    }

    #[test]
    fn programs_get_the_rows_as_they_are() {
        let columns = ["task".to_owned(), "pid".to_owned(), "cause_text".to_owned()];
        let csv = "task,pid,cause_text\napi.0.11,,\"exit code 1, \"\"oops\"\"\"\nweb.0.1,77,\nweb.1.1,,\n";
        assert_eq!(answer().print(Output::Csv, &columns, false), csv);
        let lines = answer().print(Output::Jsonl, &[], false);
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().expect("has lines")).expect("is JSON");
        assert_eq!((lines.lines().count(), &first), (3, &answer().rows[0]));
        let all: Vec<serde_json::Value> =
            serde_json::from_str(&answer().print(Output::Json, &[], false)).expect("is JSON");
        assert_eq!(all, answer().rows);
        assert_eq!(TaskRows::default().print(Output::Json, &[], false), "[]\n");
    }

    #[test]
    fn a_column_that_nobody_knows_is_refused() {
        let mut answer = answer();
        let check = |answer: &TaskRows, name: &str| answer.check_columns(&["task".to_owned(), name.to_owned()]);
        for known in ["ran", "pid", "ended", "cpus_thousandths", "version"] {
            assert_eq!(check(&answer, known), Ok(()), "{known}");
        }
        let expected = "--columns: no column `stat`; did you mean `state`?\nall columns: rollcall help tasks";
        assert_eq!(check(&answer, "stat"), Err(Failure::usage(expected)));
        answer.rows.push(json!({ "stat": 1 }));
        assert_eq!(check(&answer, "stat"), Ok(()), "a newer server knows better");
    }

    #[test]
    fn the_list_of_columns_fits_a_terminal() {
        let text = columns_help();
        assert!(text.contains("\n  cause_text "), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= LINE_CHARACTERS_MAX), "{text}");
    }

    #[test]
    fn an_odd_answer_is_an_empty_one() {
        for odd in [json!(null), json!([]), json!({ "rows": 5, "version": "x" })] {
            assert!(from(odd).rows.is_empty());
        }
    }
}
