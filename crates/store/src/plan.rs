//! The planner: the index with the longest prefix of equal columns, and nothing cleverer.
//!
//! Each index is judged by how many of its first columns the query fixes, then by whether it bounds the next one, then by whether it gives the
//! wanted order, then by whether it leaves out rows that the query does not want. Conditions that the index answers are not tested again; all others are tested on each row that is read.

use crate::condition::{Condition, Operator, like_prefix};
use crate::query::{Order, Query, Sort};
use crate::tree::{High, KeyRange};
use crate::words::RowNumber;
use rollcall_schema::{IndexSchema, Literal, TableSchema, Value, key};

/// How the rows of a query are found.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) access: Access,
    /// A bit for each of the first 64 conditions that the access answers by itself.
    pub(crate) answered: u64,
    /// Whether rows come in the wanted order.
    pub(crate) sorted: bool,
    /// Whether rows come from behind the cursor on.
    pub(crate) sought: bool,
}

#[derive(Debug)]
pub(crate) enum Access {
    /// All pages.
    Pages,
    /// All rows in order of their numbers, from `first` on or down.
    Numbers { ranges: Ranges, falling: bool },
    /// Ranges of an index, rising ones first.
    Index { index: usize, ranges: Ranges, falling: bool },
}

#[derive(Debug)]
pub(crate) struct Ranges {
    pub(crate) first: KeyRange,
    pub(crate) others: Vec<KeyRange>,
}

/// What a query asks of the columns of one index.
struct Match<'a, 'q> {
    index: &'a IndexSchema,
    equal: usize,
    answered: u64,
    tail: Tail<'a, 'q>,
}

/// What it asks of the first column that is not fixed.
enum Tail<'a, 'q> {
    Nothing,
    Bounds(Vec<(Operator, &'a Literal<'q>)>),
    Prefix(&'a str),
    Values(&'a [Literal<'q>]),
}

/// How good an index is for a query: how many columns it fixes, whether it bounds the next one, whether it gives the order, and whether it leaves
/// out rows that the query does not want.
type Score = (usize, bool, bool, bool);

pub(crate) fn plan(schema: &'static TableSchema, query: &Query<'_>) -> Plan {
    let asked = Asked::of(schema, &query.conditions);
    let ordered = query.limit.is_some() && query.order != Order::Any;
    let mut best: Option<(usize, Score)> = None;
    for (position, index) in schema.indexes.iter().enumerate() {
        let Some((equal, tail)) = asked.match_columns(index) else { continue };
        // An order is looked at only where it can decide.
        let sorted = query.order == Order::Any
            || (equal > 0 || tail || ordered) && match_index(schema, index, query, equal).gives(&query.order);
        let score = (equal, tail, sorted, index.only_where.is_some());
        if (equal > 0 || tail || (sorted && ordered)) && best.is_none_or(|(_, other)| score > other) {
            best = Some((position, score));
        }
    }
    match best {
        Some((position, (equal, _, sorted, _))) => {
            let found = match_index(schema, &schema.indexes[position], query, equal);
            index_plan(schema, query, position, &found, sorted)
        }
        None => scan_plan(query),
    }
}

/// What the conditions ask of each column, as bits.
struct Asked {
    /// The condition leaves the column one value.
    equal: u64,
    /// It leaves it a range of values, or a list.
    tail: u64,
    /// It wants the boolean column to be true.
    truth: u64,
}

impl Asked {
    fn of(schema: &TableSchema, conditions: &[Condition<'_>]) -> Asked {
        let mut asked = Asked { equal: 0, tail: 0, truth: 0 };
        for condition in conditions.iter().take(64) {
            match condition {
                Condition::Compare { operator: Operator::NotEqual, .. } => {}
                Condition::Compare { value, .. } if value.value().is_null() => {}
                Condition::Compare { column, operator: Operator::Equal, value } => {
                    asked.equal |= 1 << column;
                    asked.truth |= u64::from(matches!(value, Literal::Boolean(true))) << column;
                }
                Condition::Compare { column, .. } | Condition::In { column, .. } => asked.tail |= 1 << column,
                Condition::Like { column, pattern } if !like_prefix(pattern).is_empty() => asked.tail |= 1 << column,
                Condition::IsNull { column } if schema.columns[*column].nullable => asked.equal |= 1 << column,
                _ => {}
            }
        }
        asked
    }

    /// How many first columns of the index are fixed, and whether the next one is bounded; `None` if the index may lack rows that are wanted.
    fn match_columns(&self, index: &IndexSchema) -> Option<(usize, bool)> {
        if index.only_where.is_some_and(|column| self.truth & (1 << column) == 0) {
            return None;
        }
        let fixed = |column: &&usize| self.equal & (1 << **column) != 0;
        let equal = index.columns.iter().take_while(fixed).count();
        let tail = index.columns.get(equal).is_some_and(|column| self.tail & (1 << column) != 0);
        Some((equal, tail))
    }
}

fn scan_plan(query: &Query<'_>) -> Plan {
    // Reading by number looks each row up; that pays only if the limit soon ends it.
    let numbers = query.order == Order::Number && query.limit.is_some() && query.conditions.is_empty();
    if !numbers {
        return Plan { access: Access::Pages, answered: 0, sorted: query.order == Order::Any, sought: false };
    }
    let low = match &query.after {
        Some(cursor) => RowNumber(cursor.number.0.saturating_add(1).min(RowNumber::MAX.0)).key().to_vec(),
        None => Vec::new(),
    };
    let ranges = Ranges { first: KeyRange { low, high: High::Open }, others: Vec::new() };
    Plan { access: Access::Numbers { ranges, falling: false }, answered: 0, sorted: true, sought: true }
}

/// What the query asks of this index, of which it fixes the first `equal` columns.
fn match_index<'a, 'q>(
    schema: &'static TableSchema,
    index: &'a IndexSchema,
    query: &'a Query<'q>,
    equal: usize,
) -> Match<'a, 'q> {
    let mut answered = 0;
    for (position, condition) in query.conditions.iter().take(64).enumerate() {
        let answers = match condition {
            Condition::Compare { column, operator: Operator::Equal, value: Literal::Boolean(true) } => {
                index.only_where == Some(*column)
            }
            _ => false,
        };
        answered |= u64::from(answers) << position;
    }
    for &column in &index.columns[..equal] {
        let fixing = query.conditions.iter().take(64).position(|condition| fixes(schema, condition, column));
        answered |= fixing.map_or(0, |position| 1 << position);
    }
    let mut found = Match { index, equal, answered, tail: Tail::Nothing };
    if let Some(&column) = index.columns.get(equal) {
        found.find_tail(column, &query.conditions);
    }
    found
}

/// Whether the condition leaves the column one value.
fn fixes(schema: &TableSchema, condition: &Condition<'_>, wanted: usize) -> bool {
    match condition {
        Condition::Compare { column, operator: Operator::Equal, value } => {
            *column == wanted && !value.value().is_null()
        }
        Condition::IsNull { column } => *column == wanted && schema.columns[wanted].nullable,
        _ => false,
    }
}

impl<'a, 'q> Match<'a, 'q> {
    fn find_tail(&mut self, wanted: usize, conditions: &'a [Condition<'q>]) {
        let mut bounds = Vec::new();
        for (position, condition) in conditions.iter().take(64).enumerate() {
            match condition {
                Condition::Compare { column, operator, value }
                    if *column == wanted && *operator != Operator::NotEqual && !value.value().is_null() =>
                {
                    bounds.push((*operator, value));
                    self.answered |= 1 << position;
                }
                Condition::In { column, values } if *column == wanted && bounds.is_empty() => {
                    self.tail = Tail::Values(values);
                    self.answered |= 1 << position;
                    return;
                }
                Condition::Like { column, pattern }
                    if *column == wanted && bounds.is_empty() && !like_prefix(pattern).is_empty() =>
                {
                    // Not answered: the pattern may ask for more than its prefix.
                    self.tail = Tail::Prefix(like_prefix(pattern));
                }
                _ => {}
            }
        }
        if !bounds.is_empty() {
            self.tail = Tail::Bounds(bounds);
        }
    }

    /// Whether the index gives its rows in this order.
    fn gives(&self, order: &Order) -> bool {
        let rest = &self.index.columns[self.equal..];
        let one_range = !matches!(self.tail, Tail::Values(_));
        match order {
            Order::Any => true,
            Order::Number => rest.is_empty() && one_range,
            Order::By(sorts) => {
                let one_way = sorts.iter().all(|sort| sort.falling == sorts[0].falling);
                one_range && one_way && rest.iter().copied().eq(sorts.iter().map(|sort| sort.column))
            }
        }
    }
}

fn falls(order: &Order) -> bool {
    matches!(order, Order::By(sorts) if sorts.first().is_some_and(|sort| sort.falling))
}

fn index_plan(
    schema: &'static TableSchema,
    query: &Query<'_>,
    position: usize,
    found: &Match<'_, '_>,
    sorted: bool,
) -> Plan {
    let mut prefix = Vec::with_capacity(48);
    for &column in &found.index.columns[..found.equal] {
        let nullable = schema.columns[column].nullable;
        let fixing = query.conditions.iter().find(|condition| fixes(schema, condition, column));
        match fixing {
            Some(Condition::Compare { value, .. }) => key::put_value(&mut prefix, value.value(), nullable),
            _ => key::put_value(&mut prefix, Value::Null, nullable),
        }
    }
    let next = found.index.columns.get(found.equal).map(|column| &schema.columns[*column]);
    let nullable = next.is_some_and(|column| column.nullable);
    let cursor = query.after.as_ref().filter(|_| sorted && query.order != Order::Any);
    // Copied only where it is needed again.
    let mut at = if cursor.is_some() { prefix.clone() } else { Vec::new() };
    let mut ranges = match &found.tail {
        Tail::Nothing => Ranges { first: KeyRange::starting_with(prefix), others: Vec::new() },
        Tail::Prefix(text) => {
            key::put_text_prefix(&mut prefix, text.as_bytes(), nullable);
            Ranges { first: KeyRange::starting_with(prefix), others: Vec::new() }
        }
        Tail::Bounds(bounds) => Ranges { first: bounded(&prefix, nullable, bounds), others: Vec::new() },
        Tail::Values(values) => of_values(&prefix, nullable, values),
    };
    let falling = sorted && falls(&query.order);
    if let Some(cursor) = cursor {
        if let Order::By(sorts) = &query.order {
            put_cursor(&mut at, schema, sorts, &cursor.values);
        }
        at.extend_from_slice(&cursor.number.key());
        seek(&mut ranges.first, at, falling);
    }
    Plan {
        access: Access::Index { index: position, ranges, falling },
        answered: found.answered,
        sorted,
        sought: cursor.is_some(),
    }
}

fn put_cursor(out: &mut Vec<u8>, schema: &TableSchema, sorts: &[Sort], values: &[Literal<'_>]) {
    for (sort, value) in sorts.iter().zip(values) {
        key::put_value(out, value.value(), schema.columns[sort.column].nullable);
    }
}

/// Narrows a range to what lies behind the key `at`.
fn seek(range: &mut KeyRange, mut at: Vec<u8>, falling: bool) {
    if falling {
        if range.high_key().is_none_or(|high| high > at) {
            range.high = High::Key(at);
        }
    } else {
        // The smallest key greater than `at`.
        at.push(0);
        if range.low < at {
            if let Some(high) = range.high_key() {
                range.high = High::Key(high);
            }
            range.low = at;
        }
    }
}

fn bounded(prefix: &[u8], nullable: bool, bounds: &[(Operator, &Literal<'_>)]) -> KeyRange {
    // Rows without a value satisfy no bound; their keys come first.
    let mut low = prefix.to_vec();
    if nullable {
        low.push(1);
    }
    let mut high = KeyRange::starting_with(prefix.to_vec()).high_key();
    // A range that ends before it starts has no keys.
    let mut none = false;
    for (operator, value) in bounds {
        let mut key = prefix.to_vec();
        key::put_value(&mut key, value.value(), nullable);
        let range = KeyRange::starting_with(key);
        let past = range.high_key();
        let at = range.low;
        let (new_low, new_high) = match operator {
            Operator::Greater => {
                none |= past.is_none();
                (past.unwrap_or_default(), None)
            }
            Operator::GreaterOrEqual => (at, None),
            Operator::Less => (Vec::new(), Some(at)),
            Operator::LessOrEqual => (Vec::new(), past),
            Operator::Equal => (at, past),
            Operator::NotEqual => continue,
        };
        low = low.max(new_low);
        high = match (high, new_high) {
            (Some(high), Some(new)) => Some(high.min(new)),
            (high, new) => high.or(new),
        };
    }
    if none {
        return KeyRange { high: High::Key(low.clone()), low };
    }
    KeyRange { low, high: high.map_or(High::Open, High::Key) }
}

fn of_values(prefix: &[u8], nullable: bool, values: &[Literal<'_>]) -> Ranges {
    let mut ranges: Vec<KeyRange> = values
        .iter()
        .filter(|value| !value.value().is_null())
        .map(|value| {
            let mut key = prefix.to_vec();
            key::put_value(&mut key, value.value(), nullable);
            KeyRange::starting_with(key)
        })
        .collect();
    ranges.sort_unstable();
    ranges.dedup();
    if ranges.is_empty() {
        // No value, no row: a range that ends where it starts.
        let nothing = KeyRange { low: prefix.to_vec(), high: High::Key(prefix.to_vec()) };
        return Ranges { first: nothing, others: Vec::new() };
    }
    let first = ranges.remove(0);
    Ranges { first, others: ranges }
}
