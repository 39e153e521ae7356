//! Walking the leaves of a tree in order, without allocating.

use super::{Children, Inner, LEVELS_MAX, Wanted};

/// Leaves in rising or falling order, borrowed from the tree.
#[derive(Clone)]
pub(crate) struct Leaves<'a, L> {
    /// The inner nodes from the root down, each with the child that comes next.
    path: [Option<(&'a Inner<L>, u32)>; LEVELS_MAX],
    depth: usize,
    rising: bool,
}

impl<'a, L> Leaves<'a, L> {
    pub(super) fn from_start(root: &'a Inner<L>) -> Self {
        Self::descend(root, true, |_| 0)
    }

    pub(super) fn from_key(root: &'a Inner<L>, key: &Wanted<'_>) -> Self {
        Self::descend(root, true, |node| node.separators.child_of(key))
    }

    pub(super) fn back_from(root: &'a Inner<L>, key: Option<&Wanted<'_>>) -> Self {
        Self::descend(root, false, |node| match key {
            Some(key) => node.separators.child_of(key),
            None => node.children.len().saturating_sub(1),
        })
    }

    fn descend(root: &'a Inner<L>, rising: bool, choose: impl Fn(&Inner<L>) -> usize) -> Self {
        let mut leaves = Leaves { path: [None; LEVELS_MAX], depth: 0, rising };
        let mut node = root;
        loop {
            let position = choose(node);
            leaves.path[leaves.depth] = Some((node, position as u32));
            match &node.children {
                Children::Leaves(_) => return leaves,
                Children::Inners(inners) => {
                    leaves.depth += 1;
                    node = &inners[position];
                }
            }
        }
    }

    /// Gives no more leaves.
    fn finish(&mut self) {
        self.path[0] = None;
        self.depth = 0;
    }

    /// The position after (or before) `position`; `u32::MAX` before the first, which no node has.
    #[inline]
    fn step(&self, position: u32) -> u32 {
        if self.rising { position + 1 } else { position.wrapping_sub(1) }
    }

    fn refill(&mut self) -> Option<()> {
        // Up to the first level that has a next child, then down along its near edge.
        loop {
            self.depth = self.depth.checked_sub(1)?;
            let (node, position) = self.path[self.depth]?;
            let next = self.step(position);
            let Children::Inners(inners) = &node.children else { return None };
            if let Some(child) = inners.get(next as usize) {
                self.path[self.depth] = Some((node, next));
                let mut node: &'a Inner<L> = child;
                loop {
                    self.depth += 1;
                    let edge = if self.rising { 0 } else { node.children.len().saturating_sub(1) };
                    self.path[self.depth] = Some((node, edge as u32));
                    match &node.children {
                        Children::Leaves(_) => return Some(()),
                        Children::Inners(inners) => node = &inners[edge],
                    }
                }
            }
        }
    }
}

impl<'a, L> Iterator for Leaves<'a, L> {
    type Item = &'a L;

    #[inline]
    fn next(&mut self) -> Option<&'a L> {
        loop {
            let (node, position) = self.path[self.depth]?;
            let Children::Leaves(leaves) = &node.children else { return None };
            if let Some(leaf) = leaves.get(position as usize) {
                self.path[self.depth] = Some((node, self.step(position)));
                return Some(leaf);
            }
            if self.refill().is_none() {
                self.finish();
                return None;
            }
        }
    }
}
