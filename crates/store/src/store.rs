//! The store: what is published, what is kept of the past, what watchers may ask for.

use crate::encoding::{EncodingBudget, EncodingCounts};
use crate::limits::StoreLimits;
use crate::retained::{AsOf, AsOfError, Retained};
use crate::snapshot::{AnyTable, Snapshot, State};
use crate::table::Table;
use crate::tree::PackedMap;
use crate::watch::Ring;
use crate::words::Version;
use crate::writer::{Prepared, Writer};
use arc_swap::ArcSwap;
use rollcall_schema::{Row, Time};
use std::any::TypeId;
use std::sync::Arc;

/// Bytes of the value beside a blob's hash: how many rows name it.
const BLOB_COUNT_BYTES: usize = 8;

/// Called after each commit is visible, with its version; it must not block.
pub type OnPublish = Box<dyn Fn(Version) + Send + Sync>;

/// One versioned store. Everybody shares it; only its [`Writer`] changes it.
pub struct Store {
    published: ArcSwap<State>,
    limits: StoreLimits,
    budget: Arc<EncodingBudget>,
    retained: Retained,
    pub(crate) ring: Ring,
    on_publish: OnPublish,
}

/// Which tables a store has.
pub struct StoreBuilder {
    pub(crate) limits: StoreLimits,
    pub(crate) budget: Arc<EncodingBudget>,
    pub(crate) types: Vec<TypeId>,
    pub(crate) tables: Vec<Arc<dyn AnyTable>>,
    on_publish: OnPublish,
}

impl Store {
    /// Starts to describe a store.
    pub fn builder(limits: StoreLimits) -> StoreBuilder {
        let budget = EncodingBudget::new(limits.encoding_bytes_max);
        StoreBuilder { limits, budget, types: Vec::new(), tables: Vec::new(), on_publish: Box::new(|_| {}) }
    }

    /// The newest version.
    #[inline]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { state: self.published.load_full() }
    }

    /// The newest retained version that is not later than what is asked for; it says itself which one it is.
    ///
    /// # Errors
    /// If it is no longer held, or not yet there.
    pub fn as_of(&self, when: AsOf) -> Result<Snapshot, AsOfError> {
        self.retained.find(when, &self.snapshot())
    }

    /// The limits it was built with.
    pub fn limits(&self) -> &StoreLimits {
        &self.limits
    }

    /// What encodings cost so far.
    pub fn encoding_counts(&self) -> EncodingCounts {
        self.budget.counts()
    }

    /// Bytes held only for old versions, and how many of these there are.
    pub fn retained(&self) -> (usize, usize) {
        self.retained.held()
    }

    /// Lets go of old versions and of what watchers could still ask for: they are told to read again.
    pub fn release_history(&self) {
        self.retained.clear();
        self.ring.clear();
    }

    /// Makes a prepared batch visible. Batches are published in the order in which they were prepared, each once its record is on disk.
    pub fn publish(&self, prepared: Prepared) {
        let (version, time) = (prepared.snapshot.version(), prepared.snapshot.time());
        // It is kept before it is replaced: who has just seen it and asks for it must not be given an older one.
        self.retained.push(self.snapshot(), prepared.copied_bytes, time);
        self.published.store(prepared.snapshot.state.clone());
        self.ring.push(version, time, prepared.changes);
        (self.on_publish)(version);
    }
}

impl StoreBuilder {
    /// Adds a table.
    ///
    /// # Panics
    /// If a table of that name, number or row type is there already, or declares more than it may: mistakes of ours that every start shows.
    #[must_use]
    pub fn table<R: Row>(mut self) -> StoreBuilder {
        let schema = R::schema();
        for other in &self.tables {
            let other = other.schema();
            assert!(other.name != schema.name && other.number != schema.number, "table {} is there twice", schema.name);
        }
        assert!(
            schema.rollups.iter().all(|rollup| rollup.sums.len() < 16),
            "a rollup of {} has too many sums",
            schema.name
        );
        self.types.push(TypeId::of::<R>());
        self.tables.push(Arc::new(Table::<R>::new(&self.budget)));
        self
    }

    /// Calls `notify` after each commit is visible.
    #[must_use]
    pub fn on_publish(mut self, notify: OnPublish) -> StoreBuilder {
        self.on_publish = notify;
        self
    }

    /// An empty store and its writer.
    pub fn build(self) -> (Arc<Store>, Writer) {
        let state = self.state();
        self.build_from(state)
    }

    /// The state in which nothing has happened yet.
    pub(crate) fn state(&self) -> State {
        State {
            version: Version::NOTHING,
            time: Time::EPOCH,
            types: self.types.clone().into(),
            tables: self.tables.clone(),
            next_number: 1,
            blobs: PackedMap::new(BLOB_COUNT_BYTES),
        }
    }

    pub(crate) fn build_from(self, state: State) -> (Arc<Store>, Writer) {
        let store = Arc::new(Store {
            ring: Ring::new(self.limits.watch_bytes_max, state.version),
            retained: Retained::new(self.limits.retained_bytes_max),
            published: ArcSwap::from_pointee(state),
            limits: self.limits,
            budget: self.budget,
            on_publish: self.on_publish,
        });
        let writer = Writer::new(store.clone());
        (store, writer)
    }
}
