//! What a fuzzer feeds foreign bytes to; an ordinary test runs each over a small corpus and over changes of it.

use crate::checkpoint::{chunks, read_broken};
use crate::generator::{Generator, with_seeds};
use crate::rows::{Event, File, Item, Link, Sighting, ThingLater};
use crate::world::{SMALL, World, random_item};
use rollcall_schema::{Row, fuzz_row as fuzz_row_of};
use rollcall_store::StoreLimits;
use std::path::{Path, PathBuf};

/// Reads bytes as a stored row of every table.
pub fn fuzz_row(bytes: &[u8]) {
    fuzz_row_of::<Item>(bytes);
    fuzz_row_of::<Event>(bytes);
    fuzz_row_of::<Sighting>(bytes);
    fuzz_row_of::<Link>(bytes);
    fuzz_row_of::<File>(bytes);
    fuzz_row_of::<ThingLater>(bytes);
}

/// Reads bytes as a record and as a chunk of a checkpoint, and uses what was loaded.
pub fn fuzz_record(bytes: &[u8]) {
    read_broken(bytes);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

/// The corpus; with `STORE_TEST_CORPUS=write` it is made anew from a small store first.
fn corpus(kind: &str) -> Vec<Vec<u8>> {
    let folder = folder().join(kind);
    if std::env::var("STORE_TEST_CORPUS").as_deref() == Ok("write") {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in made(kind) {
            std::fs::write(folder.join(name), bytes).unwrap();
        }
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 4, "the corpus in {} is not there", folder.display());
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

fn made(kind: &str) -> Vec<(String, Vec<u8>)> {
    let mut random = Generator::new(7);
    if kind == "rows" {
        let mut rows: Vec<(String, Vec<u8>)> = Vec::new();
        for number in 0..4 {
            let mut bytes = Vec::new();
            random_item(&mut random, SMALL).encode(&mut bytes);
            rows.push((format!("item-{number}"), bytes));
        }
        return rows;
    }
    let mut world = World::new(StoreLimits::default());
    for _ in 0..4 {
        world.commit(&mut random, SMALL, 4);
    }
    let records = world.records.iter().enumerate().map(|(number, record)| (format!("record-{number}"), record.clone()));
    let chunks = chunks(&world.snapshot()).into_iter().enumerate();
    records.chain(chunks.map(|(number, chunk)| (format!("chunk-{number}"), chunk))).collect()
}

fn changed(random: &mut Generator, corpus: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = random.pick(corpus).clone();
    for _ in 0..random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let position = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[position] = random.next() as u8,
            1 => bytes.truncate(position),
            2 => drop(bytes.drain(position..(position + 1 + random.below(9)).min(bytes.len()))),
            3 => {
                let other = random.pick(corpus);
                let from = random.below(other.len());
                bytes.extend_from_slice(&other[from..]);
            }
            _ => bytes.insert(position, random.next() as u8),
        }
    }
    bytes
}

fn run(kind: &str, tries: usize, fuzz: fn(&[u8])) {
    let corpus = corpus(kind);
    corpus.iter().for_each(|bytes| fuzz(bytes));
    with_seeds(2, |_, mut random| {
        for _ in 0..tries {
            fuzz(&changed(&mut random, &corpus));
        }
    });
}

#[test]
fn rows_of_the_corpus_and_changes_of_them_are_read_or_refused() {
    run("rows", 20_000, fuzz_row);
}

#[test]
fn records_of_the_corpus_and_changes_of_them_are_read_or_refused() {
    run("records", 2_000, fuzz_record);
}
