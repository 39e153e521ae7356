//! Time that passes only when a test says so.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// A clock of whole microseconds that never goes back. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct VirtualClock {
    microseconds: Arc<AtomicU64>,
}

impl VirtualClock {
    /// A clock that shows `microseconds`.
    pub fn starting_at(microseconds: u64) -> Self {
        Self { microseconds: Arc::new(AtomicU64::new(microseconds)) }
    }

    /// The time in microseconds.
    pub fn now(&self) -> u64 {
        self.microseconds.load(Ordering::SeqCst)
    }

    /// Lets time pass and gives the new time.
    pub fn advance(&self, microseconds: u64) -> u64 {
        self.microseconds.fetch_add(microseconds, Ordering::SeqCst) + microseconds
    }

    /// Lets time pass until `microseconds`; nothing happens if that is over already.
    pub fn advance_to(&self, microseconds: u64) -> u64 {
        self.microseconds.fetch_max(microseconds, Ordering::SeqCst).max(microseconds)
    }
}
