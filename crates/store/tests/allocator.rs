//! An allocator that counts, thread by thread, so that tests beside each other do not disturb the counts.

// Counting allocations is possible in no other way; each call is handed to the system's allocator as it came.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    static FREED: Cell<usize> = const { Cell::new(0) };
}

fn add(counter: &'static std::thread::LocalKey<Cell<usize>>, bytes: usize) {
    // A thread that is ending frees its last memory when its counters are gone already.
    let _ = counter.try_with(|count| count.set(count.get() + bytes));
}

// SAFETY: every call goes to the system's allocator with the arguments that it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(&ALLOCATED, layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        add(&FREED, layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        add(&FREED, layout.size());
        add(&ALLOCATED, new_size);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

/// Bytes that this thread allocated and freed while `work` ran.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, Counted) {
    let (allocated, freed) = (ALLOCATED.get(), FREED.get());
    let result = work();
    (result, Counted { allocated: ALLOCATED.get() - allocated, freed: FREED.get() - freed })
}

/// What one piece of work asked of the allocator.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub allocated: usize,
    pub freed: usize,
}

#[test]
fn the_counts_are_of_this_thread_alone() {
    let (kept, counts) = counted(|| {
        std::thread::spawn(|| drop(vec![0u8; 100_000])).join().unwrap();
        vec![0u8; 1000]
    });
    assert!(counts.allocated >= 1000 && counts.allocated < 50_000, "{counts:?}");
    let (_, counts) = counted(|| drop(kept));
    assert_eq!(counts.freed, 1000);
}
