//! Seeded randomness, and the loop over seeds that every random test runs.

/// A small generator (splitmix64): good enough for tests, the same on every machine.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    pub fn new(seed: u64) -> Generator {
        Generator(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True in `percent` of a hundred cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {seed}; STORE_TEST_SEED={seed} runs it alone", seed = self.0);
        }
    }
}

/// Runs a test with seeds 1 to `count`, or with the one that the environment names.
pub fn with_seeds(count: u64, test: impl Fn(u64, Generator)) {
    let chosen = std::env::var("STORE_TEST_SEED").ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = chosen.map_or(1..=count, |seed| seed..=seed);
    for seed in seeds {
        let _announce = Announce(seed);
        test(seed, Generator::new(seed));
    }
}
