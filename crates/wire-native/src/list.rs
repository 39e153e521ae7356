//! Asking for the rows of a table: `GET /v1/tasks` and its like.

mod answer;
#[cfg(test)]
mod tests;

pub use answer::{Chunk, ListBody};

use crate::condition::{columns_hint, parse_where};
use crate::cursor::{CursorScope, parse_cursor};
use crate::error::{ApiError, ErrorCode};
use crate::query::Parameters;
use crate::sort::{SortError, parse_sort};
use crate::time::parse_time;
use rollcall_schema::TableSchema;
use rollcall_store::{AsOf, Condition, Cursor, Order, Query, Snapshot, Sort, Store, Version, Visible};

/// The most rows that `limit` can ask for.
pub const LIMIT_MAX: usize = 10_000;

/// The parameters of a list, in the order in which documentation shows them.
pub const LIST_PARAMETERS: &[&str] = &["where", "sort", "limit", "after", "as_of"];

/// What is asked of a table.
#[derive(Clone, Debug)]
pub struct ListRequest {
    /// The table.
    pub schema: &'static TableSchema,
    /// Which rows.
    pub condition: Option<Condition<'static>>,
    /// In which order; empty for the order in which rows arrived.
    pub sorts: Vec<Sort>,
    /// How many rows at most; all if it is not there.
    pub limit: Option<usize>,
    /// From behind which row on.
    pub after: Option<Cursor>,
    /// At which version; the newest if it is not there.
    pub as_of: Option<AsOf>,
}

impl ListRequest {
    /// Reads the query part of an address.
    ///
    /// # Errors
    /// The first parameter that is wrong.
    pub fn parse(query: &str, schema: &'static TableSchema) -> Result<ListRequest, ApiError> {
        let parameters = Parameters::parse(query, LIST_PARAMETERS)?;
        let condition = parameters.get("where").map(|text| parse_where(text, schema)).transpose()?;
        let sorts = parameters.get("sort").map(|text| sorts(text, schema)).transpose()?.unwrap_or_default();
        let limit = parameters.get("limit").map(parse_limit).transpose()?;
        let as_of = parameters.get("as_of").map(parse_as_of).transpose()?;
        let scope = CursorScope { schema, sorts: &sorts, condition: condition.as_ref() };
        let after = parameters.get("after").map(|text| parse_cursor(scope, text)).transpose();
        let after = after.map_err(|error| ApiError::new(ErrorCode::BadCursor, format!("after: {error}")))?;
        Ok(ListRequest { schema, condition, sorts, limit, after, as_of })
    }

    /// The snapshot that it asks for.
    ///
    /// # Errors
    /// If that is no longer held, or not there yet.
    pub fn snapshot(&self, store: &Store) -> Result<Snapshot, ApiError> {
        match self.as_of {
            None => Ok(store.snapshot()),
            Some(as_of) => Ok(store.as_of(as_of)?),
        }
    }

    /// Whether it asks for all rows in no certain order: an answer to it is made of whole pages, whose encodings everyone shares.
    pub fn is_whole(&self) -> bool {
        self.condition.is_none() && self.sorts.is_empty() && self.limit.is_none() && self.after.is_none()
    }

    /// What the store is asked. One row more than the limit is asked for, to know whether there are more.
    pub fn query<'q>(&'q self, visible: Option<&'q Visible>) -> Query<'q> {
        let order = match self.sorts.as_slice() {
            _ if self.is_whole() => Order::Any,
            [] => Order::Number,
            sorts => Order::By(sorts.to_vec()),
        };
        let mut query = Query::all().order(order).visible(visible);
        if let Some(condition) = &self.condition {
            query = query.filter(condition.clone());
        }
        if let Some(limit) = self.limit {
            query = query.limit(limit.saturating_add(1));
        }
        if let Some(cursor) = &self.after {
            query = query.after(cursor.clone());
        }
        query
    }

    /// The query that cursors of its answer belong to.
    pub fn scope(&self) -> CursorScope<'_> {
        CursorScope { schema: self.schema, sorts: &self.sorts, condition: self.condition.as_ref() }
    }
}

fn sorts(text: &str, schema: &'static TableSchema) -> Result<Vec<Sort>, ApiError> {
    parse_sort(text, schema).map_err(|error| {
        let missing = matches!(error, SortError::NoColumn { .. });
        let code = if missing { ErrorCode::NoSuchColumn } else { ErrorCode::BadSort };
        let answer = ApiError::new(code, format!("sort: {error}"));
        if missing { answer.hint(columns_hint(schema)) } else { answer }
    })
}

/// Reads how many rows are asked for.
///
/// # Errors
/// If it is no number from 1 to [`LIMIT_MAX`].
pub fn parse_limit(text: &str) -> Result<usize, ApiError> {
    let hint = match text.parse() {
        Ok(limit @ 1..=LIMIT_MAX) => return Ok(limit),
        Ok(0) => "ask for one row or more",
        _ if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            "ask for the first ones, then go on with `after` and the `next` of the answer; without limit all rows come"
        }
        _ => "without limit all rows come",
    };
    let shown: String = text.chars().take(40).collect();
    let message = format!("limit: '{shown}' is not a number from 1 to {LIMIT_MAX}");
    Err(ApiError::new(ErrorCode::BadLimit, message).hint(hint))
}

/// Reads a point in the past: the number of a version, or a time.
///
/// # Errors
/// If it is neither.
pub fn parse_as_of(text: &str) -> Result<AsOf, ApiError> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number too large for a version is one that has not happened yet.
        return Ok(AsOf::Version(Version(text.parse().unwrap_or(u64::MAX))));
    }
    parse_time(text).map(AsOf::Time).map_err(|error| {
        let error = ApiError::new(ErrorCode::BadAsOf, format!("as_of: {error}"));
        error.hint("give the number of a version, or a time in RFC 3339; in an address, write + as %2B")
    })
}
