//! The row numbers of a page.

use super::PAGE_ROWS_MAX;
use crate::words::RowNumber;
use arrayvec::ArrayVec;

/// Numbers of at most `PAGE_ROWS_MAX` rows and one more, rising: the first one, and how far each lies behind it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Numbers {
    first: u64,
    /// How far the last one lies behind the first one: a search would else fetch both ends first.
    span: u32,
    offsets: ArrayVec<u32, { PAGE_ROWS_MAX + 1 }>,
}

impl Numbers {
    /// These numbers, which rise, are not none, and of which the last one is [near](Numbers::are_near) the first one.
    pub(crate) fn of(numbers: impl Iterator<Item = RowNumber>) -> Numbers {
        let mut numbers = numbers.peekable();
        let first = numbers.peek().map_or(0, |number| number.0);
        let offsets: ArrayVec<u32, _> = numbers.map(|number| (number.0 - first) as u32).collect();
        Numbers { first, span: offsets.last().copied().unwrap_or(0), offsets }
    }

    /// Whether two numbers, the smaller one first, can be the first and the last one of a page.
    pub(crate) fn are_near(first: RowNumber, last: RowNumber) -> bool {
        last.0.saturating_sub(first.0) <= u64::from(u32::MAX)
    }

    pub(crate) fn first(&self) -> RowNumber {
        RowNumber(self.first)
    }

    pub(crate) fn last(&self) -> RowNumber {
        RowNumber(self.first + u64::from(self.span))
    }

    #[inline]
    pub(crate) fn at(&self, position: usize) -> RowNumber {
        RowNumber(self.first + u64::from(self.offsets[position]))
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = RowNumber> + '_ {
        self.offsets.iter().map(|offset| RowNumber(self.first + u64::from(*offset)))
    }

    /// About where the number lies, without a look at any number but the first and the last one.
    #[inline]
    pub(crate) fn guess(&self, number: RowNumber) -> usize {
        let offset = number.0.saturating_sub(self.first).min(u64::from(self.span));
        (offset * (self.offsets.len() as u64 - 1) / u64::from(self.span).max(1)) as usize
    }

    /// Where the number is, or where it would be.
    #[inline]
    pub(crate) fn search(&self, number: RowNumber) -> Result<usize, usize> {
        let count = self.offsets.len();
        if number.0 < self.first {
            return Err(0);
        }
        let Some(offset) = u32::try_from(number.0 - self.first).ok().filter(|offset| *offset <= self.span) else {
            return Err(count);
        };
        // Rows arrive evenly enough that the place where the number would lie is near the place where it lies: the search goes on from there in
        // doubled steps, mostly within one or two cache lines.
        let guess = self.guess(number);
        let mut step = 4;
        let (mut low, mut high);
        if self.offsets[guess] < offset {
            low = guess + 1;
            while low + step < count && self.offsets[low + step] < offset {
                low += step;
                step *= 2;
            }
            high = count.min(low + step + 1);
        } else {
            high = guess + 1;
            while high > step && self.offsets[high - 1 - step] > offset {
                high -= step;
                step *= 2;
            }
            low = high.saturating_sub(step + 1);
        }
        self.offsets[low..high].binary_search(&offset).map(|at| low + at).map_err(|at| low + at)
    }

    /// Puts a number at its position.
    pub(crate) fn insert(&mut self, position: usize, number: RowNumber) {
        if position == 0 {
            let more = (self.first - number.0) as u32;
            self.offsets.iter_mut().for_each(|offset| *offset += more);
            self.span += more;
            self.first = number.0;
        }
        let offset = (number.0 - self.first) as u32;
        self.span = self.span.max(offset);
        self.offsets.insert(position, offset);
    }

    /// Takes out the number at a position; another one stays.
    pub(crate) fn remove(&mut self, position: usize) {
        self.offsets.remove(position);
        if position == 0 {
            let less = self.offsets[0];
            self.offsets.iter_mut().for_each(|offset| *offset -= less);
            self.first += u64::from(less);
        }
        self.span = self.offsets.last().copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::Numbers;
    use crate::tree::tests::Random;
    use crate::words::RowNumber;

    fn numbers(random: &mut Random, spread: u64, most: u64) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..1 + random.below(most)).map(|_| (1 << 40) + random.below(spread)).collect();
        // Some pages are dense but for a few outliers.
        numbers.extend((0..random.below(2) * most / 2).map(|near| (1 << 40) + spread / 2 + near));
        numbers.sort_unstable();
        numbers.dedup();
        numbers.truncate(most as usize);
        numbers
    }

    #[test]
    fn a_number_is_found_where_a_binary_search_finds_it() {
        for seed in 0..2_000 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let spread = [130, 1_000, 1 << 20, u64::from(u32::MAX)][seed as usize % 4];
            let plain = numbers(&mut random, spread, 64);
            let numbers = Numbers::of(plain.iter().copied().map(RowNumber));
            assert!(numbers.iter().map(|number| number.0).eq(plain.iter().copied()));
            for number in plain.iter().flat_map(|number| [number - 1, *number, number + 1]).chain([0, u64::MAX >> 16]) {
                assert_eq!(numbers.search(RowNumber(number)), plain.binary_search(&number), "{number} in {plain:?}");
            }
        }
    }

    #[test]
    fn numbers_come_and_go_as_in_a_vector() {
        for seed in 0..500 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let mut plain = numbers(&mut random, 500, 30);
            let mut numbers = Numbers::of(plain.iter().copied().map(RowNumber));
            for _ in 0..100 {
                let number = (1 << 40) - 200 + random.below(900);
                match plain.binary_search(&number) {
                    Err(position) if plain.len() < 64 => {
                        plain.insert(position, number);
                        numbers.insert(position, RowNumber(number));
                    }
                    Ok(position) if plain.len() > 1 => {
                        plain.remove(position);
                        numbers.remove(position);
                    }
                    _ => {}
                }
                assert!(numbers.iter().map(|number| number.0).eq(plain.iter().copied()), "{plain:?}");
                let ends = (numbers.first().0, numbers.last().0);
                assert_eq!(ends, (plain[0], plain[plain.len() - 1]));
                assert_eq!(numbers.at(plain.len() / 2).0, plain[plain.len() / 2]);
            }
        }
    }
}
