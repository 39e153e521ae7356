//! Pages: a few rows of one partition, in order of their numbers.

mod numbers;

pub(crate) use numbers::Numbers;

use crate::encoding::EncodingCell;
use crate::tree::{Edit, Leaf};
use crate::words::{PARTITION_BYTES, PartitionId, ROW_NUMBER_BYTES, RowNumber, Version};
use arrayvec::ArrayVec;
use rollcall_schema::{BlobReference, Row, Value};
use std::any::Any;
use std::sync::Arc;

/// The most rows of a page. A change copies the page that its row lies in and touches the reference count of each row in it, while a reader of
/// everything has a pointer to follow for each page.
pub const PAGE_ROWS_MAX: usize = 64;

/// The most bytes of rows in a page; a larger row stands alone.
pub const PAGE_BYTES_MAX: usize = 128 * 1024;

/// A page with fewer rows joins a neighbour.
const PAGE_ROWS_MIN: usize = PAGE_ROWS_MAX / 4;

/// Two pages join up to so many rows, so that the next insert does not split them again.
const PAGE_ROWS_JOINED_MAX: usize = PAGE_ROWS_MAX * 3 / 4;

/// A row with the version that last changed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<R> {
    /// The version that last changed the row.
    pub changed: Version,
    /// The row.
    pub row: R,
}

/// A row of any table, as changes and watches carry it.
pub trait AnyRow: Send + Sync + 'static {
    /// The column at a position, as [`Row::value`].
    fn column(&self, column: usize) -> Value<'_>;
    /// The version that last changed the row.
    fn changed(&self) -> Version;
    /// Appends the stored form.
    fn encode_row(&self, out: &mut Vec<u8>);
    /// The [`Stored`] row itself.
    fn as_any(&self) -> &dyn Any;
    /// The same, shared.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
    /// Bytes that the row takes in memory.
    fn row_bytes(&self) -> usize;
    /// Calls `visit` with each blob that the row names.
    fn visit_blobs(&self, visit: &mut dyn FnMut(&BlobReference));
}

impl<R: Row> AnyRow for Stored<R> {
    fn column(&self, column: usize) -> Value<'_> {
        self.row.value(column)
    }

    fn changed(&self) -> Version {
        self.changed
    }

    fn encode_row(&self, out: &mut Vec<u8>) {
        self.row.encode(out);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn row_bytes(&self) -> usize {
        size_of::<Self>() + self.row.heap_bytes()
    }

    fn visit_blobs(&self, visit: &mut dyn FnMut(&BlobReference)) {
        self.row.blobs(visit);
    }
}

/// At most [`PAGE_ROWS_MAX`] rows of one partition, in order of their numbers. A page never changes once others can see it.
///
/// It is one allocation, and what a look-up reads of it lies in front.
#[repr(C)]
pub struct Page<R> {
    partition: PartitionId,
    numbers: Numbers,
    /// One place more than a page has rows: it is split when that is filled.
    rows: ArrayVec<Arc<Stored<R>>, { PAGE_ROWS_MAX + 1 }>,
    bytes: usize,
    /// The last version at which a row of the page came, changed or went, or the page split or joined.
    changed: Version,
    encodings: Arc<EncodingCell>,
}

impl<R> Clone for Page<R> {
    fn clone(&self) -> Self {
        Page {
            partition: self.partition,
            numbers: self.numbers.clone(),
            rows: self.rows.clone(),
            bytes: self.bytes,
            changed: self.changed,
            encodings: self.encodings.clone(),
        }
    }
}

impl<R: Row> Page<R> {
    pub(crate) fn of(
        partition: PartitionId,
        rows: Vec<(RowNumber, Arc<Stored<R>>)>,
        changed: Version,
        encodings: Arc<EncodingCell>,
    ) -> Self {
        let bytes = rows.iter().map(|(_, row)| row.row_bytes()).sum();
        let numbers = Numbers::of(rows.iter().map(|(number, _)| *number));
        Page { partition, numbers, rows: rows.into_iter().map(|(_, row)| row).collect(), bytes, changed, encodings }
    }

    /// The partition that all its rows are of.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// How many rows it holds; at least one.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Always false: an empty page is removed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Its rows, in order of their numbers.
    pub fn rows(&self) -> &[Arc<Stored<R>>] {
        &self.rows
    }

    /// The numbers of its rows, rising.
    #[inline]
    pub fn numbers(&self) -> impl ExactSizeIterator<Item = RowNumber> + '_ {
        self.numbers.iter()
    }

    /// The number of the row at a position.
    #[inline]
    pub fn number(&self, position: usize) -> RowNumber {
        self.numbers.at(position)
    }

    pub(crate) fn row_numbers(&self) -> &Numbers {
        &self.numbers
    }

    pub(crate) fn changed(&self) -> Version {
        self.changed
    }

    pub(crate) fn encodings(&self) -> &Arc<EncodingCell> {
        &self.encodings
    }

    /// Bytes of the page without its rows if an earlier version holds it too, which keeps them when this one is changed.
    pub(crate) fn shared_bytes(self: &Arc<Self>) -> usize {
        if Arc::strong_count(self) == 1 { 0 } else { size_of::<Self>() }
    }

    #[inline]
    pub(crate) fn position(&self, number: RowNumber) -> Result<usize, usize> {
        self.numbers.search(number)
    }

    /// Whether a row of the partition with this number, if it is there at all, is in this page.
    #[inline]
    pub(crate) fn spans(&self, partition: PartitionId, number: RowNumber) -> bool {
        self.partition == partition && (self.numbers.first()..=self.numbers.last()).contains(&number)
    }

    /// Has the processor fetch what a look-up of the number will read: the number and the pointer of the row lie in different parts of the page, each near
    /// its guess, and are then on their way at once.
    #[inline]
    pub(crate) fn fetch(&self, number: RowNumber) {
        let guess = self.numbers.guess(number);
        std::hint::black_box((self.numbers.at(guess), self.rows.get(guess).map(Arc::as_ptr)));
    }

    #[inline]
    pub(crate) fn get(&self, number: RowNumber) -> Option<&Arc<Stored<R>>> {
        self.fetch(number);
        self.position(number).ok().map(|position| &self.rows[position])
    }

    /// The key of a row in the page directory: the partition, how many significant bytes the number has, and these. So the first bytes of a key, which
    /// a search looks at, are never zeros that all numbers have.
    #[inline]
    pub(crate) fn key(partition: PartitionId, number: RowNumber) -> [u8; PARTITION_BYTES + 1 + ROW_NUMBER_BYTES] {
        let zero_bytes = (number.0 << (64 - 8 * ROW_NUMBER_BYTES)).leading_zeros() / 8;
        let significant = (ROW_NUMBER_BYTES as u32).saturating_sub(zero_bytes);
        let mut key = [0; PARTITION_BYTES + 1 + ROW_NUMBER_BYTES];
        key[..PARTITION_BYTES].copy_from_slice(&partition.bytes());
        key[PARTITION_BYTES] = significant as u8;
        let bytes = number.0.checked_shl(64 - 8 * significant).unwrap_or(0).to_be_bytes();
        key[PARTITION_BYTES + 1..].copy_from_slice(&bytes[..ROW_NUMBER_BYTES]);
        key
    }

    fn first_key(&self) -> Vec<u8> {
        Self::key(self.partition, self.numbers.first()).to_vec()
    }

    /// What becomes of the leaf with another row in the place of the one at `position`.
    pub(crate) fn replace(
        leaf: &mut Arc<Self>,
        position: usize,
        row: Arc<Stored<R>>,
        version: Version,
    ) -> Edit<Arc<Self>> {
        let page = Arc::make_mut(leaf);
        page.changed = version;
        page.bytes += row.row_bytes();
        let old = std::mem::replace(&mut page.rows[position], row);
        page.bytes -= old.row_bytes();
        // A row that grew may be too large for its neighbours.
        if page.is_within_bounds() { Edit::Keep } else { Page::split(leaf, None) }
    }

    /// What becomes of the leaf at which a row of `partition` with this number belongs.
    pub(crate) fn insert(
        leaf: Option<&mut Arc<Self>>,
        partition: PartitionId,
        number: RowNumber,
        row: Arc<Stored<R>>,
        version: Version,
        new_cell: impl Fn() -> Arc<EncodingCell>,
    ) -> Edit<Arc<Self>> {
        let alone = |row| Arc::new(Page::of(partition, vec![(number, row)], version, new_cell()));
        // The first page of a partition takes all numbers from zero on, wherever its first row lies.
        let whole_partition = |partition| Self::key(partition, RowNumber(0)).to_vec();
        let Some(leaf) = leaf else { return Edit::Replace(alone(row)) };
        if leaf.partition < partition {
            return Edit::Split(leaf.clone(), vec![(whole_partition(partition), alone(row))]);
        }
        if leaf.partition > partition {
            return Edit::Split(alone(row), vec![(whole_partition(leaf.partition), leaf.clone())]);
        }
        if !Numbers::are_near(number.min(leaf.numbers.first()), leaf.numbers.last()) {
            return Edit::Split(alone(row), vec![(leaf.first_key(), leaf.clone())]);
        }
        if !Numbers::are_near(leaf.numbers.first(), number.max(leaf.numbers.last())) {
            return Edit::Split(leaf.clone(), vec![(Self::key(partition, number).to_vec(), alone(row))]);
        }
        let position = leaf.position(number).unwrap_or_else(|position| position);
        let page = Arc::make_mut(leaf);
        page.changed = version;
        page.bytes += row.row_bytes();
        page.numbers.insert(position, number);
        page.rows.insert(position, row);
        if page.is_within_bounds() {
            return Edit::Keep;
        }
        let appended = position == page.rows.len() - 1;
        Page::split(leaf, appended.then_some(position))
    }

    fn is_within_bounds(&self) -> bool {
        self.rows.len() <= PAGE_ROWS_MAX && (self.bytes <= PAGE_BYTES_MAX || self.rows.len() == 1)
    }

    /// The leaf as pages within bounds, cut at `middle` or where it is best.
    fn split(leaf: &Arc<Self>, middle: Option<usize>) -> Edit<Arc<Self>> {
        let parts = leaf.parts(middle.unwrap_or_else(|| leaf.middle()));
        let mut parts = parts.into_iter().map(|page| (page.first_key(), Arc::new(page)));
        let first = parts.next().map_or_else(|| leaf.clone(), |(_, page)| page);
        Edit::Split(first, parts.collect())
    }

    /// Where a page of two rows or more is cut: at half its rows if these are too many, else at half its bytes, which leaves a large row alone.
    fn middle(&self) -> usize {
        if self.rows.len() > PAGE_ROWS_MAX {
            return self.rows.len() / 2;
        }
        let mut sum = 0;
        let half = self.rows.iter().position(|row| {
            sum += row.row_bytes();
            sum * 2 >= self.bytes
        });
        half.unwrap_or(0).clamp(1, self.rows.len() - 1)
    }

    /// The page cut at `middle`, and each part again until it is small enough.
    fn parts(&self, middle: usize) -> Vec<Page<R>> {
        let part = |from: usize, to: usize| {
            let rows = (from..to).map(|at| (self.number(at), self.rows[at].clone())).collect();
            Page::of(self.partition, rows, self.changed, self.encodings.successor(None))
        };
        let halves = [part(0, middle), part(middle, self.rows.len())];
        halves
            .into_iter()
            .flat_map(|half| if half.is_within_bounds() { vec![half] } else { half.parts(half.middle()) })
            .collect()
    }

    /// What becomes of the leaf without the row at `position`; gives that row.
    pub(crate) fn remove(leaf: &mut Arc<Self>, position: usize, version: Version) -> (Edit<Arc<Self>>, Arc<Stored<R>>) {
        let page = Arc::make_mut(leaf);
        page.changed = version;
        let row = page.rows.remove(position);
        page.bytes -= row.row_bytes();
        if page.rows.is_empty() {
            return (Edit::Remove, row);
        }
        page.numbers.remove(position);
        // Given back as a replacement, so that the tree looks whether it should join a neighbour.
        let edit = if page.rows.len() < PAGE_ROWS_MIN { Edit::Replace(leaf.clone()) } else { Edit::Keep };
        (edit, row)
    }
}

impl<R: Row> Leaf for Arc<Page<R>> {
    fn is_sparse(&self) -> bool {
        self.rows.len() < PAGE_ROWS_MIN
    }

    fn join(&self, right: &Self) -> Option<Self> {
        let fits = self.partition == right.partition
            && self.rows.len() + right.rows.len() <= PAGE_ROWS_JOINED_MAX
            && Numbers::are_near(self.numbers.first(), right.numbers.last())
            && self.bytes + right.bytes <= PAGE_BYTES_MAX * 3 / 4;
        fits.then(|| {
            Arc::new(Page {
                partition: self.partition,
                numbers: Numbers::of(self.numbers().chain(right.numbers())),
                rows: self.rows.iter().chain(&right.rows).cloned().collect(),
                bytes: self.bytes + right.bytes,
                changed: self.changed.max(right.changed),
                encodings: self.encodings.successor(Some(&right.encodings)),
            })
        })
    }
}
