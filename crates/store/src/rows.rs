//! The rows of a query, borrowed from the snapshot: the one way in which rows are read.

use crate::condition::{Columns, Condition};
use crate::page::{PAGE_ROWS_MAX, Page};
use crate::partition::Visible;
use crate::plan::{Access, Plan, Ranges, plan};
use crate::query::{Cursor, Order, Query, QueryError, Sort, compare_rows};
use crate::table::{RowRef, Table};
use crate::tree::{Entries, Entry, KeyRange, Leaves, PackedMap};
use crate::words::{PartitionId, RowNumber};
use arrayvec::ArrayVec;
use rollcall_schema::{Literal, Row};
use std::cmp::Ordering;
use std::sync::Arc;

/// So many rows of an index are found at a time.
const AHEAD_MAX: usize = 16;

/// How a query was answered so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The index that was used; `None` for a scan.
    pub index: Option<&'static str>,
    /// How many rows were read.
    pub rows_read: usize,
}

/// The rows that a query asks for, in its order.
pub struct Rows<'s, 'q, R: Row> {
    table: &'s Table<R>,
    query: Query<'q>,
    source: Source<'s, R>,
    /// Conditions still to be tested on each row; a bit for each of the first 64.
    answered: u64,
    sought: bool,
    remaining: usize,
    explanation: Explanation,
}

enum Source<'s, R> {
    Pages {
        pages: Leaves<'s, Arc<Page<R>>>,
        page: Option<&'s Page<R>>,
        position: usize,
    },
    Entries {
        map: &'s PackedMap,
        entries: Entries<'s>,
        others: std::vec::IntoIter<KeyRange>,
        /// Rows that were found ahead, the next one last.
        ahead: Vec<RowRef<'s, R>>,
    },
    Ready(std::vec::IntoIter<RowRef<'s, R>>),
}

impl<R: Row> Table<R> {
    /// The rows that a query asks for, borrowed from this table.
    ///
    /// # Errors
    /// If the query does not fit the table.
    #[inline]
    pub fn select<'s, 'q>(&'s self, query: Query<'q>) -> Result<Rows<'s, 'q, R>, QueryError> {
        query.check(self.schema())?;
        let Plan { access, answered, sorted, sought } = plan(self.schema(), &query);
        let mut explanation = Explanation { index: None, rows_read: 0 };
        let source = match access {
            Access::Pages => Source::Pages { pages: self.pages(), page: None, position: 0 },
            Access::Numbers { ranges, falling } => entries(self.numbers(), ranges, falling),
            Access::Index { index, ranges, falling } => {
                explanation.index = Some(self.schema().indexes[index].name);
                entries(self.index(index), ranges, falling)
            }
        };
        let remaining = query.limit.unwrap_or(usize::MAX);
        let mut rows = Rows { table: self, query, source, answered, sought, remaining, explanation };
        if !sorted {
            rows.sort();
        }
        Ok(rows)
    }
}

/// Finds the rows of some entries of an index, the last one first. Each step is taken for all of them before the next: what one row has to be fetched
/// from memory does not wait for the row before.
#[inline(never)]
fn find_ahead<'s, R: Row>(
    table: &'s Table<R>,
    visible: Option<&Visible>,
    entries: impl Iterator<Item = Entry<'s>>,
    ahead: &mut Vec<RowRef<'s, R>>,
) {
    let places = entries.map(|entry| (PartitionId::from_bytes(entry.value), RowNumber::from_key(entry.tail())));
    let places: ArrayVec<(PartitionId, RowNumber), AHEAD_MAX> =
        places.filter(|(partition, _)| visible.is_none_or(|visible| visible.contains(*partition))).collect();
    let mut last: Option<(&'s Page<R>, RowNumber)> = None;
    let pages: ArrayVec<(&'s Page<R>, RowNumber), AHEAD_MAX> = places
        .into_iter()
        .filter_map(|(partition, number)| {
            // Neighbours in an index that came one after the other often lie in one page. Others are not compared with it: it would have to be here.
            let near = last.filter(|(_, last)| number.0.wrapping_sub(last.0) < PAGE_ROWS_MAX as u64);
            let page = match near.filter(|(page, _)| page.spans(partition, number)) {
                Some((page, _)) => page,
                None => &**table.page_at(partition, number)?,
            };
            last = Some((page, number));
            last
        })
        .collect();
    ahead.reserve_exact(pages.len());
    pages.iter().for_each(|(page, number)| page.fetch(*number));
    let found =
        pages.iter().rev().filter_map(|(page, number)| Some(RowRef { number: *number, stored: page.get(*number)? }));
    ahead.extend(found);
    ahead.iter().for_each(|row| {
        std::hint::black_box(row.stored.changed);
    });
}

fn entries<R>(map: &PackedMap, ranges: Ranges, falling: bool) -> Source<'_, R> {
    let Ranges { first, others } = ranges;
    let entries = if falling { map.range_back(first) } else { map.range(first) };
    Source::Entries { map, entries, others: others.into_iter(), ahead: Vec::new() }
}

impl<'s, 'q, R: Row> Rows<'s, 'q, R> {
    /// How the rows were found so far.
    pub fn explanation(&self) -> Explanation {
        self.explanation
    }

    /// The cursor behind a row of this query.
    pub fn cursor(&self, row: RowRef<'s, R>) -> Cursor {
        let literal = |sort: &Sort| Literal::from_value(row.row().value(sort.column)).unwrap_or(Literal::Null);
        Cursor { values: self.sorts().iter().map(literal).collect(), number: row.number }
    }

    /// The pages of all rows, if the query asks for whole pages: no condition, no order, no limit. Doors send the encodings of these.
    pub fn whole_pages(&self) -> Option<impl Iterator<Item = &'s Arc<Page<R>>> + use<'s, 'q, R>> {
        let whole = self.query.conditions.is_empty() && self.query.limit.is_none() && self.query.after.is_none();
        match &self.source {
            Source::Pages { pages, page: None, .. } if whole => {
                let visible = self.query.visible;
                Some(pages.clone().filter(move |page| visible.is_none_or(|visible| visible.contains(page.partition()))))
            }
            _ => None,
        }
    }

    /// All rows as references.
    pub fn references(self) -> Vec<&'s R> {
        let mut rows = Vec::with_capacity(self.size_hint().0);
        match self.whole_pages() {
            Some(pages) => pages.for_each(|page| rows.extend(page.rows().iter().map(|stored| &stored.row))),
            None => rows.extend(self.map(|row| row.row())),
        }
        rows
    }

    fn sorts(&self) -> &[Sort] {
        match &self.query.order {
            Order::By(sorts) => sorts,
            Order::Any | Order::Number => &[],
        }
    }

    /// Reads all rows that match and keeps the first ones in the wanted order.
    fn sort(&mut self) {
        let limit = self.remaining;
        if limit == 0 {
            return;
        }
        let sorts = self.sorts().to_vec();
        let compare = |left: &RowRef<'s, R>, right: &RowRef<'s, R>| {
            let right = right.to_owned();
            compare_rows(
                &sorts,
                (|column| left.row().value(column), left.number),
                (|_, column| right.row().value(column), right.number),
            )
        };
        self.remaining = usize::MAX;
        let mut kept = Vec::new();
        for row in self.by_ref() {
            kept.push(row);
            // Twice the limit is cut back to the limit in linear time, so the whole stays linear.
            if limit < usize::MAX / 2 && kept.len() >= limit * 2 {
                kept.select_nth_unstable_by(limit - 1, compare);
                kept.truncate(limit);
            }
        }
        kept.sort_unstable_by(compare);
        kept.truncate(limit);
        self.source = Source::Ready(kept.into_iter());
        self.remaining = limit;
    }

    /// The next row that the access gives, not yet tested.
    #[inline]
    fn candidate(&mut self) -> Option<RowRef<'s, R>> {
        let visible = self.query.visible;
        match &mut self.source {
            Source::Ready(rows) => rows.next(),
            Source::Pages { pages, page, position } => loop {
                if let Some(current) = page
                    && let Some(stored) = current.rows().get(*position)
                {
                    let number = current.number(*position);
                    *position += 1;
                    return Some(RowRef { number, stored });
                }
                let next =
                    pages.by_ref().find(|page| visible.is_none_or(|visible| visible.contains(page.partition())))?;
                *page = Some(&**next);
                *position = 0;
            },
            Source::Entries { map, entries, others, ahead } => loop {
                if let Some(row) = ahead.pop() {
                    return Some(row);
                }
                let near = entries.near().min(self.remaining).min(AHEAD_MAX);
                if near > 1 {
                    find_ahead(self.table, visible, entries.by_ref().take(near), ahead);
                    continue;
                }
                let Some(entry) = entries.next() else {
                    *entries = map.range(others.next()?);
                    continue;
                };
                let partition = PartitionId::from_bytes(entry.value);
                if visible.is_none_or(|visible| visible.contains(partition)) {
                    let number = RowNumber::from_key(entry.tail());
                    // INVARIANT: indexes and pages are of one version, so the row is there.
                    return self.table.get_in(partition, number);
                }
            },
        }
    }

    #[inline]
    fn accepts(&self, row: &RowRef<'s, R>) -> bool {
        if matches!(self.source, Source::Ready(_)) {
            return true;
        }
        let untested = |position: usize| position >= 64 || self.answered & (1 << position) == 0;
        let test =
            |(position, condition): (usize, &Condition<'_>)| !untested(position) || condition.matches(&**row.stored);
        self.query.conditions.iter().enumerate().all(test) && (self.sought || self.is_after_cursor(row))
    }

    fn is_after_cursor(&self, row: &RowRef<'s, R>) -> bool {
        let Some(cursor) = &self.query.after else { return true };
        let order = compare_rows(
            self.sorts(),
            (|column| Columns::column(&**row.stored, column), row.number),
            (|position, _| cursor.values[position].value(), cursor.number),
        );
        order == Ordering::Greater
    }
}

impl<'s, R: Row> Iterator for Rows<'s, '_, R> {
    type Item = RowRef<'s, R>;

    #[inline]
    fn next(&mut self) -> Option<RowRef<'s, R>> {
        if self.remaining == 0 {
            return None;
        }
        loop {
            let row = self.candidate()?;
            if !matches!(self.source, Source::Ready(_)) {
                self.explanation.rows_read += 1;
            }
            if self.accepts(&row) {
                self.remaining -= 1;
                return Some(row);
            }
        }
    }

    /// As [`Iterator::next`] again and again, but page by page where whole pages are wanted: a loop over slices, which the processor can
    /// run ahead of. `for_each`, `count`, `sum` and the like come here.
    fn fold<B, F: FnMut(B, Self::Item) -> B>(mut self, initial: B, mut each: F) -> B {
        if let Some(pages) = self.whole_pages() {
            let mut pages = pages.peekable();
            let mut folded = initial;
            while let Some(page) = pages.next() {
                // Fetched while the rows of this page are read.
                std::hint::black_box(pages.peek().map(|next| next.len()));
                let rows = page.numbers().zip(page.rows());
                folded = rows.fold(folded, |folded, (number, stored)| each(folded, RowRef { number, stored }));
            }
            return folded;
        }
        let mut folded = initial;
        // Not the `fold` of what is left, which would come back here.
        for row in self.by_ref() {
            folded = each(folded, row);
        }
        folded
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.source {
            Source::Ready(rows) => (0, Some(rows.len().min(self.remaining))),
            _ if self.query.conditions.is_empty() && self.query.visible.is_none() && self.query.after.is_none() => {
                let rows = self.table.len().min(self.remaining);
                (if matches!(self.source, Source::Pages { page: None, .. }) { rows } else { 0 }, Some(rows))
            }
            _ => (0, Some(self.table.len().min(self.remaining))),
        }
    }
}
