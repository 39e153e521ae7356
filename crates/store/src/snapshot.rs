//! Snapshots: every table at one version.

use crate::change::ChangeError;
use crate::encoding::EncodingBudget;
use crate::load::ReadRows;
use crate::page::{AnyRow, Stored};
use crate::query::{Query, QueryError};
use crate::rows::Explanation;
use crate::table::{Before, Changed, Scratch, Table};
use crate::tree::PackedMap;
use crate::words::{PartitionId, RowNumber, Version};
use rollcall_schema::{BlobReference, DecodeError, NamePool, Row, TableSchema, Time};
use std::any::{Any, TypeId};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Every table at one version. Taking one copies a pointer; it never changes, blocks nobody and is blocked by nobody.
#[derive(Clone)]
pub struct Snapshot {
    pub(crate) state: Arc<State>,
}

/// What a version consists of.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) version: Version,
    pub(crate) time: Time,
    /// The Rust type of each table's rows.
    pub(crate) types: Arc<[TypeId]>,
    pub(crate) tables: Vec<Arc<dyn AnyTable>>,
    pub(crate) next_number: u64,
    /// How many rows name each blob.
    pub(crate) blobs: PackedMap,
}

impl Snapshot {
    /// Its version.
    pub fn version(&self) -> Version {
        self.state.version
    }

    /// When its version was committed.
    pub fn time(&self) -> Time {
        self.state.time
    }

    /// The table of rows of type `R`.
    ///
    /// # Panics
    /// If the store was built without that table, which is a mistake of ours and no state of the world.
    #[inline]
    pub fn table<R: Row>(&self) -> &Table<R> {
        self.state.table()
    }

    /// The table of this name, for doors that learn a table's name only from a request.
    pub fn table_named(&self, name: &str) -> Option<&dyn AnyTable> {
        self.tables().find(|table| table.schema().name == name)
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &dyn AnyTable> {
        self.state.tables.iter().map(|table| &**table)
    }

    /// How many rows name this blob; a blob that none names may be removed.
    pub fn blob_references(&self, hash: &[u8; 32]) -> u64 {
        self.state.blobs.get(hash).and_then(|count| count.try_into().ok()).map_or(0, u64::from_le_bytes)
    }
}

impl State {
    /// Bytes that each version takes beside its tables.
    pub(crate) fn own_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.tables)
    }

    #[inline]
    fn position<R: Row>(&self) -> usize {
        let wanted = TypeId::of::<R>();
        match self.types.iter().position(|found| *found == wanted) {
            Some(position) => position,
            None => panic!("the store was built without table {}", R::schema().name),
        }
    }

    #[inline]
    pub(crate) fn table<R: Row>(&self) -> &Table<R> {
        let table = self.tables[self.position::<R>()].as_any().downcast_ref();
        table.expect("a table's type is the one it was registered with")
    }

    /// The table to be changed: copied if an earlier version still holds it.
    pub(crate) fn table_mut<R: Row>(&mut self) -> (usize, &mut Table<R>) {
        let position = self.position::<R>();
        let table = self.any_table_mut(position).as_any_mut().downcast_mut();
        (position, table.expect("a table's type is the one it was registered with"))
    }

    pub(crate) fn any_table_mut(&mut self, position: usize) -> &mut dyn AnyTable {
        let table = &mut self.tables[position];
        if Arc::get_mut(table).is_none() {
            *table = table.copy();
        }
        Arc::get_mut(table).expect("a fresh copy has one owner")
    }
}

/// A table whose row type is not known where it is used.
pub trait AnyTable: Send + Sync + 'static {
    /// Its description.
    fn schema(&self) -> &'static TableSchema;
    /// How many rows it has.
    fn row_count(&self) -> usize;
    /// Bytes that its rows take, without pages and indexes.
    fn bytes(&self) -> usize;
    /// The last version that changed it.
    fn last_changed(&self) -> Version;
    /// Answers a query as [`Table::select`] does, row by row, until `visit` breaks off.
    ///
    /// # Errors
    /// If the query does not fit the table.
    fn visit(
        &self,
        query: Query<'_>,
        visit: &mut dyn FnMut(RowNumber, &dyn AnyRow) -> ControlFlow<()>,
    ) -> Result<Explanation, QueryError>;
    /// The [`Table`] itself.
    fn as_any(&self) -> &dyn Any;
    #[doc(hidden)]
    fn as_any_mut(&mut self) -> &mut dyn Any;
    #[doc(hidden)]
    fn copy(&self) -> Arc<dyn AnyTable>;
    #[doc(hidden)]
    fn change_any(
        &mut self,
        number: RowNumber,
        new: Option<Arc<dyn AnyRow>>,
        version: Version,
        scratch: &mut AnyScratch,
    ) -> Result<(), ChangeError>;
    #[doc(hidden)]
    fn touch_partition(&mut self, partition: PartitionId, more_rows: i64, version: Version);
    #[doc(hidden)]
    fn drop_unused_partition(&mut self, partition: PartitionId, version: Version);
    #[doc(hidden)]
    fn forget_gone_partitions(&mut self, floor: Version);
    #[doc(hidden)]
    fn is_settled(&self) -> bool;
    #[doc(hidden)]
    fn settle(&mut self, scratch: &mut AnyScratch) -> usize;
    #[doc(hidden)]
    fn decode(&self, bytes: &[u8], changed: Version, names: &mut NamePool) -> Result<Arc<dyn AnyRow>, DecodeError>;
    #[doc(hidden)]
    fn takes_keys(&self, row: &dyn AnyRow) -> bool;
    #[doc(hidden)]
    fn rebuilt(
        &self,
        budget: &Arc<EncodingBudget>,
        rows: &ReadRows,
        version: Version,
    ) -> (Arc<dyn AnyTable>, Vec<BlobReference>);
}

#[doc(hidden)]
#[derive(Default)]
pub struct AnyScratch(pub(crate) Scratch);

type AnySide = Option<(PartitionId, Arc<dyn AnyRow>)>;

pub(crate) struct AnyChanged {
    pub(crate) old: AnySide,
    pub(crate) new: AnySide,
}

impl<R: Row> From<Changed<R>> for AnyChanged {
    fn from(changed: Changed<R>) -> Self {
        let side = |side: Option<(PartitionId, Arc<Stored<R>>)>| -> AnySide {
            side.map(|(partition, row)| (partition, row as Arc<dyn AnyRow>))
        };
        AnyChanged { old: side(changed.old), new: side(changed.new) }
    }
}

/// The row as what it is; both sides of every call are of one table.
pub(crate) fn typed<R: Row>(row: Arc<dyn AnyRow>) -> Arc<Stored<R>> {
    row.into_any().downcast().expect("a row goes back into the table it came from")
}

impl<R: Row> AnyTable for Table<R> {
    fn schema(&self) -> &'static TableSchema {
        Table::schema(self)
    }

    fn row_count(&self) -> usize {
        self.len()
    }

    fn bytes(&self) -> usize {
        self.row_bytes()
    }

    fn last_changed(&self) -> Version {
        self.changed_at()
    }

    fn visit(
        &self,
        query: Query<'_>,
        visit: &mut dyn FnMut(RowNumber, &dyn AnyRow) -> ControlFlow<()>,
    ) -> Result<Explanation, QueryError> {
        let mut rows = self.select(query)?;
        for row in rows.by_ref() {
            if visit(row.number, &**row.stored).is_break() {
                break;
            }
        }
        Ok(rows.explanation())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn copy(&self) -> Arc<dyn AnyTable> {
        Arc::new(self.clone())
    }

    fn change_any(
        &mut self,
        number: RowNumber,
        new: Option<Arc<dyn AnyRow>>,
        version: Version,
        scratch: &mut AnyScratch,
    ) -> Result<(), ChangeError> {
        self.change(number, new.map(typed), Before::Either, version, &mut scratch.0).map(drop)
    }

    fn touch_partition(&mut self, partition: PartitionId, more_rows: i64, version: Version) {
        self.touch(partition, more_rows, version);
    }

    fn drop_unused_partition(&mut self, partition: PartitionId, version: Version) {
        Table::drop_unused_partition(self, partition, version);
    }

    fn forget_gone_partitions(&mut self, floor: Version) {
        Table::forget_gone_partitions(self, floor);
    }

    fn is_settled(&self) -> bool {
        Table::is_settled(self)
    }

    fn settle(&mut self, scratch: &mut AnyScratch) -> usize {
        Table::settle(self, &mut scratch.0)
    }

    fn decode(&self, bytes: &[u8], changed: Version, names: &mut NamePool) -> Result<Arc<dyn AnyRow>, DecodeError> {
        Ok(Arc::new(Stored { changed, row: R::decode(bytes, names)? }))
    }

    fn takes_keys(&self, row: &dyn AnyRow) -> bool {
        row.as_any().downcast_ref::<Stored<R>>().is_some_and(|stored| Table::takes_keys(self, &stored.row))
    }

    fn rebuilt(
        &self,
        budget: &Arc<EncodingBudget>,
        rows: &ReadRows,
        version: Version,
    ) -> (Arc<dyn AnyTable>, Vec<BlobReference>) {
        let (table, blobs) = Table::<R>::from_rows(budget, rows, version);
        (Arc::new(table), blobs)
    }
}
