//! The order of an answer as text: `-started,job`.

use rollcall_schema::{ColumnType, TableSchema};
use rollcall_store::{SORT_COLUMNS_MAX, Sort};
use rollcall_types::nearest;
use thiserror::Error;

/// Why a text is not an order.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SortError {
    /// Between two commas, or at all, there is no column.
    #[error("a column is missing; write columns with commas between them, a minus for falling: -started,job")]
    Empty,
    /// The table has no such column.
    #[error("no column `{name}`{meant}", meant = .nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?")))]
    NoColumn {
        /// What was written.
        name: String,
        /// What was meant.
        nearest: Option<&'static str>,
    },
    /// A column that was named before decides already.
    #[error("`{0}` is there twice")]
    Twice(&'static str),
    /// Lists have no order.
    #[error("`{0}` is a list and has no order")]
    NoOrder(&'static str),
    /// It has too many columns.
    #[error("at most {SORT_COLUMNS_MAX} columns can be sorted by")]
    TooMany,
}

/// Reads an order: columns with commas between them, a minus before those that fall. Rows equal in all of them come by row number.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_sort(text: &str, schema: &'static TableSchema) -> Result<Vec<Sort>, SortError> {
    let mut sorts: Vec<Sort> = Vec::new();
    for part in text.split(',').map(str::trim) {
        if sorts.len() == SORT_COLUMNS_MAX {
            return Err(SortError::TooMany);
        }
        let (name, falling) = part.strip_prefix('-').map_or((part, false), |name| (name, true));
        if name.is_empty() {
            return Err(SortError::Empty);
        }
        let Some(column) = schema.column(name) else {
            let nearest = nearest(name, schema.columns.iter().map(|column| column.name));
            return Err(SortError::NoColumn { name: name.chars().take(64).collect(), nearest });
        };
        let declared = &schema.columns[column];
        if sorts.iter().any(|sort| sort.column == column) {
            return Err(SortError::Twice(declared.name));
        }
        if matches!(declared.column_type, ColumnType::Nested(_)) {
            return Err(SortError::NoOrder(declared.name));
        }
        sorts.push(Sort { column, falling });
    }
    Ok(sorts)
}

/// The text that [`parse_sort`] reads an order from.
pub fn print_sort(sorts: &[Sort], schema: &'static TableSchema) -> String {
    let mut out = String::new();
    for (position, sort) in sorts.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        if sort.falling {
            out.push('-');
        }
        out.push_str(schema.columns.get(sort.column).map_or("?", |column| column.name));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{parse_sort, print_sort};
    use rollcall_schema::Row;
    use rollcall_types::Task;

    #[test]
    fn an_order_is_read_or_refused_with_the_reason() {
        for (text, expected) in [
            ("-started,job", Ok("-started,job")),
            (" job , -state", Ok("job,-state")),
            ("", Err("a column is missing; write columns with commas between them, a minus for falling: -started,job")),
            (
                "job,",
                Err("a column is missing; write columns with commas between them, a minus for falling: -started,job"),
            ),
            ("jb", Err("no column `jb`; did you mean `job`?")),
            ("colour", Err("no column `colour`")),
            ("+job", Err("no column `+job`; did you mean `job`?")),
            ("job,-job", Err("`job` is there twice")),
            ("events", Err("`events` is a list and has no order")),
            ("job,state,agent,uid,pid", Err("at most 4 columns can be sorted by")),
        ] {
            let found = parse_sort(text, Task::schema());
            let found = found.map(|sorts| print_sort(&sorts, Task::schema())).map_err(|error| error.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
