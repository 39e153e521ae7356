//! Counting what is allocated.

use mimalloc::MiMalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Threads that have counters of their own; all later ones share the last.
const SLOTS: usize = 64;

/// The counters of one thread, on cache lines of their own.
#[repr(align(128))]
struct Slot {
    allocated: AtomicU64,
    freed: AtomicU64,
}

static COUNTS: [Slot; SLOTS] = [const { Slot { allocated: AtomicU64::new(0), freed: AtomicU64::new(0) } }; SLOTS];
static COUNTING: AtomicBool = AtomicBool::new(false);
static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static SLOT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// mimalloc, and once [`count_allocations`] was called, two sums per thread beside it. A binary that wants allocations in its report makes it
/// the global allocator. As long as nothing is counted it costs a branch; a server, whose threads come and go until all of them share one
/// counter, would pay a fifth more for each allocation if it counted.
pub struct CountingAllocator;

/// Counts from now on, until the process ends. Blocks that are there already count only when they go.
pub fn count_allocations() {
    COUNTING.store(true, Relaxed);
}

/// Bytes as they were asked for, without what the allocator adds.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    /// Bytes allocated since the process started; a block that grows counts in full again.
    pub total: u64,
    /// Bytes allocated and not freed.
    pub live: u64,
}

/// The sums over all threads; `None` if nothing is counted, or the process runs on another allocator.
pub fn allocated() -> Option<Allocated> {
    let sum = |counter: fn(&Slot) -> &AtomicU64| {
        COUNTS.iter().map(|slot| counter(slot).load(Relaxed)).fold(0, u64::wrapping_add)
    };
    let (freed, total) = (sum(|slot| &slot.freed), sum(|slot| &slot.allocated));
    (total > 0).then_some(Allocated { total, live: total.saturating_sub(freed) })
}

#[inline]
fn count(counter: fn(&Slot) -> &AtomicU64, bytes: usize) {
    if COUNTING.load(Relaxed) {
        count_here(counter, bytes);
    }
}

fn count_here(counter: fn(&Slot) -> &AtomicU64, bytes: usize) {
    let mut slot = SLOT.get();
    if slot == usize::MAX {
        slot = NEXT_SLOT.fetch_add(1, Relaxed).min(SLOTS - 1);
        SLOT.set(slot);
    }
    let counter = counter(&COUNTS[slot]);
    if slot < SLOTS - 1 {
        // Only this thread writes the counter, so no locked instruction is needed.
        counter.store(counter.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
    } else {
        counter.fetch_add(bytes as u64, Relaxed);
    }
}

// SAFETY: every call is passed on unchanged to mimalloc, which keeps the contract; counting touches no memory of the caller.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(|slot| &slot.allocated, layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(|slot| &slot.allocated, layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(|slot| &slot.freed, layout.size());
        // SAFETY: as above.
        unsafe { MiMalloc.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(|slot| &slot.freed, layout.size());
        count(|slot| &slot.allocated, new_size);
        // SAFETY: as above.
        unsafe { MiMalloc.realloc(block, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::{CountingAllocator, allocated, count_allocations};

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator;

    #[test]
    fn blocks_are_counted_when_they_come_and_go_on_any_thread() {
        count_allocations();
        let live = || allocated().map_or(0, |counts| counts.live) as i64;
        let before = live();
        let block = vec![1u8; 64 << 20];
        // Other tests of this process allocate meanwhile, but not by megabytes.
        assert!((live() - before - (64 << 20)).abs() < 8 << 20);
        std::thread::spawn(move || drop(block)).join().expect("the thread only frees");
        assert!((live() - before).abs() < 8 << 20);
    }
}
