//! The separators of an inner node: short byte strings in order, in one buffer.

#[derive(Clone, Default)]
pub(super) struct Separators {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// How many bytes all separators share; a search compares them once.
    shared: usize,
    /// The four bytes of each separator behind the shared ones, as a number: a search counts these and seldom looks further.
    heads: Vec<u32>,
}

/// The first four bytes as a number of the same order, a shorter text filled up with zeros.
#[inline]
fn head(bytes: &[u8]) -> u32 {
    match bytes.first_chunk::<4>() {
        Some(four) => u32::from_be_bytes(*four),
        None => {
            bytes.iter().enumerate().fold(0, |head, (position, byte)| head | u32::from(*byte) << (24 - 8 * position))
        }
    }
}

impl Separators {
    /// The position of the child that `key` belongs to: how many separators are not greater than it.
    #[inline]
    pub(super) fn child_of(&self, key: &[u8]) -> usize {
        if self.ends.is_empty() {
            return 0;
        }
        let prefix = &self.bytes[..self.shared];
        let rest = match key.strip_prefix(prefix) {
            Some(rest) => rest,
            None => return if key < prefix { 0 } else { self.ends.len() },
        };
        let wanted = head(rest);
        let less = self.heads.iter().map(|head| u32::from(*head < wanted)).sum::<u32>() as usize;
        let same = self.heads[less..].iter().take_while(|head| **head == wanted).count();
        let not_greater = |position: &usize| self.get(*position)[self.shared..] <= *rest;
        less + (less..less + same).take_while(not_greater).count()
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
        self.bytes.len() + size_of_val(&*self.ends) + size_of_val(&*self.heads)
    }

    /// Brings `shared` and `heads` up to date. What the first and the last share, all between them do.
    fn note_heads(&mut self) {
        self.shared = match self.ends.len() {
            0 => 0,
            count => self.get(0).iter().zip(self.get(count - 1)).take_while(|(left, right)| left == right).count(),
        };
        let mut heads = std::mem::take(&mut self.heads);
        heads.clear();
        heads.extend((0..self.ends.len()).map(|position| head(&self.get(position)[self.shared..])));
        self.heads = heads;
    }

    pub(super) fn push(&mut self, separator: &[u8]) {
        self.bytes.extend_from_slice(separator);
        self.ends.push(self.bytes.len() as u32);
        self.note_heads();
    }

    pub(super) fn append(&mut self, other: &Separators) {
        for position in 0..other.ends.len() {
            self.bytes.extend_from_slice(other.get(position));
            self.ends.push(self.bytes.len() as u32);
        }
        self.note_heads();
    }

    pub(super) fn insert(&mut self, position: usize, separator: &[u8]) {
        let start = self.start(position);
        self.bytes.splice(start..start, separator.iter().copied());
        self.ends.insert(position, start as u32);
        self.ends[position..].iter_mut().for_each(|end| *end += separator.len() as u32);
        self.note_heads();
    }

    pub(super) fn remove(&mut self, position: usize) -> Vec<u8> {
        let (start, end) = (self.start(position), self.ends[position] as usize);
        let removed: Vec<u8> = self.bytes.drain(start..end).collect();
        self.ends.remove(position);
        self.ends[position..].iter_mut().for_each(|end| *end -= removed.len() as u32);
        self.note_heads();
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
        for behind in position + 1..self.ends.len() {
            right.bytes.extend_from_slice(self.get(behind));
            right.ends.push(right.bytes.len() as u32);
        }
        right.note_heads();
        let separator = self.get(position).to_vec();
        self.bytes.truncate(self.start(position));
        self.ends.truncate(position);
        self.note_heads();
        (separator, right)
    }
}
