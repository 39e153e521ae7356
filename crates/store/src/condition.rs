//! Conditions: what a query or a watch asks of a row.

use crate::page::{AnyRow, Stored};
use rollcall_schema::{Column, Literal, Row, TableSchema, Value};
use std::borrow::Cow;
use std::cmp::Ordering;
use thiserror::Error;

/// The deepest nesting of a condition.
pub const CONDITION_DEPTH_MAX: usize = 32;

/// The most terms of a condition, values of a list counted.
pub const CONDITION_TERMS_MAX: usize = 4096;

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// What is asked of a row. As in SQL, a comparison with a column that has no value is neither true nor false, and a row matches only if the whole
/// is true.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition<'q> {
    /// A column compared with a value.
    Compare {
        /// The column's position.
        column: usize,
        /// How.
        operator: Operator,
        /// With what; of the column's type.
        value: Literal<'q>,
    },
    /// A column is one of these values.
    In {
        /// The column's position.
        column: usize,
        /// The values, of the column's type.
        values: Vec<Literal<'q>>,
    },
    /// A text column matches a pattern, in which `%` stands for any text and `_` for any letter.
    Like {
        /// The column's position.
        column: usize,
        /// The pattern.
        pattern: Cow<'q, str>,
    },
    /// A column has no value.
    IsNull {
        /// The column's position.
        column: usize,
    },
    /// All of these.
    And(Vec<Condition<'q>>),
    /// One of these.
    Or(Vec<Condition<'q>>),
    /// Not this.
    Not(Box<Condition<'q>>),
}

/// Why a condition cannot be asked of a table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConditionError {
    /// The table has no column at this position.
    #[error("table {table} has no column number {column}")]
    NoColumn {
        /// The table.
        table: &'static str,
        /// The position.
        column: usize,
    },
    /// The value is not of the column's type.
    #[error("column `{column}` of {table} holds {expected} and cannot be compared with this value")]
    WrongType {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// What it holds.
        expected: &'static str,
    },
    /// The condition is nested too deeply or has too many terms.
    #[error(
        "the condition is too large: at most {CONDITION_DEPTH_MAX} levels and {CONDITION_TERMS_MAX} terms are possible"
    )]
    TooLarge,
}

/// Something with columns.
pub trait Columns {
    /// The column at a position.
    fn column(&self, column: usize) -> Value<'_>;
}

impl<R: Row> Columns for Stored<R> {
    #[inline]
    fn column(&self, column: usize) -> Value<'_> {
        self.row.value(column)
    }
}

impl Columns for dyn AnyRow {
    fn column(&self, column: usize) -> Value<'_> {
        AnyRow::column(self, column)
    }
}

impl<'q> Condition<'q> {
    /// The column equals the value.
    pub fn equal<R>(column: Column<R>, value: impl Into<Literal<'q>>) -> Condition<'q> {
        Condition::Compare { column: column.position(), operator: Operator::Equal, value: value.into() }
    }

    /// Whether the row matches.
    #[inline]
    pub fn matches(&self, row: &(impl Columns + ?Sized)) -> bool {
        self.test(row) == Some(true)
    }

    /// True, false, or neither.
    fn test(&self, row: &(impl Columns + ?Sized)) -> Option<bool> {
        match self {
            Condition::Compare { column, operator, value } => {
                let (left, right) = (row.column(*column), value.value());
                if left.is_null() || right.is_null() {
                    return None;
                }
                Some(operator.accepts(left.compare(&right)))
            }
            Condition::In { column, values } => {
                let left = row.column(*column);
                if left.is_null() {
                    return None;
                }
                if values.iter().any(|value| left.equals(&value.value())) {
                    return Some(true);
                }
                if values.iter().any(|value| value.value().is_null()) { None } else { Some(false) }
            }
            Condition::Like { column, pattern } => match row.column(*column) {
                Value::Text(text) => Some(like(text, pattern)),
                _ => None,
            },
            Condition::IsNull { column } => Some(row.column(*column).is_null()),
            Condition::And(parts) => three_valued(parts.iter().map(|part| part.test(row)), false),
            Condition::Or(parts) => three_valued(parts.iter().map(|part| part.test(row)), true),
            Condition::Not(inner) => inner.test(row).map(|truth| !truth),
        }
    }

    /// Refuses what the table cannot answer: columns it has not, values of other types.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self, schema: &'static TableSchema) -> Result<(), ConditionError> {
        let mut terms = 0;
        self.check_level(schema, 0, &mut terms)
    }

    fn check_level(&self, schema: &'static TableSchema, depth: usize, terms: &mut usize) -> Result<(), ConditionError> {
        *terms += if let Condition::In { values, .. } = self { values.len() } else { 1 };
        if depth > CONDITION_DEPTH_MAX || *terms > CONDITION_TERMS_MAX {
            return Err(ConditionError::TooLarge);
        }
        match self {
            Condition::Compare { column, value, .. } => check_value(schema, *column, value),
            Condition::In { column, values } => values.iter().try_for_each(|value| check_value(schema, *column, value)),
            Condition::Like { column, .. } => check_value(schema, *column, &Literal::from("")),
            Condition::IsNull { column } => check_value(schema, *column, &Literal::Null),
            Condition::And(parts) | Condition::Or(parts) => {
                parts.iter().try_for_each(|part| part.check_level(schema, depth + 1, terms))
            }
            Condition::Not(inner) => inner.check_level(schema, depth + 1, terms),
        }
    }

    /// As [`Condition::check`], for conditions that must all match: their terms count together.
    pub(crate) fn check_all(conditions: &[Condition<'q>], schema: &'static TableSchema) -> Result<(), ConditionError> {
        let mut terms = 0;
        conditions.iter().try_for_each(|condition| condition.check_level(schema, 0, &mut terms))
    }

    /// The same condition with everything it borrowed copied.
    pub fn into_owned(self) -> Condition<'static> {
        let all = |parts: Vec<Condition<'q>>| parts.into_iter().map(Condition::into_owned).collect();
        match self {
            Condition::Compare { column, operator, value } => {
                Condition::Compare { column, operator, value: value.into_owned() }
            }
            Condition::In { column, values } => {
                Condition::In { column, values: values.into_iter().map(Literal::into_owned).collect() }
            }
            Condition::Like { column, pattern } => {
                Condition::Like { column, pattern: Cow::Owned(pattern.into_owned()) }
            }
            Condition::IsNull { column } => Condition::IsNull { column },
            Condition::And(parts) => Condition::And(all(parts)),
            Condition::Or(parts) => Condition::Or(all(parts)),
            Condition::Not(inner) => Condition::Not(Box::new(inner.into_owned())),
        }
    }
}

impl Operator {
    pub(crate) fn accepts(self, order: Ordering) -> bool {
        match self {
            Operator::Equal => order.is_eq(),
            Operator::NotEqual => order.is_ne(),
            Operator::Less => order.is_lt(),
            Operator::LessOrEqual => order.is_le(),
            Operator::Greater => order.is_gt(),
            Operator::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// The and (or the or) of parts that may be neither true nor false: `decisive` as soon as one part is that.
fn three_valued(parts: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut unknown = false;
    for part in parts {
        match part {
            Some(truth) if truth == decisive => return Some(decisive),
            Some(_) => {}
            None => unknown = true,
        }
    }
    if unknown { None } else { Some(!decisive) }
}

/// Refuses a value that the column cannot be compared with.
pub(crate) fn check_value(
    schema: &'static TableSchema,
    column: usize,
    value: &Literal<'_>,
) -> Result<(), ConditionError> {
    use rollcall_schema::ColumnType;
    let declared = schema.columns.get(column).ok_or(ConditionError::NoColumn { table: schema.name, column })?;
    let fits = match (declared.column_type, value) {
        (ColumnType::Nested(_), Literal::Null) => true,
        (ColumnType::Enumeration(words), Literal::Enumeration(word)) => usize::from(*word) < words.len(),
        (_, Literal::Null)
        | (ColumnType::Boolean, Literal::Boolean(_))
        | (ColumnType::Unsigned, Literal::Unsigned(_))
        | (ColumnType::Signed, Literal::Signed(_))
        | (ColumnType::Time, Literal::Time(_))
        | (ColumnType::Identifier, Literal::Identifier(_))
        | (ColumnType::Text, Literal::Text(_))
        | (ColumnType::Bytes, Literal::Bytes(_)) => true,
        _ => false,
    };
    let expected = declared.column_type.word();
    if fits { Ok(()) } else { Err(ConditionError::WrongType { table: schema.name, column: declared.name, expected }) }
}

/// Whether the text matches the pattern. `%` is any run of letters, `_` any one letter. Linear in text times pattern at worst.
fn like(text: &str, pattern: &str) -> bool {
    let (mut text_rest, mut pattern_rest) = (text.chars(), pattern.chars());
    // Where to go on when a guess for the last `%` was too short.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let (before_text, before_pattern) = (text_rest.clone(), pattern_rest.clone());
        match (pattern_rest.next(), text_rest.next()) {
            (Some('%'), _) => {
                text_rest = before_text.clone();
                retry = Some((before_text, pattern_rest.clone()));
            }
            (Some('_'), Some(_)) => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            (None, None) => return true,
            _ => {
                let _ = before_pattern;
                let Some((mut longer, after)) = retry.take() else { return false };
                if longer.next().is_none() {
                    return false;
                }
                text_rest = longer.clone();
                pattern_rest = after.clone();
                retry = Some((longer, after));
            }
        }
    }
}

/// The text that everything matching the pattern starts with.
pub(crate) fn like_prefix(pattern: &str) -> &str {
    pattern.split(['%', '_']).next().unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::like;

    #[test]
    fn patterns_match_as_in_sql() {
        for (text, pattern, expected) in [
            ("web", "web", true),
            ("web", "we", false),
            ("web", "we%", true),
            ("web", "%", true),
            ("", "%", true),
            ("", "", true),
            ("", "_", false),
            ("web", "___", true),
            ("web", "____", false),
            ("web-api", "%-%", true),
            ("web-api", "%api", true),
            ("aaaaab", "%a_b", true),
            ("aaaaab", "%b%b", false),
            ("ü", "_", true),
            ("abcabc", "%abc", true),
            ("abcab", "%abc", false),
        ] {
            assert_eq!(like(text, pattern), expected, "{text} like {pattern}");
        }
    }
}
