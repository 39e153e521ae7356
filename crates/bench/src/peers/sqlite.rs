//! SQLite in memory: the same table with the same indexes, asked by prepared statements, every column of every row read.

use anyhow::Context;
use rollcall_schema::{ColumnType, Row, TableSchema, Value, key};
use rollcall_store::Stored;
use rollcall_types::Task;
use rusqlite::types::Value as Cell;
use rusqlite::{Connection, Params, Statement, params_from_iter};
use std::hint::black_box;
use std::sync::Arc;

/// A database in memory that holds tasks.
pub(crate) struct Sqlite {
    connection: Connection,
}

/// A prepared question.
pub(crate) struct Select<'c> {
    statement: Statement<'c>,
    columns: usize,
}

impl Sqlite {
    /// A database of these tasks, indexed as ours are.
    pub(crate) fn of(tasks: &[Arc<Stored<Task>>]) -> anyhow::Result<Sqlite> {
        let schema = Task::schema();
        let mut connection = Connection::open_in_memory().context("opening SQLite in memory")?;
        connection.execute_batch(&table_and_indexes(schema)).context("creating the table in SQLite")?;
        let places = vec!["?"; schema.columns.len()].join(", ");
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare(&format!("insert into tasks values ({places})"))?;
        for stored in tasks {
            let cells = (0..schema.columns.len()).map(|column| cell(stored.row.value(column)));
            insert.execute(params_from_iter(cells)).context("inserting a task into SQLite")?;
        }
        drop(insert);
        transaction.commit()?;
        connection.execute_batch("analyze").context("counting in SQLite")?;
        Ok(Sqlite { connection })
    }

    /// Prepares the question for all columns of tasks that match.
    pub(crate) fn select(&self, condition: &str) -> anyhow::Result<Select<'_>> {
        let statement = self.connection.prepare(&format!("select * from tasks where {condition}"))?;
        Ok(Select { columns: statement.column_count(), statement })
    }
}

impl Select<'_> {
    /// Reads every column of every row that is found; gives their number, `None` if SQLite fails.
    pub(crate) fn read_all(&mut self, parameters: impl Params) -> Option<usize> {
        let mut rows = self.statement.query(parameters).ok()?;
        let mut count = 0;
        while let Some(row) = rows.next().ok()? {
            for column in 0..self.columns {
                black_box(row.get_ref(column).ok()?);
            }
            count += 1;
        }
        Some(count)
    }
}

/// The declarations that make SQLite hold what our table does, indexes last.
fn table_and_indexes(schema: &TableSchema) -> String {
    let name = |column: &usize| schema.columns[*column].name;
    let column = |column: usize| {
        let declared = &schema.columns[column];
        format!("{} {}", declared.name, word(&declared.column_type))
    };
    let columns: Vec<_> = (0..schema.columns.len()).map(column).collect();
    let mut sql = format!("create table tasks ({});", columns.join(", "));
    for (position, index) in schema.indexes.iter().enumerate() {
        let unique = if index.unique { "unique " } else { "" };
        let columns: Vec<_> = index.columns.iter().map(name).collect();
        let only = index.only_where.map_or_else(String::new, |column| format!(" where {}", name(&column)));
        sql += &format!("create {unique}index tasks_{position} on tasks ({}){only};", columns.join(", "));
    }
    sql
}

fn word(column_type: &ColumnType) -> &'static str {
    match column_type {
        ColumnType::Text => "text",
        ColumnType::Identifier | ColumnType::Bytes | ColumnType::Nested(_) => "blob",
        _ => "integer",
    }
}

fn cell(value: Value<'_>) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Boolean(value) => Cell::Integer(i64::from(value)),
        Value::Unsigned(value) => Cell::Integer(value as i64),
        Value::Signed(value) => Cell::Integer(value),
        Value::Time(value) => Cell::Integer(value.micros()),
        Value::Enumeration(position) => Cell::Integer(i64::from(position)),
        Value::Identifier(value) => Cell::Blob(value.to_be_bytes().to_vec()),
        Value::Text(value) => Cell::Text(value.to_owned()),
        Value::Bytes(value) => Cell::Blob(value.to_vec()),
        Value::Nested(list) => {
            let mut bytes = Vec::new();
            let fields = list.nested_schema().fields.len();
            for (record, field) in (0..list.count()).flat_map(|record| (0..fields).map(move |field| (record, field))) {
                key::put_value(&mut bytes, list.field(record, field), true);
            }
            Cell::Blob(bytes)
        }
    }
}
