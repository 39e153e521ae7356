//! Reading what tasks wrote.

use rollcall_sandbox::{Outcome, READ_BYTES_MAX, Stream};

use crate::support::{PATIENCE, end, place, running, shell};

#[tokio::test]
async fn both_outputs_are_kept_apart_and_byte_for_byte() {
    let place = place();
    let sandbox = place.start(shell("a", r"printf '\377\000\376'; printf 'oops' >&2"));
    assert_eq!(end(&sandbox).await, Outcome::Exited { code: 0 });
    let read = |stream| sandbox.logs().read(stream, 0, 100).expect("is there").bytes;
    assert_eq!(read(Stream::Out), b"\xff\0\xfe");
    assert_eq!(read(Stream::Err), b"oops");
}

#[tokio::test]
async fn a_huge_output_is_read_in_bounded_pieces() {
    const BYTES: usize = 20_000_000;
    let place = place();
    let sandbox = place.start(shell("a", &format!("yes | head -c {BYTES}")));
    assert_eq!(end(&sandbox).await, Outcome::Exited { code: 0 });
    let (mut offset, mut reads) = (0, 0);
    loop {
        let chunk = sandbox.logs().read(Stream::Out, offset, usize::MAX).expect("is there");
        assert!(chunk.bytes.len() <= READ_BYTES_MAX);
        assert_eq!((chunk.from, chunk.length), (offset, BYTES as u64));
        if chunk.bytes.is_empty() {
            break;
        }
        offset = chunk.next();
        reads += 1;
    }
    assert_eq!((offset, reads), (BYTES as u64, BYTES.div_ceil(READ_BYTES_MAX)));
    let beyond = sandbox.logs().read(Stream::Out, u64::MAX, 3).expect("is there");
    assert_eq!((beyond.from, beyond.bytes.as_slice()), (0, b"y\ny".as_slice()), "the log was cut: from the start");
}

#[tokio::test]
async fn the_last_lines_are_found() {
    let place = place();
    let table = [
        ("", 3, ""),
        ("a", 1, "a"),
        ("a\n", 1, "a\n"),
        ("a\nb\nc\n", 2, "b\nc\n"),
        ("a\nb\nc", 2, "b\nc"),
        ("a\nb\n", 9, "a\nb\n"),
        ("a\nb\n", 0, ""),
        ("\n\n\n", 2, "\n\n"),
    ];
    for (number, (written, lines, expected)) in table.into_iter().enumerate() {
        let line = format!("printf '{}'", written.replace('\n', "\\n"));
        let sandbox = place.start(shell(&format!("a{number}"), &line));
        end(&sandbox).await;
        let start = sandbox.logs().start_of_last_lines(Stream::Out, lines).expect("is there");
        let read = sandbox.logs().read(Stream::Out, start, 100).expect("is there").bytes;
        assert_eq!(String::from_utf8_lossy(&read), expected, "last {lines} of {written:?}");
    }
    // Across the blocks in which the end of a log is searched.
    let sandbox = place.start(shell("long", "seq 1 100000"));
    end(&sandbox).await;
    let start = sandbox.logs().start_of_last_lines(Stream::Out, 50_000).expect("is there");
    let read = sandbox.logs().read(Stream::Out, start, 100).expect("is there").bytes;
    assert!(read.starts_with(b"50001\n50002\n"), "{}", String::from_utf8_lossy(&read));
}

#[tokio::test]
async fn a_follower_sees_every_byte_once_and_in_order() {
    const LINES: u64 = 20_000;
    let place = place();
    let sandbox = place.start(shell("a", &format!("seq 1 {LINES}; sleep 0.1; echo last; sleep 1000")));
    running(&sandbox).await;
    let mut follow = sandbox.logs().follow(Stream::Out, 0).expect("is there");
    let mut seen = Vec::new();
    while !seen.ends_with(b"last\n") {
        let chunk = tokio::time::timeout(PATIENCE, follow.next()).await.expect("more comes").expect("is readable");
        assert_eq!(chunk.from, seen.len() as u64);
        seen.extend(chunk.bytes);
    }
    let expected: String = (1..=LINES).map(|number| format!("{number}\n")).chain(["last\n".to_owned()]).collect();
    assert!(seen == expected.as_bytes(), "{} bytes instead of {}", seen.len(), expected.len());
    sandbox.stop(PATIENCE);
    end(&sandbox).await;
    assert!(follow.rest().await.expect("is readable").bytes.is_empty());
}

#[tokio::test]
async fn logs_stay_until_they_are_removed() {
    let place = place();
    place.run("a", "echo kept").await;
    let logs = place.sandboxes.logs("a").expect("the id is right");
    assert_eq!(logs.read(Stream::Out, 0, 100).expect("is there").bytes, b"kept\n");
    assert_eq!(place.sandboxes.existing().expect("is a folder"), ["a"]);
    place.sandboxes.remove("a").expect("is removed");
    place.sandboxes.remove("a").expect("nothing there is no error");
    assert!(logs.read(Stream::Out, 0, 100).expect_err("is gone").is_missing());
}
