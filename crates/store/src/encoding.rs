//! Encodings: the wire forms of a page, made when first asked for, at most once per change, and shared by everyone who asks.
//!
//! All versions of a page share one [`EncodingCell`], which holds for each wire form the newest encoding that was made, with the number
//! and the version of each row in it. Who asks for the encoding of a page finds it there, or makes it: rows that were encoded before and
//! have not changed are copied from what is there, only the others are serialised. An encoding of an older version of the page is made in the same
//! way, but not kept: encodings belong to the newest version.
//!
//! When pages split or join, the parts inherit what their sources had.

use crate::page::{Numbers, Page};
use crate::words::{RowNumber, Version};
use rollcall_schema::Row;
use std::any::{Any, TypeId};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A wire form. Implementations are an open set: the store knows none of them.
pub trait Encoder<R: Row>: 'static {
    /// What a page becomes.
    type Encoded: Send + Sync + 'static;

    /// Encodes a page. Rows that [`Unchanged::source`] knows are to be copied from there, the others serialised.
    fn encode(&self, page: &Page<R>, unchanged: &Unchanged<'_, Self::Encoded>) -> Self::Encoded;

    /// Bytes that an encoding takes in memory, for the budget.
    fn bytes(&self, encoded: &Self::Encoded) -> usize;
}

/// Which rows of a page were encoded before and have not changed since.
pub struct Unchanged<'a, E> {
    sources: Vec<&'a E>,
    rows: Vec<Option<(u32, u32)>>,
}

impl<'a, E> Unchanged<'a, E> {
    /// The encoding that holds the row at this position of the page, and its position there; `None` if it must be serialised.
    pub fn source(&self, position: usize) -> Option<(&'a E, usize)> {
        let (source, row) = (*self.rows.get(position)?)?;
        Some((self.sources[source as usize], row as usize))
    }

    /// How many rows must be serialised.
    pub fn changed(&self) -> usize {
        self.rows.iter().filter(|row| row.is_none()).count()
    }
}

/// Encodings of one wire form, byte-wise: each row's fragment behind the other, as doors send them.
#[derive(Debug, Default, PartialEq)]
pub struct Fragments {
    /// The fragments of all rows.
    pub bytes: Vec<u8>,
    /// Where each row's fragment ends.
    pub ends: Vec<u32>,
}

impl Fragments {
    /// Encodes a page row by row: `write` appends the fragment of the row at a position, and is called for changed rows only.
    pub fn splice<R: Row>(
        page: &Page<R>,
        unchanged: &Unchanged<'_, Fragments>,
        mut write: impl FnMut(usize, &mut Vec<u8>),
    ) -> Fragments {
        let before: usize = unchanged.sources.iter().map(|source| source.bytes.len()).sum();
        let mut out =
            Fragments { bytes: Vec::with_capacity(before + before / 8), ends: Vec::with_capacity(page.len()) };
        for position in 0..page.len() {
            match unchanged.source(position) {
                Some((source, row)) => out.bytes.extend_from_slice(source.row(row)),
                None => write(position, &mut out.bytes),
            }
            out.ends.push(out.bytes.len() as u32);
        }
        out.bytes.shrink_to_fit();
        out
    }

    /// The fragment of the row at a position.
    pub fn row(&self, position: usize) -> &[u8] {
        let start = if position == 0 { 0 } else { self.ends[position - 1] as usize };
        &self.bytes[start..self.ends[position] as usize]
    }
}

/// The byte budget of all encodings of a store.
#[derive(Debug)]
pub struct EncodingBudget {
    bytes_max: usize,
    bytes: AtomicUsize,
    clock: AtomicU64,
    rows_serialised: AtomicU64,
    rows_evicted: AtomicU64,
    cells: Mutex<Vec<Weak<EncodingCell>>>,
}

/// What encodings cost so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodingCounts {
    /// Bytes held now.
    pub bytes: usize,
    /// Rows serialised since the start.
    pub rows_serialised: u64,
    /// Rows of encodings that were evicted since the start.
    pub rows_evicted: u64,
}

impl EncodingBudget {
    pub(crate) fn new(bytes_max: usize) -> Arc<EncodingBudget> {
        Arc::new(EncodingBudget {
            bytes_max,
            bytes: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
            rows_serialised: AtomicU64::new(0),
            rows_evicted: AtomicU64::new(0),
            cells: Mutex::new(Vec::new()),
        })
    }

    pub(crate) fn counts(&self) -> EncodingCounts {
        EncodingCounts {
            bytes: self.bytes.load(Ordering::Relaxed),
            rows_serialised: self.rows_serialised.load(Ordering::Relaxed),
            rows_evicted: self.rows_evicted.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn cell(self: &Arc<Self>) -> Arc<EncodingCell> {
        Arc::new(EncodingCell::empty(self))
    }

    /// Notes a cell that holds something from now on.
    fn register(&self, cell: &Arc<EncodingCell>) {
        let mut cells = lock(&self.cells);
        if cells.len() == cells.capacity() {
            cells.retain(|cell| cell.strong_count() > 0);
        }
        cells.push(Arc::downgrade(cell));
    }

    /// Drops encodings, those least recently used first, until an eighth of the budget is free.
    fn evict(&self, spared: &Arc<EncodingCell>) {
        let mut cells = lock(&self.cells);
        let mut live: Vec<_> = cells.iter().filter_map(Weak::upgrade).collect();
        live.sort_by_key(|cell| cell.last_used.load(Ordering::Relaxed));
        for cell in &live {
            if self.bytes.load(Ordering::Relaxed) <= self.bytes_max / 8 * 7 {
                break;
            }
            if !Arc::ptr_eq(cell, spared) {
                cell.filled.store(false, Ordering::Relaxed);
                let dropped = std::mem::take(&mut *lock(&cell.state));
                let rows: usize = dropped.slots.iter().map(|slot| slot.changed.len()).sum();
                self.rows_evicted.fetch_add(rows as u64, Ordering::Relaxed);
            }
        }
        cells.retain(|cell| cell.upgrade().is_some_and(|cell| cell.filled.load(Ordering::Relaxed)));
    }
}

/// One encoding that was made, and which rows it holds.
struct Slot {
    form: TypeId,
    encoded: Arc<dyn Any + Send + Sync>,
    numbers: Arc<Numbers>,
    changed: Box<[Version]>,
    /// The version of the page that was encoded. It may be later than that of every row: a row that went leaves no stamp.
    of: Version,
    charge: Arc<Charge>,
}

/// Bytes charged to the budget for as long as any cell holds the encoding.
struct Charge {
    budget: Arc<EncodingBudget>,
    bytes: usize,
}

impl Charge {
    /// Charged at once: as soon as a cell holds the encoding, somebody else can drop it.
    fn new(budget: &Arc<EncodingBudget>, bytes: usize) -> Charge {
        budget.bytes.fetch_add(bytes, Ordering::Relaxed);
        Charge { budget: budget.clone(), bytes }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The encodings of one page through its versions.
pub(crate) struct EncodingCell {
    budget: Arc<EncodingBudget>,
    last_used: AtomicU64,
    /// Whether there is anything to inherit; set by readers, read by the writer without a lock.
    filled: AtomicBool,
    /// How many cells stand behind this one without a reader having asked in between.
    generation: AtomicU8,
    state: Mutex<CellState>,
}

#[derive(Default)]
struct CellState {
    slots: Vec<Slot>,
    /// Cells of the pages that this one came from, whose slots are taken over when somebody first asks. The writer splits and joins pages and
    /// must not wait for a reader that is just encoding one, so it only notes the source here.
    sources: Vec<Arc<EncodingCell>>,
}

/// After so many splits and joins in a row without a reader, what was encoded before is not worth keeping.
const GENERATIONS_MAX: u8 = 8;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What the locks here guard is whole between two statements, so a panic of an encoder leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EncodingCell {
    fn empty(budget: &Arc<EncodingBudget>) -> EncodingCell {
        EncodingCell {
            budget: budget.clone(),
            last_used: AtomicU64::new(0),
            filled: AtomicBool::new(false),
            generation: AtomicU8::new(0),
            state: Mutex::default(),
        }
    }

    /// A cell for a page that is a part of this cell's page, or that page joined with another one.
    pub(crate) fn successor(self: &Arc<Self>, joined: Option<&Arc<EncodingCell>>) -> Arc<EncodingCell> {
        let useful = |cell: &&Arc<EncodingCell>| {
            let generation = cell.generation();
            generation < GENERATIONS_MAX && (generation > 0 || cell.filled.load(Ordering::Relaxed))
        };
        let sources: Vec<_> = [Some(self), joined].into_iter().flatten().filter(useful).cloned().collect();
        let mut cell = EncodingCell::empty(&self.budget);
        if let Some(generation) = sources.iter().map(|cell| cell.generation()).max() {
            cell.generation = AtomicU8::new(generation + 1);
            cell.state = Mutex::new(CellState { slots: Vec::new(), sources });
        }
        Arc::new(cell)
    }

    fn generation(&self) -> u8 {
        self.generation.load(Ordering::Acquire)
    }

    /// Takes over what the sources hold.
    fn inherit(state: &mut CellState) {
        for source in std::mem::take(&mut state.sources) {
            let mut source = lock(&source.state);
            EncodingCell::inherit(&mut source);
            state.slots.extend(source.slots.iter().map(Slot::share));
        }
    }

    /// The encoding of `page`, whose cell this is.
    pub(crate) fn encoded<R: Row, E: Encoder<R>>(self: &Arc<Self>, page: &Page<R>, encoder: &E) -> Arc<E::Encoded> {
        let form = TypeId::of::<E>();
        self.last_used.store(self.budget.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        // Held while encoding: who asks for the same meanwhile waits for it instead of making it again.
        let mut state = lock(&self.state);
        EncodingCell::inherit(&mut state);
        let slots = &mut state.slots;
        if let Some(found) = slots.iter().find(|slot| slot.form == form && slot.is_of(page))
            && let Ok(encoded) = found.encoded.clone().downcast::<E::Encoded>()
        {
            return encoded;
        }
        let sources: Vec<&Slot> = slots.iter().filter(|slot| slot.form == form).collect();
        let unchanged = unchanged::<R, E>(page, &sources);
        self.budget.rows_serialised.fetch_add(unchanged.changed() as u64, Ordering::Relaxed);
        let encoded = Arc::new(encoder.encode(page, &unchanged));
        if sources.iter().all(|slot| slot.of <= page.changed()) {
            slots.retain(|slot| slot.form != form);
            let bytes = encoder.bytes(&encoded);
            slots.push(Slot::of(form, encoded.clone(), page, bytes, &self.budget));
            drop(state);
            if !self.filled.swap(true, Ordering::Relaxed) {
                self.budget.register(self);
            }
            // A reader has asked. Stored behind `filled`, so that a split that runs beside finds one or the other.
            self.generation.store(0, Ordering::Release);
            if self.budget.bytes.load(Ordering::Relaxed) > self.budget.bytes_max {
                self.budget.evict(self);
            }
        }
        encoded
    }
}

impl Slot {
    fn of<R: Row>(
        form: TypeId,
        encoded: Arc<dyn Any + Send + Sync>,
        page: &Page<R>,
        bytes: usize,
        budget: &Arc<EncodingBudget>,
    ) -> Slot {
        let changed = page.rows().iter().map(|row| row.changed).collect();
        let charge = Arc::new(Charge::new(budget, bytes));
        Slot { form, encoded, numbers: Arc::new(page.row_numbers().clone()), changed, of: page.changed(), charge }
    }

    fn share(&self) -> Slot {
        Slot {
            form: self.form,
            encoded: self.encoded.clone(),
            numbers: self.numbers.clone(),
            changed: self.changed.clone(),
            of: self.of,
            charge: self.charge.clone(),
        }
    }

    fn is_of<R: Row>(&self, page: &Page<R>) -> bool {
        *self.numbers == *page.row_numbers()
            && self.changed.iter().zip(page.rows()).all(|(changed, row)| *changed == row.changed)
    }
}

fn unchanged<'a, R: Row, E: Encoder<R>>(page: &Page<R>, slots: &[&'a Slot]) -> Unchanged<'a, E::Encoded> {
    let sources: Vec<(&Slot, &'a E::Encoded)> =
        slots.iter().filter_map(|slot| Some((*slot, slot.encoded.downcast_ref::<E::Encoded>()?))).collect();
    let find = |(number, changed): (RowNumber, Version)| {
        sources.iter().enumerate().find_map(|(source, (slot, _))| {
            let position = slot.numbers.search(number).ok()?;
            (slot.changed[position] == changed).then_some((source as u32, position as u32))
        })
    };
    let rows = page.numbers().zip(page.rows()).map(|(number, row)| find((number, row.changed))).collect();
    Unchanged { sources: sources.into_iter().map(|(_, encoded)| encoded).collect(), rows }
}
