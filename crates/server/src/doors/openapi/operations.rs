//! What each door takes, gives and refuses.

use super::{Operation, Parameter, schemas};
use rollcall_schema::TableSchema;
use rollcall_types::NAME_CHARACTERS_MAX;
use rollcall_wire_native::{ErrorCode, LIMIT_MAX, LIST_PARAMETERS, WATCH_PARAMETERS};
use serde_json::{Value, json};

const JSON: &str = "application/json";

/// What any door may refuse that has parameters.
const BAD_PARAMETERS: [ErrorCode; 2] = [ErrorCode::BadParameter, ErrorCode::QueryTooLong];
/// What any door may refuse that has a condition.
const BAD_CONDITION: [ErrorCode; 3] = [ErrorCode::BadWhere, ErrorCode::NoSuchColumn, ErrorCode::NotSupported];
/// What any door may refuse that changes something.
const BAD_CHANGE: [ErrorCode; 4] =
    [ErrorCode::BadBody, ErrorCode::Conflict, ErrorCode::TooLarge, ErrorCode::WritesStopped];

/// Reads rows of a table.
pub(in crate::doors) fn list(table: &TableSchema) -> Operation {
    let mut errors = [BAD_PARAMETERS.as_slice(), &BAD_CONDITION].concat();
    errors.extend([ErrorCode::BadSort, ErrorCode::BadLimit, ErrorCode::BadCursor]);
    errors.extend([ErrorCode::BadAsOf, ErrorCode::TooOld, ErrorCode::NotYet]);
    Operation {
        id: format!("list_{}", table.name),
        parameters: LIST_PARAMETERS.iter().map(|name| query(name)).collect(),
        answer: (JSON, schemas::list_answer(table)),
        tagged: true,
        ..plain(format!("Rows of the table {}. {}", table.name, table.comment), errors)
    }
}

/// Makes or changes a job.
pub(in crate::doors) fn submit() -> Operation {
    Operation {
        method: "post",
        id: "submit_job".into(),
        body: Some(schemas::job()),
        answer: (JSON, schemas::submit_answer()),
        ..plain("Makes a job, or makes it be as the body says.", [BAD_PARAMETERS.as_slice(), &BAD_CHANGE].concat())
    }
}

/// Stops a job.
pub(in crate::doors) fn stop() -> Operation {
    let mut errors = [BAD_PARAMETERS.as_slice(), &BAD_CHANGE].concat();
    errors.push(ErrorCode::NoSuchThing);
    let name = |name, meaning| {
        let schema = json!({ "type": "string", "maxLength": NAME_CHARACTERS_MAX });
        Parameter { name, place: "path", meaning, schema }
    };
    let parameters = vec![
        name("namespace", "The job's namespace."),
        name("name", "The job's name."),
        in_query("instance", "One instance only, by its number.", json!({ "type": "integer", "minimum": 0 })),
    ];
    Operation {
        method: "post",
        id: "stop_job".into(),
        parameters,
        answer: (JSON, schemas::stop_answer()),
        ..plain(
            "Stops a job or one instance of it; the job stays known. The body is not read, but its type must be JSON.",
            errors,
        )
    }
}

/// Reads what a task wrote.
pub(in crate::doors) fn logs() -> Operation {
    let task = Parameter {
        name: "task",
        place: "path",
        meaning: "JOB.INSTANCE.ATTEMPT, such as web.0.1; with a namespace and a slash before it if that is not `default`.",
        schema: json!({ "type": "string" }),
    };
    let parameters = vec![
        task,
        in_query(
            "lines",
            "So many last lines of each output.",
            json!({ "type": "integer", "minimum": 0, "default": 100 }),
        ),
        in_query(
            "follow",
            "Whether to go on until the task has ended.",
            json!({ "type": "boolean", "default": false }),
        ),
        in_query("stream", "One output only.", json!({ "type": "string", "enum": ["out", "err"] })),
    ];
    let mut errors = BAD_PARAMETERS.to_vec();
    errors.push(ErrorCode::NoSuchThing);
    Operation {
        id: "read_logs".into(),
        parameters,
        answer: ("text/plain", json!({ "type": "string" })),
        ..plain("What a task wrote, a line each: the output, the time or -, the text.", errors)
    }
}

/// Follows the changes of a table.
pub(in crate::doors) fn watch(tables: &[&'static TableSchema]) -> Operation {
    let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
    let mut parameters: Vec<Parameter> = WATCH_PARAMETERS.iter().map(|name| query(name)).collect();
    for table in parameters.iter_mut().filter(|parameter| parameter.name == "table") {
        table.schema = json!({ "type": "string", "enum": names, "default": names.first() });
    }
    let meaning = "The last id that was seen; wins over `from`.";
    parameters.push(Parameter { name: "Last-Event-ID", place: "header", meaning, schema: json!({ "type": "string" }) });
    let mut errors = [BAD_PARAMETERS.as_slice(), &BAD_CONDITION].concat();
    errors.extend([ErrorCode::NoSuchTable, ErrorCode::NotYet]);
    Operation {
        id: "watch".into(),
        parameters,
        answer: ("text/event-stream", json!({ "type": "string" })),
        ..plain(
            "Changes of rows in the order of commits, as server-sent events: id is VERSION.INDEX, event is came, changed, went or \
             compacted, data is the row.",
            errors,
        )
    }
}

/// Says who answers.
pub(in crate::doors) fn version() -> Operation {
    Operation {
        id: "version".into(),
        answer: (JSON, schemas::version_answer()),
        ..plain("Who answers here.", Vec::new())
    }
}

/// Counts and latencies.
pub(in crate::doors) fn metrics() -> Operation {
    let answer = ("application/openmetrics-text", json!({ "type": "string" }));
    Operation { id: "metrics".into(), answer, ..plain("Counts and latencies in Prometheus form.", Vec::new()) }
}

/// The document itself.
pub(in crate::doors) fn openapi() -> Operation {
    let answer = json!({ "type": "object", "required": ["openapi", "info", "paths", "components"] });
    Operation { id: "openapi".into(), answer: (JSON, answer), ..plain("This document.", Vec::new()) }
}

/// A GET without anything special.
fn plain(summary: impl Into<String>, errors: Vec<ErrorCode>) -> Operation {
    Operation {
        method: "get",
        id: String::new(),
        summary: summary.into(),
        parameters: Vec::new(),
        body: None,
        answer: (JSON, Value::Null),
        tagged: false,
        errors,
    }
}

fn in_query(name: &'static str, meaning: &'static str, schema: Value) -> Parameter {
    Parameter { name, place: "query", meaning, schema }
}

/// A parameter that the wire room parses. One without a meaning here fails a test.
fn query(name: &'static str) -> Parameter {
    let text = || json!({ "type": "string" });
    let (meaning, schema) = match name {
        "table" => ("The table.", text()),
        "where" => ("Which rows: a condition as in SQL, such as job = 'web' and state in ('failed', 'lost').", text()),
        "sort" => ("The order: columns with commas between them, a minus for falling, such as -started,job.", text()),
        "limit" => {
            ("How many rows at most; all without it.", json!({ "type": "integer", "minimum": 1, "maximum": LIMIT_MAX }))
        }
        "after" => ("Goes on where an earlier answer to the same question ended: its `next`.", text()),
        "as_of" => ("Reads the past: the number of a version, or a time in RFC 3339.", text()),
        "from" => ("From behind which id on: VERSION or VERSION.INDEX; from now on without it.", text()),
        _ => ("", text()),
    };
    in_query(name, meaning, schema)
}
