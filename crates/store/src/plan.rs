//! The planner: the index with the longest prefix of equal columns, and nothing cleverer.
//!
//! Each index is judged by how many of its first columns the query fixes, then by whether it bounds the next one, then by whether it gives the
//! wanted order, then by whether it leaves out rows that the query does not want. Conditions that the index answers are not tested again; all others are tested on each row that is read.

use crate::condition::{Condition, Operator, like_prefix};
use crate::query::{Order, Query, Sort};
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

/// Keys not less than the first and less than the second, or without end.
pub(crate) type KeyRange = (Vec<u8>, Option<Vec<u8>>);

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

pub(crate) fn plan(schema: &'static TableSchema, query: &Query<'_>) -> Plan {
    let mut best: Option<(usize, Match<'_, '_>, (usize, bool, bool, bool))> = None;
    let asked = asked_columns(&query.conditions);
    let ordered = query.limit.is_some() && query.order != Order::Any;
    for (position, index) in schema.indexes.iter().enumerate() {
        let is_asked = |column: usize| asked & (1 << column) != 0;
        if !(ordered || is_asked(index.columns[0])) || !index.only_where.is_none_or(is_asked) {
            continue;
        }
        let Some(found) = match_index(schema, index, &query.conditions) else { continue };
        let sorted = found.gives(&query.order);
        let score = (found.equal, !matches!(found.tail, Tail::Nothing), sorted, index.only_where.is_some());
        let useful = score.0 > 0 || score.1 || (sorted && ordered);
        if useful && best.as_ref().is_none_or(|(_, _, other)| score > *other) {
            best = Some((position, found, score));
        }
    }
    match best {
        Some((position, found, (_, _, sorted, _))) => index_plan(schema, query, position, &found, sorted),
        None => scan_plan(query),
    }
}

/// The columns, as bits, that the conditions ask for: an index that starts with another one is passed over without a closer look.
fn asked_columns(conditions: &[Condition<'_>]) -> u64 {
    conditions.iter().fold(0, |asked, condition| match condition {
        Condition::Compare { column, .. }
        | Condition::In { column, .. }
        | Condition::Like { column, .. }
        | Condition::IsNull { column } => asked | 1 << column,
        Condition::And(_) | Condition::Or(_) | Condition::Not(_) => asked,
    })
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
    let ranges = Ranges { first: (low, None), others: Vec::new() };
    Plan { access: Access::Numbers { ranges, falling: false }, answered: 0, sorted: true, sought: true }
}

/// What the query asks of this index; `None` if the index may lack rows that the query wants.
fn match_index<'a, 'q>(
    schema: &'static TableSchema,
    index: &'a IndexSchema,
    conditions: &'a [Condition<'q>],
) -> Option<Match<'a, 'q>> {
    let mut answered = 0;
    if let Some(only) = index.only_where {
        let implied = conditions.iter().take(64).position(|condition| {
            matches!(condition, Condition::Compare { column, operator: Operator::Equal, value: Literal::Boolean(true) }
                if *column == only)
        })?;
        answered |= 1 << implied;
    }
    let mut found = Match { index, equal: 0, answered, tail: Tail::Nothing };
    for &column in index.columns {
        match conditions.iter().take(64).position(|condition| fixes(schema, condition, column)) {
            Some(position) => {
                found.equal += 1;
                found.answered |= 1 << position;
            }
            None => {
                found.find_tail(column, conditions);
                break;
            }
        }
    }
    Some(found)
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
    let mut ranges = match &found.tail {
        Tail::Nothing if query.after.is_none() => {
            let first = starting_with(prefix);
            return index_access(position, found, Ranges { first, others: Vec::new() }, query, sorted, false);
        }
        Tail::Nothing => Ranges { first: starting_with(prefix.clone()), others: Vec::new() },
        Tail::Prefix(text) => {
            let mut low = prefix.clone();
            key::put_text_prefix(&mut low, text.as_bytes(), nullable);
            Ranges { first: starting_with(low), others: Vec::new() }
        }
        Tail::Bounds(bounds) => Ranges { first: bounded(&prefix, nullable, bounds), others: Vec::new() },
        Tail::Values(values) => of_values(&prefix, nullable, values),
    };
    let falling = sorted && falls(&query.order);
    let sought = sorted && query.after.is_some() && query.order != Order::Any;
    if sought && let Some(cursor) = &query.after {
        let mut at = prefix;
        if let Order::By(sorts) = &query.order {
            put_cursor(&mut at, schema, sorts, &cursor.values);
        }
        at.extend_from_slice(&cursor.number.key());
        seek(&mut ranges.first, at, falling);
    }
    index_access(position, found, ranges, query, sorted, sought)
}

fn index_access(
    index: usize,
    found: &Match<'_, '_>,
    ranges: Ranges,
    query: &Query<'_>,
    sorted: bool,
    sought: bool,
) -> Plan {
    let falling = sorted && falls(&query.order);
    Plan { access: Access::Index { index, ranges, falling }, answered: found.answered, sorted, sought }
}

fn put_cursor(out: &mut Vec<u8>, schema: &TableSchema, sorts: &[Sort], values: &[Literal<'_>]) {
    for (sort, value) in sorts.iter().zip(values) {
        key::put_value(out, value.value(), schema.columns[sort.column].nullable);
    }
}

/// Narrows a range to what lies behind the key `at`.
fn seek(range: &mut KeyRange, mut at: Vec<u8>, falling: bool) {
    if falling {
        if range.1.as_ref().is_none_or(|high| *high > at) {
            range.1 = Some(at);
        }
    } else {
        // The smallest key greater than `at`.
        at.push(0);
        if range.0 < at {
            range.0 = at;
        }
    }
}

fn starting_with(prefix: Vec<u8>) -> KeyRange {
    let mut high = prefix.clone();
    let bounded = key::step_past_prefix(&mut high);
    (prefix, bounded.then_some(high))
}

fn bounded(prefix: &[u8], nullable: bool, bounds: &[(Operator, &Literal<'_>)]) -> KeyRange {
    // Rows without a value satisfy no bound; their keys come first.
    let mut low = prefix.to_vec();
    if nullable {
        low.push(1);
    }
    let mut high = starting_with(prefix.to_vec()).1;
    for (operator, value) in bounds {
        let mut key = prefix.to_vec();
        key::put_value(&mut key, value.value(), nullable);
        let (at, past) = starting_with(key);
        let (new_low, new_high) = match operator {
            Operator::Greater => match past {
                Some(past) => (past, None),
                // Nothing is greater than the greatest value: a range that ends where it starts.
                None => return (prefix.to_vec(), Some(prefix.to_vec())),
            },
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
    (low, high)
}

fn of_values(prefix: &[u8], nullable: bool, values: &[Literal<'_>]) -> Ranges {
    let mut ranges: Vec<KeyRange> = values
        .iter()
        .filter(|value| !value.value().is_null())
        .map(|value| {
            let mut key = prefix.to_vec();
            key::put_value(&mut key, value.value(), nullable);
            starting_with(key)
        })
        .collect();
    ranges.sort_unstable();
    ranges.dedup();
    if ranges.is_empty() {
        // No value, no row: a range that ends where it starts.
        return Ranges { first: (prefix.to_vec(), Some(prefix.to_vec())), others: Vec::new() };
    }
    let first = ranges.remove(0);
    Ranges { first, others: ranges }
}
