//! The tables of a server's store.

use rollcall_store::{Store, StoreBuilder, StoreLimits};
use rollcall_types::{AgentRow, JobRow, SpecRow, Task};

/// A store with all tables of this version.
pub fn builder(limits: StoreLimits) -> StoreBuilder {
    Store::builder(limits).table::<Task>().table::<JobRow>().table::<SpecRow>().table::<AgentRow>()
}
