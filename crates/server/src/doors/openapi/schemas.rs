//! What rows, bodies and answers look like, as JSON schemas.

use rollcall_schema::{ColumnType, Row, TableSchema};
use rollcall_types::{
    AgentRow, COMMAND_WORDS_MAX, CPUS_MAX, DEFAULT_CPUS, DEFAULT_MEMORY_BYTES, DEFAULT_NAMESPACE, DISK_BYTES_MAX,
    ENVIRONMENT_NAMES_MAX, INSTANCES_MAX, JobKind, JobRow, MEMORY_BYTES_MAX, NAME_CHARACTERS_MAX, SpecRow, Task,
};
use rollcall_wire_native::{ErrorCode, JsonRow};
use serde_json::{Map, Value, json};

/// The schemas that others refer to.
pub(super) fn shared() -> Value {
    json!({
        "error": error(),
        row_name(Task::schema()): row::<Task>(),
        row_name(JobRow::schema()): row::<JobRow>(),
        row_name(AgentRow::schema()): row::<AgentRow>(),
        row_name(SpecRow::schema()): row::<SpecRow>(),
    })
}

/// The name of the schema of a table's rows.
fn row_name(table: &TableSchema) -> String {
    format!("row_of_{}", table.name)
}

/// A row of a table: its columns, and what the native API adds.
fn row<R: JsonRow>() -> Value {
    let schema = R::schema();
    let mut properties = Map::new();
    properties.insert("row".into(), unsigned("The number of the row, the same for its whole life."));
    properties.insert("version".into(), unsigned("The version that last changed it."));
    let mut required = vec!["row", "version"];
    for (name, meaning) in R::EXTRA {
        properties.insert((*name).into(), json!({ "type": "string", "description": meaning }));
        required.push(name);
    }
    for column in schema.columns {
        properties.insert(column.name.into(), described(value(&column.column_type), column.comment));
        if !column.nullable {
            required.push(column.name);
        }
    }
    json!({
        "type": "object",
        "description": format!("{} A column without a value is left out.", schema.comment),
        "properties": properties,
        "required": required,
    })
}

fn value(column_type: &ColumnType) -> Value {
    match column_type {
        ColumnType::Boolean => json!({ "type": "boolean" }),
        ColumnType::Unsigned => json!({ "type": "integer", "minimum": 0, "format": "uint64" }),
        ColumnType::Signed => json!({ "type": "integer", "format": "int64" }),
        ColumnType::Time => json!({ "type": "string", "format": "date-time" }),
        ColumnType::Enumeration(words) => json!({ "type": "string", "enum": words }),
        ColumnType::Identifier => json!({ "type": "string", "pattern": "^[0-9a-f]{32}$" }),
        ColumnType::Text => json!({ "type": "string" }),
        ColumnType::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        ColumnType::Nested(nested) => {
            let fields = nested.fields.iter();
            let fields = fields.map(|(name, comment, inner)| ((*name).to_owned(), described(value(inner), comment)));
            let properties: Map<String, Value> = fields.collect();
            json!({ "type": "array", "items": { "type": "object", "properties": properties } })
        }
    }
}

fn described(mut schema: Value, meaning: &str) -> Value {
    schema["description"] = meaning.into();
    schema
}

fn unsigned(meaning: &str) -> Value {
    described(value(&ColumnType::Unsigned), meaning)
}

fn text(meaning: &str) -> Value {
    described(value(&ColumnType::Text), meaning)
}

/// An object of which all fields are always there.
fn whole(fields: Value) -> Value {
    let required: Vec<String> = fields.as_object().into_iter().flat_map(Map::keys).cloned().collect();
    json!({ "type": "object", "properties": fields, "required": required })
}

/// The one shape of an error.
fn error() -> Value {
    let words: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.word()).collect();
    let meanings = ErrorCode::ALL.iter().map(|code| format!("- `{code}` ({}): {}", code.status(), code.meaning()));
    let meaning = format!("What went wrong, for programs:\n{}", meanings.collect::<Vec<_>>().join("\n"));
    json!({
        "type": "object",
        "properties": {
            "code": { "type": "string", "enum": words, "description": meaning },
            "message": text("What was being done and what is wrong with it."),
            "hint": text("What to do next."),
        },
        "required": ["code", "message"],
    })
}

pub(super) fn list_answer(table: &TableSchema) -> Value {
    let row = format!("#/components/schemas/{}", row_name(table));
    whole(json!({
        "version": unsigned("The version of the store that was read."),
        "time": described(value(&ColumnType::Time), "When that version was committed."),
        "rows": { "type": "array", "items": { "$ref": row }, "description": "The rows." },
        "next": { "type": ["string", "null"], "description": "For `after`, to go on from here; null at the end." },
        "read": described(whole(json!({
            "rows": unsigned("How many rows were read to find these."),
            "index": { "type": ["string", "null"], "description": "By which index; null for a scan." },
        })), "How the rows were found."),
    }))
}

fn tasks(meaning: &str) -> Value {
    json!({ "type": "array", "items": value(&ColumnType::Identifier), "description": meaning })
}

pub(super) fn submit_answer() -> Value {
    let change = "new: it was not there, or stopped. changed: it ran something else. restarted: instances that had ended have new tasks. \
                  unchanged: it was there as it is wanted.";
    whole(json!({
        "version": unsigned("The version that holds the change; a read at or after it sees it."),
        "namespace": text("The job's namespace."),
        "job": text("The job's name."),
        "change": { "type": "string", "enum": crate::doors::jobs::CHANGES, "description": change },
        "spec_number": unsigned("The number of the job's newest spec."),
        "tasks": tasks("The uids of the tasks that were made."),
    }))
}

pub(super) fn stop_answer() -> Value {
    whole(json!({
        "version": unsigned("The version that holds the change; a read at or after it sees it."),
        "namespace": text("The job's namespace."),
        "job": text("The job's name."),
        "tasks": tasks("The uids of the tasks that were told to stop."),
    }))
}

pub(super) fn version_answer() -> Value {
    whole(json!({
        "server": text("The version of the program."),
        "mode": text("How it was started."),
        "pid": unsigned("The number of its process."),
        "started": described(value(&ColumnType::Time), "When it was started."),
        "time": described(value(&ColumnType::Time), "The time on its clock."),
        "data": text("The folder of its data."),
        "version": unsigned("The newest version of the store."),
    }))
}

/// The body that makes a job: a job file in JSON.
pub(super) fn job() -> Value {
    let name = |meaning: &str| {
        let pattern = format!("^[a-z0-9_][a-z0-9_-]{{0,{}}}$", NAME_CHARACTERS_MAX - 1);
        json!({ "type": "string", "pattern": pattern, "description": meaning })
    };
    let amount = |meaning: &str, least: u64, most: u64, default: u64| json!({ "type": "integer", "minimum": least, "maximum": most, "default": default, "description": meaning });
    let kinds: Vec<&str> = JobKind::ALL.iter().map(|kind| kind.word()).collect();
    let command = json!([
        { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": COMMAND_WORDS_MAX },
        { "type": "string", "minLength": 1 },
    ]);
    let resources = json!({
        "cpus": amount("Whole thousandths of a cpu.", 1, CPUS_MAX.into(), DEFAULT_CPUS.into()),
        "memory": amount("Bytes of memory.", 1, MEMORY_BYTES_MAX, DEFAULT_MEMORY_BYTES),
        "disk": amount("Bytes of disk.", 0, DISK_BYTES_MAX, 0),
    });
    let mut namespace = name("The owner of the job.");
    namespace["default"] = DEFAULT_NAMESPACE.into();
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "command"],
        "properties": {
            "name": name("The job's name, unique in its namespace."),
            "namespace": namespace,
            "kind": { "type": "string", "enum": kinds, "default": JobKind::default().word(),
                      "description": "Kept running, or run to its end." },
            "instances": amount("How many copies run.", 1, INSTANCES_MAX.into(), 1),
            "command": { "oneOf": command,
                         "description": "A program and its arguments, in which ${NAME} comes from the environment; or a line for /bin/sh -c." },
            "environment": { "type": "object", "additionalProperties": { "type": "string" }, "maxProperties": ENVIRONMENT_NAMES_MAX,
                             "description": "Added to the task's environment, which otherwise holds PATH, HOME and LANG only." },
            "user": { "type": ["string", "null"], "description": "The user that tasks run as; null for the agent's own choice." },
            "resources": { "type": "object", "additionalProperties": false, "properties": resources,
                           "description": "What is reserved for each instance." },
        },
    })
}

#[cfg(test)]
mod tests {
    use rollcall_types::{JobFile, example_web};
    use serde_json::Value;

    #[test]
    fn the_schema_of_a_job_has_its_fields_and_no_others() {
        let schema = super::job();
        let job = JobFile::parse(example_web(), "web.toml").expect("is right");
        let job = serde_json::to_value(job).expect("a job is JSON");
        let names = |value: &Value| value.as_object().expect("is an object").keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&job), names(&schema["properties"]));
        assert_eq!(names(&job["resources"]), names(&schema["properties"]["resources"]["properties"]));
        // What is required is refused without, and the defaults are those of the code.
        let smallest = r#"{"name":"a","command":"true"}"#;
        let smallest: JobFile = serde_json::from_str(smallest).expect("the required fields are enough");
        let smallest = serde_json::to_value(smallest).expect("a job is JSON");
        for (name, field) in schema["properties"].as_object().expect("has fields") {
            assert!(field.get("default").is_none_or(|default| *default == smallest[name]), "{name}");
        }
        for (name, field) in schema["properties"]["resources"]["properties"].as_object().expect("has fields") {
            assert_eq!(field["default"], smallest["resources"][name], "{name}");
        }
        for missing in [r#"{"name":"a"}"#, r#"{"command":"true"}"#] {
            assert!(serde_json::from_str::<JobFile>(missing).is_err());
        }
    }
}
