//! Watching: changes of rows as server-sent events.
//!
//! ```text
//! id: 1204.3                     version and position in its commit: what to resume behind
//! event: changed                 came, changed or went
//! data: {"row":12,…}             the row after the change; for one that went, before
//!
//! id: 1210                       everything up to this version was seen; nothing happened that is watched for
//!
//! event: compacted               the changes from here on are no longer held: read again
//! data: {"code":"compacted",…}
//! ```

use crate::condition::parse_where;
use crate::error::{ApiError, ErrorCode};
use crate::json::{JsonRow, JsonRows, put_unsigned};
use crate::query::Parameters;
use rollcall_schema::TableSchema;
use rollcall_store::{Compacted, Condition, EventKind, Stored, Version, WatchEvent};
use rollcall_types::nearest;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The parameters of a watch.
pub const WATCH_PARAMETERS: &[&str] = &["table", "where", "from"];

/// Where a watcher is: behind an event, or behind everything of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventPosition {
    /// The version of the commit.
    pub version: Version,
    /// The position of the last change in it that was seen; all of them if it is not there.
    pub index: Option<usize>,
}

/// The text is not a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a position is a version, or a version, a dot and a number: the `id` of the last event that was seen")]
pub struct EventPositionError;

impl EventPosition {
    /// Behind everything of a version.
    pub fn behind(version: Version) -> EventPosition {
        EventPosition { version, index: None }
    }

    /// The version to start a [`Watch`](rollcall_store::Watch) from. A commit that was seen in part is read again.
    pub fn watch_from(self) -> Version {
        match self.index {
            None => self.version,
            Some(_) => Version(self.version.0.saturating_sub(1)),
        }
    }

    /// Whether the event lies behind this position. Others were seen before and are left out.
    pub fn is_before(self, event: &WatchEvent) -> bool {
        self.is_before_change(event.version, event.index)
    }

    fn is_before_change(self, version: Version, index: usize) -> bool {
        version > self.version || (version == self.version && self.index.is_some_and(|seen| index > seen))
    }
}

impl fmt::Display for EventPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            None => write!(formatter, "{}", self.version),
            Some(index) => write!(formatter, "{}.{index}", self.version),
        }
    }
}

impl FromStr for EventPosition {
    type Err = EventPositionError;

    fn from_str(text: &str) -> Result<Self, EventPositionError> {
        let number = |digits: &str| -> Result<u64, EventPositionError> {
            if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None }
                .ok_or(EventPositionError)
        };
        let (version, index) = match text.split_once('.') {
            None => (text, None),
            Some((version, index)) => (version, Some(usize::try_from(number(index)?).map_err(|_| EventPositionError)?)),
        };
        Ok(EventPosition { version: Version(number(version)?), index })
    }
}

/// What is to be watched.
#[derive(Clone, Debug)]
pub struct WatchRequest {
    /// The table.
    pub schema: &'static TableSchema,
    /// Which rows.
    pub condition: Option<Condition<'static>>,
    /// From where on; from now on if it is not there.
    pub from: Option<EventPosition>,
}

impl WatchRequest {
    /// Reads the query part of an address and the header `Last-Event-ID`, which wins over `from`: a browser that comes back sends both.
    /// Without `table`, the first of `tables` is watched.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(
        query: &str,
        last_event_id: Option<&str>,
        tables: &[&'static TableSchema],
    ) -> Result<WatchRequest, ApiError> {
        let parameters = Parameters::parse(query, WATCH_PARAMETERS)?;
        let schema = match parameters.get("table") {
            None => tables.first(),
            Some(name) => tables.iter().find(|table| table.name == name),
        };
        let schema = *schema.ok_or_else(|| no_table(parameters.get("table").unwrap_or_default(), tables))?;
        let condition = parameters.get("where").map(|text| parse_where(text, schema)).transpose()?;
        let from = match (last_event_id, parameters.get("from")) {
            (Some(id), _) => Some(("Last-Event-ID", id)),
            (None, from) => from.map(|from| ("from", from)),
        };
        let from = from.map(|(name, text)| {
            text.parse().map_err(|error: EventPositionError| {
                ApiError::new(ErrorCode::BadParameter, format!("{name}: {error}"))
                    .hint("leave it out to watch from now on")
            })
        });
        Ok(WatchRequest { schema, condition, from: from.transpose()? })
    }
}

fn no_table(name: &str, tables: &[&'static TableSchema]) -> ApiError {
    let names: Vec<_> = tables.iter().map(|table| table.name).collect();
    let meant = nearest(name, names.iter().copied());
    let meant = meant.map_or_else(String::new, |meant| format!("; did you mean `{meant}`?"));
    let shown: String = name.chars().take(64).collect();
    ApiError::new(ErrorCode::NoSuchTable, format!("table: no table `{shown}`{meant}"))
        .hint(format!("tables: {}", names.join(", ")))
}

/// Appends an event of a watch of rows of type `R`.
///
/// # Panics
/// If the watch is of another table, which is a mistake of ours.
pub fn put_event<R: JsonRow>(out: &mut Vec<u8>, encoder: &JsonRows<R>, event: &WatchEvent) {
    let row = event.row().as_any().downcast_ref::<Stored<R>>();
    let row = row.expect("the events of a watch carry rows of its table");
    out.extend_from_slice(b"id: ");
    put_unsigned(out, event.version.0);
    out.push(b'.');
    put_unsigned(out, event.index as u64);
    out.extend_from_slice(match event.kind {
        EventKind::Came => b"\nevent: came\ndata: ".as_slice(),
        EventKind::Changed => b"\nevent: changed\ndata: ",
        EventKind::Went => b"\nevent: went\ndata: ",
    });
    // A row is one line, so one line of data.
    encoder.put_row(out, event.number, row.changed, &row.row);
    out.extend_from_slice(b"\n\n");
}

/// Appends word that everything up to `position` was seen, and that the connection lives. Browsers keep the id and wake nobody. Without it, a watcher for
/// whom nothing happened would come back from so long ago that it had to read again. A position within a commit is one that the client came with.
pub fn put_position(out: &mut Vec<u8>, position: EventPosition) {
    out.extend_from_slice(b"id: ");
    put_unsigned(out, position.version.0);
    if let Some(index) = position.index {
        out.push(b'.');
        put_unsigned(out, index as u64);
    }
    out.extend_from_slice(b"\n\n");
}

/// Appends the last event of a watcher whose position is no longer held.
pub fn put_compacted(out: &mut Vec<u8>, compacted: Compacted) {
    out.extend_from_slice(b"event: compacted\ndata: ");
    ApiError::from(compacted).put_json(out);
    out.extend_from_slice(b"\n\n");
}

#[cfg(test)]
mod tests;
