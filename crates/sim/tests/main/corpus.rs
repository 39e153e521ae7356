use std::path::Path;

use rollcall_sim::Random;
use rollcall_sim::fuzz_log_reader;

#[test]
fn the_log_reader_bears_the_stored_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/log_reader");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        fuzz_log_reader(&std::fs::read(path).unwrap());
        count += 1;
    }
    assert!(count > 10, "only {count} files");
}

#[test]
fn the_log_reader_bears_bytes_of_chance() {
    for seed in 0..3000 {
        println!("seed {seed}");
        let mut random = Random::new(seed);
        let length = random.below(300) as usize;
        let mut bytes = random.bytes(length);
        // Mostly small numbers: they make files that are nearly sound.
        for byte in &mut bytes {
            if !random.one_in(4) {
                *byte %= 4;
            }
        }
        fuzz_log_reader(&bytes);
    }
}
