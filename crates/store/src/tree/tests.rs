//! The packed map against a plain `BTreeMap`.

use super::packed::{High, KeyRange, PackedMap};
use crate::tree::PackedBuilder;
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
    let whole = |entry: super::packed::Entry<'_>| {
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
