//! Rows of answers: as tasks for people, and as they are for programs.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rollcall_types::units::show_duration;
use serde_json::Value;

use crate::arguments::Output;
use crate::client::Answer;
use crate::table::table;
use crate::times::{age, between, time_of};

/// What `rollcall tasks` shows of a task when nobody asks for other columns.
const TASK_COLUMNS: [&str; 6] = ["task", "state", "agent", "started", "ran", "cause"];
/// Columns of answers that are times.
const TIME_COLUMNS: [&str; 3] = ["created", "started", "ended"];

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

    use super::TaskRows;
    use crate::arguments::Output;
    use crate::client::Answer;

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
    fn an_odd_answer_is_an_empty_one() {
        for odd in [json!(null), json!([]), json!({ "rows": 5, "version": "x" })] {
            assert!(from(odd).rows.is_empty());
        }
    }
}
