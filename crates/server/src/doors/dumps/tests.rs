//! Admission of whole copies: who waits, who gives way, who is cut off.

use super::{DUMPS_AT_ONCE_MAX, DumpBody, DumpError, Dumps, LOOK_EVERY, PACE_BYTES_MIN, SLOW_READERS_MAX};
use http_body_util::BodyExt;
use hyper::body::Body;
use rollcall_wire_native::Chunk;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Chunks of such a size that reading one between two looks is pace enough.
fn body(dumps: &Arc<Dumps>, chunks: usize, begun: &Arc<AtomicUsize>) -> DumpBody {
    let begun = begun.clone();
    dumps.body(move || {
        begun.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new((0..chunks).map(|_| Chunk::Own(vec![b'x'; PACE_BYTES_MIN as usize]))))
    })
}

/// Reads the next chunk if it is there; the pauses between turns are passed over.
fn poll(body: &mut DumpBody) -> Poll<Option<Result<usize, DumpError>>> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(&mut context) {
            let bytes = |frame: hyper::body::Frame<bytes::Bytes>| frame.into_data().map_or(0, |bytes| bytes.len());
            return Poll::Ready(frame.map(|frame| frame.map(bytes)));
        }
    }
    Poll::Pending
}

fn sends(body: &mut DumpBody) -> bool {
    matches!(poll(body), Poll::Ready(Some(Ok(1..))))
}

#[tokio::test]
async fn a_copy_begins_when_its_turn_comes_in_the_order_of_asking() {
    let (dumps, begun) = (Dumps::new(), Arc::new(AtomicUsize::new(0)));
    let mut bodies: Vec<_> = (0..DUMPS_AT_ONCE_MAX + 2).map(|_| body(&dumps, 3, &begun)).collect();
    let running: Vec<bool> = bodies.iter_mut().map(sends).collect();
    assert_eq!(running.iter().filter(|sends| **sends).count(), DUMPS_AT_ONCE_MAX);
    assert_eq!(begun.load(Ordering::Relaxed), DUMPS_AT_ONCE_MAX, "who waits has not begun");
    let rest = bodies.remove(0).collect().await.expect("nothing fails").to_bytes();
    assert_eq!(rest.len() as u64, 2 * PACE_BYTES_MIN);
    assert!(sends(&mut bodies[DUMPS_AT_ONCE_MAX - 1]) && !sends(&mut bodies[DUMPS_AT_ONCE_MAX]));
    // A reader that goes away while it is sent or waits makes room too.
    drop(bodies.remove(0));
    assert!(sends(bodies.last_mut().expect("one is left")));
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_takes_nothing_gives_up_its_place_and_is_cut_off_when_they_are_many() {
    let (dumps, begun) = (Dumps::new(), Arc::new(AtomicUsize::new(0)));
    let mut slow = Vec::new();
    let many = DUMPS_AT_ONCE_MAX + SLOW_READERS_MAX;
    while slow.len() < many {
        slow.extend((0..DUMPS_AT_ONCE_MAX).map(|_| body(&dumps, 9, &begun)));
        assert!(slow.iter_mut().rev().take(DUMPS_AT_ONCE_MAX).all(sends), "places were given up");
        tokio::time::sleep(LOOK_EVERY * 3).await;
    }
    let ends: Vec<_> = slow.iter_mut().map(poll).collect();
    let cut = ends.iter().filter(|end| matches!(end, Poll::Ready(Some(Err(DumpError::CutOff))))).count();
    assert_eq!(cut, many - SLOW_READERS_MAX);
    assert!(
        ends[cut..].iter().all(|end| matches!(end, Poll::Ready(Some(Ok(_))))),
        "the others go on at their own pace"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_goes_on_reading_keeps_its_place() {
    let (dumps, begun) = (Dumps::new(), Arc::new(AtomicUsize::new(0)));
    let mut bodies: Vec<_> = (0..=DUMPS_AT_ONCE_MAX).map(|_| body(&dumps, 100, &begun)).collect();
    for _ in 0..20 {
        assert!(bodies[..DUMPS_AT_ONCE_MAX].iter_mut().all(sends));
        assert!(!sends(&mut bodies[DUMPS_AT_ONCE_MAX]));
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
