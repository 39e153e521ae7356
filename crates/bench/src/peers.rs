//! Other products that can do the same, measured beside ours.

mod sqlite;

pub(crate) use sqlite::Sqlite;
