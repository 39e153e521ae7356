//! The separators of an inner node: short byte strings in order, in one buffer.

use super::order::Probe;

#[derive(Clone, Default)]
pub(super) struct Separators {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// How many bytes all separators share at least; a search compares them once.
    shared: usize,
}

impl Separators {
    /// The position of the child that `key` belongs to: how many separators are not greater than it.
    #[inline]
    pub(super) fn child_of(&self, key: &[u8]) -> usize {
        let Some(first) = self.ends.first() else { return 0 };
        let prefix = &self.bytes[..self.shared.min(*first as usize)];
        let compared = prefix.len().min(key.len());
        match prefix[..compared].cmp(&key[..compared]) {
            std::cmp::Ordering::Less => return self.ends.len(),
            std::cmp::Ordering::Greater => return 0,
            std::cmp::Ordering::Equal if compared < prefix.len() => return 0,
            std::cmp::Ordering::Equal => {}
        }
        let probe = Probe::new(&key[compared..]);
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = (low + high) / 2;
            let (start, end) = (self.start(middle) + compared, self.ends[middle] as usize);
            if probe.compare(&self.bytes, start, end).is_le() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    #[inline]
    pub(super) fn get(&self, position: usize) -> &[u8] {
        &self.bytes[self.start(position)..self.ends[position] as usize]
    }

    #[inline]
    fn start(&self, position: usize) -> usize {
        if position == 0 { 0 } else { self.ends[position - 1] as usize }
    }

    /// Bytes that they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.ends)
    }

    /// What the first and the last share, all between them do.
    fn note_shared(&mut self) {
        self.shared = match self.ends.len() {
            0 => 0,
            count => self.get(0).iter().zip(self.get(count - 1)).take_while(|(left, right)| left == right).count(),
        };
    }

    pub(super) fn push(&mut self, separator: &[u8]) {
        self.bytes.extend_from_slice(separator);
        self.ends.push(self.bytes.len() as u32);
        self.note_shared();
    }

    pub(super) fn append(&mut self, other: &Separators) {
        (0..other.ends.len()).for_each(|position| self.push(other.get(position)));
    }

    pub(super) fn insert(&mut self, position: usize, separator: &[u8]) {
        let start = self.start(position);
        self.bytes.splice(start..start, separator.iter().copied());
        self.ends.insert(position, start as u32);
        self.ends[position..].iter_mut().for_each(|end| *end += separator.len() as u32);
        self.note_shared();
    }

    pub(super) fn remove(&mut self, position: usize) -> Vec<u8> {
        let (start, end) = (self.start(position), self.ends[position] as usize);
        let removed: Vec<u8> = self.bytes.drain(start..end).collect();
        self.ends.remove(position);
        self.ends[position..].iter_mut().for_each(|end| *end -= removed.len() as u32);
        self.note_shared();
        removed
    }

    /// Removes the separator that goes with a child that goes: the one before it, for the first child the one after it.
    pub(super) fn remove_child(&mut self, child: usize) {
        if !self.ends.is_empty() {
            self.remove(child.saturating_sub(1));
        }
    }

    /// Keeps the first `position` separators; gives the one at `position` and those behind it.
    pub(super) fn split_at(&mut self, position: usize) -> (Vec<u8>, Separators) {
        let mut right = Separators::default();
        (position + 1..self.ends.len()).for_each(|behind| right.push(self.get(behind)));
        let separator = self.get(position).to_vec();
        self.bytes.truncate(self.start(position));
        self.ends.truncate(position);
        self.note_shared();
        (separator, right)
    }
}
