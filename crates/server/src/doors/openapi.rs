//! `GET /v1/openapi.json`: what all doors take and give, made from the doors themselves.
//!
//! The router and the document are built from one list of [`Door`]s, rows are described by the schemas of their tables, parameters by the
//! lists that the parsers know, errors by their codes. So a door cannot be open and not described. The document is put together by hand: parameters
//! are parsed by `wire-native` and rows written by their schema, so there are no Rust types from which derives could read anything.
//! A copy is kept in `docs/openapi.json`, so that a change of the API is seen in review.

pub(super) mod operations;
mod schemas;

use super::answer::with_type;
use super::{House, doors};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::MethodRouter;
use rollcall_wire_native::ErrorCode;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Errors that any door may answer with.
const ERRORS_OF_ALL: [ErrorCode; 3] = [ErrorCode::ForeignOrigin, ErrorCode::Busy, ErrorCode::Internal];

/// One path and method, with what it does and how it is described.
pub(super) struct Door {
    /// As the router takes it: `{name}` is one part of the path, `{*name}` all that are left.
    pub(super) path: &'static str,
    pub(super) handler: MethodRouter<Arc<House>>,
    pub(super) operation: Operation,
}

/// The description of a door.
pub(super) struct Operation {
    pub(super) method: &'static str,
    /// Its name in clients that are generated.
    pub(super) id: String,
    pub(super) summary: String,
    pub(super) parameters: Vec<Parameter>,
    /// The schema of its body, which is JSON.
    pub(super) body: Option<Value>,
    /// The content type of its answer, and the answer's schema.
    pub(super) answer: (&'static str, Value),
    /// Whether its answer has an ETag and can be left out.
    pub(super) tagged: bool,
    pub(super) errors: Vec<ErrorCode>,
}

/// Something that comes with a request.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `path`, `query` or `header`.
    pub(super) place: &'static str,
    pub(super) meaning: &'static str,
    pub(super) schema: Value,
}

impl Parameter {
    fn describe(&self) -> Value {
        json!({
            "name": self.name,
            "in": self.place,
            "required": self.place == "path",
            "description": self.meaning,
            "schema": self.schema,
        })
    }
}

/// The document, as it is sent and committed.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    let text = serde_json::to_string_pretty(&document(&doors())).expect("texts and numbers only");
    text + "\n"
});

/// `GET /v1/openapi.json`.
pub(super) async fn read() -> Response {
    with_type(DOCUMENT.as_str().into(), "application/json")
}

fn document(doors: &[Door]) -> Value {
    let mut paths: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for door in doors {
        let path = door.path.replace("{*", "{");
        paths.entry(path).or_default().insert(door.operation.method.into(), door.operation.describe());
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rollcall",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The native API. An answer says the version of the store that it was read at; every error has one shape.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": schemas::shared() },
    })
}

impl Operation {
    fn describe(&self) -> Value {
        let (content_type, schema) = &self.answer;
        let mut good = json!({ "description": "Done.", "content": { *content_type: { "schema": schema } } });
        let mut parameters: Vec<Value> = self.parameters.iter().map(Parameter::describe).collect();
        let mut answers = self.refusals();
        if self.tagged {
            let meaning = "Names the rows of this answer: the same as long as no row of the table changes.";
            good["headers"] = json!({ "ETag": { "description": meaning, "schema": { "type": "string" } } });
            answers.insert("304".into(), json!({ "description": "The rows are those of the ETag that was sent." }));
            parameters.push(
                Parameter {
                    name: "If-None-Match",
                    place: "header",
                    meaning: "ETags of earlier answers. If the rows are still those of one of them, they are not sent again.",
                    schema: json!({ "type": "string" }),
                }
                .describe(),
            );
        }
        answers.insert("200".into(), good);
        let mut described = json!({ "operationId": self.id, "summary": self.summary, "responses": answers });
        if !parameters.is_empty() {
            described["parameters"] = parameters.into();
        }
        if let Some(body) = &self.body {
            described["requestBody"] =
                json!({ "required": true, "content": { "application/json": { "schema": body } } });
        }
        described
    }

    /// The errors by status.
    fn refusals(&self) -> BTreeMap<String, Value> {
        let mut by_status: BTreeMap<u16, Vec<ErrorCode>> = BTreeMap::new();
        for code in self.errors.iter().chain(&ERRORS_OF_ALL) {
            let codes = by_status.entry(code.status()).or_default();
            if !codes.contains(code) {
                codes.push(*code);
            }
        }
        let refusal = |(status, codes): (u16, Vec<ErrorCode>)| {
            let reason = StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
            let words: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
            let described = json!({
                "description": format!("{}: {}", reason.unwrap_or("Error"), words.join(", ")),
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/error" } } },
            });
            (status.to_string(), described)
        };
        by_status.into_iter().map(refusal).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{DOCUMENT, document, doors};

    #[test]
    fn the_committed_document_is_that_of_the_code() {
        let committed = include_str!("../../../../docs/openapi.json");
        let again = "write it anew from a server: curl http://127.0.0.1:5050/v1/openapi.json > docs/openapi.json";
        assert!(committed == DOCUMENT.as_str(), "the API is no longer what docs/openapi.json says; {again}");
    }

    #[test]
    fn everything_has_a_meaning_and_a_name_of_its_own() {
        let doors = doors();
        let mut ids: Vec<&str> = doors.iter().map(|door| door.operation.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), doors.len());
        for door in &doors {
            let operation = &door.operation;
            assert!(!operation.summary.is_empty(), "{}", door.path);
            for parameter in &operation.parameters {
                assert!(!parameter.meaning.is_empty(), "{} {}", door.path, parameter.name);
            }
            let places = door.path.matches('{').count();
            assert_eq!(operation.parameters.iter().filter(|parameter| parameter.place == "path").count(), places);
        }
        let schemas = &document(&doors)["components"]["schemas"];
        for (name, schema) in schemas.as_object().expect("has schemas") {
            for (field, described) in schema["properties"].as_object().expect("are objects") {
                let text = described["description"].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "{name}.{field} means nothing");
            }
        }
    }
}
