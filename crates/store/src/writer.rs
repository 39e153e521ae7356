//! The writer's pure step: a batch of commands becomes one commit.
//!
//! ```text
//! begin(now) ──► attempt(command)* ──► prepare() ──► (append to the log) ──► publish()
//!                     │ fails alone                        │ fails
//!                     └─ undone                            └─► abandon(): back to what is published
//! ```
//!
//! There is one [`Writer`]. It works on a copy of the newest snapshot that shares all it does not change; nobody sees it before it is published.
//! A batch may be begun while an earlier one is still on its way to disk. Time is given, never read.

use crate::change::{Change, ChangeError};
use crate::limits::StoreLimits;
use crate::page::{AnyRow, Stored};
use crate::record;
use crate::snapshot::{AnyChanged, AnyScratch, Snapshot, State};
use crate::store::Store;
use crate::table::{Before, Table};
use crate::words::{PartitionId, RowNumber, Version};
use rollcall_schema::{Column, Durability, Literal, Row, TableKind, Time, key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The one who changes a store.
pub struct Writer {
    store: Arc<Store>,
    tip: Arc<State>,
    last_version: Version,
    scratch: AnyScratch,
}

impl Writer {
    pub(crate) fn new(store: Arc<Store>) -> Writer {
        let tip = store.snapshot().state;
        Writer { last_version: tip.version, store, tip, scratch: AnyScratch::default() }
    }

    /// The store that it writes to.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Starts a batch on top of the newest prepared one. `now` is the time of its commit, held at its predecessor's if that is later.
    pub fn begin(&mut self, now: Time) -> Batch<'_> {
        let version = self.last_version.next();
        let mut state = State::clone(&self.tip);
        state.version = version;
        state.time = now.max(state.time);
        Batch { writer: self, state, changes: Vec::new(), undone: Vec::new(), written_bytes: 0 }
    }

    /// Makes a prepared batch visible, as [`Store::publish`].
    pub fn publish(&mut self, prepared: Prepared) {
        self.store.publish(prepared);
    }

    /// Drops all that was prepared and not published. The versions of dropped batches are not used again.
    pub fn abandon(&mut self) {
        self.tip = self.store.snapshot().state;
    }

    /// Takes no version up to this one for a commit; used at a start, with the end of what the log had reserved.
    pub fn skip_versions(&mut self, to: Version) {
        self.last_version = self.last_version.max(to);
    }
}

/// Commands on their way to be one commit.
pub struct Batch<'w> {
    writer: &'w mut Writer,
    state: State,
    changes: Vec<Change>,
    /// What undone commands touched, among it partitions that they may have made.
    undone: Vec<(usize, PartitionId)>,
    written_bytes: usize,
}

/// A commit that is not yet visible.
pub struct Prepared {
    pub(crate) snapshot: Snapshot,
    pub(crate) changes: Arc<[Change]>,
    pub(crate) copied_bytes: usize,
    /// The strictest durability among the changed tables.
    pub durability: Durability,
    /// Blobs that no row names any more.
    pub released_blobs: Vec<[u8; 32]>,
}

impl Prepared {
    /// Its version.
    pub fn version(&self) -> Version {
        self.snapshot.version()
    }

    /// What will be visible.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// What the log writes, made anew by each call; empty if nothing in the batch is to be on disk.
    pub fn record(&self) -> Vec<u8> {
        match self.durability {
            Durability::Volatile => Vec::new(),
            _ => record::of_changes(&self.snapshot.state, &self.changes),
        }
    }

    /// What it changed, in order.
    pub fn changes(&self) -> &Arc<[Change]> {
        &self.changes
    }
}

impl Batch<'_> {
    /// The version that the batch will have.
    pub fn version(&self) -> Version {
        self.state.version
    }

    /// About how many bytes the rows take that were written so far.
    pub fn written_bytes(&self) -> usize {
        self.written_bytes
    }

    /// Runs one command. It sees what earlier commands of the batch did; if it fails, all that it did is undone.
    ///
    /// # Errors
    /// Whatever the command fails with.
    pub fn attempt<T, E>(&mut self, command: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>) -> Result<T, E> {
        let (mark, next_number) = (self.changes.len(), self.state.next_number);
        let limits = self.writer.store.limits();
        let mut transaction = Transaction {
            state: &mut self.state,
            changes: &mut self.changes,
            scratch: &mut self.writer.scratch,
            limits,
            mark,
            dropped: 0,
            bytes: 0,
        };
        let result = command(&mut transaction);
        let bytes = transaction.bytes;
        if result.is_err() {
            self.undo(mark);
            self.state.next_number = next_number;
        } else {
            self.written_bytes += bytes;
        }
        result
    }

    fn undo(&mut self, mark: usize) {
        for change in self.changes.drain(mark..).rev() {
            let version = self.state.version;
            let table = self.state.any_table_mut(change.table);
            let (was_in, old) = change.old.unzip();
            table
                .change_any(change.number, old, version, &mut self.writer.scratch)
                .expect("what was there before a change fits the table");
            self.undone.extend(
                change.new.map(|(partition, _)| partition).or(was_in).map(|partition| (change.table, partition)),
            );
        }
    }

    /// Ends the batch; `None` if it changed nothing, in which case no version is used.
    pub fn prepare(mut self) -> Option<Prepared> {
        if self.changes.is_empty() {
            return None;
        }
        let version = self.state.version;
        let mut touched: BTreeMap<(usize, PartitionId), i64> = BTreeMap::new();
        for change in &self.changes {
            if let Some((partition, _)) = &change.old {
                *touched.entry((change.table, *partition)).or_default() -= 1;
            }
            if let Some((partition, _)) = &change.new {
                *touched.entry((change.table, *partition)).or_default() += 1;
            }
        }
        for ((table, partition), more_rows) in touched {
            self.state.any_table_mut(table).touch_partition(partition, more_rows, version);
        }
        let undone = std::mem::take(&mut self.undone);
        for (table, partition) in &undone {
            self.state.any_table_mut(*table).drop_unused_partition(*partition, version);
        }
        let released_blobs = self.count_blobs();
        let mut copied_bytes = self.state.own_bytes() + self.state.blobs.take_copied();
        let mut durability = Durability::Volatile;
        let floor = self.writer.store.ring.floor();
        let mut seen = vec![false; self.state.tables.len()];
        for change in &self.changes {
            if !std::mem::replace(&mut seen[change.table], true) {
                let table = self.state.any_table_mut(change.table);
                table.forget_gone_partitions(floor);
                copied_bytes += table.settle(&mut self.writer.scratch);
                durability = strictest(durability, table.schema().durability);
            }
        }
        // A table that was changed and set back has that still before it, and must not take it along to readers.
        for (table, _) in undone {
            if !std::mem::replace(&mut seen[table], true) {
                copied_bytes += self.state.any_table_mut(table).settle(&mut self.writer.scratch);
            }
        }
        debug_assert!(
            self.state.tables.iter().all(|table| table.is_settled()),
            "readers get tables with nothing pending"
        );
        let snapshot = Snapshot { state: Arc::new(self.state) };
        self.writer.tip = snapshot.state.clone();
        self.writer.last_version = version;
        Some(Prepared { snapshot, changes: self.changes.into(), copied_bytes, durability, released_blobs })
    }

    /// Carries the batch into the counts of blob references; gives the blobs that lost their last one.
    fn count_blobs(&mut self) -> Vec<[u8; 32]> {
        let mut released = Vec::new();
        let blobs = &mut self.state.blobs;
        let count = |blobs: &crate::tree::PackedMap, hash: &[u8; 32]| {
            blobs.get(hash).and_then(|count| count.try_into().ok()).map_or(0, u64::from_le_bytes)
        };
        for change in &self.changes {
            if let Some((_, row)) = &change.new {
                row.visit_blobs(&mut |blob| {
                    let more = count(blobs, &blob.0) + 1;
                    blobs.insert(&blob.0, &more.to_le_bytes());
                });
            }
            if let Some((_, row)) = &change.old {
                row.visit_blobs(&mut |blob| {
                    let fewer = count(blobs, &blob.0).saturating_sub(1);
                    if fewer == 0 {
                        blobs.remove(&blob.0);
                        released.push(blob.0);
                    } else {
                        blobs.insert(&blob.0, &fewer.to_le_bytes());
                    }
                });
            }
        }
        released.retain(|hash| blobs.get(hash).is_none());
        released
    }
}

fn strictest(left: Durability, right: Durability) -> Durability {
    match (left, right) {
        (Durability::Committed, _) | (_, Durability::Committed) => Durability::Committed,
        (Durability::Relaxed, _) | (_, Durability::Relaxed) => Durability::Relaxed,
        _ => Durability::Volatile,
    }
}

/// What a command works with: it reads the state that earlier commands left, and changes rows.
pub struct Transaction<'b> {
    state: &'b mut State,
    changes: &'b mut Vec<Change>,
    scratch: &'b mut AnyScratch,
    limits: &'b StoreLimits,
    mark: usize,
    /// Rows of append tables that the command made the store drop.
    dropped: usize,
    bytes: usize,
}

impl Transaction<'_> {
    /// The time of the commit.
    pub fn now(&self) -> Time {
        self.state.time
    }

    /// The version of the commit.
    pub fn version(&self) -> Version {
        self.state.version
    }

    /// The table of rows of type `R`, as earlier commands and this one left it.
    pub fn table<R: Row>(&self) -> &Table<R> {
        self.state.table()
    }

    /// Fails if a row was changed after `since`, which is the version the command's author read it at.
    ///
    /// # Errors
    /// If the row changed, or is gone.
    pub fn require_unchanged<R: Row>(&self, number: RowNumber, since: Version) -> Result<(), ChangeError> {
        let table = R::schema().name;
        let row = self.table::<R>().get(number).ok_or(ChangeError::NoSuchRow { table, number })?;
        if row.stored.changed > since {
            return Err(ChangeError::Outdated { table, changed_at: row.stored.changed.0, since: since.0 });
        }
        Ok(())
    }

    /// Fails if any row of the table was changed after `since`, by an earlier commit or by an earlier command of this batch.
    ///
    /// # Errors
    /// If the table changed.
    pub fn require_table_unchanged<R: Row>(&self, since: Version) -> Result<(), ChangeError> {
        let table = self.table::<R>();
        let position = self.state.types.iter().position(|found| *found == std::any::TypeId::of::<R>());
        let in_batch = self.changes[..self.mark].iter().any(|change| Some(change.table) == position);
        let changed_at = if in_batch { self.state.version } else { table.changed_at() };
        if changed_at > since {
            let table = R::schema().name;
            return Err(ChangeError::Outdated { table, changed_at: changed_at.0, since: since.0 });
        }
        Ok(())
    }

    /// Adds a row; gives its number.
    ///
    /// # Errors
    /// If an index refuses it or the command has reached a limit.
    pub fn insert<R: Row>(&mut self, row: R) -> Result<RowNumber, ChangeError> {
        let table = R::schema();
        let number = RowNumber(self.state.next_number);
        if number > RowNumber::MAX {
            return Err(ChangeError::NoNumbers { table: table.name });
        }
        self.change(number, Some(row), Before::Nothing)?;
        self.state.next_number += 1;
        if table.kind == TableKind::Append {
            self.drop_oldest_pages::<R>(number)?;
        }
        Ok(number)
    }

    /// Puts another row in the place of the one with this number. An equal row changes nothing.
    ///
    /// # Errors
    /// If there is no such row, an index refuses the new one, the table only grows, or the command has reached a limit.
    pub fn update<R: Row>(&mut self, number: RowNumber, row: R) -> Result<(), ChangeError> {
        let table = R::schema();
        if table.kind == TableKind::Append {
            return Err(ChangeError::OnlyGrows { table: table.name, number });
        }
        self.change(number, Some(row), Before::Row)
    }

    /// Removes the row with this number.
    ///
    /// # Errors
    /// If there is no such row, the table only grows, or the command has reached a limit.
    pub fn delete<R: Row>(&mut self, number: RowNumber) -> Result<(), ChangeError> {
        let table = R::schema();
        if table.kind == TableKind::Append {
            return Err(ChangeError::OnlyGrows { table: table.name, number });
        }
        self.change::<R>(number, None, Before::Row)
    }

    /// Makes `rows` the rows of one partition: rows with the same `identity` (a column that is unique in the partition) keep their number and are
    /// changed only if they differ, others come and go. Gives how many changed. This is how sources publish what they see, once an interval.
    ///
    /// # Errors
    /// If an index refuses a row or the command has reached a limit.
    pub fn replace_partition<R: Row>(
        &mut self,
        partition: &[Literal<'_>],
        identity: Column<R>,
        rows: Vec<R>,
    ) -> Result<usize, ChangeError> {
        let schema = R::schema();
        let identity_of = |row: &R| {
            let column = identity.position();
            let mut out = Vec::new();
            key::put_value(&mut out, row.value(column), schema.columns[column].nullable);
            out
        };
        let mut before: BTreeMap<Vec<u8>, RowNumber> =
            self.table::<R>().rows_of_partition(partition).map(|row| (identity_of(row.row()), row.number)).collect();
        let mark = self.changes.len();
        let rows: Vec<(Vec<u8>, R)> = rows.into_iter().map(|row| (identity_of(&row), row)).collect();
        // What goes makes room first: a row that comes may have what only one row can have, such as an address.
        let wanted: BTreeSet<&[u8]> = rows.iter().map(|(identity, _)| identity.as_slice()).collect();
        for number in
            before.iter().filter(|(identity, _)| !wanted.contains(identity.as_slice())).map(|(_, number)| *number)
        {
            self.delete::<R>(number)?;
        }
        for (identity, row) in rows {
            match before.remove(&identity) {
                Some(number) => self.update(number, row)?,
                None => drop(self.insert(row)?),
            }
        }
        Ok(self.changes.len() - mark)
    }

    /// Drops the oldest pages of an append table while it is larger than its bound, but not the row that has just come, which may lie in the page of the
    /// oldest one. That is the store's doing: it takes nothing from what the command may change.
    fn drop_oldest_pages<R: Row>(&mut self, newest: RowNumber) -> Result<(), ChangeError> {
        while self.table::<R>().row_bytes() > self.limits.append_table_bytes_max {
            let numbers = self.table::<R>().oldest_page();
            if numbers.len() == self.table::<R>().len() {
                return Ok(());
            }
            for number in numbers.into_iter().filter(|number| *number != newest) {
                self.dropped += 1;
                self.change::<R>(number, None, Before::Row)?;
            }
        }
        Ok(())
    }

    /// Puts a row, or none, in the place of another one.
    fn change<R: Row>(&mut self, number: RowNumber, row: Option<R>, before: Before) -> Result<(), ChangeError> {
        let table = R::schema().name;
        if self.changes.len() - self.mark >= self.limits.command_rows_max + self.dropped {
            return Err(ChangeError::TooManyRows { table, number, rows_max: self.limits.command_rows_max });
        }
        let version = self.state.version;
        let stored = row.map(|row| Arc::new(Stored { changed: version, row }));
        self.bytes += stored.as_ref().map_or(0, |stored| stored.row_bytes());
        if self.bytes > self.limits.command_bytes_max {
            return Err(ChangeError::TooManyBytes { table, bytes_max: self.limits.command_bytes_max });
        }
        let (position, typed) = self.state.table_mut::<R>();
        if let Some(changed) = typed.change(number, stored, before, version, &mut self.scratch.0)? {
            let AnyChanged { old, new } = changed.into();
            self.changes.push(Change { table: position, number, old, new });
        }
        Ok(())
    }
}
