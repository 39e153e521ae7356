//! # store: the one versioned store
//!
//! Everything Rollcall knows is a row of a typed table in one store. Each piece of work is done once per change and shared with everyone who
//! asks: a row is encoded once, an index entry written once, an old version kept by not being thrown away.
//!
//! ## Model
//!
//! - [`Store`] publishes [`Snapshot`]s: every table at one [`Version`]. Taking one copies a pointer; readers never wait and are never waited for.
//! - A [`Table`] keeps rows behind `Arc` in [`Page`]s of one [`Partition`] each. Beside them it keeps indexes, rollups and partitions, all in
//!   the same persistent tree (`tree`), so that a change copies a few small nodes and shares everything else with the versions before.
//! - [`Query`] says what is wanted; the planner picks the index with the longest prefix; [`Rows`] borrows the result from the snapshot. That is the
//!   one way in which rows are read.
//! - An [`Encoder`] turns a page into a wire form. The store keeps it, hands it to everyone who asks, and lets the next one copy what has not changed.
//! - The [`Writer`] runs commands in a [`Batch`]: each passes or fails alone, all are one commit. Preparing a commit is pure; writing it to disk is
//!   the caller's, between [`Batch::prepare`] and [`Writer::publish`].
//! - A [`Watch`] is a position in the ring of changes. [`Store::as_of`] finds old versions. [`Loader`] builds a store from a checkpoint and records.
//!
//! ```
//! use rollcall_schema::{Row, Time, Unknown};
//! use rollcall_store::{ChangeError, Query, Store, StoreLimits};
//!
//! /// A machine on the shelf.
//! #[derive(Clone, Debug, PartialEq, Row)]
//! #[row(table = "machines", number = 9, partition(shelf), index(name = "name", columns(name), unique))]
//! struct Machine {
//!     /// What people call it.
//!     #[row(tag = 1)]
//!     name: String,
//!     /// Where it lies.
//!     #[row(tag = 2, default = 0)]
//!     shelf: u32,
//!     #[row(unknown)]
//!     unknown: Unknown,
//! }
//!
//! let (store, mut writer) = Store::builder(StoreLimits::default()).table::<Machine>().build();
//! let mut batch = writer.begin(Time::from_micros(1));
//! batch.attempt(|change| change.insert(Machine { name: "n1".into(), shelf: 3, unknown: Unknown::default() }))?;
//! let prepared = batch.prepare().expect("one row was inserted");
//! // …the record is appended to the log here…
//! writer.publish(prepared);
//!
//! let snapshot = store.snapshot();
//! let mut rows = snapshot.table::<Machine>().select(Query::all().equal(Machine::NAME, "n1")).expect("the query fits");
//! assert_eq!(rows.next().map(|found| found.row().shelf), Some(3));
//! assert_eq!(rows.explanation().index, Some("name"));
//! # Ok::<(), ChangeError>(())
//! ```
//!
//! ## Invariants
//!
//! - A published snapshot never changes. Pages, indexes and rollups in it are of one version.
//! - A version is published once, in rising order, and never used again, also not after a failed append.
//! - A failed command leaves nothing behind.
//!
//! ## Never
//!
//! It knows no job, no JSON, no HTTP; it does no I/O and reads no clock.
#![forbid(unsafe_code)]

mod change;
mod checkpoint;
mod condition;
mod encoding;
mod limits;
mod load;
mod page;
mod partition;
mod plan;
mod query;
mod record;
mod retained;
mod rollup;
mod rows;
mod snapshot;
mod store;
mod table;
mod tree;
mod watch;
mod words;
mod writer;

pub use change::{Change, ChangeError};
pub use condition::{CONDITION_DEPTH_MAX, CONDITION_TERMS_MAX, Columns, Condition, ConditionError, Operator};
pub use encoding::{Encoder, EncodingCounts, Fragments, Unchanged};
pub use limits::StoreLimits;
pub use load::{Loader, Reader};
pub use page::{AnyRow, PAGE_BYTES_MAX, PAGE_ROWS_MAX, Page, Stored};
pub use partition::{Partition, Visible};
pub use query::{Cursor, Order, Query, QueryError, SORT_COLUMNS_MAX, Sort};
pub use record::RecordError;
pub use retained::{AsOf, AsOfError, EVERY_SECOND_MICROS, EVERY_VERSION_MICROS};
pub use rollup::Totals;
pub use rows::{Explanation, Rows};
pub use snapshot::{AnyTable, Snapshot};
pub use store::{OnPublish, Store, StoreBuilder};
pub use table::{RowRef, Table};
pub use watch::{Compacted, EventKind, Watch, WatchEvent};
pub use words::{PartitionId, RowNumber, Version};
pub use writer::{Batch, Prepared, Transaction, Writer};
