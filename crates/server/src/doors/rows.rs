//! Rows of tables as JSON.

use super::answer::{self, ApiError, shown};
use super::parameters::Parameters;
use super::{House, SharedHouse};
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use jiff::Timestamp;
use rollcall_schema::{ColumnType, Literal, TableSchema, Time, Value};
use rollcall_store::{AnyRow, Condition, Operator, Order, Query};
use serde_json::{Map, Value as Json, json};
use std::ops::ControlFlow;

/// So many rows are given when nobody says how many.
const LIMIT_DEFAULT: usize = 1000;
/// No more rows are given at a time.
const LIMIT_MAX: usize = 100_000;

pub(super) async fn tasks(State(house): SharedHouse, uri: Uri) -> Result<Response, ApiError> {
    table(&house, "tasks", &uri)
}

pub(super) async fn jobs(State(house): SharedHouse, uri: Uri) -> Result<Response, ApiError> {
    table(&house, "jobs", &uri)
}

pub(super) async fn agents(State(house): SharedHouse, uri: Uri) -> Result<Response, ApiError> {
    table(&house, "agents", &uri)
}

pub(super) async fn specs(State(house): SharedHouse, uri: Uri) -> Result<Response, ApiError> {
    table(&house, "specs", &uri)
}

fn table(house: &House, name: &str, uri: &Uri) -> Result<Response, ApiError> {
    let parameters = Parameters::of(uri, &["limit", "where"])?;
    let limit = parameters.value("limit", "100")?.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX);
    let snapshot = house.writer.store().snapshot();
    let table = snapshot.table_named(name).expect("every server has this table");
    let schema = table.schema();
    let mut query = Query::all().order(Order::Number).limit(limit);
    for term in parameters.text("where").into_iter().flat_map(|text| text.split(" and ")) {
        query = query.filter(equality(term, schema)?);
    }
    let mut rows = Vec::new();
    let visited = table.visit(query, &mut |_, row| {
        rows.push(row_json(schema, row));
        ControlFlow::Continue(())
    });
    visited.map_err(|error| ApiError::wrong("bad_query", error.to_string()))?;
    Ok(answer::json(&json!({
        "version": snapshot.version().0,
        "time": show_time(crate::clock::now()),
        "rows": rows,
        "next": null,
    })))
}

fn equality(term: &str, schema: &TableSchema) -> Result<Condition<'static>, ApiError> {
    let wrong = || ApiError::wrong("bad_query", format!("where: `{}` is not yet understood", shown(term)));
    let (column, value) = term.split_once(" = ").ok_or_else(wrong)?;
    let column = schema.column(column.trim()).ok_or_else(wrong)?;
    let text = value.trim().strip_prefix('\'').and_then(|value| value.strip_suffix('\''));
    let value = match (schema.columns[column].column_type, text) {
        (ColumnType::Text, Some(text)) => Literal::Text(text.to_owned().into()),
        (ColumnType::Unsigned, None) => Literal::Unsigned(value.trim().parse().map_err(|_| wrong())?),
        (ColumnType::Enumeration(words), Some(text)) => {
            let position = words.iter().position(|word| *word == text).ok_or_else(wrong)?;
            Literal::Enumeration(position as u8)
        }
        _ => return Err(wrong()),
    };
    Ok(Condition::Compare { column, operator: Operator::Equal, value })
}

fn row_json(schema: &TableSchema, row: &dyn AnyRow) -> Json {
    let mut fields = Map::new();
    for (position, column) in schema.columns.iter().enumerate() {
        fields.insert(column.name.to_owned(), value_json(column.column_type, row.column(position)));
    }
    if schema.name == "tasks" {
        let part = |name: &str| match &fields[name] {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        let task = format!("{}.{}.{}", part("job"), part("instance"), part("attempt"));
        fields.insert("task".to_owned(), task.into());
    }
    Json::Object(fields)
}

fn value_json(column_type: ColumnType, value: Value<'_>) -> Json {
    match (value, column_type) {
        (Value::Null, _) => Json::Null,
        (Value::Boolean(value), _) => value.into(),
        (Value::Unsigned(value), _) => value.into(),
        (Value::Signed(value), _) => value.into(),
        (Value::Time(value), _) => show_time(value).into(),
        (Value::Enumeration(value), ColumnType::Enumeration(words)) => words[usize::from(value)].into(),
        (Value::Enumeration(value), _) => value.into(),
        (Value::Identifier(value), _) => format!("{value:032x}").into(),
        (Value::Text(value), _) => value.into(),
        (Value::Bytes(value), _) => format!("{value:02x?}").into(),
        (Value::Nested(nested), _) => (0..nested.count())
            .map(|record| {
                let fields = nested.nested_schema().fields.iter().enumerate();
                fields
                    .map(|(field, (name, _, kind))| {
                        ((*name).to_owned(), value_json(*kind, nested.field(record, field)))
                    })
                    .collect::<Map<_, _>>()
                    .into()
            })
            .collect::<Vec<Json>>()
            .into(),
    }
}

/// As RFC 3339 in UTC.
pub(super) fn show_time(time: Time) -> String {
    Timestamp::from_microsecond(time.micros()).map_or_else(|_| time.to_string(), |time| time.to_string())
}
