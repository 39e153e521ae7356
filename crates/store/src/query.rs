//! Queries: which rows, in which order, how many, from where on.

use crate::condition::{Condition, ConditionError, check_value};
use crate::partition::Visible;
use crate::words::RowNumber;
use rollcall_schema::{Column, Literal, TableSchema, Value};
use thiserror::Error;

/// The most columns a query sorts by.
pub const SORT_COLUMNS_MAX: usize = 4;

/// The order of a query's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Order {
    /// Whatever the plan gives at the least cost: for a whole table partition by partition, each in order of row numbers.
    #[default]
    Any,
    /// Order of row numbers, which is the order in which rows arrived.
    Number,
    /// By these columns, each rising or falling; rows equal in all of them by row number, in the direction of the last column.
    By(Vec<Sort>),
}

/// One column of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sort {
    /// The column's position.
    pub column: usize,
    /// From high to low.
    pub falling: bool,
}

/// Where a page of results ended: the last row's sort values and number. The next page starts behind it, whatever has changed meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub struct Cursor {
    /// The values of the sort columns; empty for [`Order::Number`].
    pub values: Vec<Literal<'static>>,
    /// The row's number.
    pub number: RowNumber,
}

/// What is asked of a table.
#[derive(Clone, Debug, Default)]
pub struct Query<'q> {
    pub(crate) conditions: Vec<Condition<'q>>,
    pub(crate) order: Order,
    pub(crate) limit: Option<usize>,
    pub(crate) after: Option<Cursor>,
    pub(crate) visible: Option<&'q Visible>,
}

impl<'q> Query<'q> {
    /// All rows.
    pub fn all() -> Query<'q> {
        Query::default()
    }

    /// Only rows that match; several calls must all match.
    #[must_use]
    pub fn filter(mut self, condition: Condition<'q>) -> Query<'q> {
        match condition {
            Condition::And(parts) => parts.into_iter().fold(self, Query::filter),
            condition => {
                if self.conditions.capacity() == 0 {
                    self.conditions.reserve_exact(2);
                }
                self.conditions.push(condition);
                self
            }
        }
    }

    /// Only rows whose column has this value.
    #[must_use]
    pub fn equal<R>(self, column: Column<R>, value: impl Into<Literal<'q>>) -> Query<'q> {
        self.filter(Condition::equal(column, value))
    }

    /// In this order.
    #[must_use]
    pub fn order(mut self, order: Order) -> Query<'q> {
        self.order = order;
        self
    }

    /// At most so many rows.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Query<'q> {
        self.limit = Some(limit);
        self
    }

    /// From behind a row on; the order must be the one in which the cursor was made, and not [`Order::Any`].
    #[must_use]
    pub fn after(mut self, cursor: Cursor) -> Query<'q> {
        self.after = Some(cursor);
        self
    }

    /// Only rows of partitions that may be seen.
    #[must_use]
    pub fn visible(mut self, visible: Option<&'q Visible>) -> Query<'q> {
        self.visible = visible;
        self
    }

    pub(crate) fn check(&self, schema: &'static TableSchema) -> Result<(), QueryError> {
        Condition::check_all(&self.conditions, schema)?;
        let columns = match &self.order {
            Order::By(columns) if columns.len() > SORT_COLUMNS_MAX => return Err(QueryError::TooManySortColumns),
            Order::By(columns) => columns.len(),
            _ => 0,
        };
        if let Order::By(columns) = &self.order {
            for sort in columns {
                let column = schema.columns.get(sort.column);
                let column = column.ok_or(ConditionError::NoColumn { table: schema.name, column: sort.column })?;
                if matches!(column.column_type, rollcall_schema::ColumnType::Nested(_)) {
                    return Err(QueryError::NoOrder { column: column.name });
                }
            }
        }
        match &self.after {
            Some(cursor) if self.order == Order::Any || cursor.values.len() != columns => Err(QueryError::WrongCursor),
            Some(cursor) if !self.could_give(cursor, schema) => Err(QueryError::WrongCursor),
            _ => Ok(()),
        }
    }

    /// Whether a row could have these values in the columns of the order. Cursors come back from outside, and may have been made by another query.
    fn could_give(&self, cursor: &Cursor, schema: &'static TableSchema) -> bool {
        let sorts = if let Order::By(sorts) = &self.order { sorts.as_slice() } else { &[] };
        let fits = |(sort, value): (&Sort, &Literal<'_>)| {
            check_value(schema, sort.column, value).is_ok()
                && (schema.columns[sort.column].nullable || !value.value().is_null())
        };
        cursor.number <= RowNumber::MAX && sorts.iter().zip(&cursor.values).all(fits)
    }
}

/// Why a query cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QueryError {
    /// Its condition does not fit the table.
    #[error(transparent)]
    Condition(#[from] ConditionError),
    /// It sorts by a column whose values have no order.
    #[error("column `{column}` is a list and has no order")]
    NoOrder {
        /// The column.
        column: &'static str,
    },
    /// It sorts by too many columns.
    #[error("at most {SORT_COLUMNS_MAX} columns can be sorted by")]
    TooManySortColumns,
    /// The cursor was made by a query with another order.
    #[error("this cursor belongs to a query with another order; leave it out to start from the beginning")]
    WrongCursor,
}

/// Where a row stands relative to another one in an order: by the sort columns, then by number.
pub(crate) fn compare_rows<'a>(
    sorts: &[Sort],
    left: (impl Fn(usize) -> Value<'a>, RowNumber),
    right: (impl Fn(usize, usize) -> Value<'a>, RowNumber),
) -> std::cmp::Ordering {
    for (position, sort) in sorts.iter().enumerate() {
        let order = left.0(sort.column).compare(&right.0(position, sort.column));
        if order.is_ne() {
            return if sort.falling { order.reverse() } else { order };
        }
    }
    let order = left.1.cmp(&right.1);
    if sorts.last().is_some_and(|sort| sort.falling) { order.reverse() } else { order }
}
