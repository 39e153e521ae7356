//! What a query should answer, found without any cleverness: every row is looked at, every comparison written out.

use rollcall_schema::{Literal, Row, Value};
use rollcall_store::{Condition, Operator, Order};
use std::cmp::Ordering;

/// A value that orders itself by the order of its variants: null first, then by type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    Null,
    Boolean(bool),
    Unsigned(u64),
    Signed(i64),
    Time(i64),
    Enumeration(u8),
    Identifier(u128),
    Text(String),
    Bytes(Vec<u8>),
    Nested,
}

impl Cell {
    pub fn of(value: Value<'_>) -> Cell {
        match value {
            Value::Null => Cell::Null,
            Value::Boolean(value) => Cell::Boolean(value),
            Value::Unsigned(value) => Cell::Unsigned(value),
            Value::Signed(value) => Cell::Signed(value),
            Value::Time(value) => Cell::Time(value.micros()),
            Value::Enumeration(value) => Cell::Enumeration(value),
            Value::Identifier(value) => Cell::Identifier(value),
            Value::Text(value) => Cell::Text(value.to_owned()),
            Value::Bytes(value) => Cell::Bytes(value.to_owned()),
            Value::Nested(_) => Cell::Nested,
        }
    }

    pub fn literal(&self) -> Literal<'static> {
        match self.clone() {
            Cell::Null | Cell::Nested => Literal::Null,
            Cell::Boolean(value) => Literal::Boolean(value),
            Cell::Unsigned(value) => Literal::Unsigned(value),
            Cell::Signed(value) => Literal::Signed(value),
            Cell::Time(value) => Literal::Time(rollcall_schema::Time::from_micros(value)),
            Cell::Enumeration(value) => Literal::Enumeration(value),
            Cell::Identifier(value) => Literal::Identifier(value),
            Cell::Text(value) => Literal::Text(value.into()),
            Cell::Bytes(value) => Literal::Bytes(value.into()),
        }
    }
}

pub fn cells<R: Row>(row: &R, columns: &[usize]) -> Vec<Cell> {
    columns.iter().map(|column| Cell::of(row.value(*column))).collect()
}

/// The truth of a condition as SQL has it: true, false or unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    True,
    False,
    Unknown,
}

impl From<bool> for Truth {
    fn from(truth: bool) -> Truth {
        if truth { Truth::True } else { Truth::False }
    }
}

pub fn matches<R: Row>(row: &R, condition: &Condition<'_>) -> bool {
    truth(row, condition) == Truth::True
}

fn truth<R: Row>(row: &R, condition: &Condition<'_>) -> Truth {
    match condition {
        Condition::Compare { column, operator, value } => {
            compare(&Cell::of(row.value(*column)), *operator, &Cell::of(value.value()))
        }
        Condition::In { column, values } => {
            let cell = Cell::of(row.value(*column));
            let each = values.iter().map(|value| compare(&cell, Operator::Equal, &Cell::of(value.value())));
            let each: Vec<_> = each.collect();
            // An empty list holds nothing, but a column without a value is in no list and out of none.
            if cell == Cell::Null { Truth::Unknown } else { any(&each) }
        }
        Condition::Like { column, pattern } => match row.value(*column) {
            Value::Text(text) => {
                let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
                like(&text, &pattern).into()
            }
            _ => Truth::Unknown,
        },
        Condition::IsNull { column } => row.value(*column).is_null().into(),
        Condition::And(parts) => {
            let parts: Vec<_> = parts.iter().map(|part| not(truth(row, part))).collect();
            not(any(&parts))
        }
        Condition::Or(parts) => any(&parts.iter().map(|part| truth(row, part)).collect::<Vec<_>>()),
        Condition::Not(inner) => not(truth(row, inner)),
    }
}

fn not(truth: Truth) -> Truth {
    match truth {
        Truth::True => Truth::False,
        Truth::False => Truth::True,
        Truth::Unknown => Truth::Unknown,
    }
}

fn any(parts: &[Truth]) -> Truth {
    if parts.contains(&Truth::True) {
        Truth::True
    } else if parts.contains(&Truth::Unknown) {
        Truth::Unknown
    } else {
        Truth::False
    }
}

fn compare(left: &Cell, operator: Operator, right: &Cell) -> Truth {
    if *left == Cell::Null || *right == Cell::Null {
        return Truth::Unknown;
    }
    let order = left.cmp(right);
    match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
    }
    .into()
}

fn like(text: &[char], pattern: &[char]) -> bool {
    match (pattern.split_first(), text.split_first()) {
        (None, None) => true,
        (Some(('%', rest)), _) => (0..=text.len()).any(|skipped| like(&text[skipped..], rest)),
        (Some(('_', rest)), Some((_, text))) => like(text, rest),
        (Some((wanted, rest)), Some((found, text))) => wanted == found && like(text, rest),
        _ => false,
    }
}

/// The order of two rows with their numbers; `None` for any order.
pub fn order<R: Row>(order: &Order, left: (u64, &R), right: (u64, &R)) -> Ordering {
    let Order::By(sorts) = order else { return left.0.cmp(&right.0) };
    for sort in sorts {
        let found = Cell::of(left.1.value(sort.column)).cmp(&Cell::of(right.1.value(sort.column)));
        match (found, sort.falling) {
            (Ordering::Equal, _) => {}
            (found, false) => return found,
            (found, true) => return found.reverse(),
        }
    }
    match sorts.last() {
        Some(sort) if sort.falling => right.0.cmp(&left.0),
        _ => left.0.cmp(&right.0),
    }
}
