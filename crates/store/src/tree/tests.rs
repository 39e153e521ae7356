//! The packed map against a plain `BTreeMap`.

use super::packed::Entry;
use super::{Deferred, High, KeyRange, PackedBuilder, PackedMap, Pool};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A small generator with a printed seed, so that a failure can be replayed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

fn key(random: &mut Random, spread: u64) -> Vec<u8> {
    let number = random.below(spread);
    let mut key = match number % 5 {
        0 => b"job-".to_vec(),
        1 => b"job-with-a-longer-name-".to_vec(),
        2 => vec![0xff; (number % 40) as usize],
        3 => vec![b'x'; (number % 700) as usize],
        _ => Vec::new(),
    };
    key.extend_from_slice(&number.to_be_bytes()[4..]);
    key
}

fn check_range(map: &PackedMap, model: &BTreeMap<Vec<u8>, [u8; 4]>, low: &[u8], high: Option<&[u8]>) {
    let bounds = (Bound::Included(low), high.map_or(Bound::Unbounded, Bound::Excluded));
    let wanted: Vec<_> = if high.is_some_and(|high| high <= low) {
        Vec::new()
    } else {
        model.range::<[u8], _>(bounds).map(|(key, value)| (key.clone(), value.to_vec())).collect()
    };
    let whole = |entry: Entry<'_>| {
        let mut key = Vec::new();
        entry.put_key(&mut key);
        (key, entry.value.to_vec())
    };
    let range = KeyRange { low: low.to_vec(), high: high.map_or(High::Open, |high| High::Key(high.to_vec())) };
    assert_eq!(map.range(range.clone()).map(whole).collect::<Vec<_>>(), wanted);
    let falling: Vec<_> = map.range_back(range).map(whole).collect();
    assert_eq!(falling, wanted.into_iter().rev().collect::<Vec<_>>());
    let prefix = &low[..low.len().min(5)];
    let wanted: Vec<_> = model
        .iter()
        .filter(|(key, _)| key.starts_with(prefix))
        .map(|(key, value)| (key.clone(), value.to_vec()))
        .collect();
    let range = KeyRange::starting_with(prefix.to_vec());
    assert_eq!(map.range(range.clone()).map(whole).collect::<Vec<_>>(), wanted);
    let falling: Vec<_> = map.range_back(range).map(whole).collect();
    assert_eq!(falling, wanted.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn a_packed_map_is_an_ordered_map() {
    for seed in 0..40 {
        let mut random = Random(seed);
        println!("seed {seed}");
        let spread = [30, 500, 20_000][seed as usize % 3];
        let (mut map, mut model) = (PackedMap::new(4), BTreeMap::new());
        let mut kept = Vec::new();
        for step in 0..3_000u32 {
            let key = key(&mut random, spread);
            // Phases of growth and of shrinking, so that splits and joins both happen.
            if random.below(10) < if (step / 700) % 2 == 0 { 8 } else { 2 } {
                map.insert(&key, &step.to_le_bytes());
                model.insert(key, step.to_le_bytes());
            } else {
                assert_eq!(map.remove(&key), model.remove(&key).is_some());
            }
            assert_eq!(map.len(), model.len());
            if step % 500 == 0 {
                kept.push((map.clone(), model.clone()));
            }
            if step % 50 == 0 {
                let (low, high) = (self::key(&mut random, spread), self::key(&mut random, spread));
                assert_eq!(map.get(&low), model.get(&low).map(|value| value.as_slice()));
                check_range(&map, &model, &low, Some(&high));
                check_range(&map, &model, &low, None);
            }
        }
        for (map, model) in &kept {
            check_range(map, model, &[], None);
        }
        let mut builder = PackedBuilder::new(4);
        model.iter().for_each(|(key, value)| builder.push(&key[..key.len() / 2], &key[key.len() / 2..], value));
        let whole = builder.finish();
        check_range(&whole, &model, &[], None);
        let entries: Vec<_> = model.keys().cloned().collect();
        for key in entries {
            assert!(map.remove(&key));
        }
        assert_eq!((map.len(), map.leaf_count()), (0, 0));
    }
}

#[test]
fn a_map_that_waits_with_its_changes_is_read_as_if_it_did_not() {
    for seed in 0..40 {
        let mut random = Random(seed);
        println!("seed {seed}");
        let spread = [30, 500, 20_000][seed as usize % 3];
        let (mut pool, mut model) = (Pool::default(), BTreeMap::new());
        let mut map = Deferred::of(PackedMap::new(4));
        let mut kept = Vec::new();
        for step in 0..6_000u32 {
            let key = key(&mut random, spread);
            let grows = random.below(10) < if (step / 1_500) % 2 == 0 { 8 } else { 2 };
            let pending = map.pending(&mut pool);
            if grows {
                pending.put(|out| out.extend_from_slice(&key), &step.to_le_bytes());
                model.insert(key.clone(), step.to_le_bytes());
            } else {
                pending.remove(|out| out.extend_from_slice(&key));
                model.remove(&key);
            }
            pending.touch(true, 3);
            // The first entry of a prefix is asked for in between, as unique indexes are.
            let prefix = &key[..key.len() - 3];
            let first = map.first_with(prefix).map(|entry| entry.value.to_vec());
            let wanted = model.range(prefix.to_vec()..).next().filter(|(key, _)| key.starts_with(prefix));
            assert_eq!(first, wanted.map(|(_, value)| value.to_vec()));
            if random.below(200) == 0 {
                assert_eq!(map.read().len(), model.len());
                check_range(map.read(), &model, &key, None);
            }
            if random.below(300) == 0 {
                assert_eq!(map.settled(&mut pool).len(), model.len());
                kept.push((map.clone(), model.clone()));
            }
        }
        for (map, model) in &kept {
            check_range(map.read(), model, &[], None);
        }
    }
}

/// The counts and sums that a map holds, by key.
fn sums(map: &PackedMap) -> Vec<(Vec<u8>, [u64; 2])> {
    let whole = |entry: Entry<'_>| {
        let mut key = Vec::new();
        entry.put_key(&mut key);
        let (numbers, _) = entry.value.as_chunks::<8>();
        (key, [u64::from_le_bytes(numbers[0]), u64::from_le_bytes(numbers[1])])
    };
    map.range(KeyRange::all()).map(whole).collect()
}

#[test]
fn sums_that_wait_are_those_of_what_is_there() {
    for seed in 0..20 {
        let mut random = Random(seed);
        println!("seed {seed}");
        let (mut pool, mut model) = (Pool::default(), BTreeMap::<Vec<u8>, Vec<u64>>::new());
        let mut map = Deferred::of(PackedMap::new(16));
        for step in 0..4_000 {
            let key = key(&mut random, [10, 300][seed as usize % 2]);
            let there = model.entry(key.clone()).or_default();
            let comes = there.is_empty() || random.below(10) < if (step / 1_000) % 2 == 0 { 7 } else { 2 };
            let number =
                if comes { random.next() } else { there.swap_remove(random.below(there.len() as u64) as usize) };
            let numbers = [1, number].map(|number| if comes { number } else { number.wrapping_neg() });
            map.pending(&mut pool).add(|out| out.extend_from_slice(&key), numbers.into_iter());
            if comes {
                there.push(number);
            }
            let sum =
                |there: &[u64]| [there.len() as u64, there.iter().fold(0, |sum: u64, more| sum.wrapping_add(*more))];
            let is_due = [random.below(100), random.below(100)].map(|number| number == 0);
            if is_due[0] {
                map.settled(&mut pool);
            }
            if is_due[1] || step == 3_999 {
                let filled = model.iter().filter(|(_, there)| !there.is_empty());
                assert_eq!(sums(map.read()), filled.map(|(key, there)| (key.clone(), sum(there))).collect::<Vec<_>>());
            }
        }
    }
}

/// A key of bytes that are easily taken for each other: zeros that may be there or filled up, ones, and the greatest byte; some start with up to
/// nearly as many equal bytes as a key can have.
fn awkward_key(random: &mut Random) -> Vec<u8> {
    let common = match random.below(12) {
        0 => 4_060,
        1 => 600,
        2 => 17,
        3 => 15,
        _ => 0,
    };
    let mut key = vec![[0, 1, 0xff][random.below(3) as usize]; common];
    key.extend((0..1 + random.below(13)).map(|_| [0, 0, 1, 0xff][random.below(4) as usize]));
    key
}

#[test]
fn keys_that_differ_in_little_but_their_length_are_kept_apart() {
    for seed in 0..4 {
        let mut random = Random(seed);
        println!("seed {seed}");
        let (mut pool, mut model) = (Pool::default(), BTreeMap::new());
        let mut map = Deferred::of(PackedMap::new(4));
        let mut kept = Vec::new();
        for round in 0..30u32 {
            // Batches from a single change to so many that a leaf becomes many levels at once.
            let most = [1, 20, 1_500][random.below(3) as usize];
            let grows = if (round / 10) % 2 == 0 { 8 } else { 2 };
            for _ in 0..1 + random.below(most) {
                let key = awkward_key(&mut random);
                let value = (random.next() as u32).to_le_bytes();
                if random.below(10) < grows {
                    map.pending(&mut pool).put(|out| out.extend_from_slice(&key), &value);
                    model.insert(key, value);
                } else {
                    map.pending(&mut pool).remove(|out| out.extend_from_slice(&key));
                    model.remove(&key);
                }
            }
            if random.below(3) == 0 {
                map.settled(&mut pool);
            }
            assert_eq!(map.read().len(), model.len());
            let (low, high) = (awkward_key(&mut random), awkward_key(&mut random));
            for key in [&low, &high] {
                assert_eq!(map.read().get(key), model.get(key).map(|value| value.as_slice()));
            }
            check_range(map.read(), &model, &low, Some(&high));
            check_range(map.read(), &model, &low, None);
            check_range(map.read(), &model, &[], None);
            for key in model.keys().step_by(7) {
                assert_eq!(map.read().get(key), model.get(key).map(|value| value.as_slice()));
            }
            if round % 10 == 0 {
                kept.push((map.clone(), model.clone()));
            }
        }
        for (map, model) in &kept {
            check_range(map.read(), model, &[], None);
        }
        let mut builder = PackedBuilder::new(4);
        model.iter().for_each(|(key, value)| builder.push(&key[..key.len() / 3], &key[key.len() / 3..], value));
        check_range(&builder.finish(), &model, &[], None);
        model.keys().for_each(|key| map.pending(&mut pool).remove(|out| out.extend_from_slice(key)));
        assert_eq!((map.settled(&mut pool).len(), map.settled(&mut pool).leaf_count()), (0, 0));
    }
}

#[test]
fn what_was_copied_counts_however_often_a_map_is_read_meanwhile() {
    let mut pool = Pool::default();
    let mut filled = Deferred::of(PackedMap::new(4));
    for number in 0..20_000u32 {
        filled.pending(&mut pool).put(|out| out.extend_from_slice(&number.to_be_bytes()), &[0; 4]);
    }
    filled.settled(&mut pool).take_copied();
    let mut copied = |reads: bool| {
        let mut map = filled.clone();
        for number in [1u32, 10_000, 19_999] {
            map.pending(&mut pool).put(|out| out.extend_from_slice(&number.to_be_bytes()), &[1; 4]);
            assert!(!reads || map.read().len() == 20_000);
        }
        map.settled(&mut pool).take_copied()
    };
    let (once, often) = (copied(false), copied(true));
    assert!(once > 0 && often >= once, "{often} bytes when read between the changes, {once} when not");
}
