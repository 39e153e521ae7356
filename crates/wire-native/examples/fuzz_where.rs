//! Changes the committed conditions at random and reads them: `cargo run --release --example fuzz_where -- ROUNDS SEED`.
//!
//! It ends with a panic that shows the text if one does harm; that text belongs into `tests/corpus/where`. The same rounds and seed give the
//! same texts.

use rollcall_wire_native::fuzz_where;

const WORDS: &[&str] = &[
    "and",
    "or",
    "not",
    "in",
    "like",
    "is",
    "null",
    "true",
    "between",
    "job",
    "state",
    "active",
    "started",
    "uid",
    "events",
    "labels.team",
    "'",
    "''",
    "'running'",
    "'%_'",
    "'2026-11-30T03:07:12.5+01:00'",
    "(",
    ")",
    ",",
    "=",
    "<>",
    "<=",
    "-",
    "1",
    "18446744073709551616",
    " ",
    "\n",
    "\u{a0}",
    "é",
    "\0",
];

/// A sequence of numbers that looks random: Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// One change at a random place.
fn change(text: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    let (from, to) = (random.below(text.len() + 1), random.below(text.len() + 1));
    let range = from.min(to)..from.max(to);
    match random.below(6) {
        0 => drop(text.drain(range)),
        1 => {
            let part = text[range].to_vec();
            text.splice(to..to, part);
        }
        2 => {
            let start = random.below(other.len() + 1);
            text.splice(range, other[start..].iter().copied());
        }
        3 if from < text.len() => text[from] = random.below(256) as u8,
        _ => {
            let word = WORDS[random.below(WORDS.len())];
            text.splice(from..from, word.bytes());
        }
    }
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut argument = |default| arguments.next().and_then(Result::ok).unwrap_or(default);
    let (rounds, seed) = (argument(1_000_000), argument(1));
    println!("{rounds} rounds from seed {seed}");
    let mut texts = Vec::new();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/where");
    let mut paths = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    // The order of a folder differs from machine to machine.
    paths.sort();
    for path in paths {
        texts.push(std::fs::read(path)?);
    }
    let mut random = Random(seed.max(1));
    for _ in 0..rounds {
        let mut text = texts[random.below(texts.len())].clone();
        for _ in 0..=random.below(4) {
            let other = random.below(texts.len());
            change(&mut text, &texts[other], &mut random);
        }
        fuzz_where(&text);
    }
    println!("no harm done");
    Ok(())
}
