//! # wire-native: the native JSON API as bytes
//!
//! What goes over the native API's connections, without the connections: the text of a request becomes a query, rows become bytes. The
//! command line and the HTTP door both stand on this, so what `--where` takes and what `where=` takes are one thing.
//!
//! ## Model
//!
//! ```text
//! where=…&sort=…&limit=…&after=…&as_of=…  ──ListRequest──►  Query  ──store──►  rows  ──ListBody──►  chunks of one JSON object
//! table=…&where=…&from=…, Last-Event-ID   ──WatchRequest─►  Watch  ──store──►  WatchEvent  ──put_event──►  server-sent events
//! ```
//!
//! ### Conditions
//!
//! The subset of SQL that everybody knows ([`parse_where`]; [`print_where`] is its inverse):
//!
//! ```text
//! condition  := all { "or" all }                                at most 8 KiB, 32 levels
//! all        := negated { "and" negated }
//! negated    := "not" negated | "(" condition ")" | comparison
//! comparison := column operator value                           operator: = != <> < <= > >=
//!             | column [ "not" ] "in" "(" value { "," value } ")"
//!             | column [ "not" ] "like" text                    % any text, _ any letter
//!             | column "is" [ "not" ] "null"
//!             | column                                          a boolean one
//! value      := text | integer | "true" | "false"
//! text       := 'web' | 'it''s'
//! ```
//!
//! Keywords are read in any case, column names as they are. A text stands for what its column holds: a time is RFC 3339
//! (`'2026-11-30T03:07:12Z'`), an identifier 32 hexadecimal digits, a word of an enumeration itself (`state = 'running'`), bytes `'\x00ff'`.
//! Enumerations and booleans have no smaller and greater. A comparison with a column that has no value is neither true nor false.
//!
//! ### Rows
//!
//! A row is one JSON object on a line of its own ([`JsonRows`]):
//!
//! ```text
//! {"row":12,"version":1204,"task":"web.0.3","uid":"…","job":"web","instance":0,"state":"running","started":"2026-11-30T03:07:12.000001Z",…}
//! ```
//!
//! - `row` is its number and `version` the last version that changed it; then come fields that a table adds ([`JsonRow`]), then its columns
//!   in the order of the schema. A column without a value is left out.
//! - Times are RFC 3339 in UTC with six decimals; identifiers 32 hexadecimal digits; enumerations their words; bytes base64; lists arrays of
//!   objects, in which the same holds. Numbers are whole and up to 64 bits; readers that know doubles only lose digits above 2^53.
//! - A fragment of a page begins each row with a comma and a line's end. So fragments of any pages stand one behind the other as they are, and
//!   whoever begins an array with them leaves out one byte, the first.
//!
//! ### Answers
//!
//! `{"version":1204,"time":"…","rows":[…],"next":"…","read":{"rows":10,"index":"job+state"}}`: the version it was read at and when that was
//! committed; the rows; the cursor for `after`, or null if there are no more; and how many rows were read by which index, null for a
//! scan. [`ListBody`] gives it in chunks: whole tables as the encodings that everyone shares, other rows as they are taken.
//!
//! `sort=-started,job` sorts falling by one column, then rising by the other. `limit` is 1 to 10,000; without it all rows come. A cursor belongs to
//! its table, order and condition and is refused by any other query. `as_of` is a version's number or a time.
//!
//! ### Errors
//!
//! One shape, `{"code","message","hint"}` ([`ApiError`]). A message about a parameter begins with its name, and for a condition with the
//! position, counted in letters from 1: ``where:1: no column `agnet`; did you mean `agent`?``
//!
//! ### Events
//!
//! `id` is a version and the position of the change in its commit, `event` is `came`, `changed` or `went`, `data` the row. An `id` alone says
//! how far nothing happened. [`EventPosition`] resumes behind any id without gap or duplicate; `compacted` means read again.
//!
//! ## Invariants
//!
//! - No input makes it panic or recurse without limit. Everything that is foreign is limited in length before anything is built from it.
//! - What it prints it reads back as the same: conditions, orders, cursors, times, positions.
//!
//! ## Never
//!
//! No sockets, no HTTP types, no clock, no state of its own; it decides nothing about who may see what.
#![forbid(unsafe_code)]

mod condition;
mod cursor;
mod error;
mod events;
mod json;
mod list;
mod query;
mod sort;
mod tables;
#[cfg(test)]
mod testing;
mod time;

pub use condition::{WHERE_BYTES_MAX, WhereError, WhereErrorKind, fuzz_where, parse_where, print_where};
pub use cursor::{CURSOR_BYTES_MAX, CursorError, CursorScope, parse_cursor, print_cursor};
pub use error::{ApiError, ErrorCode};
pub use events::{
    EventPosition, EventPositionError, WATCH_PARAMETERS, WatchRequest, put_compacted, put_event, put_position,
};
pub use json::{JsonRow, JsonRows, ObjectWriter, Part};
pub use list::{Chunk, LIMIT_MAX, LIST_PARAMETERS, ListBody, ListRequest, parse_as_of, parse_limit};
pub use query::{Parameters, QUERY_BYTES_MAX};
pub use sort::{SortError, parse_sort, print_sort};
pub use time::{TimeError, parse_time, put_time};
